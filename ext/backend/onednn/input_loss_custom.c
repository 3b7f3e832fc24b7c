/* The input and the loss of a plan, and custom operations. */
#include "backend/onednn/onednn.h"

/* The network's input gets the layout that a convolution which reads it prefers, so that no other step reorders it. */
kolo_status kolo_onednn_input(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    dnnl_memory_desc_t spec;
    kolo_operand x, from;
    KOLO_TRY(kolo_layout_set_plain(plan, op->in[0]));
    KOLO_TRY(kolo_desc_plain(plan, op->out[0], kolo_onednn_type(plan, op->out[0]), &spec));
    for (int i = 0; i < plan->op_count; i++) {
        const kolo_op *reader = &plan->ops[i];
        if (reader->kind == KOLO_OP_CONV2D && reader->in[0] == op->out[0]) {
            KOLO_TRY(kolo_conv2d_spec(plan, reader, &spec));
        }
    }
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &spec));
    from = kolo_operand_of(kernel, op->in[0]);
    x = kolo_operand_of(kernel, op->out[0]);
    return kolo_step_reorder(kernel, &from, &x);
}

static void compute_loss(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)step;
    kolo_host_loss(kernel->plan, &kernel->plan->ops[kernel->op], call);
}

kolo_status kolo_onednn_loss(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    if (op->out[0] >= 0) KOLO_TRY(kolo_layout_set(plan, op->out[0], &kolo_layout_of(plan, op->in[0])->desc));
    kernel->scratch = kolo_align(kolo_host_loss_scratch(plan, op), KOLO_ALIGNMENT);
    return kolo_step_loop(kernel, compute_loss, 0, NULL) ? KOLO_OK : KOLO_INTERNAL;
}

static void compute_own(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)step;
    kolo_host_custom(kernel->plan, &kernel->plan->ops[kernel->op], call);
}

kolo_status kolo_layout_set_plain(kolo_plan *plan, int value)
{
    if (value < 0 || kolo_layout_of(plan, value)) return KOLO_OK;
    const kolo_value *v = &plan->values[value];
    dnnl_memory_desc_t plain;
    if (v->kind != KOLO_VALUE_WEIGHTS && v->kind != KOLO_VALUE_GRADIENT) {
        KOLO_TRY(kolo_desc_plain(plan, value, dnnl_f32, &plain));
        return kolo_layout_set(plan, value, &plain);
    }
    KOLO_TRY(kolo_desc_rows(1, kolo_shape_count(v->shape), dnnl_f32, &plain));
    return kolo_layout_set_parameter(plan, value, &plain, &plain, NULL);
}

kolo_status kolo_onednn_custom(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    for (int i = 0; i < KOLO_OP_INS; i++) KOLO_TRY(kolo_layout_set_plain(plan, op->in[i]));
    for (int i = 0; i < KOLO_OP_OUTS; i++) KOLO_TRY(kolo_layout_set_plain(plan, op->out[i]));
    return kolo_step_loop(kernel, compute_own, 0, NULL) ? KOLO_OK : KOLO_INTERNAL;
}
