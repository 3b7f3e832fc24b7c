/* The convolution of a first layer, by our own kernels (conv_first.cu). They read its weights in place, from the
 * canonical ones. */
#include "backend/cuda/first_conv2d.h"

typedef struct first_layer {
    kolo_conv conv;
    kolo_cuda_parts kernel, bias; /* the gradients */
} first_layer;

static kolo_status run_forward(const kolo_cuda_job *job)
{
    const first_layer *own = job->kernel->state;
    KOLO_CUDA(kolo_cuda_conv_first(job->stream, job->element, &own->conv, job->in[0], job->in[1], job->in[2],
                                   job->out[0], job->op->activation == KOLO_RELU),
              "a convolution");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_first_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                        const kolo_conv *conv)
{
    KOLO_TRY(kolo_cuda_choose_layout(plan, op->in[1], (kolo_cuda_layout){.element = KOLO_ELEMENT_FLOAT}));
    const first_layer made = {.conv = *conv};
    kernel->run = run_forward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const first_layer *own = job->kernel->state;
    KOLO_CUDA(kolo_cuda_conv_first_backward(job->stream, job->element, &own->conv, job->in[2], job->in[0], job->in[1],
                                            kolo_cuda_parts_at(job, &own->kernel), kolo_cuda_parts_at(job, &own->bias)),
              "a convolution's gradient");
    KOLO_TRY(kolo_cuda_sum_parts(job, &own->kernel));
    return kolo_cuda_sum_parts(job, &own->bias);
}

kolo_status kolo_cuda_make_first_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                                 const kolo_conv *conv)
{
    int parts = kolo_cuda_conv_first_parts(conv);
    (void)op;
    first_layer made = {.conv = *conv};
    KOLO_TRY(kolo_cuda_expect_parts(kernel, plan, 1, parts, &made.kernel));
    KOLO_TRY(kolo_cuda_expect_parts(kernel, plan, 2, parts, &made.bias));
    kernel->run = run_backward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}
