/* NumPy's .npz archives: a zip of .npy files, stored or deflated. Read npy.h first. */
#include "data/npy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zip.h>

#define DEFLATE_RATIO 1032 /* deflate's largest compression ratio (zlib's technical notes) */

/* "x_train, y_train, …": the arrays of the archive, for an error. */
static const char *list_of(zip_t *archive)
{
    const char *list = "";
    zip_int64_t count = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < count && i < 8; i++) {
        const char *name = zip_get_name(archive, (zip_uint64_t)i, 0);
        size_t length = name ? strlen(name) : 0;
        if (length > 4 && strcmp(name + length - 4, ".npy") == 0) length -= 4;
        list = kolo_phrase("%s%s%.*s", list, i ? ", " : "", (int)(length < 40 ? length : 40), name ? name : "");
    }
    return count > 8 ? kolo_phrase("%s, …", list) : count ? list : "nothing";
}

static kolo_status damaged(const char *path, const char *name, const char *why)
{
    return kolo_fail(KOLO_FORMAT, "%s: %s: damaged: %s", path, name, why);
}

/* Checks the sizes that the archive states: the compressed bytes must be able to hold so much. */
static kolo_status check_entry(const char *path, const char *name, const zip_stat_t *entry)
{
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_INDEX;
    struct stat info;
    if ((entry->valid & needed) != needed || stat(path, &info) != 0)
        return damaged(path, name, "its sizes are missing");
    if (entry->comp_size > (zip_uint64_t)info.st_size || entry->size / DEFLATE_RATIO > entry->comp_size)
        return damaged(path, name, "its sizes cannot be");
    return KOLO_OK;
}

static kolo_status read_entry(zip_file_t *file, const char *path, const char *name, uint8_t *bytes, zip_uint64_t size)
{
    for (zip_uint64_t done = 0; done < size;) {
        zip_int64_t got = zip_fread(file, bytes + done, size - done);
        if (got < 0) return damaged(path, name, zip_error_strerror(zip_file_get_error(file)));
        if (got == 0) return damaged(path, name, "it stops before its end");
        done += (zip_uint64_t)got;
    }
    char beyond; /* at the end libzip compares the checksum */
    if (zip_fread(file, &beyond, 1) != 0) return damaged(path, name, zip_error_strerror(zip_file_get_error(file)));
    return KOLO_OK;
}

static kolo_status read_found(zip_t *archive, const char *path, const char *name, const zip_stat_t *entry,
                              kolo_npy_array *array)
{
    KOLO_TRY(check_entry(path, name, entry));
    zip_file_t *file = zip_fopen_index(archive, entry->index, 0);
    if (!file) return damaged(path, name, zip_strerror(archive));
    uint8_t *bytes = malloc(entry->size + 1);
    kolo_status status = bytes ? read_entry(file, path, name, bytes, entry->size)
                               : kolo_fail_memory((size_t)entry->size, "an array of an NPZ file");
    zip_fclose(file);
    if (status == KOLO_OK) return kolo_npy_parse(kolo_phrase("%s: %s", path, name), bytes, (int64_t)entry->size, array);
    free(bytes);
    return status;
}

static kolo_status open_archive(const char *path, zip_t **archive)
{
    int code;
    if ((*archive = zip_open(path, ZIP_RDONLY, &code))) return KOLO_OK;
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    kolo_status status = code == ZIP_ER_NOENT ? KOLO_NOT_FOUND : code == ZIP_ER_OPEN ? KOLO_IO : KOLO_FORMAT;
    kolo_fail(status, "%s: wanted an NPZ file (a zip archive of NumPy's), got: %s", path, zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
}

kolo_status kolo_npz_read(const char *path, const char *name, kolo_npy_array *array)
{
    zip_t *archive;
    zip_stat_t entry;
    struct stat info;
    *array = (kolo_npy_array){0};
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return kolo_fail(KOLO_FORMAT, "%s: wanted a file, got a folder, a device or a pipe", path);
    KOLO_TRY(open_archive(path, &archive));
    const char *full = kolo_phrase("%s.npy", name);
    kolo_status status;
    if (zip_stat(archive, full, 0, &entry) == 0 || zip_stat(archive, name, 0, &entry) == 0)
        status = read_found(archive, path, name, &entry, array);
    else status = kolo_fail(KOLO_NOT_FOUND, "%s: wanted an array \"%s\", got %s", path, name, list_of(archive));
    zip_discard(archive);
    return status;
}
