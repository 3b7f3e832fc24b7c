/* Transposed convolution: every element of x adds a multiple of the kernel to y:
 * y[h·stride + i − before][w·stride + j − before][f] += x[h][w][c] · kernel[i][j][f][c], then bias and activation.
 * This is the input gradient of a convolution from y to x; the operation has that convolution's window. Dumoulin and
 * Visin 2016. Sizes are those of Keras (compute_conv_transpose_output_length). The padding is that of TensorFlow: y is
 * padded so that the convolution from y gives x's size. */
#include "layers/common.h"

static kolo_shape kernel_shape(const kolo_layer_node *node)
{
    const kolo_conv2d_transpose_args *args = &node->recipe.conv2d_transpose;
    return (kolo_shape){4, {args->kernel[0], args->kernel[1], args->filters, node->in.dim[2]}};
}

static int64_t length_of(const kolo_conv2d_transpose_args *args, const kolo_window *window, int axis, int input)
{
    int64_t kernel = window->kernel[axis], stride = window->stride[axis], extra = args->output_padding[axis];
    bool same = args->padding == KOLO_SAME;
    if (extra == 0) return input * stride + (same || kernel < stride ? 0 : kernel - stride);
    return (input - 1) * stride + kernel - (same ? kernel / 2 * 2 : 0) + (extra == KOLO_NONE ? 0 : extra);
}

/* Sets y's size along an axis, and as many zeros around y as the convolution from y needs to give x's size. */
static kolo_status place(const kolo_layer_node *node, int axis, kolo_window *window, int *out)
{
    const kolo_conv2d_transpose_args *args = &node->recipe.conv2d_transpose;
    int extra = args->output_padding[axis], stride = window->stride[axis], input = node->in.dim[axis];
    int64_t length = length_of(args, window, axis, input), zeros;
    if (extra != KOLO_NONE && (extra < 0 || (extra > 0 && extra >= stride)))
        return kolo_fail(KOLO_INVALID, "output_padding[%d]: wanted 0 … %d, less than the stride, got %d", axis,
                         stride - 1, extra);
    KOLO_TRY(kolo_check_size(kolo_phrase("output size %d", axis + 1), (int)(length > INT32_MAX ? 0 : length)));
    zeros = (int64_t)(input - 1) * stride + window->kernel[axis] - length;
    if (args->padding != KOLO_SAME || zeros < 0) zeros = 0;
    window->before[axis] = (int)zeros / 2;
    window->after[axis] = (int)zeros - (int)zeros / 2;
    *out = (int)length;
    return KOLO_OK;
}

static kolo_status window(const kolo_layer_node *node, kolo_window *window, int out[2])
{
    const kolo_conv2d_transpose_args *args = &node->recipe.conv2d_transpose;
    const kolo_window_spec spec = {.what = "kernel",
                                   .size = {args->kernel[0], args->kernel[1]},
                                   .stride = {args->stride[0], args->stride[1]},
                                   .default_stride = {1, 1},
                                   .padding = args->padding};
    KOLO_TRY(kolo_window_check(node, &spec, window));
    for (int axis = 0; axis < 2; axis++) KOLO_TRY(place(node, axis, window, &out[axis]));
    return KOLO_OK;
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    kolo_conv2d_transpose_args *args = &node->recipe.conv2d_transpose;
    kolo_window place;
    int out[2];
    for (int axis = 0; axis < 2; axis++) kolo_keep_zero_int(args->_, "output_padding", &args->output_padding[axis]);
    KOLO_TRY(kolo_check_size("filters", args->filters));
    KOLO_TRY(window(node, &place, out));
    node->out = (kolo_shape){3, {out[0], out[1], args->filters}};
    kolo_shape kernel = kernel_shape(node);
    int64_t positions = (int64_t)kernel.dim[0] * kernel.dim[1];
    return kolo_declare_weighted(builder, node, kernel, positions * kernel.dim[2], positions * kernel.dim[3],
                                 &(kolo_weighted){args->activation, args->no_bias, args->l2});
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CONV2D_TRANSPOSE};
    int out[2];
    KOLO_TRY(window(flow->node, &op.window, out));
    return kolo_weighted_forward(plan, flow, op, kernel_shape(flow->node),
                                 flow->node->recipe.conv2d_transpose.activation);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    kolo_op op = {.kind = KOLO_OP_CONV2D_TRANSPOSE_BACKWARD};
    int out[2];
    KOLO_TRY(window(flow->node, &op.window, out));
    return kolo_weighted_backward(plan, flow, op, kernel_shape(flow->node),
                                  flow->node->recipe.conv2d_transpose.activation);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, conv2d_transpose, filters),
    KOLO_PAIR(conv2d_transpose, kernel),
    KOLO_PAIR(conv2d_transpose, stride),
    KOLO_FIELD(KOLO_FIELD_PADDING, conv2d_transpose, padding),
    KOLO_PAIR(conv2d_transpose, output_padding),
    KOLO_FIELD(KOLO_FIELD_ACTIVATION, conv2d_transpose, activation),
    KOLO_FIELD(KOLO_FIELD_BOOL, conv2d_transpose, no_bias),
    KOLO_FIELD(KOLO_FIELD_DOUBLE, conv2d_transpose, l2),
    KOLO_FIELDS_END(conv2d_transpose),
};

const kolo_layer_kind kolo_conv2d_transpose_kind = {
    .name = "conv2d_transpose", .fields = fields, .build = build, .forward = forward, .backward = backward};
