/* Pooling and upsampling, which is computed as the gradient of a sum pooling. Kernels: max_pool.cu, sum_pool.cu.
 *
 * A max pooling may be fused with the operations around it (plan/fusion.h). Its workspace then also encodes the masks
 * of the ReLU before it and of the dropout behind it, and its backward sums the gradient of a convolution's bias.
 * Behind a small convolution, the convolution's kernel does all of this (pooled_conv2d.c).
 */
#include "backend/cuda/cuda.h"

kolo_pooling kolo_cuda_pooling_of(const kolo_plan *plan, const kolo_op *op, int x, int y)
{
    kolo_shape in = plan->values[x].shape, out = plan->values[y].shape;
    kolo_pooling p = {.samples = plan->microbatch, .channels = in.dim[2]};
    for (int axis = 0; axis < 2; axis++) {
        p.in[axis] = in.dim[axis];
        p.out[axis] = out.dim[axis];
        p.size[axis] = op->window.kernel[axis];
        p.stride[axis] = op->window.stride[axis];
        p.before[axis] = op->window.before[axis];
    }
    return p;
}

/* ---- maxima ---- */

static kolo_status run_max_pool(const kolo_cuda_job *job)
{
    const kolo_op *drop = kolo_cuda_fused(job->plan, job->op);
    kolo_pooling p = kolo_cuda_pooling_of(job->plan, job->op, job->op->in[0], job->op->out[0]);
    bool relu = job->op->activation == KOLO_RELU;
    if (!drop) {
        KOLO_CUDA(kolo_cuda_max_pool(job->stream, job->element, &p, job->in[0], job->out[0], job->out[1], relu),
                  "a max pooling");
        return KOLO_OK;
    }
    kolo_dropout_job dropout = kolo_cuda_dropout_of(job, drop);
    KOLO_CUDA(kolo_cuda_max_pool_dropout(job->stream, job->element, &p, job->in[0], job->out[0], job->out[1], relu,
                                         &dropout, job->call->step_parameters),
              "a max pooling and dropout");
    return KOLO_OK;
}

static kolo_status run_max_pool_backward(const kolo_cuda_job *job)
{
    const kolo_op *drop_back = kolo_cuda_fused(job->plan, job->op);
    kolo_pooling p = kolo_cuda_pooling_of(job->plan, job->op, job->op->out[0], job->op->in[0]);
    kolo_pooled_bias bias = {.dbias = job->out[1], .scratch = job->scratch, .tickets = job->call->stream->tickets};
    KOLO_CUDA(kolo_cuda_max_pool_backward(job->stream, job->element, &p, job->in[0], job->in[1], job->out[0],
                                          drop_back ? drop_back->rate : 0, bias.dbias ? &bias : NULL),
              "a max pooling's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_max_pool2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_pooling p = kolo_cuda_pooling_of(plan, op, op->in[0], op->out[0]);
    if (op->out[1] >= 0)
        plan->values[op->out[1]].bytes = (size_t)kolo_cuda_count(plan, op->out[0]) * kolo_pooling_place_bytes(&p);
    kernel->run = run_max_pool;
    return KOLO_OK;
}

kolo_status kolo_cuda_make_max_pool2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_pooling p = kolo_cuda_pooling_of(plan, op, op->out[0], op->in[0]);
    if (op->out[1] >= 0) kernel->scratch = kolo_cuda_pooled_bias_scratch(kernel->element, &p);
    kernel->run = run_max_pool_backward;
    return KOLO_OK;
}

/* ---- means ---- */

kolo_status kolo_cuda_run_average_pool2d(const kolo_cuda_job *job)
{
    kolo_pooling p = kolo_cuda_pooling_of(job->plan, job->op, job->op->in[0], job->op->out[0]);
    KOLO_CUDA(kolo_cuda_sum_pool(job->stream, job->element, &p, job->in[0], NULL, job->out[0], true),
              "an average pooling");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_average_pool2d_backward(const kolo_cuda_job *job)
{
    kolo_pooling p = kolo_cuda_pooling_of(job->plan, job->op, job->op->out[0], job->op->in[0]);
    KOLO_CUDA(kolo_cuda_sum_pool_backward(job->stream, job->element, &p, job->in[0], job->out[0], true),
              "an average pooling's gradient");
    return KOLO_OK;
}

/* ---- upsampling: the gradient of a sum, and the sum ---- */

static kolo_pooling sampling_of(const kolo_cuda_job *job, int small, int large)
{
    kolo_op op = *job->op;
    for (int axis = 0; axis < 2; axis++) {
        op.window.stride[axis] = op.window.kernel[axis];
        op.window.before[axis] = 0;
    }
    return kolo_cuda_pooling_of(job->plan, &op, large, small);
}

kolo_status kolo_cuda_run_upsample2d(const kolo_cuda_job *job)
{
    kolo_pooling p = sampling_of(job, job->op->in[0], job->op->out[0]);
    KOLO_CUDA(kolo_cuda_sum_pool_backward(job->stream, job->element, &p, job->in[0], job->out[0], false),
              "an upsampling");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_upsample2d_backward(const kolo_cuda_job *job)
{
    kolo_pooling p = sampling_of(job, job->op->out[0], job->op->in[0]);
    KOLO_CUDA(kolo_cuda_sum_pool(job->stream, job->element, &p, job->in[0], NULL, job->out[0], false),
              "an upsampling's gradient");
    return KOLO_OK;
}
