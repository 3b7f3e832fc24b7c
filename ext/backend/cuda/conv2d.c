/* Convolutions, transposed ones and their gradients. Kernels: conv.cu, conv_direct.cu, bias.cu. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>

/* ---- geometry ---- */

/* The convolution from the larger image to the smaller; kernels are {…, …, channels of a group, filters}. */
static kolo_conv conv_of(const kolo_plan *plan, const kolo_op *op, int larger, int smaller, int kernel)
{
    kolo_shape x = plan->values[larger].shape, y = plan->values[smaller].shape;
    const kolo_window *w = &op->window;
    return (kolo_conv){.leaf = plan->leaf,
                       .height = x.dim[0],
                       .width = x.dim[1],
                       .channels = x.dim[2],
                       .out_height = y.dim[0],
                       .out_width = y.dim[1],
                       .filters = y.dim[2],
                       .groups = x.dim[2] / plan->values[kernel].shape.dim[2],
                       .kernel = {w->kernel[0], w->kernel[1]},
                       .stride = {w->stride[0], w->stride[1]},
                       .dilation = {w->gap[0] + 1, w->gap[1] + 1},
                       .before = {w->before[0], w->before[1]}};
}

/* What a maker made. */
typedef struct convolution {
    kolo_conv conv;
    bool transposed;
    ptrdiff_t dz, sums, filter; /* in the kernel's scratch memory */
} convolution;

/* ---- forward ---- */

static kolo_status run_forward(const kolo_cuda_job *job)
{
    const convolution *own = job->kernel->own;
    bool relu = job->op->activation == KOLO_RELU;
    KOLO_CUDA((own->transposed ? kolo_cuda_conv_data : kolo_cuda_conv)(job->stream, job->element, &own->conv,
                                                                       job->in[0], job->in[1], job->in[2], job->out[0],
                                                                       relu),
              "a convolution");
    return KOLO_OK;
}

static kolo_status make(kolo_cuda_kernel *kernel, convolution made)
{
    convolution *own = malloc(sizeof *own);
    if (!own) return kolo_fail_memory(sizeof *own, "a convolution");
    *own = made;
    kernel->own = own;
    kernel->free_own = free;
    return KOLO_OK;
}

kolo_status kolo_cuda_make_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kernel->run = run_forward;
    return make(kernel, (convolution){.conv = conv_of(plan, op, op->in[0], op->out[0], op->in[1])});
}

kolo_status kolo_cuda_make_conv2d_transpose(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kernel->run = run_forward;
    return make(kernel, (convolution){.conv = conv_of(plan, op, op->out[0], op->in[0], op->in[1]), .transposed = true});
}

/* ---- backward ---- */

/* dz, which is dy where nothing is masked; and dbias. */
static kolo_status through_bias(const kolo_cuda_job *job, const void **dz)
{
    const convolution *own = job->kernel->own;
    char *scratch = job->scratch;
    int width = kolo_cuda_width(kolo_cuda_in(job, 0));
    kolo_bias_job bias = {.rows = kolo_cuda_count(job->plan, job->op->in[0]) / width,
                          .width = width,
                          .element = job->element,
                          .dy_element = job->element,
                          .dy = job->in[0],
                          .y = job->in[1],
                          .dz = job->in[1] ? scratch + own->dz : NULL,
                          .dbias = job->out[2],
                          .scratch = scratch + own->sums,
                          .turns = job->call->queue->turns};
    *dz = bias.dz ? bias.dz : bias.dy;
    if (!bias.dz && !bias.dbias) return KOLO_OK;
    KOLO_CUDA(kolo_cuda_bias_backward(job->stream, &bias), "a bias's gradient");
    return KOLO_OK;
}

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const convolution *own = job->kernel->own;
    const void *dz, *x = job->in[2];
    KOLO_TRY(through_bias(job, &dz));
    KOLO_CUDA(kolo_cuda_conv_filter(job->stream, job->element, &own->conv, own->transposed ? dz : x,
                                    own->transposed ? x : dz, job->out[1], (char *)job->scratch + own->filter),
              "a convolution's gradient");
    if (!job->out[0]) return KOLO_OK;
    KOLO_CUDA((own->transposed ? kolo_cuda_conv : kolo_cuda_conv_data)(job->stream, job->element, &own->conv, dz,
                                                                       job->in[3], NULL, job->out[0], false),
              "a convolution's gradient");
    return KOLO_OK;
}

static kolo_status make_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op, bool transposed)
{
    int larger = transposed ? op->in[0] : op->in[2], smaller = transposed ? op->in[2] : op->in[0];
    convolution made = {.conv = conv_of(plan, op, larger, smaller, op->out[1]), .transposed = transposed};
    int64_t count = kolo_cuda_count(plan, op->in[0]);
    int width = kolo_cuda_width(plan->values[op->in[0]].shape);
    made.dz =
        kolo_cuda_reserve(&kernel->scratch, op->in[1] >= 0 ? (size_t)count * kolo_element_bytes(kernel->element) : 0);
    made.sums = kolo_cuda_reserve(&kernel->scratch, op->out[2] >= 0 ? kolo_cuda_bias_scratch(count / width, width) : 0);
    made.filter = kolo_cuda_reserve(&kernel->scratch, kolo_cuda_conv_filter_scratch(&made.conv));
    kernel->run = run_backward;
    return make(kernel, made);
}

kolo_status kolo_cuda_make_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return make_backward(kernel, plan, op, false);
}

kolo_status kolo_cuda_make_conv2d_transpose_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return make_backward(kernel, plan, op, true);
}
