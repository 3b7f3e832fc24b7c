/* Custom arithmetic, which consists of functions of the host: layers (KOLO_OP_CUSTOM), and losses with a custom kind
 * or metric. Operands are copied to the host, the functions run there in the stream's order, and results are copied
 * back. All of this work can be captured. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

typedef struct custom_kernel custom_kernel;

/* The argument of compute() for one microbatch of the batch. Captured graphs contain its address, so it is freed
 * together with the kernel. */
typedef struct host_call {
    struct host_call *next;
    const custom_kernel *kernel;
    int64_t first_sample;
    bool labels, targets, weights; /* whether the call has them */
} host_call;

struct custom_kernel {
    const kolo_plan *plan;
    const kolo_op *op;
    kolo_stream *stream;
    void *block;   /* the host's pinned memory, which the following point into */
    void **memory; /* [plan->value_count]: the addresses of the operands' copies, else NULL */
    void *scratch;
    kolo_step_parameters *step_parameters;
    kolo_totals *totals;
    int32_t *labels;
    float *targets, *weights;
    host_call *host_calls;
};

/* ---- on the host ---- */

static void scale_gradient(const custom_kernel *o, int samples, double scale)
{
    int gradient = o->op->out[0];
    if (gradient < 0 || scale == 1) return;
    float *values = o->memory[gradient];
    int64_t count = samples * kolo_shape_count(o->plan->values[gradient].shape);
    for (int64_t i = 0; i < count; i++) values[i] *= (float)scale;
}

/* kolo_host_custom() and kolo_host_loss() never fail. */
static void compute(void *argument)
{
    const host_call *v = argument;
    const custom_kernel *o = v->kernel;
    int64_t left = o->step_parameters->samples - v->first_sample;
    kolo_call call = {.memory = o->memory,
                      .scratch = o->scratch,
                      .samples = left < 0                     ? 0
                                 : left < o->plan->microbatch ? (int)left
                                                              : o->plan->microbatch,
                      .first_sample = v->first_sample,
                      .seed = o->step_parameters->seed,
                      .step = o->step_parameters->step,
                      .labels = v->labels ? o->labels : NULL,
                      .targets = v->targets ? o->targets : NULL,
                      .weights = v->weights ? o->weights : NULL,
                      .loss_scale = o->step_parameters->loss_scale,
                      .totals = o->totals};
    if (o->op->kind == KOLO_OP_CUSTOM) {
        kolo_host_custom(o->plan, o->op, &call);
        return;
    }
    kolo_host_loss(o->plan, o->op, &call);
    scale_gradient(o, call.samples, o->step_parameters->loss_scale);
}

/* ---- there and back ---- */

/* Finds the host call of the call's microbatch, or makes it. NULL: there is no memory (reported). */
static host_call *host_call_of(custom_kernel *o, const kolo_call *call)
{
    host_call wanted = {.kernel = o,
                        .first_sample = call->first_sample,
                        .labels = call->labels,
                        .targets = call->targets,
                        .weights = call->weights};
    for (host_call *v = o->host_calls; v; v = v->next) {
        bool same = v->first_sample == wanted.first_sample && v->labels == wanted.labels &&
                    v->targets == wanted.targets && v->weights == wanted.weights;
        if (same) return v;
    }
    host_call *made = malloc(sizeof *made);
    if (!made) {
        kolo_fail_memory(sizeof *made, "a call of the host");
        return NULL;
    }
    wanted.next = o->host_calls;
    *made = wanted;
    o->host_calls = made;
    return made;
}

static size_t bytes_of(const kolo_plan *plan, int value)
{
    return (size_t)kolo_cuda_count(plan, value) * sizeof(float);
}

/* A layer may add to the loss, and to nothing else of the totals. */
static size_t totals_bytes(const custom_kernel *o)
{
    if (o->op->kind == KOLO_OP_CUSTOM) return offsetof(kolo_totals, loss) + sizeof(double);
    return offsetof(kolo_totals, sums) + (size_t)o->plan->metric_sums * sizeof(double);
}

static kolo_status copy(const custom_kernel *o, void *to, const void *from, size_t bytes)
{
    return from && to ? kolo_cuda_streams.copy(o->stream, to, from, bytes) : KOLO_OK;
}

static int64_t outputs_of(const kolo_plan *plan)
{
    return plan->microbatch * kolo_shape_count(plan->values[plan->output].shape);
}
static int64_t labels_of(const kolo_plan *plan)
{
    return outputs_of(plan) / kolo_cuda_width(plan->values[plan->output].shape);
}

static kolo_status run_custom(const kolo_cuda_job *job)
{
    custom_kernel *o = job->kernel->state;
    const kolo_call *call = job->call;
    const kolo_plan *plan = job->plan;
    host_call *v = host_call_of(o, call);
    if (!v) return KOLO_MEMORY;
    for (int i = 0; i < KOLO_OP_INS; i++)
        if (job->in[i]) KOLO_TRY(copy(o, o->memory[job->op->in[i]], job->in[i], bytes_of(plan, job->op->in[i])));
    KOLO_TRY(copy(o, o->step_parameters, call->step_parameters, offsetof(kolo_step_parameters, updates)));
    KOLO_TRY(copy(o, o->totals, call->totals, totals_bytes(o)));
    KOLO_TRY(copy(o, o->weights, call->weights, (size_t)plan->microbatch * sizeof *o->weights));
    KOLO_TRY(copy(o, o->labels, call->labels, o->labels ? (size_t)labels_of(plan) * sizeof *o->labels : 0));
    KOLO_TRY(copy(o, o->targets, call->targets, o->targets ? (size_t)outputs_of(plan) * sizeof *o->targets : 0));
    KOLO_TRY(kolo_cuda_streams.call(o->stream, compute, v));
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (job->out[i]) KOLO_TRY(copy(o, job->out[i], o->memory[job->op->out[i]], bytes_of(plan, job->op->out[i])));
    return copy(o, call->totals, o->totals, totals_bytes(o));
}

/* ---- making ---- */

static void free_custom(void *made)
{
    custom_kernel *o = made;
    kolo_cuda_streams.release_host(o->stream, o->block); /* waits for the stream's work */
    for (host_call *v = o->host_calls, *next; v; v = next) {
        next = v->next;
        free(v);
    }
    free(o->memory);
    free(o);
}

/* The next part of the block. Before the block is allocated, it is NULL, and only its bytes are counted. */
static void *part_of(const custom_kernel *o, size_t *at, size_t bytes)
{
    size_t here = *at;
    *at += kolo_align(bytes, KOLO_ALIGNMENT);
    return o->block ? (char *)o->block + here : NULL;
}

static size_t place_all(custom_kernel *o)
{
    const kolo_plan *plan = o->plan;
    const kolo_op *op = o->op;
    bool loss = op->kind == KOLO_OP_LOSS;
    size_t at = 0;
    for (int i = 0; i < KOLO_OP_INS; i++)
        if (op->in[i] >= 0) o->memory[op->in[i]] = part_of(o, &at, bytes_of(plan, op->in[i]));
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (op->out[i] >= 0) o->memory[op->out[i]] = part_of(o, &at, bytes_of(plan, op->out[i]));
    o->step_parameters = part_of(o, &at, sizeof *o->step_parameters);
    o->totals = part_of(o, &at, sizeof *o->totals);
    o->weights = part_of(o, &at, (size_t)plan->microbatch * sizeof *o->weights);
    if (!loss) return at;
    o->scratch = part_of(o, &at, kolo_host_loss_scratch(plan, op));
    o->labels = part_of(o, &at, (size_t)labels_of(plan) * sizeof *o->labels);
    o->targets = part_of(o, &at, (size_t)outputs_of(plan) * sizeof *o->targets);
    return at;
}

kolo_status kolo_cuda_make_custom(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    custom_kernel *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a call of the host");
    *made = (custom_kernel){.plan = plan, .op = op, .stream = plan->stream};
    kernel->state = made;
    kernel->free_state = free_custom;
    kernel->element = KOLO_ELEMENT_FLOAT; /* its operands are canonical */
    kernel->run = run_custom;
    made->memory = calloc((size_t)plan->value_count, sizeof *made->memory);
    if (!made->memory) return kolo_fail_memory((size_t)plan->value_count * sizeof *made->memory, "a call of the host");
    KOLO_TRY(kolo_cuda_streams.allocate_host(plan->stream, place_all(made), &made->block));
    place_all(made);
    return KOLO_OK;
}
