/* Position embedding: y = x + positions, a trained array that is the same for every sample. */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    node->out = node->in;
    return kolo_declare_parameter(builder, node, "positions", node->in, KOLO_INIT_UNIFORM, 0, 0);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_op op = {.kind = KOLO_OP_POSITION, .layer = node->number, .in = {flow->x}, .activation = KOLO_LINEAR};
    KOLO_TRY(kolo_added(&op.in[1], kolo_plan_weights(plan, node->parameters[0], node->in)));
    KOLO_TRY(kolo_added(&flow->y, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->out)));
    op.out[0] = flow->y;
    return kolo_plan_op(plan, op);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_op op = {
        .kind = KOLO_OP_POSITION_BACKWARD, .layer = node->number, .in = {flow->dy}, .activation = KOLO_LINEAR};
    flow->dx = flow->need_dx ? flow->dy : -1;
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_gradient(plan, node->parameters[0], node->in)));
    return kolo_plan_op(plan, op);
}

static const kolo_field fields[] = {
    KOLO_FIELDS_END(position_embedding),
};

const kolo_layer_kind kolo_position_embedding_kind = {
    .name = "position_embedding", .fields = fields, .build = build, .forward = forward, .backward = backward};
