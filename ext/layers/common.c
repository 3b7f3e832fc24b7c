/* Functions that several layers share: see common.h. */
#include "layers/common.h"

#include <limits.h>
#include <math.h>

kolo_status kolo_check_size(const char *option, int value)
{
    if (value >= 1 && value <= KOLO_SIZE_MAX) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted 1 … %d, got %d", option, KOLO_SIZE_MAX, value);
}

kolo_status kolo_check_activation(kolo_activation activation)
{
    if (activation == 0 || kolo_activation_name((int)activation)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "activation: wanted one of KOLO_LINEAR, KOLO_RELU, …, KOLO_ELU, got %d",
                     (int)activation);
}

const char *kolo_activation_name(int activation)
{
    static const char *const names[] = {[KOLO_LINEAR] = "KOLO_LINEAR",
                                        [KOLO_RELU] = "KOLO_RELU",
                                        [KOLO_SOFTMAX] = "KOLO_SOFTMAX",
                                        [KOLO_SIGMOID] = "KOLO_SIGMOID",
                                        [KOLO_TANH] = "KOLO_TANH",
                                        [KOLO_GELU] = "KOLO_GELU",
                                        [KOLO_GELU_TANH] = "KOLO_GELU_TANH",
                                        [KOLO_SILU] = "KOLO_SILU",
                                        [KOLO_LEAKY_RELU] = "KOLO_LEAKY_RELU",
                                        [KOLO_ELU] = "KOLO_ELU"};
    return activation > 0 && activation < (int)(sizeof names / sizeof *names) ? names[activation] : NULL;
}

kolo_status kolo_check_l2(double l2)
{
    if (l2 >= 0 && isfinite(l2)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "l2: wanted at least 0, got %g", l2);
}

kolo_status kolo_check_elements(const char *what, kolo_shape shape)
{
    int64_t count = 1;
    for (int axis = 0; axis < shape.rank && count <= INT_MAX; axis++) count *= shape.dim[axis];
    if (count <= INT_MAX) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "its %s %s is too large, wanted at most %d elements", what, kolo_shape_text(shape),
                     INT_MAX);
}

kolo_status kolo_check_image(const kolo_layer_node *node)
{
    if (node->in.rank == 3) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "its input is %s, wanted {height, width, channels}", kolo_shape_text(node->in));
}

/* The rows (axis 0) or columns (axis 1) that a window covers. */
static int64_t reach_of(const kolo_window *window, int axis)
{
    return (int64_t)(window->kernel[axis] - 1) * (window->gap[axis] + 1) + 1;
}

/* Sets the padding and the output's size along an axis. KOLO_SAME is TensorFlow's: output = ceil(input / stride), and
 * an odd zero is added at the end. https://www.tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2 */
static void place(kolo_window *window, int axis, int input, kolo_padding padding, int *out)
{
    int stride = window->stride[axis], covered = (int)reach_of(window, axis);
    int zeros = 0;
    *out = (input - covered) / stride + 1;
    if (padding == KOLO_SAME) {
        *out = (input - 1) / stride + 1;
        int reach = (*out - 1) * stride + covered;
        zeros = reach > input ? reach - input : 0;
    }
    window->before[axis] = zeros / 2;
    window->after[axis] = zeros - zeros / 2;
}

static bool given(const int pair[2])
{
    return pair[0] != 0 || pair[1] != 0;
}

kolo_status kolo_window_check(const kolo_layer_node *node, const kolo_window_spec *spec, kolo_window *window)
{
    *window = (kolo_window){.kernel = {spec->size[0], spec->size[1]}};
    KOLO_TRY(kolo_check_image(node));
    if ((int)spec->padding < 0 || spec->padding > KOLO_SAME)
        return kolo_fail(KOLO_INVALID, "padding: wanted KOLO_VALID or KOLO_SAME, got %d", (int)spec->padding);
    for (int axis = 0; axis < 2; axis++) {
        window->stride[axis] = given(spec->stride) ? spec->stride[axis] : spec->default_stride[axis];
        window->gap[axis] = given(spec->dilation) ? spec->dilation[axis] - 1 : 0;
        KOLO_TRY(kolo_check_size(kolo_phrase("%s[%d]", spec->what, axis), window->kernel[axis]));
        KOLO_TRY(kolo_check_size(kolo_phrase("stride[%d]", axis), window->stride[axis]));
        KOLO_TRY(kolo_check_size(kolo_phrase("dilation[%d]", axis), window->gap[axis] + 1));
        if (reach_of(window, axis) > KOLO_SIZE_MAX)
            return kolo_fail(KOLO_INVALID, "dilation[%d]: wanted a %s that covers at most %d elements, got %lld", axis,
                             spec->what, KOLO_SIZE_MAX, (long long)reach_of(window, axis));
    }
    return kolo_check_elements(spec->what, (kolo_shape){2, {spec->size[0], spec->size[1]}});
}

kolo_status kolo_window_make(const kolo_layer_node *node, const kolo_window_spec *spec, kolo_window *window, int out[2])
{
    KOLO_TRY(kolo_window_check(node, spec, window));
    int height = (int)reach_of(window, 0), width = (int)reach_of(window, 1);
    if (spec->padding != KOLO_SAME && (height > node->in.dim[0] || width > node->in.dim[1]))
        return kolo_fail(KOLO_INVALID, "%s {%d, %d}%s is larger than the input %s", spec->what, height, width,
                         window->gap[0] || window->gap[1] ? ", dilated," : "", kolo_shape_text(node->in));
    for (int axis = 0; axis < 2; axis++) place(window, axis, node->in.dim[axis], spec->padding, &out[axis]);
    return KOLO_OK;
}

kolo_status kolo_added(int *number, int value)
{
    *number = value;
    return value < 0 ? KOLO_MEMORY : KOLO_OK;
}

kolo_status kolo_view_forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_added(&flow->y, kolo_plan_view(plan, flow->x, flow->node->out));
}

kolo_status kolo_view_backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->dx = -1;
    return flow->need_dx ? kolo_added(&flow->dx, kolo_plan_view(plan, flow->dy, flow->node->in)) : KOLO_OK;
}

kolo_status kolo_simple_op(kolo_plan *plan, const kolo_layer_node *node, kolo_op op, kolo_shape shape, int *made)
{
    op.layer = node->number;
    if (op.activation == 0) op.activation = KOLO_LINEAR;
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, shape)));
    *made = op.out[0];
    return kolo_plan_op(plan, op);
}

kolo_status kolo_activation_forward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int x,
                                    int *y)
{
    kolo_op op = {.kind = KOLO_OP_ACTIVATION, .in = {x}, .activation = activation};
    return kolo_simple_op(plan, node, op, node->out, y);
}

kolo_status kolo_activation_backward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int dy,
                                     int y, int x, int *dx)
{
    bool of_x = activation == KOLO_GELU || activation == KOLO_GELU_TANH || activation == KOLO_SILU;
    kolo_op op = {
        .kind = KOLO_OP_ACTIVATION_BACKWARD, .in = {dy, of_x ? -1 : y, of_x ? x : -1}, .activation = activation};
    return kolo_simple_op(plan, node, op, node->out, dx);
}

kolo_status kolo_plan_custom(kolo_plan *plan, const kolo_layer_flow *flow,
                             void (*compute)(const kolo_custom_call *call), int in_count, const int *ins, int out_count,
                             int *outs, const kolo_shape *shapes)
{
    kolo_op op = {.kind = KOLO_OP_CUSTOM, .layer = flow->node->number, .activation = KOLO_LINEAR, .custom = compute};
    op.custom_args = &flow->node->recipe.custom;
    if (in_count > KOLO_OP_INS || out_count > KOLO_OP_OUTS)
        return kolo_fail(KOLO_INVALID, "wanted at most %d inputs and %d outputs of an operation, got %d and %d",
                         KOLO_OP_INS, KOLO_OP_OUTS, in_count, out_count);
    for (int i = 0; i < KOLO_OP_INS; i++) op.in[i] = i < in_count ? ins[i] : -1;
    for (int i = 0; i < KOLO_OP_OUTS; i++) op.out[i] = i < out_count ? outs[i] : -1;
    for (int i = 0; i < out_count; i++) {
        if (op.out[i] < 0) KOLO_TRY(kolo_added(&op.out[i], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, shapes[i])));
        outs[i] = op.out[i];
        plan->values[outs[i]].canonical = true;
    }
    for (int i = 0; i < in_count; i++)
        if (ins[i] >= 0) plan->values[ins[i]].canonical = true;
    return kolo_plan_op(plan, op);
}

kolo_status kolo_declare_weighted(kolo_model_builder *builder, kolo_layer_node *node, kolo_shape kernel, int64_t fan_in,
                                  int64_t fan_out, const kolo_weighted *weighted)
{
    KOLO_TRY(kolo_check_activation(weighted->activation));
    KOLO_TRY(kolo_check_l2(weighted->l2));
    KOLO_TRY(kolo_check_elements("output", node->out));
    KOLO_TRY(kolo_check_elements("kernel", kernel));
    KOLO_TRY(kolo_declare_parameter(builder, node, "kernel", kernel, KOLO_INIT_GLOROT_UNIFORM, (int)fan_in,
                                    (int)fan_out));
    kolo_declared(builder)->l2 = weighted->l2;
    if (weighted->no_bias) return KOLO_OK;
    kolo_shape bias = {1, {node->out.dim[node->out.rank - 1]}};
    return kolo_declare_parameter(builder, node, "bias", bias, KOLO_INIT_ZEROS, 0, 0);
}

/* The activation that the operation itself computes: relu. Others are separate operations. */
static kolo_activation fused(kolo_activation activation, const kolo_layer_flow *flow)
{
    return activation == KOLO_RELU && flow->left_out != KOLO_RELU ? KOLO_RELU : KOLO_LINEAR;
}

static bool apart(kolo_activation activation, const kolo_layer_flow *flow)
{
    return activation > KOLO_RELU && activation != flow->left_out;
}

kolo_status kolo_weighted_forward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                  kolo_activation activation)
{
    const kolo_layer_node *node = flow->node;
    kolo_shape bias = {1, {node->out.dim[node->out.rank - 1]}};
    op.layer = node->number;
    op.activation = fused(activation, flow);
    op.in[0] = flow->x;
    op.in[2] = -1;
    KOLO_TRY(kolo_added(&op.in[1], kolo_plan_weights(plan, node->parameters[0], kernel)));
    if (node->parameter_count > 1) {
        KOLO_TRY(kolo_added(&op.in[2], kolo_plan_weights(plan, node->parameters[1], bias)));
    }
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->out)));
    KOLO_TRY(kolo_plan_op(plan, op));
    flow->y = flow->saved[0] = op.out[0];
    if (!apart(activation, flow)) return KOLO_OK;
    return kolo_activation_forward(plan, node, activation, flow->saved[0], &flow->y);
}

kolo_status kolo_weighted_backward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                   kolo_activation activation)
{
    const kolo_layer_node *node = flow->node;
    kolo_shape bias = {1, {node->out.dim[node->out.rank - 1]}};
    op.layer = node->number;
    op.activation = fused(activation, flow);
    op.in[0] = flow->dy;
    op.in[1] = op.activation == KOLO_RELU ? flow->saved[0] : -1;
    op.in[2] = flow->x;
    op.in[3] = op.out[0] = op.out[2] = -1;
    if (apart(activation, flow)) {
        KOLO_TRY(kolo_activation_backward(plan, node, activation, flow->dy, flow->y, flow->saved[0], &op.in[0]));
    }
    if (flow->need_dx) {
        KOLO_TRY(kolo_added(&op.in[3], kolo_plan_weights(plan, node->parameters[0], kernel)));
        KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->in)));
    }
    KOLO_TRY(kolo_added(&op.out[1], kolo_plan_gradient(plan, node->parameters[0], kernel)));
    if (node->parameter_count > 1) {
        KOLO_TRY(kolo_added(&op.out[2], kolo_plan_gradient(plan, node->parameters[1], bias)));
    }
    flow->dx = op.out[0];
    return kolo_plan_op(plan, op);
}
