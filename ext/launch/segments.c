#define _GNU_SOURCE 1 /* asprintf */
#include "launch/segments.h"

#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts;
    (void)kind;
    (void)where;
    return remove(path);
}

void segments_remove(const char *folder)
{
    if (folder) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Locks a folder. Returns the descriptor, which must stay open for the lock; -1: another process has locked the folder,
 * or it does not exist any more. */
static int lock_folder(const char *folder)
{
    struct stat facts;
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return -1;
    bool ours = flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &facts) == 0 && facts.st_uid == geteuid();
    if (ours && facts.st_nlink > 0) return file;
    close(file);
    return -1;
}

char *segments_make(const char *base)
{
    for (int attempt = 0; attempt < 3; attempt++) { /* another sweep may remove a new folder before it is locked */
        char *folder = NULL;
        if (asprintf(&folder, "%s/kolorun-XXXXXX", base) < 0) return NULL;
        if (mkdtemp(folder) && lock_folder(folder) >= 0) return folder;
        free(folder);
    }
    return NULL;
}

void segments_sweep_up(const char *base)
{
    char *pattern = NULL;
    glob_t found = {0};
    if (asprintf(&pattern, "%s/kolorun-??????", base) < 0) return;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            int stale = lock_folder(found.gl_pathv[i]);
            if (stale < 0) continue;
            segments_remove(found.gl_pathv[i]);
            close(stale);
        }
    }
    globfree(&found);
    free(pattern);
}
