/* The sum of inputs of one shape, by operations on two operands each. The gradient of every input is that of the sum.
 */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    for (int i = 1; i < node->from_count; i++)
        if (!kolo_shape_equal(node->ins[i], node->in))
            return kolo_fail(KOLO_INVALID, "wanted inputs of one shape, got %s and %s", kolo_shape_text(node->in),
                             kolo_shape_text(node->ins[i]));
    return kolo_check_activation(node->recipe.add.activation);
}

/* The last sum includes a relu; any other activation is a separate operation. saved[0]: the last sum. */
static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_activation activation = node->recipe.add.activation;
    bool apart = activation > KOLO_RELU && activation != flow->left_out;
    flow->y = flow->xs[0];
    for (int i = 1; i < node->from_count; i++) {
        bool last = i == node->from_count - 1;
        kolo_op op = {.kind = KOLO_OP_ADD,
                      .layer = node->number,
                      .in = {flow->y, flow->xs[i]},
                      .activation = last && activation == KOLO_RELU ? KOLO_RELU : KOLO_LINEAR};
        KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->out)));
        KOLO_TRY(kolo_plan_op(plan, op));
        flow->y = op.out[0];
    }
    flow->saved[0] = flow->y;
    return apart ? kolo_activation_forward(plan, node, activation, flow->saved[0], &flow->y) : KOLO_OK;
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_activation activation = node->recipe.add.activation;
    int dx = flow->dy;
    if (activation > KOLO_LINEAR && activation != flow->left_out)
        KOLO_TRY(kolo_activation_backward(plan, node, activation, flow->dy, flow->y, flow->saved[0], &dx));
    for (int i = 0; i < node->from_count; i++) flow->dxs[i] = flow->need_dxs[i] ? dx : -1;
    return KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_FIELD(KOLO_FIELD_ACTIVATION, add, activation),
    KOLO_FIELDS_END(add),
};

const kolo_layer_kind kolo_add_kind = {
    .name = "add", .fields = fields, .inputs = -1, .build = build, .forward = forward, .backward = backward};
