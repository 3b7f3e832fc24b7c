/* SLURM's allocation. Its node lists, such as dgx[01-04,07], are expanded by its own tool, scontrol. */
#define _GNU_SOURCE 1 /* pipe2 */
#include "launch/slurm.h"

#include "launch/allocation.h"
#include "launch/say.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Reads a number from 1 to INT_MAX and moves behind it; 0 if there is none. */
static int read_number(const char **at)
{
    size_t digits = strspn(*at, "0123456789");
    long value = digits && digits < 12 ? strtol(*at, NULL, 10) : 0;
    *at += digits;
    return value > INT_MAX ? 0 : (int)value;
}

/* Reads the next group of "4(x2),3": four tasks on each of two nodes, then three on one. False if it is malformed. */
static bool read_group(const char **at, int *tasks, int *nodes)
{
    *tasks = read_number(at);
    *nodes = 1;
    if (!strncmp(*at, "(x", 2)) {
        *at += 2;
        *nodes = read_number(at);
        *at += **at == ')';
    }
    bool good = *tasks && *nodes && (!**at || **at == ',');
    *at += **at == ',';
    return good;
}

int slurm_tasks(const char *ntasks, const char *per_node)
{
    int sum = 0, tasks, nodes;
    const char *end = ntasks;
    int given = ntasks ? read_number(&end) : 0;
    if (given && !*end) return given;
    for (const char *at = per_node; at && *at; sum += tasks * nodes)
        if (!read_group(&at, &tasks, &nodes) || tasks > (INT_MAX - sum) / nodes) return 0;
    return sum;
}

int slurm_tasks_of_node(const char *per_node, size_t node)
{
    int tasks, nodes;
    for (const char *at = per_node; at && *at; node -= (size_t)nodes) {
        if (!read_group(&at, &tasks, &nodes)) return 0;
        if (node < (size_t)nodes) return tasks;
    }
    return 0;
}

bool slurm_is_one_of_several_tasks(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (!tasks || !getenv("SLURM_PROCID") || getenv("SLURM_PTY_PORT") || getenv("OMPI_COMM_WORLD_RANK")) return false;
    return read_number(&tasks) > 1;
}

static bool is_here(const struct launch_options *options)
{
    (void)options;
    return getenv("SLURM_JOB_ID") && getenv("SLURM_JOB_NODELIST");
}

/* Starts `scontrol show hostnames`, which prints the nodes of SLURM_JOB_NODELIST, a line a node. Returns its output, or
 * NULL. */
static FILE *open_nodes(pid_t *scontrol)
{
    char *command[] = {(char[]){"scontrol"}, (char[]){"show"}, (char[]){"hostnames"}, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    bool started = !posix_spawnp(scontrol, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *nodes = started ? fdopen(ends[0], "r") : NULL;
    if (!nodes) close(ends[0]);
    return nodes;
}

/* Adds the nodes with their tasks, for the choice of the network that joins them. Without scontrol their names stay
 * unknown, which is no failure: mpirun asks SLURM itself. */
static int add_nodes(struct launch_hosts *hosts)
{
    pid_t scontrol;
    FILE *nodes = open_nodes(&scontrol);
    char *line = NULL;
    size_t size = 0;
    int code = KOLORUN_GO_ON;
    if (!nodes) return code;
    for (size_t node = 0; code == KOLORUN_GO_ON && getline(&line, &size, nodes) > 0; node++) {
        int tasks = slurm_tasks_of_node(getenv("SLURM_TASKS_PER_NODE"), node);
        line[strcspn(line, "\n")] = '\0';
        code = hosts_add(hosts, line, tasks ? tasks : 1);
    }
    free(line);
    fclose(nodes);
    waitpid(scontrol, NULL, 0);
    return code;
}

static int read_allocation(const struct launch_options *options, struct launch_hosts *hosts)
{
    (void)options;
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    hosts->from_scheduler = true;
    hosts->all_local = nodes && !strcmp(nodes, "1") && getenv("SLURMD_NODENAME"); /* not from a login node */
    if (!hosts->ranks) hosts->ranks = slurm_tasks(getenv("SLURM_NTASKS"), getenv("SLURM_TASKS_PER_NODE"));
    return hosts->all_local ? KOLORUN_GO_ON : add_nodes(hosts);
}

const struct launch_allocation allocation_slurm = {"SLURM", is_here, read_allocation};
