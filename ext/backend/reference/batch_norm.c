/* Batch normalisation (Ioffe and Szegedy 2015), for each channel c, the last axis:
 *
 *     x̂ = (x − μ) / √(σ² + ε),  y = γ · x̂ + β,  μ = Σx / n,  σ² = Σx² / n − μ².
 *     dγ = Σ dy · x̂,  dβ = Σ dy,  dx = γ / √(σ² + ε) · (dy − dβ / n − x̂ · dγ / n).
 *
 * The sums are over the channel's n elements in all microbatches that are reduced together. They are doubles: then
 * Σx² / n − μ² loses less than the rounding of x to float32, as long as μ / σ is below 10^7. With a fused ReLU, dy
 * counts only where y > 0. Samples beyond call->samples are padding and do not count. */
#include <math.h>

#include "backend/reference/reference.h"

/* The numbers of one channel. */
typedef struct norm {
    double mean, slope, gamma, beta; /* y = (x − mean) · slope · gamma + beta */
    double count;                    /* n */
} norm;

static int channels(const kolo_reference_job *job, int in)
{
    kolo_shape shape = kolo_reference_in(job, in);
    return shape.dim[shape.rank - 1];
}

/* The number of elements of a channel in the samples that are not padding. */
static int64_t rows(const kolo_reference_job *job, int in)
{
    return job->call->samples * (kolo_shape_count(kolo_reference_in(job, in)) / channels(job, in));
}

static double variance(const double *reduced, int count, int c)
{
    double n = reduced[2 * count], mean = reduced[c] / n, found = reduced[count + c] / n - mean * mean;
    return found < 0 ? 0 : found; /* rounding can make it negative; NaN stays NaN */
}

/* gamma and beta: the indices of those operands in job->in. */
static norm norm_of(const kolo_reference_job *job, const double *reduced, int gamma, int beta, int c)
{
    int count = channels(job, job->op->kind == KOLO_OP_BATCH_NORM ? 0 : 1);
    const double *scale = job->in[gamma], *shift = job->in[beta];
    norm at = {.gamma = scale ? scale[c] : 1, .beta = shift ? shift[c] : 0};
    if (reduced) {
        at.count = reduced[2 * count];
        at.mean = reduced[c] / at.count;
        at.slope = 1 / sqrt(variance(reduced, count, c) + job->op->epsilon);
    } else {
        at.mean = ((const double *)job->in[4])[c];
        at.slope = 1 / sqrt(((const double *)job->in[5])[c] + job->op->epsilon);
    }
    return at;
}

static double normalised(const kolo_reference_job *job, norm n, double x)
{
    double y = (x - n.mean) * n.slope * n.gamma + n.beta;
    return job->op->activation == KOLO_RELU ? kolo_reference_relu(y) : y;
}

void kolo_reference_batch_norm_moments(const kolo_reference_job *job)
{
    const double *x = job->in[0];
    double *sum = job->out[0];
    int count = channels(job, 0);
    int64_t n = rows(job, 0);
    for (int i = 0; i < 2 * count; i++) sum[i] = 0;
    for (int64_t i = 0; i < n * count; i++) {
        sum[i % count] += x[i];
        sum[count + i % count] += x[i] * x[i];
    }
    sum[2 * count] = (double)n;
}

/* Writes the gradients of the running mean and variance: samples · mean and samples · variance. */
static void write_running_gradients(const kolo_reference_job *job, const double *reduced, int count)
{
    double *mean = job->out[1], *spread = job->out[2], samples = job->call->samples;
    for (int c = 0; mean && c < count; c++) mean[c] = samples * reduced[c] / reduced[2 * count];
    for (int c = 0; spread && c < count; c++) spread[c] = samples * variance(reduced, count, c);
}

void kolo_reference_batch_norm(const kolo_reference_job *job)
{
    const double *x = job->in[0], *reduced = job->in[1];
    double *y = job->out[0];
    int count = channels(job, 0);
    int64_t n = rows(job, 0), all = job->plan->microbatch * kolo_shape_count(kolo_reference_in(job, 0));
    for (int c = 0; c < count; c++) {
        norm at = norm_of(job, reduced, 2, 3, c);
        for (int64_t i = c; i < n * count; i += count) y[i] = normalised(job, at, x[i]);
    }
    for (int64_t i = n * count; i < all; i++) y[i] = 0;
    if (reduced) write_running_gradients(job, reduced, count);
}

void kolo_reference_batch_norm_sums(const kolo_reference_job *job)
{
    const double *dy = job->in[0], *x = job->in[1], *reduced = job->in[2];
    double *sum = job->out[0], *dgamma = job->out[1], *dbeta = job->out[2];
    int count = channels(job, 1);
    int64_t n = rows(job, 1);
    for (int c = 0; c < count; c++) {
        norm at = norm_of(job, reduced, 3, 4, c);
        sum[c] = sum[count + c] = 0;
        for (int64_t i = c; i < n * count; i += count) {
            bool cut = job->op->activation == KOLO_RELU && normalised(job, at, x[i]) <= 0;
            sum[c] += cut ? 0 : dy[i];
            sum[count + c] += cut ? 0 : dy[i] * (x[i] - at.mean) * at.slope;
        }
        if (dbeta) dbeta[c] = sum[c];
        if (dgamma) dgamma[c] = sum[count + c];
    }
}

void kolo_reference_batch_norm_backward(const kolo_reference_job *job)
{
    const double *dy = job->in[0], *x = job->in[1], *reduced = job->in[2], *sum = job->in[5];
    double *dx = job->out[0];
    int count = channels(job, 1);
    int64_t n = rows(job, 1), all = job->plan->microbatch * kolo_shape_count(kolo_reference_in(job, 1));
    for (int c = 0; c < count; c++) {
        norm at = norm_of(job, reduced, 3, 4, c);
        for (int64_t i = c; i < n * count; i += count) {
            bool cut = job->op->activation == KOLO_RELU && normalised(job, at, x[i]) <= 0;
            double hat = (x[i] - at.mean) * at.slope;
            dx[i] = at.gamma * at.slope * ((cut ? 0 : dy[i]) - sum[c] / at.count - hat * sum[count + c] / at.count);
        }
    }
    for (int64_t i = n * count; i < all; i++) dx[i] = 0;
}
