/* kolorun: starts a program as N ranks over Open MPI and watches them, like horovodrun.
 *
 * Reading order: options.h and hosts.h (the command line), command.h (the mpirun command line), rank.h (the process
 * that mpirun starts for each rank), wire.h (messages of ranks), job.h (the running job), output.h (the ranks'
 * output). */
#include "launch/check_build.h"
#include "launch/command.h"
#include "launch/environment.h"
#include "launch/job.h"
#include "launch/rank.h"
#include "launch/say.h"
#include "launch/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Opens /dev/null for the descriptors 0, 1 and 2 if they are closed: a socket with one of these numbers would be used
 * as stdin, stdout or stderr. */
static void open_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3) {}
    if (fd >= 3) close(fd);
}

/* Sets variables that describe kolorun's stdout, where the ranks' output is shown. A program cannot find this out from
 * its own stdout. */
static bool tell_where_output_goes(const struct output *output)
{
    static const char *const names[] = {
        [OUTPUT_FILE] = "file", [OUTPUT_TERMINAL] = "terminal", [OUTPUT_NOTEBOOK] = "notebook"};
    struct winsize size = {.ws_col = 100};
    char columns[16];
    if (output->place == OUTPUT_TERMINAL) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    int tag = snprintf(NULL, 0, "[1,%d]<stdout>:", output->ranks - 1);
    snprintf(columns, sizeof columns, "%d", size.ws_col > tag ? size.ws_col - tag : 80);
    return !setenv(KOLORUN_OUTPUT, names[output->place], 1) && !setenv(KOLORUN_COLUMNS, columns, 1);
}

/* A rank that fails under --keep-going ends alone: the library must not end the job. */
static bool tell_to_go_on(const struct launch_options *options)
{
    return !options->keep_going || !setenv("KOLO_KEEP_GOING", "1", 1);
}

static int run(struct job *job, const struct words *command)
{
    if (!tell_to_go_on(job->options)) return launch_say(KOLORUN_FAILED, "out of memory");
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

/* Reports all mistakes before anything is started. */
static int prepare_and_run(const struct launch_options *options, struct launch_hosts *hosts, struct job *job,
                           struct words *command, char **folder)
{
    char self[4096], *mpirun = command_find("mpirun");
    int code = command_is_host(options);
    if (code == KOLORUN_GO_ON) code = hosts_choose(options, hosts);
    job->ranks = hosts->ranks;
    own_path(self, sizeof self);
    if (code == KOLORUN_GO_ON && hosts->all_local) code = command_check(options);
    if (code == KOLORUN_GO_ON && !mpirun)
        code = launch_say(KOLORUN_FAILED, "mpirun not found in PATH: install Open MPI (Debian package openmpi-bin)");
    if (code == KOLORUN_GO_ON) code = output_open(&job->output, hosts->ranks, options->output_folder);
    if (code == KOLORUN_GO_ON && (!environment_prepare() || !tell_where_output_goes(&job->output)))
        code = launch_say(KOLORUN_FAILED, "out of memory");
    if (code == KOLORUN_GO_ON && !contact_listen(hosts->all_local, &job->contact)) code = KOLORUN_FAILED;
    if (code == KOLORUN_GO_ON) code = command_build(options, hosts, mpirun, self, command);
    if (code == KOLORUN_GO_ON) *folder = environment_own_folder();
    free(mpirun);
    return code == KOLORUN_GO_ON ? run(job, command) : code;
}

int main(int argc, char **argv)
{
    static struct job job;
    struct launch_options options;
    struct launch_hosts hosts = {0};
    struct words command = {0};
    open_standard();
    if (argc > 1 && !strcmp(argv[1], RANK_OPTION)) return rank_main(argv + 2);
    int code = options_parse(argc, argv, &options);
    if (code != KOLORUN_GO_ON) return code;
    if (options.help) return options_help();
    if (options.version) return version_print();
    if (options.check_build) return check_build_print();
    char *folder = NULL;
    job.options = &options;
    job.hosts = &hosts;
    code = prepare_and_run(&options, &hosts, &job, &command, &folder);
    segments_remove(folder);
    free(folder);
    output_close(&job.output);
    free(job.rank);
    hosts_free(&hosts);
    words_free(&command);
    return code;
}
