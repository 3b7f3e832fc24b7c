/* The fully connected layer and its gradients, over the last axis; every row of a microbatch is treated alike:
 * y = relu(x·K + b);  with dz = dy·[y > 0]:  dx = dz·Kᵀ,  dK = Σ xᵀ·dz,  db = Σ dz. */
#include "backend/reference/reference.h"

#include <string.h>

static int64_t row_count(const kolo_reference_job *job, kolo_shape x)
{
    return job->plan->microbatch * (kolo_shape_count(x) / x.dim[x.rank - 1]);
}

void kolo_reference_dense(const kolo_reference_job *job)
{
    kolo_shape kernel_shape = kolo_reference_in(job, 1);
    int64_t rows = row_count(job, kolo_reference_in(job, 0)), inputs = kernel_shape.dim[0];
    int64_t units = kernel_shape.dim[1];
    const double *x = job->in[0], *kernel = job->in[1], *bias = job->in[2];
    double *y = job->out[0];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t u = 0; u < units; u++) {
            double z = bias ? bias[u] : 0;
            for (int64_t i = 0; i < inputs; i++) z += x[r * inputs + i] * kernel[i * units + u];
            y[r * units + u] = job->op->activation == KOLO_RELU ? kolo_reference_relu(z) : z;
        }
    }
}

void kolo_reference_dense_backward(const kolo_reference_job *job)
{
    kolo_shape kernel_shape = kolo_reference_out(job, 1);
    int64_t rows = row_count(job, kolo_reference_in(job, 2)), inputs = kernel_shape.dim[0];
    int64_t units = kernel_shape.dim[1];
    const double *dy = job->in[0], *y = job->in[1], *x = job->in[2], *kernel = job->in[3];
    double *dx = job->out[0], *dkernel = job->out[1], *dbias = job->out[2];
    if (dx) memset(dx, 0, (size_t)(rows * inputs) * sizeof *dx);
    memset(dkernel, 0, (size_t)(inputs * units) * sizeof *dkernel);
    if (dbias) memset(dbias, 0, (size_t)units * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t u = 0; u < units; u++) {
            double dz = y && y[r * units + u] <= 0 ? 0 : dy[r * units + u];
            if (dbias) dbias[u] += dz;
            for (int64_t i = 0; i < inputs; i++) {
                dkernel[i * units + u] += x[r * inputs + i] * dz;
                if (dx) dx[r * inputs + i] += dz * kernel[i * units + u];
            }
        }
    }
}
