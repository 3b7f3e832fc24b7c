/* Preparing a start of the job, running it, and deciding whether there is another one: see starts.h. */
#include "launch/starts.h"

#include "core/fault_text.h"
#include "launch/allocation.h"
#include "launch/check_build.h"
#include "launch/command.h"
#include "launch/discovery.h"
#include "launch/environment.h"
#include "launch/filter.h"
#include "launch/job.h"
#include "launch/rank_file.h"
#include "launch/rdma.h"
#include "launch/say.h"
#include "launch/slurm.h"
#include "launch/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Sets variables that describe kolorun's stdout, where the ranks' output is shown. A program cannot find this out from
 * its own stdout. */
static bool tell_where_output_goes(const struct output *output)
{
    static const char *const names[] = {
        [OUTPUT_FILE] = "file", [OUTPUT_TERMINAL] = "terminal", [OUTPUT_NOTEBOOK] = "notebook"};
    struct winsize size = {.ws_col = 100};
    char columns[16];
    if (output->place == OUTPUT_TERMINAL) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    int tag = snprintf(NULL, 0, "[1,%d]<stdout>:", output->ranks - 1) + (output->timestamps ? OUTPUT_TIME : 0);
    snprintf(columns, sizeof columns, "%d", size.ws_col > tag ? size.ws_col - tag : 80);
    return !setenv(KOLORUN_OUTPUT, names[output->place], 1) && !setenv(KOLORUN_COLUMNS, columns, 1);
}

/* Sets variables for the watchers and for libkolo in the ranks. Under --keep-going a rank that fails must not end the
 * job. A fault happens in the first start only, so that a restart can go on. */
static bool tell_ranks(const struct launch_options *options, int restart)
{
    char limit[16];
    snprintf(limit, sizeof limit, "%d", options->stall_limit);
    if (restart > 0) unsetenv("KOLO_FAULT");
    return (!options->keep_going || !setenv("KOLO_KEEP_GOING", "1", 1)) &&
           (options->stall_limit < 0 || !setenv("KOLO_STALL_LIMIT", limit, 1)) &&
           (options->hierarchical < 0 ||
            !setenv("KOLO_HIERARCHICAL_ALLREDUCE", options->hierarchical ? "1" : "0", 1)) &&
           (options->merge_stderr ? !setenv(KOLORUN_MERGE, "1", 1) : !unsetenv(KOLORUN_MERGE)) &&
           (!options->fault || restart > 0 || !setenv("KOLO_FAULT", options->fault, 1));
}

/* Sets the variables of --autotune for libkolo in the ranks. Without the option they stay the user's. */
static int autotune_prepare(const struct launch_options *options)
{
    char path[PATH_MAX];
    if (options->autotune >= 0 && setenv("KOLO_AUTOTUNE", options->autotune ? "1" : "0", 1))
        return launch_say(KOLORUN_FAILED, "out of memory");
    if (!options->autotune_log) return KOLORUN_GO_ON;
    int code = rank_file_check("--autotune-log-file", options->autotune_log, path);
    if (code != KOLORUN_GO_ON) return code;
    return setenv("KOLO_AUTOTUNE_LOG", path, 1) ? launch_say(KOLORUN_FAILED, "out of memory") : KOLORUN_GO_ON;
}

/* Runs the prepared command. */
static int run(struct job *job, const struct words *command)
{
    if (job->options->verbose) {
        char *line = words_line(command);
        if (line) launch_say(0, "%s", line);
        free(line);
    }
    job->rank = calloc((size_t)job->ranks, sizeof *job->rank);
    if (!job->rank) return launch_say(KOLORUN_FAILED, "out of memory for %d ranks", job->ranks);
    if (!job_run(job, command->word)) return launch_say(KOLORUN_FAILED, "cannot start mpirun: %s", strerror(errno));
    int code = job_report(job);
    bool stopped = job_finish_output(job);
    return stopped ? 128 + job->interrupted : code;
}

static int choose_hosts(const struct job *job, struct launch_hosts *hosts)
{
    const struct launch_options *options = job->options;
    if (!options->discovery) return allocation_choose(launch_allocations, options, hosts);
    int code = discovery_choose(options, job->signals, &job->mask, hosts);
    return code == KOLORUN_GO_ON ? hosts_check(hosts) : code;
}

/* One rank has the numbers of its devices or workers instead. In a restart, perhaps with fewer ranks, no fault happens.
 */
static int check_fault_ranks(const struct launch_options *options, int restart, int ranks)
{
    char why[200];
    kolo_fault_wishes wishes = {0};
    if (!options->fault || restart > 0 || ranks == 1 || !kolo_faults_read(&wishes, options->fault, why, sizeof why))
        return KOLORUN_GO_ON;
    for (int i = 0; i < wishes.count; i++)
        if (wishes.wish[i].rank >= ranks)
            return launch_say(KOLORUN_WRONG_USE, "--fault: wanted a rank from 0 to %d, got %d", ranks - 1,
                              wishes.wish[i].rank);
    return KOLORUN_GO_ON;
}

/* Reports all mistakes before anything is started. */
static int prepare_and_run(struct launch_hosts *hosts, struct job *job, struct words *command, char **folder)
{
    const struct launch_options *options = job->options;
    char self[4096], *mpirun = command_find("mpirun");
    int code = command_is_host(options);
    if (code == KOLORUN_GO_ON) code = choose_hosts(job, hosts);
    job->ranks = hosts->ranks;
    if (code == KOLORUN_GO_ON) code = check_fault_ranks(options, job->restart, hosts->ranks);
    if (code == KOLORUN_GO_ON) code = rdma_check(options, hosts);
    if (code == KOLORUN_GO_ON) code = filter_check_ranks(options->shown_ranks, hosts->ranks);
    if (code == KOLORUN_GO_ON) code = timeline_prepare(options);
    if (code == KOLORUN_GO_ON) code = autotune_prepare(options);
    own_path(self, sizeof self);
    if (code == KOLORUN_GO_ON && hosts->all_local) code = command_check(options);
    if (code == KOLORUN_GO_ON && !mpirun)
        code = launch_say(KOLORUN_FAILED, "mpirun not found in PATH: install Open MPI (Debian package openmpi-bin)");
    if (code == KOLORUN_GO_ON) code = output_open(&job->output, hosts->ranks, options->output_folder, job->restart > 0);
    job->output.timestamps = options->timestamps;
    job->output.merged = options->merge_stderr;
    if (code == KOLORUN_GO_ON &&
        (!environment_prepare() || !tell_where_output_goes(&job->output) || !tell_ranks(options, job->restart)))
        code = launch_say(KOLORUN_FAILED, "out of memory");
    if (code == KOLORUN_GO_ON && !contact_listen(hosts->all_local, &job->contact)) code = KOLORUN_FAILED;
    if (code == KOLORUN_GO_ON) code = command_build(options, hosts, mpirun, self, command);
    if (code == KOLORUN_GO_ON) *folder = environment_own_folder();
    free(mpirun);
    return code == KOLORUN_GO_ON ? run(job, command) : code;
}

/* Resets the job for its next start. kolorun's signals stay blocked, and a first Ctrl-C stays the first. */
static void begin_anew(struct job *job, const struct launch_options *options, int restart)
{
    *job = (struct job){.options = options,
                        .restart = restart,
                        .mask = job->mask,
                        .signals = job->signals,
                        .mpirun_output = -1,
                        .contact = {.fd = -1}};
}

static int start(struct job *job)
{
    struct launch_hosts hosts = {0};
    struct words command = {0};
    char *folder = NULL;
    job->hosts = &hosts;
    int code = prepare_and_run(&hosts, job, &command, &folder);
    environment_remove_folder(folder);
    timeline_finish();
    if (!output_close(&job->output) && code == KOLORUN_DONE) code = KOLORUN_FAILED;
    if (job->mpirun_output >= 0) close(job->mpirun_output);
    if (job->contact.fd >= 0) close(job->contact.fd);
    free(job->rank);
    hosts_free(&hosts);
    words_free(&command);
    return code;
}

/* srun has started several kolorun: only the first says so. */
static int refuse_tasks(void)
{
    const char *number = getenv("SLURM_PROCID");
    if (number && strcmp(number, "0")) return KOLORUN_WRONG_USE;
    return launch_say(KOLORUN_WRONG_USE,
                      "srun has started kolorun %s times: wanted kolorun without srun, in sbatch or salloc, or srun "
                      "-n1",
                      getenv("SLURM_STEP_NUM_TASKS"));
}

int starts_run(const struct launch_options *options)
{
    if (slurm_is_one_of_several_tasks()) return refuse_tasks();
    static struct job job; /* large: not for the stack */
    for (int restart = 0;; restart++) {
        begin_anew(&job, options, restart);
        int code = start(&job);
        if (!*job.why || job.interrupted || restart >= options->restarts) return code;
        launch_say(0, "restart %d of %d after %s", restart + 1, options->restarts, job.why);
    }
}
