/* Ranks that hang under --keep-going, where no failure ends the job: when a rank has ended, the others are asked from
 * time to time how much they compute. A job whose ranks have all done nothing for a while is ended. */
#include "launch/job.h"

#include "launch/clock.h"

enum {
    STALL_LIMIT = 60, /* seconds, the default of libkolo */
    LOOKS = 20, /* within the limit */
    BUSY = 50 /* a rank that computes for less than this part of the time only waits */
};

/* Twice the stall limit, within which ranks give up waiting for another one, and go on or fail. */
static long limit_of(const struct job *job)
{
    return 2000L * (job->options->stall_limit < 0 ? STALL_LIMIT : job->options->stall_limit);
}

void job_begin_looks(struct job *job)
{
    if (job->look_at != CLOCK_NEVER || !job->options->keep_going || limit_of(job) == 0) return;
    job->look_at = clock_now();
    for (int i = 0; i < job->ranks; i++) job->rank[i].busy_at = job->rank[i].seen_at = job->look_at;
}

void job_take_computed(struct job *job, int number, long computed)
{
    struct job_rank *rank = &job->rank[number];
    long now = clock_now();
    if (computed - rank->computed > (now - rank->seen_at) / BUSY) rank->busy_at = now;
    rank->computed = computed;
    rank->seen_at = now;
}

static bool all_idle(const struct job *job)
{
    for (int i = 0; i < job->ranks; i++)
        if (!job->rank[i].ended && job->rank[i].seen_at - job->rank[i].busy_at < limit_of(job)) return false;
    return job->ended < job->ranks;
}

static void end_idle(struct job *job)
{
    for (int i = 0; i < job->ranks; i++)
        if (!job->rank[i].ended)
            output_say(&job->output,
                       "rank %d (%s, pid %ld) has done nothing for %ld s, and other ranks have ended: it is ended "
                       "(--stall-limit)",
                       i, job->rank[i].host, job->rank[i].pid, limit_of(job) / 1000);
    job->idle = true;
    job_end(job, SIGTERM, 1000);
}

void job_look(struct job *job)
{
    if (!clock_passed(job->look_at) || job->ending) return;
    if (all_idle(job)) {
        end_idle(job);
        return;
    }
    for (int i = 0; i < job->ranks; i++)
        if (job->rank[i].wire && !job->rank[i].ended) wire_send(job->rank[i].wire, FRAME_COMPUTED, NULL, 0);
    job->look_at = clock_now() + limit_of(job) / LOOKS;
}
