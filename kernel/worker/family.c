#define _GNU_SOURCE
#include "worker/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct census {
    relative *all;
    size_t count, capacity;
} census;

static bool look_up(int folder, const char *name, relative *r)
{
    char path[300], line[512];
    snprintf(path, sizeof path, "%s/stat", name);
    int file = openat(folder, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, line, sizeof line - 1) : -1;
    if (file >= 0) close(file);
    if (got <= 0) return false;
    line[got] = 0;
    const char *after = strrchr(line, ')');
    int parent = 0, session = 0;
    unsigned long pages = 0;
    *r = (relative){.process = atoi(name)};
    if (!after ||
        sscanf(after + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u %*d %*u %*u %lu",
               &r->state, &parent, &session, &r->threads, &pages) != 5)
        return false;
    r->parent = parent;
    r->session = session;
    r->resident = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

static bool add(census *c, const relative *r)
{
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 256;
        relative *grown = reallocarray(c->all, capacity, sizeof *grown);
        if (!grown) return false;
        c->all = grown;
        c->capacity = capacity;
    }
    c->all[c->count++] = *r;
    return true;
}

static int by_process(const void *a, const void *b)
{
    const relative *one = a, *other = b;
    return (one->process > other->process) - (one->process < other->process);
}

static census take_census(void)
{
    census c = {0};
    DIR *folder = opendir("/proc");
    if (!folder) return c;
    int place = dirfd(folder);
    for (struct dirent *entry; place >= 0 && (entry = readdir(folder));) {
        relative r;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !look_up(place, entry->d_name, &r)) continue;
        if (!add(&c, &r)) break;
    }
    closedir(folder);
    if (c.count) qsort(c.all, c.count, sizeof *c.all, by_process);
    return c;
}

enum { UNKNOWN = 0, STRANGER = -1 };

/* The ancestor's child that leads to `r`, remembered for those below it. */
static pid_t branch_of(const census *c, relative *r, pid_t ancestor, unsigned depth)
{
    if (r->branch != UNKNOWN) return r->branch;
    const relative wanted = {.process = r->parent};
    relative *parent = bsearch(&wanted, c->all, c->count, sizeof *c->all, by_process);
    if (r->parent == ancestor) r->branch = r->process;
    else if (!parent || depth > c->count || depth > 20000) r->branch = STRANGER;
    else r->branch = branch_of(c, parent, ancestor, depth + 1);
    return r->branch;
}

bool family_each(bool (*visit)(const relative *r, void *closure), void *closure)
{
    census c = take_census();
    bool any = false;
    for (size_t i = 0; i < c.count; i++) {
        relative *r = &c.all[i];
        if (r->process != getpid() && branch_of(&c, r, getpid(), 0) > 0) any |= visit(r, closure);
    }
    free(c.all);
    return any;
}

bool everyone_of_user(bool (*visit)(const relative *r, void *closure), void *closure)
{
    census c = take_census();
    bool any = false;
    for (size_t i = 0; i < c.count; i++) {
        char path[64];
        struct stat facts;
        snprintf(path, sizeof path, "/proc/%d", (int)c.all[i].process);
        if (stat(path, &facts) == 0 && facts.st_uid == getuid()) any |= visit(&c.all[i], closure);
    }
    free(c.all);
    return any;
}
