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

/* A sample's rows, and what the metrics make of them. */
static void add_sample(const kolo_plan *plan, const kolo_call *call, int sample, const float *outputs, int64_t n,
                       int64_t rows, float *gradient)
{
    double weight = call->weights ? (double)call->weights[sample] : 1, share = 1 / (double)rows;
    int64_t width = n / rows;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = sample * rows + r;
        kolo_row row = {.outputs = outputs + at * width,
                        .count = width,
                        .label = call->labels ? call->labels[at] : -1,
                        .targets = call->targets ? call->targets + at * width : NULL,
                        .number = plan->loss.number};
        float *slope = gradient ? gradient + at * width : NULL;
        call->totals->loss += weight * share * plan->loss.kind->row(&row, slope);
        for (int64_t i = 0; slope && (weight != 1 || rows > 1) && i < width; i++) slope[i] *= (float)(weight * share);
        for (int m = 0; m < KOLO_METRICS_MAX && plan->metrics[m].kind; m++) {
            row.number = plan->metrics[m].number;
            plan->metrics[m].kind->row(&row, share, call->totals->sums + plan->metric_offset[m]);
        }
    }
}

kolo_status kolo_host_loss(const kolo_plan *plan, const kolo_op *op, const kolo_call *call)
{
    kolo_shape shape = plan->values[op->in[0]].shape;
    int64_t n = kolo_shape_count(shape), rows = n / shape.dim[shape.rank - 1];
    const float *outputs = call->memory[op->in[0]];
    float *gradient = op->out[0] < 0 ? NULL : call->memory[op->out[0]];
    for (int s = 0; s < call->samples; s++) add_sample(plan, call, s, outputs, n, rows, gradient);
    call->totals->samples += call->samples;
    size_t padding = (size_t)(plan->leaf - call->samples) * (size_t)n * sizeof *gradient;
    if (gradient) memset(gradient + call->samples * n, 0, padding);
    return KOLO_OK;
}

kolo_status kolo_host_own(const kolo_plan *plan, const kolo_op *op, const kolo_call *call)
{
    kolo_own_call own = {.args = op->own_args,
                         .samples = call->samples,
                         .leaf = plan->leaf,
                         .first_sample = call->first_sample,
                         .seed = call->seed,
                         .step = call->step};
    for (int i = 0; i < KOLO_OP_INS; i++) {
        if (op->in[i] < 0) continue;
        own.in[i] = call->memory[op->in[i]];
        own.in_shape[i] = plan->values[op->in[i]].shape;
    }
    for (int i = 0; i < KOLO_OP_OUTS; i++) {
        if (op->out[i] < 0) continue;
        own.out[i] = call->memory[op->out[i]];
        own.out_shape[i] = plan->values[op->out[i]].shape;
    }
    op->own(&own);
    return KOLO_OK;
}
