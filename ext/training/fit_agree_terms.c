/* The settings of a kolo_fit() that must be the same on all ranks that train together: see fit.h. Numbers and names are
 * gathered on all ranks. The model and the callbacks are written as C code, which each rank compares with rank 0's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/written.h"
#include "replica/autotune.h"
#include "show/bundle.h"
#include "training/fit.h"

/* ---------------------------------------------------------------- numbers and words */

/* Settings that must be the same on every rank: otherwise ranks would wait for each other in different collectives. */
typedef struct terms {
    int64_t samples, batch, epochs, first, steps, weights, validation, every, metrics, deterministic, accumulate,
        in_order, shuffle_buffer, broadcasts, check_every, resume, autotune;
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
                                         ".resume",
                                         "KOLO_AUTOTUNE"};

static kolo_status compare_terms(const int64_t *all, int size, const char *const *names, int count)
{
    for (int rank = 1; rank < size; rank++)
        for (int i = 0; i < count; i++)
            if (all[rank * count + i] != all[i])
                return kolo_fail(KOLO_INVALID, "wanted the same on all ranks, got %s: %lld on rank 0, %lld on rank %d",
                                 names[i], (long long)all[i], (long long)all[rank * count + i], rank);
    return KOLO_OK;
}

kolo_status kolo_fit_agree_on(kolo_comm *ranks, const int64_t *mine, const char *const *names, int count)
{
    size_t bytes = (size_t)count * sizeof *mine;
    int64_t *all = calloc((size_t)ranks->size, bytes);
    if (!all) return kolo_fail_memory((size_t)ranks->size * bytes, "the ranks' settings");
    kolo_status status = ranks->kind->allgather(ranks, mine, bytes, all);
    if (status == KOLO_OK) status = compare_terms(all, ranks->size, names, count);
    free(all);
    return status;
}

static bool is_named(const kolo_callback *callback, const char *name)
{
    return callback->name && strcmp(callback->name, name) == 0;
}

int kolo_fit_count_callbacks(const kolo_fit_state *state, const char *name)
{
    int count = 0;
    for (int i = 0; i < state->callback_count; i++) count += is_named(&state->callbacks[i], name);
    return count;
}

static kolo_status agree_on_terms(const kolo_fit_state *state)
{
    bool autotune;
    KOLO_TRY(kolo_autotune_read(&autotune));
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
                  kolo_fit_count_callbacks(state, "broadcast_variables"),
                  state->args->check_every,
                  state->args->resume,
                  autotune};
    return kolo_fit_agree_on(state->ranks, (const int64_t *)&mine, term_names, sizeof mine / sizeof(int64_t));
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

/* ---------------------------------------------------------------- C code */

#define LINE 320 /* bytes of a line in a sentence */

/* Writes the C code that a bundle has as its text, and frees the bundle. */
static void write_code(FILE *out, char *bundle)
{
    json_t *whole = bundle ? json_loads(bundle, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(whole, "text/plain"));
    fputs(text ? text : "", out);
    json_decref(whole);
    free(bundle);
}

/* The strategy without what a rank may have alone: its devices, the memory of its weights, the files of rank 0. */
static void write_strategy(FILE *out, const kolo_model *model)
{
    kolo_strategy strategy = model->settings.strategy;
    const kolo_strategy_kind *kind = kolo_model_strategy(model);
    bool workers = kolo_strategy_has_workers(kind);
    strategy.devices = strategy.workers = 0; /* kolo_model_meet() compares the numbers of workers */
    memset(strategy.device_names, 0, sizeof strategy.device_names);
    strategy.parameter_device = strategy.record = NULL;
    strategy.slicing = KOLO_SLICE_ON_HOST;
    strategy.staging = false;
    if (workers && !strategy.window) strategy.window = kind->window;
    if (workers && !strategy.servers) strategy.servers = 1;
    if (strategy.replay) strategy.replay = "a file";
    write_code(out, kolo_strategy_bundle(&strategy));
}

/* Writes a line for each layer, and one for each other part of the model. */
static void write_model(FILE *out, const kolo_fit_state *state)
{
    const kolo_model *model = state->model;
    const kolo_compile_args *settings = &model->settings;
    for (int i = 0; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        fprintf(out, "layer %d: ", i);
        write_code(out, kolo_layer_bundle(&node->recipe));
        for (int f = 0; f < node->from_count; f++) fprintf(out, "%s %d", f ? "," : " after layer", node->from[f]);
        fputc('\n', out);
    }
    fputs("the optimizer: ", out);
    write_code(out, kolo_optimizer_bundle(&settings->optimizer));
    fputs("\nthe loss: ", out);
    write_code(out, kolo_loss_bundle(&settings->loss));
    fputs("\nthe metrics:", out);
    for (int m = 0; m < KOLO_METRICS_MAX && settings->metrics[m].kind; m++) {
        fputs(m ? ", " : " ", out);
        write_code(out, kolo_metric_bundle(&settings->metrics[m]));
    }
    fputs("\nthe strategy: ", out);
    write_strategy(out, model);
    fputc('\n', out);
}

/* Whether a callback changes the training. Others may be on one rank alone: those that only watch and write. */
static bool steers(const kolo_callback *callback)
{
    static const char *const names[] = {"broadcast_variables",  "early_stopping",       "learning_rate_scheduler",
                                        "learning_rate_warmup", "reduce_lr_on_plateau", NULL};
    int i = 0;
    while (names[i] && !is_named(callback, names[i])) i++;
    return names[i] != NULL;
}

/* Writes the call's settings that are not numbers: a line for the callbacks, and one for the weights of classes. */
static void write_call(FILE *out, const kolo_fit_state *state)
{
    double weights[KOLO_CLASS_WEIGHTS_MAX];
    int count = 0;
    fputs(".callbacks that change the training:", out);
    for (int i = 0; i < state->callback_count; i++) {
        if (!steers(&state->callbacks[i])) continue;
        fputs(count++ ? ", " : " ", out);
        write_code(out, kolo_callback_bundle(&state->callbacks[i]));
    }
    fprintf(out, "%s\n.class_weight: {", count ? "" : " none");
    memcpy(weights, state->args->class_weight, sizeof weights);
    kolo_keep_zeros(state->args->_, "class_weight", weights, KOLO_CLASS_WEIGHTS_MAX);
    for (int c = count = 0; c < KOLO_CLASS_WEIGHTS_MAX; c++)
        if (weights[c] != 0)
            fprintf(out, "%s[%d] = %.9g", count++ ? ", " : "", c, weights[c] == KOLO_NONE ? 0 : weights[c]);
    fputs("}\n", out);
}

/* Copies the line that contains text[at]; of a long line the part around it. */
static void copy_line(const char *text, size_t at, char line[LINE])
{
    size_t first = at;
    while (first > 0 && text[first - 1] != '\n') first--;
    bool cut = at - first > LINE / 2;
    if (cut) first = at - LINE / 4;
    while (cut && ((unsigned char)text[first] & 0xC0) == 0x80) first--; /* within a letter of several bytes */
    snprintf(line, LINE, "%s%.*s", cut ? "…" : "", (int)strcspn(text + first, "\n"), text + first);
}

static kolo_status compare_texts(const char *mine, const char *first, const char *what, int rank)
{
    char own[LINE], other[LINE];
    size_t at = 0;
    while (mine[at] && mine[at] == first[at]) at++;
    if (mine[at] == first[at]) return KOLO_OK;
    copy_line(mine, at, own);
    copy_line(first, at, other);
    return kolo_fail(KOLO_INVALID, "wanted the same %s on all ranks, got %s on rank 0, %s on rank %d", what, other, own,
                     rank);
}

static kolo_status compare_with_first(const kolo_fit_state *state, const char *mine, const char *what)
{
    kolo_comm *ranks = state->ranks;
    int64_t length = (int64_t)strlen(mine) + 1;
    KOLO_TRY(ranks->kind->broadcast(ranks, &length, sizeof length, 0));
    char *first = calloc((size_t)length, 1);
    if (!first) return kolo_fail_memory((size_t)length, "the settings of rank 0");
    if (ranks->rank == 0) memcpy(first, mine, (size_t)length);
    kolo_status status = ranks->kind->broadcast(ranks, first, (size_t)length, 0);
    if (status == KOLO_OK) status = compare_texts(mine, first, what, ranks->rank);
    free(first);
    return status;
}

/* Compares the text that `write` writes. `what` names it in the message. */
static kolo_status agree_on_text(const kolo_fit_state *state, void (*write)(FILE *out, const kolo_fit_state *state),
                                 const char *what)
{
    char *mine = NULL;
    size_t size;
    FILE *out = open_memstream(&mine, &size);
    if (!out) return kolo_fail_memory(1 << 12, "the settings as text");
    write(out, state);
    fclose(out);
    kolo_status status = kolo_fit_agree_to_begin(state, compare_with_first(state, mine, what));
    free(mine);
    return status;
}

kolo_status kolo_fit_agree_on_terms(const kolo_fit_state *state)
{
    KOLO_TRY(agree_on_terms(state));
    KOLO_TRY(agree_on_words(state));
    KOLO_TRY(agree_on_text(state, write_model, "model"));
    return agree_on_text(state, write_call, "settings");
}
