/* Data sets by name: where the files of "mnist" are looked for, and what there is when they are not found.
 *
 * KOLO_DATA is a folder that holds a folder for each data set, or the files themselves. Where it is not set the
 * library draws digits of its own, so that every lesson runs; where it is set, nothing is ever drawn in silence. */
#include "data/sources.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_NAME "mnist"

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* "train-images-idx3-ubyte", and the spellings that other copies of MNIST have. */
static bool find_file(char path[PATH_MAX], const char *folder, kolo_split split, const char *what)
{
    static const char *const prefixes[][2] = {{"train", "training"}, {"t10k", "test"}};
    static const char *const marks[] = {"-idx3", ".idx3", "-idx4", ".idx4", "-idx1", ".idx1"};
    for (int i = 0; i < 2 * 6 * 2; i++) {
        const char *prefix = prefixes[split == KOLO_TEST][i / 12], *mark = marks[i / 2 % 6];
        if ((mark[4] == '1') != (what[0] == 'l')) continue; /* labels have one dimension, images have more */
        int length = snprintf(path, PATH_MAX, "%s/%s-%s%s-ubyte%s", folder, prefix, what, mark, i % 2 ? ".gz" : "");
        if (length < PATH_MAX && is_there(path)) return true;
    }
    return false;
}

static bool holds_idx(const char *folder)
{
    char path[PATH_MAX];
    return find_file(path, folder, KOLO_TRAIN, "images") || find_file(path, folder, KOLO_TEST, "images");
}

static kolo_status read_folder(kolo_data **out, const char *folder, kolo_split split)
{
    char images[PATH_MAX], labels[PATH_MAX];
    const char *prefix = split == KOLO_TEST ? "t10k" : "train";
    if (!find_file(images, folder, split, "images"))
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted a file %s-images-idx3-ubyte or .gz in this folder, got none",
                         folder, prefix);
    if (!find_file(labels, folder, split, "labels"))
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted a file %s-labels-idx1-ubyte or .gz in this folder, got none",
                         folder, prefix);
    return kolo_idx_read(out, images, labels);
}

/* ------------------------------------------------------------------------------------------ KOLO_DATA */

/* What it names, or NULL. */
static const char *data_home(void)
{
    const char *home = getenv("KOLO_DATA");
    return home && *home ? home : NULL;
}

/* "mnist, fashion-mnist": the folders in KOLO_DATA, for a sentence. */
static void list_sets(char *list, size_t room, const char *home)
{
    size_t used = 0;
    DIR *folder = opendir(home);
    *list = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.') continue;
        if (snprintf(path, sizeof path, "%s/%s", home, entry->d_name) >= (int)sizeof path || !holds_idx(path)) continue;
        int more = snprintf(list + used, room - used, "%s%s", used ? ", " : "", entry->d_name);
        if (more < 0 || (size_t)more >= room - used) break;
        used += (size_t)more;
    }
    if (folder) closedir(folder);
    list[used] = 0;
    if (!used) snprintf(list, room, "no data set");
}

/* Files that lie in KOLO_DATA itself are "mnist", or what the folder is called. */
static bool files_are(const char *home, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", home);
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--) path[end - 1] = 0;
    const char *last = strrchr(path, '/');
    last = last ? last + 1 : path;
    bool other = strcmp(last, "fashion-mnist") == 0;
    return strcmp(last, name) == 0 || (strcmp(name, DEFAULT_NAME) == 0 && !other);
}

static kolo_status no_such_set(const char *name, const char *home)
{
    char list[256];
    if (!home)
        return kolo_fail(KOLO_NOT_FOUND,
                         "wanted \"synthetic\", a folder of IDX files, or a data set of the folder that KOLO_DATA"
                         " names (it is not set), got \"%s\"",
                         name);
    list_sets(list, sizeof list, home);
    return kolo_fail(KOLO_NOT_FOUND,
                     "wanted \"synthetic\", a folder of IDX files, or a data set of KOLO_DATA=%s (%s), got \"%s\"",
                     home, list, name);
}

static kolo_status read_named(kolo_data **out, const char *name, kolo_split split)
{
    char path[PATH_MAX];
    const char *home = data_home();
    if (home && snprintf(path, sizeof path, "%s/%s", home, name) < (int)sizeof path && is_folder(path) && *name != '/')
        return read_folder(out, path, split);
    if (home && files_are(home, name) && holds_idx(home)) return read_folder(out, home, split);
    if (is_folder(name)) return read_folder(out, name, split);
    if (is_there(name)) return kolo_fail(KOLO_FORMAT, "%s: wanted a folder that holds IDX files, got a file", name);
    return no_such_set(name, home);
}

static kolo_status read_default(kolo_data **out, kolo_split split)
{
    static bool said;
    const char *home = data_home();
    if (!home) {
        if (!__atomic_test_and_set(&said, __ATOMIC_RELAXED))
            kolo_warn("KOLO_DATA is not set: training on digits that Kolo draws itself, not on MNIST");
        return kolo_digits_draw(out, split, 0, 0);
    }
    if (!is_folder(home)) return kolo_fail(KOLO_NOT_FOUND, "KOLO_DATA: wanted a folder, got \"%s\"", home);
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" DEFAULT_NAME, home) < (int)sizeof path && is_folder(path))
        return read_folder(out, path, split);
    if (holds_idx(home)) return read_folder(out, home, split);
    return kolo_fail(KOLO_NOT_FOUND, "KOLO_DATA=%s: wanted a folder " DEFAULT_NAME " or IDX files in it, got neither",
                     home);
}

static kolo_status read_dataset(kolo_data **out, const char *name, kolo_split split)
{
    if (split != KOLO_TRAIN && split != KOLO_TEST)
        return kolo_fail(KOLO_INVALID, "wanted KOLO_TRAIN or KOLO_TEST, got %d", (int)split);
    if (!name) return read_default(out, split);
    if (!*name) return kolo_fail(KOLO_INVALID, "wanted the name of a data set or a folder, got an empty name");
    if (strcmp(name, "synthetic") == 0) return kolo_digits_draw(out, split, 0, 0);
    return read_named(out, name, split);
}

kolo_data *kolo_dataset_at(const char *name, kolo_split split, kolo_here here)
{
    kolo_data *data = NULL;
    kolo_scope scope = kolo_enter(name ? "kolo_dataset" : "kolo_mnist", here);
    return kolo_leave(scope, read_dataset(&data, name, split)) == KOLO_OK ? data : NULL;
}
