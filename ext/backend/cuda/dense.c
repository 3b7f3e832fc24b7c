/* The dense layer and its gradients, over the last axis: y = relu(x · K + b); with dz = dy · [y > 0]: dx = dz · Kᵀ,
 * dK = xᵀ · dz, db = Σ dz. Bias and ReLU are epilogues of x · K (matmul.h). If dy needs neither a mask nor a
 * conversion, db is an epilogue of dK, if cuBLASLt has that. Otherwise one pass over dy gives dz and db (bias.cu).
 *
 * cuBLASLt adds a bias of y's element. If y is narrow, the bias is therefore packed in y's element: it is rounded
 * before it is added, and the sum is rounded again. */
#include "backend/cuda/matmul.h"

#include <stdlib.h>

typedef struct dense {
    kolo_matmul *y, *dx, *dkernel;
    bool sums; /* dkernel's product gives the bias's gradient, too */
    ptrdiff_t dz, bias, product; /* in the scratch memory: dz, or -1: dy serves; a copy of the bias, or partial sums of
                                    db; the products' workspace */
} dense;

static void free_dense(void *made)
{
    dense *freed = made;
    kolo_matmul_free(freed->y);
    kolo_matmul_free(freed->dx);
    kolo_matmul_free(freed->dkernel);
    free(freed);
}

static kolo_status new_dense(kolo_cuda_kernel *kernel, kolo_status (*run)(const kolo_cuda_job *job), dense **made)
{
    dense *own = calloc(1, sizeof *own);
    if (!own) return kolo_fail_memory(sizeof *own, "a dense layer");
    kernel->state = *made = own;
    kernel->free_state = free_dense;
    kernel->run = run;
    return KOLO_OK;
}

/* ---- forward ---- */

static kolo_status run_forward(const kolo_cuda_job *job)
{
    const dense *own = job->kernel->state;
    char *scratch = job->scratch;
    void *bias = scratch + own->bias;
    KOLO_TRY(kolo_cuda_align_bias(job, &bias));
    return kolo_matmul_run(own->y, job->in[0], job->in[1], job->out[0], bias, scratch + own->product);
}

kolo_status kolo_cuda_make_dense(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_shape shape = plan->values[op->in[1]].shape;
    bool bias = op->in[2] >= 0, relu = op->activation == KOLO_RELU;
    kolo_element element = kolo_cuda_element(plan, op->out[0]);
    dense *own = NULL;
    size_t scratch = 0;
    KOLO_TRY(new_dense(kernel, run_forward, &own));
    kernel->any_out[0] = true;
    const kolo_matmul_spec spec = {.m = kolo_cuda_count(plan, op->in[0]) / shape.dim[0],
                                   .n = shape.dim[1],
                                   .k = shape.dim[0],
                                   .element = kernel->element,
                                   .d_element = element,
                                   .tf32 = plan->precision == KOLO_TF32,
                                   .epilogue = bias ? (relu ? KOLO_MATMUL_BIAS_RELU : KOLO_MATMUL_BIAS)
                                                    : (relu ? KOLO_MATMUL_RELU : KOLO_MATMUL_NONE)};
    if (bias && element != KOLO_ELEMENT_FLOAT)
        KOLO_TRY(kolo_cuda_choose_layout(plan, op->in[2], (kolo_cuda_layout){.element = element}));
    KOLO_TRY(kolo_matmul_make(plan->stream, &spec, &own->y, &scratch));
    own->bias = kolo_cuda_reserve(&kernel->scratch, bias ? (size_t)spec.n * sizeof(float) : 0);
    own->product = kolo_cuda_reserve(&kernel->scratch, scratch);
    return KOLO_OK;
}

/* ---- backward ---- */

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const dense *own = job->kernel->state;
    char *scratch = job->scratch;
    const void *dz = job->in[0];
    int width = kolo_cuda_width(kolo_cuda_in(job, 0));
    if (own->dz >= 0 || (job->out[2] && !own->sums)) {
        kolo_bias_job bias = {.rows = kolo_cuda_count(job->plan, job->op->in[0]) / width,
                              .width = width,
                              .element = job->element,
                              .dy_element = kolo_cuda_element(job->plan, job->op->in[0]),
                              .dy = job->in[0],
                              .y = job->in[1],
                              .dz = own->dz >= 0 ? scratch + own->dz : NULL,
                              .dbias = job->out[2],
                              .scratch = scratch + own->bias,
                              .tickets = job->call->stream->tickets};
        KOLO_CUDA(kolo_cuda_bias_backward(job->stream, &bias), "a bias's gradient");
        if (bias.dz) dz = bias.dz;
    }
    KOLO_TRY(kolo_matmul_run(own->dkernel, job->in[2], dz, job->out[1], own->sums ? job->out[2] : NULL,
                             scratch + own->product));
    if (!job->out[0]) return KOLO_OK;
    return kolo_matmul_run(own->dx, dz, job->in[3], job->out[0], NULL, scratch + own->product);
}

/* dy may have any element: the pass that masks it also converts it. */
kolo_status kolo_cuda_make_dense_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_shape shape = plan->values[op->out[1]].shape;
    int64_t rows = kolo_cuda_count(plan, op->in[2]) / shape.dim[0], width = shape.dim[1];
    bool tf32 = plan->precision == KOLO_TF32, bias = op->out[2] >= 0;
    bool pass = op->in[1] >= 0 || kolo_cuda_element(plan, op->in[0]) != kernel->element;
    const kolo_matmul_spec dkernel = {.m = shape.dim[0],
                                      .n = width,
                                      .k = rows,
                                      .a_transposed = true,
                                      .element = kernel->element,
                                      .d_element = KOLO_ELEMENT_FLOAT,
                                      .tf32 = tf32};
    dense *own = NULL;
    size_t scratch = 0;
    KOLO_TRY(new_dense(kernel, run_backward, &own));
    kernel->any_in[0] = kernel->any_out[0] = true;
    own->sums = bias && !pass;
    KOLO_TRY(kolo_matmul_make_sums(plan->stream, dkernel, &own->sums, &own->dkernel, &scratch));
    if (op->out[0] >= 0) {
        const kolo_matmul_spec dx = {.m = rows,
                                     .n = shape.dim[0],
                                     .k = width,
                                     .b_transposed = true,
                                     .element = kernel->element,
                                     .d_element = kolo_cuda_element(plan, op->out[0]),
                                     .tf32 = tf32,
                                     .epilogue = KOLO_MATMUL_NONE};
        KOLO_TRY(kolo_matmul_make(plan->stream, &dx, &own->dx, &scratch));
    }
    own->dz = -1;
    if (pass)
        own->dz = kolo_cuda_reserve(&kernel->scratch, (size_t)(rows * width) * kolo_element_bytes(kernel->element));
    own->bias = kolo_cuda_reserve(&kernel->scratch, bias && !own->sums ? kolo_cuda_bias_scratch(rows, (int)width) : 0);
    own->product = kolo_cuda_reserve(&kernel->scratch, scratch);
    return KOLO_OK;
}
