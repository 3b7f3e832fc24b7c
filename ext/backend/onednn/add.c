/* y = activation(x1 + x2), in the layout of x1, by a custom loop in the order of memory. A sum of gradients also takes
 * the gradient of the ReLU behind it (KOLO_FUSE_RELU_BACKWARD). */
#include "backend/onednn/onednn.h"
#include "core/vector.h"

#include <string.h>

KOLO_VECTORISED static void add_float(const float *x1, const float *x2, float *y, int64_t count, bool relu)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < count; i++) y[i] = x1[i] + x2[i];
#pragma GCC ivdep
    for (int64_t i = 0; relu && i < count; i++) y[i] = y[i] < 0 ? 0 : y[i];
}

static float widened(uint16_t narrow)
{
    uint32_t bits = (uint32_t)narrow << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to the nearest bfloat16, ties to even; NaN stays NaN. */
static uint16_t narrowed(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)(value != value ? quiet : rounded);
}

KOLO_VECTORISED static void add_bfloat16(const uint16_t *x1, const uint16_t *x2, uint16_t *y, int64_t count, bool relu)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < count; i++) {
        float sum = widened(x1[i]) + widened(x2[i]);
        y[i] = narrowed(relu && sum < 0 ? 0 : sum);
    }
}

/* y ← (x1 + x2) · [relu > 0]: NaN stays NaN, as in the pass of pointwise.c that this one replaces. */
KOLO_VECTORISED static void add_masked_float(const float *x1, const float *x2, const float *relu, float *y,
                                             int64_t count)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < count; i++) y[i] = (x1[i] + x2[i]) * (relu[i] <= 0 ? 0.0f : 1.0f);
}

KOLO_VECTORISED static void add_masked_bfloat16(const uint16_t *x1, const uint16_t *x2, const uint16_t *relu,
                                                uint16_t *y, int64_t count)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < count; i++) {
        float sum = widened(x1[i]) + widened(x2[i]);
        y[i] = narrowed(sum * (widened(relu[i]) <= 0 ? 0.0f : 1.0f));
    }
}

/* Operands: x1, x2, y. flag: relu. */
static void add(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)kernel;
    const void *x1 = kolo_operand_pointer(&step->operand[0], call), *x2 = kolo_operand_pointer(&step->operand[1], call);
    void *y = kolo_operand_pointer(&step->operand[2], call);
    if (step->bfloat16) add_bfloat16(x1, x2, y, step->elements, step->flag);
    if (!step->bfloat16) add_float(x1, x2, y, step->elements, step->flag);
}

/* Operands: x1, x2, y, the output of the ReLU. */
static void add_masked(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)kernel;
    const void *x1 = kolo_operand_pointer(&step->operand[0], call), *x2 = kolo_operand_pointer(&step->operand[1], call);
    const void *relu = kolo_operand_pointer(&step->operand[3], call);
    void *y = kolo_operand_pointer(&step->operand[2], call);
    if (step->bfloat16) add_masked_bfloat16(x1, x2, relu, y, step->elements);
    if (!step->bfloat16) add_masked_float(x1, x2, relu, y, step->elements);
}

kolo_status kolo_onednn_add(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    const kolo_op *relu = kolo_onednn_fused(plan, op);
    kolo_operand operands[4];
    dnnl_memory_desc_t layout = kolo_layout_of(plan, op->in[0])->desc;
    layout.data_type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &layout));
    for (int i = 0; i < 2; i++)
        KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[i]), &layout, &operands[i]));
    operands[2] = kolo_output_buffer(kernel, op->out[0], &layout);
    if (relu) KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, relu->in[1]), &layout, &operands[3]));
    kolo_step *step = kolo_step_loop(kernel, relu ? add_masked : add, relu ? 4 : 3, operands);
    if (!step) return KOLO_INTERNAL;
    step->flag = op->activation == KOLO_RELU;
    return kolo_reorder_out(kernel, operands[2], op->out[0]);
}
