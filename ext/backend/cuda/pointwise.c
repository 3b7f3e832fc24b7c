/* Operations element by element: the features, activations, sums, dropout. Kernels: pointwise.cu. */
#include "backend/cuda/cuda.h"
#include "layers/layer.h"

_Static_assert((int)KOLO_FUNCTION_LINEAR == KOLO_LINEAR && (int)KOLO_FUNCTION_RELU == KOLO_RELU &&
                   (int)KOLO_FUNCTION_SOFTMAX == KOLO_SOFTMAX && (int)KOLO_FUNCTION_SIGMOID == KOLO_SIGMOID &&
                   (int)KOLO_FUNCTION_TANH == KOLO_TANH && (int)KOLO_FUNCTION_GELU == KOLO_GELU &&
                   (int)KOLO_FUNCTION_GELU_TANH == KOLO_GELU_TANH && (int)KOLO_FUNCTION_SILU == KOLO_SILU &&
                   (int)KOLO_FUNCTION_LEAKY_RELU == KOLO_LEAKY_RELU && (int)KOLO_FUNCTION_ELU == KOLO_ELU,
               "kolo_function numbers the activations as kolo_activation does");

/* ---- the features ---- */

kolo_status kolo_cuda_run_input(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_cast(job->stream, KOLO_ELEMENT_FLOAT, job->in[0], job->element, job->out[0],
                             kolo_cuda_count(job->plan, job->op->in[0])),
              "taking in the features");
    return KOLO_OK;
}

/* ---- activations ---- */

kolo_status kolo_cuda_make_activation(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)kernel, (void)plan;
    if ((int)op->activation <= (int)KOLO_FUNCTION_ELU) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED, "wanted an activation of kolo_function of backend cuda, got %s",
                     kolo_activation_name((int)op->activation));
}

kolo_status kolo_cuda_run_activation(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_activate(job->stream, job->element, (kolo_function)job->op->activation, job->in[0], job->out[0],
                                 kolo_cuda_count(job->plan, job->op->in[0]), kolo_cuda_width(kolo_cuda_in(job, 0))),
              "an activation");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_activation_backward(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_activate_backward(job->stream, job->element, (kolo_function)job->op->activation, job->in[0],
                                          job->in[1], job->in[2], job->out[0],
                                          kolo_cuda_count(job->plan, job->op->in[0]),
                                          kolo_cuda_width(kolo_cuda_in(job, 0))),
              "an activation's gradient");
    return KOLO_OK;
}

/* ---- sums ---- */

/* With a mask it is a sum of two gradients, masked by the y of the ReLU behind it (KOLO_FUSE_RELU_BACKWARD). */
kolo_status kolo_cuda_run_add(const kolo_cuda_job *job)
{
    const kolo_op *mask = kolo_cuda_fused(job->plan, job->op);
    int64_t count = kolo_cuda_count(job->plan, job->op->out[0]);
    if (mask)
        KOLO_CUDA(kolo_cuda_add_masked(job->stream, job->element, job->in[0], job->in[1],
                                       job->call->memory[mask->in[1]], job->out[0], count),
                  "a sum of gradients");
    else
        KOLO_CUDA(kolo_cuda_add(job->stream, job->element, job->in[0], job->in[1], job->out[0], count,
                                job->op->activation == KOLO_RELU),
                  "a sum");
    return KOLO_OK;
}

/* ---- dropout ---- */

kolo_dropout_job kolo_cuda_dropout_of(const kolo_cuda_job *job, const kolo_op *drop)
{
    return (kolo_dropout_job){.first = job->call->first_sample,
                              .elements = kolo_shape_count(job->plan->values[drop->out[0]].shape),
                              .microbatch = job->plan->microbatch,
                              .layer = drop->layer,
                              .rate = drop->rate};
}

static kolo_status run_dropout(const kolo_cuda_job *job)
{
    kolo_dropout_job dropout = kolo_cuda_dropout_of(job, job->op);
    KOLO_CUDA(kolo_cuda_dropout(job->stream, job->element, &dropout, job->call->step_parameters, job->in[0],
                                job->out[0], job->out[1]),
              "dropout");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_dropout_backward(const kolo_cuda_job *job)
{
    kolo_dropout_job dropout = kolo_cuda_dropout_of(job, job->op);
    KOLO_CUDA(kolo_cuda_dropout_backward(job->stream, job->element, &dropout, job->in[0], job->in[1], job->out[0]),
              "dropout's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_dropout(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    plan->values[op->out[1]].bytes = (size_t)kolo_cuda_count(plan, op->in[0]); /* one byte per element */
    kernel->run = run_dropout;
    return KOLO_OK;
}
