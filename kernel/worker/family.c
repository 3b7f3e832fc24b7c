#include "worker/family.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool look_up(pid_t process, relative *r)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const char *after = got ? strrchr(line, ')') : NULL;
    int parent = 0, session = 0;
    *r = (relative){.process = process};
    if (!after || sscanf(after + 1, " %c %d %*d %d", &r->state, &parent, &session) != 3) return false;
    r->parent = parent;
    r->session = session;
    return true;
}

/* The ancestor's child that leads to `r`; 0 when `r` does not descend from it. */
static pid_t branch_of(relative r, pid_t ancestor)
{
    for (int depth = 0; depth < 64 && r.parent != ancestor; depth++) {
        if (r.parent <= 1 || !look_up(r.parent, &r)) return 0;
    }
    return r.parent == ancestor ? r.process : 0;
}

bool family_each(bool (*visit)(const relative *r, void *closure), void *closure)
{
    DIR *folder = opendir("/proc");
    if (!folder) return false;
    bool any = false;
    for (struct dirent *entry; (entry = readdir(folder));) {
        pid_t process = atoi(entry->d_name);
        relative r;
        if (process <= 1 || process == getpid() || !look_up(process, &r)) continue;
        r.branch = branch_of(r, getpid());
        if (!r.branch) continue;
        any |= visit(&r, closure);
    }
    closedir(folder);
    return any;
}
