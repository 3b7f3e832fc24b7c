/* Average pooling by oneDNN, in the tiling that the input has. */
#include "backend/onednn/onednn.h"

/* x and y: the descriptors of dx and dy, if `backward`. */
static kolo_status describe(const kolo_plan *plan, const kolo_op *op, bool backward, const dnnl_memory_desc_t *x,
                            const dnnl_memory_desc_t *y, dnnl_primitive_desc_t *made)
{
    const char *what = "an average pooling";
    dnnl_pooling_desc_t operation, reverse;
    dnnl_primitive_desc_t forward;
    const dnnl_alg_kind_t mean = dnnl_pooling_avg_exclude_padding;
    const kolo_window *w = &op->window;
    const dnnl_dims_t kernel = {w->kernel[0], w->kernel[1]}, stride = {w->stride[0], w->stride[1]};
    const dnnl_dims_t before = {w->before[0], w->before[1]}, after = {w->after[0], w->after[1]};
    dnnl_prop_kind_t kind = plan->training ? dnnl_forward_training : dnnl_forward_inference;
    KOLO_DNNL(dnnl_pooling_forward_desc_init(&operation, kind, mean, x, y, stride, kernel, before, after), what);
    if (!backward) return kolo_describe(&operation, false, NULL, what, made);
    KOLO_DNNL(dnnl_pooling_backward_desc_init(&reverse, mean, x, y, stride, kernel, before, after), what);
    KOLO_TRY(kolo_describe(&operation, false, NULL, what, &forward));
    return kolo_describe_backward(&reverse, forward, what, made);
}

kolo_status kolo_onednn_average_pool2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_DST};
    dnnl_memory_desc_t x, y;
    dnnl_primitive_desc_t made;
    kolo_operand operands[2];
    KOLO_TRY(kolo_desc_image(plan, op->in[0], &x));
    KOLO_TRY(kolo_desc_resized(plan, &x, plan->values[op->out[0]].shape, &y));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &y));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[0]), &x, &operands[0]));
    operands[1] = kolo_output_buffer(kernel, op->out[0], &y);
    KOLO_TRY(describe(plan, op, false, &x, &y, &made));
    KOLO_TRY(kolo_step_primitive(kernel, made, 2, arguments, operands));
    return kolo_reorder_out(kernel, operands[1], op->out[0]);
}

/* The forward operation of the same layer: dx gets the layout of its x. */
static const kolo_op *forward_of(const kolo_plan *plan, const kolo_op *op)
{
    const kolo_op *forward = plan->ops;
    while (forward->kind != KOLO_OP_AVERAGE_POOL2D || forward->layer != op->layer) forward++;
    return forward;
}

/* float32 where windows overlap, since oneDNN would round a bfloat16 sum after each window that it adds. */
static dnnl_data_type_t sum_type(const kolo_window *window, dnnl_data_type_t type)
{
    bool overlap = window->stride[0] < window->kernel[0] || window->stride[1] < window->kernel[1];
    return overlap ? dnnl_f32 : type;
}

kolo_status kolo_onednn_average_pool2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    const int arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC};
    dnnl_memory_desc_t dx, dy;
    dnnl_primitive_desc_t made;
    kolo_operand operands[2];
    KOLO_TRY(kolo_desc_image(plan, forward_of(plan, op)->in[0], &dx));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &dx));
    dx.data_type = sum_type(&op->window, dx.data_type);
    KOLO_TRY(kolo_desc_resized(plan, &dx, plan->values[op->in[0]].shape, &dy));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[0]), &dy, &operands[0]));
    operands[1] = kolo_output_buffer(kernel, op->out[0], &dx);
    KOLO_TRY(describe(plan, op, true, &dx, &dy, &made));
    KOLO_TRY(kolo_step_primitive(kernel, made, 2, arguments, operands));
    return kolo_reorder_out(kernel, operands[1], op->out[0]);
}
