/* y = table[x] for each position. The gradient of a row is the sum over the positions that read it:
 * dtable[v] = Σ_{x = v} dy, without the samples that pad the microbatch. */
#include "backend/reference/reference.h"

#include <string.h>

void kolo_reference_embedding(const kolo_reference_job *job)
{
    int64_t positions = job->plan->microbatch * kolo_shape_count(kolo_reference_in(job, 0));
    int64_t size = kolo_reference_in(job, 1).dim[1];
    const double *x = job->in[0], *table = job->in[1];
    double *y = job->out[0];
    for (int64_t p = 0; p < positions; p++) {
        for (int64_t i = 0; i < size; i++) y[p * size + i] = table[(int64_t)x[p] * size + i];
    }
}

void kolo_reference_embedding_backward(const kolo_reference_job *job)
{
    int64_t positions = job->call->samples * kolo_shape_count(kolo_reference_in(job, 1));
    kolo_shape table = kolo_reference_out(job, 0);
    int64_t size = table.dim[1];
    const double *dy = job->in[0], *x = job->in[1];
    double *dtable = job->out[0];
    memset(dtable, 0, (size_t)kolo_shape_count(table) * sizeof *dtable);
    for (int64_t p = 0; p < positions; p++) {
        for (int64_t i = 0; i < size; i++) dtable[(int64_t)x[p] * size + i] += dy[p * size + i];
    }
}
