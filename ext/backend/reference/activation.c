/* Activations as operations of their own. */
#include "backend/reference/reference.h"

#include <math.h>

/* y_i = exp(x_i − m) / Σ_k exp(x_k − m) with m = max x, so that nothing overflows. */
static void softmax(const double *x, double *y, int count)
{
    double largest = x[0], sum = 0;
    for (int i = 1; i < count; i++) largest = fmax(largest, x[i]);
    for (int i = 0; i < count; i++) sum += y[i] = exp(x[i] - largest);
    for (int i = 0; i < count; i++) y[i] /= sum;
}

/* dx_i = y_i · (dy_i − Σ_k dy_k·y_k): the Jacobian ∂y_k/∂x_i = y_k·([i = k] − y_i). */
static void softmax_backward(const double *dy, const double *y, double *dx, int count)
{
    double dot = 0;
    for (int i = 0; i < count; i++) dot += dy[i] * y[i];
    for (int i = 0; i < count; i++) dx[i] = y[i] * (dy[i] - dot);
}

void kolo_reference_activation(const kolo_reference_job *job)
{
    kolo_shape shape = kolo_reference_in(job, 0);
    const double *x = job->in[0];
    double *y = job->out[0];
    int64_t elements = job->plan->leaf * kolo_shape_count(shape);
    int last = shape.dim[shape.rank - 1];
    bool relu = job->op->activation == KOLO_RELU;
    for (int64_t e = 0; relu && e < elements; e++) y[e] = kolo_reference_relu(x[e]);
    for (int64_t e = 0; !relu && e < elements; e += last) softmax(x + e, y + e, last);
}

void kolo_reference_activation_backward(const kolo_reference_job *job)
{
    kolo_shape shape = kolo_reference_in(job, 0);
    const double *dy = job->in[0], *y = job->in[1];
    double *dx = job->out[0];
    int64_t elements = job->plan->leaf * kolo_shape_count(shape);
    int last = shape.dim[shape.rank - 1];
    bool relu = job->op->activation == KOLO_RELU;
    for (int64_t e = 0; relu && e < elements; e++) dx[e] = y[e] <= 0 ? 0 : dy[e];
    for (int64_t e = 0; !relu && e < elements; e += last) softmax_backward(dy + e, y + e, dx + e, last);
}
