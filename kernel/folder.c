#define _GNU_SOURCE
#include "folder.h"
#include "cells/text.h"
#include "worker/segments.h"

#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void folder_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The lock's descriptor stays open as long as the process lives: the system releases the lock also when the process is
 * killed. */
static int lock_folder(const char *folder, int flags)
{
    char *path = format_text("%s/lock", folder);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    free(path);
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    close(file);
    return -1;
}

void folder_remove_session(const char *folder)
{
    char *ranks = format_text("%s-ranks", folder), *segments = segments_folder(folder),
         *of_ranks = segments_folder(ranks);
    const char *const all[] = {segments, of_ranks, folder};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]) folder_remove(all[i]);
    }
    free(ranks);
    free(segments);
    free(of_ranks);
}

/* A folder without a lock is somebody else's, or not ready yet. */
static void sweep_up(const char *base)
{
    char *pattern = format_text("%s/kolo-??????", base);
    glob_t found = {0};
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct stat facts;
            bool mine = lstat(found.gl_pathv[i], &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == getuid();
            int stale = mine ? lock_folder(found.gl_pathv[i], 0) : -1;
            if (stale < 0) continue;
            folder_remove_session(found.gl_pathv[i]);
            close(stale);
        }
    }
    globfree(&found);
    free(pattern);
}

char *folder_make(void)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (!base || strlen(base) > 40 || access(base, W_OK)) base = "/tmp";
    sweep_up(base);
    char *folder = format_text("%s/kolo-XXXXXX", base);
    bool made = mkdtemp(folder) != NULL;
    if (made && lock_folder(folder, O_CREAT) >= 0) return folder;
    if (made) rmdir(folder);
    free(folder);
    return NULL;
}
