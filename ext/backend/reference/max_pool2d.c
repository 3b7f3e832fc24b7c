/* y = max x over each window, without zeros of padding. The element that is the maximum gets the gradient: of equal
 * ones the first in reading order. A NaN counts as larger than any number, as in PyTorch; of several NaNs the last one
 * is the maximum. */
#include "backend/reference/reference.h"

#include <math.h>
#include <string.h>

/* The pixel of the window's maximum in the channel that x points to: row · width + column. */
static int32_t find_maximum(const double *x, kolo_shape in, const kolo_window *window, int h, int w)
{
    int32_t best = -1;
    for (int i = 0; i < window->kernel[0]; i++) {
        for (int j = 0; j < window->kernel[1]; j++) {
            int row = h * window->stride[0] + i - window->before[0];
            int column = w * window->stride[1] + j - window->before[1];
            if (row < 0 || row >= in.dim[0] || column < 0 || column >= in.dim[1]) continue;
            int32_t pixel = row * in.dim[1] + column;
            double value = x[(int64_t)pixel * in.dim[2]];
            if (best < 0 || isnan(value) || value > x[(int64_t)best * in.dim[2]]) best = pixel;
        }
    }
    return best;
}

void kolo_reference_max_pool2d(const kolo_reference_job *job)
{
    kolo_shape in = kolo_reference_in(job, 0), out = kolo_reference_out(job, 0);
    const double *x = job->in[0];
    double *y = job->out[0];
    int32_t *where = job->out[1];
    for (int n = 0; n < job->plan->microbatch; n++, x += kolo_shape_count(in)) {
        for (int h = 0; h < out.dim[0]; h++) {
            for (int w = 0; w < out.dim[1]; w++) {
                for (int c = 0; c < out.dim[2]; c++) {
                    int32_t pixel = find_maximum(x + c, in, &job->op->window, h, w);
                    *y++ = x[(int64_t)pixel * in.dim[2] + c];
                    if (where) *where++ = pixel;
                }
            }
        }
    }
}

void kolo_reference_max_pool2d_backward(const kolo_reference_job *job)
{
    kolo_shape in = kolo_reference_out(job, 0), out = kolo_reference_in(job, 0);
    int64_t elements = kolo_shape_count(out), channels = out.dim[2];
    const double *dy = job->in[0];
    const int32_t *where = job->in[1];
    double *dx = job->out[0];
    memset(dx, 0, (size_t)(job->plan->microbatch * kolo_shape_count(in)) * sizeof *dx);
    for (int n = 0; n < job->plan->microbatch; n++, dx += kolo_shape_count(in)) {
        for (int64_t e = 0; e < elements; e++) dx[*where++ * channels + e % channels] += *dy++;
    }
}
