/* Global pooling: a pooling whose window is the image. Its output, one pixel, is by default viewed as a row of
 * channels.
 */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    KOLO_TRY(kolo_check_image(node));
    int channels = node->in.dim[2];
    node->out = node->recipe.global_pool2d.keep_dims ? (kolo_shape){3, {1, 1, channels}} : (kolo_shape){1, {channels}};
    return KOLO_OK;
}

static kolo_shape pixel_of(const kolo_layer_node *node)
{
    return (kolo_shape){3, {1, 1, node->in.dim[2]}};
}

static kolo_op op_of(const kolo_layer_node *node, kolo_op_kind kind)
{
    int height = node->in.dim[0], width = node->in.dim[1];
    return (kolo_op){.kind = kind, .window = {.kernel = {height, width}, .stride = {height, width}}};
}

/* Views the pixel in the shape of the layer's output, or the output's gradient in the shape of the pixel. With
 * .keep_dims these shapes are the same, and *to is `from`. */
static kolo_status view(kolo_plan *plan, const kolo_layer_node *node, int from, kolo_shape shape, int *to)
{
    *to = from;
    return node->recipe.global_pool2d.keep_dims ? KOLO_OK : kolo_added(to, kolo_plan_view(plan, from, shape));
}

static kolo_status forward_average(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = op_of(flow->node, KOLO_OP_AVERAGE_POOL2D);
    int pixel;
    op.in[0] = flow->x;
    KOLO_TRY(kolo_simple_op(plan, flow->node, op, pixel_of(flow->node), &pixel));
    return view(plan, flow->node, pixel, flow->node->out, &flow->y);
}

static kolo_status backward_average(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = op_of(flow->node, KOLO_OP_AVERAGE_POOL2D_BACKWARD);
    flow->dx = -1;
    if (!flow->need_dx) return KOLO_OK;
    KOLO_TRY(view(plan, flow->node, flow->dy, pixel_of(flow->node), &op.in[0]));
    return kolo_simple_op(plan, flow->node, op, flow->node->in, &flow->dx);
}

/* saved[0]: the positions of the maxima. */
static kolo_status forward_max(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = op_of(flow->node, KOLO_OP_MAX_POOL2D);
    kolo_shape pixel_shape = pixel_of(flow->node);
    int pixel;
    op.in[0] = flow->x;
    op.out[1] = -1;
    if (plan->training) KOLO_TRY(kolo_added(&op.out[1], kolo_plan_value(plan, KOLO_VALUE_WORKSPACE, pixel_shape)));
    flow->saved[0] = op.out[1];
    KOLO_TRY(kolo_simple_op(plan, flow->node, op, pixel_shape, &pixel));
    return view(plan, flow->node, pixel, flow->node->out, &flow->y);
}

static kolo_status backward_max(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = op_of(flow->node, KOLO_OP_MAX_POOL2D_BACKWARD);
    flow->dx = -1;
    if (!flow->need_dx) return KOLO_OK;
    KOLO_TRY(view(plan, flow->node, flow->dy, pixel_of(flow->node), &op.in[0]));
    op.in[1] = flow->saved[0];
    return kolo_simple_op(plan, flow->node, op, flow->node->in, &flow->dx);
}

static const kolo_field fields[] = {
    KOLO_FIELD(KOLO_FIELD_BOOL, global_pool2d, keep_dims),
    KOLO_FIELDS_END(global_pool2d),
};

const kolo_layer_kind kolo_global_average_pool2d_kind = {.name = "global_average_pool2d",
                                                         .fields = fields,
                                                         .build = build,
                                                         .forward = forward_average,
                                                         .backward = backward_average};
const kolo_layer_kind kolo_global_max_pool2d_kind = {
    .name = "global_max_pool2d", .fields = fields, .build = build, .forward = forward_max, .backward = backward_max};
