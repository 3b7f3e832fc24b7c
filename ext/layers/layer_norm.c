/* Layer normalisation over the last axis (Ba, Kiros and Hinton 2016, "Layer normalization"):
 * y = scale · (x − mean) / √(variance + ε) + offset. */
#include "layers/common.h"

#include <math.h>

static double epsilon_of(const kolo_layer_node *node)
{
    double epsilon = node->recipe.layer_norm.epsilon;
    return epsilon == 0 ? 1e-3 : epsilon;
}

static kolo_shape last_axis(const kolo_layer_node *node)
{
    return (kolo_shape){1, {node->in.dim[node->in.rank - 1]}};
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    const kolo_layer_norm_args *args = &node->recipe.layer_norm;
    double epsilon = epsilon_of(node);
    if (args->epsilon == 0 && kolo_written(args->_, "epsilon")) epsilon = 0;
    if (!(epsilon > 0 && isfinite(epsilon)))
        return kolo_fail(KOLO_INVALID, "epsilon: wanted a number above 0, got %g", epsilon);
    node->out = node->in;
    if (!args->no_scale)
        KOLO_TRY(kolo_declare_parameter(builder, node, "gamma", last_axis(node), KOLO_INIT_ONES, 0, 0));
    if (args->no_offset) return KOLO_OK;
    return kolo_declare_parameter(builder, node, "beta", last_axis(node), KOLO_INIT_ZEROS, 0, 0);
}

static kolo_status add_weights(kolo_plan *plan, const kolo_layer_node *node, int number, int *value)
{
    return kolo_added(value, kolo_plan_weights(plan, node->parameters[number], last_axis(node)));
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    const kolo_layer_norm_args *args = &node->recipe.layer_norm;
    kolo_op op = {.kind = KOLO_OP_LAYER_NORM,
                  .layer = node->number,
                  .in = {flow->x, -1, -1},
                  .activation = KOLO_LINEAR,
                  .epsilon = epsilon_of(node)};
    if (!args->no_scale) KOLO_TRY(add_weights(plan, node, 0, &op.in[1]));
    if (!args->no_offset) KOLO_TRY(add_weights(plan, node, node->parameter_count - 1, &op.in[2]));
    KOLO_TRY(kolo_added(&flow->y, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->out)));
    op.out[0] = flow->y;
    return kolo_plan_op(plan, op);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    const kolo_layer_norm_args *args = &node->recipe.layer_norm;
    kolo_op op = {.kind = KOLO_OP_LAYER_NORM_BACKWARD,
                  .layer = node->number,
                  .in = {flow->dy, flow->x, -1},
                  .out = {-1, -1, -1},
                  .activation = KOLO_LINEAR,
                  .epsilon = epsilon_of(node)};
    if (!args->no_scale) {
        if (flow->need_dx) KOLO_TRY(add_weights(plan, node, 0, &op.in[2]));
        KOLO_TRY(kolo_added(&op.out[1], kolo_plan_gradient(plan, node->parameters[0], last_axis(node))));
    }
    if (!args->no_offset) {
        int offset = node->parameters[node->parameter_count - 1];
        KOLO_TRY(kolo_added(&op.out[2], kolo_plan_gradient(plan, offset, last_axis(node))));
    }
    if (flow->need_dx) KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->in)));
    flow->dx = op.out[0];
    return kolo_plan_op(plan, op);
}

static const kolo_field fields[] = {
    KOLO_FIELD(KOLO_FIELD_DOUBLE, layer_norm, epsilon),
    KOLO_FIELD(KOLO_FIELD_BOOL, layer_norm, no_scale),
    KOLO_FIELD(KOLO_FIELD_BOOL, layer_norm, no_offset),
    KOLO_FIELDS_END(layer_norm),
};

const kolo_layer_kind kolo_layer_norm_kind = {
    .name = "layer_norm", .fields = fields, .build = build, .forward = forward, .backward = backward};
