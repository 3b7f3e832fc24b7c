/* Batch normalisation. Kernels: batch_norm.cu. */
#include "backend/cuda/cuda.h"

/* x: the shape of the normalised value. */
static kolo_batch_norm_job norm_of(const kolo_plan *plan, const kolo_op *op, kolo_shape x)
{
    int channels = kolo_cuda_width(x);
    return (kolo_batch_norm_job){.rows = kolo_shape_count(x) / channels,
                                 .microbatch = plan->microbatch,
                                 .channels = channels,
                                 .epsilon = op->epsilon,
                                 .relu = op->activation == KOLO_RELU};
}

static kolo_batch_norm_job norm_at_work(const kolo_cuda_job *job, int x, int reduced, int gamma)
{
    kolo_batch_norm_job norm = norm_of(job->plan, job->op, kolo_cuda_in(job, x));
    norm.step_parameters = job->call->step_parameters;
    norm.first = job->call->first_sample;
    if (reduced < 0) return norm;
    norm.reduced = job->in[reduced];
    norm.gamma = job->in[gamma];
    norm.beta = job->in[gamma + 1];
    return norm;
}

static kolo_status run_moments(const kolo_cuda_job *job)
{
    kolo_batch_norm_job norm = norm_at_work(job, 0, -1, -1);
    KOLO_CUDA(kolo_cuda_batch_norm_moments(job->stream, job->element, &norm, job->in[0], job->out[0], job->scratch,
                                           job->call->stream->tickets),
              "batch normalisation's moments");
    return KOLO_OK;
}

/* Does the ADD behind it, too, if that is fused (KOLO_FUSE_ADD). */
kolo_status kolo_cuda_run_batch_norm(const kolo_cuda_job *job)
{
    kolo_batch_norm_job norm = norm_at_work(job, 0, 1, 2);
    const kolo_op *add = kolo_cuda_fused(job->plan, job->op);
    norm.mean = job->in[4];
    norm.variance = job->in[5];
    const void *other = add ? job->call->memory[kolo_cuda_other(job->plan, add, job->op->out[0])] : NULL;
    KOLO_CUDA(kolo_cuda_batch_norm(job->stream, job->element, &norm, job->in[0], job->out[0], job->out[1], job->out[2],
                                   other, add && add->activation == KOLO_RELU),
              "batch normalisation");
    return KOLO_OK;
}

static kolo_status run_sums(const kolo_cuda_job *job)
{
    kolo_batch_norm_job norm = norm_at_work(job, 1, 2, 3);
    KOLO_CUDA(kolo_cuda_batch_norm_sums(job->stream, job->element, &norm, job->in[0], job->in[1], job->out[0],
                                        job->out[1], job->out[2], job->scratch, job->call->stream->tickets),
              "batch normalisation's sums");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_batch_norm_backward(const kolo_cuda_job *job)
{
    kolo_batch_norm_job norm = norm_at_work(job, 1, 2, 3);
    KOLO_CUDA(kolo_cuda_batch_norm_backward(job->stream, job->element, &norm, job->in[5], job->in[0], job->in[1],
                                            job->out[0]),
              "batch normalisation's gradient");
    return KOLO_OK;
}

/* Reserves scratch memory for the sums over x's channels. x: the operand's index in op->in. */
static void reserve_sums(kolo_cuda_kernel *kernel, const kolo_plan *plan, const kolo_op *op, int x)
{
    kolo_batch_norm_job norm = norm_of(plan, op, plan->values[op->in[x]].shape);
    kernel->scratch = kolo_cuda_batch_norm_scratch(kernel->element, &norm);
}

kolo_status kolo_cuda_make_batch_norm_moments(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kernel->run = run_moments;
    reserve_sums(kernel, plan, op, 0);
    return KOLO_OK;
}

kolo_status kolo_cuda_make_batch_norm_sums(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kernel->run = run_sums;
    reserve_sums(kernel, plan, op, 1);
    return KOLO_OK;
}
