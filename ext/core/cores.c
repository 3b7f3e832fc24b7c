/* Usable cores: the affinity mask (taskset, SLURM, cpusets) and the control group's quota (docker --cpus). */
#define _GNU_SOURCE 1 /* sched_getaffinity */
#include "core/cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kolo_cores_of_quota(const char *cpu_max)
{
    char *end;
    long quota = strtol(cpu_max, &end, 10), period = strtol(end, NULL, 10); /* "max" reads as 0 */
    if (quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

static int read_quota(const char *path)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    return kolo_cores_of_quota(text);
}

/* The tightest quota of this process's control group and of those around it. */
static int smallest_quota(void)
{
    char line[4096] = "", path[4200];
    int smallest = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file) && strncmp(line, "0::", 3)) line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    char *group = strncmp(line, "0::", 3) ? line + strlen(line) : line + 3;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        int quota = read_quota(path);
        if (quota && (!smallest || quota < smallest)) smallest = quota;
        char *slash = strrchr(group, '/');
        if (!slash) return smallest;
        *slash = '\0';
    }
}

int kolo_cores_usable(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    int quota = smallest_quota();
    return quota && quota < cores ? quota : cores;
}
