/* Transposed convolution and its gradients: layers/conv2d_transpose.c has the formula. */
#include "backend/reference/reference.h"

#include <string.h>

/* x is the smaller image, y the larger one. */
typedef struct geometry {
    kolo_shape x, y;
    kolo_window window;
} geometry;

/* The first element of the pixel of y to which pixel {h, w} of x contributes through element {i, j} of the kernel; -1
 * if that pixel is outside y. */
static int64_t pixel_of_y(const geometry *g, int h, int w, int i, int j)
{
    int row = h * g->window.stride[0] + i - g->window.before[0];
    int column = w * g->window.stride[1] + j - g->window.before[1];
    bool inside = row >= 0 && row < g->y.dim[0] && column >= 0 && column < g->y.dim[1];
    return inside ? ((int64_t)row * g->y.dim[1] + column) * g->y.dim[2] : -1;
}

/* Called for each product with the indices of its elements of x, of the kernel {kh, kw, filters, channels}, of y. */
typedef void product(void *with, int64_t x, int64_t kernel, int64_t y);

static void each_product(const geometry *g, int microbatch, product *visit, void *with)
{
    int channels = g->x.dim[2], filters = g->y.dim[2];
    int64_t x = 0;
    for (int n = 0; n < microbatch; n++)
        for (int h = 0; h < g->x.dim[0]; h++)
            for (int w = 0; w < g->x.dim[1]; w++, x += channels)
                for (int i = 0; i < g->window.kernel[0]; i++)
                    for (int j = 0; j < g->window.kernel[1]; j++) {
                        int64_t pixel = pixel_of_y(g, h, w, i, j);
                        int64_t kernel = ((int64_t)i * g->window.kernel[1] + j) * filters * channels;
                        for (int f = 0; pixel >= 0 && f < filters; f++)
                            for (int c = 0; c < channels; c++)
                                visit(with, x + c, kernel + (int64_t)f * channels + c,
                                      n * kolo_shape_count(g->y) + pixel + f);
                    }
}

typedef struct operands {
    const double *x, *kernel, *dy, *relu; /* relu: the y behind a ReLU, or NULL */
    double *y, *dx, *dkernel;
} operands;

/* dy is only read: other operations may read it, too. */
static double dz_of(const operands *o, int64_t y)
{
    return o->relu && o->relu[y] <= 0 ? 0 : o->dy[y];
}

static void add_to_y(void *with, int64_t x, int64_t kernel, int64_t y)
{
    operands *o = with;
    o->y[y] += o->x[x] * o->kernel[kernel];
}

static void add_to_gradients(void *with, int64_t x, int64_t kernel, int64_t y)
{
    operands *o = with;
    double dz = dz_of(o, y);
    o->dkernel[kernel] += o->x[x] * dz;
    if (o->dx) o->dx[x] += o->kernel[kernel] * dz;
}

void kolo_reference_conv2d_transpose(const kolo_reference_job *job)
{
    geometry g = {kolo_reference_in(job, 0), kolo_reference_out(job, 0), job->op->window};
    operands o = {.x = job->in[0], .kernel = job->in[1], .y = job->out[0]};
    const double *bias = job->in[2];
    int64_t count = job->plan->microbatch * kolo_shape_count(g.y);
    for (int64_t e = 0; e < count; e++) o.y[e] = bias ? bias[e % g.y.dim[2]] : 0;
    each_product(&g, job->plan->microbatch, add_to_y, &o);
    for (int64_t e = 0; job->op->activation == KOLO_RELU && e < count; e++) o.y[e] = kolo_reference_relu(o.y[e]);
}

void kolo_reference_conv2d_transpose_backward(const kolo_reference_job *job)
{
    geometry g = {kolo_reference_in(job, 2), kolo_reference_in(job, 0), job->op->window};
    double *dbias = job->out[2];
    operands o = {.dy = job->in[0],
                  .relu = job->in[1],
                  .x = job->in[2],
                  .kernel = job->in[3],
                  .dx = job->out[0],
                  .dkernel = job->out[1]};
    int filters = g.y.dim[2];
    int64_t count = job->plan->microbatch * kolo_shape_count(g.y);
    if (o.dx) memset(o.dx, 0, (size_t)(job->plan->microbatch * kolo_shape_count(g.x)) * sizeof *o.dx);
    memset(o.dkernel, 0, (size_t)kolo_shape_count(kolo_reference_out(job, 1)) * sizeof *o.dkernel);
    if (dbias) memset(dbias, 0, (size_t)filters * sizeof *dbias);
    for (int64_t e = 0; dbias && e < count; e++) dbias[e % filters] += dz_of(&o, e);
    each_product(&g, job->plan->microbatch, add_to_gradients, &o);
}
