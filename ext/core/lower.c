/* Layers to operations: forward in order, the loss, backward in reverse. See lower.h. */
#include "core/lower.h"

#include <stdlib.h>

#include "core/loss.h"

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

/* x of the first layer: the features, taken in by the backend. */
static kolo_status lower_input(const kolo_model *model, kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_shape shape = model->layers[0].out;
    plan->input = kolo_plan_value(plan, KOLO_VALUE_INPUT, shape);
    flow->y = kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, shape);
    if (plan->input < 0 || flow->y < 0) return KOLO_MEMORY;
    plan->values[plan->input].canonical = true;
    kolo_op op = {.kind = KOLO_OP_INPUT, .in = {plan->input, -1, -1, -1}, .out = {flow->y, -1, -1}};
    return kolo_plan_op(plan, op);
}

static kolo_status lower_forward(const kolo_model *model, kolo_purpose purpose, kolo_plan *plan, kolo_layer_flow *flows)
{
    bool weights_before = false;
    KOLO_TRY(lower_input(model, plan, &flows[0]));
    for (int i = 1; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        bool last = i == model->layer_count - 1;
        bool to_logits = last && purpose != KOLO_FOR_OUTPUTS && model->settings.loss->from_logits;
        flows[i] = (kolo_layer_flow){.node = node,
                                     .x = flows[i - 1].y,
                                     .y = -1,
                                     .dy = -1,
                                     .dx = -1,
                                     .need_dx = weights_before,
                                     .to_logits = to_logits,
                                     .saved = {-1, -1, -1, -1}};
        KOLO_TRY(describe(node->recipe.kind->forward(plan, &flows[i]), node));
        weights_before = weights_before || node->parameter_count > 0;
    }
    plan->output = flows[model->layer_count - 1].y;
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

/* Stops at the first layer that has weights: before it nothing needs a gradient. */
static kolo_status lower_backward(const kolo_model *model, kolo_plan *plan, kolo_layer_flow *flows)
{
    int first = 1;
    while (first < model->layer_count && model->layers[first].parameter_count == 0) first++;
    int dy = plan->loss_gradient;
    for (int i = model->layer_count - 1; i >= first; i--) {
        flows[i].dy = dy;
        const kolo_layer_node *node = flows[i].node;
        KOLO_TRY(describe(node->recipe.kind->backward(plan, &flows[i]), node));
        dy = flows[i].dx;
    }
    return KOLO_OK;
}

kolo_status kolo_lower(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_plan *plan)
{
    *plan = (kolo_plan){.leaf = leaf,
                        .training = trains(purpose),
                        .dropout = purpose == KOLO_FOR_TRAINING,
                        .precision = model->settings.precision,
                        .loss = model->settings.loss,
                        .loss_gradient = -1};
    for (int i = 0; i < KOLO_METRICS_MAX; i++) plan->metrics[i] = model->settings.metrics[i];
    size_t bytes = (size_t)model->layer_count * sizeof(kolo_layer_flow);
    kolo_layer_flow *flows = calloc(1, bytes);
    if (!flows) return kolo_fail_memory(bytes, "a plan");
    kolo_status status;
    KOLO_GO(done, lower_forward(model, purpose, plan, flows));
    if (purpose != KOLO_FOR_OUTPUTS) KOLO_GO(done, lower_loss(plan, plan->training));
    plan->forward_count = plan->op_count;
    if (plan->training) KOLO_GO(done, lower_backward(model, plan, flows));
done:
    free(flows);
    return status;
}
