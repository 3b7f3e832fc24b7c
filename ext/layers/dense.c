/* The fully connected layer, over the last axis: y = activation(x·kernel + bias). */
#include "layers/common.h"

static kolo_shape kernel_shape(const kolo_layer_node *node)
{
    return (kolo_shape){2, {node->in.dim[node->in.rank - 1], node->recipe.dense.units}};
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    const kolo_dense_args *args = &node->recipe.dense;
    KOLO_TRY(kolo_check_size("units", args->units));
    kolo_shape kernel = kernel_shape(node);
    node->out = node->in;
    node->out.dim[node->out.rank - 1] = args->units;
    return kolo_declare_weighted(builder, node, kernel, kernel.dim[0], kernel.dim[1],
                                 &(kolo_weighted){args->activation, args->no_bias, args->l2});
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    return kolo_weighted_forward(plan, flow, (kolo_op){.kind = KOLO_OP_DENSE}, kernel_shape(node),
                                 node->recipe.dense.activation);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    return kolo_weighted_backward(plan, flow, (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD}, kernel_shape(node),
                                  node->recipe.dense.activation);
}

#define LARGE_OUTPUTS (4 << 20) /* bytes of a microbatch's outputs that leave the nearer caches */

bool kolo_dense_takes_loss(const kolo_plan *plan, const kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    if (node->recipe.kind != &kolo_dense_kind) return false;
    kolo_activation activation = node->recipe.dense.activation;
    bool plain = activation <= KOLO_LINEAR || activation == flow->left_out;
    return plain && plan->microbatch * kolo_shape_count(node->out) * (int64_t)sizeof(float) >= LARGE_OUTPUTS;
}

kolo_status kolo_dense_with_loss(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_shape kernel = kernel_shape(node), bias = {1, {node->recipe.dense.units}};
    bool biased = node->parameter_count > 1;
    kolo_op op = {.kind = KOLO_OP_DENSE_LOSS,
                  .layer = node->number,
                  .in = {flow->x, -1, -1, -1},
                  .out = {-1, -1, -1},
                  .activation = KOLO_LINEAR};
    KOLO_TRY(kolo_added(&flow->y, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->out)));
    KOLO_TRY(kolo_added(&op.in[1], kolo_plan_weights(plan, node->parameters[0], kernel)));
    if (biased) KOLO_TRY(kolo_added(&op.in[2], kolo_plan_weights(plan, node->parameters[1], bias)));
    if (plan->training) KOLO_TRY(kolo_added(&op.out[1], kolo_plan_gradient(plan, node->parameters[0], kernel)));
    if (plan->training && biased) KOLO_TRY(kolo_added(&op.out[2], kolo_plan_gradient(plan, node->parameters[1], bias)));
    if (plan->training && flow->need_dx) {
        KOLO_TRY(kolo_added(&op.in[3], kolo_plan_weights(plan, node->parameters[0], kernel)));
        KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->in)));
    }
    flow->dx = flow->dxs[0] = op.out[0];
    return kolo_plan_op(plan, op);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, dense, units),
    KOLO_FIELD(KOLO_FIELD_ACTIVATION, dense, activation),
    KOLO_FIELD(KOLO_FIELD_BOOL, dense, no_bias),
    KOLO_FIELD(KOLO_FIELD_DOUBLE, dense, l2),
    KOLO_FIELDS_END(dense),
};

const kolo_layer_kind kolo_dense_kind = {
    .name = "dense", .fields = fields, .build = build, .forward = forward, .backward = backward};
