/* The convolution of a first layer, by our own kernels (conv_first.cu), which read its weights where all of them lie.
 */
#include "backend/cuda/first_conv2d.h"

#include <stdlib.h>

typedef struct first_layer {
    kolo_conv conv;
    int parts;             /* of the gradients */
    bool left, left_bias;  /* as the gradients are: else in the scratch memory, to be summed at once */
    ptrdiff_t kernel, bias;
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
    KOLO_TRY(kolo_cuda_choose_layout(plan, op->in[1], (kolo_cuda_layout){.element = KOLO_ELEMENT_FLOAT}));
    return keep(kernel, (first_layer){.conv = *conv}, run_forward);
}

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const first_layer *own = job->kernel->own;
    char *scratch = job->scratch;
    bool bias = job->out[2] && !own->done;
    float *kernel = own->left ? job->out[1] : (void *)(scratch + own->kernel);
    float *of_bias = own->left_bias ? job->out[2] : (void *)(scratch + own->bias);
    KOLO_CUDA(kolo_cuda_conv_first_backward(job->stream, job->element, &own->conv, job->in[2], job->in[0],
                                            own->undone ? NULL : job->in[1], kernel, bias ? of_bias : NULL),
              "a convolution's gradient");
    if (!own->left)
        KOLO_TRY(kolo_cuda_sum_parts(job->stream, kernel, own->parts, kolo_cuda_count(job->plan, job->op->out[1]),
                                     job->out[1]));
    if (!bias || own->left_bias) return KOLO_OK;
    return kolo_cuda_sum_parts(job->stream, of_bias, own->parts, own->conv.filters, job->out[2]);
}

kolo_status kolo_cuda_make_first_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                                 const kolo_conv *conv)
{
    first_layer made = {.conv = *conv,
                        .parts = kolo_cuda_conv_first_parts(conv),
                        .undone = kolo_cuda_relu_undone(plan, op),
                        .done = kolo_cuda_bias_done(plan, op)};
    bool bias = op->out[2] >= 0 && !made.done;
    size_t of_kernel = (size_t)(made.parts * kolo_cuda_count(plan, op->out[1])) * sizeof(float);
    size_t of_bias = (size_t)(made.parts * conv->filters) * sizeof(float);
    KOLO_TRY(kolo_cuda_leave_parts(plan, op->out[1], made.parts, &made.left));
    if (bias) KOLO_TRY(kolo_cuda_leave_parts(plan, op->out[2], made.parts, &made.left_bias));
    made.kernel = kolo_cuda_reserve(&kernel->scratch, made.left ? 0 : of_kernel);
    made.bias = kolo_cuda_reserve(&kernel->scratch, bias && !made.left_bias ? of_bias : 0);
    return keep(kernel, made, run_backward);
}
