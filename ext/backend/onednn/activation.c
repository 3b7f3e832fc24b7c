/* The gradient of a fused ReLU, by custom loops; softmax, by oneDNN. The other activations are in pointwise.c. */
#include "backend/onednn/onednn.h"
#include "core/vector.h"

/* ---- the gradient of a ReLU that is fused into a convolution or a dense layer */

/* dz = dy·[y > 0]. dz may be dy itself: each element is read before it is written. */
KOLO_VECTORISED static void mask_float(const float *dy, const float *restrict y, float *dz, int64_t count)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < count; i++) dz[i] = y[i] <= 0 ? 0 : dy[i];
}

KOLO_VECTORISED static void mask_bfloat16(const int16_t *dy, const int16_t *restrict y, int16_t *dz, int64_t count)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < count; i++) dz[i] = y[i] <= 0 ? 0 : dy[i];
}

static void relu_backward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)kernel;
    const void *dy = kolo_operand_pointer(&step->operand[0], call), *y = kolo_operand_pointer(&step->operand[1], call);
    void *dz = kolo_operand_pointer(&step->operand[2], call);
    if (step->bfloat16) mask_bfloat16(dy, y, dz, step->elements);
    if (!step->bfloat16) mask_float(dy, y, dz, step->elements);
}

/* dz overwrites dy, which is in the cache already, if no other operation reads dy and dy need not be canonical. */
kolo_status kolo_relu_backward(kolo_kernel *kernel, const kolo_op *op, kolo_operand *dz)
{
    const kolo_plan *plan = kernel->plan;
    *dz = kolo_operand_of(kernel, op->in[0]);
    if (op->activation != KOLO_RELU) return KOLO_OK;
    kolo_operand y = kolo_operand_of(kernel, op->in[1]), dy;
    KOLO_TRY(kolo_reorder_in(kernel, *dz, &y.desc, &dy));
    bool ours = dy.value < 0 || (kolo_plan_only_reader(plan, op->in[0]) && !kolo_plan_canonical(plan, op->in[0]));
    *dz = ours ? dy : kolo_operand_scratch(kernel, &y.desc);
    const kolo_operand operands[] = {dy, y, *dz};
    return kolo_step_loop(kernel, relu_backward, 3, operands) ? KOLO_OK : KOLO_INTERNAL;
}

/* ---- softmax, over the last axis: rows in the canonical order */

/* *operand becomes the value in the canonical order and in that type, with a descriptor of rows. */
static kolo_status reorder_rows_in(kolo_kernel *kernel, int value, dnnl_data_type_t type, kolo_operand *operand)
{
    kolo_shape shape = kernel->plan->values[value].shape;
    int64_t last = shape.dim[shape.rank - 1];
    KOLO_TRY(kolo_plain_in(kernel, value, type, operand));
    return kolo_desc_rows(kernel->plan->microbatch * (kolo_shape_count(shape) / last), last, type, &operand->desc);
}

static kolo_status softmax_forward(const kolo_plan *plan, const dnnl_memory_desc_t *rows, dnnl_primitive_desc_t *made)
{
    dnnl_softmax_desc_t operation;
    dnnl_prop_kind_t kind = plan->training ? dnnl_forward_training : dnnl_forward_inference;
    KOLO_DNNL(dnnl_softmax_forward_desc_init(&operation, kind, rows, 1), "a softmax");
    return kolo_describe(&operation, false, NULL, "a softmax", made);
}

static kolo_status add_softmax(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_DST};
    dnnl_primitive_desc_t forward;
    kolo_operand operands[2], y;
    dnnl_data_type_t type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(reorder_rows_in(kernel, op->in[0], type, &operands[0]));
    KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], type, &y));
    KOLO_TRY(softmax_forward(plan, &operands[0].desc, &forward));
    operands[1] = y;
    operands[1].desc = operands[0].desc;
    KOLO_TRY(kolo_step_primitive(kernel, forward, 2, arguments, operands));
    return kolo_reorder_out(kernel, y, op->out[0]);
}

static kolo_status add_softmax_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    const int arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_DST, DNNL_ARG_DIFF_SRC};
    dnnl_primitive_desc_t forward, made;
    dnnl_softmax_desc_t operation;
    kolo_operand operands[3], dx;
    dnnl_data_type_t type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(reorder_rows_in(kernel, op->in[0], type, &operands[0]));
    KOLO_TRY(reorder_rows_in(kernel, op->in[1], type, &operands[1]));
    KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], type, &dx));
    operands[2] = dx;
    operands[2].desc = operands[0].desc;
    KOLO_DNNL(dnnl_softmax_backward_desc_init(&operation, &operands[0].desc, &operands[0].desc, 1), "a softmax");
    KOLO_TRY(softmax_forward(plan, &operands[0].desc, &forward));
    KOLO_TRY(kolo_describe_backward(&operation, forward, "a softmax", &made));
    KOLO_TRY(kolo_step_primitive(kernel, made, 3, arguments, operands));
    return kolo_reorder_out(kernel, dx, op->out[0]);
}

/* ---- operations */

kolo_status kolo_onednn_activation(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    bool rows = op->activation == KOLO_SOFTMAX;
    return rows ? add_softmax(kernel, plan, op) : kolo_onednn_pointwise(kernel, plan, op);
}

kolo_status kolo_onednn_activation_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    bool rows = op->activation == KOLO_SOFTMAX;
    return rows ? add_softmax_backward(kernel, plan, op) : kolo_onednn_pointwise_backward(kernel, plan, op);
}
