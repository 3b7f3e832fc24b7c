/* Reads checkpoints: see checkpoint.h. */
#include "saving/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "saving/model_json.h"

/* ------------------------------------------------------------------------------------------ numbers as text */

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

/* kolo_totals consists of doubles only; the first kolo_totals_size() of them are in use. */
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

/* ------------------------------------------------------------------------------------------ the state as JSON */

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

/* ------------------------------------------------------------------------------------------ arrays */

static kolo_status read_plane(const kolo_model *model, const kolo_safetensors *from, const kolo_plane *to)
{
    char name[KOLO_PLANE_NAME_MAX];
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        const char *full = kolo_plane_name(name, to, parameter->name);
        KOLO_TRY(kolo_safetensors_read(from, full, parameter->shape, to->values + parameter->offset));
    }
    return KOLO_OK;
}

static kolo_status read_record_arrays(const kolo_model *model, const kolo_safetensors *from, const loaded *all)
{
    kolo_plane planes[KOLO_WORKER_PLANES];
    char name[KOLO_PLANE_NAME_MAX];
    for (int w = 0; w < all->workers; w++) {
        int count = kolo_planes_of_worker(model, w, all->records[w], planes);
        for (int i = 0; i < count; i++) KOLO_TRY(read_plane(model, from, &planes[i]));
        if (kolo_worker_has_numbers(model->trainer))
            KOLO_TRY(kolo_safetensors_read(from, kolo_name_numbers(name, w), kolo_numbers_shape(model),
                                           kolo_numbers_of_worker(model, all->records[w])));
    }
    return KOLO_OK;
}

static kolo_status read_planes(const kolo_model *model, const kolo_safetensors *from, const loaded *all)
{
    kolo_plane planes[KOLO_PLANES_MAX + KOLO_KEPT_MAX];
    int count = kolo_planes_of_replica(model, all->counters.accumulated_batches > 0, planes);
    for (int i = 0; i < count; i++) planes[i].values = all->planes + i * model->weight_count;
    count += kolo_planes_of_kept(&all->kept, planes + count);
    for (int i = 0; i < count; i++) KOLO_TRY(read_plane(model, from, &planes[i]));
    if (!model->trainer->replicas[0].numbers) return KOLO_OK;
    return kolo_safetensors_read(from, KOLO_ARRAY_OF_NUMBERS, kolo_numbers_shape(model), all->array_numbers);
}

static kolo_status read_all(kolo_model *model, const kolo_safetensors *from, loaded *all)
{
    size_t bytes = (size_t)(model->weight_count + 1) * sizeof(float);
    KOLO_TRY(parse_state(model, from, all));
    all->weights = malloc(bytes);
    all->planes = calloc(KOLO_PLANES_MAX, bytes);
    all->path = strdup(from->path);
    all->array_numbers = calloc((size_t)model->parameter_count + 1, sizeof *all->array_numbers);
    if (!all->weights || !all->planes || !all->array_numbers || !all->path)
        return kolo_fail_memory(bytes * (KOLO_PLANES_MAX + 1), "a checkpoint");
    KOLO_TRY(kolo_weights_read(from, model, all->weights));
    KOLO_TRY(read_record_arrays(model, from, all));
    return read_planes(model, from, all);
}

/* ------------------------------------------------------------------------------------------ into the model */

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
    kolo_plane planes[KOLO_PLANES_MAX];
    int count = kolo_planes_of_replica(model, all->counters.accumulated_batches > 0, planes);
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
    KOLO_TRY(kolo_checkpoint_check(model, path));
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
