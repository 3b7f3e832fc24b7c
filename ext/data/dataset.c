/* Data sets by name: where the files of "mnist" are looked for, and what replaces them if there are none.
 *
 * KOLO_DATA is a folder that holds a folder for each data set, or the files themselves. If it is not set, and `make
 * data` has fetched no files, a published set is replaced by a synthetic one, with a warning, so that every lesson
 * runs. If it is set, missing files are an error. */
#include "data/cifar.h"
#include "data/higgs.h"
#include "data/sources.h"

#include <dirent.h>
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

/* Finds "train-images-idx3-ubyte", or one of the spellings in other copies of MNIST. */
static bool find_file(char path[PATH_MAX], const char *folder, kolo_split split, const char *what)
{
    static const char *const prefixes[][2] = {{"train", "training"}, {"t10k", "test"}};
    static const char *const marks[] = {"-idx3", ".idx3", "-idx4", ".idx4", "-idx1", ".idx1"};
    static const char *const endings[] = {"", ".gz", ".xz"};
    for (int i = 0; i < 2 * 6 * 3; i++) {
        const char *prefix = prefixes[split == KOLO_TEST][i / 18], *mark = marks[i / 3 % 6];
        if ((mark[4] == '1') != (what[0] == 'l')) continue; /* labels have one dimension, images have more */
        int length = snprintf(path, PATH_MAX, "%s/%s-%s%s-ubyte%s", folder, prefix, what, mark, endings[i % 3]);
        if (length < PATH_MAX && is_there(path)) return true;
    }
    return false;
}

static bool holds_idx(const char *folder)
{
    char path[PATH_MAX];
    return find_file(path, folder, KOLO_TRAIN, "images") || find_file(path, folder, KOLO_TEST, "images");
}

static kolo_status read_idx(kolo_arrays *arrays, const char *folder, kolo_split split)
{
    char images[PATH_MAX], labels[PATH_MAX];
    const char *prefix = split == KOLO_TEST ? "t10k" : "train";
    if (!find_file(images, folder, split, "images"))
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted a file %s-images-idx3-ubyte or .gz in this folder, got none",
                         folder, prefix);
    if (!find_file(labels, folder, split, "labels"))
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted a file %s-labels-idx1-ubyte or .gz in this folder, got none",
                         folder, prefix);
    return kolo_idx_read(arrays, images, labels);
}

/* ------------------------------------------------------------------------------------------ kinds of folders */

typedef struct folder_kind {
    bool (*in)(const char *folder);
    kolo_status (*read)(kolo_arrays *arrays, const char *folder, kolo_split split);
    const char *files; /* for errors */
} folder_kind;

static const folder_kind idx_folder = {holds_idx, read_idx, "IDX files"},
                         cifar_folder = {kolo_cifar_in, kolo_cifar_read, "CIFAR's binary batches"},
                         higgs_folder = {kolo_higgs_in, kolo_higgs_read, "a HIGGS table"};

/* The kind of data set whose files a folder holds, or NULL. */
static const folder_kind *kind_of(const char *folder)
{
    static const folder_kind *const kinds[] = {&idx_folder, &cifar_folder, &higgs_folder};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->in(folder)) return kinds[i];
    return NULL;
}

/* A published set: the kind of its folder, and the synthetic set that replaces it. */
typedef struct published_set {
    const char *name;
    const folder_kind *kind;
    kolo_status (*draw)(kolo_arrays *arrays, kolo_split split);
    const char *drawn, *title; /* names of the synthetic and of the published set, for the warning */
} published_set;

static kolo_status draw_digits(kolo_arrays *arrays, kolo_split split)
{
    return kolo_digits_draw(arrays, split, 0, 0);
}

static kolo_status draw_clothes(kolo_arrays *arrays, kolo_split split)
{
    return kolo_images_draw(arrays, &(kolo_synthetic_images_args){.split = split, .shape = {28, 28, 1}});
}

static kolo_status draw_images(kolo_arrays *arrays, kolo_split split)
{
    return kolo_images_draw(arrays, &(kolo_synthetic_images_args){.split = split});
}

static kolo_status draw_table(kolo_arrays *arrays, kolo_split split)
{
    return kolo_table_draw(arrays, &(kolo_synthetic_table_args){.split = split});
}

static const published_set published[] = {
    {"mnist", &idx_folder, draw_digits, "digits", "MNIST"},
    {"fashion-mnist", &idx_folder, draw_clothes, "images", "Fashion-MNIST"},
    {"cifar-10", &cifar_folder, draw_images, "images", "CIFAR-10"},
    {"higgs", &higgs_folder, draw_table, "a table", "HIGGS"},
};
enum { PUBLISHED = sizeof published / sizeof *published };

static const published_set *find_published(const char *name)
{
    for (int i = 0; i < PUBLISHED; i++)
        if (strcmp(published[i].name, name) == 0) return &published[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------------ KOLO_DATA */

/* The folder that KOLO_DATA names; NULL if it is unset or empty. */
static const char *data_home(void)
{
    const char *home = getenv("KOLO_DATA");
    return home && *home ? home : NULL;
}

/* Writes "mnist, fashion-mnist", the data sets in KOLO_DATA, for an error. */
static void list_sets(char *list, size_t room, const char *home)
{
    size_t used = 0;
    DIR *folder = opendir(home);
    *list = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.') continue;
        if (snprintf(path, sizeof path, "%s/%s", home, entry->d_name) >= (int)sizeof path || !kind_of(path)) continue;
        int more = snprintf(list + used, room - used, "%s%s", used ? ", " : "", entry->d_name);
        if (more < 0 || (size_t)more >= room - used) break;
        used += (size_t)more;
    }
    if (folder) closedir(folder);
    list[used] = 0;
    if (!used) snprintf(list, room, "no data set");
}

/* Whether files directly in KOLO_DATA are the set `name`: they are the set that the folder is called after, and
 * "mnist" unless the folder is called "fashion-mnist". */
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
                         "wanted \"synthetic\", a folder of a data set's files, or a data set of the folder that"
                         " KOLO_DATA names (it is not set), got \"%s\"",
                         name);
    list_sets(list, sizeof list, home);
    return kolo_fail(KOLO_NOT_FOUND,
                     "wanted \"synthetic\", a folder of a data set's files, or a data set of KOLO_DATA=%s (%s), got"
                     " \"%s\"",
                     home, list, name);
}

/* Writes the path HOME/name; false if that is not a folder. */
static bool folder_in(char path[PATH_MAX], const char *home, const char *name)
{
    return *name != '/' && snprintf(path, PATH_MAX, "%s/%s", home, name) < PATH_MAX && is_folder(path);
}

static kolo_status read_folder(kolo_arrays *arrays, const char *folder, const published_set *set, kolo_split split)
{
    const folder_kind *kind = kind_of(folder);
    if (!kind) kind = set ? set->kind : &idx_folder; /* its read() then reports the missing files */
    return kind->read(arrays, folder, split);
}

bool kolo_data_cache(char path[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *user = getenv("HOME");
    if (cache && *cache == '/') return snprintf(path, PATH_MAX, "%s/kolo", cache) < PATH_MAX;
    return user && *user == '/' && snprintf(path, PATH_MAX, "%s/.cache/kolo", user) < PATH_MAX;
}

/* Without KOLO_DATA: reads the set that `make data` fetched, or else draws one, with a warning once for each set. */
static kolo_status read_without_kolo_data(kolo_arrays *arrays, const published_set *set, kolo_split split)
{
    static bool said[PUBLISHED];
    char cache[PATH_MAX], path[PATH_MAX];
    if (kolo_data_cache(cache) && folder_in(path, cache, set->name) && kind_of(path))
        return read_folder(arrays, path, set, split);
    if (!__atomic_test_and_set(&said[set - published], __ATOMIC_RELAXED))
        kolo_warn("KOLO_DATA is not set: training on %s that Kolo draws itself, not on %s", set->drawn, set->title);
    return set->draw(arrays, split);
}

static kolo_status read_named(kolo_arrays *arrays, const char *name, kolo_split split)
{
    char path[PATH_MAX];
    const char *home = data_home();
    const published_set *set = find_published(name);
    if (home && folder_in(path, home, name)) return read_folder(arrays, path, set, split);
    if (home && files_are(home, name) && kind_of(home)) return read_folder(arrays, home, set, split);
    if (is_folder(name)) return read_folder(arrays, name, set, split);
    if (set && !home) return read_without_kolo_data(arrays, set, split);
    if (is_there(name))
        return kolo_fail(KOLO_FORMAT, "%s: wanted a folder that holds a data set's files, got a file", name);
    return no_such_set(name, home);
}

/* Reads a published set for its own call, such as kolo_mnist(): files directly in KOLO_DATA are taken for that set,
 * whatever the folder is called. */
static kolo_status read_published(kolo_arrays *arrays, const published_set *set, kolo_split split)
{
    char path[PATH_MAX];
    const char *home = data_home();
    if (!home) return read_without_kolo_data(arrays, set, split);
    if (!is_folder(home)) return kolo_fail(KOLO_NOT_FOUND, "KOLO_DATA: wanted a folder, got \"%s\"", home);
    if (folder_in(path, home, set->name)) return read_folder(arrays, path, set, split);
    if (set->kind->in(home)) return set->kind->read(arrays, home, split);
    return kolo_fail(KOLO_NOT_FOUND, "KOLO_DATA=%s: wanted a folder %s or %s in it, got neither", home, set->name,
                     set->kind->files);
}

static kolo_status read_dataset(kolo_arrays *arrays, const char *name, const char *set, kolo_split split)
{
    if (split != KOLO_TRAIN && split != KOLO_TEST)
        return kolo_fail(KOLO_INVALID, "split: wanted KOLO_TRAIN or KOLO_TEST, got %d", (int)split);
    if (!name) return read_published(arrays, find_published(set), split);
    if (!*name) return kolo_fail(KOLO_INVALID, "wanted the name of a data set or a folder, got an empty name");
    if (strcmp(name, "synthetic") == 0) return kolo_digits_draw(arrays, split, 0, 0);
    return read_named(arrays, name, split);
}

/* The public call `call`: reads the data set `name`, or, if that is NULL, the published set `set`. */
static kolo_data *dataset(const char *call, const char *name, const char *set, kolo_split split, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter(call, here);
    return kolo_arrays_leave(scope, read_dataset(&arrays, name, set, split), &arrays);
}

kolo_data *kolo_dataset_at(const char *name, kolo_split split, kolo_here here)
{
    return dataset(name ? "kolo_dataset" : "kolo_mnist", name, DEFAULT_NAME, split, here);
}

kolo_data *kolo_cifar10_at(kolo_split split, kolo_here here)
{
    return dataset("kolo_cifar10", NULL, "cifar-10", split, here);
}

kolo_data *kolo_higgs_at(kolo_split split, kolo_here here)
{
    return dataset("kolo_higgs", NULL, "higgs", split, here);
}
