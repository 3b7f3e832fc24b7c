/* Convolutions, in the layouts that oneDNN prefers. Read convolution.h and product.c first. */
#include "backend/onednn/convolution.h"

/* Describes the forward convolution, *c, and makes the descriptor of its primitive. */
static kolo_status describe(const kolo_plan *plan, const kolo_op *op, kolo_convolution *c, dnnl_primitive_desc_t *made)
{
    kolo_shape x = plan->values[op->in[0]].shape, y = plan->values[op->out[0]].shape;
    KOLO_TRY(kolo_convolution_of(plan, &op->window, x, plan->values[op->in[1]].shape, y, kolo_activation_type(plan),
                                 kolo_onednn_type(plan, op->out[0]), c));
    KOLO_TRY(kolo_winograd_forward(c, op->in[2] >= 0, made));
    return *made ? KOLO_OK : kolo_convolution_forward(c, op->in[2] >= 0, op->activation == KOLO_RELU, made);
}

kolo_status kolo_conv2d_spec(const kolo_plan *plan, const kolo_op *op, dnnl_memory_desc_t *desc)
{
    kolo_convolution c;
    dnnl_primitive_desc_t forward;
    KOLO_TRY(describe(plan, op, &c, &forward));
    *desc = kolo_desc_of_rounds(dnnl_primitive_desc_query_md(forward, dnnl_query_src_md, 0), c.rounds);
    dnnl_primitive_desc_destroy(forward);
    return KOLO_OK;
}

kolo_status kolo_onednn_conv2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_convolution c;
    dnnl_primitive_desc_t forward;
    KOLO_TRY(describe(plan, op, &c, &forward));
    kolo_product p = {
        .kernel = kernel, .plan = plan, .canonical = &c.canonical_kernel, .bias = &c.bias, .rounds = c.rounds};
    p.relu_behind = op->activation == KOLO_RELU && c.algorithm == dnnl_convolution_winograd;
    return kolo_product_forward(&p, forward, kolo_operand_of(kernel, op->in[0]), op->in[1], op->in[2], op->out[0]);
}

/* ---- backward */

static kolo_status add_by_kernel(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_operand dz)
{
    kolo_convolution c;
    dnnl_primitive_desc_t made;
    kolo_shape x = plan->values[op->in[2]].shape, y = plan->values[op->in[0]].shape;
    dnnl_data_type_t type = kolo_convolution_gradient_type(plan, y.dim[1]);
    KOLO_TRY(kolo_convolution_of(plan, &op->window, x, plan->values[op->out[1]].shape, y, type, type, &c));
    KOLO_TRY(kolo_winograd_by_kernel(&c, op->out[2] >= 0, &made));
    if (!made) KOLO_TRY(kolo_convolution_by_kernel(&c, op->out[2] >= 0, &made));
    const kolo_product p = {.kernel = kernel, .plan = plan, .canonical = &c.canonical_kernel, .bias = &c.bias};
    return kolo_product_gradient(&p, made, kolo_operand_of(kernel, op->in[2]), dz, op->out[1], op->out[2]);
}

static kolo_status add_by_x(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_operand dz)
{
    kolo_convolution c;
    dnnl_primitive_desc_t made;
    kolo_shape x = plan->values[op->in[2]].shape, y = plan->values[op->in[0]].shape;
    dnnl_data_type_t type = kolo_activation_type(plan);
    KOLO_TRY(kolo_convolution_of(plan, &op->window, x, plan->values[op->in[3]].shape, y, type, type, &c));
    KOLO_TRY(kolo_winograd_by_x(&c, &made));
    if (!made) KOLO_TRY(kolo_convolution_by_x(&c, &made));
    const kolo_product p = {.kernel = kernel, .plan = plan, .canonical = &c.canonical_kernel, .rounds = c.rounds};
    const dnnl_memory_desc_t written =
        kolo_desc_of_rounds(dnnl_primitive_desc_query_md(made, dnnl_query_diff_src_md, 0), c.rounds);
    kolo_status status = kolo_layout_set(plan, op->out[0], &written);
    if (status != KOLO_OK) {
        dnnl_primitive_desc_destroy(made);
        return status;
    }
    kolo_operand dx = kolo_output_buffer(kernel, op->out[0], &written);
    KOLO_TRY(kolo_product_backward(&p, made, dz, op->in[3], dx));
    int after = kernel->step_count;
    KOLO_TRY(kolo_reorder_out(kernel, dx, op->out[0]));
    kolo_steps_last(kernel, after);
    return KOLO_OK;
}

kolo_status kolo_onednn_conv2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand dz;
    KOLO_TRY(kolo_relu_backward(kernel, op, &dz));
    KOLO_TRY(add_by_kernel(kernel, plan, op, dz));
    return op->out[0] < 0 ? KOLO_OK : add_by_x(kernel, plan, op, dz);
}
