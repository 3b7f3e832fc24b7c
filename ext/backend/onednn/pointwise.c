/* All activations but softmax, element by element in the order of memory, sixteen at a time (core/lanes_math.h). The
 * formulas are in backend/reference/activation.c. */
#include "backend/onednn/onednn.h"
#include "core/lanes_math.h"
#include "core/vector.h"
#include "layers/layer.h"

typedef kolo_floats (*curve)(kolo_floats x);
typedef kolo_floats (*slope)(kolo_floats known); /* y, or x where the derivative is no function of y */

/* ---- values */

KOLO_INLINE kolo_floats relu(kolo_floats x)
{
    return kolo_select_floats(x < 0, (kolo_floats){0}, x);
}

KOLO_INLINE kolo_floats leaky_relu(kolo_floats x)
{
    return kolo_select_floats(x < 0, x * 0.2f, x);
}

/* exp(x) − 1 = 2t / (1 − t) with t = tanh(x/2), which keeps all digits near 0. */
KOLO_INLINE kolo_floats elu(kolo_floats x)
{
    kolo_floats t = kolo_floats_tanh(x * 0.5f);
    return kolo_select_floats(x < 0, 2 * t / (1 - t), x);
}

KOLO_INLINE kolo_floats gelu(kolo_floats x)
{
    return x * kolo_floats_normal(x, NULL);
}

KOLO_INLINE kolo_floats silu(kolo_floats x)
{
    return x * kolo_floats_sigmoid(x);
}

#define TWICE_ROOT 1.59576912f /* 2 √(2/π) */

KOLO_INLINE kolo_floats gelu_tanh(kolo_floats x)
{
    return x * kolo_floats_sigmoid(TWICE_ROOT * x * (1 + 0.044715f * x * x));
}

/* ---- slopes */

KOLO_INLINE kolo_floats relu_slope(kolo_floats y)
{
    return kolo_select_floats(y <= 0, (kolo_floats){0}, kolo_floats_of(1));
}

KOLO_INLINE kolo_floats leaky_relu_slope(kolo_floats y)
{
    return kolo_select_floats(y < 0, kolo_floats_of(0.2f), kolo_floats_of(1));
}

KOLO_INLINE kolo_floats elu_slope(kolo_floats y)
{
    return kolo_select_floats(y < 0, y + 1, kolo_floats_of(1));
}

KOLO_INLINE kolo_floats sigmoid_slope(kolo_floats y)
{
    return y * (1 - y);
}

KOLO_INLINE kolo_floats tanh_slope(kolo_floats y)
{
    return (1 - y) * (1 + y);
}

KOLO_INLINE kolo_floats gelu_slope(kolo_floats x)
{
    kolo_floats density, normal = kolo_floats_normal(x, &density);
    return normal + x * density;
}

KOLO_INLINE kolo_floats silu_slope(kolo_floats x)
{
    kolo_floats s = kolo_floats_sigmoid(x);
    return s + x * s * (1 - s);
}

KOLO_INLINE kolo_floats gelu_tanh_slope(kolo_floats x)
{
    x = kolo_floats_clamp(x, -1e6f, 1e6f); /* so that no product below is infinite */
    kolo_floats s = kolo_floats_sigmoid(TWICE_ROOT * x * (1 + 0.044715f * x * x));
    return s + x * s * (1 - s) * (TWICE_ROOT * (1 + 3 * 0.044715f * x * x));
}

/* ---- over memory; `narrow` and the function are constants where these are inlined */

KOLO_INLINE void values(curve f, const void *x, void *y, int64_t count, int narrow)
{
    int64_t i = 0;
    for (; i + KOLO_LANES <= count; i += KOLO_LANES)
        kolo_put(y, i, f(kolo_get(x, i, KOLO_LANES, narrow)), KOLO_LANES, narrow);
    if (i < count) kolo_put(y, i, f(kolo_get(x, i, count - i, narrow)), count - i, narrow);
}

KOLO_INLINE void slopes(slope f, const void *dy, const void *known, void *dx, int64_t count, int narrow)
{
    int64_t i = 0;
    for (; i + KOLO_LANES <= count; i += KOLO_LANES) {
        kolo_floats at = kolo_get(known, i, KOLO_LANES, narrow), d = kolo_get(dy, i, KOLO_LANES, narrow);
        kolo_put(dx, i, d * f(at), KOLO_LANES, narrow);
    }
    if (i == count) return;
    kolo_floats at = kolo_get(known, i, count - i, narrow), d = kolo_get(dy, i, count - i, narrow);
    kolo_put(dx, i, d * f(at), count - i, narrow);
}

/* One function for each activation and type, in the versions of KOLO_VECTORISED. */
#define LOOPS(name, value, derivative)                                                                                 \
    KOLO_ALL_TYPES(name, (const void *x, void *y, int64_t count), values(value, x, y, count, narrow))                  \
    KOLO_ALL_TYPES(name##_back, (const void *dy, const void *known, void *dx, int64_t count),                          \
                   slopes(derivative, dy, known, dx, count, narrow))

LOOPS(relu, relu, relu_slope)
LOOPS(sigmoid, kolo_floats_sigmoid, sigmoid_slope)
LOOPS(tanh, kolo_floats_tanh, tanh_slope)
LOOPS(gelu, gelu, gelu_slope)
LOOPS(gelu_tanh, gelu_tanh, gelu_tanh_slope)
LOOPS(silu, silu, silu_slope)
LOOPS(leaky_relu, leaky_relu, leaky_relu_slope)
LOOPS(elu, elu, elu_slope)

#define ROW(name)                                                                                                      \
    {                                                                                                                  \
        {name##_float, name##_bfloat16, name##_by_cpu},                                                                \
        {                                                                                                              \
            name##_back_float, name##_back_bfloat16, name##_back_by_cpu                                                \
        }                                                                                                              \
    }
static const struct {
    void (*forward[3])(const void *x, void *y, int64_t count);
    void (*backward[3])(const void *dy, const void *known, void *dx, int64_t count);
} loops[] = {
    [KOLO_RELU] = ROW(relu), [KOLO_SIGMOID] = ROW(sigmoid),       [KOLO_TANH] = ROW(tanh),
    [KOLO_GELU] = ROW(gelu), [KOLO_GELU_TANH] = ROW(gelu_tanh),   [KOLO_SILU] = ROW(silu),
    [KOLO_ELU] = ROW(elu),   [KOLO_LEAKY_RELU] = ROW(leaky_relu),
};

/* ---- steps */

static kolo_activation activation_of(const kolo_kernel *kernel)
{
    return kernel->plan->ops[kernel->op].activation;
}

/* Operands: x, y. The padding of the last block of channels must stay zero, but σ(0) is not zero. */
static void forward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    void *y = kolo_operand_pointer(&step->operand[1], call);
    loops[activation_of(kernel)].forward[KOLO_NARROW(step->bfloat16)](kolo_operand_pointer(&step->operand[0], call), y,
                                                                      step->elements);
    if (activation_of(kernel) == KOLO_SIGMOID)
        kolo_tiling_clear(step->x, y, kernel->plan->microbatch, step->bfloat16 ? sizeof(uint16_t) : sizeof(float));
}

/* Operands: dy, y or x, dx. */
static void backward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const void *dy = kolo_operand_pointer(&step->operand[0], call),
               *known = kolo_operand_pointer(&step->operand[1], call);
    void *dx = kolo_operand_pointer(&step->operand[2], call);
    loops[activation_of(kernel)].backward[KOLO_NARROW(step->bfloat16)](dy, known, dx, step->elements);
}

/* All operands get the layout of the value `like`: x, or the y or x that the derivative is a function of. */
static kolo_status add_step(kolo_kernel *kernel, kolo_plan *plan, int count, const int *in, int like, int out)
{
    kolo_operand operands[3];
    dnnl_memory_desc_t layout = kolo_layout_of(plan, like)->desc;
    layout.data_type = kolo_onednn_type(plan, out);
    KOLO_TRY(kolo_layout_set(plan, out, &layout));
    for (int i = 0; i < count; i++)
        KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, in[i]), &layout, &operands[i]));
    operands[count] = kolo_output_buffer(kernel, out, &layout);
    kolo_step *step = kolo_step_loop(kernel, count == 1 ? forward : backward, count + 1, operands);
    if (!step) return KOLO_INTERNAL;
    kolo_tiling_of(&layout, &step->x);
    return kolo_reorder_out(kernel, operands[count], out);
}

static kolo_status check(const kolo_op *op)
{
    size_t number = (size_t)op->activation;
    if (number < sizeof loops / sizeof *loops && loops[number].forward[0]) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED, "wanted an activation of the loops of backend onednn, got %s",
                     kolo_activation_name((int)op->activation));
}

kolo_status kolo_onednn_pointwise(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    KOLO_TRY(check(op));
    return add_step(kernel, plan, 1, op->in, op->in[0], op->out[0]);
}

kolo_status kolo_onednn_pointwise_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    int known = op->in[1] >= 0 ? op->in[1] : op->in[2];
    KOLO_TRY(check(op));
    return add_step(kernel, plan, 2, (const int[]){op->in[0], known}, known, op->out[0]);
}
