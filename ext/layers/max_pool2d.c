/* Max pooling: the largest element of each window, for each channel. That element gets the gradient; of equal ones the
 * first. */
#include "layers/common.h"

static kolo_status window(const kolo_layer_node *node, kolo_window *window, int out[2])
{
    const kolo_max_pool2d_args *args = &node->recipe.max_pool2d;
    int height = args->height, width = args->width ? args->width : args->height;
    const kolo_window_spec spec = {.what = "pool window",
                                   .size = {height, width},
                                   .stride = {args->stride[0], args->stride[1]},
                                   .default_stride = {height, width},
                                   .padding = args->padding};
    return kolo_window_make(node, &spec, window, out);
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    kolo_window place;
    int out[2];
    KOLO_TRY(window(node, &place, out));
    node->out = (kolo_shape){3, {out[0], out[1], node->in.dim[2]}};
    return kolo_check_elements("output", node->out);
}

/* saved[0]: the positions of the maxima. */
static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_shape out = flow->node->out;
    kolo_op op = {.kind = KOLO_OP_MAX_POOL2D, .in = {flow->x}, .out = {-1, -1}};
    int unused[2];
    KOLO_TRY(window(flow->node, &op.window, unused));
    if (plan->training) KOLO_TRY(kolo_added(&op.out[1], kolo_plan_value(plan, KOLO_VALUE_WORKSPACE, out)));
    flow->saved[0] = op.out[1];
    return kolo_simple_op(plan, flow->node, op, out, &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_MAX_POOL2D_BACKWARD, .in = {flow->dy, flow->saved[0]}};
    int unused[2];
    flow->dx = -1;
    if (!flow->need_dx) return KOLO_OK;
    KOLO_TRY(window(flow->node, &op.window, unused));
    return kolo_simple_op(plan, flow->node, op, flow->node->in, &flow->dx);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, max_pool2d, height),
    KOLO_POSITIONAL(KOLO_FIELD_INT, max_pool2d, width),
    KOLO_PAIR(max_pool2d, stride),
    KOLO_FIELD(KOLO_FIELD_PADDING, max_pool2d, padding),
    KOLO_FIELDS_END(max_pool2d),
};

const kolo_layer_kind kolo_max_pool2d_kind = {
    .name = "max_pool2d", .fields = fields, .build = build, .forward = forward, .backward = backward};
