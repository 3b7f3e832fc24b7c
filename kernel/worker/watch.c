#define _GNU_SOURCE
#include "worker/watch.h"
#include "worker/family.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

typedef struct room {
    uint64_t total, available; /* bytes */
} room;

static bool read_text(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, size - 1) : -1;
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

/* The number behind a word at the beginning of a line. */
static uint64_t number_after(const char *text, const char *word)
{
    for (const char *at = text; at; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        if (!strncmp(at, word, strlen(word))) return strtoull(at + strlen(word), NULL, 10);
    }
    return 0;
}

static room of_machine(void)
{
    char text[4096];
    if (!read_text("/proc/meminfo", text, sizeof text)) return (room){UINT64_MAX, UINT64_MAX};
    return (room){number_after(text, "MemTotal:") * 1024, number_after(text, "MemAvailable:") * 1024};
}

/* One control group: version 2 and 1 name their files differently. "max" reads as 0: no limit. */
static void narrow(room *r, const char *folder, const char *limit, const char *usage, const char *cached)
{
    char path[1200], text[8192];
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    uint64_t most = read_text(path, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
    if (!most || most >= r->total) return;
    snprintf(path, sizeof path, "%s/%s", folder, usage);
    uint64_t used = read_text(path, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    uint64_t spare = read_text(path, text, sizeof text) ? number_after(text, cached) : 0;
    used -= spare < used ? spare : used;
    uint64_t left = most > used ? most - used : 0;
    r->total = most;
    if (left < r->available) r->available = left;
}

/* This process's group and those above it: each may limit. */
static void narrow_by_groups(room *r, const char *root, char *group, bool second)
{
    for (;;) {
        char folder[1100];
        snprintf(folder, sizeof folder, "%s%s", root, group);
        if (second) narrow(r, folder, "memory.max", "memory.current", "inactive_file ");
        else narrow(r, folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ");
        char *slash = strrchr(group, '/');
        if (!slash) return;
        *slash = 0;
    }
}

static room look_around(void)
{
    room r = of_machine();
    char text[4096], *rest;
    if (!read_text("/proc/self/cgroup", text, sizeof text)) return r;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        if (!second || strlen(second) > 1000) continue;
        if (second == first + 1) narrow_by_groups(&r, "/sys/fs/cgroup", second + 1, true);
        else if (!strncmp(first, ":memory:", 8)) narrow_by_groups(&r, "/sys/fs/cgroup/memory", second + 1, false);
    }
    return r;
}

typedef struct count {
    uint64_t resident, largest_size;
    pid_t largest;
    unsigned processes, threads;
    bool exact; /* each page once, by the share that a process has in it: dear */
} count;

static uint64_t share_of(pid_t process)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)process);
    return read_text(path, text, sizeof text) ? number_after(text, "Pss:") * 1024 : 0;
}

static bool add(const relative *r, void *closure)
{
    count *c = closure;
    uint64_t size = c->exact && r->resident > 16 * MIB ? share_of(r->process) : r->resident;
    if (r->state == 'Z') return false;
    c->processes++;
    c->threads += r->threads;
    c->resident += size;
    if (size > c->largest_size) {
        c->largest_size = size;
        c->largest = r->process;
    }
    return true;
}

static long tasks_of_machine(void)
{
    char text[128];
    const char *slash = read_text("/proc/loadavg", text, sizeof text) ? strchr(text, '/') : NULL;
    return slash ? atol(slash + 1) : 0;
}

void watch_open(watch *w)
{
    const char *given = getenv("KOLO_CELLS_MEMORY");
    char *unit = NULL;
    *w = (watch){.limit = given ? strtoull(given, &unit, 10) : 0, .tasks = tasks_of_machine()};
    if (unit && (*unit == 'K' || *unit == 'k')) w->limit <<= 10;
    if (unit && (*unit == 'M' || *unit == 'm')) w->limit <<= 20;
    if (unit && (*unit == 'G' || *unit == 'g')) w->limit <<= 30;
}

static uint64_t reserve_of(uint64_t total)
{
    uint64_t reserve = total / 20;
    return reserve < 64 * MIB ? 64 * MIB : reserve > GIB ? GIB : reserve;
}

static void say_memory(char *sentence, size_t size, uint64_t held, uint64_t total)
{
    bool small = total < GIB;
    double unit = (double)(small ? MIB : GIB);
    snprintf(sentence, size, "ran out of memory: the cells' processes held %.*f %s of %.*f %s", small ? 0 : 1,
             (double)held / unit, small ? "MiB" : "GiB", small ? 0 : 1, (double)total / unit, small ? "MiB" : "GiB");
}

/* The first count adds up resident memory, and has shared pages more than once. Where it is high, a second one is
 * exact.
 */
static bool too_much_memory(const watch *w, const room *r, const count *rough, count *exact)
{
    bool short_of = r->available < reserve_of(r->total);
    bool above = w->limit && rough->resident > w->limit;
    if (!short_of && !above) return false;
    *exact = (count){.exact = true};
    family_each(add, exact);
    return (short_of && exact->resident > reserve_of(r->total)) || (w->limit && exact->resident > w->limit);
}

static bool too_many(const count *c, char *sentence, size_t size)
{
    bool processes = c->processes > WATCH_PROCESSES;
    if (!processes && c->threads <= WATCH_THREADS) return false;
    snprintf(sentence, size, "too many %s: cells had started %u, and %u are the most they may have",
             processes ? "processes" : "threads", processes ? c->processes : c->threads,
             processes ? WATCH_PROCESSES : WATCH_THREADS);
    return true;
}

bool watch_look(watch *w, pid_t worker, char *sentence, size_t size, pid_t *large)
{
    room r = look_around();
    long tasks = tasks_of_machine();
    *large = 0;
    w->close = r.available < 4 * reserve_of(r.total);
    if (r.available > 2 * reserve_of(r.total) && tasks < w->tasks + WATCH_PROCESSES / 2 && !w->limit) return false;
    count rough = {0}, exact;
    family_each(add, &rough);
    w->tasks = tasks - (long)rough.threads;
    w->close |= w->limit && rough.resident > w->limit / 2;
    if (too_many(&rough, sentence, size)) return true;
    if (!too_much_memory(w, &r, &rough, &exact)) return false;
    say_memory(sentence, size, exact.resident, w->limit && w->limit < r.total ? w->limit : r.total);
    if (exact.largest != worker && exact.largest_size > exact.resident / 2) *large = exact.largest;
    return true;
}

/* A process can fill a gigabyte in half a second. */
int watch_delay(const watch *w)
{
    return w->close ? 20 : 100;
}
