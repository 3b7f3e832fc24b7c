/* Upsampling: repeats each pixel. A pixel's gradient is the sum of the gradients of its copies. */
#include "layers/common.h"

static kolo_window window_of(const kolo_layer_node *node)
{
    const kolo_upsampling2d_args *args = &node->recipe.upsampling2d;
    int height = args->height ? args->height : 2, width = args->width ? args->width : height;
    return (kolo_window){.kernel = {height, width}, .stride = {height, width}};
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    kolo_window window = window_of(node);
    KOLO_TRY(kolo_check_image(node));
    KOLO_TRY(kolo_check_size("height", window.kernel[0]));
    KOLO_TRY(kolo_check_size("width", window.kernel[1]));
    /* one axis at a time, so that each product below fits an int */
    for (int axis = 0; axis < 2; axis++)
        KOLO_TRY(kolo_check_elements("output", (kolo_shape){2, {node->in.dim[axis], window.kernel[axis]}}));
    node->out =
        (kolo_shape){3, {node->in.dim[0] * window.kernel[0], node->in.dim[1] * window.kernel[1], node->in.dim[2]}};
    return kolo_check_elements("output", node->out);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_UPSAMPLE2D, .in = {flow->x}, .window = window_of(flow->node)};
    return kolo_simple_op(plan, flow->node, op, flow->node->out, &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_UPSAMPLE2D_BACKWARD, .in = {flow->dy}, .window = window_of(flow->node)};
    flow->dx = -1;
    return flow->need_dx ? kolo_simple_op(plan, flow->node, op, flow->node->in, &flow->dx) : KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, upsampling2d, height),
    KOLO_POSITIONAL(KOLO_FIELD_INT, upsampling2d, width),
    KOLO_FIELDS_END(upsampling2d),
};

const kolo_layer_kind kolo_upsampling2d_kind = {
    .name = "upsampling2d", .fields = fields, .build = build, .forward = forward, .backward = backward};
