/* Convolution and its gradients. layers/conv2d.c has the formula; Dumoulin and Visin 2016 explain it. */
#include "backend/reference/reference.h"

#include <string.h>

typedef struct geometry {
    int height, width, channels; /* of x */
    int out_height, out_width, filters;
    int group, group_filters; /* channels and filters of one group */
    kolo_window window;
} geometry;

static geometry geometry_of(const kolo_reference_job *job, kolo_shape x, kolo_shape kernel, kolo_shape y)
{
    geometry g = {x.dim[0], x.dim[1], x.dim[2], y.dim[0], y.dim[1], y.dim[2], .window = job->op->window};
    g.group = kernel.dim[2];
    g.group_filters = g.filters / (g.channels / g.group);
    return g;
}

/* The row of x under row i of the kernel at output row h; negative in the padding. input_column() likewise. */
static int input_row(const geometry *g, int h, int i)
{
    int row = h * g->window.stride[0] + i * (g->window.gap[0] + 1) - g->window.before[0];
    return row < g->height ? row : -1; /* rows of the padding above are negative anyway */
}
static int input_column(const geometry *g, int w, int j)
{
    int column = w * g->window.stride[1] + j * (g->window.gap[1] + 1) - g->window.before[1];
    return column < g->width ? column : -1;
}

/* One element of y, without the bias: Σ_{i,j,c} x[…][…][first + c] · kernel[i][j][c][f] for one sample x. `first` is
 * the first channel of the filter's group. */
static double sum_of_products(const geometry *g, const double *x, const double *kernel, int h, int w, int f)
{
    double sum = 0;
    int first = f / g->group_filters * g->group;
    for (int i = 0; i < g->window.kernel[0]; i++) {
        for (int j = 0; j < g->window.kernel[1]; j++) {
            int row = input_row(g, h, i), column = input_column(g, w, j);
            if (row < 0 || column < 0) continue;
            const double *pixel = x + ((int64_t)row * g->width + column) * g->channels + first;
            const double *weights = kernel + ((int64_t)i * g->window.kernel[1] + j) * g->group * g->filters + f;
            for (int c = 0; c < g->group; c++) sum += pixel[c] * weights[(int64_t)c * g->filters];
        }
    }
    return sum;
}

void kolo_reference_conv2d(const kolo_reference_job *job)
{
    geometry g = geometry_of(job, kolo_reference_in(job, 0), kolo_reference_in(job, 1), kolo_reference_out(job, 0));
    const double *x = job->in[0], *kernel = job->in[1], *bias = job->in[2];
    double *y = job->out[0];
    int64_t sample = kolo_shape_count(kolo_reference_in(job, 0));
    for (int n = 0; n < job->plan->microbatch; n++) {
        for (int h = 0; h < g.out_height; h++) {
            for (int w = 0; w < g.out_width; w++) {
                for (int f = 0; f < g.filters; f++) {
                    double z = sum_of_products(&g, x + n * sample, kernel, h, w, f) + (bias ? bias[f] : 0);
                    *y++ = job->op->activation == KOLO_RELU ? kolo_reference_relu(z) : z;
                }
            }
        }
    }
}

/* Adds the contribution of one element dz to dx and dkernel: the derivative of each product of the sum by both factors.
 */
static void spread(const geometry *g, double dz, const double *x, const double *kernel, double *dx, double *dkernel,
                   int h, int w, int f)
{
    int first = f / g->group_filters * g->group;
    for (int i = 0; i < g->window.kernel[0]; i++) {
        for (int j = 0; j < g->window.kernel[1]; j++) {
            int row = input_row(g, h, i), column = input_column(g, w, j);
            if (row < 0 || column < 0) continue;
            int64_t pixel = ((int64_t)row * g->width + column) * g->channels + first;
            int64_t weights = ((int64_t)i * g->window.kernel[1] + j) * g->group * g->filters + f;
            for (int c = 0; c < g->group; c++) {
                dkernel[weights + (int64_t)c * g->filters] += dz * x[pixel + c];
                if (dx) dx[pixel + c] += dz * kernel[weights + (int64_t)c * g->filters];
            }
        }
    }
}

void kolo_reference_conv2d_backward(const kolo_reference_job *job)
{
    geometry g = geometry_of(job, kolo_reference_in(job, 2), kolo_reference_out(job, 1), kolo_reference_in(job, 0));
    const double *dy = job->in[0], *y = job->in[1], *x = job->in[2], *kernel = job->in[3];
    double *dx = job->out[0], *dkernel = job->out[1], *dbias = job->out[2];
    int64_t sample = kolo_shape_count(kolo_reference_in(job, 2)), e = 0;
    if (dx) memset(dx, 0, (size_t)(job->plan->microbatch * sample) * sizeof *dx);
    memset(dkernel, 0, (size_t)kolo_shape_count(kolo_reference_out(job, 1)) * sizeof *dkernel);
    if (dbias) memset(dbias, 0, (size_t)g.filters * sizeof *dbias);
    for (int n = 0; n < job->plan->microbatch; n++) {
        for (int h = 0; h < g.out_height; h++) {
            for (int w = 0; w < g.out_width; w++) {
                for (int f = 0; f < g.filters; f++, e++) {
                    double dz = y && y[e] <= 0 ? 0 : dy[e]; /* d relu(z) / dz = [z > 0] = [y > 0] */
                    if (dbias) dbias[f] += dz;
                    spread(&g, dz, x + n * sample, kernel, dx ? dx + n * sample : NULL, dkernel, h, w, f);
                }
            }
        }
    }
}
