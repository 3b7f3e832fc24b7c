/* Opens and closes a trainer, and copies its state: see trainer.h. */
#include "replica/autotune.h"
#include "replica/overlap.h"
#include "replica/workers.h"

#include <stdlib.h>
#include <string.h>

#include "comm/own.h"
#include "model/lower.h"
#include "runtime/runtime.h"

/* ---------------------------------------------------------------- strategy, replicas, ranks */

const kolo_strategy_kind *kolo_model_strategy(const kolo_model *model)
{
    return kolo_strategy_kind_of(&model->settings.strategy);
}

int kolo_model_replicas(const kolo_model *model)
{
    return model->place.replicas;
}

static kolo_status check_parameter_device(const kolo_strategy_kind *kind, const char *name)
{
    if (!name || kolo_device_number(name) != KOLO_NO_DEVICE) return KOLO_OK;
    return kolo_fail(KOLO_NOT_FOUND,
                     "strategy %s: .parameter_device: wanted \"host\" or \"%s:0\" to \"%s:%d\", got \"%.40s\"",
                     kind->name, kolo_device_word(), kolo_device_word(), kolo_device_count() - 1, name);
}

kolo_status kolo_replicas_under(const kolo_model *model, const kolo_strategy *strategy, int *count)
{
    const kolo_strategy_kind *kind = kolo_strategy_kind_of(strategy);
    int each = kolo_model_devices(model);
    KOLO_TRY(kolo_strategy_check(strategy));
    KOLO_TRY(check_parameter_device(kind, strategy->parameter_device));
    KOLO_TRY(kind->replicas(strategy, count));
    if (each == 1 || *count == 1) return KOLO_OK;
    if (*count < each || (strategy->devices > 0 && *count % each != 0))
        return kolo_fail(KOLO_INVALID,
                         "strategy %s: wanted a multiple of %d devices, since each replica of this model is placed on "
                         "%d, got %d",
                         kind->name, each, each, *count);
    *count /= each;
    return KOLO_OK;
}

static kolo_weight_placement weight_placement_of(const kolo_model *model)
{
    const kolo_strategy_kind *kind = kolo_model_strategy(model);
    kolo_weight_placement wanted =
        kind->weight_placement ? kind->weight_placement(&model->settings.strategy) : KOLO_WEIGHTS_COPIED;
    return model->backend->place_weights ? model->backend->place_weights(wanted) : wanted;
}

bool kolo_replicas_together(const kolo_model *model)
{
    const kolo_strategy *strategy = &model->settings.strategy;
    bool many = kolo_model_strategy(model)->shares_compute && kolo_model_replicas(model) > kolo_threads();
    if (!many || weight_placement_of(model) != KOLO_WEIGHTS_SHARED || kolo_model_devices(model) > 1) return false;
    bool apart = strategy->staging || strategy->slicing == KOLO_SLICE_ON_DEVICE || strategy->last_takes_remainder;
    return !apart && !kolo_microbatches_reduce(model);
}

bool kolo_model_joins_ranks(const kolo_model *model)
{
    return model->settings.optimizer.distributed || kolo_model_strategy(model)->joins_ranks;
}

bool kolo_model_distributed(const kolo_model *model)
{
    return kolo_model_joins_ranks(model) && kolo_size() > 1;
}

kolo_comm *kolo_model_ranks(const kolo_model *model)
{
    return kolo_model_distributed(model) ? kolo_world_comm() : kolo_comm_self();
}

/* ---------------------------------------------------------------- groups */

static kolo_status leave_group(void *argument, int member)
{
    kolo_trainer *trainer = argument;
    kolo_replica_leave(&trainer->replicas[member]);
    return KOLO_OK;
}

/* All replicas leave at the same time, since closing a GPU's comm may wait for the other members. */
static void leave_groups(kolo_trainer *trainer)
{
    if (!trainer->team || trainer->running == 1 || !trainer->replicas[0].comm) return;
    kolo_failure failure = kolo_failure_take(); /* may be the reason for leaving, so it is restored below */
    kolo_team_run(trainer->team, leave_group, trainer);
    kolo_failure_take();
    if (failure.code != KOLO_OK) kolo_failure_give(&failure);
}

void kolo_trainer_close_groups(kolo_trainer *trainer)
{
    leave_groups(trainer);
    for (int i = 0; i < trainer->count; i++) {
        kolo_replica *replica = &trainer->replicas[i];
        kolo_replica_leave(replica);
        bool nested = replica->group && replica->group != replica->local && replica->group != kolo_comm_self();
        if (nested) replica->group->kind->close(replica->group);
        if (replica->local) replica->local->kind->close(replica->local);
        replica->group = replica->local = NULL;
    }
    if (trainer->ranks && trainer->ranks != kolo_model_ranks(trainer->model))
        trainer->ranks->kind->close(trainer->ranks);
    trainer->ranks = NULL;
}

/* With an all-reduce of the learner's own, the group of the ranks is one that calls it. */
static kolo_status open_ranks(kolo_trainer *trainer)
{
    const kolo_own_comm *own = trainer->model->settings.optimizer.comm;
    trainer->ranks = kolo_model_ranks(trainer->model);
    if (!own || trainer->workers || trainer->ranks->size == 1) return KOLO_OK;
    return kolo_comm_own_open(own, trainer->ranks, &trainer->ranks);
}

static kolo_status open_local_groups(kolo_trainer *trainer)
{
    kolo_comm **members = calloc((size_t)trainer->count, sizeof *members);
    if (!members) return kolo_fail_memory((size_t)trainer->count * sizeof *members, "a group of replicas");
    kolo_status status = kolo_comm_local_open(trainer->count, members);
    for (int i = 0; i < trainer->count && status == KOLO_OK; i++) trainer->replicas[i].local = members[i];
    free(members);
    return status;
}

/* The group with other ranks is opened when the ranks know each other's numbers of replicas (kolo_model_meet()). */
kolo_status kolo_trainer_open_groups(kolo_trainer *trainer)
{
    const kolo_model *model = trainer->model;
    bool over_ranks = kolo_model_distributed(model) && !trainer->workers;
    if (!trainer->ranks) KOLO_TRY(open_ranks(trainer));
    if (!trainer->replicas[0].local) KOLO_TRY(open_local_groups(trainer));
    for (int i = 0; i < trainer->count; i++) {
        kolo_replica *replica = &trainer->replicas[i];
        if (over_ranks && model->place.on_ranks)
            KOLO_TRY(kolo_comm_nested_open(replica->local, trainer->ranks, model->place.on_ranks, &replica->group));
        else if (!over_ranks)
            replica->group = trainer->workers ? kolo_comm_self() : replica->local; /* a worker trains by itself */
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- replicas */

kolo_status kolo_allocate_zeros(int64_t count, const char *what, float **array)
{
    size_t bytes = (size_t)(count ? count : 1) * sizeof(float);
    *array = kolo_host_allocate(bytes);
    if (!*array) return kolo_fail_memory(bytes, what);
    memset(*array, 0, bytes);
    return KOLO_OK;
}

/* Statistics over one replica's samples depend on the number of replicas, which deterministic mode does not allow. */
static kolo_status check_reductions(const kolo_trainer *trainer)
{
    const kolo_model *model = trainer->model;
    const kolo_plan *plan = &trainer->replicas[0].engine->program->plan;
    int members = kolo_model_members(model);
    bool divides = model->settings.deterministic && members > 1 && !trainer->workers;
    for (int o = 0; divides && o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        if (op->kind != KOLO_OP_REDUCE || op->across) continue;
        return kolo_fail(KOLO_INVALID,
                         "%s: wanted .synchronized = true or a .ghost_batch in deterministic mode, since %d replicas "
                         "would each have statistics of their own",
                         kolo_layer_text(&model->layers[op->layer]), members);
    }
    return KOLO_OK;
}

static void *allocate_on_host(const void *owner, size_t bytes)
{
    (void)owner;
    return kolo_host_allocate(bytes);
}

static void deallocate_on_host(const void *owner, void *memory)
{
    (void)owner;
    kolo_host_deallocate(memory);
}

static kolo_status add_on_host(const void *owner, float *to, const float *from)
{
    const kolo_model *model = owner;
    kolo_host_add(to, from, model->weight_count);
    return KOLO_OK;
}

static kolo_status open_canonical_tree(const kolo_model *model, kolo_reduction **tree)
{
    kolo_reduction_memory memory = {allocate_on_host, deallocate_on_host, add_on_host, model};
    return kolo_reduction_open(model->weight_count, memory, tree);
}

/* Replicas that share the weights also share the reduction tree. */
static kolo_status open_engine(kolo_replica *replica, int microbatch, int threads, sem_t *gate)
{
    kolo_trainer *trainer = replica->trainer;
    bool shares = trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    KOLO_TRY(kolo_replica_open_engine(replica, microbatch, threads, gate));
    if (replica->index == 0)
        KOLO_TRY(shares ? kolo_engine_reduction(replica->engine, &trainer->tree)
                        : open_canonical_tree(trainer->model, &trainer->tree));
    if (!shares) return kolo_engine_reduction(replica->engine, &replica->tree);
    replica->tree = trainer->tree;
    return KOLO_OK;
}

static void close_engines(kolo_trainer *trainer)
{
    for (int i = 0; i < trainer->count; i++) kolo_replica_detach_engine(&trainer->replicas[i]);
    kolo_overlap_close(trainer);
    kolo_reduction_close(&trainer->tree); /* the first engine owns its memory */
    for (int i = 0; i < trainer->count; i++) kolo_engine_close(&trainer->replicas[i].engine);
}

/* Opens engines for another microbatch size. Weights and the optimizer's state stay. */
static kolo_status open_engines(kolo_trainer *trainer, int microbatch)
{
    int threads = kolo_threads() / trainer->running, devices = kolo_model_devices(trainer->model);
    if (threads < devices) threads = devices;
    sem_t *gate = trainer->running * threads > kolo_threads() ? &trainer->gate : NULL;
    close_engines(trainer);
    for (int i = 0; i < trainer->running; i++) KOLO_TRY(open_engine(&trainer->replicas[i], microbatch, threads, gate));
    KOLO_TRY(check_reductions(trainer));
    KOLO_TRY(kolo_overlap_open(trainer));
    trainer->microbatch = microbatch;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- trainers */

/* Under KOLO_WEIGHTS_CENTRAL: the replica on the parameter device updates with its own threads; if there is none,
 * replica 0 updates with as many threads as that device has. */
static kolo_status open_updater(kolo_trainer *trainer)
{
    const kolo_model *model = trainer->model;
    if (trainer->count > 1) trainer->weight_placement = weight_placement_of(model);
    if (trainer->weight_placement != KOLO_WEIGHTS_CENTRAL) return KOLO_OK;
    trainer->updater = model->place.updater < 0 ? 0 : model->place.updater;
    if (model->place.updater >= 0) return KOLO_OK;
    const kolo_stream_place place = {.backend = model->backend, .threads = model->place.threads};
    return model->backend->streams->open(&place, &trainer->parameter_stream);
}

/* Without .initial_sync replicas 1 … draw weights by other seeds than the model's, like TensorFlow's towers with
 * separate variables. */
static void draw_apart(kolo_trainer *trainer)
{
    for (int i = 1; i < trainer->count; i++)
        kolo_model_draw(trainer->model, trainer->model->seed + (uint64_t)i, trainer->replicas[i].weights);
    kolo_warn("replica 1 starts from other weights than replica 0, so they will learn apart, and the model becomes "
              "replica 0's: leave .initial_sync out");
}

static kolo_status open_trainer(kolo_model *model, kolo_trainer **trainer)
{
    int count = kolo_model_replicas(model);
    kolo_trainer *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a trainer");
    *trainer = made; /* kolo_trainer_open() closes it after a failure */
    made->model = model;
    made->gated = sem_init(&made->gate, 0, (unsigned)kolo_threads()) == 0;
    made->replicas = calloc((size_t)count, sizeof *made->replicas);
    if (!made->replicas) return kolo_fail_memory((size_t)count * sizeof *made->replicas, "replicas");
    made->count = count;
    KOLO_TRY(open_updater(made));
    made->running = kolo_replicas_together(model) ? 1 : count;
    for (int i = 0; i < count; i++) KOLO_TRY(kolo_replica_open(made, i));
    KOLO_TRY(kolo_reduction_open(0, (kolo_reduction_memory){0}, &made->totals_tree));
    KOLO_TRY(kolo_allocate_zeros(model->weight_count, "the sum of gradients", &made->sum));
    KOLO_TRY(kolo_team_open(made->running, &made->team));
    made->apart = model->settings.strategy.initial_sync == KOLO_NONE && made->weight_placement == KOLO_WEIGHTS_COPIED &&
                  count > 1;
    if (made->apart) draw_apart(made);
    KOLO_TRY(kolo_workers_open(made));
    return kolo_trainer_open_groups(made);
}

kolo_status kolo_trainer_open(kolo_model *model)
{
    kolo_status status = model->trainer ? KOLO_OK : open_trainer(model, &model->trainer);
    if (status != KOLO_OK) kolo_trainer_close(&model->trainer);
    return status;
}

kolo_status kolo_trainer_prepare(kolo_model *model, int microbatch)
{
    kolo_status status = kolo_trainer_open(model);
    if (status == KOLO_OK && !model->trainer->replicas[0].group) status = kolo_trainer_open_groups(model->trainer);
    if (status == KOLO_OK && model->trainer->microbatch != microbatch)
        status = open_engines(model->trainer, microbatch);
    if (status == KOLO_OK) status = kolo_trainer_store(model->trainer);
    if (status != KOLO_OK) kolo_trainer_close(&model->trainer);
    return status;
}

void kolo_trainer_close(kolo_trainer **trainer)
{
    kolo_trainer *closed = *trainer;
    *trainer = NULL;
    if (!closed) return;
    if (closed->replicas) kolo_trainer_close_groups(closed);
    kolo_team_close(&closed->team);
    closed->model->backend->streams->close(&closed->parameter_stream);
    kolo_feed_close(&closed->feed);
    kolo_autotune_close(closed);
    close_engines(closed);
    kolo_workers_close(closed);
    for (int i = closed->count - 1; i >= 0; i--) kolo_replica_close(&closed->replicas[i]);
    kolo_reduction_close(&closed->totals_tree);
    kolo_host_deallocate(closed->sum);
    if (closed->gated) sem_destroy(&closed->gate);
    free(closed->replicas);
    free(closed);
}

static kolo_status synchronize_replica(void *argument, int member)
{
    const kolo_trainer *trainer = argument;
    const kolo_replica *replica = &trainer->replicas[member];
    return kolo_replica_streams(replica)->synchronize(replica->stream);
}

void kolo_trainer_wait_for_streams(kolo_trainer *trainer)
{
    kolo_failure failure = kolo_failure_take();
    if (kolo_team_run(trainer->team, synchronize_replica, trainer) != KOLO_OK) kolo_failure_take();
    if (failure.code != KOLO_OK) kolo_failure_give(&failure);
}

/* A replica whose work was called off because another one failed has no reason of its own: returns the failure of that
 * other replica. */
static kolo_status with_the_reason(kolo_trainer *trainer, kolo_status status)
{
    if (status == KOLO_OK) return KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    if (strcmp(failure.text, KOLO_COMM_CALLED_OFF) == 0) {
        kolo_status reason = kolo_team_run(trainer->team, synchronize_replica, trainer);
        if (reason != KOLO_OK) return reason;
    }
    kolo_failure_give(&failure);
    return status;
}

kolo_status kolo_trainer_fetch(kolo_trainer *trainer)
{
    size_t bytes = (size_t)trainer->model->weight_count * sizeof(float);
    kolo_warn_untrained(trainer);
    if (trainer->workers) return kolo_workers_fetch(trainer);
    KOLO_TRY(with_the_reason(trainer, kolo_replica_fetch(&trainer->replicas[0], false)));
    memcpy(trainer->model->weights, trainer->replicas[0].weights, bytes);
    return KOLO_OK;
}

kolo_status kolo_trainer_fetch_state(kolo_trainer *trainer)
{
    return with_the_reason(trainer, kolo_replica_fetch(&trainer->replicas[0], true));
}

kolo_status kolo_trainer_is_finite(kolo_trainer *trainer, bool *finite)
{
    if (trainer->workers) return kolo_workers_are_finite(trainer, finite);
    return with_the_reason(trainer, kolo_replica_is_finite(&trainer->replicas[0], finite));
}

static kolo_status store_replica(void *argument, int member)
{
    kolo_trainer *trainer = argument;
    kolo_replica *replica = &trainer->replicas[member];
    if (member > 0 && trainer->apart) return kolo_replica_pack_weights(replica); /* it has drawn its own weights */
    bool copies = member > 0 && kolo_replica_owner(replica) == replica;
    if (copies) memcpy(replica->weights, trainer->model->weights, (size_t)trainer->model->weight_count * sizeof(float));
    return kolo_replica_pack(replica);
}

kolo_status kolo_trainer_store(kolo_trainer *trainer)
{
    size_t bytes = (size_t)trainer->model->weight_count * sizeof(float);
    memcpy(trainer->replicas[0].weights, trainer->model->weights, bytes);
    if (trainer->workers) kolo_workers_store(trainer);
    return kolo_team_run(trainer->team, store_replica, trainer);
}

static kolo_status store_states(kolo_trainer *trainer)
{
    for (int i = 0; i < trainer->running; i++) KOLO_TRY(kolo_replica_store(&trainer->replicas[i], true));
    return KOLO_OK;
}

kolo_status kolo_trainer_share_state(kolo_trainer *trainer)
{
    const kolo_replica *first = &trainer->replicas[0];
    const kolo_model *model = trainer->model;
    size_t bytes = (size_t)model->weight_count * sizeof(float);
    for (int i = 1; i < trainer->count; i++) {
        kolo_replica *other = &trainer->replicas[i];
        bool copies = kolo_replica_owner(other) == other;
        other->counters = first->counters;
        for (int s = 0; copies && s < kolo_optimizer_slots(&model->settings.optimizer); s++)
            memcpy(other->slots[s], first->slots[s], bytes);
        if (copies && first->numbers)
            memcpy(other->numbers, first->numbers, (size_t)model->parameter_count * sizeof *first->numbers);
        if (i >= trainer->running) continue;
        if (first->accumulated && model->settings.deterministic) memcpy(other->accumulated, first->accumulated, bytes);
        else if (first->accumulated) memset(other->accumulated, 0, bytes);
    }
    return store_states(trainer);
}
