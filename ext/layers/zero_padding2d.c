/* Adds zeros around an image. Backward drops the zeros' gradient. */
#include "layers/common.h"

static int side(const kolo_zero_padding2d_args *args, int given)
{
    return given == KOLO_NONE ? 0 : given != 0 ? given : args->all;
}

static kolo_window window_of(const kolo_layer_node *node)
{
    const kolo_zero_padding2d_args *args = &node->recipe.zero_padding2d;
    return (kolo_window){.before = {side(args, args->top), side(args, args->left)},
                         .after = {side(args, args->bottom), side(args, args->right)}};
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    static const char *const names[] = {"top", "left", "bottom", "right"};
    kolo_zero_padding2d_args *args = &node->recipe.zero_padding2d;
    int *const given[] = {&args->top, &args->left, &args->bottom, &args->right};
    for (int i = 0; i < 4; i++) kolo_keep_zero_int(args->_, names[i], given[i]);
    kolo_window window = window_of(node);
    const int sides[] = {window.before[0], window.before[1], window.after[0], window.after[1]};
    KOLO_TRY(kolo_check_image(node));
    for (int i = 0; i < 4; i++)
        if (sides[i] < 0 || sides[i] > KOLO_SIZE_MAX)
            return kolo_fail(KOLO_INVALID, "%s: wanted 0 … %d, got %d", names[i], KOLO_SIZE_MAX, sides[i]);
    node->out = node->in;
    for (int axis = 0; axis < 2; axis++) node->out.dim[axis] += sides[axis] + sides[axis + 2];
    return kolo_check_elements("output", node->out);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_PAD2D, .in = {flow->x}, .window = window_of(flow->node)};
    return kolo_simple_op(plan, flow->node, op, flow->node->out, &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CROP2D, .in = {flow->dy}, .window = window_of(flow->node)};
    flow->dx = -1;
    return flow->need_dx ? kolo_simple_op(plan, flow->node, op, flow->node->in, &flow->dx) : KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, zero_padding2d, all), KOLO_FIELD(KOLO_FIELD_INT, zero_padding2d, top),
    KOLO_FIELD(KOLO_FIELD_INT, zero_padding2d, bottom),   KOLO_FIELD(KOLO_FIELD_INT, zero_padding2d, left),
    KOLO_FIELD(KOLO_FIELD_INT, zero_padding2d, right),    KOLO_FIELDS_END(zero_padding2d),
};

const kolo_layer_kind kolo_zero_padding2d_kind = {
    .name = "zero_padding2d", .fields = fields, .build = build, .forward = forward, .backward = backward};
