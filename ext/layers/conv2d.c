/* Convolution in two dimensions, channels last:
 * y[h][w][f] = activation(Σ_{i,j,c} x[h·stride + i − before][w·stride + j − before][c] · kernel[i][j][c][f] + bias[f]).
 * Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning". */
#include "layers/common.h"

static kolo_shape kernel_shape(const kolo_layer_node *node)
{
    const kolo_conv2d_args *args = &node->recipe.conv2d;
    return (kolo_shape){4, {args->kernel[0], args->kernel[1], node->in.dim[2], args->filters}};
}

static kolo_status window(const kolo_layer_node *node, kolo_window *window, int out[2])
{
    const kolo_conv2d_args *args = &node->recipe.conv2d;
    const int one[2] = {1, 1};
    return kolo_window_make(node, "kernel", args->kernel, args->stride, one, args->padding, window, out);
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    const kolo_conv2d_args *args = &node->recipe.conv2d;
    kolo_window place;
    int out[2];
    KOLO_TRY(kolo_check_size("filters", args->filters));
    KOLO_TRY(kolo_check_activation(args->activation));
    KOLO_TRY(kolo_check_l2(args->l2));
    KOLO_TRY(window(node, &place, out));
    node->out = (kolo_shape){3, {out[0], out[1], args->filters}};
    kolo_shape kernel = kernel_shape(node);
    KOLO_TRY(kolo_check_elements("output", node->out));
    KOLO_TRY(kolo_check_elements("kernel", kernel));
    int positions = kernel.dim[0] * kernel.dim[1];
    KOLO_TRY(kolo_declare_parameter(builder, node, "kernel", kernel, KOLO_INIT_GLOROT_UNIFORM,
                                    positions * node->in.dim[2], positions * args->filters));
    kolo_declared(builder)->l2 = args->l2;
    if (args->no_bias) return KOLO_OK;
    return kolo_declare_parameter(builder, node, "bias", (kolo_shape){1, {args->filters}}, KOLO_INIT_ZEROS, 0, 0);
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
    KOLO_FIELDS_END(conv2d),
};

const kolo_layer_kind kolo_conv2d_kind = {
    .name = "conv2d", .fields = fields, .build = build, .forward = forward, .backward = backward};
