/* A convolution, the max pooling behind it, and perhaps a dropout behind that, by one kernel (KOLO_FUSE_POOL in
 * plan/fusion.h). The convolution's own output, the largest image, is not kept, nor is its gradient. Forward, the
 * kernel writes the result of the last of these operations to the pooling's y, and the positions of the maxima to
 * `where`. Backward, it reads the gradient of that result. Kernels: conv_pooled.cu, conv_filter.cu. */
#include "backend/cuda/pooled_conv2d.h"

enum { Y = 0, WHERE = 1 };           /* outputs of the convolution */
enum { DY = 0, X = 2, GIVEN_WHERE = 4 }; /* inputs of its backward */

/* ---- forward ---- */

typedef struct pooled {
    kolo_conv conv;
    kolo_cuda_parts kernel, bias; /* the gradients */
} pooled;

/* The dropout (in the backward its backward) that the kernel also computes, or NULL. */
static const kolo_op *behind_pooling(const kolo_cuda_job *job)
{
    return kolo_cuda_fused(job->plan, kolo_cuda_fused(job->plan, job->op));
}

static kolo_status run_forward(const kolo_cuda_job *job)
{
    const pooled *own = job->kernel->state;
    const kolo_op *drop = behind_pooling(job);
    kolo_dropout_job dropout;
    if (drop) dropout = kolo_cuda_dropout_of(job, drop);
    const kolo_pooled_y y = {.y = job->out[Y],
                             .where = job->out[WHERE],
                             .relu = job->op->activation == KOLO_RELU,
                             .dropout = drop ? &dropout : NULL,
                             .step_parameters = job->call->step_parameters};
    KOLO_CUDA(kolo_cuda_conv_pooled(job->stream, job->element, &own->conv, job->in[0], job->in[1], job->in[2], &y),
              "a convolution and max pooling");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_pooled_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                         const kolo_conv *conv)
{
    const pooled made = {.conv = *conv};
    int where = op->out[WHERE];
    if (where >= 0) plan->values[where].bytes = (size_t)kolo_cuda_count(plan, where); /* one byte per window */
    kernel->run = run_forward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}

/* ---- backward ---- */

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const pooled *own = job->kernel->state;
    const kolo_op *drop_back = behind_pooling(job);
    const kolo_pooled_dy dy = {
        .dy = job->in[DY], .where = job->in[GIVEN_WHERE], .rate = drop_back ? drop_back->rate : 0};
    KOLO_CUDA(kolo_cuda_conv_pooled_filter(job->stream, job->element, &own->conv, job->in[X], &dy,
                                           kolo_cuda_parts_at(job, &own->kernel), kolo_cuda_parts_at(job, &own->bias)),
              "a convolution's gradient");
    KOLO_TRY(kolo_cuda_sum_parts(job, &own->kernel));
    KOLO_TRY(kolo_cuda_sum_parts(job, &own->bias));
    if (!job->out[0]) return KOLO_OK;
    KOLO_CUDA(kolo_cuda_conv_pooled_data(job->stream, job->element, &own->conv, &dy, job->in[3], job->out[0]),
              "a convolution's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_pooled_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                                  const kolo_conv *conv)
{
    int parts = kolo_cuda_conv_pooled_parts(conv);
    (void)op;
    pooled made = {.conv = *conv};
    KOLO_TRY(kolo_cuda_expect_parts(kernel, plan, 1, parts, &made.kernel));
    KOLO_TRY(kolo_cuda_expect_parts(kernel, plan, 2, parts, &made.bias));
    kernel->run = run_backward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}
