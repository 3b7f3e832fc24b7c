/* Models as JSON, and files with a model and its weights: see model_json.h. */
#include "saving/model_json.h"

#include <stdlib.h>
#include <string.h>

#include "saving/save.h"

#define FORMAT  "kolo.model"
#define VERSION 1

/* Puts "layer 3 (max_pool2d): " before this thread's failure. */
static kolo_status about_layer(kolo_status status, int number, const char *name)
{
    if (status == KOLO_OK) return KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    return kolo_fail(status, "layer %d%s%.48s%s: %s", number, name ? " (" : "", name ? name : "", name ? ")" : "",
                     failure.text);
}

/* ------------------------------------------------------------------------------------------ writing */

static json_t *names_of_inputs(const kolo_model *model, const kolo_layer_node *node)
{
    json_t *names = json_array();
    for (int i = 0; i < node->from_count; i++)
        json_array_append_new(names, json_string(model->layers[node->from[i]].name));
    return names;
}

/* Writes a layer's name even if it was not given, since weights are found by it. */
static kolo_status add_layer(const kolo_model *model, const kolo_layer_node *node, json_t *layers)
{
    json_t *object;
    kolo_layer recipe = node->recipe;
    const char **name = (const char **)kolo_layer_option(&recipe, "name");
    bool follows = node->from_count == 1 && node->from[0] == node->number - 1;
    if (name) *name = node->name;
    KOLO_TRY(about_layer(kolo_layer_to_json(&recipe, &object), node->number, node->name));
    if (node->from_count > 0 && !follows) json_object_set_new(object, KOLO_JSON_FROM, names_of_inputs(model, node));
    return json_array_append_new(layers, object) == 0 ? KOLO_OK : kolo_fail_memory(1 << 12, "a model as JSON");
}

/* Writes numbers with 15 digits if these restore all of them exactly, else with 17: 0.1, not 0.10000000000000001. */
static char *dump(const json_t *whole, size_t layout)
{
    char *text = json_dumps(whole, layout | JSON_REAL_PRECISION(15));
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;
    bool exact = again && json_equal(whole, again);
    json_decref(again);
    if (exact) return text;
    free(text);
    return json_dumps(whole, layout | JSON_REAL_PRECISION(17));
}

kolo_status kolo_model_write_json(const kolo_model *model, bool one_line, char **text)
{
    kolo_status status = KOLO_OK;
    *text = NULL;
    if (model->output < 0)
        return kolo_fail(KOLO_INVALID, "wanted a complete model, got one without its kolo_graph_output()");
    json_t *layers = json_array();
    json_t *whole = json_pack("{s:s, s:i, s:o}", "format", FORMAT, "version", VERSION, "layers", layers);
    for (int i = 0; whole && i < model->layer_count && status == KOLO_OK; i++)
        status = add_layer(model, &model->layers[i], layers);
    if (status == KOLO_OK && model->output != model->layer_count - 1)
        json_object_set_new(whole, "output", json_string(model->layers[model->output].name));
    if (status == KOLO_OK) *text = dump(whole, one_line ? JSON_COMPACT : JSON_INDENT(2));
    json_decref(whole);
    if (status == KOLO_OK && !*text) status = kolo_fail_memory(1 << 12, "a model as JSON");
    return status;
}

char *kolo_model_to_json_at(const kolo_model *model, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_model_to_json", here);
    char *text = NULL;
    kolo_status status = kolo_model_check(model);
    if (status == KOLO_OK) status = kolo_model_write_json(model, false, &text);
    kolo_leave(scope, status);
    return text;
}

/* ------------------------------------------------------------------------------------------ reading */

static int find_layer(const kolo_model *model, const char *name)
{
    int number = 0;
    while (number < model->layer_count && strcmp(model->layers[number].name, name) != 0) number++;
    return number < model->layer_count ? number : -1;
}

static kolo_status read_from(const kolo_model *model, const json_t *names, int *from, int *count)
{
    if (!json_is_array(names) || json_array_size(names) > KOLO_APPLY_MAX)
        return kolo_fail(KOLO_FORMAT, KOLO_JSON_FROM ": wanted a list of at most %d names of layers, got %s",
                         KOLO_APPLY_MAX, kolo_json_text(names));
    *count = (int)json_array_size(names);
    for (int i = 0; i < *count; i++) {
        const json_t *name = json_array_get(names, (size_t)i);
        from[i] = json_is_string(name) ? find_layer(model, json_string_value(name)) : -1;
        if (from[i] < 0)
            return kolo_fail(KOLO_FORMAT, KOLO_JSON_FROM ": wanted names of layers that stand before it, got %s",
                             kolo_json_text(name));
    }
    return KOLO_OK;
}

static kolo_status read_layer(kolo_model *model, const json_t *object)
{
    kolo_layer layer;
    int number = model->layer_count, from[KOLO_APPLY_MAX] = {number - 1}, count = number > 0;
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const json_t *names = json_object_get(object, KOLO_JSON_FROM);
    KOLO_TRY(about_layer(kolo_layer_from_json(object, &layer), number, name ? name : kind));
    if (names) KOLO_TRY(about_layer(read_from(model, names, from, &count), number, name ? name : kind));
    return kolo_model_add(model, &layer, from, count);
}

static kolo_status check_top(const json_t *whole)
{
    static const char *const known[] = {"format", "version", "layers", "output"};
    const char *name;
    json_t *value;
    const char *format = json_string_value(json_object_get(whole, "format"));
    const json_t *version = json_object_get(whole, "version");
    if (!format || strcmp(format, FORMAT) != 0)
        return kolo_fail(KOLO_FORMAT, "wanted a model as kolo_model_to_json() writes it, its \"format\" \"%s\", got %s",
                         FORMAT, kolo_json_text(whole));
    if (!json_is_integer(version) || json_integer_value(version) != VERSION)
        return kolo_fail(KOLO_FORMAT, "version: wanted %d, got %s", VERSION, kolo_json_text(version));
    json_object_foreach((json_t *)whole, name, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) found = found || strcmp(known[i], name) == 0;
        if (!found)
            return kolo_fail(KOLO_FORMAT, "wanted \"format\", \"version\", \"layers\" and \"output\", got \"%.40s\"",
                             name);
    }
    return KOLO_OK;
}

static kolo_status read_layers(const json_t *whole, kolo_model *model, int *output)
{
    const json_t *layers = json_object_get(whole, "layers"), *name = json_object_get(whole, "output");
    KOLO_TRY(check_top(whole));
    if (!json_is_array(layers) || json_array_size(layers) < 2)
        return kolo_fail(KOLO_FORMAT, "layers: wanted a list of an input and at least one layer, got %s",
                         kolo_json_text(layers));
    for (size_t i = 0; i < json_array_size(layers); i++) KOLO_TRY(read_layer(model, json_array_get(layers, i)));
    *output = name ? json_is_string(name) ? find_layer(model, json_string_value(name)) : -1 : model->layer_count - 1;
    if (*output < 1)
        return kolo_fail(KOLO_FORMAT, "output: wanted the name of a layer after the input, got %s",
                         kolo_json_text(name));
    return KOLO_OK;
}

kolo_status kolo_model_read_json(const char *text, kolo_model **model, int *output)
{
    json_error_t error;
    if (!text) return kolo_fail(KOLO_INVALID, "wanted a model as JSON, got NULL");
    json_t *whole = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!whole)
        return kolo_fail(KOLO_FORMAT, "wanted a model as JSON, got at line %d, column %d: %s", error.line, error.column,
                         error.text);
    kolo_status status = kolo_model_new(model);
    if (status == KOLO_OK) status = read_layers(whole, *model, output);
    json_decref(whole);
    return status;
}

kolo_model *kolo_model_from_json_at(const char *text, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_model_from_json", here);
    kolo_model *model = NULL;
    int output;
    kolo_status status = kolo_model_read_json(text, &model, &output);
    if (status == KOLO_OK) status = kolo_model_finish(model, output);
    if (status != KOLO_OK) kolo_model_free(&model);
    kolo_leave(scope, status);
    return model;
}

/* ------------------------------------------------------------------------------------------ a model in a file */

static kolo_status save_model(kolo_model *model, const char *path)
{
    size_t bytes = (size_t)(model->parameter_count + 1) * sizeof(kolo_array);
    char *text = NULL;
    json_t *metadata = NULL;
    kolo_array *arrays = malloc(bytes);
    kolo_status status = arrays ? KOLO_OK : kolo_fail_memory(bytes, "a list of arrays");
    if (status == KOLO_OK) status = kolo_weights_ready(model);
    if (status == KOLO_OK) status = kolo_model_write_json(model, true, &text);
    if (status == KOLO_OK) {
        metadata = json_pack("{s:s, s:s}", KOLO_METADATA_FORMAT, "kolo", KOLO_METADATA_MODEL, text);
        kolo_weights_describe(model, arrays);
        status = metadata ? kolo_safetensors_write(path, arrays, model->parameter_count, metadata)
                          : kolo_fail_memory(1 << 12, "a file's header");
    }
    json_decref(metadata);
    free(text);
    free(arrays);
    return status;
}

kolo_status kolo_model_save_at(const kolo_model *model, const char *path, kolo_here here)
{
    if (!model) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_model_save", here);
    return kolo_leave(scope, save_model((kolo_model *)model, path)); /* the weights are only read */
}

/* Checked before memory is allocated: the JSON may describe larger weights than the file has. */
static kolo_status check_weights(const kolo_safetensors *from, const kolo_model *model)
{
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        if (!kolo_safetensors_fits(from, parameter->name, parameter->shape))
            return kolo_fail(KOLO_FORMAT, "%s: wanted an array \"%s\" of the shape %s, got %s", from->path,
                             parameter->name, kolo_shape_text(parameter->shape),
                             kolo_safetensors_has(from, parameter->name) ? kolo_safetensors_shape(from, parameter->name)
                                                                         : "none of that name");
    }
    return KOLO_OK;
}

static kolo_status load_model(const char *path, const kolo_safetensors *from, kolo_model **model)
{
    const char *text = kolo_safetensors_text(from, KOLO_METADATA_MODEL);
    int output;
    if (!text)
        return kolo_fail(KOLO_FORMAT,
                         "%s: wanted a file that kolo_model_save() wrote, got one that holds arrays alone: "
                         "kolo_load() takes them into a model of the same layers",
                         path);
    KOLO_TRY(kolo_model_read_json(text, model, &output));
    KOLO_TRY(check_weights(from, *model));
    KOLO_TRY(kolo_model_finish(*model, output));
    KOLO_TRY(kolo_weights_read(from, *model, (*model)->weights));
    (*model)->has_weights = true;
    return KOLO_OK;
}

kolo_model *kolo_load_model_at(const char *path, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_load_model", here);
    kolo_safetensors from;
    kolo_model *model = NULL;
    kolo_status status = kolo_safetensors_open(&from, path);
    if (status == KOLO_OK) {
        status = load_model(path, &from, &model);
        kolo_safetensors_close(&from);
    }
    if (status != KOLO_OK) kolo_model_free(&model);
    kolo_leave(scope, status);
    return model;
}
