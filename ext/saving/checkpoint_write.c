/* Writes checkpoints: see checkpoint.h. */
#include "saving/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/timeline.h"
#include "saving/model_json.h"

/* ------------------------------------------------------------------------------------------ arrays */

/* The arrays of a file: weights, then the optimizer's, whose names are in `names`. */
typedef struct arrays {
    kolo_array *list;
    char (*names)[KOLO_PLANE_NAME_MAX];
    int count;
} arrays;

/* Whether replica 0 holds the whole sum of the gradients that wait for an update: in deterministic mode every replica
 * does, else only a single one. Otherwise no rank can write the sum, and the checkpoint leaves it out. */
static bool waiting_is_whole(const kolo_model *model)
{
    bool alone = model->trainer->count == 1 && kolo_model_ranks(model)->size == 1;
    return model->trainer->replicas[0].accumulated && (model->settings.deterministic || alone);
}

/* Adds the arrays of one plane, one for each array of weights. */
static void add_plane(const kolo_model *model, const kolo_plane *from, arrays *all)
{
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        const char *name = kolo_plane_name(all->names[all->count], from, parameter->name);
        all->list[all->count++] = (kolo_array){name, parameter->shape, from->values + parameter->offset};
    }
}

/* records: of all workers; NULL: the file has none. */
static void add_records(const kolo_model *model, kolo_worker_record *const *records, arrays *all)
{
    kolo_plane planes[KOLO_WORKER_PLANES];
    for (int w = 0; records && w < kolo_workers_count(model->trainer); w++) {
        int count = kolo_planes_of_worker(model, w, records[w], planes);
        for (int i = 0; i < count; i++) add_plane(model, &planes[i], all);
        if (!kolo_worker_has_numbers(model->trainer)) continue;
        const char *name = kolo_name_numbers(all->names[all->count], w);
        all->list[all->count++] =
            (kolo_array){name, kolo_numbers_shape(model), kolo_numbers_of_worker(model, records[w])};
    }
}

static kolo_status list_arrays(kolo_model *model, bool waiting, kolo_worker_record *const *records, arrays *all)
{
    kolo_plane planes[KOLO_PLANES_MAX + KOLO_KEPT_MAX];
    const kolo_replica *first = &model->trainer->replicas[0];
    int weights = model->parameter_count, count = kolo_planes_of_replica(model, waiting, planes);
    count += kolo_planes_of_kept(&model->kept, planes + count);
    int workers = records ? kolo_workers_count(model->trainer) : 0;
    size_t most = (size_t)(weights * (count + 1 + workers * KOLO_WORKER_PLANES) + workers) + 1;
    *all = (arrays){.list = calloc(most, sizeof *all->list), .names = calloc(most, sizeof *all->names)};
    if (!all->list || !all->names) return kolo_fail_memory(most * KOLO_PLANE_NAME_MAX, "a list of arrays");
    kolo_weights_describe(model, all->list);
    all->count = weights;
    for (int i = 0; i < count; i++) add_plane(model, &planes[i], all);
    add_records(model, records, all);
    if (first->numbers)
        all->list[all->count++] = (kolo_array){KOLO_ARRAY_OF_NUMBERS, kolo_numbers_shape(model), first->numbers};
    return KOLO_OK;
}

static void free_arrays(arrays *all)
{
    free(all->list);
    free(all->names);
}

/* ------------------------------------------------------------------------------------------ the rest of the state */

static json_t *integer_text(uint64_t number)
{
    return json_sprintf("%" PRIu64, number);
}

static json_t *real_text(double number)
{
    return json_sprintf("%.17g", number);
}

/* kolo_totals consists of doubles only; the first kolo_totals_size() of them are in use. */
static json_t *totals_to_json(const kolo_totals *totals)
{
    const double *numbers = (const double *)totals;
    json_t *list = json_array();
    for (int64_t i = 0; i < kolo_totals_size(totals); i++) json_array_append_new(list, real_text(numbers[i]));
    return list;
}

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

kolo_status kolo_checkpoint_write(kolo_model *model, const char *path)
{
    arrays all = {0};
    json_t *metadata = NULL;
    kolo_worker_record *const *records = NULL;
    kolo_status status;
    int64_t begun = kolo_timeline_begin();
    KOLO_GO(done, kolo_checkpoint_check(model, path));
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
