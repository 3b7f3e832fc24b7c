/* The part of kolo_fit() before the first step: checks arguments, computes sizes, and makes all ranks agree. See fit.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training/fit.h"
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
    KOLO_TRY(check_feed(args));
    if (args->resume && args->initial_epoch)
        return kolo_fail(KOLO_INVALID, "wanted .resume or .initial_epoch, got both");
    int epochs = args->epochs ? args->epochs : 1;
    if (args->initial_epoch >= 0 && args->initial_epoch <= epochs) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".initial_epoch: wanted 0 to %d, the .epochs, got %d", epochs, args->initial_epoch);
}

/* ---------------------------------------------------------------- sizes */

static kolo_status plan_steps(kolo_fit_state *state)
{
    const kolo_fit_args *args = state->args;
    int64_t samples = state->data->samples, full = samples / state->batch;
    int64_t steps = args->drop_remainder ? full : (samples + state->batch - 1) / state->batch;
    if (steps == 0)
        return kolo_fail(KOLO_INVALID,
                         ".batch_size: wanted at most %lld samples a step with .drop_remainder, since the "
                         "data has no more, got %lld: no step would run",
                         (long long)samples, (long long)state->batch);
    if (args->steps_per_epoch > steps)
        return kolo_fail(KOLO_INVALID,
                         ".steps_per_epoch: wanted at most %lld, as many as %lld samples in steps of %lld "
                         "give, got %d",
                         (long long)steps, (long long)samples, (long long)state->batch, args->steps_per_epoch);
    state->steps = args->steps_per_epoch ? args->steps_per_epoch : (int)steps;
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
 * number of devices. Otherwise it is small enough for every thread of every device to have a microbatch. */
int kolo_choose_microbatch(const kolo_model *model, int64_t samples, int replicas, int ranks)
{
    if (model->microbatch) return (int)(model->microbatch < samples ? model->microbatch : samples);
    bool many = replicas > kolo_threads() && !kolo_replicas_together(model);
    int64_t threads = many || kolo_backend_fills_device(model->backend) ? replicas : kolo_threads();
    if (kolo_strategy_has_workers(kolo_model_strategy(model))) threads /= replicas; /* a batch is of one worker */
    int64_t microbatch =
        model->settings.deterministic ? deterministic_microbatch(model, samples) : divided_up(samples, threads * ranks);
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
    return (kolo_feeding){.kind = prefetch ? KOLO_FEED_QUEUE : args->feed,
                          .capacity = capacity < steps ? capacity : steps,
                          .threads = threads ? threads : FEED_THREADS};
}

/* Whether a callback has hooks. One without hooks does nothing: it is an empty element of the list. */
static bool has_hooks(const kolo_callback *c)
{
    return c->on_train_begin || c->on_train_end || c->on_epoch_begin || c->on_epoch_end || c->on_train_batch_begin ||
           c->on_train_batch_end || c->on_test_begin || c->on_test_end;
}

kolo_status kolo_fit_plan(kolo_fit_state *state)
{
    const kolo_fit_args *args = state->args;
    KOLO_TRY(check_arguments(args));
    state->model = args->model;
    KOLO_TRY(kolo_fit_open_data(state));
    state->ranks = kolo_model_ranks(args->model);
    state->epochs = args->epochs ? args->epochs : 1;
    bool workers = kolo_strategy_has_workers(kolo_model_strategy(args->model)); /* a batch is of one worker */
    state->batch = (int64_t)(args->batch_size ? args->batch_size : 32) * (workers ? 1 : state->ranks->size);
    KOLO_TRY(plan_steps(state));
    int replicas = kolo_model_replicas(args->model);
    int64_t samples = state->data->samples < state->batch ? state->data->samples : state->batch;
    state->microbatch = kolo_choose_microbatch(state->model, samples, replicas, workers ? 1 : state->ranks->size);
    if (args->micro_batch) state->microbatch = args->micro_batch < samples ? args->micro_batch : (int)samples;
    state->feeding = feeding_of(args, state->data, state->steps);
    state->seed = args->model->seed;
    for (int i = 0; i < KOLO_CALLBACKS_MAX; i++) {
        const kolo_callback *given = &args->callbacks[i];
        if (!has_hooks(given)) continue;
        state->callbacks[state->callback_count] = *given;
        state->callbacks[state->callback_count].state = NULL;
        state->callbacks[state->callback_count].steps = state->steps;
        state->callbacks[state->callback_count++].model = state->model;
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- agreement of all ranks */

/* Settings that must be the same on every rank: otherwise ranks would wait for each other in different collectives. */
typedef struct terms {
    int64_t samples, batch, epochs, first, steps, weights, replicas, validation, every, metrics, deterministic,
        accumulate, in_order, shuffle_buffer;
} terms;

static const char *const term_names[] = {"samples in its data",
                                         "samples a step",
                                         "epochs",
                                         "epochs done before",
                                         "steps an epoch",
                                         "weights",
                                         "replicas",
                                         "samples in its validation data",
                                         "epochs between two validations",
                                         "sums of its metrics",
                                         "deterministic mode",
                                         "batches an update",
                                         ".no_shuffle",
                                         ".shuffle_buffer"};

static kolo_status compare_terms(const int64_t *all, int size, const char *const *names, int count)
{
    for (int rank = 1; rank < size; rank++)
        for (int i = 0; i < count; i++)
            if (all[rank * count + i] != all[i])
                return kolo_fail(KOLO_INVALID, "wanted the same on all ranks, got %s: %lld on rank 0, %lld on rank %d",
                                 names[i], (long long)all[i], (long long)all[rank * count + i], rank);
    return KOLO_OK;
}

/* Fails unless mine[count] is the same on all ranks. The message names the first difference. */
static kolo_status agree_on(kolo_comm *ranks, const int64_t *mine, const char *const *names, int count)
{
    size_t bytes = (size_t)count * sizeof *mine;
    int64_t *all = calloc((size_t)ranks->size, bytes);
    if (!all) return kolo_fail_memory((size_t)ranks->size * bytes, "the ranks' settings");
    kolo_status status = ranks->kind->allgather(ranks, mine, bytes, all);
    if (status == KOLO_OK) status = compare_terms(all, ranks->size, names, count);
    free(all);
    return status;
}

static kolo_status agree_on_terms(kolo_fit_state *state, int replicas)
{
    const kolo_data *validation = state->validation;
    terms mine = {state->data->samples,
                  state->batch,
                  state->epochs,
                  state->args->initial_epoch,
                  state->steps,
                  state->model->weight_count,
                  replicas,
                  validation ? validation->samples : 0,
                  state->args->validation_freq,
                  state->model->metrics.sums,
                  state->model->settings.deterministic,
                  state->model->settings.optimizer.common.accumulate_steps,
                  state->args->no_shuffle,
                  state->args->shuffle_buffer};
    return agree_on(state->ranks, (const int64_t *)&mine, term_names, sizeof mine / sizeof(int64_t));
}

/* Further such settings, as text. Optimizers differ in the arrays that ranks exchange, and GPUs sum only with GPUs. */
enum { STRATEGY, OPTIMIZER, LOSS, PRECISION, DEVICE, WORDS };
typedef char words[WORDS][32];
static const char *const word_names[WORDS] = {"strategy", "optimizer", "loss", "precision", "kind of device"};

static kolo_status compare_words(words *all, int size)
{
    for (int rank = 1; rank < size; rank++)
        for (int i = 0; i < WORDS; i++)
            if (strcmp(all[rank][i], all[0][i]) != 0)
                return kolo_fail(KOLO_INVALID, "wanted the same on all ranks, got %s: %s on rank 0, %s on rank %d",
                                 word_names[i], all[0][i], all[rank][i], rank);
    return KOLO_OK;
}

static kolo_status agree_on_words(const kolo_fit_state *state)
{
    static const char *const precisions[] = {[KOLO_FLOAT32] = "KOLO_FLOAT32",
                                             [KOLO_MIXED_BF16] = "KOLO_MIXED_BF16",
                                             [KOLO_MIXED_FP16] = "KOLO_MIXED_FP16",
                                             [KOLO_TF32] = "KOLO_TF32"};
    const kolo_compile_args *settings = &state->model->settings;
    kolo_comm *ranks = state->ranks;
    words mine = {0}, *all = calloc((size_t)ranks->size, sizeof mine);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof mine, "the ranks' settings");
    snprintf(mine[STRATEGY], sizeof mine[0], "%s", kolo_model_strategy(state->model)->name);
    snprintf(mine[OPTIMIZER], sizeof mine[0], "%s", settings->optimizer.kind->name);
    snprintf(mine[LOSS], sizeof mine[0], "%s", settings->loss.kind->name);
    snprintf(mine[PRECISION], sizeof mine[0], "%s", precisions[settings->precision]);
    snprintf(mine[DEVICE], sizeof mine[0], "%s", state->model->backend->devices ? "GPU" : "CPU");
    kolo_status status = ranks->kind->allgather(ranks, mine, sizeof mine, all);
    if (status == KOLO_OK) status = compare_words(all, ranks->size);
    free(all);
    return status;
}

kolo_status kolo_agree_on_microbatch(kolo_comm *ranks, int *microbatch)
{
    int own = *microbatch, *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' settings");
    kolo_status status = ranks->kind->allgather(ranks, &own, sizeof own, all);
    for (int r = 0; r < ranks->size && status == KOLO_OK; r++)
        *microbatch = all[r] < *microbatch ? all[r] : *microbatch;
    free(all);
    return status;
}

kolo_status kolo_fit_agree(kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    if (ranks->size == 1) return KOLO_OK;
    KOLO_TRY(agree_on_terms(state, kolo_model_replicas(state->model)));
    KOLO_TRY(agree_on_words(state));
    KOLO_TRY(ranks->kind->broadcast(ranks, &state->seed, sizeof state->seed, 0));
    state->model->seed = state->seed; /* so that it is in checkpoints, too */
    return kolo_agree_on_microbatch(ranks, &state->microbatch);
}

static void tell_failure(const kolo_failure *failure, int rank)
{
    kolo_fail(failure->code, "rank %d cannot begin: %s", rank, failure->text);
}

kolo_status kolo_fit_agree_to_begin(const kolo_fit_state *state, kolo_status status)
{
    kolo_comm *ranks = state->ranks;
    if (ranks->size == 1) return status;
    kolo_failure own = {.code = KOLO_OK}, *all = calloc((size_t)ranks->size, sizeof *all);
    if (status != KOLO_OK) own = kolo_failure_take();
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' failures");
    kolo_status told = ranks->kind->allgather(ranks, &own, sizeof own, all);
    if (status != KOLO_OK) kolo_failure_give(&own);
    for (int r = 0; r < ranks->size && status == KOLO_OK && told == KOLO_OK; r++) {
        status = all[r].code;
        if (status != KOLO_OK) tell_failure(&all[r], r);
    }
    free(all);
    return status != KOLO_OK ? status : told;
}

static kolo_status agree_on_position(kolo_fit_state *state)
{
    static const char *const names[] = {"epochs done", "steps of an epoch done", "batches done", "the seed"};
    const kolo_position *at = &state->model->position;
    const int64_t mine[] = {at->epoch, at->step, state->trainer->replicas[0].counters.steps, (int64_t)state->seed};
    return state->ranks->size == 1 ? KOLO_OK : agree_on(state->ranks, mine, names, 4);
}

kolo_status kolo_fit_begin_at(kolo_fit_state *state)
{
    const kolo_position *at = &state->model->position;
    if (!state->model->resumed) return KOLO_OK;
    state->seed = state->trainer->seed = state->model->seed;
    KOLO_TRY(agree_on_position(state));
    if (at->step == 0 || (at->samples == state->data->samples && at->batch == state->batch)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "wanted %lld samples in steps of %lld to go on within an epoch, got %lld in steps of %lld",
                     (long long)at->samples, (long long)at->batch, (long long)state->data->samples,
                     (long long)state->batch);
}

/* FNV-1a over the weights' bits, 32 at a time. */
static uint64_t hash_weights(const kolo_model *model)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (int64_t i = 0; i < model->weight_count; i++) {
        uint32_t bits;
        memcpy(&bits, &model->weights[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001B3u;
    }
    return hash;
}

kolo_status kolo_fit_compare_weights(kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    if (ranks->size == 1) return KOLO_OK;
    uint64_t hash = hash_weights(state->model), *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' weights");
    kolo_status status = ranks->kind->allgather(ranks, &hash, sizeof hash, all);
    int differs = 0;
    for (int r = ranks->size - 1; status == KOLO_OK && r > 0; r--) differs = all[r] != all[0] ? r : differs;
    free(all);
    if (differs > 0)
        kolo_warn("rank %d starts from other weights than rank 0, so they will learn apart: list "
                  "kolo_broadcast_variables(0) among the .callbacks, or give all ranks one .seed",
                  differs);
    return status;
}
