/* What every backend shares that computes in this process's own memory. Read backend/backend.h first. */
#include "backend/backend.h"
#include "core/loss.h"
#include "core/vector.h"

#include <stdlib.h>
#include <string.h>

void *kolo_host_allocate(size_t bytes)
{
    size_t rounded = (bytes + 63) / 64 * 64;
    return rounded >= bytes ? aligned_alloc(64, rounded ? rounded : 64) : NULL;
}

void kolo_host_deallocate(void *memory)
{
    free(memory);
}

KOLO_VECTORISED void kolo_host_add(float *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

void kolo_host_loss(const kolo_plan *plan, const kolo_call *call, const float *outputs, int64_t n, float *gradient)
{
    for (int s = 0; s < call->samples; s++) {
        const float *output = outputs + s * n;
        call->totals->loss += plan->loss->sample(output, n, call->labels[s], gradient ? gradient + s * n : NULL);
        for (int m = 0; m < KOLO_METRICS_MAX && plan->metrics[m]; m++) {
            call->totals->metrics[m] += plan->metrics[m]->sample(output, n, call->labels[s]);
        }
    }
    call->totals->samples += call->samples;
    size_t padding = (size_t)(plan->leaf - call->samples) * (size_t)n * sizeof *gradient;
    if (gradient) memset(gradient + call->samples * n, 0, padding);
}
