/* kolorun: starts a program as N ranks over Open MPI and watches them, like horovodrun.
 *
 * Reading order: options.h (the command line), allocation.h (the hosts), starts.h (starts and restarts), command.h (the
 * mpirun command line), rank.h (the process that mpirun starts for each rank), wire.h (messages of ranks), job.h (the
 * running job), output.h (the ranks' output). */
#include "launch/check_build.h"
#include "launch/daemon.h"
#include "launch/options.h"
#include "launch/rank.h"
#include "launch/say.h"
#include "launch/starts.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Opens /dev/null for the descriptors 0, 1 and 2 if they are closed: a socket with one of these numbers would be used
 * as stdin, stdout or stderr. */
static void open_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3) {}
    if (fd >= 3) close(fd);
}

static int do_as(const struct launch_options *options)
{
    if (options->help) return options_help();
    if (options->version) return version_print();
    if (options->check_build) return check_build_print();
    return starts_run(options);
}

int main(int argc, char **argv)
{
    struct launch_options options;
    open_standard();
    if (argc > 1 && !strcmp(argv[1], RANK_OPTION)) return rank_main(argv + 2);
    if (argc > 1 && !strcmp(argv[1], DAEMON_OPTION)) return daemon_main(argv + 2);
    int code = options_parse(argc, argv, &options);
    if (code == KOLORUN_GO_ON) code = do_as(&options);
    options_free(&options);
    return code;
}
