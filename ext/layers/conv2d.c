/* Convolution in two dimensions, channels last, in .groups groups of channels (default 1):
 * y[h][w][f] = activation(Σ_{i,j,c} x[h·stride + i·dilation − before][w·stride + j·dilation − before][first(f) + c] ·
 *                         kernel[i][j][c][f] + bias[f]), where first(f) is the first channel of filter f's group.
 * Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning". */
#include "layers/common.h"

static int groups_of(const kolo_layer_node *node)
{
    return node->recipe.conv2d.groups ? node->recipe.conv2d.groups : 1;
}

static kolo_shape kernel_shape(const kolo_layer_node *node)
{
    const kolo_conv2d_args *args = &node->recipe.conv2d;
    return (kolo_shape){4, {args->kernel[0], args->kernel[1], node->in.dim[2] / groups_of(node), args->filters}};
}

static kolo_status window(const kolo_layer_node *node, kolo_window *window, int out[2])
{
    const kolo_conv2d_args *args = &node->recipe.conv2d;
    const kolo_window_spec spec = {.what = "kernel",
                                   .size = {args->kernel[0], args->kernel[1]},
                                   .stride = {args->stride[0], args->stride[1]},
                                   .default_stride = {1, 1},
                                   .dilation = {args->dilation[0], args->dilation[1]},
                                   .padding = args->padding};
    return kolo_window_make(node, &spec, window, out);
}

static kolo_status check_groups(const kolo_layer_node *node)
{
    int groups = groups_of(node), channels = node->in.dim[2], filters = node->recipe.conv2d.filters;
    KOLO_TRY(kolo_check_size("groups", groups));
    if (channels % groups == 0 && filters % groups == 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "groups: wanted a divisor of %d channels and of %d filters, got %d", channels,
                     filters, groups);
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    const kolo_conv2d_args *args = &node->recipe.conv2d;
    kolo_window place;
    int out[2];
    KOLO_TRY(kolo_check_size("filters", args->filters));
    KOLO_TRY(window(node, &place, out));
    KOLO_TRY(check_groups(node));
    node->out = (kolo_shape){3, {out[0], out[1], args->filters}};
    kolo_shape kernel = kernel_shape(node);
    int64_t positions = (int64_t)kernel.dim[0] * kernel.dim[1];
    return kolo_declare_weighted(builder, node, kernel, positions * kernel.dim[2], positions * args->filters,
                                 &(kolo_weighted){args->activation, args->no_bias, args->l2});
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CONV2D};
    int out[2];
    KOLO_TRY(window(flow->node, &op.window, out));
    return kolo_weighted_forward(plan, flow, op, kernel_shape(flow->node), flow->node->recipe.conv2d.activation);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CONV2D_BACKWARD};
    int out[2];
    KOLO_TRY(window(flow->node, &op.window, out));
    return kolo_weighted_backward(plan, flow, op, kernel_shape(flow->node), flow->node->recipe.conv2d.activation);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, conv2d, filters),
    KOLO_PAIR(conv2d, kernel),
    KOLO_PAIR(conv2d, stride),
    KOLO_FIELD(KOLO_FIELD_PADDING, conv2d, padding),
    KOLO_FIELD(KOLO_FIELD_ACTIVATION, conv2d, activation),
    KOLO_FIELD(KOLO_FIELD_BOOL, conv2d, no_bias),
    KOLO_FIELD(KOLO_FIELD_DOUBLE, conv2d, l2),
    KOLO_FIELD(KOLO_FIELD_INT, conv2d, groups),
    KOLO_PAIR(conv2d, dilation),
    KOLO_FIELDS_END(conv2d),
};

const kolo_layer_kind kolo_conv2d_kind = {
    .name = "conv2d", .fields = fields, .build = build, .forward = forward, .backward = backward};
