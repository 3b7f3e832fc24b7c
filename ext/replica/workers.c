/* See workers.h. */
#include "replica/workers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static const kolo_strategy_kind *kind_of(const kolo_trainer *trainer)
{
    return kolo_model_strategy(trainer->model);
}

static size_t weight_bytes(const kolo_trainer *trainer)
{
    return (size_t)trainer->model->weight_count * sizeof(float);
}

/* ---------------------------------------------------------------- the centre */

static kolo_status open_worker(kolo_replica *replica)
{
    kolo_exchange *mine = &replica->exchange;
    const kolo_trainer *trainer = replica->trainer;
    mine->number = replica->index;
    mine->count = trainer->model->weight_count;
    mine->center = trainer->center->weights;
    KOLO_TRY(kolo_allocate_zeros(mine->count, "a worker's weights", &mine->start));
    if (!kind_of(trainer)->has_memory) return KOLO_OK;
    return kolo_allocate_zeros(mine->count, "a worker's weights", &mine->memory);
}

kolo_status kolo_center_open(kolo_trainer *trainer)
{
    if (!kolo_strategy_has_workers(kind_of(trainer))) return KOLO_OK;
    kolo_center *center = trainer->center = calloc(1, sizeof *center);
    if (!center) return kolo_fail_memory(sizeof *center, "the centre of the workers");
    pthread_mutex_init(&center->lock, NULL);
    pthread_cond_init(&center->changed, NULL);
    KOLO_TRY(kolo_allocate_zeros(trainer->model->weight_count, "the centre's weights", &center->weights));
    for (int i = 0; i < trainer->count; i++) KOLO_TRY(open_worker(&trainer->replicas[i]));
    return KOLO_OK;
}

void kolo_center_close(kolo_trainer *trainer)
{
    kolo_center *center = trainer->center;
    if (!center) return;
    for (int i = 0; i < trainer->count; i++) {
        kolo_host_deallocate(trainer->replicas[i].exchange.start);
        kolo_host_deallocate(trainer->replicas[i].exchange.memory);
    }
    kolo_host_deallocate(center->weights);
    pthread_cond_destroy(&center->changed);
    pthread_mutex_destroy(&center->lock);
    free(center);
}

void kolo_center_set(kolo_trainer *trainer)
{
    memcpy(trainer->center->weights, trainer->model->weights, weight_bytes(trainer));
    for (int i = 0; i < trainer->count; i++)
        memcpy(trainer->replicas[i].exchange.start, trainer->model->weights, weight_bytes(trainer));
}

void kolo_center_fetch(kolo_trainer *trainer)
{
    pthread_mutex_lock(&trainer->center->lock);
    memcpy(trainer->model->weights, trainer->center->weights, weight_bytes(trainer));
    pthread_mutex_unlock(&trainer->center->lock);
}

kolo_status kolo_center_is_finite(kolo_trainer *trainer, bool *finite)
{
    *finite = true;
    for (int64_t i = 0; i < trainer->model->weight_count && *finite; i++)
        *finite = isfinite(trainer->center->weights[i]);
    return KOLO_OK;
}

/* Ends the epoch for all workers. */
static void end_epoch(kolo_center *center, kolo_epoch_end how)
{
    pthread_mutex_lock(&center->lock);
    if (center->ended < how) center->ended = how;
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
}

static bool is_over(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    bool over = center->ended != 0;
    pthread_mutex_unlock(&center->lock);
    return over;
}

/* ---------------------------------------------------------------- functions of strategy.h */

kolo_status kolo_worker_step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    return kolo_replica_update(replica);
}

kolo_exchange *kolo_worker_exchange(kolo_replica *replica)
{
    return &replica->exchange;
}

kolo_status kolo_worker_update_center(kolo_replica *replica)
{
    kolo_center *center = replica->trainer->center;
    replica->counters.updates = center->updates;
    KOLO_TRY(kolo_replica_update_on_host(replica, center->weights, replica->trainer->replicas[0].slots));
    center->updates++;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- one batch */

typedef struct job {
    kolo_trainer *trainer;
    const kolo_workers_run *run;
} job;

/* Sets the learning rate for all workers. A schedule counts the batches of all. */
static void set_rate(kolo_trainer *trainer, const kolo_workers_run *run)
{
    kolo_model *model = trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    kolo_center *center = trainer->center;
    pthread_mutex_lock(&center->lock);
    if (optimizer->common.schedule.kind)
        model->learning_rate = kolo_optimizer_rate(optimizer, (int64_t)run->plan->first_step + center->trained);
    center->learning_rate = model->learning_rate;
    pthread_mutex_unlock(&center->lock);
}

static kolo_status watch(kolo_replica *replica, const kolo_workers_run *run, bool before)
{
    kolo_center *center = replica->trainer->center;
    if (replica->index != 0) return KOLO_OK;
    pthread_mutex_lock(&center->lock);
    kolo_totals totals = center->totals;
    int trained = center->trained;
    pthread_mutex_unlock(&center->lock);
    KOLO_TRY(run->watch(run->watcher, before, trained, &totals));
    if (before) set_rate(replica->trainer, run);
    if (!before && (kolo_stop_requested() || replica->trainer->model->stop_training))
        end_epoch(center, KOLO_EPOCH_STOPPED);
    return KOLO_OK;
}

static void count_batch(kolo_replica *replica)
{
    kolo_center *center = replica->trainer->center;
    replica->local_totals.stops = 0;
    replica->exchange.batches++;
    pthread_mutex_lock(&center->lock);
    kolo_totals_add(&center->totals, &replica->local_totals);
    center->trained++;
    pthread_mutex_unlock(&center->lock);
}

static kolo_status train_on(kolo_replica *replica, const kolo_workers_run *run, int number)
{
    kolo_center *center = replica->trainer->center;
    kolo_batch batch = kolo_epoch_batch(run->plan, number);
    KOLO_TRY(watch(replica, run, true));
    pthread_mutex_lock(&center->lock);
    replica->learning_rate = center->learning_rate;
    pthread_mutex_unlock(&center->lock);
    KOLO_TRY(kind_of(replica->trainer)->step(replica, &batch));
    count_batch(replica);
    return watch(replica, run, false);
}

/* ---------------------------------------------------------------- exchanges */

/* Makes the exchange, and notes it. With the lock held. */
static kolo_status exchange_now(kolo_replica *replica, const int *batch, int batches)
{
    kolo_center *center = replica->trainer->center;
    kolo_exchange *mine = &replica->exchange;
    mine->staleness = center->exchanges - replica->exchanged_at;
    KOLO_TRY(kind_of(replica->trainer)->exchange(replica, mine));
    if (center->record) KOLO_TRY(kolo_turns_add(center->record, replica->index, batch, batches));
    center->exchanges++;
    center->turn++;
    replica->exchanged_at = center->exchanges;
    return KOLO_OK;
}

static kolo_status end_exchange(kolo_replica *replica)
{
    kolo_exchange *mine = &replica->exchange;
    memcpy(mine->start, mine->weights, (size_t)mine->count * sizeof *mine->start);
    mine->batches = 0;
    return kolo_replica_pack(replica);
}

/* Waits until it is this worker's turn; without the exchange if the epoch is over. With the lock held. */
static kolo_status wait_for_turn(kolo_center *center, int turn)
{
    while (center->turn != turn && !center->ended) pthread_cond_wait(&center->changed, &center->lock);
    if (center->ended == KOLO_EPOCH_FAILED) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    return KOLO_OK;
}

/* turn: the exchange's number in this epoch; -1: it may happen at once. */
static kolo_status exchange_alone(kolo_replica *replica, int turn, const int *batch, int batches)
{
    kolo_center *center = replica->trainer->center;
    replica->exchange.weights = kolo_replica_weights(replica);
    pthread_mutex_lock(&center->lock);
    kolo_status status = turn >= 0 ? wait_for_turn(center, turn) : KOLO_OK;
    bool comes = status == KOLO_OK && (turn < 0 || center->turn == turn); /* else the epoch was stopped */
    if (comes) status = exchange_now(replica, batch, batches);
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
    return comes && status == KOLO_OK ? end_exchange(replica) : status;
}

/* This worker's part of an exchange of all: elements first … end of everybody's arrays. */
static void exchange_part(const kolo_trainer *trainer, int64_t first, int64_t end)
{
    kolo_exchange all[KOLO_DEVICES_MAX];
    for (int i = 0; i < trainer->count; i++) {
        all[i] = trainer->replicas[i].exchange;
        all[i].count = end - first;
        all[i].center += first;
        all[i].weights += first;
        all[i].start += first;
        if (all[i].memory) all[i].memory += first;
    }
    kind_of(trainer)->exchange_all(&trainer->model->settings.strategy, all, trainer->count);
}

/* Whether any worker has trained since the last exchange. */
static bool any_trained(const kolo_trainer *trainer)
{
    bool any = false;
    for (int i = 0; i < trainer->count; i++) any = any || trainer->replicas[i].exchange.batches > 0;
    return any;
}

/* *over becomes the same for all workers: no worker goes on between the two barriers. */
static kolo_status exchange_at_once(kolo_replica *replica, bool *over)
{
    const kolo_trainer *trainer = replica->trainer;
    kolo_comm *all = replica->local;
    int64_t count = replica->exchange.count;
    replica->exchange.weights = kolo_replica_weights(replica);
    KOLO_TRY(all->kind->barrier(all));
    if (any_trained(trainer))
        exchange_part(trainer, count * all->rank / all->size, count * (all->rank + 1) / all->size);
    *over = is_over(trainer->center);
    KOLO_TRY(all->kind->barrier(all));
    return end_exchange(replica);
}

/* ---------------------------------------------------------------- an epoch */

/* Takes the next batch of the epoch that nobody has taken; -1: there is none. */
static int take_batch(kolo_center *center, int steps)
{
    pthread_mutex_lock(&center->lock);
    int number = center->ended || center->taken == steps ? -1 : center->taken++;
    pthread_mutex_unlock(&center->lock);
    return number;
}

/* Takes batches and exchanges as it comes. */
static kolo_status train_freely(kolo_replica *replica, const kolo_workers_run *run, int *batches)
{
    kolo_center *center = replica->trainer->center;
    int count = 0, number;
    while ((number = take_batch(center, run->plan->steps)) >= 0) {
        KOLO_TRY(train_on(replica, run, number));
        batches[count++] = number;
        if (count < run->window) continue;
        KOLO_TRY(exchange_alone(replica, -1, batches, count));
        count = 0;
    }
    return count > 0 ? exchange_alone(replica, -1, batches, count) : KOLO_OK;
}

static kolo_status train_for_turn(kolo_replica *replica, const kolo_workers_run *run, int number, bool *over)
{
    kolo_center *center = replica->trainer->center;
    const kolo_turn *turn = &run->turns->turn[number];
    for (int i = 0; i < turn->batches && !is_over(center); i++) KOLO_TRY(train_on(replica, run, turn->batch[i]));
    if (kind_of(replica->trainer)->exchange_all) return exchange_at_once(replica, over);
    *over = is_over(center);
    return exchange_alone(replica, number, turn->batch, turn->batches);
}

/* Trains on the batches, and exchanges in the order, that the turns say. */
static kolo_status train_in_turn(kolo_replica *replica, const kolo_workers_run *run)
{
    bool over = false;
    for (int i = 0; i < run->turns->count && !over; i++)
        if (run->turns->turn[i].worker == replica->index) KOLO_TRY(train_for_turn(replica, run, i, &over));
    return KOLO_OK;
}

static kolo_status train_worker(void *argument, int member)
{
    const job *work = argument;
    kolo_replica *replica = &work->trainer->replicas[member];
    int *batches = malloc((size_t)work->run->window * sizeof *batches);
    kolo_status status = KOLO_OK;
    if (!batches) status = kolo_fail_memory((size_t)work->run->window * sizeof *batches, "a worker's batches");
    else if (work->run->turns) status = train_in_turn(replica, work->run);
    else status = train_freely(replica, work->run, batches);
    free(batches);
    if (status == KOLO_OK) return KOLO_OK;
    end_epoch(work->trainer->center, KOLO_EPOCH_FAILED);
    replica->local->kind->abort(replica->local); /* others may wait in an exchange of all */
    return status;
}

/* The counters after an epoch: all workers have made its steps together. An epoch that was stopped begins anew. */
static void set_counters(kolo_trainer *trainer, const kolo_epoch_plan *plan, bool complete)
{
    int64_t steps = (int64_t)plan->first_step + (complete ? plan->steps : 0);
    for (int i = 0; i < trainer->count; i++) trainer->replicas[i].counters.steps = steps;
    if (kind_of(trainer)->updates_center) trainer->replicas[0].counters.updates = trainer->center->updates;
}

kolo_status kolo_workers_train(kolo_trainer *trainer, const kolo_workers_run *run, kolo_totals *totals)
{
    kolo_center *center = trainer->center;
    job work = {trainer, run};
    center->record = run->turns ? NULL : run->record; /* turns that are known are copied at the end */
    center->turn = center->taken = center->trained = 0;
    center->ended = 0;
    center->totals = (kolo_totals){0};
    center->learning_rate = trainer->model->learning_rate;
    kolo_status status = kolo_team_run(trainer->team, train_worker, &work);
    *totals = center->totals;
    trainer->steps += center->trained;
    set_counters(trainer, run->plan, center->trained == run->plan->steps);
    for (int i = 0; run->record && run->turns && i < run->turns->count && status == KOLO_OK; i++) {
        const kolo_turn *turn = &run->turns->turn[i];
        status = kolo_turns_add(run->record, turn->worker, turn->batch, turn->batches);
    }
    return status == KOLO_OK ? KOLO_OK : kolo_trainer_renew(trainer, status);
}
