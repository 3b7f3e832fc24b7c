/* Activations that are separate operations: formulas and derivatives. Names and sources: include/kolo_layers.h. */
#include "backend/reference/reference.h"

#include <math.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Φ, and Φ' below. By erfc, so that the left tail keeps its digits. */
static double normal(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}
static double density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1));
}

/* (1 + tanh(u)) / 2 = σ(2u): the factor of x in gelu's approximation is σ(twice(x)). */
static double twice(double x)
{
    return 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
}
static double twice_slope(double x)
{
    return 2 * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
}

static double value(kolo_activation activation, double x)
{
    switch (activation) {
    case KOLO_RELU: return kolo_reference_relu(x);
    case KOLO_SIGMOID: return sigmoid(x);
    case KOLO_TANH: return tanh(x);
    case KOLO_GELU: return x * normal(x);
    case KOLO_GELU_TANH: return x * sigmoid(twice(x));
    case KOLO_SILU: return x * sigmoid(x);
    case KOLO_LEAKY_RELU: return x < 0 ? 0.2 * x : x;
    case KOLO_ELU: return x < 0 ? expm1(x) : x;
    case KOLO_LINEAR:
    case KOLO_SOFTMAX: break; /* a softmax is a function of a row */
    }
    return x;
}

/* dy/dx of the activations whose derivative is a function of y. These switches have no default, so that an activation
 * that is missing in them does not compile. */
static double slope_at_y(kolo_activation activation, double y)
{
    switch (activation) {
    case KOLO_RELU: return y <= 0 ? 0 : 1;
    case KOLO_SIGMOID: return y * (1 - y);
    case KOLO_TANH: return 1 - y * y;
    case KOLO_LEAKY_RELU: return y < 0 ? 0.2 : 1;
    case KOLO_ELU: return y < 0 ? y + 1 : 1;
    case KOLO_GELU:
    case KOLO_GELU_TANH:
    case KOLO_SILU: /* see slope_at_x() */
    case KOLO_SOFTMAX:
    case KOLO_LINEAR: break;
    }
    return 1;
}

/* dy/dx of the others, the gelus and silu, from x: (x s(x))' = s + x s', and σ' = σ (1 − σ). */
static double slope_at_x(kolo_activation activation, double x)
{
    double s = activation == KOLO_SILU ? sigmoid(x) : sigmoid(twice(x));
    double inner = activation == KOLO_SILU ? 1 : twice_slope(x);
    return activation == KOLO_GELU ? normal(x) + x * density(x) : s + x * s * (1 - s) * inner;
}

/* y_i = exp(x_i − m) / Σ_k exp(x_k − m) with m = max x, so that nothing overflows. */
static void softmax(const double *x, double *y, int count)
{
    double largest = x[0], sum = 0;
    for (int i = 1; i < count; i++) largest = fmax(largest, x[i]);
    for (int i = 0; i < count; i++) sum += y[i] = exp(x[i] - largest);
    for (int i = 0; i < count; i++) y[i] /= sum;
}

/* dx_i = y_i · (dy_i − Σ_k dy_k·y_k), from the Jacobian ∂y_k/∂x_i = y_k·([i = k] − y_i). */
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
    int64_t elements = job->plan->microbatch * kolo_shape_count(shape);
    int last = shape.dim[shape.rank - 1];
    bool rows = job->op->activation == KOLO_SOFTMAX;
    for (int64_t e = 0; !rows && e < elements; e++) y[e] = value(job->op->activation, x[e]);
    for (int64_t e = 0; rows && e < elements; e += last) softmax(x + e, y + e, last);
}

void kolo_reference_activation_backward(const kolo_reference_job *job)
{
    kolo_shape shape = kolo_reference_in(job, 0);
    const double *dy = job->in[0], *y = job->in[1], *x = job->in[2];
    double *dx = job->out[0];
    kolo_activation activation = job->op->activation;
    int64_t elements = job->plan->microbatch * kolo_shape_count(shape);
    int last = shape.dim[shape.rank - 1];
    bool rows = activation == KOLO_SOFTMAX;
    for (int64_t e = 0; !rows && e < elements; e++)
        dx[e] = dy[e] * (x ? slope_at_x(activation, x[e]) : slope_at_y(activation, y[e]));
    for (int64_t e = 0; rows && e < elements; e += last) softmax_backward(dy + e, y + e, dx + e, last);
}
