/* Operations on images other than convolution and pooling: padding, cropping, concatenation, slices, products. Kernels:
 * images.cu, sum_pool.cu. */
#include "backend/cuda/cuda.h"

_Static_assert(KOLO_PARTS_MAX == KOLO_OP_INS, "a concatenation may have as many inputs as an operation");

/* ---- moving ---- */

/* y is the part of x that begins at {rows, columns}. Where that reaches beyond x, y is zero. */
static kolo_status run_frame(const kolo_cuda_job *job, int rows, int columns)
{
    kolo_shape in = kolo_cuda_in(job, 0), out = kolo_cuda_out(job, 0);
    int64_t pixel = in.dim[2] * (int64_t)kolo_element_bytes(job->element);
    kolo_move move = {.samples = job->plan->microbatch,
                      .x_height = in.dim[0],
                      .y_height = out.dim[0],
                      .down = rows,
                      .x_row = in.dim[1] * pixel,
                      .y_row = out.dim[1] * pixel,
                      .along = columns * pixel};
    KOLO_CUDA(kolo_cuda_move(job->stream, &move, job->in[0], job->out[0]), "moving an image");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_pad2d(const kolo_cuda_job *job)
{
    return run_frame(job, -job->op->window.before[0], -job->op->window.before[1]);
}

kolo_status kolo_cuda_run_crop2d(const kolo_cuda_job *job)
{
    return run_frame(job, job->op->window.before[0], job->op->window.before[1]);
}

/* Bytes of a run: the contiguous elements of op->axis and the axes after it. */
static int64_t run_of(const kolo_cuda_job *job, kolo_shape shape)
{
    int64_t run = (int64_t)kolo_element_bytes(job->element);
    for (int axis = job->op->axis; axis < shape.rank; axis++) run *= shape.dim[axis];
    return run;
}

/* The number of runs in a microbatch. */
static int64_t runs_of(const kolo_cuda_job *job, kolo_shape shape)
{
    return job->plan->microbatch * kolo_shape_count(shape) * (int64_t)kolo_element_bytes(job->element) /
           run_of(job, shape);
}

kolo_status kolo_cuda_run_concatenate(const kolo_cuda_job *job)
{
    const void *x[KOLO_PARTS_MAX];
    int64_t bytes[KOLO_PARTS_MAX];
    int parts = 0;
    for (; parts < KOLO_OP_INS && job->in[parts]; parts++) {
        x[parts] = job->in[parts];
        bytes[parts] = run_of(job, kolo_cuda_in(job, parts));
    }
    KOLO_CUDA(kolo_cuda_join(job->stream, runs_of(job, kolo_cuda_out(job, 0)), parts, x, bytes, job->out[0]),
              "a concatenation");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_slice(const kolo_cuda_job *job)
{
    kolo_shape in = kolo_cuda_in(job, 0), out = kolo_cuda_out(job, 0);
    int64_t x_run = run_of(job, in);
    kolo_move move = {.samples = runs_of(job, in),
                      .x_height = 1,
                      .y_height = 1,
                      .x_row = x_run,
                      .y_row = run_of(job, out),
                      .along = job->op->first * (x_run / in.dim[job->op->axis])};
    KOLO_CUDA(kolo_cuda_move(job->stream, &move, job->in[0], job->out[0]), "taking a slice");
    return KOLO_OK;
}

/* ---- products ---- */

kolo_status kolo_cuda_run_multiply(const kolo_cuda_job *job)
{
    int64_t count = kolo_shape_count(kolo_cuda_in(job, 0)), factors = kolo_shape_count(kolo_cuda_in(job, 1));
    if (factors == count)
        KOLO_CUDA(kolo_cuda_multiply(job->stream, job->element, job->in[0], job->in[1], job->out[0],
                                     job->plan->microbatch * count),
                  "a product");
    else
        KOLO_CUDA(kolo_cuda_multiply_channels(job->stream, job->element, job->in[0], job->in[1], job->out[0],
                                              job->plan->microbatch, count / factors, (int)factors),
                  "a product");
    return KOLO_OK;
}

kolo_status kolo_cuda_run_multiply_sum(const kolo_cuda_job *job)
{
    int64_t count = kolo_shape_count(kolo_cuda_in(job, 0)), sums = kolo_shape_count(kolo_cuda_out(job, 0));
    int pixels = (int)(count / sums);
    kolo_pooling p = {.samples = job->plan->microbatch,
                      .in = {1, pixels},
                      .out = {1, 1},
                      .channels = (int)sums,
                      .size = {1, pixels},
                      .stride = {1, pixels}};
    KOLO_CUDA(kolo_cuda_sum_pool(job->stream, job->element, &p, job->in[0], job->in[1], job->out[0], false),
              "a sum of products");
    return KOLO_OK;
}
