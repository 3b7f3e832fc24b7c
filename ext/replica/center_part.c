/* See center_part.h. */
#include "replica/center_part.h"

#include <pthread.h>
#include <stdlib.h>

struct kolo_center_part {
    kolo_part_args args;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the epoch or the turn */
    int64_t epoch, turn;    /* the number of the ticket whose turn it is */
    bool failed;
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

/* ---------------------------------------------------------------- turns, with the lock held */

/* False: the turn will not come. */
static bool turn_comes(kolo_center_part *part, const kolo_ticket *ticket)
{
    while (!part->failed && part->epoch == ticket->epoch && part->turn < ticket->number)
        pthread_cond_wait(&part->changed, &part->lock);
    return !part->failed && part->epoch == ticket->epoch;
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
                                      const float *gradient)
{
    pthread_mutex_lock(&part->lock);
    bool comes = turn_comes(part, ticket);
    kolo_status status = comes ? exchange(part, ticket, mine, gradient) : kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    if (comes) end_turn(part);
    pthread_mutex_unlock(&part->lock);
    return status;
}

void kolo_center_part_visit(kolo_center_part *part, const kolo_ticket *ticket,
                            void (*visit)(void *visitor, const kolo_part_args *args), void *visitor)
{
    pthread_mutex_lock(&part->lock);
    bool comes = turn_comes(part, ticket);
    visit(visitor, &part->args);
    if (comes) end_turn(part);
    pthread_mutex_unlock(&part->lock);
}
