/* The connections to the ranks' watchers: see wire.h for their messages. */
#define _GNU_SOURCE 1 /* accept4 */
#include "launch/job.h"

#include "launch/clock.h"
#include "launch/filter.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REMARK_AFTER = 10000 /* ms */ };

void job_accept(struct job *job)
{
    for (int fd; (fd = accept4(job->contact.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        struct job_link *link = calloc(1, sizeof *link);
        struct job_link **grown = realloc(job->link, (job->links + 1) * sizeof *grown);
        if (grown) job->link = grown;
        if (!link || !grown) {
            free(link);
            close(fd);
            return;
        }
        contact_keep_alive(fd);
        *link = (struct job_link){.wire = {.fd = fd}, .rank = -1};
        job->link[job->links++] = link;
    }
}

static void drop(struct job *job, struct job_link *link)
{
    if (link->rank >= 0) job->rank[link->rank].wire = NULL;
    size_t at = 0;
    while (at < job->links && job->link[at] != link) at++;
    if (at < job->links) {
        job->link[at] = job->link[job->links - 1];
        job->links--;
    }
    wire_close(&link->wire);
    free(link);
}

void job_close_links(struct job *job)
{
    while (job->links) drop(job, job->link[job->links - 1]);
    free(job->link);
    job->link = NULL;
}

/* Handles the first frame of a connection, which must be a FRAME_HELLO with this job's token. */
static void greet(struct job *job, struct job_link *link, const struct frame *frame)
{
    char text[512], *rest = NULL, *end = NULL;
    snprintf(text, sizeof text, "%.*s", (int)(frame->length < sizeof text ? frame->length : sizeof text - 1),
             frame->bytes);
    const char *token = strtok_r(text, " ", &rest), *host = token ? strtok_r(NULL, " ", &rest) : NULL;
    long number = host ? strtol(rest, &end, 10) : -1, pid = host ? strtol(end, &end, 10) : 0;
    if (frame->kind != FRAME_HELLO || !host || strlen(host) >= sizeof job->rank->host ||
        strcmp(token, job->contact.token) != 0 || number < 0 || number >= job->ranks || job->rank[number].started) {
        link->wire.broken = true;
        return;
    }
    struct job_rank *rank = &job->rank[number];
    rank->started = true;
    rank->pid = pid;
    rank->wire = &link->wire;
    strcpy(rank->host, host);
    link->rank = (int)number;
    job->output.rank[number].hidden = !filter_shows(job->options->shown_ranks, strtol(end, NULL, 10));
    job->started++;
    if (job->ending) wire_print(&link->wire, FRAME_END, "%d 0", SIGKILL);
    if (job->started == job->ranks) job_release(job);
}

static void note_failure(struct job *job, int number)
{
    if (job->ending) return;
    if (job->options->keep_going) job_report_failed(job, number);
    else job_end(job, SIGTERM, 1000);
}

static void take_exit(struct job *job, int number, const struct frame *frame)
{
    struct job_rank *rank = &job->rank[number];
    long value[4] = {0};
    if (frame_numbers(frame, value, 4) != 4 || rank->ended) return;
    rank->ended = true;
    rank->code = (int)value[0];
    rank->signal = (int)value[1];
    rank->asked = value[2] != 0;
    rank->ended_at = value[3];
    job->ended++;
    output_end_rank(&job->output, number);
    if ((rank->code || rank->signal) && !rank->asked) note_failure(job, number);
    else if (job->ended == 1) job->remark_at = clock_now() + REMARK_AFTER;
    job_release(job);
}

static void take_state(struct job *job, int number, const struct frame *frame)
{
    const struct job_rank *rank = &job->rank[number];
    long signal = 0;
    if (frame_numbers(frame, &signal, 1) != 1 || job->ending) return;
    if (signal)
        output_say(&job->output,
                   "rank %d (%s, pid %ld) was stopped by signal %ld (%s): the job waits for it; kill -CONT %ld lets it "
                   "go on",
                   number, rank->host, rank->pid, signal, strsignal((int)signal), rank->pid);
    else output_say(&job->output, "rank %d (%s, pid %ld) goes on", number, rank->host, rank->pid);
}

static void take(struct job *job, struct job_link *link, const struct frame *frame)
{
    long number = 0;
    switch (frame->kind) {
    case FRAME_OUT: output_take(&job->output, link->rank, OUTPUT_STDOUT, frame->bytes, frame->length); break;
    case FRAME_ERR: output_take(&job->output, link->rank, OUTPUT_STDERR, frame->bytes, frame->length); break;
    case FRAME_STATE: take_state(job, link->rank, frame); break;
    case FRAME_TAKEN: job->stdin_untaken = false; break;
    case FRAME_ASKED: output_aftermath(&job->output, link->rank); break;
    case FRAME_STOP:
        if (frame_numbers(frame, &number, 1) == 1) job_interrupt(job, (int)number);
        break;
    case FRAME_COMPUTED:
        if (frame_numbers(frame, &number, 1) == 1) job_take_computed(job, link->rank, number);
        break;
    case FRAME_EXIT: take_exit(job, link->rank, frame); break;
    case FRAME_NO_EXEC:
        if (frame_numbers(frame, &number, 1) == 1) job->rank[link->rank].exec_error = (int)number;
        break;
    default: link->wire.broken = true; break;
    }
}

/* Handles a watcher that is gone. If it did not report its rank's end, the rank has failed. */
static void lose(struct job *job, struct job_link *link)
{
    if (link->rank >= 0 && !job->rank[link->rank].ended) {
        struct job_rank *rank = &job->rank[link->rank];
        rank->ended = rank->lost = true;
        rank->lost_by = link->wire.error == ECONNRESET ? 0 : link->wire.error; /* a reset is a killed process's */
        rank->asked = job->ending;
        rank->signal = SIGKILL;
        rank->ended_at = clock_date();
        job->ended++;
        output_end_rank(&job->output, link->rank);
        if (!rank->asked) note_failure(job, link->rank);
        job_release(job);
    }
    drop(job, link);
}

void job_serve(struct job *job, struct job_link *link, short events)
{
    if (events & POLLOUT) wire_flush(&link->wire);
    if (!(events & ~POLLOUT)) return;
    bool there = wire_fill(&link->wire);
    for (struct frame frame; wire_next(&link->wire, &frame);) {
        if (link->rank < 0) greet(job, link, &frame);
        else take(job, link, &frame);
    }
    if (!there || link->wire.broken) lose(job, link);
}
