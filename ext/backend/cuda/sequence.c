/* Operations on sequences: embeddings, positions, attention. Kernels: embedding.cu, attention.cu,
 * attention_backward.cu. */
#include "backend/cuda/cuda.h"

#include <math.h>

#include "core/random.h"

/* ---- rows of a table ---- */

kolo_status kolo_cuda_run_embedding(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_embedding(job->stream, job->element, job->in[0], job->in[1], job->out[0],
                                  kolo_cuda_count(job->plan, job->op->in[0]), kolo_cuda_width(kolo_cuda_in(job, 1))),
              "taking rows of a table");
    return KOLO_OK;
}

static kolo_embedding_job embedding_of(const kolo_plan *plan, const kolo_op *op)
{
    kolo_shape table = plan->values[op->out[0]].shape;
    return (kolo_embedding_job){.microbatch = plan->microbatch,
                                .positions = (int)kolo_shape_count(plan->values[op->in[1]].shape),
                                .rows = table.dim[0],
                                .size = table.dim[1]};
}

static kolo_status run_embedding_backward(const kolo_cuda_job *job)
{
    kolo_embedding_job embedding = embedding_of(job->plan, job->op);
    embedding.first = job->call->first_sample;
    KOLO_CUDA(kolo_cuda_embedding_backward(job->stream, job->element, &embedding, job->call->step_parameters,
                                           job->in[1], job->in[0], job->out[0], job->scratch),
              "the gradient of a table's rows");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_embedding_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_embedding_job job = embedding_of(plan, op);
    kernel->run = run_embedding_backward;
    kernel->scratch = kolo_cuda_embedding_scratch(&job);
    return KOLO_OK;
}

/* ---- positions ---- */

kolo_status kolo_cuda_run_position(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_position(job->stream, job->element, job->in[0], job->in[1], job->out[0], job->plan->microbatch,
                                 kolo_shape_count(kolo_cuda_in(job, 0))),
              "adding positions");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_position_backward(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_position_backward(job->stream, job->element, job->call->step_parameters,
                                          job->call->first_sample, job->plan->microbatch,
                                          kolo_shape_count(kolo_cuda_in(job, 0)), job->in[0], job->out[0]),
              "the gradient of positions");
    return KOLO_OK;
}

/* ---- attention ---- */

/* value: the array that holds queries, keys and values. */
static kolo_attention_job attention_of(const kolo_plan *plan, const kolo_op *op, int value)
{
    kolo_shape shape = plan->values[value].shape;
    int size = (int)(shape.dim[1] / 3 / op->heads);
    return (kolo_attention_job){.microbatch = plan->microbatch,
                                .length = shape.dim[0],
                                .heads = op->heads,
                                .size = size,
                                .layer = op->layer,
                                .causal = op->causal,
                                .tf32 = plan->precision == KOLO_TF32,
                                .scale = (float)(M_LOG2E / sqrt((double)size)),
                                .inverse_root = (float)(1 / sqrt(size)),
                                .threshold = op->rate > 0 ? kolo_dropout_threshold(op->rate) : 0,
                                .keep = (float)(1 / (1 - op->rate))};
}

static kolo_status run_attention(const kolo_cuda_job *job)
{
    kolo_attention_job attention = attention_of(job->plan, job->op, job->op->in[0]);
    attention.first = job->call->first_sample;
    KOLO_CUDA(kolo_cuda_attention(job->stream, job->element, &attention, job->call->step_parameters, job->in[0],
                                  job->out[0], job->out[1]),
              "attention");
    return KOLO_OK;
}

static kolo_status run_attention_backward(const kolo_cuda_job *job)
{
    kolo_attention_job attention = attention_of(job->plan, job->op, job->op->in[1]);
    attention.first = job->call->first_sample;
    const float *y = kolo_cuda_attention_exact(job->element, &attention, job->in[2], job->in[3]);
    kolo_attention_gradients gradients = {job->in[0], job->in[1], y, job->in[3], job->out[0]};
    KOLO_CUDA(kolo_cuda_attention_backward(job->stream, job->element, &attention, job->call->step_parameters,
                                           &gradients, job->scratch),
              "attention's gradient");
    return KOLO_OK;
}

/* shared(): the bytes of shared memory that a block needs. */
static kolo_status check_size(const kolo_plan *plan, kolo_element element, const kolo_attention_job *job,
                              size_t (*shared)(kolo_element element, const kolo_attention_job *job))
{
    if (job->size > KOLO_HEAD_MOST)
        return kolo_fail(KOLO_UNSUPPORTED, "backend cuda: wanted heads of a size of at most %d, got %d", KOLO_HEAD_MOST,
                         job->size);
    size_t wanted = shared(element, job), most = (size_t)plan->stream->shared;
    if (wanted <= most) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "backend cuda: heads of a size of %d want %zu bytes of a block's shared memory, and this GPU has "
                     "%zu: take more heads%s",
                     job->size, wanted, most, element == KOLO_ELEMENT_FLOAT ? ", or mixed precision" : "");
}

kolo_status kolo_cuda_make_attention(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_attention_job job = attention_of(plan, op, op->in[0]);
    KOLO_TRY(check_size(plan, kernel->element, &job, kolo_cuda_attention_shared));
    if (op->out[1] >= 0) plan->values[op->out[1]].bytes = kolo_cuda_attention_kept(kernel->element, &job);
    kernel->run = run_attention;
    return KOLO_OK;
}

kolo_status kolo_cuda_make_attention_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_attention_job job = attention_of(plan, op, op->in[1]);
    KOLO_TRY(check_size(plan, kernel->element, &job, kolo_cuda_attention_backward_shared));
    kernel->run = run_attention_backward;
    kernel->scratch = kolo_cuda_attention_scratch(&job);
    return KOLO_OK;
}
