/* y = x1 + x2, then ReLU where it is fused. */
#include "backend/reference/reference.h"

void kolo_reference_add(const kolo_reference_job *job)
{
    const double *x1 = job->in[0], *x2 = job->in[1];
    double *y = job->out[0];
    int64_t elements = job->plan->microbatch * kolo_shape_count(kolo_reference_out(job, 0));
    bool relu = job->op->activation == KOLO_RELU;
    for (int64_t e = 0; e < elements; e++) y[e] = relu ? kolo_reference_relu(x1[e] + x2[e]) : x1[e] + x2[e];
}
