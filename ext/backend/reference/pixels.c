/* Operations that move pixels: padding with zeros and cropping, upsampling and its gradient. */
#include "backend/reference/reference.h"

#include <string.h>

static int64_t pixel_of(kolo_shape image, int n, int h, int w)
{
    return (((int64_t)n * image.dim[0] + h) * image.dim[1] + w) * image.dim[2];
}

/* Copies each pixel of the smaller image to, or from, its place in the larger one. */
static void move(const kolo_reference_job *job, kolo_shape small, kolo_shape large, bool to_large)
{
    const double *from = job->in[0];
    double *to = job->out[0];
    for (int n = 0; n < job->plan->microbatch; n++)
        for (int h = 0; h < small.dim[0]; h++)
            for (int w = 0; w < small.dim[1]; w++) {
                int64_t s = pixel_of(small, n, h, w);
                int64_t l = pixel_of(large, n, h + job->op->window.before[0], w + job->op->window.before[1]);
                memcpy(to + (to_large ? l : s), from + (to_large ? s : l), (size_t)small.dim[2] * sizeof *to);
            }
}

void kolo_reference_pad2d(const kolo_reference_job *job)
{
    kolo_shape large = kolo_reference_out(job, 0);
    memset(job->out[0], 0, (size_t)(job->plan->microbatch * kolo_shape_count(large)) * sizeof(double));
    move(job, kolo_reference_in(job, 0), large, true);
}

void kolo_reference_crop2d(const kolo_reference_job *job)
{
    move(job, kolo_reference_out(job, 0), kolo_reference_in(job, 0), false);
}

void kolo_reference_upsample2d(const kolo_reference_job *job)
{
    kolo_shape in = kolo_reference_in(job, 0), out = kolo_reference_out(job, 0);
    const double *x = job->in[0];
    double *y = job->out[0];
    const int *factor = job->op->window.kernel;
    for (int n = 0; n < job->plan->microbatch; n++)
        for (int h = 0; h < out.dim[0]; h++)
            for (int w = 0; w < out.dim[1]; w++, y += out.dim[2])
                memcpy(y, x + pixel_of(in, n, h / factor[0], w / factor[1]), (size_t)out.dim[2] * sizeof *y);
}

void kolo_reference_upsample2d_backward(const kolo_reference_job *job)
{
    kolo_shape in = kolo_reference_out(job, 0), out = kolo_reference_in(job, 0);
    const double *dy = job->in[0];
    double *dx = job->out[0];
    const int *factor = job->op->window.kernel;
    memset(dx, 0, (size_t)(job->plan->microbatch * kolo_shape_count(in)) * sizeof *dx);
    for (int n = 0; n < job->plan->microbatch; n++)
        for (int h = 0; h < out.dim[0]; h++)
            for (int w = 0; w < out.dim[1]; w++)
                for (int c = 0; c < out.dim[2]; c++) dx[pixel_of(in, n, h / factor[0], w / factor[1]) + c] += *dy++;
}
