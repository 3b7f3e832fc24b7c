/* Dropout. Which elements are dropped is a function of (seed, step, layer, sample, element) alone: core/random.h. */
#include "backend/reference/reference.h"

void kolo_reference_dropout(const kolo_reference_job *job)
{
    int64_t elements = kolo_shape_count(kolo_reference_in(job, 0));
    uint64_t key = kolo_dropout_key(job->call->seed, job->op->layer, job->call->step);
    uint32_t threshold = kolo_dropout_threshold(job->op->rate);
    double scale = 1 / (1 - job->op->rate);
    const double *x = job->in[0];
    double *y = job->out[0];
    uint8_t *mask = job->out[1];
    for (int n = 0; n < job->plan->microbatch; n++) {
        for (int64_t e = 0; e < elements; e++) {
            uint64_t sample = (uint64_t)(job->call->first_sample + n);
            uint32_t bits = kolo_philox(key, (uint64_t)e / 4, sample).word[e % 4];
            *mask = bits >= threshold;
            *y++ = *mask++ ? scale * *x : 0;
            x++;
        }
    }
}

void kolo_reference_dropout_backward(const kolo_reference_job *job)
{
    int64_t elements = job->plan->microbatch * kolo_shape_count(kolo_reference_in(job, 0));
    double scale = 1 / (1 - job->op->rate);
    const double *dy = job->in[0];
    const uint8_t *mask = job->in[1];
    double *dx = job->out[0];
    for (int64_t e = 0; e < elements; e++) dx[e] = mask[e] ? scale * dy[e] : 0;
}
