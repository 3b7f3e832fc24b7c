/* Operations of sequences: tables of rows and of positions, attention. Kernels: embedding.cu, attention.cu,
 * attention_backward.cu. */
#include "backend/cuda/cuda.h"

/* ---- rows of a table ---- */

static kolo_status run_embedding(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_embedding(job->stream, job->element, job->in[0], job->in[1], job->out[0],
                                  kolo_cuda_count(job->plan, job->op->in[0]), kolo_cuda_width(kolo_cuda_in(job, 1))),
              "taking rows of a table");
    return KOLO_OK;
}

static kolo_embedding_job embedding_of(const kolo_plan *plan, const kolo_op *op)
{
    kolo_shape table = plan->values[op->out[0]].shape;
    return (kolo_embedding_job){.leaf = plan->leaf,
                                .positions = (int)kolo_shape_count(plan->values[op->in[1]].shape),
                                .rows = table.dim[0],
                                .size = table.dim[1]};
}

static kolo_status run_embedding_backward(const kolo_cuda_job *job)
{
    kolo_embedding_job embedding = embedding_of(job->plan, job->op);
    embedding.first = job->call->first_sample;
    KOLO_CUDA(kolo_cuda_embedding_backward(job->stream, job->element, &embedding, job->call->moment, job->in[1],
                                           job->in[0], job->out[0], job->scratch),
              "the gradient of a table's rows");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_embedding(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)plan, (void)op;
    kernel->run = run_embedding;
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

static kolo_status run_position(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_position(job->stream, job->element, job->in[0], job->in[1], job->out[0], job->plan->leaf,
                                 kolo_shape_count(kolo_cuda_in(job, 0))),
              "adding positions");
    return KOLO_OK;
}

static kolo_status run_position_backward(const kolo_cuda_job *job)
{
    KOLO_CUDA(kolo_cuda_position_backward(job->stream, job->element, job->call->moment, job->call->first_sample,
                                          job->plan->leaf, kolo_shape_count(kolo_cuda_in(job, 0)), job->in[0],
                                          job->out[0]),
              "the gradient of positions");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_position(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)plan, (void)op;
    kernel->run = run_position;
    return KOLO_OK;
}

kolo_status kolo_cuda_make_position_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)plan, (void)op;
    kernel->run = run_position_backward;
    return KOLO_OK;
}
