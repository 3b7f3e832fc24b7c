/* KOLO_MIXED_FP16. oneDNN 2.6 does not support halves on a CPU, so every operation computes in float32 on values that
 * are rounded to halves: canonical inputs before the operation, since code outside the backend may have written them;
 * outputs after the operation; weights when they are packed. The results are right, but these passes make it slower
 * than float32. */
#include "backend/onednn/onednn.h"

static void round_operand(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)kernel;
    kolo_host_round_half(kolo_operand_pointer(&step->operand[0], call), step->elements);
}

/* Canonical values, which code outside the backend sees (features, outputs, gradients, the operands of custom
 * operations), stay float32 until an operation other than a loss or a custom one reads them. */
kolo_status kolo_onednn_round(kolo_kernel *kernel, int value, bool canonical)
{
    const kolo_plan *plan = kernel->plan;
    kolo_op_kind op = plan->ops[kernel->op].kind;
    if (plan->precision != KOLO_MIXED_FP16 || value < 0 || op == KOLO_OP_LOSS || op == KOLO_OP_CUSTOM) return KOLO_OK;
    bool wanted = plan->values[value].kind == KOLO_VALUE_ACTIVATION && kolo_plan_canonical(plan, value) == canonical;
    kolo_operand operand = wanted ? kolo_operand_of(kernel, value) : (kolo_operand){0};
    return !wanted || kolo_step_loop(kernel, round_operand, 1, &operand) ? KOLO_OK : KOLO_INTERNAL;
}

kolo_status kolo_onednn_pack_any(const kolo_plan *plan, int value, const float *canonical, void *packed)
{
    KOLO_TRY(kolo_onednn_pack(plan, value, canonical, packed));
    bool rounded = plan->precision == KOLO_MIXED_FP16 && plan->values[value].shape.rank > 1; /* not biases */
    bool own = kolo_plan_canonical(plan, value);
    if (rounded && !own) kolo_host_round_half(packed, (int64_t)(plan->values[value].bytes / sizeof(float)));
    return KOLO_OK;
}
