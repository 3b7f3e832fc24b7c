/* y = x1 · x2, where x2 may be {1, 1, C}, the same for every pixel; and Σ x1 · x2 over the pixels, which is the
 * gradient of such an x2. */
#include "backend/reference/reference.h"

#include <string.h>

void kolo_reference_multiply(const kolo_reference_job *job)
{
    const double *x1 = job->in[0], *x2 = job->in[1];
    double *y = job->out[0];
    int64_t count = kolo_shape_count(kolo_reference_in(job, 0)), scales = kolo_shape_count(kolo_reference_in(job, 1));
    for (int n = 0; n < job->plan->microbatch; n++)
        for (int64_t e = 0; e < count; e++) *y++ = *x1++ * x2[n * scales + e % scales];
}

void kolo_reference_multiply_sum(const kolo_reference_job *job)
{
    const double *x1 = job->in[0], *x2 = job->in[1];
    double *y = job->out[0];
    int64_t count = kolo_shape_count(kolo_reference_in(job, 0)), sums = kolo_shape_count(kolo_reference_out(job, 0));
    memset(y, 0, (size_t)(job->plan->microbatch * sums) * sizeof *y);
    for (int n = 0; n < job->plan->microbatch; n++)
        for (int64_t e = 0; e < count; e++) y[n * sums + e % sums] += *x1++ * *x2++;
}
