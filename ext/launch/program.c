/* fork and exec of a rank's program. Its stdout is a pseudo-terminal, as under mpirun, so that the C library writes
 * each line at once; for a pipe it would buffer 4096 bytes. stderr is not buffered, so a pipe is sufficient. */
#define _GNU_SOURCE 1 /* pipe2 */
#include "launch/program.h"

#include "launch/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

struct ends { /* the two ends of one stream, the watcher's and the program's */
    int ours, theirs;
};

static void close_ends(struct ends *ends)
{
    if (ends->ours >= 0) close(ends->ours);
    if (ends->theirs >= 0) close(ends->theirs);
}

static bool keep_ours(struct ends *ends)
{
    return ends->ours >= 0 && !fcntl(ends->ours, F_SETFD, FD_CLOEXEC) && !fcntl(ends->theirs, F_SETFD, FD_CLOEXEC) &&
           !fcntl(ends->ours, F_SETFL, O_NONBLOCK);
}

static bool open_pipe(struct ends *ends, bool ours_writes)
{
    int fd[2];
    if (pipe(fd)) return false;
    *ends = (struct ends){fd[ours_writes], fd[!ours_writes]};
    return keep_ours(ends);
}

/* Opens a pseudo-terminal in raw mode, so that the program's bytes are not changed. */
static bool open_terminal(struct ends *ends)
{
    const char *text = getenv(KOLORUN_COLUMNS);
    long columns = text ? strtol(text, NULL, 10) : 0;
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)(columns > 20 && columns < 10000 ? columns : 80)};
    struct termios raw = {0};
    if (openpty(&ends->ours, &ends->theirs, NULL, NULL, &size)) {
        *ends = (struct ends){-1, -1};
        return false;
    }
    if (tcgetattr(ends->theirs, &raw) == 0) {
        cfmakeraw(&raw);
        tcsetattr(ends->theirs, TCSANOW, &raw);
    }
    return keep_ours(ends);
}

/* Makes the output to one stream part of another stream. */
static bool share_end(struct ends *ends, const struct ends *of)
{
    *ends = (struct ends){-1, fcntl(of->theirs, F_DUPFD_CLOEXEC, 3)};
    return ends->theirs >= 0;
}

/* Runs the program in the child and never returns. The parent is checked after PR_SET_PDEATHSIG, because it may have
 * died before. */
static void become(char **command, const int theirs[3], const sigset_t *mask, pid_t watcher, int report)
{
    static const int usual[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGCHLD, SIGTSTP};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != watcher) _exit(127);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) signal(usual[i], SIG_DFL);
    bool ready = sigprocmask(SIG_SETMASK, mask, NULL) == 0;
    for (int fd = 0; fd < 3; fd++) ready = ready && dup2(theirs[fd], fd) == fd;
    unsetenv(KOLORUN_CONTACT);
    unsetenv(KOLORUN_TOKEN);
    unsetenv(KOLORUN_COLUMNS);
    unsetenv(KOLORUN_MERGE);
    if (ready && environment_for_rank()) execvp(command[0], command);
    int error = errno;
    if (write(report, &error, sizeof error) < 0) _exit(126);
    _exit(127);
}

static bool fork_program(char **command, const int theirs[3], const sigset_t *mask, struct program *program)
{
    int report[2];
    pid_t watcher = getpid();
    if (pipe2(report, O_CLOEXEC)) return false;
    program->pid = fork();
    if (program->pid == 0) become(command, theirs, mask, watcher, report[1]);
    close(report[1]);
    int error = program->pid < 0 ? errno : 0;
    if (!error && read(report[0], &error, sizeof error) != sizeof error) error = 0; /* closed by a successful exec */
    close(report[0]);
    errno = error;
    return !error;
}

bool program_start(char **command, bool with_stdin, const sigset_t *mask, struct program *program)
{
    struct ends in = {-1, -1}, out = {-1, -1}, err = {-1, -1};
    *program = (struct program){.pid = -1, .in = -1, .out = -1, .err = -1};
    bool done = with_stdin ? open_pipe(&in, true) : (in.theirs = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;
    done = done && (open_terminal(&out) || open_pipe(&out, false));
    done = done && (getenv(KOLORUN_MERGE) ? share_end(&err, &out) : open_pipe(&err, false));
    done = done && fork_program(command, (int[]){in.theirs, out.theirs, err.theirs}, mask, program);
    if (!done) {
        program->error = errno;
        close_ends(&in);
        close_ends(&out);
        close_ends(&err);
        return false;
    }
    close(in.theirs);
    close(out.theirs);
    close(err.theirs);
    program->in = in.ours;
    program->out = out.ours;
    program->err = err.ours;
    return true;
}
