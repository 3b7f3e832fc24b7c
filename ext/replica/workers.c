/* See workers.h. */
#include "replica/workers_state.h"

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

/* ---------------------------------------------------------------- opening and closing */

static kolo_status update_center(void *owner, const kolo_part_range *range, float *weights, const float *gradient,
                                 const kolo_ticket *ticket)
{
    kolo_trainer *trainer = owner;
    return kolo_replica_update_center(&trainer->replicas[0], range, weights, gradient, ticket);
}

static int servers_of(const kolo_trainer *trainer)
{
    int servers = trainer->model->settings.strategy.servers;
    return servers ? servers : 1;
}

static kolo_status open_arrays(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    int64_t count = trainer->model->weight_count;
    workers->arrays = calloc((size_t)trainer->count, sizeof *workers->arrays);
    if (!workers->arrays) return kolo_fail_memory((size_t)trainer->count * sizeof *workers->arrays, "workers");
    for (int i = 0; i < trainer->count; i++) {
        KOLO_TRY(kolo_allocate_zeros(count, "a worker's weights", &workers->arrays[i].start));
        if (kind_of(trainer)->has_memory)
            KOLO_TRY(kolo_allocate_zeros(count, "a worker's weights", &workers->arrays[i].memory));
    }
    return KOLO_OK;
}

/* Divides the weights at the borders of parameters: a part ends with the parameter that brings all parts so far nearest
 * to their share, but leaves one for each of the others. */
static void divide(const kolo_model *model, int parts, kolo_part_range *ranges)
{
    int64_t all = model->weight_count, end = 0;
    for (int i = 0, p = 0; i < parts; i++) {
        int last = model->parameter_count - (parts - 1 - i); /* the most parameters of the parts up to this one */
        int64_t share = all * (i + 1) / parts;
        ranges[i] = (kolo_part_range){.first_parameter = p, .first = end};
        do end += kolo_shape_count(model->parameters[p++].shape);
        while (p < last && (i == parts - 1 || 2 * (share - end) > kolo_shape_count(model->parameters[p].shape)));
        ranges[i].end_parameter = p;
        ranges[i].end = end;
    }
}

static kolo_status open_ranges(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    const kolo_model *model = trainer->model;
    int servers = workers->servers = servers_of(trainer);
    const char *name = kind_of(trainer)->name;
    if (servers > model->parameter_count)
        return kolo_fail(KOLO_INVALID, "strategy %s: .servers: wanted at most %d, one for each parameter, got %d", name,
                         model->parameter_count, servers);
    if (servers > 1 && kind_of(trainer)->updates_center && model->settings.optimizer.common.global_clip_norm > 0)
        return kolo_fail(KOLO_UNSUPPORTED,
                         "strategy %s: .servers: wanted 1 with .global_clip_norm, since a server knows only its part "
                         "of the gradient, got %d",
                         name, servers);
    workers->ranges = calloc((size_t)servers, sizeof *workers->ranges);
    if (!workers->ranges) return kolo_fail_memory((size_t)servers * sizeof *workers->ranges, "servers");
    divide(model, servers, workers->ranges);
    return KOLO_OK;
}

/* Says which ranks keep parts, if several do. */
static kolo_status open_keeps(kolo_workers *workers)
{
    if (workers->servers == 1 || workers->ranks->size == 1) return KOLO_OK;
    workers->keeps = calloc((size_t)workers->ranks->size, sizeof *workers->keeps);
    if (!workers->keeps) return kolo_fail_memory((size_t)workers->ranks->size, "servers");
    for (int i = 0; i < workers->servers; i++) workers->keeps[kolo_workers_keeper(workers, i)] = true;
    return KOLO_OK;
}

static kolo_status open_parts(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    const kolo_replica *first = &trainer->replicas[0];
    bool updates = kind_of(trainer)->updates_center;
    kolo_parts_args args = {.kind = kind_of(trainer),
                            .strategy = &trainer->model->settings.strategy,
                            .workers = workers->all,
                            .count = trainer->model->weight_count,
                            .ranges = workers->ranges,
                            .parts = workers->servers,
                            .update = update_center,
                            .owner = trainer,
                            .slots = first->slots,
                            .slot_count = updates ? kolo_optimizer_slots(&trainer->model->settings.optimizer) : 0,
                            .numbers = updates ? first->numbers : NULL};
    if (!workers->keeps && workers->ranks->rank != 0) return KOLO_OK;
    while (args.first < args.parts && kolo_workers_keeper(workers, args.first) < workers->ranks->rank) args.first++;
    args.end = args.first;
    while (args.end < args.parts && kolo_workers_keeper(workers, args.end) == workers->ranks->rank) args.end++;
    return kolo_center_parts_open(&args, &workers->parts);
}

static kolo_status open_center(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    KOLO_TRY(open_ranges(trainer));
    KOLO_TRY(open_keeps(workers));
    KOLO_TRY(open_parts(trainer));
    return workers->ranks->rank == 0 ? kolo_center_open(workers->parts, &workers->center) : KOLO_OK;
}

static kolo_status open_workers(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    workers->ranks = kolo_model_ranks(trainer->model);
    workers->first = workers->ranks->rank * trainer->count;
    workers->all = workers->ranks->size * trainer->count;
    if (workers->all > KOLO_DEVICES_MAX)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted at most %d workers over all ranks, got %d",
                         kind_of(trainer)->name, KOLO_DEVICES_MAX, workers->all);
    KOLO_TRY(open_arrays(trainer));
    return open_center(trainer);
}

kolo_status kolo_workers_open(kolo_trainer *trainer)
{
    if (!kolo_strategy_has_workers(kind_of(trainer))) return KOLO_OK;
    trainer->workers = calloc(1, sizeof *trainer->workers);
    return trainer->workers ? open_workers(trainer) : kolo_fail_memory(sizeof *trainer->workers, "workers");
}

static void close_links(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    for (int r = 0; workers->links && r < workers->ranks->size; r++) {
        for (int i = 0; workers->links[r] && i < trainer->count; i++) kolo_center_link_close(&workers->links[r][i]);
        free(workers->links[r]);
    }
    free(workers->links);
    workers->links = NULL;
    kolo_center_server_close(&workers->server);
}

kolo_status kolo_workers_link(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    if (!workers || workers->ranks->size == 1 || workers->linked) return KOLO_OK;
    kolo_server_args args = {.ranks = workers->ranks,
                             .center = workers->center,
                             .parts = workers->parts,
                             .ranges = workers->ranges,
                             .keeps = workers->keeps,
                             .workers = trainer->count,
                             .count = trainer->model->weight_count,
                             .kind = kind_of(trainer),
                             .record_bytes = kolo_worker_record_bytes(trainer)};
    if (workers->center) KOLO_TRY(kolo_workers_open_records(trainer, &args.records));
    workers->links = calloc((size_t)workers->ranks->size, sizeof *workers->links);
    kolo_status status = workers->links ? KOLO_OK : kolo_fail_memory(sizeof *workers->links, "links to the centre");
    for (; args.root < workers->ranks->size && status == KOLO_OK; args.root++)
        if (args.root == 0 || (workers->keeps && workers->keeps[args.root]))
            status = kolo_center_link_open(&args, &workers->server, &workers->links[args.root]);
    workers->linked = status == KOLO_OK;
    if (status != KOLO_OK) close_links(trainer);
    return status;
}

void kolo_workers_close(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    if (!workers) return;
    close_links(trainer);
    kolo_center_close(&workers->center);
    kolo_center_parts_close(&workers->parts);
    for (int i = 0; workers->arrays && i < trainer->count; i++) {
        kolo_host_deallocate(workers->arrays[i].start);
        kolo_host_deallocate(workers->arrays[i].memory);
    }
    kolo_workers_free_records(workers);
    free(workers->losses);
    free(workers->arrays);
    free(workers->ranges);
    free(workers->keeps);
    free(workers);
    trainer->workers = NULL;
}

/* ---------------------------------------------------------------- weights */

void kolo_workers_store(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    if (workers->center)
        kolo_center_set(workers->center, trainer->model->weights, trainer->replicas[0].counters.updates);
    workers->is_set = true;
    for (int i = 0; i < trainer->count; i++)
        memcpy(workers->arrays[i].start, trainer->model->weights, weight_bytes(trainer));
}

kolo_status kolo_workers_fetch(kolo_trainer *trainer)
{
    return trainer->workers->center ? kolo_workers_gather(trainer) : KOLO_OK;
}

kolo_status kolo_workers_are_finite(kolo_trainer *trainer, bool *finite)
{
    const kolo_model *model = trainer->model;
    *finite = true;
    KOLO_TRY(kolo_workers_fetch(trainer));
    for (int64_t i = 0; i < model->weight_count && *finite; i++) *finite = isfinite(model->weights[i]);
    return KOLO_OK;
}

bool kolo_workers_have_failed(const kolo_trainer *trainer)
{
    const kolo_workers *workers = trainer->workers;
    return workers->center && kolo_center_failed(workers->center);
}

void kolo_workers_mark_lost(kolo_trainer *trainer, bool *gone)
{
    if (trainer->workers->center) kolo_center_mark_lost(trainer->workers->center, gone);
}

/* ---------------------------------------------------------------- functions of strategy.h */

kolo_status kolo_worker_step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    return kolo_replica_update(replica);
}

kolo_worker_arrays kolo_worker_memory(kolo_replica *replica)
{
    return replica->trainer->workers->arrays[replica->index];
}

int kolo_worker_number(const kolo_replica *replica)
{
    return replica->trainer->workers->first + replica->index;
}

/* ---------------------------------------------------------------- a worker */

/* One worker's run of an epoch. */
typedef struct run_job {
    kolo_trainer *trainer;
    const kolo_workers_run *run;
} run_job;

static bool is_scheduled(const kolo_trainer *trainer)
{
    return trainer->model->settings.optimizer.common.schedule.kind != NULL;
}

/* A schedule counts the batches of the epochs in their order, not in that in which workers come to them: so a replay
 * trains on each with the rate of the record. `batch` is a number within its shard, and shards are trained on side by
 * side. */
static double scheduled_rate(const kolo_trainer *trainer, const kolo_workers_run *run, int shard, int batch)
{
    int all = run->plan->steps, own = kolo_shard_end(&run->shards, shard, all) - kolo_shard_first(&run->shards, shard);
    int64_t before = own > 0 ? (int64_t)batch * all / own : 0;
    return kolo_optimizer_rate(&trainer->model->settings.optimizer, (int64_t)run->plan->first_step + before);
}

/* Sets the learning rate of a batch. A rate that a callback has set is that of all batches from now on. */
static void set_rate(kolo_replica *replica, const kolo_workers_run *run, const kolo_task *task, int shard, int batch)
{
    kolo_trainer *trainer = replica->trainer;
    bool reports = replica->index == 0 && trainer->workers->center; /* callbacks run in this thread */
    replica->learning_rate = is_scheduled(trainer) ? scheduled_rate(trainer, run, shard, batch)
                             : reports             ? trainer->model->learning_rate
                                                   : task->learning_rate;
    if (!reports) return;
    trainer->model->learning_rate = replica->learning_rate;
    kolo_center_set_rate(trainer->workers->center, replica->learning_rate);
}

static bool stop_is_wanted(const kolo_trainer *trainer)
{
    return kolo_stop_requested() || trainer->model->stop_training;
}

/* Says which worker is gone, once for each. */
static void tell_lost(kolo_workers *workers)
{
    int last, lost = kolo_center_lost(workers->center, &last), each = workers->all / workers->ranks->size;
    if (lost == workers->lost || kolo_center_lost_server(workers->center)) return; /* nobody goes on without a server */
    workers->lost = lost;
    kolo_warn("worker %d on rank %d is gone: the other workers go on%s", last, last / each,
              lost > 1 ? kolo_phrase(", as %d did before", lost - 1) : "");
}

/* Only rank 0's first worker reports. */
static kolo_status watch(kolo_replica *replica, const kolo_workers_run *run, bool before)
{
    kolo_trainer *trainer = replica->trainer;
    kolo_center *center = trainer->workers->center;
    kolo_totals totals;
    if (replica->index != 0 || !center) return KOLO_OK;
    tell_lost(trainer->workers);
    int trained = kolo_center_trained(center, &totals);
    KOLO_TRY(run->watch(run->watcher, before, trained, &totals));
    if (stop_is_wanted(trainer)) kolo_center_stop(center);
    return KOLO_OK;
}

static kolo_status train_on(kolo_replica *replica, const kolo_workers_run *run, const kolo_task *task)
{
    int shard = kolo_shard_of(&run->shards, kolo_worker_number(replica));
    int before = kolo_shard_first(&run->shards, shard);
    kolo_batch batch = kolo_epoch_batch(run->plan, task->batch - before);
    batch.step += (uint64_t)before; /* batches of different shards have different random numbers */
    KOLO_TRY(watch(replica, run, true));
    set_rate(replica, run, task, shard, task->batch - before);
    KOLO_TRY(kolo_replica_step(replica, &batch));
    replica->local_totals.stops = 0;
    kolo_worker_report(replica);
    return watch(replica, run, false);
}

static kolo_status train(kolo_replica *replica, const kolo_workers_run *run)
{
    for (kolo_task task;;) {
        int64_t begun = kolo_timeline_begin();
        KOLO_TRY(kolo_worker_next(replica, &task));
        kolo_timeline_end(begun, KOLO_SPAN_WAIT, "the next task");
        if (task.kind == KOLO_TASK_END) return KOLO_OK;
        if (task.kind == KOLO_TASK_EXCHANGE) KOLO_TRY(kolo_worker_exchange(replica));
        else KOLO_TRY(train_on(replica, run, &task));
    }
}

/* A failure ends the epoch for the workers of this rank. On rank 0 it ends it for all. */
static kolo_status train_worker(void *argument, int member)
{
    const run_job *job = argument;
    kolo_workers *workers = job->trainer->workers;
    kolo_replica *replica = &job->trainer->replicas[member];
    kolo_timeline_place before = kolo_replica_enter_row(replica, -1);
    kolo_status status = train(replica, job->run);
    kolo_timeline_leave(before);
    if (status == KOLO_OK) return KOLO_OK;
    if (workers->center) kolo_center_fail(workers->center);
    if (workers->parts) kolo_center_parts_fail(workers->parts);
    for (int r = 0; workers->links && r < workers->ranks->size; r++)
        for (int i = 0; workers->links[r] && i < job->trainer->count; i++)
            kolo_center_link_interrupt(workers->links[r][i]);
    return status;
}

/* ---------------------------------------------------------------- members of an ensemble */

/* Keeps the members' losses in the epoch that was trained last. */
static kolo_status note_losses(kolo_workers *workers, int epoch)
{
    size_t bytes = (size_t)(epoch + 1) * (size_t)workers->all * sizeof *workers->losses;
    double *more = realloc(workers->losses, bytes);
    if (!more) return kolo_fail_memory(bytes, "the losses of an ensemble's members");
    workers->losses = more;
    workers->loss_epochs = epoch + 1;
    for (int w = 0; w < workers->all; w++) {
        kolo_totals totals;
        kolo_center_worker(workers->center, w, NULL, &totals);
        more[epoch * workers->all + w] = totals.samples > 0 ? totals.loss / totals.samples : NAN;
    }
    return KOLO_OK;
}

int kolo_workers_members(const kolo_trainer *trainer)
{
    const kolo_workers *workers = trainer->workers;
    return workers && workers->center && workers->losses ? workers->all : 0;
}

void kolo_workers_member(const kolo_trainer *trainer, int member, float *weights)
{
    kolo_center_worker(trainer->workers->center, member, weights, NULL);
}

double kolo_workers_loss(const kolo_trainer *trainer, int member, int epoch)
{
    const kolo_workers *workers = trainer->workers;
    return epoch >= 0 && epoch < workers->loss_epochs ? workers->losses[epoch * workers->all + member] : NAN;
}

/* ---------------------------------------------------------------- an epoch */

/* The counters after an epoch: all workers have made its steps together. An epoch that was stopped begins anew. */
static void set_counters(kolo_trainer *trainer, const kolo_epoch_plan *plan, bool stopped)
{
    int64_t steps = (int64_t)plan->first_step + (stopped ? 0 : plan->steps);
    const kolo_center *center = trainer->workers->center;
    for (int i = 0; i < trainer->count; i++) trainer->replicas[i].counters.steps = steps;
    if (center && kind_of(trainer)->updates_center)
        trainer->replicas[0].counters.updates = kolo_center_updates(trainer->workers->center);
}

#define NEWS_OF_TRAINING 2 /* by share_outcome() */

/* The other ranks' models become the centre, too. */
static kolo_status share_outcome(kolo_trainer *trainer, kolo_workers_outcome *all)
{
    kolo_workers *workers = trainer->workers;
    workers->has_trained = true;
    if (workers->ranks->size == 1) return KOLO_OK;
    KOLO_TRY(kolo_workers_send_records(trainer));
    all->lost = workers->lost;
    KOLO_TRY(kolo_workers_share(trainer, all, sizeof *all));
    workers->lost = all->lost;
    if (workers->lost > 0 && workers->ranks->kind->lose) workers->ranks->kind->lose(workers->ranks);
    KOLO_TRY(kolo_workers_share(trainer, trainer->model->weights, weight_bytes(trainer)));
    return kolo_workers_await_records(trainer);
}

static kolo_status copy_turns(const kolo_workers_run *run)
{
    for (int i = 0; run->record && run->turns && i < run->turns->count; i++) {
        const kolo_turn *turn = &run->turns->turn[i];
        KOLO_TRY(kolo_turns_add(run->record, turn->worker, turn->batch, turn->batches));
    }
    return KOLO_OK;
}

static kolo_status train_all(kolo_trainer *trainer, const kolo_workers_run *run, kolo_workers_outcome *all)
{
    kolo_workers *workers = trainer->workers;
    run_job job = {trainer, run};
    kolo_status status = kolo_team_run(trainer->team, train_worker, &job);
    kolo_status finished = workers->center ? kolo_center_finish(workers->center) : KOLO_OK;
    if (status == KOLO_OK) status = finished;
    if (workers->center) tell_lost(workers);
    if (workers->center) all->trained = kolo_center_trained(workers->center, &all->totals);
    if (workers->center) all->stopped = kolo_center_stopped(workers->center);
    if (status == KOLO_OK) status = kolo_workers_fetch(trainer);
    workers->trains = false;
    if (status == KOLO_OK) return share_outcome(trainer, all);
    workers->news += NEWS_OF_TRAINING; /* so that the numbers are equal on all ranks again */
    if (workers->center && workers->server) kolo_center_server_fail(workers->server);
    return status;
}

kolo_status kolo_workers_train(kolo_trainer *trainer, const kolo_workers_run *run, kolo_workers_outcome *outcome)
{
    kolo_workers *workers = trainer->workers;
    const kolo_center_epoch epoch = {run->plan->steps, run->window, run->turns, run->record, run->shards};
    *outcome = (kolo_workers_outcome){0};
    workers->epochs++;
    KOLO_TRY(kolo_workers_spread(trainer));
    if (workers->center) kolo_center_set_rate(workers->center, trainer->model->learning_rate);
    workers->trains = true;
    if (workers->center) kolo_center_begin(workers->center, &epoch);
    else if (workers->parts) kolo_center_parts_begin(workers->parts, workers->epochs);
    kolo_status status = train_all(trainer, run, outcome);
    trainer->steps += outcome->trained;
    set_counters(trainer, run->plan, outcome->stopped);
    if (status == KOLO_OK) status = copy_turns(run);
    if (status == KOLO_OK && workers->center && kind_of(trainer)->ensemble) status = note_losses(workers, run->number);
    return status == KOLO_OK ? KOLO_OK : kolo_trainer_renew(trainer, status);
}

kolo_status kolo_workers_share(kolo_trainer *trainer, void *news, size_t bytes)
{
    kolo_workers *workers = trainer->workers;
    workers->news++;
    if (!workers->linked) return KOLO_OK;
    if (workers->center) return kolo_center_server_tell(workers->server, workers->news, news, bytes);
    return kolo_center_link_hear(kolo_workers_link_to(workers, 0, 0), workers->news, news, bytes);
}
