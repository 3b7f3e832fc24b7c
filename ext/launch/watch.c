/* The main loop of a job: signals, mpirun, the ranks, stdin and the output. None of them may block the others. */
#include "launch/job.h"

#include "launch/clock.h"
#include "launch/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TERMINATE_GRACE = 1000, /* ms for a clean end of the programs, except after a user's signal */
    STOP_REMARK = 2000, /* ms after a user's signal until kolorun says that it waits */
    UNDER_WAY = 500, /* ms that watchers have after mpirun's end to send their last output */
    IDLE = 40,  /* ms without output after which an unfinished line is shown in place */
    MPIRUN_END = SIGINT, /* the signal by which kolorun ends mpirun */
    LAST_OUTPUT = 300, /* ms that an interrupted kolorun waits for a reader that has stopped reading */
    FIXED = 5,  /* descriptors in the poll set before those of the links */
};

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};

static void block_signals(struct job *job)
{
    struct sigaction hangup;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) sigaddset(&set, handled[i]);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN) sigdelset(&set, SIGHUP); /* nohup */
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, &job->mask);
    job->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* SLURM sends SIGTERM to all processes of a job. mpirun would end the ranks at once, so it must not receive it; kolorun
 * ends mpirun with MPIRUN_END. mpirun unblocks all signals in the processes that it starts. */
static sigset_t mask_of_mpirun(const struct job *job)
{
    sigset_t mask = job->mask;
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    return mask;
}

static void become_mpirun(const struct job *job, char **mpirun, int says, pid_t kolorun)
{
    sigset_t mask = mask_of_mpirun(job);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0); /* so that only kolorun receives Ctrl-C */
    prctl(PR_SET_PDEATHSIG, MPIRUN_END);
    if (getppid() != kolorun) _exit(127);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) signal(handled[i], SIG_DFL);
    signal(SIGPIPE, SIG_IGN); /* else mpirun dies when a rank ends while mpirun writes to it */
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (nothing >= 0 && dup2(nothing, 0) == 0 && dup2(says, 1) == 1 && dup2(says, 2) == 2) execv(mpirun[0], mpirun);
    _exit(127);
}

static bool start_mpirun(struct job *job, char **mpirun)
{
    int says[2];
    pid_t kolorun = getpid();
    if (job->signals < 0 || pipe(says)) return false;
    for (int i = 0; i < 2; i++) fcntl(says[i], F_SETFD, FD_CLOEXEC);
    fcntl(says[0], F_SETFL, O_NONBLOCK);
    job->mpirun = fork();
    if (job->mpirun == 0) become_mpirun(job, mpirun, says[1], kolorun);
    close(says[1]);
    job->mpirun_output = says[0];
    return job->mpirun > 0;
}

void job_end(struct job *job, int signal, long grace)
{
    for (int rank = 0; rank < job->ranks; rank++)
        if (job->rank[rank].wire) wire_print(job->rank[rank].wire, FRAME_END, "%d %ld", signal, grace);
    /* If not all ranks have started, mpirun must stop starting them at once; otherwise it ends by itself after the
     * ranks have ended. */
    long now = clock_now();
    bool complete = job->started == job->ranks;
    long term_at = complete ? now + grace + 300 : now;
    if (!job->ending || term_at < job->term_mpirun_at) job->term_mpirun_at = term_at;
    if (!job->ending || now + grace + 2000 < job->kill_all_at) job->kill_all_at = now + grace + 2000;
    job->ending = true;
}

void job_interrupt(struct job *job, int signal)
{
    /* Ranks that wait for others to start have nothing to save, and neither has a program without a reader. */
    bool patient = job->started == job->ranks && signal != SIGPIPE;
    long grace = patient ? 1000L * job->options->stop_timeout : TERMINATE_GRACE;
    if (job->interrupted) return;
    job->interrupted = signal;
    if (grace > STOP_REMARK) job->stop_remark_at = clock_now() + STOP_REMARK;
    job_end(job, signal, grace);
}

/* Only kolorun's own signals are counted: after scancel the ranks may tell of theirs before kolorun has received its
 * own, which then is not the second one. */
static void take_stop(struct job *job, int signal)
{
    if (job->stops++) job_end(job, SIGKILL, 0);
    else job_interrupt(job, signal);
}

/* No program is left that could use its time to end. mpirun may hang if ranks have ended while it was starting others,
 * so it is ended, too. */
static void hurry_mpirun(struct job *job)
{
    long now = clock_now();
    if (now + 300 < job->term_mpirun_at) job->term_mpirun_at = now + 300;
    if (now + 2000 < job->kill_all_at) job->kill_all_at = now + 2000;
}

/* mpirun waits for ever for a host that does not answer any more. */
static bool lost_a_host(const struct job *job)
{
    for (int i = 0; i < job->ranks; i++)
        if (job->rank[i].lost_by) return true;
    return false;
}

void job_release(struct job *job)
{
    bool stay = job->interrupted || job->options->keep_going;
    bool begun = job->started == job->ranks || job->ending; /* else mpirun may end the job before every rank is known */
    bool all = job->ended == job->started && begun;
    if (job->ended > 0) job_begin_looks(job);
    if (all && !job->ending && lost_a_host(job)) job_end(job, SIGTERM, TERMINATE_GRACE);
    if (all && job->ending) hurry_mpirun(job);
    for (int i = 0; i < job->ranks && begun && (all || !stay); i++) {
        struct job_rank *rank = &job->rank[i];
        if (!rank->wire || !rank->ended || rank->released) continue;
        wire_send(rank->wire, FRAME_LEAVE, NULL, 0);
        rank->released = true;
    }
}

static void tell_ranks(struct job *job, int signal)
{
    for (int rank = 0; rank < job->ranks; rank++)
        if (job->rank[rank].wire) wire_print(job->rank[rank].wire, FRAME_SIGNAL, "%d", signal);
}

/* Handles Ctrl-Z: stops the ranks, then kolorun; `fg` continues both. */
static void suspend(struct job *job)
{
    tell_ranks(job, SIGTSTP);
    kill(getpid(), SIGSTOP);
    tell_ranks(job, SIGCONT);
}

static void take_signals(struct job *job)
{
    struct signalfd_siginfo info;
    while (read(job->signals, &info, sizeof info) == sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGUSR1 || signal == SIGUSR2) tell_ranks(job, signal);
        else if (signal == SIGTSTP) suspend(job);
        else if (signal != SIGCHLD && signal != SIGCONT) take_stop(job, signal);
    }
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != job->mpirun) continue; /* an orphan that was adopted */
        job->mpirun_ended = true;
        job->mpirun_status = status;
        job->leftovers_at = clock_now() + UNDER_WAY;
    }
}

/* Keeps the end of mpirun's output, for failures without a better explanation, and shows it under --verbose. */
static void hear_mpirun(struct job *job)
{
    char bytes[4096];
    ssize_t got = read(job->mpirun_output, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        close(job->mpirun_output);
        job->mpirun_output = -1;
        return;
    }
    size_t length = (size_t)got, room = sizeof job->mpirun_text - job->mpirun_text_length;
    if (job->options->verbose) queue_bytes(&job->output.queue, STDERR_FILENO, bytes, length);
    if (length > room) {
        size_t out = length - room;
        memmove(job->mpirun_text, job->mpirun_text + out, job->mpirun_text_length - out);
        job->mpirun_text_length -= out;
    }
    memcpy(job->mpirun_text + job->mpirun_text_length, bytes, length);
    job->mpirun_text_length += length;
}

/* Whether to read stdin, which is sent to rank 0 piece by piece. A terminal is read only in the foreground, because the
 * system stops a background process that reads from it. */
static bool wants_stdin(const struct job *job)
{
    if (!job->stdin_open || job->stdin_untaken || !job->rank[0].wire || job->ending) return false;
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void pass_stdin(struct job *job)
{
    char bytes[16384];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) wire_send(job->rank[0].wire, FRAME_IN, bytes, (size_t)got);
    else wire_send(job->rank[0].wire, FRAME_IN_END, NULL, 0);
    job->stdin_untaken = got > 0;
    job->stdin_open = got > 0;
}

static int next_wait(const struct job *job)
{
    int wait = output_undrawn(&job->output) ? IDLE : 60000;
    if (job->ending) wait = clock_wait(job->term_mpirun_at, clock_wait(job->kill_all_at, wait));
    if (job->started < job->ranks && !job->ending) wait = clock_wait(job->start_by, wait);
    if (!job->ending) wait = clock_wait(job->look_at, wait);
    return clock_wait(job->leftovers_at, clock_wait(job->remark_at, clock_wait(job->stop_remark_at, wait)));
}

static void fill_poll(const struct job *job, struct pollfd *fd)
{
    bool full =
        job->output.queue.waiting > OUTPUT_FULL && !job->ending; /* a slow reader must not delay the end of the job */
    fd[0] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    fd[1] = (struct pollfd){.fd = job->contact.fd, .events = POLLIN};
    fd[2] = (struct pollfd){.fd = job->mpirun_output, .events = POLLIN};
    fd[3] = (struct pollfd){.fd = wants_stdin(job) ? STDIN_FILENO : -1, .events = POLLIN};
    fd[4] = (struct pollfd){.fd = queue_wants(&job->output.queue), .events = POLLOUT};
    for (size_t i = 0; i < job->links; i++) {
        const struct wire *wire = &job->link[i]->wire;
        short events = (short)((full ? 0 : POLLIN) | (wire_queued(wire) ? POLLOUT : 0));
        fd[FIXED + i] = (struct pollfd){.fd = events ? wire->fd : -1, .events = events};
    }
}

static void serve(struct job *job, const struct pollfd *fd, size_t links)
{
    struct job_link *link[links + 1]; /* the list changes while links are served */
    if (links) memcpy(link, job->link, links * sizeof *link);
    if (fd[4].revents) queue_write(&job->output.queue);
    if (fd[2].revents) hear_mpirun(job);
    for (size_t i = 0; i < links; i++)
        if (fd[FIXED + i].revents) job_serve(job, link[i], fd[FIXED + i].revents);
    if (fd[1].revents) job_accept(job);
    if (fd[3].revents && wants_stdin(job)) pass_stdin(job);
    if (fd[0].revents) take_signals(job);
}

static void remark(struct job *job)
{
    int first = -1;
    for (int rank = 0; rank < job->ranks; rank++)
        if (job->rank[rank].ended && (first < 0 || job->rank[rank].ended_at < job->rank[first].ended_at)) first = rank;
    job->remark_at = CLOCK_NEVER;
    if (first >= 0 && job->ended < job->ranks && !job->ending)
        output_say(&job->output,
                   "rank %d (%s, pid %ld) ended without error a while ago, and %d of %d ranks still run: do they wait "
                   "for it?",
                   first, job->rank[first].host, job->rank[first].pid, job->ranks - job->ended, job->ranks);
}

static void remark_stop(struct job *job)
{
    job->stop_remark_at = CLOCK_NEVER;
    if (job->ended < job->ranks)
        output_say(&job->output,
                   "%d of %d ranks have not ended after signal %d (%s): they are killed %d s after it "
                   "(--stop-timeout), "
                   "and a second signal kills them at once",
                   job->ranks - job->ended, job->ranks, job->interrupted, strsignal(job->interrupted),
                   job->options->stop_timeout);
}

static void keep_time(struct job *job)
{
    if (!job->ending && job->started < job->ranks && clock_passed(job->start_by)) {
        job->start_timed_out = true;
        job_end(job, SIGTERM, TERMINATE_GRACE);
        job_release(job);
    }
    if (job->output.queue.closed && !job->ending) job_interrupt(job, SIGPIPE); /* the output cannot be written */
    if (clock_passed(job->leftovers_at)) {
        job->leftovers_at = CLOCK_NEVER;
        if (job->links && !job->ending) job_end(job, SIGTERM, TERMINATE_GRACE);
    }
    job_look(job);
    if (clock_passed(job->remark_at)) remark(job);
    if (clock_passed(job->stop_remark_at)) remark_stop(job);
    if (job->ending && clock_passed(job->term_mpirun_at) && !job->mpirun_ended) {
        kill(job->mpirun, MPIRUN_END);
        job->mpirun_signalled = true;
        job->term_mpirun_at = clock_now() + 1000;
    }
    if (job->ending && clock_passed(job->kill_all_at)) {
        tree_signal(getpid(), SIGKILL);
        job->mpirun_signalled = job->mpirun_signalled || !job->mpirun_ended;
        job->kill_all_at = clock_now() + 500;
        if (job->mpirun_ended) job_close_links(job);
    }
}

/* Whether the job is still running. A rank and mpirun may have ended before the rank's connection was accepted, so
 * waiting connections count, too. */
static bool goes_on(const struct job *job)
{
    struct pollfd knocking = {.fd = job->contact.fd, .events = POLLIN};
    bool missing = job->started < job->ranks; /* else a connection without a rank is not one of this job */
    for (size_t i = 0; i < job->links; i++)
        if (missing || job->link[i]->rank >= 0) return true;
    return !job->mpirun_ended || (missing && poll(&knocking, 1, 0) > 0);
}

static void loop(struct job *job)
{
    while (goes_on(job)) {
        size_t links = job->links;
        struct pollfd *fd = calloc(FIXED + links, sizeof *fd);
        if (!fd) return;
        fill_poll(job, fd);
        int ready = poll(fd, FIXED + links, next_wait(job));
        if (ready == 0) output_idle(&job->output);
        if (ready > 0) serve(job, fd, links);
        keep_time(job);
        free(fd);
    }
}

bool job_finish_output(struct job *job)
{
    struct queue *queue = &job->output.queue;
    int before = job->interrupted;
    for (int fd; (fd = queue_wants(queue)) >= 0;) {
        struct pollfd ready[] = {{.fd = fd, .events = POLLOUT}, {.fd = job->signals, .events = POLLIN}};
        int count = poll(ready, 2, job->interrupted ? LAST_OUTPUT : -1);
        if (count == 0) return !before;
        if (count < 0 && errno != EINTR) return false;
        if (count > 0 && ready[1].revents) take_signals(job);
        if (count > 0 && ready[0].revents) queue_write(queue);
    }
    return false;
}

bool job_run(struct job *job, char **mpirun)
{
    if (!job->signals) block_signals(job); /* they stay blocked from the first start on */
    tree_adopt_orphans();
    job->stdin_open = true;
    job->start_by = clock_now() + 1000L * job->options->start_timeout;
    if (!start_mpirun(job, mpirun)) return false;
    loop(job);
    tree_end();
    while (job->mpirun_output >= 0 && poll(&(struct pollfd){.fd = job->mpirun_output, .events = POLLIN}, 1, 0) > 0)
        hear_mpirun(job);
    job_close_links(job);
    return true;
}
