/* Functions that the backends of the host share. Read backend/backend.h first. */
#include "backend/backend.h"
#include "losses/loss.h"
#include "losses/rows.h"
#include "losses/softmax.h"
#include "core/vector.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A pass over activations or weights crosses fewer entries of the TLB. */
enum { HUGE_PAGE = 2 << 20 };

kolo_status kolo_host_open(kolo_precision precision)
{
    if (precision == KOLO_TF32)
        kolo_warn("precision: KOLO_TF32 is what GPUs' tensor cores have: on the CPU it is KOLO_FLOAT32");
    return KOLO_OK;
}

void *kolo_host_allocate(size_t bytes)
{
    bool large = bytes >= 2 * HUGE_PAGE;
    size_t alignment = large ? HUGE_PAGE : 64, rounded = kolo_align(bytes, KOLO_ALIGNMENT);
    if (rounded < bytes) return NULL;
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, rounded ? rounded : 64) != 0) return NULL;
    if (large) madvise(memory, rounded / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* a system may have none */
    return memory;
}

void kolo_host_deallocate(void *memory)
{
    free(memory);
}

KOLO_VECTORISED void kolo_host_add(float *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

/* ------------------------------------------------------------------------------------------ the loss */

static void softmax(const float *z, int64_t count, float *p)
{
    float largest;
    double sum = kolo_exponentials(z, count, p, &largest);
    kolo_scale_row(p, count, (float)(1 / sum), 0);
}

static void sigmoid(const float *z, int64_t count, float *p)
{
    for (int64_t i = 0; i < count; i++) p[i] = kolo_sigmoid_of(z[i]);
}

/* The row with probabilities in place of outputs, for metrics that take probabilities. */
static kolo_row activated(const kolo_plan *plan, kolo_row row, float *probabilities)
{
    if (plan->probabilities == KOLO_SOFTMAX) softmax(row.outputs, row.count, probabilities);
    else if (plan->probabilities == KOLO_SIGMOID) sigmoid(row.outputs, row.count, probabilities);
    else return row;
    row.outputs = probabilities;
    return row;
}

static void add_metrics(const kolo_plan *plan, const kolo_call *call, const kolo_row *row, double share, float *room)
{
    const kolo_row likely = activated(plan, *row, room);
    for (int m = 0; m < KOLO_METRICS_MAX && plan->metrics[m].kind; m++) {
        const kolo_metric *metric = &plan->metrics[m];
        kolo_row seen = metric->kind->probabilities ? likely : *row;
        seen.number = metric->number;
        metric->kind->row(&seen, share, call->totals->sums + plan->metric_offset[m]);
    }
}

float kolo_host_loss_row(const kolo_plan *plan, const kolo_call *call, int64_t number, const float *outputs,
                         float *gradient, float *room)
{
    kolo_shape shape = plan->values[plan->output].shape;
    int64_t width = shape.dim[shape.rank - 1], rows = kolo_shape_count(shape) / width, sample = number / rows;
    double weight = call->weights ? (double)call->weights[sample] : 1, share = 1 / (double)rows;
    kolo_row row = {.outputs = outputs,
                    .count = width,
                    .label = call->labels ? call->labels[number] : -1,
                    .targets = call->targets ? call->targets + number * width : NULL,
                    .number = plan->loss.number};
    call->totals->loss += weight * share * plan->loss.kind->row(&row, gradient);
    add_metrics(plan, call, &row, share, room);
    return (float)(weight * share);
}

size_t kolo_host_loss_scratch(const kolo_plan *plan, const kolo_op *op)
{
    kolo_shape shape = plan->values[op->in[0]].shape;
    return plan->probabilities ? (size_t)shape.dim[shape.rank - 1] * sizeof(float) : 0;
}

kolo_status kolo_host_loss(const kolo_plan *plan, const kolo_op *op, const kolo_call *call)
{
    kolo_shape shape = plan->values[op->in[0]].shape;
    int64_t n = kolo_shape_count(shape), width = shape.dim[shape.rank - 1], rows = n / width;
    const float *outputs = call->memory[op->in[0]];
    float *gradient = op->out[0] < 0 ? NULL : call->memory[op->out[0]];
    for (int64_t r = 0; r < call->samples * rows; r++) {
        float *slope = gradient ? gradient + r * width : NULL;
        float factor = kolo_host_loss_row(plan, call, r, outputs + r * width, slope, call->scratch);
        if (slope && factor != 1) kolo_scale_row(slope, width, factor, 0);
    }
    call->totals->samples += call->samples;
    size_t padding = (size_t)(plan->microbatch - call->samples) * (size_t)n * sizeof *gradient;
    if (gradient) memset(gradient + call->samples * n, 0, padding);
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ custom operations */

/* Clears an output, so that a custom operation may add to it, and its padding is zero unless it is written. */
static float *cleared(const kolo_plan *plan, int value, const kolo_call *call)
{
    const kolo_value *out = &plan->values[value];
    int64_t samples = out->kind == KOLO_VALUE_GRADIENT ? 1 : plan->microbatch;
    return memset(call->memory[value], 0, (size_t)(samples * kolo_shape_count(out->shape)) * sizeof(float));
}

kolo_status kolo_host_custom(const kolo_plan *plan, const kolo_op *op, const kolo_call *call)
{
    kolo_custom_call custom = {.args = op->custom_args,
                               .samples = call->samples,
                               .microbatch = plan->microbatch,
                               .first_sample = call->first_sample,
                               .seed = call->seed,
                               .step = call->step,
                               .layer = op->layer,
                               .chance = plan->dropout,
                               .weights = call->weights,
                               .loss = &call->totals->loss,
                               .loss_scale = call->loss_scale == 0 ? 1 : call->loss_scale};
    for (int i = 0; i < KOLO_OP_INS; i++) {
        if (op->in[i] < 0) continue;
        custom.in[i] = call->memory[op->in[i]];
        custom.in_shape[i] = plan->values[op->in[i]].shape;
    }
    for (int i = 0; i < KOLO_OP_OUTS; i++) {
        if (op->out[i] < 0) continue;
        custom.out[i] = cleared(plan, op->out[i], call);
        custom.out_shape[i] = plan->values[op->out[i]].shape;
    }
    op->custom(&custom);
    return KOLO_OK;
}
