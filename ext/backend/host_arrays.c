/* Operations on arrays that the host's streams share: see stream.h. */
#include <string.h>

#include "backend/backend.h"

/* ---------------------------------------------------------------- samples */

/* Works in blocks of a constant size, because compilers vectorise those already at -O2. */
static void scale_bytes(const uint8_t *restrict bytes, float scale, int64_t count, float *restrict features)
{
    enum { block = 32 };
    int64_t done = 0;
    for (; done + block <= count; done += block)
        for (int i = 0; i < block; i++) features[done + i] = (float)bytes[done + i] * scale;
    for (; done < count; done++) features[done] = (float)bytes[done] * scale;
}

static void gather_features(const kolo_sources *from, int64_t number, float *to)
{
    int64_t count = from->elements, first = number * count;
    if (from->bytes) scale_bytes(from->bytes + first, from->scale, count, to);
    if (from->floats) memcpy(to, from->floats + first, (size_t)count * sizeof *to);
    for (int64_t i = 0; from->tokens && i < count; i++) to[i] = (float)from->tokens[first + i];
}

void kolo_labels_expand(const int32_t *labels, int count, int64_t outputs, float *targets)
{
    int64_t width = outputs / count;
    for (int i = 0; i < count; i++) {
        if (width == 1) targets[i] = (float)labels[i];
        else if (labels[i] >= 0 && labels[i] < width) targets[i * width + labels[i]] = 1;
    }
}

static void gather_targets(const kolo_sources *from, int64_t number, int64_t outputs, float *to)
{
    size_t bytes = (size_t)outputs * sizeof *to;
    if (from->autoencoder) gather_features(from, number, to);
    else if (from->targets) memcpy(to, from->targets + number * outputs, bytes);
    else memset(to, 0, bytes);
    if (from->labels && !from->autoencoder && !from->targets)
        kolo_labels_expand(from->labels + number * from->label_count, from->label_count, outputs, to);
}

static void gather_labels(const kolo_sources *from, int64_t number, int32_t *to)
{
    for (int k = 0; k < from->label_count; k++)
        to[k] = from->labels ? from->labels[number * from->label_count + k] : -1;
}

void kolo_gather_samples(const kolo_sources *from, int64_t first, int count, const kolo_gathered *to)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t number = from->order ? from->order[first + i] : first + i;
        if (to->features) gather_features(from, number, to->features + i * from->elements);
        if (to->labels) gather_labels(from, number, to->labels + i * from->label_count);
        if (to->targets) gather_targets(from, number, to->outputs, to->targets + i * to->outputs);
        if (to->weights) to->weights[i] = from->weights ? from->weights[number] : 1;
    }
}

static void clear_samples(const kolo_sources *from, int64_t at, int64_t count, const kolo_gathered *to)
{
    size_t samples = (size_t)count;
    if (to->features)
        memset(to->features + at * from->elements, 0, samples * (size_t)from->elements * sizeof *to->features);
    if (to->labels)
        memset(to->labels + at * from->label_count, 0, samples * (size_t)from->label_count * sizeof *to->labels);
    if (to->targets) memset(to->targets + at * to->outputs, 0, samples * (size_t)to->outputs * sizeof *to->targets);
    if (to->weights) memset(to->weights + at, 0, samples * sizeof *to->weights);
}

static int samples_of(const kolo_step_parameters *step_parameters, int64_t first, int microbatch)
{
    int64_t left = step_parameters->samples - first;
    return left < 0 ? 0 : left < microbatch ? (int)left : microbatch;
}

void kolo_host_gather(const kolo_sources *from, const kolo_step_parameters *step_parameters, int64_t first,
                      int microbatch, const kolo_gathered *to)
{
    int samples = samples_of(step_parameters, first, microbatch);
    kolo_gather_samples(from, step_parameters->first + first, samples, to);
    clear_samples(from, samples, microbatch - samples, to);
}

/* ---------------------------------------------------------------- sums */

void kolo_host_sum(double *sum, const void *parts, size_t stride, int number, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double total = 0;
        for (int part = 0; part < number; part++)
            total += ((const double *)((const char *)parts + (size_t)part * stride))[i];
        sum[i] = total;
    }
}

bool kolo_host_are_finite(const float *values, int64_t count)
{
    float sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i] * 0;
    return sum == 0; /* 0 · ∞ and 0 · NaN are NaN */
}

/* ---------------------------------------------------------------- one lane */

kolo_status kolo_for_each_in_order(int64_t first, int64_t end, bool backward,
                                   kolo_status (*body)(void *argument, int lane, int64_t number), void *argument)
{
    for (int64_t i = first; i < end; i++) KOLO_TRY(body(argument, 0, backward ? first + end - 1 - i : i));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- kernels */

/* Multiplies the gradient of the outputs by the loss scale. */
static void scale_loss(const kolo_plan *plan, const kolo_call *call)
{
    if (call->loss_scale == 0 || call->loss_scale == 1 || plan->loss_gradient < 0) return;
    float *gradient = call->memory[plan->loss_gradient];
    int64_t count = plan->microbatch * kolo_shape_count(plan->values[plan->loss_gradient].shape);
    for (int64_t i = 0; i < count; i++) gradient[i] *= (float)call->loss_scale;
}

kolo_status kolo_host_run(const kolo_backend *backend, const kolo_plan *plan, int op, void *kernel,
                          const kolo_call *call)
{
    kolo_call now = *call;
    now.samples = samples_of(call->step_parameters, call->first_sample, plan->microbatch);
    now.seed = call->step_parameters->seed;
    now.step = call->step_parameters->step;
    now.loss_scale = call->step_parameters->loss_scale;
    KOLO_TRY(backend->run(kernel, &now));
    if (plan->ops[op].kind == KOLO_OP_LOSS) scale_loss(plan, &now);
    return KOLO_OK;
}

kolo_status kolo_host_convert(const kolo_backend *backend, const kolo_plan *plan, const kolo_conversion *list,
                              int count)
{
    bool packs = count > 0 && plan->values[list[0].value].kind == KOLO_VALUE_WEIGHTS;
    if (backend->convert && count > 0) return backend->convert(plan, list, count);
    for (int i = 0; i < count; i++)
        KOLO_TRY(packs ? backend->pack(plan, list[i].value, list[i].from, list[i].to)
                       : backend->unpack(plan, list[i].value, list[i].from, list[i].to));
    return KOLO_OK;
}
