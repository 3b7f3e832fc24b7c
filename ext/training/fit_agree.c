/* The part of kolo_fit() before the first step in which ranks that train together agree: see fit.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/error.h"
#include "core/hash.h"
#include "data/data.h"
#include "model/lower.h"
#include "replica/worker_records.h"
#include "runtime/runtime.h"
#include "show/bundle.h"
#include "training/fit.h"

/* ---------------------------------------------------------------- numbers and words */

/* Settings that must be the same on every rank: otherwise ranks would wait for each other in different collectives. */
typedef struct terms {
    int64_t samples, batch, epochs, first, steps, weights, validation, every, metrics, deterministic, accumulate,
        in_order, shuffle_buffer, broadcasts, check_every, sharded;
} terms;

static const char *const term_names[] = {"samples in its data",
                                         "samples a step",
                                         "epochs",
                                         "epochs done before",
                                         "steps an epoch",
                                         "weights",
                                         "samples in its validation data",
                                         "epochs between two validations",
                                         "sums of its metrics",
                                         "deterministic mode",
                                         "batches an update",
                                         ".no_shuffle",
                                         ".shuffle_buffer",
                                         "kolo_broadcast_variables() among the .callbacks",
                                         ".check_every",
                                         ".sharded"};

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

static int count_broadcasts(const kolo_fit_state *state)
{
    const char *name = kolo_broadcast_variables(0).name;
    int count = 0;
    for (int i = 0; i < state->callback_count; i++)
        count += state->callbacks[i].name && strcmp(state->callbacks[i].name, name) == 0;
    return count;
}

static kolo_status agree_on_terms(kolo_fit_state *state)
{
    const kolo_data *validation = state->args->sharded ? NULL : state->validation; /* then rank 0's counts */
    terms mine = {state->args->sharded ? 0 : state->data->samples,
                  state->batch,
                  state->epochs,
                  state->args->initial_epoch,
                  state->steps,
                  state->model->weight_count,
                  validation ? validation->samples : 0,
                  state->args->validation_freq,
                  state->model->metrics.sums,
                  state->model->settings.deterministic,
                  state->model->settings.optimizer.common.accumulate_steps,
                  state->args->no_shuffle,
                  state->args->shuffle_buffer,
                  count_broadcasts(state),
                  state->args->check_every,
                  state->args->sharded};
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

/* ---------------------------------------------------------------- the model, its optimizer, the data */

/* Writes the C code that a bundle has as its text, and frees the bundle. */
static void write_code(FILE *out, char *bundle)
{
    json_t *whole = bundle ? json_loads(bundle, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(whole, "text/plain"));
    fputs(text ? text : "", out);
    json_decref(whole);
    free(bundle);
}

/* Writes a line for each part of the model, and one for its optimizer. */
static void write_parts(FILE *out, const kolo_model *model)
{
    for (int i = 0; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        fprintf(out, "layer %d: ", i);
        write_code(out, kolo_layer_bundle(&node->recipe));
        for (int f = 0; f < node->from_count; f++) fprintf(out, "%s %d", f ? "," : " after layer", node->from[f]);
        fputc('\n', out);
    }
    fputs("the optimizer: ", out);
    write_code(out, kolo_optimizer_bundle(&model->settings.optimizer));
    fputc('\n', out);
}

/* A copy of the line that contains text[at]. */
static const char *line_at(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] != '\n') at--;
    return kolo_phrase("%.*s", (int)strcspn(text + at, "\n"), text + at);
}

static kolo_status compare_parts(const char *mine, const char *first, int rank)
{
    size_t at = 0;
    while (mine[at] && mine[at] == first[at]) at++;
    if (mine[at] == first[at]) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted the same model on all ranks, got %s on rank 0, %s on rank %d",
                     line_at(first, at), line_at(mine, at), rank);
}

/* Compares the parts with those of rank 0. */
static kolo_status compare_with_first(const kolo_fit_state *state, const char *mine)
{
    kolo_comm *ranks = state->ranks;
    int64_t length = (int64_t)strlen(mine) + 1;
    KOLO_TRY(ranks->kind->broadcast(ranks, &length, sizeof length, 0));
    char *first = calloc((size_t)length, 1);
    if (!first) return kolo_fail_memory((size_t)length, "the model of rank 0");
    if (ranks->rank == 0) memcpy(first, mine, (size_t)length);
    kolo_status status = ranks->kind->broadcast(ranks, first, (size_t)length, 0);
    if (status == KOLO_OK) status = compare_parts(mine, first, ranks->rank);
    free(first);
    return status;
}

static kolo_status agree_on_parts(const kolo_fit_state *state)
{
    char *mine = NULL;
    size_t size;
    FILE *out = open_memstream(&mine, &size);
    if (!out) return kolo_fail_memory(1 << 12, "the model as text");
    write_parts(out, state->model);
    fclose(out);
    kolo_status status = kolo_fit_agree_to_begin(state, compare_with_first(state, mine));
    free(mine);
    return status;
}

#define LOOKED_AT 16 /* samples that are compared, from all over the data */

static kolo_status hash_samples(const kolo_data *data, uint64_t *hash)
{
    int64_t elements = kolo_shape_count(data->shape);
    int32_t index[LOOKED_AT], *labels = calloc((size_t)(LOOKED_AT * (data->label_count + 1)), sizeof *labels);
    float *features = calloc((size_t)(LOOKED_AT * elements) + 1, sizeof *features);
    for (int64_t i = 0; i < LOOKED_AT; i++) index[i] = (int32_t)(i * (data->samples - 1) / (LOOKED_AT - 1));
    kolo_gathered to = {.features = features, .labels = data->has_labels ? labels : NULL};
    kolo_status status = features && labels ? kolo_data_gather(data, NULL, index, 0, LOOKED_AT, &to)
                                            : kolo_fail_memory((size_t)(LOOKED_AT * elements) * 4, "some samples");
    *hash = KOLO_HASH_START;
    if (status == KOLO_OK) *hash = kolo_hash_add_words(*hash, features, LOOKED_AT * elements);
    if (status == KOLO_OK && data->has_labels)
        *hash = kolo_hash_add_words(*hash, labels, LOOKED_AT * data->label_count);
    free(features);
    free(labels);
    return status;
}

/* Each rank trains on its part of the data, so all need the same. Programs for Horovod give each rank a shard of its
 * own, and a rank would then train on a part of its shard only. */
static kolo_status agree_on_data(const kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    uint64_t hash, *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' data");
    kolo_status status = kolo_fit_agree_to_begin(state, hash_samples(state->data, &hash));
    if (status == KOLO_OK) status = ranks->kind->allgather(ranks, &hash, sizeof hash, all);
    int other = 0;
    for (int r = ranks->size - 1; r > 0 && status == KOLO_OK; r--) other = all[r] != all[0] ? r : other;
    free(all);
    if (other == 0) return status;
    return kolo_fail(KOLO_INVALID,
                     "wanted the same data on all ranks, got other samples on rank %d than on rank 0: give every rank "
                     "the whole data set, since kolo_fit() divides it among the ranks itself, or set .sharded if each "
                     "has a shard of its own",
                     other);
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
    state->validates = state->validation != NULL;
    if (ranks->size == 1) return KOLO_OK;
    KOLO_TRY(agree_on_terms(state));
    KOLO_TRY(agree_on_words(state));
    KOLO_TRY(agree_on_parts(state));
    if (state->args->sharded) KOLO_TRY(ranks->kind->broadcast(ranks, &state->validates, sizeof state->validates, 0));
    else KOLO_TRY(agree_on_data(state));
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
    kolo_position *at = &state->model->position;
    if (!state->model->resumed) return KOLO_OK;
    state->seed = state->trainer->seed = state->model->seed;
    KOLO_TRY(agree_on_position(state));
    if (at->step > 0 && at->samples != state->data->samples)
        return kolo_fail(KOLO_INVALID, "wanted %lld samples to go on within an epoch, got %lld", (long long)at->samples,
                         (long long)state->data->samples);
    state->epoch_anew = at->step > 0 && at->batch != state->batch; /* as after a restart with fewer ranks */
    if (state->epoch_anew) at->step = 0;
    return kolo_workers_resume(state->trainer);
}

/* Sets all[ranks] to the hashes of their models' weights. */
static kolo_status gather_hashes(const kolo_fit_state *state, uint64_t *all)
{
    const kolo_model *model = state->model;
    kolo_comm *ranks = state->ranks;
    uint64_t hash = kolo_hash_add_words(KOLO_HASH_START, model->weights, model->weight_count);
    return ranks->kind->allgather(ranks, &hash, sizeof hash, all);
}

/* The first rank whose hash is not that of most ranks; -1: all are equal. */
static int find_other(const uint64_t *all, int size)
{
    int most = 0, common = 0;
    for (int r = 0; r < size; r++) {
        int same = 0;
        for (int other = 0; other < size; other++) same += all[other] == all[r];
        if (same > most) common = r;
        if (same > most) most = same;
    }
    for (int r = 0; r < size; r++)
        if (all[r] != all[common]) return r;
    return -1;
}

kolo_status kolo_fit_check_weights(kolo_fit_state *state, int step)
{
    kolo_comm *ranks = state->ranks;
    int every = state->args->check_every, other = -1;
    if (every <= 0 || ranks->size == 1 || state->trainer->workers || step % every != 0) return KOLO_OK;
    uint64_t *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' weights");
    kolo_status status = kolo_trainer_fetch(state->trainer);
    if (status == KOLO_OK) status = gather_hashes(state, all);
    if (status == KOLO_OK) other = find_other(all, ranks->size);
    free(all);
    if (other < 0) return status;
    return kolo_fail(KOLO_COMM, "after step %d of the epoch rank %d has other weights than most of the %d ranks", step,
                     other, ranks->size);
}

kolo_status kolo_fit_compare_weights(kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    if (ranks->size == 1) return KOLO_OK;
    uint64_t *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' weights");
    kolo_status status = gather_hashes(state, all);
    int differs = 0;
    for (int r = ranks->size - 1; status == KOLO_OK && r > 0; r--) differs = all[r] != all[0] ? r : differs;
    free(all);
    if (differs > 0 && kolo_model_strategy(state->model)->joins_ranks) return kolo_broadcast_all(state->model, 0);
    if (differs > 0)
        kolo_warn("rank %d starts from other weights than rank 0, so they will learn apart: list "
                  "kolo_broadcast_variables(0) among the .callbacks, or give all ranks one .seed",
                  differs);
    return status;
}
