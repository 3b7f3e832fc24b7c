/* kolo-worker begins here, as the supervisor: a small process between the kernel and the learner's code. It forks the
 * worker, reaps whatever a cell leaves behind, and ends everything when the kernel is gone. It never runs a learner's
 * code. Read first: protocol.h. */
#define _GNU_SOURCE
#include "worker/family.h"
#include "worker/reaper.h"
#include "worker/protocol.h"
#include "worker/segments.h"
#include "worker/watch.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct supervisor {
    int kernel;        /* socket */
    int signals;       /* signalfd */
    uint64_t token;
    pid_t worker;      /* 0: none */
    const char *trash; /* folder to delete at the end */
    char *segments;    /* the same, for Open MPI's shared memory; NULL: none */
    watch watch;
    bool cell_runs;    /* then it looks often at what the cells' processes hold */
    bool below;        /* another supervisor of the session is above this one: that looks while no cell runs here */
    struct timespec next_look; /* CLOCK_MONOTONIC */
    char payload[MESSAGE_LIMIT];
} supervisor;

static bool signal_one(const relative *r, void *number)
{
    return kill(r->process, *(const int *)number) == 0;
}

/* Signals every descendant. True when there was one. */
static bool signal_descendants(int number)
{
    return family_each(signal_one, &number);
}

static void report(supervisor *s, pid_t process, int status)
{
    message m = {.token = s->token, .kind = MESSAGE_ENDED, .number = process, .code = status};
    message_send(s->kernel, &m, NULL, 0, NULL, 0);
}

/* A cell has made the supervisor its tracer (PTRACE_TRACEME): it detaches. */
static void let_go(pid_t process, int number)
{
    ptrace(PTRACE_DETACH, process, NULL, (void *)(intptr_t)(number == SIGTRAP ? 0 : number));
}

/* Orphans become children of the supervisor (subreaper). Only the worker's end is reported to the kernel. */
static void reap(supervisor *s)
{
    int status;
    for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (WIFSTOPPED(status)) let_go(process, WSTOPSIG(status));
        if (process != s->worker || WIFSTOPPED(status)) continue;
        s->worker = 0;
        if (s->segments) folder_empty(s->segments);
        report(s, process, status);
    }
}

/* Ends all descendants. They are killed again and again, since processes fork meanwhile. `gently`: SIGTERM comes
 * first. */
static void sweep(supervisor *s, bool gently)
{
    if (gently && signal_descendants(SIGTERM)) {
        for (int i = 0; i < 10 && signal_descendants(0); i++) {
            reap(s);
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
    }
    for (int i = 0; i < 100 && signal_descendants(SIGKILL); i++) {
        reap(s);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    reap(s);
}

static bool stop_one(const relative *r, void *worker)
{
    if (r->process == *(const pid_t *)worker || r->state == 'T' || r->state == 'Z') return false;
    return kill(r->process, SIGSTOP) == 0;
}

enum { WORDS_LIMIT = 1000, WORDS_STEP = 5 /* ms */ };

/* The worker reports its line and stops (on_last_words). On a busy machine that takes a while. */
static void hear_last_words(supervisor *s)
{
    if (s->worker <= 0 || sigqueue(s->worker, SIGNAL_LAST_WORDS, (union sigval){0})) return;
    for (int passed = 0; passed < WORDS_LIMIT; passed += WORDS_STEP) {
        siginfo_t ended = {0};
        if (waitid(P_PID, (id_t)s->worker, &ended, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) || ended.si_pid) return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000L * WORDS_STEP}, NULL);
    }
}

/* Stops all processes first, since they multiply while they are killed. The worker is stopped last: it reports its line
 * before. */
static void end_family(supervisor *s)
{
    for (int i = 0; i < 50 && family_each(stop_one, &s->worker); i++) continue;
    hear_last_words(s);
    pid_t nobody = 0;
    for (int i = 0; i < 50 && family_each(stop_one, &nobody); i++) continue;
    sweep(s, false);
}

enum { IDLE_LOOK = 500 }; /* ms between two looks while no cell runs */

/* Ends processes that use too much, and tells the kernel the reason before. */
static void look_after(supervisor *s)
{
    char sentence[200];
    pid_t large;
    clock_gettime(CLOCK_MONOTONIC, &s->next_look);
    long delay = watch_delay(&s->watch);
    s->next_look.tv_nsec += 1000000L * (s->cell_runs || delay > IDLE_LOOK || s->watch.close ? delay : IDLE_LOOK);
    if (!watch_look(&s->watch, s->worker, sentence, sizeof sentence, &large)) return;
    message m = {.token = s->token, .kind = MESSAGE_CULLED};
    message_send(s->kernel, &m, sentence, strlen(sentence) + 1, NULL, 0);
    if (large) kill(large, SIGKILL);
    else end_family(s);
    s->next_look.tv_nsec += 300000000; /* what has been ended takes its time to give its memory back */
}

/* Milliseconds, as poll() takes them. */
static int until_next_look(const supervisor *s)
{
    if (s->below && !s->cell_runs) return -1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long left = (s->next_look.tv_sec - now.tv_sec) * 1000 + (s->next_look.tv_nsec - now.tv_nsec) / 1000000;
    return left > 0 ? (int)left : 0;
}

/* Raises the supervisor's priority above that of cells: thousands of processes that multiply would leave it no time to
 * end them. Where that is not allowed, the system's own limit remains (bound_processes). */
static void go_first(void)
{
    struct sched_param lowest = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}

static bool count_tasks(const relative *r, void *total)
{
    *(unsigned *)total += r->threads;
    return true;
}

/* The system counts all processes and threads of a user together: those that exist already are added to the limit. It
 * does not hold for the privileged. */
static void bound_processes(void)
{
    struct rlimit limit;
    unsigned there = 0;
    if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &limit)) return;
    everyone_of_user(count_tasks, &there);
    rlim_t most = there + WATCH_THREADS;
    if (limit.rlim_cur > most) setrlimit(RLIMIT_NPROC, &(struct rlimit){most, limit.rlim_max});
}

/* Makes the worker the first process that the system ends when memory is short. */
static void offer_to_the_system(void)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    (void)!write(file, "1000", 4);
    close(file);
}

static void become_worker(supervisor *s, const int *descriptors)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, getppid()); /* and what is below it: a debugger */
    offer_to_the_system();
    bound_processes();
    setsid();
    if (s->segments) setenv("KOLORUN_SEGMENTS", s->segments, 1);
    for (char *at = s->payload; *at; at += strlen(at) + 1) putenv(strdup(at));
    close(s->kernel);
    close(s->signals);
    exit(worker_main(s->token, descriptors));
}

static void start_worker(supervisor *s, const int *descriptors)
{
    pid_t process = fork();
    if (process == 0) become_worker(s, descriptors);
    s->worker = process > 0 ? process : 0;
    message m = {.token = s->token, .kind = MESSAGE_STARTED, .number = process};
    message_send(s->kernel, &m, NULL, 0, NULL, 0);
}

/* Below the supervisor, so that whatever ends the worker's family ends the debugger too. */
static void become_debugger(supervisor *s, int socket)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(socket, 0);
    dup2(socket, 1);
    if (nowhere >= 0) dup2(nowhere, 2);
    close(s->kernel);
    execlp("lldb-dap-19", "lldb-dap-19", "--repl-mode", "variable", NULL);
    _exit(127);
}

static void start_debugger(supervisor *s, const int *descriptors)
{
    if (fork() == 0) become_debugger(s, descriptors[0]);
}

static bool serve(supervisor *s)
{
    message m;
    int descriptors[MESSAGE_DESCRIPTORS];
    ssize_t size = message_receive(s->kernel, s->token, &m, s->payload, descriptors);
    if (size == MESSAGE_GONE) return false;
    if (size < 0) return true;
    if (m.kind == MESSAGE_START) start_worker(s, descriptors);
    if (m.kind == MESSAGE_WATCH) {
        s->cell_runs = m.number != 0;
        clock_gettime(CLOCK_MONOTONIC, &s->next_look);
    }
    if (m.kind == MESSAGE_DEBUGGER) start_debugger(s, descriptors);
    if (m.kind == MESSAGE_SWEEP) sweep(s, m.number != 0);
    for (size_t i = 0; i < MESSAGE_DESCRIPTORS; i++) {
        if (descriptors[i] >= 0) close(descriptors[i]);
    }
    return true;
}

/* A rank uses the folder of its launcher. */
static void open_segments(supervisor *s)
{
    if (getenv("OMPI_MCA_btl_vader_backing_directory")) return;
    s->segments = segments_folder(s->trash);
    if (s->segments && segments_make(s->segments)) return;
    free(s->segments);
    s->segments = NULL;
}

/* Closes descriptors that the kernel's own process had open: no cell is to get them. */
static void close_strangers(int keep)
{
    close_range(3, (unsigned)keep - 1, 0);
    close_range((unsigned)keep + 1, ~0u, 0);
}

int main(int argc, char **argv)
{
    if (argc != 5 || atoi(argv[3]) != PROTOCOL_VERSION) {
        fputs("kolo-worker is started by kolo-kernel, of the same version\n", stderr);
        return EXIT_OTHER_VERSION;
    }
    static supervisor s;
    s.kernel = atoi(argv[1]);
    unsetenv("LIBCLANG_NOTHREADS"); /* the kernel's own business */
    s.trash = argv[2];
    s.below = !strcmp(argv[4], "below");
    if (s.kernel < 3 || recv(s.kernel, &s.token, sizeof s.token, 0) != sizeof s.token) return 1;
    close_strangers(s.kernel);
    if (!s.below) fork_supervisor(s.kernel, s.trash);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setsid();
    go_first();
    sigset_t watched;
    sigfillset(&watched);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    s.signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    watch_open(&s.watch);
    open_segments(&s);
    struct pollfd ready[2] = {{s.kernel, POLLIN, 0}, {s.signals, POLLIN, 0}};
    for (bool open = true; open;) {
        if (poll(ready, 2, until_next_look(&s)) < 0 && errno != EINTR) break;
        struct signalfd_siginfo ignored;
        while (read(s.signals, &ignored, sizeof ignored) > 0) continue;
        reap(&s);
        if (until_next_look(&s) == 0) look_after(&s);
        if (ready[0].revents) open = serve(&s);
    }
    sweep(&s, false);
    folder_delete(s.segments);
    folder_delete(s.trash);
    return 0;
}
