/* How the job ended, in a sentence: who failed first, by what, and what it said last. */
#include "launch/job.h"

#include "launch/clock.h"
#include "launch/say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool failed(const struct job_rank *rank)
{
    return rank->ended && !rank->asked && (rank->code || rank->signal);
}

static bool left_early(const struct job_rank *rank)
{
    return rank->ended && !rank->asked && !rank->code && !rank->signal;
}

/* Ended by a code of its own although the job was being ended: it called MPI_Abort, and mpirun was faster. */
static bool aborted(const struct job_rank *rank)
{
    return rank->ended && rank->code;
}

/* The earliest of those that `is` so; -1 when none is. */
static int first_that(const struct job *job, bool (*is)(const struct job_rank *))
{
    int first = -1;
    for (int rank = 0; rank < job->ranks; rank++)
        if (is(&job->rank[rank]) && (first < 0 || job->rank[rank].ended_at < job->rank[first].ended_at)) first = rank;
    return first;
}

static void describe(const struct job_rank *rank, const char *program, char *text, size_t size)
{
    if (rank->exec_error) snprintf(text, size, "cannot start %s: %s", program, strerror(rank->exec_error));
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

static int report_rank(struct job *job, int number)
{
    const struct job_rank *rank = &job->rank[number];
    char how[1024], sentence[1400];
    describe(rank, job->options->command[0], how, sizeof how);
    if (rank->pid) snprintf(sentence, sizeof sentence, "rank %d (%s, pid %ld): %s", number, rank->host, rank->pid, how);
    else snprintf(sentence, sizeof sentence, "rank %d (%s): %s", number, rank->host, how);
    say_last_words(job, number, sentence);
    return rank->signal ? 128 + rank->signal : rank->code;
}

static int mpirun_code(const struct job *job)
{
    int status = job->mpirun_status;
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

/* The lines of mpirun's that explain something: no rules of dashes, and of the pages in which its runtime guesses why a
 * host did not answer nothing where ssh or the host has said why, else the first line. */
static int useful_lines(char *text, const char *line[], int most)
{
    bool guessing = false;
    const char *guess = NULL;
    int count = 0;
    char *rest = NULL;
    for (char *next = strtok_r(text, "\r\n", &rest); next && count < most; next = strtok_r(NULL, "\r\n", &rest)) {
        bool page = !strncmp(next, "ORTE ", 5);
        if (page && !guess) guess = next;
        if (strspn(next, "- ") == strlen(next)) guessing = false;
        else if (page) guessing = true;
        else if (!guessing) line[count++] = next;
    }
    if (count == 0 && guess) line[count++] = guess;
    return count;
}

/* mpirun's own words are all there is to explain what no rank has reported. */
static void quote_mpirun(struct job *job, const char *sentence)
{
    const char *line[100];
    size_t last =
        job->mpirun_text_length < sizeof job->mpirun_text ? job->mpirun_text_length : sizeof job->mpirun_text - 1;
    job->mpirun_text[last] = '\0';
    bool above = job->options->verbose; /* they stand there already */
    int count = above ? 0 : useful_lines(job->mpirun_text, line, 100);
    if (count == 1) output_say(&job->output, "%s: %s", sentence, line[0]);
    else output_say(&job->output, "%s%s", sentence, count > 0 ? "; it says:" : "");
    for (int i = 0; count > 1 && i < count; i++) output_say(&job->output, "  %s", line[i]);
}

/* Somebody else did that: ranks that lose their mpirun end themselves, with codes that mean nothing. */
static bool mpirun_was_killed(const struct job *job)
{
    return WIFSIGNALED(job->mpirun_status) && !job->mpirun_told;
}

static int report_mpirun_killed(struct job *job)
{
    int signal = WTERMSIG(job->mpirun_status);
    output_say(&job->output, "mpirun was killed by signal %d (%s)", signal, strsignal(signal));
    return 128 + signal;
}

static int report_interrupt(struct job *job)
{
    const struct queue *queue = &job->output.queue;
    if (job->interrupted == SIGPIPE && queue->error != EPIPE) { /* not a reader that left: the queue can say nothing */
        dprintf(STDERR_FILENO, "kolorun: the ranks' output cannot be written: %s\n", strerror(queue->error));
        return KOLORUN_FAILED;
    }
    if (job->interrupted == SIGINT) output_say(&job->output, "interrupted");
    else if (job->interrupted != SIGPIPE)
        output_say(&job->output, "ended by signal %d (%s)", job->interrupted, strsignal(job->interrupted));
    return 128 + job->interrupted;
}

static int report_mpirun(struct job *job)
{
    int code = mpirun_code(job), early = first_that(job, left_early), abort = first_that(job, aborted);
    char sentence[200];
    if (job->started < job->ranks) {
        snprintf(sentence, sizeof sentence, "mpirun could not start the job (%d of %d ranks started)", job->started,
                 job->ranks);
        quote_mpirun(job, sentence);
        return KOLORUN_FAILED; /* mpirun's code is no rank's */
    }
    if (early >= 0) {
        const struct job_rank *rank = &job->rank[early];
        output_say(&job->output,
                   "rank %d (%s, pid %ld): exited with code 0 before MPI_Finalize, while other ranks needed it", early,
                   rank->host, rank->pid);
    } else if (abort >= 0) {
        return report_rank(job, abort);
    } else {
        snprintf(sentence, sizeof sentence, "mpirun ended with code %d", code);
        quote_mpirun(job, sentence);
    }
    return code ? code : KOLORUN_FAILED;
}

int job_report(struct job *job)
{
    int first = first_that(job, failed);
    if (job->interrupted) return report_interrupt(job);
    if (job->start_timed_out) {
        char sentence[200];
        snprintf(sentence, sizeof sentence, "%d of %d ranks had not started after %d s; --start-timeout allows more",
                 job->ranks - job->started, job->ranks, job->options->start_timeout);
        quote_mpirun(job, sentence);
        return KOLORUN_FAILED;
    }
    if (mpirun_was_killed(job)) return report_mpirun_killed(job);
    if (first >= 0) return report_rank(job, first);
    if (mpirun_code(job) || job->ended < job->ranks) return report_mpirun(job);
    return KOLORUN_DONE;
}
