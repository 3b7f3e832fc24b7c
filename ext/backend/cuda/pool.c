/* Pooling, and larger images, which are a sum's gradient. Kernels: max_pool.cu, sum_pool.cu.
 *
 * A max pooling does more than its own where its neighbours allow it, as each pass over images that is not made is time
 * won. What it says of where a maximum was can also say that nothing shall come back: of zeros that a relu before it
 * has made, so that relu's own way back has nothing left to do; and of what a dropout behind it drops, whose output is
 * then the pooling's, with no mask. And the sums of what it gives back are the gradient of a convolution's bias. Behind
 * a small convolution all of this is that one's work (pooled_conv2d.c).
 */
#include "backend/cuda/cuda.h"

/* x: the larger image. */
static kolo_pooling pooling_of(const kolo_plan *plan, const kolo_op *op, int x, int y)
{
    kolo_shape in = plan->values[x].shape, out = plan->values[y].shape;
    kolo_pooling p = {.samples = plan->microbatch, .channels = in.dim[2]};
    for (int axis = 0; axis < 2; axis++) {
        p.in[axis] = in.dim[axis];
        p.out[axis] = out.dim[axis];
        p.size[axis] = op->window.kernel[axis];
        p.stride[axis] = op->window.stride[axis];
        p.before[axis] = op->window.before[axis];
    }
    return p;
}

/* ---- neighbours ---- */

/* The max pooling that a backward one belongs to. */
static const kolo_op *forward_of(const kolo_plan *plan, const kolo_op *backward)
{
    return kolo_cuda_writer(plan, backward->in[1]);
}

static bool behind_relu(const kolo_plan *plan, const kolo_op *pool)
{
    const kolo_op *writer = kolo_cuda_writer(plan, pool->in[0]);
    return writer && writer->activation == KOLO_RELU;
}

/* The max pooling's way back that writes the dy of a backward operation; or NULL. */
static const kolo_op *pooled_dy(const kolo_plan *plan, const kolo_op *backward)
{
    const kolo_op *writer = kolo_cuda_writer(plan, backward->in[0]);
    return writer && writer->kind == KOLO_OP_MAX_POOL2D_BACKWARD ? writer : NULL;
}

bool kolo_cuda_relu_undone(const kolo_plan *plan, const kolo_op *op)
{
    const kolo_op *writer = pooled_dy(plan, op), *pool = writer ? forward_of(plan, writer) : NULL;
    return pool && op->activation == KOLO_RELU && kolo_cuda_same(plan, pool->in[0], op->in[1]);
}

bool kolo_cuda_bias_done(const kolo_plan *plan, const kolo_op *op)
{
    const kolo_op *writer = pooled_dy(plan, op);
    bool convolution = op->kind == KOLO_OP_CONV2D_BACKWARD || op->kind == KOLO_OP_CONV2D_TRANSPOSE_BACKWARD;
    if (!writer || !convolution || op->out[2] < 0 || kolo_cuda_only_reader(plan, writer->out[0]) != op) return false;
    if (kolo_plan_canonical(plan, writer->out[0]) || writer->device != op->device) return false;
    if (op->activation == KOLO_RELU && !kolo_cuda_relu_undone(plan, op)) return false;
    kolo_pooling p = pooling_of(plan, writer, writer->out[0], writer->in[0]);
    return kolo_pooling_exact(kolo_cuda_element(plan, writer->out[0]), &p);
}

const kolo_op *kolo_cuda_take_dropout(kolo_plan *plan, const kolo_op *pool, kolo_element element)
{
    kolo_pooling p = pooling_of(plan, pool, pool->in[0], pool->out[0]);
    const kolo_op *drop = kolo_cuda_next(plan, pool, element, KOLO_OP_DROPOUT);
    if (!drop || pool->out[1] < 0 || !kolo_pooling_whole(element, &p)) return NULL;
    const kolo_op *drop_back = kolo_cuda_only_reader(plan, drop->out[1]);
    const kolo_op *pool_back = kolo_cuda_only_reader(plan, pool->out[1]);
    if (!drop_back || !pool_back || kolo_cuda_only_reader(plan, drop_back->out[0]) != pool_back) return NULL;
    const int values[] = {drop_back->in[0], drop_back->out[0]};
    for (int i = 0; i < 2; i++)
        if (kolo_cuda_element(plan, values[i]) != element) return NULL;
    if (drop_back->device != pool->device || !kolo_cuda_same(plan, pool_back->in[0], drop_back->out[0])) return NULL;
    kolo_cuda_take(plan, pool, drop);
    plan->values[drop_back->out[0]].view_of = drop_back->in[0];
    return drop;
}

/* ---- the largest ---- */

/* What a max pooling's maker found out. */
typedef struct largest {
    bool cut;            /* x is what a relu made */
    const kolo_op *drop; /* or NULL */
    int dbias;           /* the GRADIENT that its way back also writes, or -1 */
} largest;

static kolo_status run_max_pool(const kolo_cuda_job *job)
{
    const largest *own = job->kernel->own;
    kolo_pooling p = pooling_of(job->plan, job->op, job->op->in[0], job->op->out[0]);
    if (!own->drop) {
        KOLO_CUDA(kolo_cuda_max_pool(job->stream, job->element, &p, job->in[0], job->out[0], job->out[1], own->cut),
                  "a max pooling");
        return KOLO_OK;
    }
    kolo_dropout_job dropout = kolo_cuda_dropout_of(job, own->drop);
    KOLO_CUDA(kolo_cuda_max_pool_dropout(job->stream, job->element, &p, job->in[0], job->out[0], job->out[1], own->cut,
                                         &dropout, job->call->step_parameters),
              "a max pooling and dropout");
    return KOLO_OK;
}

static kolo_status run_max_pool_backward(const kolo_cuda_job *job)
{
    const largest *own = job->kernel->own;
    kolo_pooling p = pooling_of(job->plan, job->op, job->op->out[0], job->op->in[0]);
    kolo_pooled_bias bias = {.scratch = job->scratch, .turns = job->call->stream->turns};
    if (own->dbias >= 0) bias.dbias = job->call->memory[own->dbias];
    KOLO_CUDA(kolo_cuda_max_pool_backward(job->stream, job->element, &p, job->in[0], job->in[1], job->out[0],
                                          own->drop ? own->drop->rate : 0, bias.dbias ? &bias : NULL),
              "a max pooling's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_max_pool2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_pooling p = pooling_of(plan, op, op->in[0], op->out[0]);
    if (op->out[1] >= 0)
        plan->values[op->out[1]].bytes = (size_t)kolo_cuda_count(plan, op->out[0]) * kolo_pooling_place_bytes(&p);
    kernel->run = run_max_pool;
    const largest made = {
        .cut = behind_relu(plan, op), .drop = kolo_cuda_take_dropout(plan, op, kernel->element), .dbias = -1};
    return kolo_cuda_keep(kernel, &made, sizeof made, "a kernel");
}

kolo_status kolo_cuda_make_max_pool2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    largest made = {.dbias = -1};
    const kolo_op *pool = forward_of(plan, op), *reader = kolo_cuda_only_reader(plan, op->out[0]);
    made.drop = kolo_cuda_took(plan, pool);
    if (reader && kolo_cuda_bias_done(plan, reader)) {
        kolo_pooling p = pooling_of(plan, op, op->out[0], op->in[0]);
        made.dbias = reader->out[2];
        kernel->scratch = kolo_cuda_pooled_bias_scratch(kernel->element, &p);
    }
    kernel->run = run_max_pool_backward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a kernel");
}

/* ---- means ---- */

static kolo_status run_average_pool(const kolo_cuda_job *job)
{
    kolo_pooling p = pooling_of(job->plan, job->op, job->op->in[0], job->op->out[0]);
    KOLO_CUDA(kolo_cuda_sum_pool(job->stream, job->element, &p, job->in[0], NULL, job->out[0], true),
              "an average pooling");
    return KOLO_OK;
}

static kolo_status run_average_pool_backward(const kolo_cuda_job *job)
{
    kolo_pooling p = pooling_of(job->plan, job->op, job->op->out[0], job->op->in[0]);
    KOLO_CUDA(kolo_cuda_sum_pool_backward(job->stream, job->element, &p, job->in[0], job->out[0], true),
              "an average pooling's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_average_pool2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)plan, (void)op;
    kernel->run = run_average_pool;
    return KOLO_OK;
}

kolo_status kolo_cuda_make_average_pool2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)plan, (void)op;
    kernel->run = run_average_pool_backward;
    return KOLO_OK;
}

/* ---- each pixel several times: a sum's gradient, and the sum ---- */

static kolo_pooling sampling_of(const kolo_cuda_job *job, int small, int large)
{
    kolo_op op = *job->op;
    for (int axis = 0; axis < 2; axis++) {
        op.window.stride[axis] = op.window.kernel[axis];
        op.window.before[axis] = 0;
    }
    return pooling_of(job->plan, &op, large, small);
}

static kolo_status run_upsample(const kolo_cuda_job *job)
{
    kolo_pooling p = sampling_of(job, job->op->in[0], job->op->out[0]);
    KOLO_CUDA(kolo_cuda_sum_pool_backward(job->stream, job->element, &p, job->in[0], job->out[0], false),
              "an upsampling");
    return KOLO_OK;
}

static kolo_status run_upsample_backward(const kolo_cuda_job *job)
{
    kolo_pooling p = sampling_of(job, job->op->out[0], job->op->in[0]);
    KOLO_CUDA(kolo_cuda_sum_pool(job->stream, job->element, &p, job->in[0], NULL, job->out[0], false),
              "an upsampling's gradient");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_upsample2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)plan, (void)op;
    kernel->run = run_upsample;
    return KOLO_OK;
}

kolo_status kolo_cuda_make_upsample2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    (void)plan, (void)op;
    kernel->run = run_upsample_backward;
    return KOLO_OK;
}
