/* Concatenates inputs along an axis. The gradient of each input is its part of the output's gradient. */
#include "layers/common.h"

/* The axis, from 0 for a sample's first. It may be out of range until build() has checked it. */
static int axis_of(const kolo_layer_node *node)
{
    int axis = node->recipe.concatenate.axis;
    return axis == 0 ? node->in.rank - 1 : axis < 0 ? node->in.rank + axis : axis - 1;
}

static bool fits(kolo_shape a, kolo_shape b, int axis)
{
    b.dim[axis] = a.dim[axis];
    return kolo_shape_equal(a, b);
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    int axis = axis_of(node);
    int64_t length = node->in.dim[axis < 0 || axis >= node->in.rank ? 0 : axis];
    if (axis < 0 || axis >= node->in.rank)
        return kolo_fail(KOLO_INVALID, "axis: wanted 1 … %d, or -1 for the last, got %d", node->in.rank,
                         node->recipe.concatenate.axis);
    for (int i = 1; i < node->from_count; i++) {
        if (!fits(node->in, node->ins[i], axis))
            return kolo_fail(KOLO_INVALID, "wanted inputs that differ along axis %d alone, got %s and %s", axis + 1,
                             kolo_shape_text(node->in), kolo_shape_text(node->ins[i]));
        length += node->ins[i].dim[axis];
    }
    node->out = node->in;
    node->out.dim[axis] = length > INT32_MAX ? INT32_MAX : (int)length;
    return kolo_check_elements("output", node->out);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CONCATENATE, .axis = axis_of(flow->node)};
    for (int i = 0; i < KOLO_OP_INS; i++) op.in[i] = i < flow->node->from_count ? flow->xs[i] : -1;
    return kolo_simple_op(plan, flow->node, op, flow->node->out, &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_op op = {.kind = KOLO_OP_SLICE, .in = {flow->dy}, .axis = axis_of(node)};
    for (int i = 0; i < node->from_count; i++) {
        flow->dxs[i] = -1;
        if (flow->need_dxs[i]) KOLO_TRY(kolo_simple_op(plan, node, op, node->ins[i], &flow->dxs[i]));
        op.first += node->ins[i].dim[op.axis];
    }
    return KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_FIELD(KOLO_FIELD_INT, concatenate, axis),
    KOLO_FIELDS_END(concatenate),
};

const kolo_layer_kind kolo_concatenate_kind = {
    .name = "concatenate", .fields = fields, .inputs = -1, .build = build, .forward = forward, .backward = backward};
_Static_assert(KOLO_APPLY_MAX <= KOLO_OP_INS, "all inputs of a layer are operands of one operation");
