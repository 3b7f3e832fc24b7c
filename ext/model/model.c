/* Builds a model and draws its weights: see model.h. */
#include "model/model.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "core/utf8.h"
#include "layers/kinds.h"

#define MOST_WEIGHTS ((int64_t)1 << 31)

struct kolo_model_builder {
    kolo_model *model;
};

const char *kolo_layer_text(const kolo_layer_node *node)
{
    return kolo_phrase("layer %d (%s)", node->number, node->name);
}

kolo_status kolo_declare_parameter(kolo_model_builder *builder, kolo_layer_node *node, const char *suffix,
                                   kolo_shape shape, kolo_initializer initializer, int fan_in, int fan_out)
{
    kolo_model *model = builder->model;
    if (node->parameter_count == KOLO_LAYER_PARAMETERS)
        return kolo_fail(KOLO_INTERNAL, "more than %d arrays of weights in one layer", KOLO_LAYER_PARAMETERS);
    int64_t count = kolo_shape_count(shape);
    if (count > MOST_WEIGHTS - model->weight_count)
        return kolo_fail(KOLO_INVALID, "wanted at most %lld weights in a model, got %lld", (long long)MOST_WEIGHTS,
                         (long long)(model->weight_count + count));
    size_t bytes = (size_t)(model->parameter_count + 1) * sizeof(kolo_parameter);
    kolo_parameter *grown = realloc(model->parameters, bytes);
    if (!grown) return kolo_fail_memory(bytes, "the list of weights");
    model->parameters = grown;
    kolo_parameter *parameter = &grown[model->parameter_count];
    *parameter = (kolo_parameter){.shape = shape,
                                  .initializer = initializer,
                                  .fan_in = fan_in,
                                  .fan_out = fan_out,
                                  .offset = model->weight_count};
    snprintf(parameter->name, sizeof parameter->name, "%.47s.%.15s", node->name, suffix);
    node->parameters[node->parameter_count++] = model->parameter_count++;
    model->weight_count += count;
    return KOLO_OK;
}

kolo_parameter *kolo_declared(kolo_model_builder *builder)
{
    return &builder->model->parameters[builder->model->parameter_count - 1];
}

static const char *text_option(const kolo_layer *layer, const char *name)
{
    const void *option = kolo_layer_option(layer, name);
    return option ? *(const char *const *)option : NULL;
}

/* ---------------------------------------------------------------- layers */

/* Checks the name of a layer. Its weights are named after it, in files too. */
static kolo_status check_name(const kolo_layer_node *node, const char *name)
{
    size_t length = strlen(name), size;
    if (length >= sizeof node->name || length == 0)
        return kolo_fail(KOLO_INVALID, "layer %d: wanted a name of 1 to %zu characters, got \"%.60s%s\"", node->number,
                         sizeof node->name - 1, name, length > 60 ? "…" : "");
    for (size_t i = 0; i < length; i += size) {
        size = kolo_utf8_size(name + i, length - i);
        if (size == 0 || iscntrl((unsigned char)name[i]))
            return kolo_fail(KOLO_INVALID, "layer %d: wanted a name of printable characters in UTF-8, got byte 0x%02x",
                             node->number, (unsigned char)name[i]);
    }
    return KOLO_OK;
}

/* "conv2d", then "conv2d_1", "conv2d_2": numbered by kind, as Keras does. */
static kolo_status name_layer(kolo_model *model, kolo_layer_node *node)
{
    const kolo_layer_kind *kind = node->recipe.kind;
    const char *given = text_option(&node->recipe, "name");
    int before = 0;
    for (int i = 0; i < node->number; i++) before += model->layers[i].recipe.kind == kind;
    if (given) KOLO_TRY(check_name(node, given));
    if (given) snprintf(node->name, sizeof node->name, "%s", given);
    else if (before == 0) snprintf(node->name, sizeof node->name, "%s", kind->name);
    else snprintf(node->name, sizeof node->name, "%s_%d", kind->name, before);
    for (int i = 0; i < node->number; i++)
        if (strcmp(model->layers[i].name, node->name) == 0)
            return kolo_fail(KOLO_INVALID, "layers %d and %d: wanted different names, got \"%s\" twice", i,
                             node->number, node->name);
    return KOLO_OK;
}

/* Puts "layer 3 (max_pool2d): " before the message of a layer's failure. */
static kolo_status name_the_layer(kolo_status status, const kolo_layer_node *node)
{
    if (status == KOLO_OK) return KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    const char *text = failure.code != KOLO_OK ? failure.text : kolo_status_name(status);
    return kolo_fail(status, "%s: %s", kolo_layer_text(node), text);
}

static kolo_status check_shape(const kolo_layer_node *node)
{
    bool fine = node->out.rank >= 1 && node->out.rank <= 4;
    for (int axis = 0; fine && axis < node->out.rank; axis++) fine = node->out.dim[axis] >= 1;
    return fine ? KOLO_OK : kolo_fail(KOLO_INVALID, "wanted a shape in the node's .out after build(), got none");
}

static kolo_status not_there(const kolo_layer_node *node)
{
    return kolo_fail(KOLO_INVALID, "%s: device: wanted one of %d devices (%s, CUDA_VISIBLE_DEVICES), got \"%.40s\"",
                     kolo_layer_text(node), kolo_device_count(), kolo_device_variable(),
                     text_option(&node->recipe, "device"));
}

kolo_status kolo_model_check_devices(const kolo_model *model)
{
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].device > 0 && model->layers[i].device >= kolo_device_count())
            return not_there(&model->layers[i]);
    return KOLO_OK;
}

/* Sets node->device by the option, such as "cpu:1". "host" is the replica's first device, number 0. */
static kolo_status place_layer(kolo_layer_node *node)
{
    const char *device = text_option(&node->recipe, "device");
    node->device = -1;
    if (!device) return KOLO_OK;
    bool host = strcmp(device, "host") == 0;
    int number = host ? 0 : kolo_device_parse(device);
    if (number < 0)
        return kolo_fail(KOLO_INVALID, "%s: device: wanted \"host\" or \"%s:0\", \"%s:1\", …, got \"%.40s\"",
                         kolo_layer_text(node), kolo_device_word(), kolo_device_word(), device);
    if (!host && number >= kolo_device_count()) return not_there(node);
    node->device = number;
    return KOLO_OK;
}

static kolo_status check_inputs(const kolo_layer_node *node)
{
    int wanted = node->recipe.kind->inputs ? node->recipe.kind->inputs : 1;
    bool fine = wanted < 0 ? node->from_count >= 2 : node->from_count == wanted;
    if (fine || node->number == 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted %d%s input%s, got %d", kolo_layer_text(node), wanted < 0 ? 2 : wanted,
                     wanted < 0 ? " or more" : "", wanted == 1 ? "" : "s", node->from_count);
}

static kolo_status build_layer(kolo_model *model, int number)
{
    kolo_layer_node *node = &model->layers[number];
    bool is_input = node->recipe.kind == &kolo_input_kind;
    snprintf(node->name, sizeof node->name, "kolo_layer_of");
    KOLO_TRY(name_the_layer(kolo_layer_kind_check(node->recipe.kind), node));
    if (number == 0 && !is_input)
        return kolo_fail(KOLO_INVALID, "wanted kolo_input() as the first layer, got %s", node->recipe.kind->name);
    if (number > 0 && is_input)
        return kolo_fail(KOLO_INVALID, "layer %d: wanted kolo_input() only as the first layer", number);
    KOLO_TRY(name_layer(model, node));
    KOLO_TRY(check_inputs(node));
    KOLO_TRY(place_layer(node));
    kolo_model_builder builder = {model};
    kolo_status status = node->recipe.kind->build(&builder, node);
    node->recipe.custom._ = NULL; /* build() has read it, and the caller may free it before the model */
    return name_the_layer(status == KOLO_OK ? check_shape(node) : status, node);
}

kolo_status kolo_model_keep_text(kolo_model *model, const char **text)
{
    if (!*text) return KOLO_OK;
    size_t bytes = (size_t)(model->text_count + 1) * sizeof *model->texts;
    char **grown = realloc(model->texts, bytes);
    if (!grown) return kolo_fail_memory(bytes, "the model's texts");
    model->texts = grown;
    char *copy = strdup(*text);
    if (!copy) return kolo_fail_memory(strlen(*text), "the model's texts");
    *text = model->texts[model->text_count++] = copy;
    return KOLO_OK;
}

static kolo_status keep_texts(kolo_model *model, kolo_layer *layer)
{
    for (const kolo_field *field = kolo_layer_fields(layer->kind); field->name; field++) {
        const char **text = (const char **)((char *)&layer->custom + field->offset);
        if (field->type == KOLO_FIELD_STRING) KOLO_TRY(kolo_model_keep_text(model, text));
    }
    return KOLO_OK;
}

static kolo_status append_layer(kolo_model *model, const kolo_layer *layer, const int *from, int from_count)
{
    int number = model->layer_count;
    size_t bytes = (size_t)(number + 1) * sizeof *model->layers;
    kolo_layer_node *grown = realloc(model->layers, bytes);
    if (!grown) return kolo_fail_memory(bytes, "the layers");
    model->layers = grown;
    kolo_layer_node *node = &grown[number];
    *node = (kolo_layer_node){.recipe = *layer, .number = number, .from_count = from_count};
    for (int i = 0; i < KOLO_LAYER_PARAMETERS; i++) node->parameters[i] = -1;
    for (int i = 0; i < from_count; i++) {
        node->from[i] = from[i];
        node->ins[i] = grown[from[i]].out;
    }
    if (from_count > 0) node->in = node->ins[0];
    model->layer_count++;
    KOLO_TRY(keep_texts(model, &node->recipe));
    return build_layer(model, number);
}

/* If it fails, the copied strings of the refused layer stay in model->texts and are freed with the model. */
kolo_status kolo_model_add(kolo_model *model, const kolo_layer *layer, const int *from, int from_count)
{
    int layers = model->layer_count, parameters = model->parameter_count;
    int64_t weights = model->weight_count;
    kolo_status status = append_layer(model, layer, from, from_count);
    if (status == KOLO_OK) return KOLO_OK;
    model->layer_count = layers;
    model->parameter_count = parameters;
    model->weight_count = weights;
    return status;
}

static kolo_status build_model(const kolo_layer *layers, kolo_model *model)
{
    int count = 0;
    if (!layers) return kolo_fail(KOLO_INVALID, "wanted layers, got NULL");
    while (layers[count].kind) count++;
    if (count < 2)
        return kolo_fail(KOLO_INVALID, "wanted kolo_input() and at least one layer after it, got %s",
                         count == 1 ? "one layer" : "none");
    for (int i = 0; i < count; i++) KOLO_TRY(kolo_model_add(model, &layers[i], &(int){i - 1}, i > 0));
    return kolo_model_finish(model, count - 1);
}

kolo_status kolo_model_new(kolo_model **model)
{
    *model = calloc(1, sizeof **model);
    if (!*model) return kolo_fail_memory(sizeof **model, "a model");
    (*model)->output = -1;
    return KOLO_OK;
}

kolo_model *kolo_sequential_at(const kolo_layer *layers, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_sequential", here);
    kolo_model *model = NULL;
    kolo_status status = kolo_model_new(&model);
    if (status == KOLO_OK) status = build_model(layers, model);
    if (status != KOLO_OK) kolo_model_free(&model);
    kolo_leave(scope, status);
    return model;
}

void kolo_model_free(kolo_model **model)
{
    if (!model || !*model) return;
    kolo_model *freed = *model;
    if (kolo_visit_is_taken(&freed->visit)) {
        kolo_warn("kolo_model_free: this model is in a call of another thread; it stays until that has ended");
        return;
    }
    if (freed->fitting) {
        kolo_warn("kolo_model_free: this model is being trained; it stays until kolo_fit() has ended");
        return;
    }
    *model = NULL;
    if (freed->close_engines) freed->close_engines(freed);
    kolo_kept_clear(&freed->kept);
    kolo_host_deallocate(freed->weights);
    for (int i = 0; i < freed->text_count; i++) free(freed->texts[i]);
    free(freed->texts);
    free(freed->layers);
    free(freed->parameters);
    free(freed->epochs);
    free(freed->checkpoint);
    free(freed->place.on_ranks);
    free(freed);
}

static void draw_uniform(int64_t count, double most, uint64_t key, float *weights)
{
    float limit = (float)most;
    for (int64_t i = 0; i < count; i += 4) {
        kolo_random_block block = kolo_philox(key, (uint64_t)(i / 4), 0);
        for (int64_t j = i; j < i + 4 && j < count; j++)
            weights[j] = (2 * kolo_random_unit(block.word[j - i]) - 1) * limit;
    }
}

void kolo_model_draw(const kolo_model *model, uint64_t seed, float *weights)
{
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        float *own = weights + parameter->offset;
        uint64_t key = kolo_random_key(seed, KOLO_RANDOM_WEIGHTS, (uint64_t)p);
        double sum = (double)parameter->fan_in + parameter->fan_out;
        int64_t count = kolo_shape_count(parameter->shape);
        if (parameter->initializer == KOLO_INIT_GLOROT_UNIFORM) draw_uniform(count, sqrt(6.0 / sum), key, own);
        else if (parameter->initializer == KOLO_INIT_UNIFORM) draw_uniform(count, 0.05, key, own);
        else
            for (int64_t i = 0; i < count; i++) own[i] = parameter->initializer == KOLO_INIT_ONES;
    }
}

void kolo_model_draw_weights(kolo_model *model)
{
    kolo_model_draw(model, model->seed, model->weights);
    model->has_weights = true;
}

kolo_status kolo_model_check(const kolo_model *model)
{
    if (model) return KOLO_OK;
    return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "wanted a model, got NULL");
}

kolo_model_call kolo_model_enter(kolo_model *model, const char *name, bool changes, kolo_here here)
{
    kolo_model_call call = {.scope = kolo_enter(name, here), .status = KOLO_OK};
    if (!model) return call;
    call.status = kolo_visit_begin(&model->visit, name, changes);
    if (call.status == KOLO_OK) call.model = model;
    return call;
}

kolo_status kolo_model_leave(const kolo_model_call *call)
{
    if (call->model) kolo_visit_end(&call->model->visit);
    return kolo_leave(call->scope, call->status);
}

kolo_status kolo_model_check_idle(const kolo_model *model)
{
    if (!model->fitting) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "this model is being trained: wanted the call after its kolo_fit(), not in a callback");
}

kolo_status kolo_model_check_compiled(const kolo_model *model, const char *purpose)
{
    KOLO_TRY(kolo_model_check(model));
    if (model->compiled) return KOLO_OK;
    return kolo_failed()
               ? KOLO_INVALID
               : kolo_fail(KOLO_INVALID, "wanted kolo_compile() before %s, got a model not compiled", purpose);
}

int64_t kolo_count_params(const kolo_model *model)
{
    return model ? model->weight_count : 0;
}

int kolo_weight_count(const kolo_model *model)
{
    return model ? model->parameter_count : 0;
}

kolo_weight kolo_weight_get(kolo_model *model, int index)
{
    if (!model || index < 0 || index >= model->parameter_count) return (kolo_weight){0};
    const kolo_parameter *parameter = &model->parameters[index];
    kolo_weight weight = {.name = parameter->name,
                          .rank = parameter->shape.rank,
                          .count = kolo_shape_count(parameter->shape),
                          .trained = parameter->momentum == 0,
                          .values = model->weights + parameter->offset};
    for (int axis = 0; axis < weight.rank; axis++) weight.shape[axis] = parameter->shape.dim[axis];
    return weight;
}
