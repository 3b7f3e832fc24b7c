/* The mean of each window's n elements; zeros of padding are not counted. Each of the n elements gets the gradient
 * dy / n. */
#include "backend/reference/reference.h"

#include <string.h>

/* The rows (axis 0) or columns (axis 1) of x under the window at output position `at`: from *first to *end - 1. */
static void clip(const kolo_window *window, int axis, int at, int length, int *first, int *end)
{
    int origin = at * window->stride[axis] - window->before[axis];
    *first = origin < 0 ? 0 : origin;
    *end = origin + window->kernel[axis] > length ? length : origin + window->kernel[axis];
}

/* One window of channel c of one sample: returns the mean of x, or (dx not NULL) adds its gradient to dx. */
static double mean(const kolo_window *window, kolo_shape in, int h, int w, int c, const double *x, double dy,
                   double *dx)
{
    int h0, h1, w0, w1;
    double sum = 0;
    clip(window, 0, h, in.dim[0], &h0, &h1);
    clip(window, 1, w, in.dim[1], &w0, &w1);
    int64_t n = (int64_t)(h1 - h0) * (w1 - w0);
    for (int row = h0; row < h1; row++) {
        for (int column = w0; column < w1; column++) {
            int64_t at = ((int64_t)row * in.dim[1] + column) * in.dim[2] + c;
            if (dx) dx[at] += dy / (double)n;
            if (!dx) sum += x[at];
        }
    }
    return sum / (double)n;
}

void kolo_reference_average_pool2d(const kolo_reference_job *job)
{
    kolo_shape in = kolo_reference_in(job, 0), out = kolo_reference_out(job, 0);
    const double *x = job->in[0];
    double *y = job->out[0];
    for (int n = 0; n < job->plan->microbatch; n++, x += kolo_shape_count(in))
        for (int h = 0; h < out.dim[0]; h++)
            for (int w = 0; w < out.dim[1]; w++)
                for (int c = 0; c < out.dim[2]; c++) *y++ = mean(&job->op->window, in, h, w, c, x, 0, NULL);
}

void kolo_reference_average_pool2d_backward(const kolo_reference_job *job)
{
    kolo_shape in = kolo_reference_out(job, 0), out = kolo_reference_in(job, 0);
    const double *dy = job->in[0];
    double *dx = job->out[0];
    memset(dx, 0, (size_t)(job->plan->microbatch * kolo_shape_count(in)) * sizeof *dx);
    for (int n = 0; n < job->plan->microbatch; n++, dx += kolo_shape_count(in))
        for (int h = 0; h < out.dim[0]; h++)
            for (int w = 0; w < out.dim[1]; w++)
                for (int c = 0; c < out.dim[2]; c++) mean(&job->op->window, in, h, w, c, NULL, *dy++, dx);
}
