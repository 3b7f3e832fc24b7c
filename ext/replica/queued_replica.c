/* A replica's step on an accelerator: see queued_replica.h. */
#include "replica/queued_replica.h"

#include <stdlib.h>
#include <string.h>

#include "optimizers/optimizer.h"
#include "core/clock.h"
#include "replica/rounds.h"
#include "replica/tree_sum.h"

static kolo_queued *queued_of(const kolo_replica *replica)
{
    return replica->engine->queued;
}
static const kolo_accelerator *accelerator_of(const kolo_replica *replica)
{
    return queued_of(replica)->accelerator;
}
static kolo_stream *stream_of(const kolo_replica *replica)
{
    return queued_of(replica)->stream;
}
static const kolo_compile_args *settings_of(const kolo_replica *replica)
{
    return &replica->trainer->model->settings;
}
static size_t bytes_of(const kolo_replica *replica)
{
    return (size_t)replica->trainer->model->weight_count * sizeof(float);
}

/* ---------------------------------------------------------------- open and close */

static kolo_status open_array(kolo_replica *replica, size_t bytes, const char *what, float **array)
{
    KOLO_TRY(accelerator_of(replica)->allocate(stream_of(replica), bytes + 1, what, (void **)array));
    return accelerator_of(replica)->clear(stream_of(replica), *array, bytes);
}

static kolo_status open_spans(kolo_replica *replica)
{
    const kolo_model *model = replica->trainer->model;
    size_t bytes = (size_t)model->parameter_count * sizeof(kolo_span);
    kolo_span *spans = replica->device->spans = malloc(bytes + 1);
    if (!spans) return kolo_fail_memory(bytes, "a replica");
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        spans[p] = (kolo_span){.offset = parameter->offset,
                               .count = kolo_shape_count(parameter->shape),
                               .l2 = (float)(2 * parameter->l2),
                               .momentum = parameter->momentum,
                               .vector = parameter->shape.rank <= 1};
    }
    return KOLO_OK;
}

static kolo_status open_arrays(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    const kolo_optimizer *optimizer = &settings_of(replica)->optimizer;
    size_t bytes = bytes_of(replica);
    KOLO_TRY(open_array(replica, bytes, "a replica's gradient", &state->gradient));
    if (optimizer->common.accumulate_steps > 1 && !state->on_host)
        KOLO_TRY(open_array(replica, bytes, "gradients of several batches", &state->waiting));
    KOLO_TRY(kolo_queued_scaling_open(replica));
    if (state->on_host) return KOLO_OK;
    for (int i = 0; i < kolo_optimizer_slots(optimizer); i++)
        KOLO_TRY(open_array(replica, bytes, "the optimizer's state", &state->slots[i]));
    size_t numbers = (size_t)replica->trainer->model->parameter_count * sizeof(float);
    return optimizer->kind->number ? open_array(replica, numbers, "the optimizer's state", &state->numbers) : KOLO_OK;
}

static kolo_update_job job_of(const kolo_replica *replica)
{
    const kolo_queued_state *state = replica->device;
    const kolo_model *model = replica->trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    return (kolo_update_job){.optimizer = optimizer,
                             .spans = state->spans,
                             .span_count = model->parameter_count,
                             .count = model->weight_count,
                             .weights = queued_of(replica)->weights,
                             .gradient = state->gradient,
                             .slots = {state->slots[0], state->slots[1], state->slots[2]},
                             .numbers = state->numbers,
                             .step_parameters = queued_of(replica)->step_parameters,
                             .clip_value = optimizer->common.clip_value,
                             .clip_norm = optimizer->common.clip_norm,
                             .global_clip_norm = optimizer->common.global_clip_norm,
                             .decay = optimizer->kind->decays ? 0 : optimizer->common.weight_decay,
                             .scaling = state->scaling,
                             .plan = &queued_of(replica)->program->plan,
                             .packed = queued_of(replica)->stations[0].weights.packed};
}

kolo_status kolo_queued_replica_open(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device = calloc(1, sizeof *state);
    if (!state) return kolo_fail_memory(sizeof *state, "a replica");
    state->on_host = !accelerator_of(replica)->has_rule(&settings_of(replica)->optimizer);
    KOLO_TRY(open_spans(replica));
    KOLO_TRY(open_arrays(replica));
    state->job = job_of(replica);
    if (!state->on_host) KOLO_TRY(accelerator_of(replica)->expect_updates(stream_of(replica), &state->job));
    for (int p = 0; p < replica->trainer->model->parameter_count; p++)
        if (state->spans[p].l2 > 0) queued_of(replica)->penalised = &state->job;
    return KOLO_OK;
}

void kolo_queued_replica_part(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    if (state->together) accelerator_of(replica)->leave(state->together);
    state->together = NULL;
    queued_of(replica)->together = NULL;
    state->asked = false;
}

void kolo_queued_replica_close(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    if (!state) return;
    void *const arrays[] = {state->gradient, state->slots[0], state->slots[1], state->slots[2],
                            state->numbers,  state->waiting,  state->scaling};
    accelerator_of(replica)->finish(stream_of(replica));
    kolo_queued_replica_part(replica);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        accelerator_of(replica)->release(stream_of(replica), arrays[i]);
    free(state->spans);
    free(state);
    replica->device = NULL;
}

/* ---------------------------------------------------------------- the host's copies */

/* Each array of the optimizer's state with its other. */
static kolo_status copy_state(kolo_replica *replica, bool to_device)
{
    kolo_queued_state *state = replica->device;
    size_t bytes = bytes_of(replica), numbers = (size_t)replica->trainer->model->parameter_count * sizeof(float);
    float *const hosts[] = {replica->slots[0], replica->slots[1], replica->slots[2], replica->waiting,
                            replica->numbers};
    float *const devices[] = {state->slots[0], state->slots[1], state->slots[2], state->waiting, state->numbers};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (!hosts[i] || !devices[i]) continue;
        KOLO_TRY(accelerator_of(replica)->copy(stream_of(replica), to_device ? devices[i] : hosts[i],
                                               to_device ? hosts[i] : devices[i], i < 4 ? bytes : numbers));
    }
    return KOLO_OK;
}

kolo_status kolo_queued_replica_store(kolo_replica *replica, bool state)
{
    KOLO_TRY(kolo_queued_store(queued_of(replica), replica->weights));
    if (!state) return KOLO_OK;
    replica->device->placed = false;
    return copy_state(replica, true);
}

kolo_status kolo_queued_replica_fetch(kolo_replica *replica, bool state)
{
    const kolo_accelerator *accelerator = accelerator_of(replica);
    KOLO_TRY(accelerator->copy(stream_of(replica), replica->weights, queued_of(replica)->weights, bytes_of(replica)));
    if (state) KOLO_TRY(copy_state(replica, false));
    if (state) KOLO_TRY(kolo_queued_scaling_learn(replica));
    return accelerator->finish(stream_of(replica));
}

kolo_status kolo_queued_replica_is_finite(kolo_replica *replica, bool *finite)
{
    return accelerator_of(replica)->are_finite(stream_of(replica), queued_of(replica)->weights,
                                               replica->trainer->model->weight_count, finite);
}

kolo_status kolo_queued_replica_attach(kolo_replica *replica, const kolo_data *data, int64_t samples, int64_t wanted)
{
    KOLO_TRY(kolo_queued_scaling_learn(replica)); /* of a training that was interrupted */
    replica->device->placed = false;
    return kolo_queued_attach(queued_of(replica), data, samples, wanted);
}

/* ---------------------------------------------------------------- compute */

/* What the update after this batch will take, if there is one. */
static kolo_step_parameters numbers_of(const kolo_replica *replica)
{
    const kolo_counters *counters = &replica->counters;
    const kolo_optimizer *optimizer = &settings_of(replica)->optimizer;
    double samples = counters->waiting_samples + replica->device->samples;
    kolo_step_parameters step_parameters = {.share = 1 / samples, .scale = 1 / samples / counters->sample_scale};
    if (!replica->device->on_host)
        kolo_rule_numbers(optimizer, replica->trainer->model->learning_rate, counters->updates + 1,
                          step_parameters.rule);
    return step_parameters;
}

/* Totals that have arrived. */
static kolo_status take_arrived(kolo_replica *replica, bool wait)
{
    double stops = replica->own.stops;
    replica->own = (kolo_totals){0};
    KOLO_TRY(kolo_queued_arrive(queued_of(replica), wait, &replica->own));
    replica->own.stops = stops;
    replica->totals = replica->own;
    kolo_queued_scaling_arrived(replica);
    return KOLO_OK;
}

/* They become those of all members. */
static kolo_status sum_totals(kolo_replica *replica)
{
    kolo_comm *group = replica->group;
    if (group->size == 1) return KOLO_OK;
    KOLO_TRY(group->kind->allreduce(group, &replica->totals, kolo_totals_size(&replica->own), KOLO_TYPE_DOUBLE));
    replica->totals.used = replica->own.used;
    return KOLO_OK;
}

static kolo_status tell_totals(kolo_replica *replica, bool wait)
{
    if (replica->device->told) return KOLO_OK;
    KOLO_TRY(take_arrived(replica, wait));
    return sum_totals(replica);
}

kolo_status kolo_queued_replica_settle(kolo_replica *replica)
{
    replica->own.stops = 0;
    replica->device->told = false;
    KOLO_TRY(kolo_queued_scaling_learn(replica));
    return tell_totals(replica, true);
}

/* It may look at all that a step has come to, at any time. */
static bool is_a_learners(const kolo_strategy_kind *kind)
{
    return kind != &kolo_one_device_kind && kind != &kolo_mirrored_kind && kind != &kolo_central_storage_kind;
}

/* The accelerator's group is asked for once; all members get the same answer. */
static void join(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    const kolo_accelerator *accelerator = accelerator_of(replica);
    bool asks = !state->asked && accelerator->join;
    if (asks && accelerator->join(stream_of(replica), replica->group, &state->together) != KOLO_OK) {
        kolo_failure failure = kolo_failure_take();
        if (replica->index == 0) kolo_warn("sums over the devices are made on the host: %s", failure.text);
    }
    state->asked = true;
    queued_of(replica)->together = state->together;
}

kolo_status kolo_queued_replica_compute(kolo_replica *replica, const kolo_shard *shard)
{
    kolo_queued_state *state = replica->device;
    int steps = settings_of(replica)->optimizer.common.accumulate_steps;
    state->samples = (double)shard->batch->samples;
    state->agreed = replica->group->size == 1;
    state->complete = steps <= 1 || replica->counters.waiting + 1 == steps || state->on_host;
    if (!state->agreed && kolo_queued_meets_others(queued_of(replica)->program)) join(replica);
    KOLO_TRY(kolo_queued_scaling_prepare(replica));
    kolo_step_parameters numbers = numbers_of(replica);
    kolo_queued_scaling_tell(replica, shard->batch->samples, &numbers);
    KOLO_TRY(kolo_queued_give(queued_of(replica), shard, &numbers, &state->entry));
    state->told = is_a_learners(kolo_model_strategy(replica->trainer->model));
    return state->told ? take_arrived(replica, true) : KOLO_OK;
}

/* ---------------------------------------------------------------- agree */

/* The shard's sum, as its microbatches left theirs, in its first node. */
static void add_nodes(const kolo_replica *replica)
{
    const kolo_graph_entry *entry = replica->device->entry;
    kolo_reduction_memory memory = kolo_program_reduction_memory(queued_of(replica)->program);
    for (int i = 1; i < entry->node_count; i++)
        memory.add(memory.whose, entry->nodes[0].gradient, entry->nodes[i].gradient);
}

/* The same, canonical, in state->gradient. */
static kolo_status sum_shard(kolo_replica *replica)
{
    const kolo_queued *queued = queued_of(replica);
    const kolo_program *program = queued->program;
    const kolo_graph_entry *entry = replica->device->entry;
    add_nodes(replica);
    if (entry->node_count > 0)
        return kolo_program_unpack_there(program, entry->nodes[0].gradient, replica->device->gradient);
    return queued->accelerator->clear(queued->stream, replica->device->gradient, bytes_of(replica));
}

static kolo_status copy_gradient(kolo_replica *replica, bool to_device)
{
    float *device = replica->device->gradient, *host = replica->gradient;
    KOLO_TRY(accelerator_of(replica)->copy(stream_of(replica), to_device ? device : host, to_device ? host : device,
                                           bytes_of(replica)));
    return accelerator_of(replica)->finish(stream_of(replica));
}

kolo_status kolo_queued_replica_gradient(kolo_replica *replica)
{
    KOLO_TRY(sum_shard(replica));
    return copy_gradient(replica, false);
}

/* Gathered with those of the batches before; when complete it is the group's sum in state->gradient. */
static kolo_status gather(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    const kolo_accelerator *accelerator = accelerator_of(replica);
    if (!state->waiting) return KOLO_OK;
    KOLO_TRY(accelerator->add(stream_of(replica), state->waiting, state->gradient,
                              replica->trainer->model->weight_count));
    if (!state->complete) return KOLO_OK;
    KOLO_TRY(accelerator->copy(stream_of(replica), state->gradient, state->waiting, bytes_of(replica)));
    return accelerator->clear(stream_of(replica), state->waiting, bytes_of(replica));
}

static kolo_status allreduce_on_host(kolo_replica *replica)
{
    kolo_comm *group = replica->group;
    KOLO_TRY(copy_gradient(replica, false));
    KOLO_TRY(group->kind->allreduce(group, replica->gradient, replica->trainer->model->weight_count, KOLO_TYPE_FLOAT));
    return copy_gradient(replica, true);
}

static kolo_status allreduce(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    join(replica);
    if (!state->together) return allreduce_on_host(replica);
    return accelerator_of(replica)->allreduce(stream_of(replica), state->together, state->gradient,
                                              replica->trainer->model->weight_count, KOLO_TYPE_FLOAT);
}

/* The tree of sums over all members is the host's: its nodes are canonical there. */
static kolo_status agree_in_order(kolo_replica *replica)
{
    kolo_queued *queued = queued_of(replica);
    const kolo_graph_entry *entry = replica->device->entry;
    kolo_node *nodes = calloc(KOLO_REDUCTION_MOST, sizeof *nodes);
    int count = 0;
    if (!nodes) return kolo_fail_memory(KOLO_REDUCTION_MOST * sizeof *nodes, "sums of gradients");
    kolo_status status = KOLO_OK;
    if (entry->node_count > 0) status = kolo_queued_last_totals(queued, nodes, &count);
    kolo_reduction_begin(replica->reduction, entry->microbatches);
    for (int i = 0; i < count && status == KOLO_OK; i++) {
        KOLO_GO(done, kolo_program_unpack_there(queued->program, entry->nodes[i].gradient, replica->device->gradient));
        KOLO_GO(done, copy_gradient(replica, false));
        KOLO_GO(done, kolo_reduction_borrow(replica->reduction, &nodes[i].gradient));
        memcpy(nodes[i].gradient, replica->gradient, bytes_of(replica));
        KOLO_GO(done, kolo_reduction_insert(replica->reduction, nodes[i]));
    }
    if (status == KOLO_OK) status = kolo_tree_sum(replica);
    if (status == KOLO_OK) status = copy_gradient(replica, true);
    if (status == KOLO_OK) status = gather(replica);
done:
    free(nodes);
    return status;
}

kolo_status kolo_queued_replica_allreduce(kolo_replica *replica)
{
    bool others = replica->group->size > 1, ordered = settings_of(replica)->deterministic && others;
    double started = kolo_now();
    replica->device->agreed = true;
    replica->summed = false;
    if (!others) return KOLO_OK; /* the update begins with the sum */
    if (ordered) {
        KOLO_TRY(agree_in_order(replica));
    } else {
        KOLO_TRY(sum_shard(replica));
        KOLO_TRY(gather(replica));
        if (replica->device->complete) KOLO_TRY(allreduce(replica));
        if (replica->device->told) KOLO_TRY(sum_totals(replica));
    }
    replica->timings.reduce += kolo_now() - started;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- update */

/* left: the gradient as microbatches left it, or NULL: it is canonical in state->gradient. */
static kolo_status update_there(kolo_replica *replica, const float *left)
{
    kolo_update_job job = replica->device->job;
    job.left = left;
    KOLO_TRY(accelerator_of(replica)->update(stream_of(replica), &job));
    return kolo_stations_carry_weights(queued_of(replica));
}

/* What follows the shard: of a replica alone its sum, too, which the update takes as it is where it can. */
static kolo_status give_update(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    bool alone = replica->group->size == 1;
    if (alone && !state->waiting && state->entry->node_count > 0) {
        add_nodes(replica);
        return update_there(replica, state->entry->nodes[0].gradient);
    }
    if (alone) {
        KOLO_TRY(sum_shard(replica));
        KOLO_TRY(gather(replica));
    }
    return state->complete ? update_there(replica, NULL) : KOLO_OK;
}

static kolo_status record_update(kolo_replica *replica, kolo_graph_entry *entry)
{
    const kolo_accelerator *accelerator = accelerator_of(replica);
    KOLO_TRY(accelerator->begin_capture(stream_of(replica)));
    kolo_status status = give_update(replica), ended = accelerator->end_capture(stream_of(replica), &entry->after);
    KOLO_TRY(status);
    KOLO_TRY(ended);
    return accelerator->launch(stream_of(replica), entry->after);
}

/* Recorded where every step gives the same: sums of several batches do not. While the device is idle, as shares are
 * (queued_training.c). */
static kolo_status give_update_again(kolo_replica *replica)
{
    kolo_graph_entry *entry = replica->device->entry;
    const kolo_accelerator *accelerator = accelerator_of(replica);
    if (entry->after) return accelerator->launch(stream_of(replica), entry->after);
    KOLO_TRY(accelerator->finish(stream_of(replica)));
    if (record_update(replica, entry) == KOLO_OK) return KOLO_OK;
    kolo_queued_give_by_hand(queued_of(replica));
    accelerator->free_captured_graph(stream_of(replica), entry->after);
    entry->after = NULL;
    return give_update(replica);
}

/* any: samples, so that there was a mean to follow. What a scaling came to is asked at once only where somebody may
 * look after every step. */
static kolo_status count_update(kolo_replica *replica, bool any)
{
    kolo_counters *counters = &replica->counters;
    kolo_queued_state *state = replica->device;
    counters->steps++;
    counters->waiting++;
    counters->waiting_samples += state->samples;
    if (!state->complete) return KOLO_OK;
    counters->waiting = 0;
    counters->waiting_samples = 0;
    if (!any) return KOLO_OK;
    if (state->scaling) state->tries++;
    else counters->updates++;
    return replica->trainer->exact || state->told ? kolo_queued_scaling_learn(replica) : KOLO_OK;
}

static kolo_status update_by_host(kolo_replica *replica)
{
    if (replica->group->size == 1) KOLO_TRY(sum_shard(replica));
    KOLO_TRY(copy_gradient(replica, false));
    replica->totals.samples = replica->device->samples;
    replica->summed = true;
    return kolo_replica_update_on_host(replica);
}

static kolo_status update_by_device(kolo_replica *replica)
{
    double started = kolo_now();
    bool same = !replica->device->waiting && replica->device->entry->captured_graph && !queued_of(replica)->by_hand;
    if (!replica->device->began) KOLO_TRY(accelerator_of(replica)->finish(stream_of(replica)));
    replica->device->began = true;
    KOLO_TRY(same ? give_update_again(replica) : give_update(replica));
    KOLO_TRY(count_update(replica, true));
    replica->timings.update += kolo_now() - started;
    return KOLO_OK;
}

/* By a gradient of its own, or one that the strategy made on the host; its samples are those of its totals, which the
 * strategy may have changed, too. */
static kolo_status update_apart(kolo_replica *replica)
{
    kolo_queued_state *state = replica->device;
    if (state->on_host) return kolo_replica_update_on_host(replica);
    KOLO_TRY(replica->summed ? copy_gradient(replica, true) : sum_shard(replica));
    state->samples = replica->totals.samples;
    bool any = replica->counters.waiting_samples + state->samples > 0;
    kolo_step_parameters numbers = numbers_of(replica);
    if (any) KOLO_TRY(kolo_queued_correct(queued_of(replica), &numbers));
    KOLO_TRY(gather(replica));
    if (any && state->complete) KOLO_TRY(update_there(replica, NULL));
    return count_update(replica, any);
}

kolo_status kolo_queued_replica_update(kolo_replica *replica)
{
    if (!replica->device->agreed || replica->summed) return update_apart(replica);
    kolo_totals sum = replica->totals;
    bool ordered = settings_of(replica)->deterministic && replica->group->size > 1;
    KOLO_TRY(replica->device->on_host ? update_by_host(replica) : update_by_device(replica));
    KOLO_TRY(tell_totals(replica, replica->trainer->exact));
    sum.loss += sum.samples * queued_of(replica)->penalty;
    if (ordered) replica->totals = sum; /* the tree's */
    return KOLO_OK;
}
