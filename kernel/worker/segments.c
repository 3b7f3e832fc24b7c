#define _GNU_SOURCE
#include "worker/segments.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

char *segments_folder(const char *session)
{
    char *folder = NULL;
    const char *slash = strrchr(session, '/');
    return asprintf(&folder, "/dev/shm/%s", slash ? slash + 1 : session) < 0 ? NULL : folder;
}

bool segments_make(const char *folder)
{
    struct stat facts;
    mkdir(folder, 0700);
    return lstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid();
}

static int remove_inner(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts;
    (void)kind;
    if (where->level > 0) remove(path); /* what resists does not save the rest */
    return 0;
}

void folder_empty(const char *path)
{
    nftw(path, remove_inner, 16, FTW_DEPTH | FTW_PHYS);
}

void folder_delete(const char *path)
{
    for (int i = 0; path && i < 200; i++) {
        folder_empty(path);
        if (rmdir(path) == 0 || errno == ENOENT) return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}
