/* Ba, Kiros and Hinton 2016, "Layer normalization", over the last axis, of n elements:
 * µ = Σ x / n,  v = Σ (x − µ)² / n,  z = (x − µ) / √(v + ε),  y = scale·z + offset.
 * With dz = scale·dy:  dx = (dz − Σ dz / n − z · Σ dz·z / n) / √(v + ε),  dscale = Σ dy·z,  doffset = Σ dy. */
#include "backend/reference/reference.h"

#include <math.h>
#include <string.h>

typedef struct moments {
    double mean, inverse; /* 1 / √(v + ε) */
} moments;

static moments moments_of(const double *x, int64_t n, double epsilon)
{
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    return (moments){mean, 1 / sqrt(variance + epsilon)};
}

void kolo_reference_layer_norm(const kolo_reference_job *job)
{
    kolo_shape shape = kolo_reference_in(job, 0);
    int64_t n = shape.dim[shape.rank - 1], elements = job->plan->microbatch * kolo_shape_count(shape);
    const double *x = job->in[0], *scale = job->in[1], *offset = job->in[2];
    double *y = job->out[0];
    for (int64_t e = 0; e < elements; e += n) {
        moments m = moments_of(x + e, n, job->op->epsilon);
        for (int64_t i = 0; i < n; i++) {
            double z = (x[e + i] - m.mean) * m.inverse;
            y[e + i] = (scale ? scale[i] : 1) * z + (offset ? offset[i] : 0);
        }
    }
}

static void row_backward(const double *dy, const double *x, const double *scale, double *dx, int64_t n, moments m)
{
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < n; i++) {
        double dz = (scale ? scale[i] : 1) * dy[i];
        sum += dz;
        dot += dz * (x[i] - m.mean) * m.inverse;
    }
    for (int64_t i = 0; i < n; i++) {
        double dz = (scale ? scale[i] : 1) * dy[i], z = (x[i] - m.mean) * m.inverse;
        dx[i] = (dz - sum / (double)n - z * dot / (double)n) * m.inverse;
    }
}

void kolo_reference_layer_norm_backward(const kolo_reference_job *job)
{
    kolo_shape shape = kolo_reference_in(job, 1);
    int64_t n = shape.dim[shape.rank - 1], elements = job->plan->microbatch * kolo_shape_count(shape);
    const double *dy = job->in[0], *x = job->in[1], *scale = job->in[2];
    double *dx = job->out[0], *dscale = job->out[1], *doffset = job->out[2];
    if (dscale) memset(dscale, 0, (size_t)n * sizeof *dscale);
    if (doffset) memset(doffset, 0, (size_t)n * sizeof *doffset);
    for (int64_t e = 0; e < elements; e += n) {
        moments m = moments_of(x + e, n, job->op->epsilon);
        for (int64_t i = 0; dscale && i < n; i++) dscale[i] += dy[e + i] * (x[e + i] - m.mean) * m.inverse;
        for (int64_t i = 0; doffset && i < n; i++) doffset[i] += dy[e + i];
        if (dx) row_backward(dy + e, x + e, scale, dx + e, n, m);
    }
}
