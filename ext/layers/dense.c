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

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, dense, units),
    KOLO_FIELD(KOLO_FIELD_ACTIVATION, dense, activation),
    KOLO_FIELD(KOLO_FIELD_BOOL, dense, no_bias),
    KOLO_FIELD(KOLO_FIELD_DOUBLE, dense, l2),
    KOLO_FIELDS_END(dense),
};

const kolo_layer_kind kolo_dense_kind = {
    .name = "dense", .fields = fields, .build = build, .forward = forward, .backward = backward};
