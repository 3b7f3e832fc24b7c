/* The last dense layer and the loss as one operation, for models with many outputs: logits = x · K + b, their loss and
 * metrics, their gradient dz, which overwrites them, dK = xᵀ · dz, db = Σ dz, dx = dz · Kᵀ.
 *
 * A block reads a row of logits once, and keeps it in shared memory (loss.cu). So logits may have the precision's
 * element, as in other frameworks' mixed precision: a narrow one halves the bytes that are written and read. Rows that
 * are too long or too short for that are float32, and their gradient has memory of its own. */
#include "backend/cuda/matmul.h"

#include <stdlib.h>

typedef struct dense_loss {
    kolo_matmul *logits, *dkernel, *dx;
    kolo_loss_job loss;
    bool sums; /* dkernel's product gives the bias's gradient, too */
    ptrdiff_t bias, product, parts, at_logits, at_slopes; /* offsets in the scratch memory */
} dense_loss;

static void free_dense_loss(void *made)
{
    dense_loss *freed = made;
    kolo_matmul_free(freed->logits);
    kolo_matmul_free(freed->dkernel);
    kolo_matmul_free(freed->dx);
    free(freed);
}

/* ---- running ---- */

static kolo_status add_bias_gradient(const kolo_cuda_job *job, const void *slopes)
{
    const dense_loss *own = job->kernel->state;
    kolo_bias_job bias = {.rows = own->loss.microbatch * own->loss.rows,
                          .width = (int)own->loss.width,
                          .element = job->element,
                          .dy_element = job->element,
                          .dy = slopes,
                          .dbias = job->out[2],
                          .scratch = (char *)job->scratch + own->bias,
                          .tickets = job->call->stream->tickets};
    KOLO_CUDA(kolo_cuda_bias_backward(job->stream, &bias), "a bias's gradient");
    return KOLO_OK;
}

static kolo_status run_backward(const kolo_cuda_job *job, const void *slopes)
{
    const dense_loss *own = job->kernel->state;
    void *product = (char *)job->scratch + own->product;
    if (job->out[2] && !own->sums) KOLO_TRY(add_bias_gradient(job, slopes));
    KOLO_TRY(kolo_matmul_run(own->dkernel, job->in[0], slopes, job->out[1], own->sums ? job->out[2] : NULL, product));
    return job->out[0] ? kolo_matmul_run(own->dx, slopes, job->in[3], job->out[0], NULL, product) : KOLO_OK;
}

static kolo_status run_dense_loss(const kolo_cuda_job *job)
{
    const dense_loss *own = job->kernel->state;
    char *scratch = job->scratch;
    void *bias = scratch + own->bias;
    KOLO_TRY(kolo_cuda_align_bias(job, &bias));
    KOLO_TRY(kolo_matmul_run(own->logits, job->in[0], job->in[1], scratch + own->at_logits, bias,
                             scratch + own->product));
    kolo_loss_job loss = own->loss;
    kolo_cuda_aim_loss(job->call, &loss);
    loss.outputs = scratch + own->at_logits;
    loss.gradient = job->plan->training ? scratch + own->at_slopes : NULL;
    KOLO_CUDA(kolo_cuda_loss(job->stream, &loss, job->call->step_parameters, scratch + own->parts), "the loss");
    return job->plan->training ? run_backward(job, scratch + own->at_slopes) : KOLO_OK;
}

/* ---- making ---- */

/* spec: the product for the logits. */
static kolo_status make_backward(dense_loss *own, kolo_stream *stream, kolo_matmul_spec spec, const kolo_op *op,
                                 size_t *scratch)
{
    const kolo_matmul_spec logits = spec;
    spec.m = logits.k;
    spec.k = logits.m;
    spec.a_transposed = true;
    spec.d_element = KOLO_ELEMENT_FLOAT;
    own->sums = op->out[2] >= 0;
    KOLO_TRY(kolo_matmul_make_sums(stream, spec, &own->sums, &own->dkernel, scratch));
    if (op->out[0] < 0) return KOLO_OK;
    spec = logits;
    spec.n = logits.k;
    spec.k = logits.n;
    spec.b_transposed = true;
    spec.d_element = logits.element;
    spec.epilogue = KOLO_MATMUL_NONE;
    return kolo_matmul_make(stream, &spec, &own->dx, scratch);
}

/* spec: the product for the logits. scratch: bytes of the products' workspace. */
static void place(kolo_cuda_kernel *kernel, dense_loss *own, const kolo_matmul_spec *spec, size_t scratch)
{
    size_t *all = &kernel->scratch, count = (size_t)(spec->m * spec->n), floats = (size_t)spec->n * sizeof(float);
    size_t bias = own->sums ? 0 : kolo_cuda_bias_scratch(spec->m, (int)spec->n);
    own->bias = kolo_cuda_reserve(all, bias > floats ? bias : floats);
    own->product = kolo_cuda_reserve(all, scratch);
    own->parts = kolo_cuda_reserve(all, kolo_cuda_loss_scratch(&own->loss));
    own->at_logits = own->at_slopes = kolo_cuda_reserve(all, count * kolo_element_bytes(spec->d_element));
    if (kernel->plan->training && !kolo_cuda_loss_reads_once(&own->loss))
        own->at_slopes = kolo_cuda_reserve(all, count * kolo_element_bytes(spec->element));
}

kolo_status kolo_cuda_make_dense_loss(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_shape shape = plan->values[op->in[1]].shape;
    bool bias = op->in[2] >= 0;
    dense_loss *own = calloc(1, sizeof *own);
    if (!own) return kolo_fail_memory(sizeof *own, "a dense layer");
    kernel->state = own;
    kernel->free_state = free_dense_loss;
    kernel->run = run_dense_loss;
    kolo_cuda_describe_loss(plan, &own->loss);
    own->loss.outputs_element = kernel->element;
    if (!kolo_cuda_loss_reads_once(&own->loss)) own->loss.outputs_element = KOLO_ELEMENT_FLOAT;
    kolo_element narrow = own->loss.outputs_element;
    own->loss.gradient_element = kernel->element;
    const kolo_matmul_spec spec = {.m = kolo_cuda_count(plan, op->in[0]) / shape.dim[0],
                                   .n = shape.dim[1],
                                   .k = shape.dim[0],
                                   .element = kernel->element,
                                   .d_element = narrow,
                                   .tf32 = plan->precision == KOLO_TF32,
                                   .epilogue = bias ? KOLO_MATMUL_BIAS : KOLO_MATMUL_NONE};
    size_t scratch = 0;
    if (bias && narrow != KOLO_ELEMENT_FLOAT)
        KOLO_TRY(kolo_cuda_choose_layout(plan, op->in[2], (kolo_cuda_layout){.element = narrow}));
    KOLO_TRY(kolo_matmul_make(plan->stream, &spec, &own->logits, &scratch));
    if (plan->training) KOLO_TRY(make_backward(own, plan->stream, spec, op, &scratch));
    place(kernel, own, &spec, scratch);
    return KOLO_OK;
}
