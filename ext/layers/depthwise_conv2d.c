/* Depthwise convolution: a convolution with as many groups as channels. Its kernel {kh, kw, C, multiplier} has the same
 * elements in memory as the kernel {kh, kw, 1, C · multiplier} of that convolution. Read conv2d.c first. */
#include "layers/common.h"

static int multiplier_of(const kolo_layer_node *node)
{
    return node->recipe.depthwise_conv2d.depth_multiplier ? node->recipe.depthwise_conv2d.depth_multiplier : 1;
}

static kolo_shape grouped_kernel(const kolo_layer_node *node)
{
    const kolo_depthwise_conv2d_args *args = &node->recipe.depthwise_conv2d;
    return (kolo_shape){4, {args->kernel[0], args->kernel[1], 1, node->in.dim[2] * multiplier_of(node)}};
}

static kolo_status window(const kolo_layer_node *node, kolo_window *window, int out[2])
{
    const kolo_depthwise_conv2d_args *args = &node->recipe.depthwise_conv2d;
    const kolo_window_spec spec = {.what = "kernel",
                                   .size = {args->kernel[0], args->kernel[1]},
                                   .stride = {args->stride[0], args->stride[1]},
                                   .default_stride = {1, 1},
                                   .dilation = {args->dilation[0], args->dilation[1]},
                                   .padding = args->padding};
    return kolo_window_make(node, &spec, window, out);
}

/* fan_in and fan_out are Keras's for a kernel of this shape: C inputs and multiplier outputs for each position. */
static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    const kolo_depthwise_conv2d_args *args = &node->recipe.depthwise_conv2d;
    kolo_window place;
    int out[2];
    KOLO_TRY(window(node, &place, out));
    KOLO_TRY(kolo_check_size("depth_multiplier", multiplier_of(node)));
    KOLO_TRY(kolo_check_elements("kernel", (kolo_shape){2, {node->in.dim[2], multiplier_of(node)}}));
    node->out = (kolo_shape){3, {out[0], out[1], node->in.dim[2] * multiplier_of(node)}};
    kolo_shape kernel = {4, {args->kernel[0], args->kernel[1], node->in.dim[2], multiplier_of(node)}};
    int64_t positions = (int64_t)kernel.dim[0] * kernel.dim[1];
    return kolo_declare_weighted(builder, node, kernel, positions * kernel.dim[2], positions * kernel.dim[3],
                                 &(kolo_weighted){args->activation, args->no_bias, args->l2});
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CONV2D};
    int out[2];
    KOLO_TRY(window(flow->node, &op.window, out));
    return kolo_weighted_forward(plan, flow, op, grouped_kernel(flow->node),
                                 flow->node->recipe.depthwise_conv2d.activation);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CONV2D_BACKWARD};
    int out[2];
    KOLO_TRY(window(flow->node, &op.window, out));
    return kolo_weighted_backward(plan, flow, op, grouped_kernel(flow->node),
                                  flow->node->recipe.depthwise_conv2d.activation);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, depthwise_conv2d, depth_multiplier),
    KOLO_PAIR(depthwise_conv2d, kernel),
    KOLO_PAIR(depthwise_conv2d, stride),
    KOLO_FIELD(KOLO_FIELD_PADDING, depthwise_conv2d, padding),
    KOLO_FIELD(KOLO_FIELD_ACTIVATION, depthwise_conv2d, activation),
    KOLO_FIELD(KOLO_FIELD_BOOL, depthwise_conv2d, no_bias),
    KOLO_FIELD(KOLO_FIELD_DOUBLE, depthwise_conv2d, l2),
    KOLO_PAIR(depthwise_conv2d, dilation),
    KOLO_FIELDS_END(depthwise_conv2d),
};

const kolo_layer_kind kolo_depthwise_conv2d_kind = {
    .name = "depthwise_conv2d", .fields = fields, .build = build, .forward = forward, .backward = backward};
