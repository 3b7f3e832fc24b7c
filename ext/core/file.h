/* Files that appear whole or not at all, whenever the process is killed: written without a name where the file system
 * can, beside the target elsewhere, made safe on the disk, then put in the target's place. */
#ifndef KOLO_CORE_FILE_H
#define KOLO_CORE_FILE_H

#include "core/error.h"

#include <limits.h>

typedef struct kolo_file {
    const char *path;      /* as the caller wrote it, for sentences; must outlive the writing */
    char target[PATH_MAX]; /* what it names, symbolic links followed: those stay links */
    char temporary[PATH_MAX]; /* "": it has no name yet */
    int fd;
} kolo_file;

/* Begins a file. On failure there is nothing to abandon. A file that exists keeps its permissions; one that may not be
 * written, a folder or a device is refused. */
kolo_status kolo_file_begin(kolo_file *file, const char *path);
kolo_status kolo_file_add(kolo_file *file, const void *bytes, size_t size);
/* Puts it in the target's place. On failure it has been abandoned. */
kolo_status kolo_file_commit(kolo_file *file);
/* Removes what was written so far; the target is as it was. */
void kolo_file_abandon(kolo_file *file);

/* All four in one. */
kolo_status kolo_file_write(const char *path, const void *bytes, size_t size);

/* Whether kolo_file_begin() could: tries, and leaves nothing behind. */
kolo_status kolo_check_writable(const char *path);

#endif
