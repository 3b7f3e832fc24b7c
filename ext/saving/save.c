/* kolo_save and kolo_load: a model's weights as a file of named arrays. Read saving/safetensors.h first. */
#include "saving/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timeline.h"
#include "replica/trainer.h"

/* ------------------------------------------------------------------------------------------ writing */

kolo_status kolo_weights_ready(kolo_model *model)
{
    if (!model->has_weights) return kolo_fail(KOLO_INVALID, "wanted a compiled model, got one that has no weights yet");
    return model->fitting && model->trainer ? kolo_trainer_fetch(model->trainer) : KOLO_OK;
}

void kolo_weights_describe(kolo_model *model, kolo_array *arrays)
{
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        arrays[p] = (kolo_array){parameter->name, parameter->shape, model->weights + parameter->offset};
    }
}

/* Adds the caller's metadata to Kolo's. */
static kolo_status add_remarks(json_t *metadata, const kolo_save_args *args)
{
    for (int i = 0; i < KOLO_METADATA_MAX && args->metadata[i].key; i++) {
        const kolo_metadata *pair = &args->metadata[i];
        if (json_object_get(metadata, pair->key))
            return kolo_fail(KOLO_INVALID, ".metadata: wanted different keys other than \"%s\", got \"%.80s\"",
                             KOLO_METADATA_FORMAT, pair->key);
        if (!pair->value || json_object_set_new(metadata, pair->key, json_string(pair->value)) != 0)
            return kolo_fail(KOLO_INVALID, ".metadata: wanted a key and a value in UTF-8, got \"%.80s\" and %s",
                             pair->key, pair->value ? "another" : "NULL");
    }
    return KOLO_OK;
}

kolo_status kolo_weights_write(const kolo_save_args *args)
{
    kolo_model *model = (kolo_model *)args->model; /* the weights are only read */
    size_t bytes = (size_t)(model->parameter_count + 1) * sizeof(kolo_array);
    kolo_status status;
    int64_t begun = kolo_timeline_begin();
    json_t *metadata = json_pack("{s:s}", KOLO_METADATA_FORMAT, "kolo");
    kolo_array *arrays = malloc(bytes);
    if (!arrays || !metadata) KOLO_GO(done, kolo_fail_memory(bytes, "a list of arrays"));
    KOLO_GO(done, add_remarks(metadata, args));
    KOLO_GO(done, kolo_weights_ready(model));
    kolo_weights_describe(model, arrays);
    status = kolo_safetensors_write(args->path, arrays, model->parameter_count, metadata);
    kolo_timeline_end(begun, KOLO_SPAN_SAVE, "weights");
done:
    json_decref(metadata);
    free(arrays);
    return status;
}

kolo_status kolo_save_at(const kolo_save_args *args, kolo_here here)
{
    if (!args->model) return KOLO_INVALID;
    kolo_model *model = (kolo_model *)(uintptr_t)args->model; /* the weights are only read */
    kolo_model_call call = kolo_model_enter(model, "kolo_save", false, here);
    if (call.status == KOLO_OK) call.status = kolo_weights_write(args);
    return kolo_model_leave(&call);
}

/* ------------------------------------------------------------------------------------------ reading */

static bool has_weight(const kolo_model *model, const char *name)
{
    bool found = false;
    for (int p = 0; p < model->parameter_count && !found; p++) found = strcmp(model->parameters[p].name, name) == 0;
    return found;
}

static bool is_of_checkpoint(const kolo_safetensors *from, const char *name)
{
    return kolo_safetensors_text(from, KOLO_METADATA_CHECKPOINT) &&
           strncmp(name, KOLO_ARRAYS_OF_OPTIMIZER, strlen(KOLO_ARRAYS_OF_OPTIMIZER)) == 0;
}

/* The first array of the file that the model does not have; NULL: none. */
static const char *foreign_array(const kolo_safetensors *from, const kolo_model *model)
{
    const char *name;
    json_t *entry;
    json_object_foreach(from->header, name, entry)
    {
        if (kolo_safetensors_has(from, name) && !has_weight(model, name) && !is_of_checkpoint(from, name)) return name;
    }
    return NULL;
}

kolo_status kolo_weights_read(const kolo_safetensors *from, kolo_model *model, float *values)
{
    const char *foreign = foreign_array(from, model);
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        KOLO_TRY(kolo_safetensors_read(from, parameter->name, parameter->shape, values + parameter->offset));
    }
    if (!foreign) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT,
                     "%s: wanted the arrays of this model, got \"%.80s\" too (.by_name takes what both have)",
                     from->path, foreign);
}

kolo_status kolo_weights_take(kolo_model *model, const float *values)
{
    memcpy(model->weights, values, sizeof(float) * (size_t)model->weight_count);
    model->has_weights = true; /* kolo_compile() must not draw new weights */
    return model->fitting && model->trainer ? kolo_trainer_store(model->trainer) : KOLO_OK;
}

/* The arrays that a partial load left out, as text, and the numbers of arrays taken and left out. */
typedef struct skipped {
    char text[600];
    int taken, count;
} skipped;

static void skip(skipped *left_out, const char *sentence)
{
    size_t length = strlen(left_out->text), room = sizeof left_out->text - length;
    bool fits = length + strlen(sentence) + 80 < sizeof left_out->text;
    left_out->count++;
    if (fits) snprintf(left_out->text + length, room, "%s%s", left_out->count > 1 ? "; " : "", sentence);
}

static kolo_status read_if_it_fits(const kolo_safetensors *from, const kolo_load_args *args,
                                   const kolo_parameter *parameter, float *values, skipped *left_out)
{
    bool there = kolo_safetensors_has(from, parameter->name);
    if (!there && args->by_name) {
        skip(left_out, kolo_phrase("\"%s\", which the file has not", parameter->name));
    } else if (there && args->skip_mismatch && !kolo_safetensors_fits(from, parameter->name, parameter->shape)) {
        skip(left_out, kolo_phrase("\"%s\", wanted the shape %s, got %s", parameter->name,
                                   kolo_shape_text(parameter->shape), kolo_safetensors_shape(from, parameter->name)));
    } else {
        KOLO_TRY(kolo_safetensors_read(from, parameter->name, parameter->shape, values + parameter->offset));
        left_out->taken++;
    }
    return KOLO_OK;
}

/* Reads the arrays that .by_name and .skip_mismatch allow; the others keep the model's values. */
static kolo_status read_part(const kolo_safetensors *from, const kolo_load_args *args, float *values, skipped *left_out)
{
    kolo_model *model = args->model;
    const char *foreign = foreign_array(from, model);
    if (foreign && !args->by_name)
        return kolo_fail(KOLO_FORMAT, "%s: wanted the arrays of this model, got \"%.80s\" too", from->path, foreign);
    KOLO_TRY(kolo_weights_ready(model));
    memcpy(values, model->weights, sizeof(float) * (size_t)model->weight_count);
    for (int p = 0; p < model->parameter_count; p++)
        KOLO_TRY(read_if_it_fits(from, args, &model->parameters[p], values, left_out));
    if (foreign) skip(left_out, kolo_phrase("\"%.80s\", which the model has not", foreign));
    if (left_out->taken > 0 || model->parameter_count == 0) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted at least one array that the model has, got none: skipped %s", from->path,
                     left_out->text);
}

static kolo_status load(const kolo_load_args *args)
{
    kolo_model *model = args->model;
    size_t bytes = (size_t)(model->weight_count + 1) * sizeof(float);
    bool partial = args->by_name || args->skip_mismatch;
    kolo_safetensors from;
    skipped left_out = {0};
    KOLO_TRY(kolo_safetensors_open(&from, args->path));
    float *values = malloc(bytes);
    kolo_status status = values ? KOLO_OK : kolo_fail_memory(bytes, "the weights of a file");
    if (status == KOLO_OK)
        status = partial ? read_part(&from, args, values, &left_out) : kolo_weights_read(&from, model, values);
    if (status == KOLO_OK) status = kolo_weights_take(model, values);
    if (status == KOLO_OK && left_out.count > 0)
        kolo_warn("%s: took %d of the model's %d arrays; skipped %s", args->path, left_out.taken,
                  model->parameter_count, left_out.text);
    free(values);
    kolo_safetensors_close(&from);
    return status;
}

kolo_status kolo_load_at(const kolo_load_args *args, kolo_here here)
{
    if (!args->model) return KOLO_INVALID;
    kolo_model_call call = kolo_model_enter(args->model, "kolo_load", true, here);
    if (call.status == KOLO_OK)
        call.status = args->model->output >= 0
                          ? load(args)
                          : kolo_fail(KOLO_INVALID, "wanted a model after its kolo_graph_output(), got "
                                                    "one before it");
    return kolo_model_leave(&call);
}

char *kolo_read_metadata_at(const char *path, const char *key, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_read_metadata", here);
    kolo_safetensors from;
    char *copy = NULL;
    kolo_status status = key ? kolo_safetensors_open(&from, path) : kolo_fail(KOLO_INVALID, "wanted a key, got NULL");
    if (status == KOLO_OK) {
        const char *text = kolo_safetensors_text(&from, key);
        copy = text ? strdup(text) : NULL;
        if (text && !copy) status = kolo_fail_memory(strlen(text), "a file's metadata");
        kolo_safetensors_close(&from);
    }
    kolo_leave(scope, status);
    return copy;
}
