/* The part of kolo_fit() before the first step that checks arguments and computes sizes: see fit.h. */
#include "training/fit.h"

#include <stdlib.h>

#include "model/lower.h"
#include "runtime/runtime.h"
#include "data/data.h"

#define QUEUED_BATCHES 4
#define FEED_THREADS   2
/* Deterministic mode divides a batch into this many microbatches, so that as many devices have work, or into fewer if
 * it is small. A large model gets fewer, since its gradients do not fit a core's cache, and adding them takes long. */
#define DETERMINISTIC_MICROBATCHES 16
#define MICROBATCHES_OF_LARGE      8
#define LARGE_MODEL                (1 << 20) /* weights of a large model, at least */

/* ---------------------------------------------------------------- arguments */

/* Zero means the default. */
static kolo_status check_count(const char *option, int value)
{
    return value >= 0 ? KOLO_OK : kolo_fail(KOLO_INVALID, "%s: wanted at least 1, got %d", option, value);
}

kolo_status kolo_check_training(const kolo_model *model, const kolo_data *data, const char *call)
{
    KOLO_TRY(kolo_model_check_compiled(model, call));
    KOLO_TRY(kolo_model_check_idle(model));
    if (kolo_model_joins_ranks(model)) KOLO_TRY(kolo_check_joined());
    if (!model->settings.optimizer.kind)
        return kolo_fail(KOLO_INVALID, "wanted kolo_compile() with an .optimizer, got a model without one");
    if (model->weight_count == 0) return kolo_fail(KOLO_INVALID, "wanted a model with weights, got one without");
    return kolo_check_data(model, data, true, "data");
}

static kolo_status check_micro_batch(const kolo_fit_args *args)
{
    int batch = args->batch_size ? args->batch_size : 32, ghost = args->model->microbatch;
    KOLO_TRY(check_count(".micro_batch", args->micro_batch));
    if (args->micro_batch > batch)
        return kolo_fail(KOLO_INVALID, ".micro_batch: wanted at most the batch's %d samples, got %d", batch,
                         args->micro_batch);
    if (args->micro_batch && ghost && args->micro_batch != ghost)
        return kolo_fail(KOLO_INVALID, ".micro_batch: wanted %d, the .ghost_batch of this model, got %d", ghost,
                         args->micro_batch);
    return KOLO_OK;
}

static kolo_status check_feed(const kolo_fit_args *args)
{
    if (args->shuffle_buffer < 0)
        return kolo_fail(KOLO_INVALID, ".shuffle_buffer: wanted at least 1, got %lld", (long long)args->shuffle_buffer);
    if (args->shuffle_buffer && args->no_shuffle)
        return kolo_fail(KOLO_INVALID, "wanted .shuffle_buffer or .no_shuffle, got both");
    KOLO_TRY(check_count(".queue_capacity", args->queue_capacity));
    KOLO_TRY(check_count(".feed_threads", args->feed_threads));
    if (args->feed < 0 || args->feed > KOLO_FEED_STAGED)
        return kolo_fail(KOLO_INVALID,
                         ".feed: wanted KOLO_FEED_SYNCHRONOUS, KOLO_FEED_QUEUE or KOLO_FEED_STAGED, got %d",
                         (int)args->feed);
    if (args->feed != KOLO_FEED_QUEUE && (args->queue_capacity || args->feed_threads))
        return kolo_fail(KOLO_INVALID, "%s: wanted .feed = KOLO_FEED_QUEUE beside it",
                         args->queue_capacity ? ".queue_capacity" : ".feed_threads");
    if (args->feed_threads <= KOLO_FEED_THREADS_MAX) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".feed_threads: wanted at most %d, got %d", KOLO_FEED_THREADS_MAX,
                     args->feed_threads);
}

static kolo_status check_arguments(const kolo_fit_args *args)
{
    KOLO_TRY(kolo_check_training(args->model, args->data, "kolo_fit()"));
    if (args->validation_data) KOLO_TRY(kolo_check_data(args->model, args->validation_data, true, ".validation_data"));
    KOLO_TRY(check_count(".epochs", args->epochs));
    KOLO_TRY(check_count(".batch_size", args->batch_size));
    KOLO_TRY(check_count(".validation_batch_size", args->validation_batch_size));
    KOLO_TRY(check_count(".validation_freq", args->validation_freq));
    KOLO_TRY(check_micro_batch(args));
    KOLO_TRY(check_count(".steps_per_epoch", args->steps_per_epoch));
    KOLO_TRY(check_count(".check_every", args->check_every));
    KOLO_TRY(check_feed(args));
    if (args->resume && args->initial_epoch)
        return kolo_fail(KOLO_INVALID, "wanted .resume or .initial_epoch, got both");
    int epochs = args->epochs ? args->epochs : 1;
    if (args->initial_epoch >= 0 && args->initial_epoch <= epochs) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".initial_epoch: wanted 0 to %d, the .epochs, got %d", epochs, args->initial_epoch);
}

/* ---------------------------------------------------------------- sizes */

/* wanted: steps of this rank's data; 0: all. */
static kolo_status plan_steps(kolo_fit_state *state, int wanted)
{
    const kolo_fit_args *args = state->args;
    int64_t samples = state->data->samples, full = samples / state->batch;
    int64_t steps = args->drop_remainder ? full : (samples + state->batch - 1) / state->batch;
    if (steps == 0)
        return kolo_fail(KOLO_INVALID,
                         ".batch_size: wanted at most %lld samples a step with .drop_remainder, since the "
                         "data has no more, got %lld: no step would run",
                         (long long)samples, (long long)state->batch);
    if (wanted > steps)
        return kolo_fail(KOLO_INVALID,
                         ".steps_per_epoch: wanted at most %lld, as many as %lld samples in steps of %lld "
                         "give, got %d",
                         (long long)steps, (long long)samples, (long long)state->batch, wanted);
    state->steps = wanted ? wanted : (int)steps;
    return KOLO_OK;
}

static kolo_status check_sharded(const kolo_fit_state *state)
{
    const kolo_strategy_kind *kind = kolo_model_strategy(state->model);
    int wanted = state->args->steps_per_epoch, ranks = state->ranks->size;
    if (!kolo_strategy_has_workers(kind))
        return kolo_fail(KOLO_UNSUPPORTED,
                         ".sharded: wanted a strategy of workers, such as kolo_downpour(), each of which trains on "
                         "batches of its own, got strategy %s: give every rank the whole data set, without "
                         "kolo_data_scatter(), and kolo_fit() divides each batch among the ranks itself",
                         kind->name);
    if (wanted == 0 || wanted >= ranks) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".steps_per_epoch: wanted at least %d with .sharded, one for each rank, got %d",
                     ranks, wanted);
}

/* The steps of this rank's data, of which with .sharded it makes its share of .steps_per_epoch. */
static kolo_status plan_own_steps(kolo_fit_state *state)
{
    const kolo_comm *ranks = state->ranks;
    int64_t wanted = state->args->steps_per_epoch;
    if (!state->args->sharded || ranks->size == 1) return plan_steps(state, (int)wanted);
    KOLO_TRY(check_sharded(state));
    return plan_steps(state,
                      (int)(wanted * (ranks->rank + 1) / ranks->size) - (int)(wanted * ranks->rank / ranks->size));
}

/* With .sharded the steps of an epoch are those of all ranks. */
static kolo_status add_shards(kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    int own = state->steps, *first;
    size_t bytes = (size_t)(ranks->size + 1) * sizeof *first;
    if (!state->args->sharded || ranks->size == 1) return KOLO_OK;
    first = state->first_batch = calloc(1, bytes);
    KOLO_TRY(kolo_fit_agree_to_begin(state, first ? KOLO_OK : kolo_fail_memory(bytes, "the ranks' shards")));
    KOLO_TRY(ranks->kind->allgather(ranks, &own, sizeof own, first + 1));
    for (int r = 0; r < ranks->size; r++) first[r + 1] += first[r];
    state->steps = first[ranks->size];
    return KOLO_OK;
}

static int64_t divided_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

/* The microbatch in deterministic mode. A batch of two or more samples has at least two microbatches. */
static int64_t deterministic_microbatch(const kolo_model *model, int64_t samples)
{
    int64_t least = kolo_smallest_microbatch(model), half = divided_up(samples, 2);
    int64_t microbatch =
        divided_up(samples, model->weight_count < LARGE_MODEL ? DETERMINISTIC_MICROBATCHES : MICROBATCHES_OF_LARGE);
    if (microbatch < least) microbatch = least;
    return microbatch < half ? microbatch : half;
}

/* In deterministic mode it depends on the model and the batch only, so that the reduction tree is the same for any
 * number of devices. Otherwise it is small enough for every thread of every device to have a microbatch, if
 * the other ranks have as many threads for each replica as this one. */
int kolo_choose_microbatch(const kolo_model *model, int64_t samples, int replicas, int members)
{
    if (model->microbatch) return (int)(model->microbatch < samples ? model->microbatch : samples);
    bool many = replicas > kolo_threads() && !kolo_replicas_together(model);
    int64_t threads = many || kolo_backend_fills_device(model->backend) ? replicas : kolo_threads();
    int64_t shares = threads * members / replicas;
    /* Ranks with different numbers of devices: fewer shares than devices would leave a rank without work. */
    if (members % replicas != 0 && shares < members) shares = members;
    int64_t microbatch = model->settings.deterministic ? deterministic_microbatch(model, samples)
                                                       : divided_up(samples, shares > 0 ? shares : 1);
    int largest = kolo_largest_microbatch(model, KOLO_FOR_TRAINING);
    return (int)(microbatch < largest ? microbatch : largest);
}

/* The feed that kolo_fit() names, else that of kolo_prefetch(). A queue never holds more than an epoch. */
static kolo_feeding feeding_of(const kolo_fit_args *args, const kolo_data *data, int steps)
{
    bool workers = kolo_strategy_has_workers(kolo_model_strategy(args->model)); /* take batches as it comes */
    bool prefetch = args->feed == 0 && data->prefetch && !workers;
    int capacity = prefetch ? data->prefetch : args->queue_capacity;
    int threads = prefetch ? data->prefetch_threads : args->feed_threads;
    if (capacity == 0) capacity = QUEUED_BATCHES;
    return (kolo_feeding){.kind = prefetch     ? KOLO_FEED_QUEUE
                                  : args->feed ? args->feed
                                               : KOLO_FEED_SYNCHRONOUS,
                          .capacity = capacity < steps ? capacity : steps,
                          .threads = threads ? threads : FEED_THREADS};
}

/* Whether a callback has hooks. One without hooks does nothing: it is an empty element of the list. */
static bool has_hooks(const kolo_callback *c)
{
    return c->on_train_begin || c->on_train_end || c->on_epoch_begin || c->on_epoch_end || c->on_train_batch_begin ||
           c->on_train_batch_end || c->on_test_begin || c->on_test_end;
}

static void copy_callbacks(kolo_fit_state *state)
{
    for (int i = 0; i < KOLO_CALLBACKS_MAX; i++) {
        const kolo_callback *given = &state->args->callbacks[i];
        if (!has_hooks(given)) continue;
        state->callbacks[state->callback_count] = *given;
        state->callbacks[state->callback_count].state = NULL;
        state->callbacks[state->callback_count++].model = state->model;
    }
}

/* What a rank finds out by itself. */
static kolo_status plan_alone(kolo_fit_state *state)
{
    const kolo_fit_args *args = state->args;
    const kolo_strategy_kind *kind = kolo_model_strategy(state->model);
    KOLO_TRY(check_arguments(args));
    KOLO_TRY(kolo_fit_open_data(state));
    state->epochs = args->epochs ? args->epochs : 1;
    /* A batch is of one worker, or .batch_size is not a rank's share. */
    bool whole = kolo_strategy_has_workers(kind) || kind->joins_ranks;
    state->batch = (int64_t)(args->batch_size ? args->batch_size : 32) * (whole ? 1 : state->ranks->size);
    state->seed = args->model->seed;
    copy_callbacks(state);
    return plan_own_steps(state);
}

static kolo_status plan_together(kolo_fit_state *state)
{
    const kolo_fit_args *args = state->args;
    bool workers = kolo_strategy_has_workers(kolo_model_strategy(args->model));
    KOLO_TRY(add_shards(state));
    KOLO_TRY(kolo_model_meet(args->model));
    int64_t samples = state->data->samples < state->batch ? state->data->samples : state->batch;
    state->microbatch = kolo_choose_microbatch(state->model, samples, kolo_model_replicas(args->model),
                                               workers ? 1 : kolo_model_members(args->model));
    if (args->micro_batch) state->microbatch = args->micro_batch < samples ? args->micro_batch : (int)samples;
    state->feeding = feeding_of(args, state->data, state->steps);
    for (int i = 0; i < state->callback_count; i++) state->callbacks[i].steps = state->steps;
    return KOLO_OK;
}

kolo_status kolo_fit_plan(kolo_fit_state *state)
{
    kolo_model *model = state->args->model;
    KOLO_TRY(kolo_model_check_compiled(model, "kolo_fit()"));
    KOLO_TRY(kolo_model_check_idle(model));
    state->model = model;
    state->ranks = kolo_model_ranks(model);
    kolo_status status = plan_alone(state);
    if (state->ranks->size > 1) {
        kolo_failure own = kolo_failure_take(); /* the others learn of this failure after the opening */
        kolo_status opened = kolo_fit_open_ranks(state);
        if (own.code != KOLO_OK && opened == KOLO_OK) kolo_failure_give(&own);
        KOLO_TRY(opened);
        KOLO_TRY(kolo_fit_agree_to_begin(state, status));
    }
    KOLO_TRY(status);
    kolo_fit_tell_alone(state);
    KOLO_TRY(kolo_fit_look_for_ranks(state));
    return plan_together(state);
}
