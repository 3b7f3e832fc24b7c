/* Models with branches: kolo_graph, kolo_apply, kolo_graph_output. model.c checks each layer. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

kolo_model *kolo_graph_at(kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_graph", here);
    kolo_model *model = NULL;
    kolo_leave(scope, kolo_model_new(&model));
    return model;
}

/* Fails if no layer can be added to the model. After a layer failed, it fails without a message until the failure is
 * cleared, as a notebook's next cell does. Then layers can be added as if there had been no such layer. */
static kolo_status check_open(const kolo_model *model)
{
    KOLO_TRY(kolo_model_check(model));
    if (model->output >= 0)
        return kolo_fail(KOLO_INVALID, "wanted a model before its kolo_graph_output(), got one that is complete");
    return model->broken && kolo_failed() ? KOLO_INVALID : KOLO_OK;
}

static kolo_status check_tensor(kolo_tensor tensor)
{
    if (tensor.node >= 0 && tensor.node < tensor.model->layer_count) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted what kolo_apply() or kolo_graph_input() gave, got number %d of %d layers",
                     tensor.node, tensor.model->layer_count);
}

static kolo_tensor add(kolo_model *model, const kolo_layer *layer, const int *from, int count, kolo_status *status)
{
    *status = check_open(model);
    if (*status != KOLO_OK) return (kolo_tensor){0};
    *status = kolo_model_add(model, layer, from, count);
    model->broken = *status != KOLO_OK;
    return *status == KOLO_OK ? (kolo_tensor){model, model->layer_count - 1} : (kolo_tensor){0};
}

kolo_tensor kolo_graph_input_at(kolo_model *model, kolo_layer input, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_graph_input", here);
    kolo_status status;
    kolo_tensor tensor = add(model, &input, NULL, 0, &status);
    kolo_leave(scope, status);
    return tensor;
}

/* Sets from[*count] to the numbers of the inputs, which must be of one model. If the first input is empty because of an
 * earlier failure, it fails without a message. */
static kolo_status check_inputs(const kolo_tensor *inputs, int *from, int *count)
{
    for (*count = 0; inputs && *count < KOLO_APPLY_MAX && inputs[*count].model; ++*count) {
        from[*count] = inputs[*count].node;
        if (inputs[*count].model != inputs[0].model)
            return kolo_fail(KOLO_INVALID, "wanted inputs of one model, got input %d of another", *count + 1);
        KOLO_TRY(check_tensor(inputs[*count]));
    }
    if (*count > 0) return KOLO_OK;
    return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "wanted at least one input, got none");
}

kolo_tensor kolo_apply_at(kolo_layer layer, const kolo_tensor *inputs, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_apply", here);
    int from[KOLO_APPLY_MAX], count;
    kolo_tensor tensor = {0};
    kolo_status status = check_inputs(inputs, from, &count);
    if (status == KOLO_OK && !layer.kind) status = kolo_fail(KOLO_INVALID, "wanted a layer, got an empty one");
    if (status == KOLO_OK) tensor = add(inputs[0].model, &layer, from, count, &status);
    kolo_leave(scope, status);
    return tensor;
}

/* Fails if a layer does not lead to the output: it was probably forgotten. */
static kolo_status check_used(const kolo_model *model, int output)
{
    bool *used = calloc((size_t)model->layer_count, sizeof *used);
    if (!used) return kolo_fail_memory((size_t)model->layer_count, "the layers");
    used[output] = true;
    for (int i = output; i >= 0; i--)
        for (int k = 0; used[i] && k < model->layers[i].from_count; k++) used[model->layers[i].from[k]] = true;
    int unused = 0;
    while (unused < model->layer_count && used[unused]) unused++;
    free(used);
    if (unused == model->layer_count) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted every layer to lead to the output, got %s, which does not",
                     kolo_layer_text(&model->layers[unused]));
}

/* Sets the size of microbatches that layers require. All of these layers must require the same size. */
static kolo_status agree_on_microbatch(kolo_model *model)
{
    const kolo_layer_node *first = NULL;
    for (int i = 0; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        if (node->microbatch == 0) continue;
        if (!first) first = node;
        if (node->microbatch != first->microbatch)
            return kolo_fail(KOLO_INVALID, "%s: wanted a ghost_batch of %d, as layer %d (%s) has, got %d",
                             kolo_layer_text(node), first->microbatch, first->number, first->name, node->microbatch);
    }
    model->microbatch = first ? first->microbatch : 0;
    return KOLO_OK;
}

int kolo_model_devices(const kolo_model *model)
{
    int highest = 0;
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].device > highest) highest = model->layers[i].device;
    return highest + 1;
}

kolo_status kolo_model_finish(kolo_model *model, int output)
{
    size_t bytes = (size_t)(model->weight_count ? model->weight_count : 1) * sizeof(float);
    KOLO_TRY(check_used(model, output));
    KOLO_TRY(agree_on_microbatch(model));
    model->weights = kolo_host_allocate(bytes);
    if (!model->weights) return kolo_fail_memory(bytes, "the weights");
    memset(model->weights, 0, bytes);
    model->output = output;
    return KOLO_OK;
}

static kolo_status set_output(kolo_model *model, kolo_tensor output)
{
    KOLO_TRY(check_open(model));
    if (!output.model) return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "wanted an output, got none");
    if (output.model != model) return kolo_fail(KOLO_INVALID, "wanted an output of this model, got one of another");
    KOLO_TRY(check_tensor(output));
    if (output.node == 0) return kolo_fail(KOLO_INVALID, "wanted at least one layer after the input, got the input");
    return kolo_model_finish(model, output.node);
}

kolo_status kolo_graph_output_at(kolo_model *model, kolo_tensor output, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_graph_output", here);
    return kolo_leave(scope, set_output(model, output));
}
