/* Descriptions of convolutions for oneDNN: see convolution.h. */
#include "backend/onednn/convolution.h"

dnnl_data_type_t kolo_convolution_gradient_type(const kolo_plan *plan, int width)
{
    return width == 1 ? dnnl_f32 : kolo_activation_type(plan);
}

/* More than one group adds an axis to the kernel; filter f belongs to group f / (filters / groups). */
static kolo_status set_kernels(kolo_shape shape, int groups, dnnl_data_type_t type, kolo_convolution *c)
{
    dnnl_dims_t plain = {shape.dim[3], shape.dim[2], shape.dim[0], shape.dim[1]};
    dnnl_dims_t grouped = {groups, shape.dim[3] / groups, shape.dim[2], shape.dim[0], shape.dim[1]};
    const int64_t *dims = groups > 1 ? grouped : plain;
    int axes = groups > 1 ? 5 : 4;
    dnnl_format_tag_t tag = groups > 1 ? dnnl_hwigo : dnnl_hwio;
    KOLO_DNNL(dnnl_memory_desc_init_by_tag(&c->kernel, axes, dims, type, dnnl_format_tag_any), "a kernel");
    KOLO_DNNL(dnnl_memory_desc_init_by_tag(&c->dkernel, axes, dims, dnnl_f32, dnnl_format_tag_any), "a kernel");
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(&c->canonical_kernel, axes, dims, dnnl_f32, tag), "a kernel");
}

kolo_status kolo_convolution_of(const kolo_plan *plan, const kolo_window *window, kolo_shape x, kolo_shape kernel,
                                kolo_shape y, dnnl_data_type_t x_type, dnnl_data_type_t y_type, kolo_convolution *c)
{
    dnnl_dims_t bias = {y.dim[2]};
    c->training = plan->training;
    c->algorithm = dnnl_convolution_direct;
    c->rounds = 1;
    for (int axis = 0; axis < 2; axis++) {
        c->stride[axis] = window->stride[axis];
        c->gap[axis] = window->gap[axis];
        c->before[axis] = window->before[axis];
        c->after[axis] = window->after[axis];
    }
    KOLO_TRY(kolo_desc_any(plan, x, x_type, &c->x));
    KOLO_TRY(kolo_desc_any(plan, y, y_type, &c->y));
    dnnl_data_type_t type = x_type == y_type ? x_type : kolo_activation_type(plan);
    KOLO_TRY(set_kernels(kernel, x.dim[2] / kernel.dim[2], type, c));
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(&c->bias, 1, bias, dnnl_f32, dnnl_a), "a bias");
}

/* On processors with AMX, oneDNN 2.6 takes implementations named "brgconv…", which compute wrong numbers and write
 * behind their buffers where the stride is longer than the kernel. */
static const char *wrong_implementations(const kolo_convolution *c)
{
    const dnnl_dim_t *sides = c->kernel.dims + c->kernel.ndims - 2; /* height, width */
    return sides[0] < c->stride[0] || sides[1] < c->stride[1] ? "brgconv" : NULL;
}

static kolo_status describe_backward(const kolo_convolution *c, const void *operation, dnnl_primitive_desc_t forward,
                                     const char *what, dnnl_primitive_desc_t *made)
{
    kolo_status status = kolo_describe_without(wrong_implementations(c), operation, false, forward, what, made);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

kolo_status kolo_convolution_forward(const kolo_convolution *c, bool bias, bool relu, dnnl_primitive_desc_t *made)
{
    dnnl_convolution_desc_t operation;
    dnnl_prop_kind_t kind = c->training ? dnnl_forward_training : dnnl_forward_inference;
    KOLO_DNNL(dnnl_dilated_convolution_forward_desc_init(&operation, kind, c->algorithm, &c->x, &c->kernel,
                                                         bias ? &c->bias : NULL, &c->y, c->stride, c->gap, c->before,
                                                         c->after),
              "a convolution");
    return kolo_describe_without(wrong_implementations(c), &operation, relu, NULL, "a convolution", made);
}

kolo_status kolo_convolution_by_x(const kolo_convolution *c, dnnl_primitive_desc_t *made)
{
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t forward;
    kolo_convolution hint = *c;
    hint.x.data_type = c->y.data_type; /* a float32 dx of bfloat16 operands is allowed, a float32 x forward is not */
    KOLO_DNNL(dnnl_dilated_convolution_backward_data_desc_init(&operation, c->algorithm, &c->x, &c->kernel, &c->y,
                                                               c->stride, c->gap, c->before, c->after),
              "an input's gradient");
    KOLO_TRY(kolo_convolution_forward(&hint, false, false, &forward));
    return describe_backward(c, &operation, forward, "an input's gradient", made);
}

kolo_status kolo_convolution_by_kernel(const kolo_convolution *c, bool bias, dnnl_primitive_desc_t *made)
{
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t forward;
    KOLO_DNNL(dnnl_dilated_convolution_backward_weights_desc_init(&operation, c->algorithm, &c->x, &c->dkernel,
                                                                  bias ? &c->bias : NULL, &c->y, c->stride, c->gap,
                                                                  c->before, c->after),
              "a kernel's gradient");
    KOLO_TRY(kolo_convolution_forward(c, bias, false, &forward));
    return describe_backward(c, &operation, forward, "a kernel's gradient", made);
}
