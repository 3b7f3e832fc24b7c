/* Checkpoints: the state of a training in one safetensors file, from which it resumes exactly.
 *
 * Weights and optimizer state are arrays. The rest of the state is in the metadata as JSON: {"optimizer": "adam",
 * "learning_rate": "0.001", "compiled_rate": "0.002", "seed": "7", "epoch": "3", "step": "0", "samples": "320",
 * "batch": "40", "numbers": {…}, "steps": "24", "updates": "24", "waiting": "0", "waiting_samples": "0"}; with
 * KOLO_MIXED_FP16 also "loss_scale", "sample_scale" and "good"; within an epoch also "order", "seconds" and the sums
 * so far, "all" and "own"; under a strategy of workers "strategy" and "workers", a list with each one's own
 * numbers, whose arrays are "w0.0", …; and "kept", the names of kept weights, if there are any. Numbers are strings,
 * which hold all 64 bits, NaN and infinity. Ranks, devices and, between epochs, times are left out: between epochs N
 * devices write the same bytes as one in deterministic mode. Read first: saving/safetensors.h, model/position.h,
 * replica/trainer.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/timeline.h"
#include "saving/model_json.h"
#include "saving/save.h"
#include "replica/worker_records.h"

/* ------------------------------------------------------------------------------------------ arrays */

#define SLOT_NAME_MAX 96

/* An array of the training's state with an element for each weight: values[weight_count]. */
typedef struct plane {
    char name[32]; /* "0", "1": optimizer slots; "w3.1": plane 1 of worker 3 (worker_records.h); "waiting": gradients
                      that wait for an update; "kept0": of kept.h */
    float *values;
} plane;
#define PLANES_MAX (KOLO_OPTIMIZER_SLOTS + 1)

/* Whether replica 0 holds the whole sum of the gradients that wait for an update: in deterministic mode every replica
 * does, else only a single one. Otherwise no rank can write the sum, and the checkpoint leaves it out. */
static bool waiting_is_whole(const kolo_model *model)
{
    bool alone = model->trainer->count == 1 && kolo_model_ranks(model)->size == 1;
    return model->trainer->replicas[0].accumulated && (model->settings.deterministic || alone);
}

static int list_kept(const kolo_kept *kept, plane *planes)
{
    for (int i = 0; i < kept->count; i++) {
        planes[i].values = kept->values[i];
        snprintf(planes[i].name, sizeof planes[i].name, "kept%d", i);
    }
    return kept->count;
}

static int list_planes(const kolo_model *model, bool waiting, plane planes[PLANES_MAX])
{
    const kolo_replica *first = &model->trainer->replicas[0];
    int count = kolo_optimizer_slots(&model->settings.optimizer);
    for (int s = 0; s < count; s++) {
        planes[s].values = first->slots[s];
        snprintf(planes[s].name, sizeof planes[s].name, "%d", s);
    }
    if (waiting) planes[count++] = (plane){"waiting", first->accumulated};
    return count;
}

static const char *plane_name(char name[SLOT_NAME_MAX], const plane *one, const char *weight)
{
    snprintf(name, SLOT_NAME_MAX, KOLO_ARRAYS_OF_OPTIMIZER "%.10s/%.64s", one->name, weight);
    return name;
}

/* The array of one number for each array of weights, for optimizers that keep one. */
#define NUMBERS KOLO_ARRAYS_OF_OPTIMIZER "numbers"
static kolo_shape numbers_shape(const kolo_model *model)
{
    return (kolo_shape){1, {model->parameter_count}};
}

/* The arrays of a file: weights, then the optimizer's, whose names are in `names`. */
typedef struct arrays {
    kolo_array *list;
    char (*names)[SLOT_NAME_MAX];
    int count;
} arrays;

/* The planes of a worker's record; their arrays in the file. */
static int list_record(const kolo_model *model, int worker, kolo_worker_record *record, plane *planes)
{
    int count = kolo_worker_planes(model->trainer);
    for (int i = 0; i < count; i++) {
        planes[i].values = record->values + i * model->weight_count;
        snprintf(planes[i].name, sizeof planes[i].name, "w%d.%d", worker, i);
    }
    return count;
}

/* A worker's numbers follow the planes of its record. */
static float *numbers_of(const kolo_model *model, kolo_worker_record *record)
{
    return record->values + kolo_worker_planes(model->trainer) * model->weight_count;
}

static const char *name_numbers(char name[SLOT_NAME_MAX], int worker)
{
    snprintf(name, SLOT_NAME_MAX, KOLO_ARRAYS_OF_OPTIMIZER "w%d.numbers", worker);
    return name;
}

/* Adds the arrays of one plane, one for each array of weights. */
static void add_plane(const kolo_model *model, const plane *from, arrays *all)
{
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        const char *name = plane_name(all->names[all->count], from, parameter->name);
        all->list[all->count++] = (kolo_array){name, parameter->shape, from->values + parameter->offset};
    }
}

/* records: of all workers; NULL: the file has none. */
static void add_records(const kolo_model *model, kolo_worker_record *const *records, arrays *all)
{
    plane planes[KOLO_WORKER_PLANES];
    for (int w = 0; records && w < kolo_workers_count(model->trainer); w++) {
        int count = list_record(model, w, records[w], planes);
        for (int i = 0; i < count; i++) add_plane(model, &planes[i], all);
        if (!kolo_worker_has_numbers(model->trainer)) continue;
        const char *name = name_numbers(all->names[all->count], w);
        all->list[all->count++] = (kolo_array){name, numbers_shape(model), numbers_of(model, records[w])};
    }
}

static kolo_status list_arrays(kolo_model *model, bool waiting, kolo_worker_record *const *records, arrays *all)
{
    plane planes[PLANES_MAX + KOLO_KEPT_MAX];
    const kolo_replica *first = &model->trainer->replicas[0];
    int weights = model->parameter_count, count = list_planes(model, waiting, planes);
    count += list_kept(&model->kept, planes + count);
    int workers = records ? kolo_workers_count(model->trainer) : 0;
    size_t most = (size_t)(weights * (count + 1 + workers * KOLO_WORKER_PLANES) + workers) + 1;
    *all = (arrays){.list = calloc(most, sizeof *all->list), .names = calloc(most, sizeof *all->names)};
    if (!all->list || !all->names) return kolo_fail_memory(most * SLOT_NAME_MAX, "a list of arrays");
    kolo_weights_describe(model, all->list);
    all->count = weights;
    for (int i = 0; i < count; i++) add_plane(model, &planes[i], all);
    add_records(model, records, all);
    if (first->numbers) all->list[all->count++] = (kolo_array){NUMBERS, numbers_shape(model), first->numbers};
    return KOLO_OK;
}

static void free_arrays(arrays *all)
{
    free(all->list);
    free(all->names);
}

/* ------------------------------------------------------------------------------------------ numbers as text */

static json_t *integer_text(uint64_t number)
{
    return json_sprintf("%" PRIu64, number);
}

static json_t *real_text(double number)
{
    return json_sprintf("%.17g", number);
}

static kolo_status read_integer(const json_t *object, const char *name, uint64_t most, uint64_t *number)
{
    const char *text = json_string_value(json_object_get(object, name));
    bool digits = text && *text && strspn(text, "0123456789") == strlen(text);
    errno = 0;
    *number = digits ? strtoull(text, NULL, 10) : 0;
    if (digits && errno == 0 && *number <= most) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted a text of digits, at most %" PRIu64 ", got %s", name, most,
                     kolo_json_text(json_object_get(object, name)));
}

static kolo_status read_real(const json_t *value, const char *name, double *number)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    *number = text && *text ? strtod(text, &end) : 0;
    if (end && !*end) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted a number as text, got %s", name, kolo_json_text(value));
}

/* ------------------------------------------------------------------------------------------ sums */

/* kolo_totals consists of doubles only; the first kolo_totals_size() of them are in use. */
static json_t *totals_to_json(const kolo_totals *totals)
{
    const double *numbers = (const double *)totals;
    json_t *list = json_array();
    for (int64_t i = 0; i < kolo_totals_size(totals); i++) json_array_append_new(list, real_text(numbers[i]));
    return list;
}

static kolo_status totals_from_json(const kolo_model *model, const json_t *list, const char *name, kolo_totals *totals)
{
    double *numbers = (double *)totals;
    *totals = (kolo_totals){.used = model->metrics.sums};
    int64_t count = kolo_totals_size(totals);
    if (!json_is_array(list) || (int64_t)json_array_size(list) != count)
        return kolo_fail(KOLO_FORMAT, "%s: wanted %lld sums, as the model's .metrics keep, got %zu", name,
                         (long long)count, json_array_size(list));
    for (int64_t i = 0; i < count; i++) KOLO_TRY(read_real(json_array_get(list, (size_t)i), name, &numbers[i]));
    totals->used = model->metrics.sums;
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ writing */

static json_t *numbers_to_json(const kolo_numbers *numbers)
{
    json_t *object = json_object();
    for (int i = 0; i < numbers->count; i++)
        json_object_set_new(object, numbers->names[i], real_text(numbers->values[i]));
    return object;
}

static json_t *kept_to_json(const kolo_kept *kept)
{
    json_t *names = json_array();
    for (int i = 0; i < kept->count; i++) json_array_append_new(names, json_string(kept->names[i]));
    return names;
}

static void add_counters(json_t *state, const kolo_model *model, const kolo_counters *counters)
{
    json_object_set_new(state, "steps", integer_text((uint64_t)counters->steps));
    json_object_set_new(state, "updates", integer_text((uint64_t)counters->updates));
    json_object_set_new(state, "waiting", integer_text((uint64_t)counters->accumulated_batches));
    json_object_set_new(state, "waiting_samples", real_text(counters->accumulated_samples));
    if (model->settings.precision != KOLO_MIXED_FP16) return;
    json_object_set_new(state, "loss_scale", real_text(counters->loss_scale));
    json_object_set_new(state, "sample_scale", real_text(counters->sample_scale));
    json_object_set_new(state, "good", integer_text((uint64_t)counters->good));
}

static json_t *records_to_json(const kolo_model *model, kolo_worker_record *const *records)
{
    json_t *list = json_array();
    for (int w = 0; w < kolo_workers_count(model->trainer); w++) {
        json_t *one = json_object();
        json_object_set_new(one, "behind", integer_text((uint64_t)records[w]->behind));
        add_counters(one, model, &records[w]->counters);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *state_to_json(const kolo_model *model, bool waiting, kolo_worker_record *const *records)
{
    const kolo_position *at = &model->position;
    kolo_counters counters = model->trainer->replicas[0].counters;
    if (!waiting) counters.accumulated_batches = 0, counters.accumulated_samples = 0;
    json_t *state =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "optimizer", model->settings.optimizer.kind->name,
                  "learning_rate", real_text(model->learning_rate), "compiled_rate", real_text(model->compiled_rate),
                  "seed", integer_text(model->seed), "epoch", integer_text((uint64_t)at->epoch), "step",
                  integer_text((uint64_t)at->step), "samples", integer_text((uint64_t)at->samples), "batch",
                  integer_text((uint64_t)at->batch), "numbers", numbers_to_json(&model->numbers));
    if (state) add_counters(state, model, &counters);
    if (state && records) json_object_set_new(state, "strategy", json_string(kolo_model_strategy(model)->name));
    if (state && records) json_object_set_new(state, "workers", records_to_json(model, records));
    if (state && model->kept.count > 0) json_object_set_new(state, "kept", kept_to_json(&model->kept));
    if (!state || at->step == 0) return state;
    json_object_set_new(state, "order", integer_text(at->order));
    json_object_set_new(state, "seconds", real_text(at->seconds));
    json_object_set_new(state, "all", totals_to_json(&at->all));
    json_object_set_new(state, "own", totals_to_json(&at->own));
    return state;
}

/* Adds the layers, so that kolo_load_model() can read the file. Leaves them out if one is a custom layer that a file
 * cannot name. */
static void add_layers(const kolo_model *model, json_t *metadata)
{
    char *text = NULL;
    if (kolo_model_write_json(model, true, &text) == KOLO_OK)
        json_object_set_new(metadata, KOLO_METADATA_MODEL, json_string(text));
    else kolo_failure_take();
    free(text);
}

static kolo_status make_metadata(const kolo_model *model, bool waiting, kolo_worker_record *const *records,
                                 json_t **metadata)
{
    json_t *state = state_to_json(model, waiting, records);
    char *text = state ? json_dumps(state, JSON_COMPACT) : NULL;
    *metadata = text ? json_pack("{s:s, s:s}", KOLO_METADATA_FORMAT, "kolo", KOLO_METADATA_CHECKPOINT, text) : NULL;
    free(text);
    json_decref(state);
    if (!*metadata) return kolo_fail_memory(1 << 12, "a checkpoint's header");
    add_layers(model, *metadata);
    return KOLO_OK;
}

/* Checks what writing and reading both require, and opens the trainer. */
static kolo_status check(kolo_model *model, const char *path)
{
    KOLO_TRY(kolo_model_check_compiled(model, "a checkpoint"));
    if (!path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    if (!model->settings.optimizer.kind)
        return kolo_fail(KOLO_INVALID, "wanted kolo_compile() with an .optimizer, got a model without one");
    return kolo_trainer_open(model);
}

kolo_status kolo_checkpoint_write(kolo_model *model, const char *path)
{
    arrays all = {0};
    json_t *metadata = NULL;
    kolo_worker_record *const *records = NULL;
    kolo_status status;
    int64_t begun = kolo_timeline_begin();
    KOLO_GO(done, check(model, path));
    KOLO_GO(done, kolo_weights_ready(model));
    KOLO_GO(done, kolo_trainer_fetch_state(model->trainer));
    bool waiting = waiting_is_whole(model) && model->trainer->replicas[0].counters.accumulated_batches > 0;
    KOLO_GO(done, kolo_workers_note(model->trainer, &records));
    KOLO_GO(done, list_arrays(model, waiting, records, &all));
    KOLO_GO(done, make_metadata(model, waiting, records, &metadata));
    status = kolo_safetensors_write(path, all.list, all.count, metadata);
    kolo_timeline_end(begun, KOLO_SPAN_SAVE, "checkpoint");
done:
    json_decref(metadata);
    free_arrays(&all);
    return status;
}

kolo_status kolo_checkpoint_save_at(kolo_model *model, const char *path, kolo_here here)
{
    if (!model) return KOLO_INVALID;
    if (kolo_model_distributed(model) && kolo_rank() != 0) return KOLO_OK;
    kolo_model_call call = kolo_model_enter(model, "kolo_checkpoint_save", false, here);
    if (call.status == KOLO_OK) call.status = kolo_checkpoint_write(model, path);
    return kolo_model_leave(&call);
}

/* ------------------------------------------------------------------------------------------ reading */

/* The contents of a file, which are read completely before the model is changed. */
typedef struct loaded {
    float *weights, *planes, *array_numbers; /* [weight_count], [planes][weight_count], [parameter_count] */
    uint64_t seed;
    kolo_counters counters;
    double learning_rate, compiled_rate;
    kolo_position position;
    kolo_numbers numbers;
    kolo_kept kept;
    kolo_worker_record **records; /* [workers] of the trainer; NULL: the file has none for them */
    int workers;
    char *path;
} loaded;

/* Reads samples and batch size, with which a resume is compared. Between epochs they may be missing, since nothing
 * depends on them. */
static kolo_status read_terms(const json_t *state, kolo_position *at)
{
    uint64_t samples, batch;
    if (at->step == 0 && !json_object_get(state, "samples")) return KOLO_OK;
    KOLO_TRY(read_integer(state, "samples", INT64_MAX, &samples));
    KOLO_TRY(read_integer(state, "batch", INT64_MAX, &batch));
    at->samples = (int64_t)samples;
    at->batch = (int64_t)batch;
    return KOLO_OK;
}

static kolo_status read_position(const kolo_model *model, const json_t *state, kolo_position *at)
{
    uint64_t epoch, step;
    KOLO_TRY(read_integer(state, "epoch", INT32_MAX, &epoch));
    KOLO_TRY(read_integer(state, "step", INT32_MAX, &step));
    *at = (kolo_position){.epoch = (int)epoch, .step = (int)step};
    if (step > 0) KOLO_TRY(read_integer(state, "order", UINT64_MAX, &at->order));
    KOLO_TRY(read_terms(state, at));
    if (step == 0) return KOLO_OK;
    KOLO_TRY(totals_from_json(model, json_object_get(state, "all"), "all", &at->all));
    KOLO_TRY(totals_from_json(model, json_object_get(state, "own"), "own", &at->own));
    if (kolo_rank() != 0) at->own = at->all; /* the file has rank 0's sums; those of other ranks are unknown */
    KOLO_TRY(read_real(json_object_get(state, "seconds"), "seconds", &at->seconds));
    if (at->seconds >= 0 && isfinite(at->seconds)) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "seconds: wanted at least 0, got %g", at->seconds);
}

static kolo_status read_numbers(const json_t *object, kolo_numbers *numbers)
{
    const char *name;
    json_t *value;
    double number;
    json_object_foreach((json_t *)object, name, value)
    {
        KOLO_TRY(read_real(value, "numbers", &number));
        if (!kolo_numbers_set(numbers, name, number))
            return kolo_fail(KOLO_FORMAT, "numbers: wanted at most %d, got %zu", KOLO_NUMBERS_MAX,
                             json_object_size(object));
    }
    return KOLO_OK;
}

/* Reads the names of the kept weights and allocates their arrays, which read_planes() reads. */
static kolo_status read_kept_names(const kolo_model *model, const json_t *list, kolo_kept *kept)
{
    size_t i;
    json_t *name;
    json_array_foreach((json_t *)list, i, name)
    {
        const char *text = json_string_value(name);
        if (i == KOLO_KEPT_MAX || !text || !*text || strlen(text) >= KOLO_KEPT_NAME)
            return kolo_fail(KOLO_FORMAT, "kept: wanted at most %d names of 1 to %d bytes, got %s", KOLO_KEPT_MAX,
                             KOLO_KEPT_NAME - 1, kolo_json_text(list));
        if (!kolo_kept_add(kept, text, model->weight_count))
            return kolo_fail_memory((size_t)model->weight_count * sizeof(float), "a checkpoint");
    }
    return KOLO_OK;
}

/* Reads the loss scales. They keep their initial values unless both model and checkpoint are KOLO_MIXED_FP16. */
static kolo_status read_scales(const kolo_model *model, const json_t *state, kolo_counters *counters)
{
    uint64_t good;
    if (model->settings.precision != KOLO_MIXED_FP16 || !json_object_get(state, "loss_scale")) return KOLO_OK;
    KOLO_TRY(read_real(json_object_get(state, "loss_scale"), "loss_scale", &counters->loss_scale));
    KOLO_TRY(read_real(json_object_get(state, "sample_scale"), "sample_scale", &counters->sample_scale));
    KOLO_TRY(read_integer(state, "good", INT32_MAX, &good));
    counters->good = (int64_t)good;
    if (isfinite(counters->loss_scale) && counters->loss_scale > 0 && isfinite(counters->sample_scale) &&
        counters->sample_scale > 0)
        return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "loss_scale, sample_scale: wanted numbers above 0, got %g and %g",
                     counters->loss_scale, counters->sample_scale);
}

static kolo_status read_counters(const kolo_model *model, const json_t *state, kolo_counters *counters)
{
    uint64_t steps, updates, waiting;
    KOLO_TRY(read_integer(state, "steps", INT64_MAX, &steps));
    KOLO_TRY(read_integer(state, "updates", INT64_MAX, &updates));
    KOLO_TRY(read_integer(state, "waiting", INT32_MAX, &waiting));
    *counters = kolo_counters_start(model);
    KOLO_TRY(read_scales(model, state, counters));
    KOLO_TRY(read_real(json_object_get(state, "waiting_samples"), "waiting_samples", &counters->accumulated_samples));
    counters->steps = (int64_t)steps;
    counters->updates = (int64_t)updates;
    counters->accumulated_batches = (int64_t)waiting;
    int group = model->settings.optimizer.common.accumulate_steps;
    if (waiting == 0 || counters->accumulated_batches < group) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "waiting: wanted fewer batches than .accumulate_steps, which is %d, got %lld", group,
                     (long long)waiting);
}

static kolo_status read_record(const kolo_model *model, const json_t *from, kolo_worker_record *record)
{
    uint64_t behind;
    KOLO_TRY(read_integer(from, "behind", INT64_MAX, &behind));
    record->behind = (int64_t)behind;
    return read_counters(model, from, &record->counters);
}

/* Whether the file has records for this strategy and number of workers. If it has others, warns that they are dropped.
 */
static bool has_same_workers(const kolo_model *model, const json_t *state)
{
    const char *strategy = json_string_value(json_object_get(state, "strategy"));
    int saved = (int)json_array_size(json_object_get(state, "workers")), here = kolo_workers_count(model->trainer);
    const char *name = kolo_model_strategy(model)->name;
    if (saved == 0) return false;
    if (strategy && strcmp(strategy, name) == 0 && saved == here) return true;
    kolo_warn(
        "the checkpoint is of strategy %.40s with %d workers, and this training is of %s with %d: the workers' own "
        "weights and optimizer states in it are dropped, and all go on with the model's weights and the optimizer "
        "state of worker 0",
        strategy ? strategy : "(none)", saved, name, here);
    return false;
}

static kolo_status read_records(const kolo_model *model, const json_t *state, loaded *all)
{
    const json_t *list = json_object_get(state, "workers");
    int workers = kolo_workers_count(model->trainer);
    if (!has_same_workers(model, state)) return KOLO_OK;
    size_t bytes = kolo_worker_record_bytes(model->trainer);
    all->records = calloc((size_t)workers, sizeof *all->records);
    if (!all->records) return kolo_fail_memory((size_t)workers * bytes, "a checkpoint");
    while (all->workers < workers) {
        kolo_worker_record *record = calloc(1, bytes);
        if (!record) return kolo_fail_memory((size_t)workers * bytes, "a checkpoint");
        all->records[all->workers++] = record;
        KOLO_TRY(read_record(model, json_array_get(list, (size_t)all->workers - 1), record));
    }
    return KOLO_OK;
}

static kolo_status read_state(const kolo_model *model, const json_t *state, loaded *all)
{
    const char *optimizer = json_string_value(json_object_get(state, "optimizer"));
    const char *wanted = model->settings.optimizer.kind->name;
    if (!optimizer || strcmp(optimizer, wanted) != 0)
        return kolo_fail(KOLO_FORMAT, "wanted a checkpoint of the optimizer %s, got one of %.40s", wanted,
                         optimizer ? optimizer : "none");
    KOLO_TRY(read_counters(model, state, &all->counters));
    KOLO_TRY(read_integer(state, "seed", UINT64_MAX, &all->seed));
    KOLO_TRY(read_real(json_object_get(state, "learning_rate"), "learning_rate", &all->learning_rate));
    if (!(all->learning_rate >= 0) || !isfinite(all->learning_rate))
        return kolo_fail(KOLO_FORMAT, "learning_rate: wanted at least 0, got %g", all->learning_rate);
    all->compiled_rate = model->compiled_rate;
    if (json_object_get(state, "compiled_rate"))
        KOLO_TRY(read_real(json_object_get(state, "compiled_rate"), "compiled_rate", &all->compiled_rate));
    KOLO_TRY(read_numbers(json_object_get(state, "numbers"), &all->numbers));
    KOLO_TRY(read_kept_names(model, json_object_get(state, "kept"), &all->kept));
    KOLO_TRY(read_records(model, state, all));
    return read_position(model, state, &all->position);
}

static kolo_status parse_state(const kolo_model *model, const kolo_safetensors *from, loaded *all)
{
    const char *text = kolo_safetensors_text(from, KOLO_METADATA_CHECKPOINT);
    json_error_t error;
    if (!text)
        return kolo_fail(KOLO_FORMAT,
                         "%s: wanted a file that kolo_checkpoint_save() wrote, got one that holds no "
                         "training's state: kolo_load() takes its weights",
                         from->path);
    json_t *state = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    kolo_status status = json_is_object(state) ? read_state(model, state, all)
                                               : kolo_fail(KOLO_FORMAT, "wanted its state as a JSON object, got %s",
                                                           state ? "something else" : error.text);
    json_decref(state);
    if (status == KOLO_OK) return KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    return kolo_fail(status, "%s: %s", from->path, failure.text);
}

static kolo_status read_plane(const kolo_model *model, const kolo_safetensors *from, const plane *to)
{
    char name[SLOT_NAME_MAX];
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        const char *full = plane_name(name, to, parameter->name);
        KOLO_TRY(kolo_safetensors_read(from, full, parameter->shape, to->values + parameter->offset));
    }
    return KOLO_OK;
}

static kolo_status read_record_arrays(const kolo_model *model, const kolo_safetensors *from, const loaded *all)
{
    plane planes[KOLO_WORKER_PLANES];
    char name[SLOT_NAME_MAX];
    for (int w = 0; w < all->workers; w++) {
        int count = list_record(model, w, all->records[w], planes);
        for (int i = 0; i < count; i++) KOLO_TRY(read_plane(model, from, &planes[i]));
        if (kolo_worker_has_numbers(model->trainer))
            KOLO_TRY(kolo_safetensors_read(from, name_numbers(name, w), numbers_shape(model),
                                           numbers_of(model, all->records[w])));
    }
    return KOLO_OK;
}

static kolo_status read_planes(const kolo_model *model, const kolo_safetensors *from, const loaded *all)
{
    plane planes[PLANES_MAX + KOLO_KEPT_MAX];
    int count = list_planes(model, all->counters.accumulated_batches > 0, planes);
    for (int i = 0; i < count; i++) planes[i].values = all->planes + i * model->weight_count;
    count += list_kept(&all->kept, planes + count);
    for (int i = 0; i < count; i++) KOLO_TRY(read_plane(model, from, &planes[i]));
    if (!model->trainer->replicas[0].numbers) return KOLO_OK;
    return kolo_safetensors_read(from, NUMBERS, numbers_shape(model), all->array_numbers);
}

static kolo_status read_all(kolo_model *model, const kolo_safetensors *from, loaded *all)
{
    size_t bytes = (size_t)(model->weight_count + 1) * sizeof(float);
    KOLO_TRY(parse_state(model, from, all));
    all->weights = malloc(bytes);
    all->planes = calloc(PLANES_MAX, bytes);
    all->path = strdup(from->path);
    all->array_numbers = calloc((size_t)model->parameter_count + 1, sizeof *all->array_numbers);
    if (!all->weights || !all->planes || !all->array_numbers || !all->path)
        return kolo_fail_memory(bytes * (PLANES_MAX + 1), "a checkpoint");
    KOLO_TRY(kolo_weights_read(from, model, all->weights));
    KOLO_TRY(read_record_arrays(model, from, all));
    return read_planes(model, from, all);
}

/* The gradients that wait are restored on every rank in deterministic mode; else only on rank 0, since ranks add
 * theirs up. The others begin with zeros. */
static void take_waiting(kolo_model *model, const loaded *all)
{
    kolo_replica *first = &model->trainer->replicas[0];
    size_t bytes = (size_t)model->weight_count * sizeof(float);
    bool takes =
        all->counters.accumulated_batches > 0 && (model->settings.deterministic || kolo_model_ranks(model)->rank == 0);
    if (first->accumulated && !takes) memset(first->accumulated, 0, bytes);
}

static kolo_status take_records(kolo_model *model, const loaded *all)
{
    kolo_worker_record *const *records;
    if (!all->records) {
        kolo_workers_forget(model->trainer);
        return KOLO_OK;
    }
    KOLO_TRY(kolo_workers_expect(model->trainer, &records));
    for (int w = 0; w < all->workers; w++)
        memcpy(records[w], all->records[w], kolo_worker_record_bytes(model->trainer));
    return KOLO_OK;
}

static kolo_status take_all(kolo_model *model, loaded *all)
{
    kolo_replica *first = &model->trainer->replicas[0];
    plane planes[PLANES_MAX];
    int count = list_planes(model, all->counters.accumulated_batches > 0, planes);
    size_t bytes = (size_t)model->weight_count * sizeof(float);
    for (int i = 0; i < count; i++) memcpy(planes[i].values, all->planes + i * model->weight_count, bytes);
    if (first->numbers)
        memcpy(first->numbers, all->array_numbers, (size_t)model->parameter_count * sizeof *first->numbers);
    first->counters = all->counters;
    take_waiting(model, all);
    KOLO_TRY(take_records(model, all));
    KOLO_TRY(kolo_trainer_share_state(model->trainer));
    model->seed = all->seed;
    model->learning_rate = all->learning_rate;
    model->compiled_rate = all->compiled_rate;
    model->position = all->position;
    model->numbers = all->numbers;
    kolo_kept_clear(&model->kept);
    model->kept = all->kept;
    all->kept.count = 0;
    model->resumed = true;
    free(model->checkpoint);
    model->checkpoint = all->path;
    all->path = NULL;
    return kolo_weights_take(model, all->weights);
}

kolo_status kolo_checkpoint_read(kolo_model *model, const char *path)
{
    loaded all = {0};
    kolo_safetensors from;
    KOLO_TRY(check(model, path));
    KOLO_TRY(kolo_safetensors_open(&from, path));
    kolo_status status = read_all(model, &from, &all);
    if (status == KOLO_OK) status = take_all(model, &all);
    kolo_safetensors_close(&from);
    free(all.weights);
    free(all.planes);
    free(all.array_numbers);
    free(all.path);
    for (int w = 0; w < all.workers; w++) free(all.records[w]);
    free(all.records);
    kolo_kept_clear(&all.kept);
    return status;
}

kolo_status kolo_checkpoint_load_at(kolo_model *model, const char *path, kolo_here here)
{
    if (!model) return KOLO_INVALID;
    kolo_model_call call = kolo_model_enter(model, "kolo_checkpoint_load", true, here);
    if (call.status == KOLO_OK) call.status = kolo_checkpoint_read(model, path);
    return kolo_model_leave(&call);
}
