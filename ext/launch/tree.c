/* Finding descendants in /proc: the kernel has no list of them, and a program may have left its process group. */
#include "launch/tree.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct process {
    pid_t pid, parent;
    bool below;
    unsigned long computed; /* clock ticks */
};

struct table {
    struct process *process;
    size_t count;
};

void tree_adopt_orphans(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* The sum of the fields 14 to 17 of /proc/PID/stat: see proc(5). `after` is at the end of field 2, and field 3 is a
 * letter. */
static unsigned long computed_of(const char *after)
{
    unsigned long sum = 0;
    char *at = (char *)after + 3;
    for (int field = 4; field <= 17; field++) {
        unsigned long value = strtoul(at, &at, 10);
        if (field >= 14) sum += value;
    }
    return sum;
}

/* Reads /proc/PID/stat: "pid (name) state parent ...", where the name may contain any characters. False for zombies and
 * dead processes. */
static bool read_process(const char *pid, struct process *process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *after = strrchr(text, ')');
    if (!after || strlen(after) < 4 || after[2] == 'Z' || after[2] == 'X') return false;
    *process = (struct process){.pid = (pid_t)strtol(pid, NULL, 10),
                                .parent = (pid_t)strtol(after + 3, NULL, 10),
                                .computed = computed_of(after)};
    return true;
}

static struct table read_table(void)
{
    struct table table = {0};
    size_t capacity = 0;
    DIR *folder = opendir("/proc");
    if (!folder) return table;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct process process;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !read_process(entry->d_name, &process)) continue;
        if (table.count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            struct process *grown = realloc(table.process, capacity * sizeof *grown);
            if (!grown) break;
            table.process = grown;
        }
        table.process[table.count++] = process;
    }
    closedir(folder);
    return table;
}

static bool is_below(const struct table *table, const struct process *process, pid_t root)
{
    if (process->parent == root) return true;
    for (size_t i = 0; i < table->count; i++)
        if (table->process[i].pid == process->parent) return table->process[i].below;
    return false;
}

/* Marks the processes below `root`, and sends them `signal`, unless it is 0. A child may precede its parent in the
 * table, so this repeats until no more are found. */
static int mark_below(struct table *table, pid_t root, int signal)
{
    int found = 0;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *process = &table->process[i];
            if (process->below || process->pid == root || !is_below(table, process, root)) continue;
            process->below = more = true;
            found++;
            if (signal) kill(process->pid, signal);
        }
    }
    return found;
}

int tree_signal(pid_t root, int signal)
{
    struct table table = read_table();
    int found = mark_below(&table, root, signal);
    free(table.process);
    return found;
}

long tree_computed(pid_t root)
{
    struct table table = read_table();
    unsigned long ticks = 0;
    mark_below(&table, root, 0);
    for (size_t i = 0; i < table.count; i++) ticks += table.process[i].below ? table.process[i].computed : 0;
    free(table.process);
    return (long)(1000 * ticks / (unsigned long)sysconf(_SC_CLK_TCK));
}

int tree_end(void)
{
    int left = 0;
    for (int turn = 0; turn < 100; turn++) {
        left = tree_signal(getpid(), SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
        if (!left) return 0;
        nanosleep(&(struct timespec){.tv_nsec = turn < 10 ? 2000000 : 20000000}, NULL);
    }
    return left;
}
