/* Lowers layers to operations: forward in order, the loss, backward in reverse order. See lower.h. */
#include "model/lower.h"

#include <stdlib.h>
#include <string.h>

#include "losses/loss.h"

static bool trains(kolo_purpose purpose)
{
    return purpose == KOLO_FOR_TRAINING || purpose == KOLO_FOR_GRADIENTS;
}

static kolo_status describe(kolo_status status, const kolo_layer_node *node)
{
    if (status == KOLO_OK) return KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    return kolo_fail(status, "%s: %s", kolo_layer_text(node), failure.text);
}

/* The input layer, whose x is the features. Its operation, which converts them to the backend's layout, is added only
 * if a layer reads them in this layout. */
static kolo_status lower_input(const kolo_model *model, kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->x = plan->input = kolo_plan_value(plan, KOLO_VALUE_INPUT, model->layers[0].out);
    if (plan->input < 0) return KOLO_MEMORY;
    plan->values[plan->input].canonical = true;
    bool taken = false;
    for (int i = 1; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        for (int k = 0; k < node->from_count; k++)
            taken = taken || (node->from[k] == 0 && !node->recipe.kind->wants_features);
    }
    flow->y = flow->x; /* used if no layer reads them in the backend's layout */
    return taken ? kolo_input_kind.forward(plan, flow) : KOLO_OK;
}

/* Sets the inputs of a layer, and whether each needs a gradient: whether weights come before it. */
static void join(const kolo_plan *plan, const kolo_layer_flow *flows, const bool *weights_before, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    for (int k = 0; k < node->from_count; k++) {
        flow->xs[k] = node->recipe.kind->wants_features ? plan->input : flows[node->from[k]].y;
        flow->need_dxs[k] = weights_before[node->from[k]];
        flow->dxs[k] = -1;
    }
    flow->x = flow->xs[0];
    flow->need_dx = flow->need_dxs[0];
}

/* The device of the first layer that reads the features; the input's operation runs there. */
static int first_device(const kolo_model *model)
{
    for (int i = 1; i < model->layer_count; i++)
        for (int k = 0; k < model->layers[i].from_count; k++)
            if (model->layers[i].from[k] == 0) return model->layers[i].device;
    return -1;
}

/* Checks a number that a layer has set in its flow. */
static kolo_status check_value(const kolo_plan *plan, int value, kolo_shape shape, const char *where)
{
    bool any = value >= 0 && value < plan->value_count;
    if (any && kolo_shape_equal(plan->values[value].shape, shape)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a value in the flow's %s of the shape %s, got %s", where,
                     kolo_shape_text(shape), any ? kolo_shape_text(plan->values[value].shape) : "none");
}

static kolo_status lower_layer(const kolo_model *model, kolo_purpose purpose, kolo_plan *plan, kolo_layer_flow *flows,
                               bool *weights_before, int i)
{
    const kolo_layer_node *node = &model->layers[i];
    bool last = i == model->output && purpose != KOLO_FOR_OUTPUTS;
    flows[i] = (kolo_layer_flow){.node = node, .x = -1, .y = -1, .dy = -1, .dx = -1};
    for (size_t k = 0; k < sizeof flows[i].saved / sizeof *flows[i].saved; k++) flows[i].saved[k] = -1;
    if (last) flows[i].left_out = model->settings.loss.kind->left_out;
    plan->device = i > 0 ? node->device : first_device(model);
    if (i == 0) return lower_input(model, plan, &flows[0]);
    join(plan, flows, weights_before, &flows[i]);
    weights_before[i] = node->parameter_count > 0;
    for (int k = 0; k < node->from_count; k++) weights_before[i] = weights_before[i] || flows[i].need_dxs[k];
    KOLO_TRY(describe(node->recipe.kind->forward(plan, &flows[i]), node));
    return describe(check_value(plan, flows[i].y, node->out, ".y after forward()"), node);
}

static kolo_status lower_forward(const kolo_model *model, kolo_purpose purpose, kolo_plan *plan, kolo_layer_flow *flows,
                                 bool *weights_before)
{
    int i = 0; /* the input, which every model has */
    do {
        KOLO_TRY(lower_layer(model, purpose, plan, flows, weights_before, i));
    } while (++i < model->layer_count);
    plan->output = flows[model->output].y;
    plan->values[plan->output].canonical = true;
    plan->values[kolo_plan_base(plan, plan->output)].canonical = true;
    return KOLO_OK;
}

static kolo_status lower_loss(kolo_plan *plan, bool training)
{
    plan->loss_gradient = -1;
    if (training) {
        plan->loss_gradient = kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, plan->values[plan->output].shape);
        if (plan->loss_gradient < 0) return KOLO_MEMORY;
        plan->values[plan->loss_gradient].canonical = true;
    }
    kolo_op op = {.kind = KOLO_OP_LOSS, .in = {plan->output, -1, -1, -1}, .out = {plan->loss_gradient, -1, -1}};
    return kolo_plan_op(plan, op);
}

/* Sets dy of layer i: the sum of the input gradients of all layers that read its output. */
static kolo_status gather_gradient(const kolo_model *model, kolo_plan *plan, kolo_layer_flow *flows, int i)
{
    int *sum = &flows[i].dy;
    for (int j = i + 1; j < model->layer_count; j++) {
        const kolo_layer_node *taker = &model->layers[j];
        for (int k = 0; k < taker->from_count; k++) {
            if (taker->from[k] != i || flows[j].dxs[k] < 0) continue;
            kolo_op add = {.kind = KOLO_OP_ADD, .layer = i, .in = {*sum, flows[j].dxs[k]}, .activation = KOLO_LINEAR};
            if (*sum >= 0) {
                add.out[0] = kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, model->layers[i].out);
                if (add.out[0] < 0) return KOLO_MEMORY;
                KOLO_TRY(kolo_plan_op(plan, add));
            }
            *sum = *sum < 0 ? flows[j].dxs[k] : add.out[0];
        }
    }
    return KOLO_OK;
}

/* Without .dx the layers below would not learn. */
static kolo_status check_input_gradients(const kolo_plan *plan, const kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    bool many = node->recipe.kind->inputs != 0;
    for (int k = 0; k < node->from_count; k++) {
        const char *where = many ? kolo_phrase(".dxs[%d] after backward(), since need_dxs[%d] is set,", k, k)
                                 : ".dx after backward(), since need_dx is set,";
        if (flow->need_dxs[k]) KOLO_TRY(check_value(plan, flow->dxs[k], node->ins[k], where));
    }
    return KOLO_OK;
}

/* The number of operations that write the gradient of a parameter. */
static int count_gradients(const kolo_plan *plan, int parameter)
{
    int count = 0;
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_OUTS; i++) {
            const kolo_value *value = op->out[i] < 0 ? NULL : &plan->values[op->out[i]];
            count += value && value->kind == KOLO_VALUE_GRADIENT && value->parameter == parameter;
        }
    return count;
}

/* Without a gradient weights would not be trained, and of two gradients one would be lost. */
static kolo_status check_parameter_gradients(const kolo_model *model, const kolo_plan *plan,
                                             const kolo_layer_node *node)
{
    for (int p = 0; p < node->parameter_count; p++) {
        int count = count_gradients(plan, node->parameters[p]);
        if (count != 1)
            return kolo_fail(KOLO_INVALID, "wanted one operation that writes the gradient of %s, got %d",
                             model->parameters[node->parameters[p]].name, count);
    }
    return KOLO_OK;
}

/* Adds backward operations in reverse order. Leaves out layers that have no weights in or before them, and layers whose
 * output gets no gradient. */
static kolo_status lower_backward(const kolo_model *model, kolo_plan *plan, kolo_layer_flow *flows,
                                  const bool *weights_before)
{
    flows[model->output].dy = plan->loss_gradient;
    for (int i = model->output; i > 0; i--) {
        plan->device = model->layers[i].device;
        if (!weights_before[i]) continue;
        if (i != model->output) KOLO_TRY(gather_gradient(model, plan, flows, i));
        if (flows[i].dy < 0) continue;
        const kolo_layer_node *node = flows[i].node;
        KOLO_TRY(describe(node->recipe.kind->backward(plan, &flows[i]), node));
        if (node->recipe.kind->inputs == 0) flows[i].dxs[0] = flows[i].dx;
        KOLO_TRY(describe(check_input_gradients(plan, &flows[i]), node));
        KOLO_TRY(describe(check_parameter_gradients(model, plan, node), node));
    }
    return KOLO_OK;
}

/* Weights and gradients have as many elements as their parameters, and no value is read before it is written. */
static kolo_status check_plan(const kolo_model *model, const kolo_plan *plan)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_INS + KOLO_OP_OUTS; i++) {
            int number = i < KOLO_OP_INS ? op->in[i] : op->out[i - KOLO_OP_INS];
            const kolo_value *value = number < 0 ? NULL : &plan->values[number];
            if (!value || value->parameter < 0) continue;
            const kolo_parameter *parameter = &model->parameters[value->parameter];
            if (kolo_shape_count(value->shape) != kolo_shape_count(parameter->shape))
                return describe(kolo_fail(KOLO_INVALID, "operation %s: wanted %s with as many elements as %s, got %s",
                                          kolo_op_name(op->kind), parameter->name, kolo_shape_text(parameter->shape),
                                          kolo_shape_text(value->shape)),
                                &model->layers[op->layer]);
        }
    const kolo_op *op = NULL;
    kolo_status status = kolo_plan_check_order(plan, &op);
    return op ? describe(status, &model->layers[op->layer]) : status;
}

/* Sets the targets that the loss and the metrics need of each sample, and the places of the metrics' sums. */
static void lower_targets(const kolo_model *model, kolo_plan *plan)
{
    const kolo_metric_list *list = &model->metrics;
    plan->loss = model->settings.loss;
    plan->labels = list->labels;
    plan->targets = list->targets;
    plan->weights = true; /* samples without weights get 1, so that one plan serves all data */
    plan->probabilities = list->probabilities;
    memcpy(plan->metrics, list->metric, sizeof plan->metrics);
    memcpy(plan->metric_offset, list->offset, sizeof plan->metric_offset);
    plan->metric_sums = list->sums;
}

kolo_status kolo_lower(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_plan *plan)
{
    *plan = (kolo_plan){.microbatch = microbatch,
                        .training = trains(purpose),
                        .deterministic = model->settings.deterministic,
                        .dropout = purpose == KOLO_FOR_TRAINING,
                        .precision = model->settings.precision,
                        .loss_gradient = -1,
                        .layers = model->layers,
                        .device = -1};
    if (purpose != KOLO_FOR_OUTPUTS) lower_targets(model, plan);
    size_t bytes = (size_t)model->layer_count * (sizeof(kolo_layer_flow) + sizeof(bool));
    kolo_layer_flow *flows = calloc(1, bytes);
    if (!flows) return kolo_fail_memory(bytes, "a plan");
    bool *weights_before = (bool *)(flows + model->layer_count);
    kolo_status status;
    KOLO_GO(done, lower_forward(model, purpose, plan, flows, weights_before));
    plan->device = model->layers[model->output].device;
    if (purpose != KOLO_FOR_OUTPUTS) KOLO_GO(done, lower_loss(plan, plan->training));
    plan->forward_count = plan->op_count;
    if (plan->training) KOLO_GO(done, lower_backward(model, plan, flows, weights_before));
    status = check_plan(model, plan);
done:
    free(flows);
    return status;
}
