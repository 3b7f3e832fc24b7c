/* Transposed convolution, by the convolution from y to x with the same kernel {kh, kw, filters, channels}: the input
 * gradient of that convolution gives y, and its forward pass gives dx. Custom loops add and sum biases (bias.c). */
#include "backend/onednn/convolution.h"

static const dnnl_memory_desc_t *query(dnnl_primitive_desc_t descriptor, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(descriptor, what, 0);
}

/* The primitive computes z = Σ x · kernel in the layout that it prefers; then, if `finish`, a loop adds the bias and
 * applies the ReLU on the way from z to y. z is float32 then, and lies in scratch memory if y is bfloat16, so that y is
 * rounded once. */
static kolo_status add_y(const kolo_product *p, const kolo_op *op, dnnl_primitive_desc_t made, bool finish)
{
    const dnnl_memory_desc_t z_desc = *query(made, dnnl_query_diff_src_md);
    dnnl_memory_desc_t y_desc = z_desc;
    kolo_kernel *kernel = p->kernel;
    kolo_status status;
    y_desc.data_type = kolo_onednn_type(p->plan, op->out[0]);
    KOLO_GO(fail, kolo_layout_set(p->plan, op->out[0], &y_desc));
    KOLO_GO(fail, kolo_layout_set_plain(p->plan, op->in[2]));
    kolo_operand y = kolo_output_buffer(kernel, op->out[0], &y_desc);
    bool apart = z_desc.data_type != y_desc.data_type;
    kolo_operand z = apart ? kolo_operand_scratch(kernel, &z_desc) : y;
    KOLO_TRY(kolo_product_backward(p, made, kolo_operand_of(kernel, op->in[0]), op->in[1], z));
    if (finish) KOLO_TRY(kolo_bias_add(kernel, z, op->in[2], op->activation == KOLO_RELU, y));
    return kolo_reorder_out(kernel, y, op->out[0]);
fail:
    dnnl_primitive_desc_destroy(made);
    return status;
}

kolo_status kolo_onednn_conv2d_transpose(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_convolution c;
    dnnl_primitive_desc_t made;
    kolo_shape x = plan->values[op->in[0]].shape, y = plan->values[op->out[0]].shape;
    bool finish = op->in[2] >= 0 || op->activation == KOLO_RELU;
    dnnl_data_type_t type = kolo_activation_type(plan), z_type = finish ? dnnl_f32 : kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(kolo_convolution_of(plan, &op->window, y, plan->values[op->in[1]].shape, x, z_type, type, &c));
    KOLO_TRY(kolo_convolution_by_x(&c, &made));
    const kolo_product p = {.kernel = kernel, .plan = plan, .canonical = &c.canonical_kernel};
    return add_y(&p, op, made, finish);
}

/* ---- backward */

static kolo_status add_by_kernel(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_operand dz)
{
    kolo_convolution c;
    dnnl_primitive_desc_t made;
    kolo_shape x = plan->values[op->in[2]].shape, y = plan->values[op->in[0]].shape;
    dnnl_data_type_t type = kolo_convolution_gradient_type(plan, x.dim[1]);
    KOLO_TRY(kolo_convolution_of(plan, &op->window, y, plan->values[op->out[1]].shape, x, type, type, &c));
    KOLO_TRY(kolo_convolution_by_kernel(&c, false, &made));
    const kolo_product p = {.kernel = kernel, .plan = plan, .canonical = &c.canonical_kernel};
    return kolo_product_gradient(&p, made, dz, kolo_operand_of(kernel, op->in[2]), op->out[1], -1);
}

static kolo_status add_by_x(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_operand dz)
{
    kolo_convolution c;
    dnnl_primitive_desc_t made;
    kolo_shape x = plan->values[op->in[2]].shape, y = plan->values[op->in[0]].shape;
    KOLO_TRY(kolo_convolution_of(plan, &op->window, y, plan->values[op->in[3]].shape, x, kolo_activation_type(plan),
                                 kolo_onednn_type(plan, op->out[0]), &c));
    KOLO_TRY(kolo_convolution_forward(&c, false, false, &made));
    const kolo_product p = {.kernel = kernel, .plan = plan, .canonical = &c.canonical_kernel};
    return kolo_product_forward(&p, made, dz, op->in[3], -1, op->out[0]);
}

/* Reorders dz first if it is not an image in a tiling, which the loop needs. */
static kolo_status add_by_bias(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_operand dz)
{
    kolo_tiling tiling;
    KOLO_TRY(kolo_layout_set_plain(plan, op->out[2]));
    int channels = plan->values[op->in[0]].shape.dim[2];
    bool image = dz.desc.ndims == 4 && dz.desc.dims[1] == channels && kolo_tiling_of(&dz.desc, &tiling);
    dnnl_memory_desc_t plain;
    KOLO_TRY(kolo_desc_plain(plan, op->in[0], dz.desc.data_type, &plain));
    if (!image) KOLO_TRY(kolo_reorder_in(kernel, dz, &plain, &dz));
    return kolo_bias_sum(kernel, dz, op->out[2]);
}

kolo_status kolo_onednn_conv2d_transpose_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand dz;
    KOLO_TRY(kolo_relu_backward(kernel, op, &dz));
    KOLO_TRY(add_by_kernel(kernel, plan, op, dz));
    if (op->out[2] >= 0) KOLO_TRY(add_by_bias(kernel, plan, op, dz));
    return op->out[0] < 0 ? KOLO_OK : add_by_x(kernel, plan, op, dz);
}
