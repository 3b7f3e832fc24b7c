/* See center_part.h. */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "replica/center_part.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct kolo_center_part {
    kolo_part_args args;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the epoch or the turn, or a worker is gone */
    int64_t epoch, turn;    /* the number of the ticket whose turn it is */
    bool failed;
    bool gone[KOLO_DEVICES_MAX]; /* workers */
};

kolo_status kolo_center_part_open(const kolo_part_args *args, kolo_center_part **part)
{
    kolo_center_part *made = *part = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a part of the centre");
    made->args = *args;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    return KOLO_OK;
}

void kolo_center_part_close(kolo_center_part **part)
{
    kolo_center_part *closed = *part;
    *part = NULL;
    if (!closed) return;
    pthread_cond_destroy(&closed->changed);
    pthread_mutex_destroy(&closed->lock);
    free(closed);
}

void kolo_center_part_begin(kolo_center_part *part, int64_t epoch)
{
    pthread_mutex_lock(&part->lock);
    part->epoch = epoch;
    part->turn = 0;
    part->failed = false;
    pthread_cond_broadcast(&part->changed);
    pthread_mutex_unlock(&part->lock);
}

void kolo_center_part_fail(kolo_center_part *part)
{
    pthread_mutex_lock(&part->lock);
    part->failed = true;
    pthread_cond_broadcast(&part->changed);
    pthread_mutex_unlock(&part->lock);
}

void kolo_center_part_lose(kolo_center_part *part, int worker)
{
    pthread_mutex_lock(&part->lock);
    part->gone[worker] = true;
    pthread_cond_broadcast(&part->changed);
    pthread_mutex_unlock(&part->lock);
}

/* ---------------------------------------------------------------- turns, with the lock held */

typedef enum turn_state { COMES, NEVER_COMES, NOT_YET } turn_state;

/* Whether the worker that held ticket `number`, an earlier one than `ticket`, is gone. */
static bool holder_is_gone(const kolo_center_part *part, const kolo_ticket *ticket, int64_t number)
{
    int64_t before = ticket->number - 1 - number;
    return before < ticket->holders && ticket->holder[before] >= 0 && part->gone[ticket->holder[before]];
}

static turn_state look_at_turn(kolo_center_part *part, const kolo_ticket *ticket)
{
    if (part->failed || part->epoch > ticket->epoch) return NEVER_COMES;
    if (part->epoch < ticket->epoch) return NOT_YET;
    while (part->turn < ticket->number && holder_is_gone(part, ticket, part->turn)) part->turn++;
    return part->turn < ticket->number ? NOT_YET : part->turn == ticket->number ? COMES : NEVER_COMES;
}

/* Waits until the turn comes, or never will, or for so many seconds (0: for ever). */
static turn_state wait_for_turn(kolo_center_part *part, const kolo_ticket *ticket, double seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t nanoseconds = end.tv_nsec + (int64_t)(seconds * 1e9);
    end.tv_sec += (time_t)(nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);
    turn_state state = look_at_turn(part, ticket);
    for (int late = 0; state == NOT_YET && !late; state = look_at_turn(part, ticket))
        late = seconds > 0 ? pthread_cond_clockwait(&part->changed, &part->lock, CLOCK_MONOTONIC, &end)
                           : pthread_cond_wait(&part->changed, &part->lock);
    return state;
}

static void end_turn(kolo_center_part *part)
{
    part->turn++;
    pthread_cond_broadcast(&part->changed);
}

/* ---------------------------------------------------------------- calls */

/* The part of a whole array. */
static float *from(const kolo_center_part *part, const float *whole)
{
    return whole ? (float *)whole + part->args.range.first : NULL;
}

static kolo_status exchange(kolo_center_part *part, const kolo_ticket *ticket, const kolo_exchange *mine,
                            const float *gradient)
{
    const kolo_part_args *args = &part->args;
    kolo_exchange slice = *mine;
    slice.count = args->range.end - args->range.first;
    slice.center = from(part, args->weights);
    slice.weights = from(part, mine->weights);
    slice.start = from(part, mine->start);
    slice.staleness = ticket->staleness;
    if (args->kind->updates_center) KOLO_TRY(args->update(args->owner, &args->range, args->weights, gradient, ticket));
    args->kind->exchange(args->strategy, &slice);
    return KOLO_OK;
}

kolo_status kolo_center_part_exchange(kolo_center_part *part, const kolo_ticket *ticket, const kolo_exchange *mine,
                                      const float *gradient, double seconds, bool *done)
{
    kolo_status status = KOLO_OK;
    pthread_mutex_lock(&part->lock);
    turn_state turn = wait_for_turn(part, ticket, seconds);
    if (turn == COMES) status = exchange(part, ticket, mine, gradient);
    if (turn == COMES) end_turn(part);
    pthread_mutex_unlock(&part->lock);
    *done = turn == COMES;
    return turn == NEVER_COMES ? kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF) : status;
}

bool kolo_center_part_visit(kolo_center_part *part, const kolo_ticket *ticket, double seconds,
                            void (*visit)(void *visitor, const kolo_part_args *args), void *visitor)
{
    pthread_mutex_lock(&part->lock);
    turn_state turn = wait_for_turn(part, ticket, seconds);
    if (turn != NOT_YET) visit(visitor, &part->args);
    if (turn == COMES) end_turn(part);
    pthread_mutex_unlock(&part->lock);
    return turn != NOT_YET;
}
