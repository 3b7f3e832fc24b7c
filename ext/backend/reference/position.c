/* y = x + table, with the same table for every sample; dtable = Σ dy over the samples. */
#include "backend/reference/reference.h"

#include <string.h>

void kolo_reference_position(const kolo_reference_job *job)
{
    int64_t elements = kolo_shape_count(kolo_reference_in(job, 0));
    const double *x = job->in[0], *table = job->in[1];
    double *y = job->out[0];
    for (int n = 0; n < job->plan->microbatch; n++) {
        for (int64_t e = 0; e < elements; e++) y[n * elements + e] = x[n * elements + e] + table[e];
    }
}

void kolo_reference_position_backward(const kolo_reference_job *job)
{
    int64_t elements = kolo_shape_count(kolo_reference_in(job, 0));
    const double *dy = job->in[0];
    double *dtable = job->out[0];
    memset(dtable, 0, (size_t)elements * sizeof *dtable);
    for (int n = 0; n < job->call->samples; n++) {
        for (int64_t e = 0; e < elements; e++) dtable[e] += dy[n * elements + e];
    }
}
