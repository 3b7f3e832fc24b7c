/* Writing files that appear completely or not at all, even if the process is killed. The bytes are written to a file
 * without a name, or to a temporary file beside the target if the file system has no such files. The file is then
 * synced to the disk and put in the target's place. */
#ifndef KOLO_CORE_FILE_H
#define KOLO_CORE_FILE_H

#include "core/error.h"

#include <limits.h>

typedef struct kolo_file {
    const char *path;      /* the caller's text, for messages; must remain valid until the file is complete */
    char target[PATH_MAX]; /* the file to write: path with symbolic links followed, so that links remain links */
    char temporary[PATH_MAX]; /* name of the unfinished file; "": it has no name */
    int fd; /* of the unfinished file; -1: none */
} kolo_file;

/* Begins a file. On failure there is nothing to abandon. An existing file keeps its permissions. A file without
 * permission to write, a folder or a device is an error. */
kolo_status kolo_file_begin(kolo_file *file, const char *path);
kolo_status kolo_file_add(kolo_file *file, const void *bytes, size_t size);
/* Puts the file in the target's place. On failure the file has been abandoned. */
kolo_status kolo_file_commit(kolo_file *file);
/* Removes the bytes written so far; the target has not changed. */
void kolo_file_abandon(kolo_file *file);

/* Begins, adds and commits in one call. */
kolo_status kolo_file_write(const char *path, const void *bytes, size_t size);

/* Fails if kolo_file_begin() would fail. Changes nothing. */
kolo_status kolo_check_writable(const char *path);

#endif
