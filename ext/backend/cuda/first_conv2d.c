/* The convolution of a first layer, by our own kernels (conv_first.cu), which read its weights where all of them lie.
 */
#include "backend/cuda/first_conv2d.h"

#include <stdlib.h>

typedef struct first_layer {
    kolo_conv conv;
    bool undone, done; /* a max pooling has undone relu, written the bias's gradient */
} first_layer;

static kolo_status keep(kolo_cuda_kernel *kernel, first_layer made, kolo_status (*run)(const kolo_cuda_job *job))
{
    first_layer *own = malloc(sizeof *own);
    if (!own) return kolo_fail_memory(sizeof *own, "a convolution");
    *own = made;
    kernel->own = own;
    kernel->free_own = free;
    kernel->run = run;
    return KOLO_OK;
}

static kolo_status run_forward(const kolo_cuda_job *job)
{
    const first_layer *own = job->kernel->own;
    KOLO_CUDA(kolo_cuda_conv_first(job->stream, job->element, &own->conv, job->in[0], job->in[1], job->in[2],
                                   job->out[0], job->op->activation == KOLO_RELU),
              "a convolution");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_first_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                        const kolo_conv *conv)
{
    KOLO_TRY(kolo_cuda_choose_layout(plan, op->in[1], (kolo_cuda_layout){KOLO_ELEMENT_FLOAT, false}));
    return keep(kernel, (first_layer){.conv = *conv}, run_forward);
}

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const first_layer *own = job->kernel->own;
    KOLO_CUDA(kolo_cuda_conv_first_backward(job->stream, job->element, &own->conv, job->in[2], job->in[0],
                                            own->undone ? NULL : job->in[1], job->out[1],
                                            own->done ? NULL : job->out[2], job->scratch),
              "a convolution's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_first_conv2d_backward(kolo_cuda_kernel *kernel, const kolo_plan *plan, const kolo_op *op,
                                                 const kolo_conv *conv)
{
    kernel->scratch = kolo_cuda_conv_first_scratch(conv);
    return keep(kernel,
                (first_layer){*conv, .undone = kolo_cuda_relu_undone(plan, op), .done = kolo_cuda_bias_done(plan, op)},
                run_backward);
}
