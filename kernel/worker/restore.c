/* Before each cell: standard streams, limits, signals, timers and the floating-point environment are as a program finds
 * them at its start. Open files, the working folder, umask, locale and threads stay: a learner may want them to last.
 * Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

typedef struct stream {
    FILE **name, *first, *spare; /* spare: made where `first` is of no use any more */
} stream;

typedef struct origin {
    struct rlimit limits[RLIM_NLIMITS];
    struct rlimit descriptors; /* of cells */
    int first_free; /* descriptor, when the cell began */
    uid_t user;
    gid_t group;
    stream streams[3];
} origin;

static origin start;

void remember_process(const struct rlimit *descriptors)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) getrlimit(i, &start.limits[i]);
    start.descriptors = *descriptors;
    start.user = geteuid();
    start.group = getegid();
    start.streams[0] = (stream){&stdin, stdin, NULL};
    start.streams[1] = (stream){&stdout, stdout, NULL};
    start.streams[2] = (stream){&stderr, stderr, NULL};
}

bool is_standard_stream(const FILE *file)
{
    for (size_t i = 0; i < 3; i++) {
        if (file && (file == start.streams[i].first || file == start.streams[i].spare)) return true;
    }
    return false;
}

/* Waits 20 ms at most for a lock of another thread: one that prints soon releases it, one that has ended never does. */
static bool lock(FILE *file)
{
    for (int i = 0; i < 20; i++) {
        if (ftrylockfile(file) == 0) return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static bool usable(FILE *file, int descriptor)
{
    if (!file || !lock(file)) return false;
    bool right_way = descriptor == 0 ? __freadable(file) : __fwritable(file);
    bool good = fileno(file) == descriptor && right_way && fwide(file, 0) <= 0;
    if (good && descriptor == 0) __fpurge(file);
    if (good) clearerr(file);
    if (good && descriptor > 0) setvbuf(file, NULL, _IONBF, 0); /* live, in order, and nothing lost in a crash */
    funlockfile(file);
    return good;
}

static void restore_stream(int descriptor, int source)
{
    stream *s = &start.streams[descriptor];
    if (source >= 0) syscall(SYS_dup3, source, descriptor, 0);
    if (usable(s->first, descriptor)) {
        *s->name = s->first;
    } else {
        if (!usable(s->spare, descriptor)) s->spare = fdopen(descriptor, descriptor == 0 ? "r" : "w");
        *s->name = s->spare ? s->spare : s->first;
        usable(*s->name, descriptor);
    }
}

/* A process that may not raise a limit again gets as much as it may. */
static void set_limit(int which, struct rlimit wanted)
{
    struct rlimit now;
    if (setrlimit(which, &wanted) == 0 || getrlimit(which, &now)) return;
    if (wanted.rlim_cur > now.rlim_max) wanted.rlim_cur = now.rlim_max;
    wanted.rlim_max = now.rlim_max;
    setrlimit(which, &wanted);
}

static void restore_limits(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) set_limit(i, i == RLIMIT_NOFILE ? start.descriptors : start.limits[i]);
    start.first_free = fcntl(0, F_DUPFD, 3);
    if (start.first_free >= 0) syscall(SYS_close, start.first_free);
}

/* A cell that has left no descriptor free would leave the next one, and its programs, without any. */
static void reclaim_descriptors(void)
{
    int any = fcntl(0, F_DUPFD, 3);
    if (any >= 0) syscall(SYS_close, any);
    if (any >= 0 || errno != EMFILE || start.first_free < 3) return;
    close_range((unsigned)start.first_free, ~0u, 0);
    dprintf(2, "the cell has left no file descriptor free: those from %d on are closed\n", start.first_free);
}

static void restore_signals(void)
{
    for (int i = 1; i <= SIGRTMAX; i++) {
        if (i != SIGKILL && i != SIGSTOP && (i < 32 || i >= SIGRTMIN)) signal(i, SIG_DFL);
    }
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    recover_prepare();
}

/* Leaves a working folder that is gone: the simplest program would complain of it. */
static void leave_lost_folder(void)
{
    char path[4096];
    if (getcwd(path, sizeof path) || errno != ENOENT) return;
    const char *home = getenv("HOME");
    if (!home || chdir(home)) home = chdir("/") ? "?" : "/";
    dprintf(2, "the working folder is gone: this is %s\n", home);
}

static void restore_user(void)
{
    if (geteuid() != start.user) (void)!seteuid(start.user);
    if (getegid() != start.group) (void)!setegid(start.group);
    prctl(PR_SET_DUMPABLE, 1); /* or the kernel cannot see what the process waits for */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void restore_process(int input, int output, int error)
{
    stop_timers();
    restore_user();
    restore_limits();
    restore_stream(0, input);
    restore_stream(1, output);
    restore_stream(2, error);
    restore_signals();
    fesetenv(FE_DFL_ENV);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    leave_lost_folder();
}

void relax_process(void)
{
    stop_timers();
    restore_user();
    open_memory();
    if (getpid() == running.process) reclaim_descriptors();
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit most = start.limits[i];
        if (i == RLIMIT_NOFILE) most.rlim_cur = most.rlim_max;
        set_limit(i, most);
    }
    fesetenv(FE_DFL_ENV);
}

void flush_output(void)
{
    FILE *file = stdout;
    if (!is_standard_stream(file)) file = start.streams[1].first;
    if (!lock(file)) return;
    fflush(file);
    funlockfile(file);
}

/* Drops what waits in a stream that was left within a call, unless its pointers are in order: the next call would go
 * beyond its buffer. */
static void settle_stream(FILE *file)
{
    bool ordered = file->_IO_buf_base <= file->_IO_write_base && file->_IO_write_base <= file->_IO_write_ptr &&
                   file->_IO_write_ptr <= file->_IO_buf_end;
    if (file->_IO_write_ptr && !ordered) __fpurge(file);
}

static void release(FILE *file)
{
    struct {
        int lock, count;
        void *owner;
    } *held = file ? (void *)file->_lock : NULL;
    if (!held) return;
    bool mine = held->owner == (void *)pthread_self();
    if (mine && held->count < 1) held->count = 1; /* it was left as it took the lock */
    while (mine && held->count > 0) funlockfile(file); /* and not overwritten: another thread may wait for it */
    settle_stream(file);
}

void release_streams(void)
{
    for (size_t i = 0; i < 3; i++) {
        release(start.streams[i].first);
        release(start.streams[i].spare);
    }
}
