/* Reporting the end of the job: which rank failed first, why, and the last lines of its stderr. */
#define _DEFAULT_SOURCE 1 /* strsep */
#include "launch/job.h"

#include "launch/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAME_MOMENT 500000 /* microseconds */

static bool failed(const struct job_rank *rank)
{
    return rank->ended && !rank->asked && (rank->code || rank->signal);
}

static bool was_killed(const struct job_rank *rank)
{
    return failed(rank) && rank->signal;
}

static bool left_early(const struct job_rank *rank)
{
    return rank->ended && !rank->asked && !rank->code && !rank->signal;
}

/* Whether a rank ended with an exit code, even if it was asked to end: it called MPI_Abort, and mpirun was faster. */
static bool aborted(const struct job_rank *rank)
{
    return rank->ended && rank->code;
}

/* The rank that ended first among those for which `is` is true; -1: none. */
static int first_that(const struct job *job, bool (*is)(const struct job_rank *))
{
    int first = -1;
    for (int rank = 0; rank < job->ranks; rank++)
        if (is(&job->rank[rank]) && (first < 0 || job->rank[rank].ended_at < job->rank[first].ended_at)) first = rank;
    return first;
}

/* The rank whose failure is the cause of the job's; -1: none has failed. The links of a process that is killed close a
 * moment before its watcher sees it end, and a rank that fails for want of it may end in between. So a rank that a
 * signal ended comes before one that exited by itself shortly before. */
static int first_failed(const struct job *job)
{
    int first = first_that(job, failed), killed = first_that(job, was_killed);
    if (killed < 0) return first;
    return job->rank[killed].ended_at - job->rank[first].ended_at < SAME_MOMENT ? killed : first;
}

static void describe(const struct job_rank *rank, const char *program, char *text, size_t size)
{
    if (rank->exec_error) snprintf(text, size, "cannot start %s: %s", program, strerror(rank->exec_error));
    else if (rank->lost_by)
        snprintf(text, size, "lost: its host does not answer any more (%s)", strerror(rank->lost_by));
    else if (rank->lost) snprintf(text, size, "lost: its watcher was killed or its host has gone");
    else if (rank->signal) snprintf(text, size, "killed by signal %d (%s)", rank->signal, strsignal(rank->signal));
    else snprintf(text, size, "exited with code %d", rank->code);
}

static void say_last_words(struct job *job, int number, const char *sentence)
{
    const char *only = output_last_words(&job->output, number, 0);
    if (!only) {
        output_say(&job->output, "%s", sentence);
    } else if (!output_last_words(&job->output, number, 1)) {
        output_say(&job->output, "%s; its last words: %s", sentence, only);
    } else {
        output_say(&job->output, "%s; its last words:", sentence);
        for (unsigned i = 0; (only = output_last_words(&job->output, number, i)); i++)
            output_say(&job->output, "  %s", only);
    }
}

static int code_of(const struct job_rank *rank)
{
    return rank->signal ? 128 + rank->signal : rank->code;
}

/* Notes the cause of the failure, after which the job may be started again. */
__attribute__((format(printf, 2, 3))) static void may_restart(struct job *job, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(job->why, sizeof job->why, format, arguments);
    va_end(arguments);
}

/* Whether another start would fail in the same way: code 2 is wrong use, and a shell's 126 and 127 are a program that
 * cannot be started. */
static bool is_used_wrongly(const struct job_rank *rank)
{
    return rank->exec_error || rank->code == KOLORUN_WRONG_USE || rank->code == 126 || rank->code == 127;
}

static int report_rank(struct job *job, int number)
{
    const struct job_rank *rank = &job->rank[number];
    char how[1024], sentence[1400];
    describe(rank, job->options->command[0], how, sizeof how);
    if (rank->pid) snprintf(sentence, sizeof sentence, "rank %d (%s, pid %ld): %s", number, rank->host, rank->pid, how);
    else snprintf(sentence, sizeof sentence, "rank %d (%s): %s", number, rank->host, how);
    say_last_words(job, number, sentence);
    if (is_used_wrongly(rank)) job->why[0] = '\0';
    else if (rank->lost) may_restart(job, "rank %d was lost", number);
    else if (rank->signal) may_restart(job, "rank %d was killed by signal %d", number, rank->signal);
    else may_restart(job, "rank %d exited with code %d", number, rank->code);
    return code_of(rank);
}

void job_report_failed(struct job *job, int number)
{
    report_rank(job, number);
    job->rank[number].reported = true;
    if (job->ended < job->ranks)
        output_say(&job->output, "%d of %d ranks go on (--keep-going)", job->ranks - job->ended, job->ranks);
}

static int mpirun_code(const struct job *job)
{
    int status = job->mpirun_status;
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

/* Appends `next`, a line after `line` in the same text, to `line`. */
static void join_lines(char *line, const char *next)
{
    char *end = line + strlen(line);
    *end++ = ' ';
    memmove(end, next, strlen(next) + 1);
}

/* Whether mpirun tells that a network interface vanished while it listed them ("[host:pid] pmix_ifinit:
 * ioctl(SIOCGIFFLAGS) failed with errno=19"). It leaves the interface out, and goes on. */
static bool tells_of_vanished_interface(const char *line)
{
    const char *call = strstr(line, "_ifinit: ioctl("), *error = call ? strstr(call, "failed with errno=") : NULL;
    long number = error ? strtol(strchr(error, '=') + 1, NULL, 10) : 0;
    return number == ENODEV || number == EADDRNOTAVAIL;
}

/* Selects the useful lines of mpirun's output. mpirun prints pages between two lines of dashes; only the first
 * paragraph of a page is used, as one line, with the next one if it ends with a colon. A page that begins with "ORTE ",
 * in which the runtime guesses why a host did not answer, is not used, except for its first line if there is nothing
 * else. The line that recommends mpirun's --help, and those of vanished interfaces, are not used, either. */
static int useful_lines(char *text, const char *line[], int most)
{
    bool page = false, skipped = false;
    char *last = NULL, *guess = NULL;
    int count = 0;
    for (char *next; (next = strsep(&text, "\r\n")) && count < most;) {
        if (tells_of_vanished_interface(next)) continue;
        bool blank = !next[strspn(next, " ")] || !strncmp(next, "Type '", 6),
             dashes = !blank && !next[strspn(next, "- ")];
        if (dashes) {
            page = !page;
            skipped = false;
        } else if (!strncmp(next, "ORTE ", 5)) {
            skipped = true;
            guess = guess ? guess : next;
        } else if (!blank && !skipped) {
            if (page && last) join_lines(last, next);
            else line[count++] = last = next;
            continue;
        }
        if (blank && page && last && last[strlen(last) - 1] == ':') continue;
        skipped = skipped || (blank && page && last);
        last = NULL;
    }
    if (count == 0 && guess) line[count++] = guess;
    return count;
}

/* Prints a sentence with mpirun's output, for failures that no rank has reported. */
static void quote_mpirun(struct job *job, const char *sentence)
{
    const char *line[100];
    size_t last =
        job->mpirun_text_length < sizeof job->mpirun_text ? job->mpirun_text_length : sizeof job->mpirun_text - 1;
    job->mpirun_text[last] = '\0';
    bool above = job->options->verbose; /* its output was printed already */
    int count = above ? 0 : useful_lines(job->mpirun_text, line, 100);
    if (count == 1) output_say(&job->output, "%s: %s", sentence, line[0]);
    else output_say(&job->output, "%s%s", sentence, count > 0 ? "; it says:" : "");
    for (int i = 0; count > 1 && i < count; i++) output_say(&job->output, "  %s", line[i]);
}

/* Whether a signal that kolorun did not send ended mpirun. The ranks then end by themselves, with meaningless codes. */
static bool mpirun_was_killed(const struct job *job)
{
    return WIFSIGNALED(job->mpirun_status) && !job->mpirun_signalled;
}

static int report_mpirun_killed(struct job *job)
{
    int signal = WTERMSIG(job->mpirun_status);
    output_say(&job->output, "mpirun was killed by signal %d (%s)", signal, strsignal(signal));
    may_restart(job, "mpirun was killed by signal %d", signal);
    return 128 + signal;
}

static int report_interrupt(struct job *job)
{
    const struct queue *queue = &job->output.queue;
    if (job->interrupted == SIGPIPE && queue->error != EPIPE) { /* the output cannot be written, but has a reader */
        dprintf(STDERR_FILENO, "kolorun: the ranks' output cannot be written: %s\n", strerror(queue->error));
        return KOLORUN_FAILED;
    }
    if (job->interrupted == SIGINT) output_say(&job->output, "interrupted");
    else if (job->interrupted != SIGPIPE)
        output_say(&job->output, "ended by signal %d (%s)", job->interrupted, strsignal(job->interrupted));
    return 128 + job->interrupted;
}

/* Reports that mpirun has refused the job for a reason that a user can change. False if it has not. */
static bool report_refusal(struct job *job)
{
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    job->mpirun_text[job->mpirun_text_length - (job->mpirun_text_length == sizeof job->mpirun_text)] = '\0';
    if (strstr(job->mpirun_text, "not enough slots"))
        output_say(&job->output,
                   "wanted %d ranks, and the allocation has fewer slots: start fewer ranks, or ask SLURM for more "
                   "tasks (-n %d)",
                   job->ranks, job->ranks);
    else if (strstr(job->mpirun_text, "A request was made to bind"))
        output_say(&job->output,
                   "--bind-to: a host has fewer cores than ranks: start fewer ranks there, or do not bind "
                   "them");
    else if (strstr(job->mpirun_text, "already filled") && nodes)
        output_say(&job->output, "-H: wanted hosts of the allocation (%s) with room for %d ranks", nodes, job->ranks);
    else return false;
    return true;
}

static int report_mpirun(struct job *job)
{
    int code = mpirun_code(job), early = first_that(job, left_early), abort = first_that(job, aborted);
    char sentence[200];
    if (job->started < job->ranks) {
        if (report_refusal(job)) return KOLORUN_FAILED;
        snprintf(sentence, sizeof sentence, "mpirun could not start the job (%d of %d ranks started)", job->started,
                 job->ranks);
        quote_mpirun(job, sentence);
        may_restart(job, "mpirun could not start the job");
        return KOLORUN_FAILED; /* mpirun's exit code is not a rank's */
    }
    if (early >= 0) {
        const struct job_rank *rank = &job->rank[early];
        output_say(&job->output,
                   "rank %d (%s, pid %ld): exited with code 0 before MPI_Finalize or kolo_finish(), while other ranks "
                   "needed it",
                   early, rank->host, rank->pid);
        may_restart(job, "rank %d exited before MPI_Finalize or kolo_finish()", early);
    } else if (abort >= 0) {
        return report_rank(job, abort);
    } else {
        snprintf(sentence, sizeof sentence, "mpirun ended with code %d", code);
        quote_mpirun(job, sentence);
        may_restart(job, "%s", sentence);
    }
    return code ? code : KOLORUN_FAILED;
}

/* The first failure may follow from a rank that had left the job without one. */
static void report_early(struct job *job, int failed_rank)
{
    int early = first_that(job, left_early);
    const struct job_rank *rank = &job->rank[early < 0 ? 0 : early];
    if (early < 0 || rank->ended_at >= job->rank[failed_rank].ended_at) return;
    output_say(&job->output, "rank %d (%s, pid %ld) had ended with code 0 before the failure of rank %d", early,
               rank->host, rank->pid, failed_rank);
}

int job_report(struct job *job)
{
    int first = first_failed(job);
    if (job->interrupted) return report_interrupt(job);
    if (job->start_timed_out) {
        char sentence[200];
        snprintf(sentence, sizeof sentence, "%d of %d ranks had not started after %d s; --start-timeout allows more",
                 job->ranks - job->started, job->ranks, job->options->start_timeout);
        quote_mpirun(job, sentence);
        may_restart(job, "%d of %d ranks had not started", job->ranks - job->started, job->ranks);
        return KOLORUN_FAILED;
    }
    if (mpirun_was_killed(job)) return report_mpirun_killed(job);
    if (first >= 0 && job->rank[first].reported) return code_of(&job->rank[first]);
    if (job->idle) return KOLORUN_FAILED;
    if (first >= 0) {
        int code = report_rank(job, first);
        report_early(job, first);
        return code;
    }
    if (mpirun_code(job) || job->ended < job->ranks) return report_mpirun(job);
    return KOLORUN_DONE;
}
