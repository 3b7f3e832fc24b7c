/* Microbatches on an accelerator, one after the other: see queued.h. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/runtime.h"
#include "engine/queued.h"

/* ---------------------------------------------------------------- a microbatch */

kolo_activations *kolo_queued_activations(const kolo_queued_job *j, int station, int64_t microbatch)
{
    return j->queued->stations[station]
        .activation_sets[j->queued->activation_set_count > 1 ? microbatch - j->shard->first_microbatch : 0];
}

/* The sum over the shard's microbatches is what its only one has, which writes it where it belongs. */
static void bind_sums(const kolo_station *station, kolo_activations *activations)
{
    const kolo_program *program = station->program;
    for (int s = 0; s < program->segment_count; s++) {
        int meeting = program->segments[s].reduce;
        bool here = meeting >= 0 && program->plan.ops[meeting].device == station->number;
        if (here) activations->memory[program->plan.ops[meeting].in[0]] = kolo_queued_reduced(station, meeting);
    }
}

/* The gradients of a segment that is not at home are on their way there. */
static void bind(const kolo_queued_job *j, int64_t microbatch, int number)
{
    const kolo_segment *segment = &j->queued->program->segments[number];
    kolo_station *station = &j->queued->stations[segment->device];
    kolo_blocks blocks = {.weights = &station->weights, .reduced = station->reduced};
    if (j->gradients) blocks.gradient = j->gradients[microbatch - j->shard->first_microbatch];
    if (j->gradients && station->gradient) blocks.gradient = station->gradient;
    if (station->gradient) blocks.gradient_first = segment->gradient_first;
    kolo_activations *activations = kolo_queued_activations(j, station->number, microbatch);
    kolo_activations_bind(activations, number, &station->workspace, &blocks);
    if (kolo_queued_is_alone(j)) bind_sums(station, activations);
}

static kolo_status gather(const kolo_queued_job *j, int64_t microbatch)
{
    kolo_queued *queued = j->queued;
    const kolo_plan *plan = &queued->program->plan;
    const kolo_activations *activations = kolo_queued_activations(j, 0, microbatch);
    kolo_microbatch_arrays to = {.features = kolo_activations_input(activations),
                                 .labels = activations->labels,
                                 .targets = activations->targets,
                                 .weights = activations->weights,
                                 .outputs = kolo_shape_count(plan->values[plan->output].shape)};
    KOLO_TRY(queued->accelerator->gather(queued->stream, &queued->dataset_cache.sources, queued->step_parameters,
                                         microbatch * plan->microbatch, plan->microbatch, &to));
    return kolo_stations_gathered(j, microbatch);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static kolo_status run_op(const kolo_queued_job *j, int64_t microbatch, int op, const kolo_call *call)
{
    const kolo_program *program = j->queued->program;
    if (program->plan.ops[op].kind == KOLO_OP_COPY) return kolo_stations_copy(j, microbatch, op);
    return program->backend->run(program->kernels[op], call);
}

static kolo_status time_op(const kolo_queued_job *j, int64_t microbatch, int op, const kolo_call *call)
{
    const kolo_accelerator *accelerator = j->queued->accelerator;
    KOLO_TRY(accelerator->finish(call->stream));
    double started = now();
    KOLO_TRY(run_op(j, microbatch, op, call));
    KOLO_TRY(accelerator->finish(call->stream));
    j->seconds[op] += now() - started;
    return KOLO_OK;
}

static kolo_call call_of(const kolo_queued_job *j, int64_t microbatch, const kolo_station *station)
{
    const kolo_activations *activations = kolo_queued_activations(j, station->number, microbatch);
    void *totals = station->totals
                       ? station->totals + (size_t)(microbatch - j->shard->first_microbatch) * j->queued->totals_stride
                       : NULL;
    return (kolo_call){.memory = activations->memory,
                       .scratch = station->workspace.scratch,
                       .first_sample = microbatch * j->queued->program->plan.microbatch,
                       .labels = activations->labels,
                       .targets = activations->targets,
                       .weights = activations->weights,
                       .totals = totals,
                       .stream = station->stream,
                       .step_parameters = station->step_parameters};
}

static kolo_status run_segment(const kolo_queued_job *j, int64_t microbatch, int number)
{
    const kolo_segment *segment = &j->queued->program->segments[number];
    kolo_call call = call_of(j, microbatch, &j->queued->stations[segment->device]);
    bind(j, microbatch, number);
    if (number == 0) KOLO_TRY(gather(j, microbatch));
    KOLO_TRY(kolo_stations_enter(j, microbatch, number));
    for (int o = segment->first; o < segment->end; o++)
        KOLO_TRY(j->seconds ? time_op(j, microbatch, o, &call) : run_op(j, microbatch, o, &call));
    return kolo_stations_leave(j, microbatch, number);
}

/* ---------------------------------------------------------------- a shard */

static kolo_status clear_totals(const kolo_queued_job *j)
{
    const kolo_station *home = &j->queued->stations[0];
    size_t bytes = (size_t)(j->shard->end_microbatch - j->shard->first_microbatch) * j->queued->totals_stride;
    return home->told ? home->accelerator->clear(home->stream, home->totals, bytes) : KOLO_OK;
}

kolo_status kolo_queued_microbatches(const kolo_queued_job *j)
{
    const kolo_program *program = j->queued->program;
    KOLO_TRY(clear_totals(j));
    KOLO_TRY(kolo_stations_begin(j));
    for (int s = 0; s < program->segment_count; s++) {
        for (int64_t microbatch = j->shard->first_microbatch; microbatch < j->shard->end_microbatch; microbatch++)
            KOLO_TRY(run_segment(j, microbatch, s));
        if (program->segments[s].reduce >= 0) KOLO_TRY(kolo_queued_meet(j, program->segments[s].reduce));
    }
    return kolo_stations_end(j);
}

static kolo_status send(kolo_queued *queued, int slot)
{
    size_t bytes = queued->scaling ? sizeof *queued->step_parameters : offsetof(kolo_step_parameters, updates);
    return queued->accelerator->copy(queued->stream, queued->step_parameters, &queued->steps_ahead[slot], bytes);
}

/* The step parameters of the shard goes to the device, and its samples where they can be reached. */
static kolo_status tell(kolo_queued *queued, const kolo_shard *shard, const kolo_step_parameters *numbers)
{
    int slot = (int)(queued->given % KOLO_STEPS_AHEAD);
    kolo_step_parameters step_parameters = numbers ? *numbers : (kolo_step_parameters){0};
    step_parameters.samples = shard->batch->samples;
    step_parameters.step = shard->batch->step;
    step_parameters.seed = shard->seed;
    if (!numbers || !queued->scaling) step_parameters.loss_scale = shard->loss_scale != 0 ? shard->loss_scale : 1;
    KOLO_TRY(kolo_dataset_cache_bring(&queued->dataset_cache, shard, &step_parameters));
    if (queued->copied[slot]) KOLO_TRY(queued->accelerator->synchronize_event(queued->stream, queued->copied[slot]));
    queued->steps_ahead[slot] = step_parameters;
    KOLO_TRY(send(queued, slot));
    queued->given++;
    return queued->accelerator->record_event(queued->stream, &queued->copied[slot]);
}

kolo_status kolo_queued_correct(kolo_queued *queued, const kolo_step_parameters *numbers)
{
    int slot = (int)((queued->given - 1) % KOLO_STEPS_AHEAD);
    kolo_step_parameters *step_parameters = &queued->steps_ahead[slot];
    KOLO_TRY(queued->accelerator->synchronize_event(queued->stream, queued->copied[slot]));
    step_parameters->scale = numbers->scale;
    step_parameters->share = numbers->share;
    memcpy(step_parameters->rule, numbers->rule, sizeof step_parameters->rule);
    KOLO_TRY(send(queued, slot));
    return queued->accelerator->record_event(queued->stream, &queued->copied[slot]);
}

kolo_status kolo_queued_prepare(kolo_queued *queued, const kolo_shard *shard, const kolo_step_parameters *numbers)
{
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
    if (shard->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    KOLO_TRY(kolo_queued_reserve(queued, microbatches));
    return tell(queued, shard, numbers);
}

/* ---------------------------------------------------------------- computing and waiting */

kolo_totals kolo_queued_totals(const kolo_queued *queued, const char *from)
{
    kolo_totals totals = {0};
    int sums = queued->program->plan.metric_sums;
    memcpy(&totals, from, offsetof(kolo_totals, sums) + (size_t)sums * sizeof(double));
    totals.used = sums;
    return totals;
}

/* Totals of the shard's microbatches into the reduction, and their gradients, which it takes over. */
static kolo_status hand_over(const kolo_queued_job *j, kolo_reduction *reduction)
{
    kolo_queued *queued = j->queued;
    int64_t microbatches = j->shard->end_microbatch - j->shard->first_microbatch;
    size_t bytes = (size_t)microbatches * queued->totals_stride;
    char *totals = malloc(bytes + 1);
    if (!totals) return kolo_fail_memory(bytes, "sums of losses");
    kolo_status status = queued->accelerator->copy(queued->stream, totals, queued->totals, bytes);
    if (status == KOLO_OK) status = queued->accelerator->finish(queued->stream);
    for (int64_t i = 0; i < microbatches && status == KOLO_OK; i++) {
        kolo_node node = {.index = j->shard->first_microbatch + i,
                          .gradient = j->gradients ? j->gradients[i] : NULL,
                          .totals = kolo_queued_totals(queued, totals + (size_t)i * queued->totals_stride)};
        if (j->gradients) j->gradients[i] = NULL;
        status = kolo_reduction_insert(reduction, node);
    }
    free(totals);
    return status;
}

static kolo_status keep_outputs(const kolo_queued_job *j, int64_t microbatch)
{
    kolo_queued *queued = j->queued;
    const kolo_shard *shard = j->shard;
    const kolo_plan *plan = &queued->program->plan;
    size_t elements = (size_t)kolo_shape_count(plan->values[plan->output].shape);
    int64_t left = shard->batch->samples - microbatch * plan->microbatch,
            count = left < plan->microbatch ? left : plan->microbatch;
    int station = plan->values[kolo_plan_base(plan, plan->output)].memory;
    float *target = shard->outputs + (size_t)(microbatch * plan->microbatch) * elements;
    return queued->accelerator->copy(queued->stream, target,
                                     kolo_activations_output(kolo_queued_activations(j, station, microbatch)),
                                     (size_t)count * elements * sizeof *target);
}

static kolo_status compute_part(const kolo_queued_job *j, kolo_reduction *reduction)
{
    int64_t microbatches = j->shard->end_microbatch - j->shard->first_microbatch;
    for (int64_t i = 0; j->gradients && i < microbatches; i++)
        KOLO_TRY(kolo_reduction_borrow(reduction, &j->gradients[i]));
    KOLO_TRY(kolo_queued_prepare(j->queued, j->shard, NULL));
    KOLO_TRY(kolo_queued_microbatches(j));
    KOLO_TRY(kolo_dataset_cache_done(&j->queued->dataset_cache));
    return reduction ? hand_over(j, reduction) : j->queued->accelerator->finish(j->queued->stream);
}

static kolo_status run_part(kolo_queued *queued, const kolo_shard *shard, kolo_reduction *reduction, double *seconds)
{
    int64_t microbatches = shard->end_microbatch - shard->first_microbatch;
    kolo_queued_job j = {.queued = queued, .shard = shard, .seconds = seconds};
    if (reduction && queued->program->plan.training) {
        j.gradients = calloc((size_t)microbatches + 1, sizeof *j.gradients);
        if (!j.gradients) return kolo_fail_memory((size_t)microbatches * sizeof *j.gradients, "gradients");
    }
    kolo_status status = compute_part(&j, reduction);
    for (int64_t i = 0; j.gradients && i < microbatches; i++) kolo_reduction_return(reduction, j.gradients[i]);
    free(j.gradients);
    return status;
}

/* ---------------------------------------------------------------- microbatches of which only sums are wanted */

/* One microbatch, whose sums go to `totals` of the host when the stream has come so far. */
static kolo_status give_microbatch(kolo_queued *queued, const kolo_shard *shard, int64_t microbatch, char *totals)
{
    kolo_shard part = *shard;
    part.first_microbatch = microbatch;
    part.end_microbatch = microbatch + 1;
    kolo_queued_job j = {.queued = queued, .shard = &part};
    KOLO_TRY(kolo_queued_prepare(queued, &part, NULL));
    KOLO_TRY(kolo_queued_microbatches(&j));
    KOLO_TRY(kolo_dataset_cache_done(&queued->dataset_cache));
    if (part.outputs) KOLO_TRY(keep_outputs(&j, microbatch));
    return queued->accelerator->copy(queued->stream, totals, queued->totals, queued->totals_stride);
}

static kolo_status score(kolo_queued *queued, const kolo_shard *shard, kolo_reduction *reduction, char *totals)
{
    for (int64_t microbatch = shard->first_microbatch; microbatch < shard->end_microbatch; microbatch++)
        KOLO_TRY(give_microbatch(queued, shard, microbatch,
                                 totals + (size_t)(microbatch - shard->first_microbatch) * queued->totals_stride));
    KOLO_TRY(queued->accelerator->finish(queued->stream));
    for (int64_t microbatch = shard->first_microbatch; reduction && microbatch < shard->end_microbatch; microbatch++) {
        const char *from = totals + (size_t)(microbatch - shard->first_microbatch) * queued->totals_stride;
        KOLO_TRY(kolo_reduction_insert(reduction,
                                       (kolo_node){.index = microbatch, .totals = kolo_queued_totals(queued, from)}));
    }
    return KOLO_OK;
}

static kolo_status run_scores(kolo_queued *queued, const kolo_shard *shard, kolo_reduction *reduction)
{
    size_t bytes = (size_t)(shard->end_microbatch - shard->first_microbatch) * queued->totals_stride;
    void *totals = NULL;
    KOLO_TRY(queued->accelerator->allocate_host(queued->stream, bytes, &totals));
    kolo_status status = score(queued, shard, reduction, totals);
    queued->accelerator->release_host(queued->stream, totals);
    return status;
}

/* Microbatches that do not meet are computed one at a time, so that memory is one microbatch's. */
kolo_status kolo_queued_run(kolo_queued *queued, const kolo_shard *shard, kolo_reduction *reduction, double *seconds)
{
    if (queued->program->reduces) return run_part(queued, shard, reduction, seconds);
    if (!queued->program->plan.training) return run_scores(queued, shard, reduction);
    for (int64_t microbatch = shard->first_microbatch; microbatch < shard->end_microbatch; microbatch++) {
        kolo_shard part = *shard;
        part.first_microbatch = microbatch;
        part.end_microbatch = microbatch + 1;
        KOLO_TRY(run_part(queued, &part, reduction, seconds));
    }
    return KOLO_OK;
}
