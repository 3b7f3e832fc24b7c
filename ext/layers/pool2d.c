/* Pooling: the largest element, or the mean, of each window, for each channel. The largest element gets the gradient;
 * of equal ones the first. As in Keras, a mean does not count zeros of padding. */
#include "layers/common.h"

/* Both kinds have the same arguments, so this reads those of either. */
_Static_assert(sizeof(kolo_max_pool2d_args) == sizeof(kolo_average_pool2d_args), "the same arguments");
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

static kolo_status add_forward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op)
{
    int unused[2];
    KOLO_TRY(window(flow->node, &op.window, unused));
    return kolo_simple_op(plan, flow->node, op, flow->node->out, &flow->y);
}

static kolo_status add_backward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op)
{
    int unused[2];
    flow->dx = -1;
    if (!flow->need_dx) return KOLO_OK;
    KOLO_TRY(window(flow->node, &op.window, unused));
    return kolo_simple_op(plan, flow->node, op, flow->node->in, &flow->dx);
}

/* saved[0]: the positions of the maxima. */
static kolo_status forward_max(kolo_plan *plan, kolo_layer_flow *flow)
{
    int *where = &flow->saved[0];
    if (plan->training) KOLO_TRY(kolo_added(where, kolo_plan_value(plan, KOLO_VALUE_WORKSPACE, flow->node->out)));
    return add_forward(plan, flow, (kolo_op){.kind = KOLO_OP_MAX_POOL2D, .in = {flow->x}, .out = {-1, *where}});
}

static kolo_status backward_max(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_MAX_POOL2D_BACKWARD, .in = {flow->dy, flow->saved[0]}};
    return add_backward(plan, flow, op);
}

static kolo_status forward_average(kolo_plan *plan, kolo_layer_flow *flow)
{
    return add_forward(plan, flow, (kolo_op){.kind = KOLO_OP_AVERAGE_POOL2D, .in = {flow->x}});
}

static kolo_status backward_average(kolo_plan *plan, kolo_layer_flow *flow)
{
    return add_backward(plan, flow, (kolo_op){.kind = KOLO_OP_AVERAGE_POOL2D_BACKWARD, .in = {flow->dy}});
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, max_pool2d, height),
    KOLO_POSITIONAL(KOLO_FIELD_INT, max_pool2d, width),
    KOLO_PAIR(max_pool2d, stride),
    KOLO_FIELD(KOLO_FIELD_PADDING, max_pool2d, padding),
    KOLO_FIELDS_END(max_pool2d),
};

const kolo_layer_kind kolo_max_pool2d_kind = {
    .name = "max_pool2d", .fields = fields, .build = build, .forward = forward_max, .backward = backward_max};
const kolo_layer_kind kolo_average_pool2d_kind = {.name = "average_pool2d",
                                                  .fields = fields,
                                                  .build = build,
                                                  .forward = forward_average,
                                                  .backward = backward_average};
