/* Convolutions: direct ones (not Winograd's, whose error is larger), in whatever layout oneDNN likes best. */
#include "backend/onednn/onednn.h"

/* The operands as oneDNN sees them, each in any layout, and the geometry. */
typedef struct convolution {
    dnnl_memory_desc_t x, kernel, bias, y, dkernel;
    dnnl_memory_desc_t canonical_kernel; /* {height, width, channels, filters} in memory */
    dnnl_dims_t stride, before, after;
} convolution;

static dnnl_data_type_t type_of(const kolo_plan *plan)
{
    return plan->precision == KOLO_MIXED_BF16 ? dnnl_bf16 : dnnl_f32;
}

static kolo_status convolution_of(const kolo_plan *plan, const kolo_window *window, kolo_shape x, kolo_shape y,
                                  dnnl_data_type_t type, dnnl_data_type_t y_type, convolution *c)
{
    dnnl_dims_t kernel = {y.dim[2], x.dim[2], window->kernel[0], window->kernel[1]}, bias = {y.dim[2]};
    for (int axis = 0; axis < 2; axis++) {
        c->stride[axis] = window->stride[axis];
        c->before[axis] = window->before[axis];
        c->after[axis] = window->after[axis];
    }
    KOLO_TRY(kolo_desc_any(plan, x, type, &c->x));
    KOLO_TRY(kolo_desc_any(plan, y, y_type, &c->y));
    KOLO_DNNL(dnnl_memory_desc_init_by_tag(&c->kernel, 4, kernel, type, dnnl_format_tag_any), "a kernel");
    KOLO_DNNL(dnnl_memory_desc_init_by_tag(&c->dkernel, 4, kernel, dnnl_f32, dnnl_format_tag_any), "a kernel");
    KOLO_DNNL(dnnl_memory_desc_init_by_tag(&c->canonical_kernel, 4, kernel, dnnl_f32, dnnl_hwio), "a kernel");
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(&c->bias, 1, bias, dnnl_f32, dnnl_a), "a bias");
}

static kolo_status describe(const dnnl_convolution_desc_t *operation, bool relu, const_dnnl_primitive_desc_t forward,
                            dnnl_primitive_desc_t *made)
{
    dnnl_primitive_attr_t attributes;
    KOLO_TRY(kolo_attributes(relu, &attributes));
    dnnl_status_t status = dnnl_primitive_desc_create(made, operation, attributes, kolo_onednn_engine(), forward);
    dnnl_primitive_attr_destroy(attributes);
    return kolo_onednn_check(status, "a convolution");
}

static kolo_status describe_forward(const kolo_plan *plan, const convolution *c, bool bias, bool relu,
                                    dnnl_primitive_desc_t *made)
{
    dnnl_convolution_desc_t operation;
    dnnl_prop_kind_t kind = plan->training ? dnnl_forward_training : dnnl_forward_inference;
    KOLO_DNNL(dnnl_convolution_forward_desc_init(&operation, kind, dnnl_convolution_direct, &c->x, &c->kernel,
                                                 bias ? &c->bias : NULL, &c->y, c->stride, c->before, c->after),
              "a convolution");
    return describe(&operation, relu, NULL, made);
}

static const dnnl_memory_desc_t *query(dnnl_primitive_desc_t descriptor, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(descriptor, what, 0);
}

kolo_status kolo_conv2d_wish(const kolo_plan *plan, const kolo_op *op, dnnl_memory_desc_t *desc)
{
    convolution c;
    dnnl_primitive_desc_t forward;
    kolo_shape x = plan->values[op->in[0]].shape, y = plan->values[op->out[0]].shape;
    KOLO_TRY(convolution_of(plan, &op->window, x, y, type_of(plan), kolo_onednn_type(plan, op->out[0]), &c));
    KOLO_TRY(describe_forward(plan, &c, op->in[2] >= 0, op->activation == KOLO_RELU, &forward));
    *desc = *query(forward, dnnl_query_src_md);
    dnnl_primitive_desc_destroy(forward);
    return KOLO_OK;
}

/* The step of a convolution whose operands have their layouts: y from x, kernel and bias. */
static kolo_status add_forward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const convolution *c,
                               dnnl_primitive_desc_t forward)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    kolo_place places[4];
    bool bias = op->in[2] >= 0;
    const dnnl_memory_desc_t y = *query(forward, dnnl_query_dst_md);
    kolo_status status;
    KOLO_GO(fail, kolo_layout_set(plan, op->out[0], &y));
    KOLO_GO(fail, kolo_layout_set_parameter(plan, op->in[1], query(forward, dnnl_query_weights_md),
                                            &c->canonical_kernel, NULL));
    if (bias) KOLO_GO(fail, kolo_layout_set_parameter(plan, op->in[2], &c->bias, &c->bias, NULL));
    KOLO_GO(fail, kolo_bring(kernel, kolo_place_of(kernel, op->in[0]), query(forward, dnnl_query_src_md), &places[0]));
    places[1] = kolo_place_of(kernel, op->in[1]);
    places[2] = kolo_produce(kernel, op->out[0], &y);
    if (bias) places[3] = kolo_place_of(kernel, op->in[2]);
    KOLO_TRY(kolo_step_primitive(kernel, forward, bias ? 4 : 3, arguments, places));
    return kolo_deliver(kernel, places[2], op->out[0]);
fail:
    dnnl_primitive_desc_destroy(forward);
    return status;
}

kolo_status kolo_onednn_conv2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    convolution c;
    dnnl_primitive_desc_t forward;
    kolo_shape x = plan->values[op->in[0]].shape, y = plan->values[op->out[0]].shape;
    KOLO_TRY(convolution_of(plan, &op->window, x, y, type_of(plan), kolo_onednn_type(plan, op->out[0]), &c));
    KOLO_TRY(describe_forward(plan, &c, op->in[2] >= 0, op->activation == KOLO_RELU, &forward));
    return add_forward(kernel, plan, op, &c, forward);
}

/* ---- backward */

/* dkernel and dbias from x and dz. */
static kolo_status add_backward_weights(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const convolution *c,
                                        dnnl_primitive_desc_t forward, kolo_place dz)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t made;
    kolo_place places[4];
    bool bias = op->out[2] >= 0;
    kolo_status status;
    KOLO_DNNL(dnnl_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct, &c->x, &c->dkernel,
                                                          bias ? &c->bias : NULL, &c->y, c->stride, c->before,
                                                          c->after),
              "a kernel's gradient");
    KOLO_TRY(describe(&operation, false, forward, &made));
    KOLO_GO(fail, kolo_layout_set_parameter(plan, op->out[1], query(made, dnnl_query_diff_weights_md),
                                            &c->canonical_kernel, NULL));
    if (bias) KOLO_GO(fail, kolo_layout_set_parameter(plan, op->out[2], &c->bias, &c->bias, NULL));
    KOLO_GO(fail, kolo_bring(kernel, kolo_place_of(kernel, op->in[2]), query(made, dnnl_query_src_md), &places[0]));
    KOLO_GO(fail, kolo_bring(kernel, dz, query(made, dnnl_query_diff_dst_md), &places[1]));
    places[2] = kolo_place_of(kernel, op->out[1]);
    if (bias) places[3] = kolo_place_of(kernel, op->out[2]);
    return kolo_step_primitive(kernel, made, bias ? 4 : 3, arguments, places);
fail:
    dnnl_primitive_desc_destroy(made);
    return status;
}

/* dx from dz and the kernel. */
static kolo_status add_backward_data(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const convolution *c,
                                     dnnl_primitive_desc_t forward, kolo_place dz)
{
    const int arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t made;
    kolo_place places[3];
    kolo_status status;
    KOLO_DNNL(dnnl_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &c->x, &c->kernel, &c->y,
                                                       c->stride, c->before, c->after),
              "an input's gradient");
    KOLO_TRY(describe(&operation, false, forward, &made));
    const dnnl_memory_desc_t dx = *query(made, dnnl_query_diff_src_md);
    KOLO_GO(fail, kolo_layout_set(plan, op->out[0], &dx));
    KOLO_GO(fail,
            kolo_layout_set_parameter(plan, op->in[3], query(made, dnnl_query_weights_md), &c->canonical_kernel, NULL));
    KOLO_GO(fail, kolo_bring(kernel, dz, query(made, dnnl_query_diff_dst_md), &places[0]));
    places[1] = kolo_place_of(kernel, op->in[3]);
    places[2] = kolo_produce(kernel, op->out[0], &dx);
    KOLO_TRY(kolo_step_primitive(kernel, made, 3, arguments, places));
    return kolo_deliver(kernel, places[2], op->out[0]);
fail:
    dnnl_primitive_desc_destroy(made);
    return status;
}

/* oneDNN 2.6 lets memory that it never wrote into a kernel's gradient where the output is one pixel wide and the type
 * is bfloat16: there it is computed in float32, from the same numbers. */
static kolo_status add_weights_of(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_place dz)
{
    convolution c;
    dnnl_primitive_desc_t forward;
    kolo_shape x = plan->values[op->in[2]].shape, y = plan->values[op->in[0]].shape;
    dnnl_data_type_t type = y.dim[1] == 1 ? dnnl_f32 : type_of(plan);
    KOLO_TRY(convolution_of(plan, &op->window, x, y, type, type, &c));
    KOLO_TRY(describe_forward(plan, &c, op->out[2] >= 0, false, &forward));
    kolo_status status = add_backward_weights(kernel, plan, op, &c, forward, dz);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

static kolo_status add_data_of(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_place dz)
{
    convolution c;
    dnnl_primitive_desc_t forward;
    kolo_shape x = plan->values[op->in[2]].shape, y = plan->values[op->in[0]].shape;
    KOLO_TRY(convolution_of(plan, &op->window, x, y, type_of(plan), type_of(plan), &c));
    KOLO_TRY(describe_forward(plan, &c, false, false, &forward));
    kolo_status status = add_backward_data(kernel, plan, op, &c, forward, dz);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

kolo_status kolo_onednn_conv2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_place dz;
    KOLO_TRY(kolo_relu_undone(kernel, op, &dz));
    KOLO_TRY(add_weights_of(kernel, plan, op, dz));
    return op->out[0] < 0 ? KOLO_OK : add_data_of(kernel, plan, op, dz);
}
