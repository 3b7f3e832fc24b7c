/* See center.h. All functions whose names do not begin with kolo_ are called with the lock held, but for those that
 * open the centre. */
#include "replica/center_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/call.h"
#include "core/clock.h"
#include "core/grow.h"

/* ---------------------------------------------------------------- opening and closing */

kolo_status kolo_center_open(kolo_center_parts *parts, kolo_center **center)
{
    const kolo_parts_args *args = kolo_center_parts_args(parts);
    kolo_center *made = *center = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the centre of the workers");
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    made->parts = parts;
    made->args = *args;
    made->over = true;
    made->stall_limit = kolo_stall_limit();
    made->stalled = made->lost_server = -1;
    made->workers = calloc((size_t)args->workers, sizeof *made->workers);
    for (int i = 0; i < args->workers && made->workers; i++)
        made->workers[i].exchange =
            (kolo_exchange){.number = i, .count = args->count, .center = kolo_center_parts_weights(parts)};
    if (made->workers) return KOLO_OK;
    kolo_center_close(center);
    return kolo_fail_memory((size_t)args->workers * sizeof *made->workers, "the centre of the workers");
}

void kolo_center_may_give_up(kolo_center *center, bool (*give_up)(void *owner, int worker, double limit), void *owner)
{
    pthread_mutex_lock(&center->lock);
    center->give_up = give_up;
    center->giver_up = owner;
    pthread_mutex_unlock(&center->lock);
}

void kolo_center_close(kolo_center **center)
{
    kolo_center *closed = *center;
    *center = NULL;
    if (!closed) return;
    for (int i = 0; closed->workers && i < closed->args.workers; i++) free(closed->workers[i].batches);
    free(closed->workers);
    free(closed->returned);
    pthread_cond_destroy(&closed->changed);
    pthread_mutex_destroy(&closed->lock);
    free(closed);
}

/* ---------------------------------------------------------------- waiting */

kolo_status kolo_center_called_off(const kolo_center *center)
{
    if (center->lost_server >= 0) return kolo_fail_lost_server(center->lost_server, "its process is gone");
    if (center->stalled < 0) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    const kolo_center_worker_state *w = &center->workers[center->stalled];
    return kolo_fail(KOLO_COMM, "worker %d has not come for %g s (KOLO_STALL_LIMIT): the others wait for its batch %d",
                     center->stalled, center->stall_limit, w->batches[w->exchange.batches - 1]);
}

static void end_epoch(kolo_center *center, kolo_center_ending how)
{
    if (center->ended < how) center->ended = how;
    if (how == FAILED) kolo_center_parts_fail(center->parts);
    pthread_cond_broadcast(&center->changed);
}

/* A worker over ranks whose message was lost gives up by itself when it has had no answer for the limit, and the others
 * may go on without it. So the centre is more patient than the worker, by the time of its batches and of its end. */
#define PATIENCE 2.0 /* seconds */

void kolo_center_look_for_stalled(kolo_center *center)
{
    double limit = fmax(center->stall_limit, 10 * center->longest) + center->longest + PATIENCE;
    for (int i = 0; i < center->args.workers && !center->ended && center->stall_limit > 0; i++) {
        kolo_center_worker_state *w = &center->workers[i];
        if (w->gone || w->given_up || !(w->trains || w->admitted) || kolo_now() - w->given_at < limit) continue;
        w->given_up = center->give_up && center->give_up(center->giver_up, i, limit);
        if (w->given_up) continue;
        center->stalled = i;
        end_epoch(center, FAILED);
    }
}

/* Waits until something has changed, or `end` has come (kolo_now(); 0: never), which the result says. */
bool kolo_center_wait(kolo_center *center, double end)
{
    if (center->stall_limit <= 0 && end == 0) {
        pthread_cond_wait(&center->changed, &center->lock);
        return true;
    }
    struct timespec until;
    double now = kolo_now(), most = end > 0 && end - now < 1 ? fmax(end - now, 0) : 1;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(most * 1e9);
    until.tv_sec += (time_t)(nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    if (pthread_cond_timedwait(&center->changed, &center->lock, &until) == ETIMEDOUT)
        kolo_center_look_for_stalled(center);
    return end == 0 || kolo_now() < end;
}

/* ---------------------------------------------------------------- weights */

void kolo_center_set(kolo_center *center, const float *weights, int64_t updates)
{
    pthread_mutex_lock(&center->lock);
    kolo_center_parts_set(center->parts, weights);
    center->updates = updates;
    pthread_mutex_unlock(&center->lock);
}

/* With the lock held. */
kolo_ticket kolo_center_give_ticket(kolo_center *center, int holder)
{
    kolo_ticket ticket = {.epoch = center->number, .number = center->tickets++};
    int64_t before = ticket.number < KOLO_DEVICES_MAX ? ticket.number : KOLO_DEVICES_MAX;
    for (int64_t i = 0; i < before; i++) ticket.holder[i] = center->holder[(ticket.number - 1 - i) % KOLO_DEVICES_MAX];
    ticket.holders = (int)before;
    center->holder[ticket.number % KOLO_DEVICES_MAX] = (int16_t)holder;
    return ticket;
}

kolo_ticket kolo_center_visit(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    kolo_ticket ticket = kolo_center_give_ticket(center, -1);
    pthread_mutex_unlock(&center->lock);
    return ticket;
}

static void copy_weights(void *to, const kolo_part_args *part)
{
    const kolo_part_range *range = &part->range;
    memcpy((float *)to + range->first, part->weights + range->first,
           (size_t)(range->end - range->first) * sizeof *part->weights);
}

void kolo_center_get(kolo_center *center, float *weights)
{
    kolo_ticket ticket = kolo_center_visit(center);
    for (int i = center->args.first; i < center->args.end; i++)
        kolo_center_parts_visit(center->parts, i, &ticket, 0, copy_weights, weights);
}

void kolo_center_worker(kolo_center *center, int worker_number, float *weights, kolo_totals *totals)
{
    const kolo_center_worker_state *w = &center->workers[worker_number];
    pthread_mutex_lock(&center->lock);
    const float *start = kolo_center_parts_start(center->parts, worker_number);
    if (weights) memcpy(weights, start, (size_t)center->args.count * sizeof *weights);
    if (totals) *totals = w->totals;
    pthread_mutex_unlock(&center->lock);
}

/* ---------------------------------------------------------------- an epoch */

void kolo_center_begin(kolo_center *center, const kolo_center_epoch *epoch)
{
    pthread_mutex_lock(&center->lock);
    center->epoch = *epoch;
    center->number++;
    center->ended = center->lost_server >= 0 ? FAILED : GOES_ON;
    center->stalled = -1;
    center->over = center->last_round = false;
    center->turn = center->round = center->trained = center->returned_count = 0;
    for (int s = 0; s < kolo_shard_count(&epoch->shards); s++) center->taken[s] = kolo_shard_first(&epoch->shards, s);
    center->totals = (kolo_totals){0};
    center->tickets = 0;
    kolo_center_parts_begin(center->parts, center->number);
    for (int i = 0; i < center->args.workers; i++) {
        kolo_center_worker_state *w = &center->workers[i];
        w->exchange.batches = w->turn = w->position = 0;
        w->trains = w->arrived = w->admitted = false;
        w->totals = w->exchanged = (kolo_totals){0};
    }
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
}

void kolo_center_stop(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    end_epoch(center, STOPPED);
    pthread_mutex_unlock(&center->lock);
}

void kolo_center_fail(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    end_epoch(center, FAILED);
    pthread_mutex_unlock(&center->lock);
}

/* Whether a worker still has to exchange what it has learnt. */
static bool any_pending(const kolo_center *center)
{
    for (int i = 0; i < center->args.workers; i++)
        if (!center->workers[i].gone && center->workers[i].exchange.batches > 0) return true;
    return false;
}

static int shard_of(const kolo_center *center, int worker)
{
    return kolo_shard_of(&center->epoch.shards, worker);
}

/* The place in returned[] of a batch of this shard; -1: there is none. */
static int find_returned(const kolo_center *center, int shard)
{
    const kolo_shards *shards = &center->epoch.shards;
    int first = kolo_shard_first(shards, shard), end = kolo_shard_end(shards, shard, center->epoch.steps);
    for (int i = center->returned_count - 1; i >= 0; i--)
        if (center->returned[i] >= first && center->returned[i] < end) return i;
    return -1;
}

static bool shard_has_more(const kolo_center *center, int shard)
{
    return center->taken[shard] < kolo_shard_end(&center->epoch.shards, shard, center->epoch.steps) ||
           find_returned(center, shard) >= 0;
}

/* Whether a batch is left for one of the workers that are not gone. */
static bool batches_are_left(const kolo_center *center)
{
    if (center->epoch.turns) return center->turn < center->epoch.turns->count;
    for (int i = 0; i < center->args.workers; i++)
        if (!center->workers[i].gone && shard_has_more(center, shard_of(center, i))) return true;
    return false;
}

static bool any_left(const kolo_center *center)
{
    for (int i = 0; i < center->args.workers; i++)
        if (!center->workers[i].gone) return true;
    return false;
}

kolo_status kolo_center_finish(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    while (center->ended != FAILED && any_left(center) &&
           (any_pending(center) || (!center->ended && batches_are_left(center))))
        kolo_center_wait(center, 0);
    kolo_status status = center->ended == FAILED ? kolo_center_called_off(center) : KOLO_OK;
    center->over = true;
    center->epoch.turns = NULL;
    center->epoch.record = NULL;
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
    return status;
}

int kolo_center_trained(kolo_center *center, kolo_totals *totals)
{
    pthread_mutex_lock(&center->lock);
    int trained = center->trained;
    if (totals) *totals = center->totals;
    pthread_mutex_unlock(&center->lock);
    return trained;
}

bool kolo_center_stopped(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    bool stopped = center->ended != GOES_ON;
    pthread_mutex_unlock(&center->lock);
    return stopped;
}

bool kolo_center_failed(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    bool failed = center->ended == FAILED;
    pthread_mutex_unlock(&center->lock);
    return failed;
}

void kolo_center_set_rate(kolo_center *center, double rate)
{
    pthread_mutex_lock(&center->lock);
    center->learning_rate = rate;
    pthread_mutex_unlock(&center->lock);
}

int64_t kolo_center_updates(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    int64_t updates = center->updates;
    pthread_mutex_unlock(&center->lock);
    return updates;
}

/* ---------------------------------------------------------------- the next task */

static kolo_status give(kolo_center *center, kolo_center_worker_state *w, int batch, kolo_task *task)
{
    KOLO_TRY(kolo_make_room(&w->batches, &w->room, (size_t)w->exchange.batches + 1, sizeof batch,
                            "the batches of a worker"));
    w->batches[w->exchange.batches++] = batch;
    w->trains = true;
    w->given_at = kolo_now();
    *task = (kolo_task){KOLO_TASK_TRAIN, batch, center->learning_rate};
    return KOLO_OK;
}

/* The worker's next turn, or NULL. */
static const kolo_turn *next_turn(const kolo_center *center, kolo_center_worker_state *w)
{
    const kolo_turns *turns = center->epoch.turns;
    while (w->turn < turns->count && turns->turn[w->turn].worker != w->exchange.number) w->turn++;
    return w->turn < turns->count ? &turns->turn[w->turn] : NULL;
}

/* The next task by the order of exchanges. Where all exchange at once, a stop ends the epoch after the next exchange,
 * since all have to come to it. */
static kolo_status next_by_order(kolo_center *center, kolo_center_worker_state *w, kolo_task *task)
{
    const kolo_turn *turn = next_turn(center, w);
    bool at_once = center->args.kind->exchange_all;
    *task = (kolo_task){.kind = KOLO_TASK_END};
    if (!turn || center->last_round || (center->ended && !at_once)) {
        w->exchange.batches = 0; /* a stop came before its turn */
        pthread_cond_broadcast(&center->changed);
        return KOLO_OK;
    }
    if (w->position < turn->batches && !center->ended) return give(center, w, turn->batch[w->position++], task);
    task->kind = KOLO_TASK_EXCHANGE;
    return KOLO_OK;
}

static kolo_status wait_longer(kolo_task *task)
{
    task->kind = KOLO_TASK_WAIT;
    return KOLO_OK;
}

/* Takes a batch of a shard that has more. */
static int take(kolo_center *center, int shard)
{
    int at = find_returned(center, shard);
    if (at < 0) return center->taken[shard]++;
    int batch = center->returned[at];
    center->returned[at] = center->returned[--center->returned_count];
    return batch;
}

/* The next task as it comes. A worker that finds no batch waits until the others have exchanged: if one of them is
 * lost, its batches come back. */
static kolo_status next_freely(kolo_center *center, kolo_center_worker_state *w, double end, kolo_task *task)
{
    *task = (kolo_task){.kind = KOLO_TASK_EXCHANGE};
    if (w->exchange.batches == center->epoch.window) return KOLO_OK;
    int64_t number = center->number;
    int shard = shard_of(center, w->exchange.number);
    for (;;) {
        if (center->ended == FAILED) return kolo_center_called_off(center);
        if (center->number != number || center->over) break;
        if (!center->ended && shard_has_more(center, shard)) return give(center, w, take(center, shard), task);
        if (w->exchange.batches > 0) return KOLO_OK;
        if (!any_pending(center)) break;
        if (!kolo_center_wait(center, end)) return wait_longer(task);
    }
    task->kind = KOLO_TASK_END;
    return KOLO_OK;
}

static kolo_status next(kolo_center *center, kolo_center_worker_state *w, int64_t epoch, double end, kolo_task *task)
{
    while (center->number < epoch && center->ended != FAILED)
        if (!kolo_center_wait(center, end)) return wait_longer(task);
    if (center->ended == FAILED) return kolo_center_called_off(center);
    *task = (kolo_task){.kind = KOLO_TASK_END};
    if (center->number > epoch || center->over) return KOLO_OK;
    return center->epoch.turns ? next_by_order(center, w, task) : next_freely(center, w, end, task);
}

double kolo_center_end_of(double seconds)
{
    return seconds > 0 ? kolo_now() + seconds : 0;
}

kolo_status kolo_center_next(kolo_center *center, int worker_number, int64_t epoch, double seconds, kolo_task *task)
{
    pthread_mutex_lock(&center->lock);
    kolo_status status = next(center, &center->workers[worker_number], epoch, kolo_center_end_of(seconds), task);
    pthread_mutex_unlock(&center->lock);
    return status;
}

void kolo_center_report(kolo_center *center, int worker_number, int64_t epoch, const kolo_totals *totals)
{
    kolo_center_worker_state *w = &center->workers[worker_number];
    pthread_mutex_lock(&center->lock);
    double took = kolo_now() - w->given_at;
    if (w->trains && took > center->longest) center->longest = took;
    if (w->trains && center->number == epoch) {
        kolo_totals_add(&center->totals, totals);
        kolo_totals_add(&w->totals, totals);
        center->trained++;
    }
    w->trains = false;
    pthread_mutex_unlock(&center->lock);
}

/* ---------------------------------------------------------------- lost workers */

/* Lets others train on the batches that the worker has not exchanged, which then count once. */
static void return_batches(kolo_center *center, kolo_center_worker_state *w)
{
    size_t bytes = (size_t)(center->returned_count + w->exchange.batches) * sizeof *center->returned;
    int *more = center->epoch.turns || center->ended || bytes == 0 ? NULL : realloc(center->returned, bytes);
    if (!more) return; /* without memory the batches are lost with the worker */
    center->returned = more;
    for (int i = 0; i < w->exchange.batches; i++) center->returned[center->returned_count++] = w->batches[i];
    center->trained -= w->exchange.batches - w->trains;
    w->totals = w->exchanged;
    center->totals = (kolo_totals){0};
    for (int i = 0; i < center->args.workers; i++) kolo_totals_add(&center->totals, &center->workers[i].totals);
}

void kolo_center_lose(kolo_center *center, int worker_number)
{
    kolo_center_worker_state *w = &center->workers[worker_number];
    pthread_mutex_lock(&center->lock);
    if (!w->gone) {
        if (!w->admitted) return_batches(center, w);
        center->lost++;
        center->last_lost = worker_number;
    }
    w->gone = true;
    w->admitted = false;
    w->exchange.batches = 0;
    kolo_center_parts_lose(center->parts, worker_number);
    kolo_center_skip_lost_turns(center);
    if (center->args.kind->exchange_all && any_left(center)) kolo_center_exchange_if_all_came(center);
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
}

void kolo_center_lose_server(kolo_center *center, int rank)
{
    pthread_mutex_lock(&center->lock);
    if (center->lost_server < 0) center->lost_server = rank;
    end_epoch(center, FAILED);
    pthread_mutex_unlock(&center->lock);
}

bool kolo_center_lost_server(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    bool lost = center->lost_server >= 0;
    pthread_mutex_unlock(&center->lock);
    return lost;
}

int kolo_center_lost(kolo_center *center, int *last)
{
    pthread_mutex_lock(&center->lock);
    int lost = center->lost;
    *last = center->last_lost;
    pthread_mutex_unlock(&center->lock);
    return lost;
}

void kolo_center_mark_lost(kolo_center *center, bool *gone)
{
    pthread_mutex_lock(&center->lock);
    for (int i = 0; i < center->args.workers; i++) gone[i] = center->workers[i].gone;
    pthread_mutex_unlock(&center->lock);
}

int64_t kolo_center_behind(kolo_center *center, int worker_number)
{
    pthread_mutex_lock(&center->lock);
    int64_t behind = center->exchanges - center->workers[worker_number].exchanged_at;
    pthread_mutex_unlock(&center->lock);
    return behind;
}

void kolo_center_set_behind(kolo_center *center, int worker_number, int64_t behind)
{
    pthread_mutex_lock(&center->lock);
    center->workers[worker_number].exchanged_at = center->exchanges - behind;
    pthread_mutex_unlock(&center->lock);
}
