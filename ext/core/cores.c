/* The usable cores, from the affinity mask (taskset, SLURM, cpusets) and the control group's CPU quota (docker --cpus),
 * and the control group's memory limit. */
#define _GNU_SOURCE 1 /* sched_getaffinity */
#include "core/cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t kolo_cores_of_quota(const char *cpu_max)
{
    char *end;
    long quota = strtol(cpu_max, &end, 10), period = strtol(end, NULL, 10); /* "max" reads as 0 */
    if (quota <= 0 || period <= 0) return 0;
    return (quota + period - 1) / period;
}

static int64_t bytes_of(const char *text)
{
    return strtoll(text, NULL, 10); /* "max" reads as 0 */
}

static int64_t read_limit(const char *path, int64_t (*limit_of)(const char *text))
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    return limit_of(text);
}

/* The smallest limit of this process's control group and its parent groups; 0: no limit. */
static int64_t smallest_limit(const char *name, int64_t (*limit_of)(const char *text))
{
    char line[4096] = "", path[4200];
    int64_t smallest = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file) && strncmp(line, "0::", 3)) line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    char *group = strncmp(line, "0::", 3) ? line + strlen(line) : line + 3;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
        int64_t limit = read_limit(path, limit_of);
        if (limit > 0 && (!smallest || limit < smallest)) smallest = limit;
        char *slash = strrchr(group, '/');
        if (!slash) return smallest;
        *slash = '\0';
    }
}

int64_t kolo_memory_limit(void)
{
    return smallest_limit("memory.max", bytes_of);
}

int kolo_cores_usable(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    int quota = (int)smallest_limit("cpu.max", kolo_cores_of_quota);
    return quota && quota < cores ? quota : cores;
}
