/* The two processes of a rank, the stand-in that mpirun starts and the watcher of the program: see rank.h. */
#define _GNU_SOURCE 1 /* pipe2 */
#include "launch/rank.h"

#include "launch/clock.h"
#include "launch/contact.h"
#include "launch/environment.h"
#include "launch/program.h"
#include "launch/say.h"
#include "launch/segments.h"
#include "launch/tree.h"
#include "launch/wire.h"
#include "launch/words.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HELD_BACK = 256 * 1024, /* bytes queued for kolorun above which no more of the program's output is read */
    GRACE = 1000,           /* ms from SIGTERM to SIGKILL if kolorun does not set another time */
    SELF_FIRST = 100, /* ms before SIGTERM when mpirun ends the job: the program may be ending by itself (MPI_Abort) */
    SLURM_FIRST = 1000, /* ms before kolorun's SIGTERM under SLURM, which may be sending the same to the program */
    LINGER = 2000, /* ms that processes left by a program may go on printing after it has ended with code 0 */
    LINGER_FAILED = 200, /* the same after it has failed */
};

struct watcher {
    struct wire link;
    struct program program;
    pid_t above[2]; /* mpirun and the stand-in, while they live */
    int lifeline; /* pipe that closes when the stand-in ends; -1 after that */
    int signals; /* signalfd */
    bool ended; /* the program has ended */
    int status; /* of waitpid(), once ended */
    long ended_at; /* clock_date() */
    bool asked; /* the program was asked to end */
    int outside; /* the signal that another program, such as SLURM, has sent to end this rank, or 0 */
    long term_at; /* when to send term_signal to the program */
    int term_signal;
    long kill_at; /* when to kill the program and its descendants */
    bool provisional; /* kill_at follows from mpirun's end, and kolorun may set a later time */
    bool released; /* kolorun has answered FRAME_EXIT */
    long linger_at; /* when to stop waiting for output after the program's end */
    char pending[WIRE_LARGEST]; /* stdin: */
    size_t pending_start, pending_end; /* the part that the program has not taken yet */
};

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static sigset_t watched_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) sigaddset(&set, forwarded[i]);
    return set;
}

static int exit_code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Whether SLURM runs this rank. SLURM sends a signal to all processes of a job step, so also to the program, which must
 * not get it twice: a second Ctrl-C often ends a program at once. */
static bool scheduled(void)
{
    return getenv("SLURM_JOB_ID") != NULL;
}

/* Runs the process that mpirun sees: it forwards mpirun's signals to the watcher, and ends with the watcher's exit
 * code.
 */
static int stand_in(pid_t watcher, const sigset_t *set)
{
    for (;;) {
        siginfo_t info = {0};
        int signal = sigwaitinfo(set, &info), status = 0;
        if (signal > 0 && signal != SIGCHLD && (info.si_pid == getppid() || !scheduled())) kill(watcher, signal);
        pid_t ended = waitpid(watcher, &status, WNOHANG);
        if (ended == watcher) return exit_code_of(status);
        if (ended < 0 && errno != EINTR) return KOLORUN_FAILED;
    }
}

static void to_program(const struct watcher *watcher, int signal)
{
    if (watcher->program.pid <= 0 || watcher->ended) return;
    if (kill(-watcher->program.pid, signal)) kill(watcher->program.pid, signal); /* it may have left its group */
}

static void note_asked(struct watcher *watcher)
{
    if (watcher->ended || watcher->asked) return;
    watcher->asked = true;
    wire_send(&watcher->link, FRAME_ASKED, NULL, 0);
}

static void signal_program(struct watcher *watcher, int signal)
{
    if (!scheduled() || signal != watcher->outside) to_program(watcher, signal);
    to_program(watcher, SIGCONT); /* a stopped program would not handle the signal */
}

static void signal_program_later(struct watcher *watcher, int signal, long delay)
{
    watcher->term_signal = signal;
    watcher->term_at = clock_now() + delay;
}

/* Sends `signal` to the program; after `grace` ms the program and its descendants are killed. A later call can only
 * shorten this time. */
static void end_program(struct watcher *watcher, int signal, long grace)
{
    long kill_at = clock_now() + grace;
    note_asked(watcher);
    if (watcher->kill_at == CLOCK_NEVER || watcher->provisional || kill_at < watcher->kill_at)
        watcher->kill_at = kill_at;
    watcher->provisional = false;
    if (scheduled() && signal == SIGTERM)
        signal_program_later(watcher, signal, grace / 4 < SLURM_FIRST ? grace / 4 : SLURM_FIRST);
    else signal_program(watcher, signal);
}

/* Called when mpirun ends the job, on all ranks at once. The delay lets the rank that called MPI_Abort end with its own
 * exit code. If the program was asked to end before, it keeps the time that kolorun has given it. */
static void end_program_soon(struct watcher *watcher)
{
    if (watcher->asked || watcher->outside) return;
    note_asked(watcher);
    signal_program_later(watcher, SIGTERM, SELF_FIRST);
    watcher->provisional = true;
    watcher->kill_at = watcher->term_at + GRACE;
}

/* Called when another program than mpirun has sent a signal that ends this rank: SLURM on scancel or at the end of the
 * job's time, or a user. kolorun ends the whole job, and sets the time that the programs have. */
static void stop_job(struct watcher *watcher, int signal)
{
    watcher->outside = signal;
    wire_print(&watcher->link, FRAME_STOP, "%d", signal);
    if (!watcher->provisional) return;
    watcher->term_at = watcher->kill_at = CLOCK_NEVER;
    watcher->provisional = false;
}

static void note_ended(struct watcher *watcher, int status)
{
    watcher->ended = true;
    watcher->status = status;
    watcher->ended_at = clock_date();
    watcher->linger_at = clock_now() + (status ? LINGER_FAILED : LINGER);
}

static void reap(struct watcher *watcher)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0;) {
        if (pid != watcher->program.pid) continue;
        if (WIFSTOPPED(status)) wire_print(&watcher->link, FRAME_STATE, "%d", WSTOPSIG(status));
        else if (WIFCONTINUED(status)) wire_print(&watcher->link, FRAME_STATE, "0");
        else note_ended(watcher, status);
    }
}

static void take_signal(struct watcher *watcher, int signal, bool by_mpirun)
{
    bool ends = signal != SIGUSR1 && signal != SIGUSR2;
    if (by_mpirun && signal == SIGTERM) end_program_soon(watcher);
    else if (!by_mpirun && ends) stop_job(watcher, signal);
    else if (by_mpirun || !scheduled()) to_program(watcher, signal);
}

static void take_signals(struct watcher *watcher)
{
    struct signalfd_siginfo info;
    while (read(watcher->signals, &info, sizeof info) == sizeof info) {
        pid_t sender = (pid_t)info.ssi_pid; /* 0: the system does not know any more, and it mostly was mpirun */
        /* The stand-in passes mpirun's signals on, and before setsid() they reach the watcher directly. */
        if (info.ssi_signo != SIGCHLD)
            take_signal(watcher, (int)info.ssi_signo,
                        !sender || sender == watcher->above[0] || sender == watcher->above[1]);
    }
    reap(watcher);
}

/* Sends up to 64 KiB of the program's output to kolorun. True if there may be more. */
static bool pass_on(struct watcher *watcher, int *fd, enum frame_kind kind)
{
    char bytes[WIRE_LARGEST];
    ssize_t got = *fd < 0 ? 0 : read(*fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got > 0) wire_send(&watcher->link, kind, bytes, (size_t)got);
    if (got <= 0 && *fd >= 0) { /* a pseudo-terminal ends with EIO */
        close(*fd);
        *fd = -1;
    }
    return got > 0;
}

static void close_stdin(struct watcher *watcher)
{
    if (watcher->program.in >= 0) close(watcher->program.in);
    watcher->program.in = -1;
}

/* Writes pending stdin to the program. If the program has closed its stdin, FRAME_TAKEN is not sent, so kolorun sends
 * no more. */
static void feed(struct watcher *watcher)
{
    size_t length = watcher->pending_end - watcher->pending_start;
    ssize_t written = write(watcher->program.in, watcher->pending + watcher->pending_start, length);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (written < 0) {
        close_stdin(watcher);
        return;
    }
    watcher->pending_start += (size_t)written;
    if (watcher->pending_start == watcher->pending_end) wire_send(&watcher->link, FRAME_TAKEN, NULL, 0);
}

static void obey(struct watcher *watcher, const struct frame *frame)
{
    long number[2] = {0};
    int numbers = frame_numbers(frame, number, 2);
    if (frame->kind == FRAME_SIGNAL && numbers >= 1) to_program(watcher, (int)number[0]);
    else if (frame->kind == FRAME_END && numbers == 2) end_program(watcher, (int)number[0], number[1]);
    else if (frame->kind == FRAME_LEAVE) watcher->released = true;
    else if (frame->kind == FRAME_COMPUTED) wire_print(&watcher->link, FRAME_COMPUTED, "%ld", tree_computed(getpid()));
    else if (frame->kind == FRAME_IN_END) close_stdin(watcher);
    else if (frame->kind == FRAME_IN && watcher->program.in >= 0) {
        memcpy(watcher->pending, frame->bytes, frame->length);
        watcher->pending_start = 0;
        watcher->pending_end = frame->length;
    }
}

static void take_orders(struct watcher *watcher)
{
    struct frame frame;
    bool there = wire_fill(&watcher->link);
    while (wire_next(&watcher->link, &frame)) obey(watcher, &frame);
    if (there && !watcher->link.broken) return;
    wire_close(&watcher->link); /* kolorun is gone, so the program must end */
    end_program(watcher, SIGTERM, GRACE);
}

/* Waits for all events of the watcher and handles them. poll() ignores descriptors that are -1. */
static void wait_and_serve(struct watcher *watcher)
{
    bool hold = wire_queued(&watcher->link) > HELD_BACK, feeding = watcher->pending_start < watcher->pending_end;
    struct pollfd fd[] = {
        {.fd = watcher->signals, .events = POLLIN},
        {.fd = watcher->link.fd, .events = (short)(POLLIN | (wire_queued(&watcher->link) ? POLLOUT : 0))},
        {.fd = hold ? -1 : watcher->program.out, .events = POLLIN},
        {.fd = hold ? -1 : watcher->program.err, .events = POLLIN},
        {.fd = feeding ? watcher->program.in : -1, .events = POLLOUT},
        {.fd = watcher->lifeline, .events = POLLIN},
    };
    int wait = clock_wait(watcher->linger_at, clock_wait(watcher->kill_at, clock_wait(watcher->term_at, 60000)));
    if (poll(fd, sizeof fd / sizeof *fd, wait) < 0) return;
    if (fd[2].revents) pass_on(watcher, &watcher->program.out, FRAME_OUT);
    if (fd[3].revents) pass_on(watcher, &watcher->program.err, FRAME_ERR);
    if (fd[4].revents) feed(watcher);
    if (fd[1].revents & POLLOUT) wire_flush(&watcher->link);
    if (fd[1].revents & ~POLLOUT) take_orders(watcher);
    if (fd[0].revents) take_signals(watcher);
    if (fd[5].revents) {
        close(watcher->lifeline);
        watcher->lifeline = -1;
        end_program_soon(watcher);
    }
}

static void watch_program(struct watcher *watcher)
{
    while (!watcher->ended || watcher->program.out >= 0 || watcher->program.err >= 0) {
        wait_and_serve(watcher);
        if (clock_passed(watcher->term_at)) {
            watcher->term_at = CLOCK_NEVER;
            signal_program(watcher, watcher->term_signal);
        }
        if (clock_passed(watcher->kill_at)) {
            tree_signal(getpid(), SIGKILL);
            watcher->kill_at = clock_now() + 20; /* again, for processes that were just being started */
            if (watcher->ended) return;
        }
        if (clock_passed(watcher->linger_at)) return;
    }
}

/* Called after the program's end: kills its descendants, then sends its last output and how it ended. */
static void report_end(struct watcher *watcher)
{
    if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD) tree_end();
    while (pass_on(watcher, &watcher->program.out, FRAME_OUT)) {}
    while (pass_on(watcher, &watcher->program.err, FRAME_ERR)) {}
    bool signalled = WIFSIGNALED(watcher->status);
    wire_print(&watcher->link, FRAME_EXIT, "%d %d %d %ld", signalled ? 0 : WEXITSTATUS(watcher->status),
               signalled ? WTERMSIG(watcher->status) : 0, watcher->asked, watcher->ended_at);
    while (!watcher->link.broken && watcher->link.fd >= 0 && wire_queued(&watcher->link)) {
        struct pollfd fd = {.fd = watcher->link.fd, .events = POLLOUT};
        if (poll(&fd, 1, -1) > 0 && fd.revents & (POLLERR | POLLHUP)) break;
        wire_flush(&watcher->link);
    }
}

/* Waits until kolorun has answered FRAME_EXIT. mpirun ends the whole job when it sees the end of a rank that has
 * failed, so kolorun answers at once only if the others need no time. Without kolorun or the stand-in there is nothing
 * to wait for. */
static void wait_for_leave(struct watcher *watcher)
{
    while (!watcher->released && watcher->link.fd >= 0 && watcher->lifeline >= 0) {
        struct pollfd fd[] = {{.fd = watcher->link.fd, .events = POLLIN}, {.fd = watcher->lifeline, .events = POLLIN}};
        if (poll(fd, 2, -1) < 0) continue;
        if (fd[1].revents) return;
        take_orders(watcher);
    }
}

/* Closes the watcher's ends of mpirun's pipes, since mpirun waits until they are closed; the stand-in keeps them
 * open. */
static void leave_mpirun(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; nothing >= 0 && fd < 3; fd++) dup2(nothing, fd);
}

static const char *variable(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static int watch(char **command, const pid_t above[2], int lifeline, const sigset_t *set, const sigset_t *mask)
{
    static struct watcher watcher; /* large: not for the stack */
    char host[256] = "?";
    const char *rank =
        variable("OMPI_COMM_WORLD_RANK", variable("PMIX_RANK", variable("PMI_RANK", variable("SLURM_PROCID", "0"))));
    memcpy(watcher.above, above, sizeof watcher.above);
    watcher.lifeline = lifeline;
    watcher.signals = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
    watcher.link.fd = contact_reach();
    gethostname(host, sizeof host - 1);
    if (watcher.link.fd < 0 || watcher.signals < 0)
        return launch_say(KOLORUN_FAILED, "rank %s on %s cannot reach kolorun at %s: %s", rank, host,
                          variable(KOLORUN_CONTACT, "?"), strerror(errno));
    const char *token = variable(KOLORUN_TOKEN, "?");
    leave_mpirun();
    tree_adopt_orphans();
    bool started = program_start(command, !strcmp(rank, "0"), mask, &watcher.program);
    wire_print(&watcher.link, FRAME_HELLO, "%s %s %s %d %s", token, host, rank, started ? (int)watcher.program.pid : 0,
               variable("OMPI_COMM_WORLD_LOCAL_RANK", "0"));
    if (!started) {
        wire_print(&watcher.link, FRAME_NO_EXEC, "%d", watcher.program.error);
        note_ended(&watcher, 127 << 8);
    }
    watch_program(&watcher);
    report_end(&watcher);
    wait_for_leave(&watcher);
    return exit_code_of(watcher.status);
}

int rank_main(char **command)
{
    sigset_t set = watched_signals(), mask;
    int lifeline[2];
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, &mask);
    if (!command[0] || pipe2(lifeline, O_CLOEXEC)) return launch_say(KOLORUN_FAILED, "rank: no command or no pipe");
    for (char **word = command; *word; word++) *word = words_unshielded(*word);
    char *segments = environment_own_segments();
    pid_t above[] = {getppid(), getpid()}, watcher = fork();
    if (watcher < 0) return launch_say(KOLORUN_FAILED, "rank: cannot fork: %s", strerror(errno));
    if (watcher > 0) {
        close(lifeline[0]);
        int code = stand_in(watcher, &set);
        segments_remove(segments); /* the watcher may have been killed */
        free(segments);
        return code;
    }
    close(lifeline[1]);
    setsid();
    int code = watch(command, above, lifeline[0], &set, &mask);
    segments_remove(segments);
    free(segments);
    return code;
}
