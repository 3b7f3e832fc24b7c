/* Layer normalisation. Kernels: layer_norm.cu. */
#include "backend/cuda/cuda.h"

/* x: the shape of the normalised value. */
static kolo_layer_norm_job norm_of(const kolo_plan *plan, const kolo_op *op, kolo_shape x)
{
    int width = kolo_cuda_width(x);
    return (kolo_layer_norm_job){
        .rows = kolo_shape_count(x) / width, .microbatch = plan->microbatch, .width = width, .epsilon = op->epsilon};
}

kolo_status kolo_cuda_run_layer_norm(const kolo_cuda_job *job)
{
    kolo_layer_norm_job norm = norm_of(job->plan, job->op, kolo_cuda_in(job, 0));
    KOLO_CUDA(kolo_cuda_layer_norm(job->stream, job->element, &norm, job->in[0], job->in[1], job->in[2], job->out[0]),
              "layer normalisation");
    return KOLO_OK;
}

/* Does the ADD of gradients behind it, too, if that is fused (KOLO_FUSE_ADD). */
static kolo_status run_layer_norm_backward(const kolo_cuda_job *job)
{
    const kolo_op *add = kolo_cuda_fused(job->plan, job->op);
    const void *other = add ? job->call->memory[kolo_cuda_other(job->plan, add, job->op->out[0])] : NULL;
    kolo_layer_norm_job norm = norm_of(job->plan, job->op, kolo_cuda_in(job, 1));
    norm.step_parameters = job->call->step_parameters;
    norm.first = job->call->first_sample;
    KOLO_CUDA(kolo_cuda_layer_norm_backward(job->stream, job->element, &norm, job->in[0], job->in[1], job->in[2],
                                            job->out[0], other, job->out[1], job->out[2], job->scratch),
              "layer normalisation's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_layer_norm_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_layer_norm_job norm = norm_of(plan, op, plan->values[op->in[1]].shape);
    kernel->scratch = kolo_cuda_layer_norm_scratch(&norm);
    kernel->run = run_layer_norm_backward;
    return KOLO_OK;
}
