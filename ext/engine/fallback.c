/* Replaces operations that a backend lacks: see fallback.h. */
#include "engine/fallback.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "layers/layer.h"

/* A plan for the reference backend that has one operation and its operands. */
struct kolo_fallback {
    kolo_custom_args args; /* the first member: its address is that of the fallback, too */
    kolo_plan plan;
    void *kernel;
    kolo_fallback *next;
};

/* ---------------------------------------------------------------- computing */

static void mark_outputs(const kolo_custom_call *call)
{
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (call->out[i]) call->out[i][0] = NAN;
}

/* Runs the kernel. A custom operation cannot report a failure, so after one the first element of each output is NaN. */
static void compute(const kolo_custom_call *call)
{
    const void *args = call->args;
    const kolo_fallback *fallback = args;
    const kolo_op *op = &fallback->plan.ops[0];
    void *memory[KOLO_OP_INS + KOLO_OP_OUTS];
    for (int i = 0; i < KOLO_OP_INS; i++)
        if (op->in[i] >= 0) memory[op->in[i]] = (void *)(uintptr_t)call->in[i]; /* it is only read */
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (op->out[i] >= 0) memory[op->out[i]] = call->out[i];
    kolo_call made = {.memory = memory,
                      .scratch = kolo_host_allocate(op->scratch + 1),
                      .samples = call->samples,
                      .first_sample = call->first_sample,
                      .seed = call->seed,
                      .step = call->step,
                      .weights = call->weights};
    bool fine = made.scratch && kolo_reference_backend.run(fallback->kernel, &made) == KOLO_OK;
    if (!fine) mark_outputs(call);
    kolo_host_deallocate(made.scratch);
}

/* ---------------------------------------------------------------- replacing */

static bool is_array(const kolo_plan *plan, int value)
{
    if (value < 0) return true;
    kolo_value_kind kind = plan->values[kolo_plan_base(plan, value)].kind;
    return kind == KOLO_VALUE_INPUT || kind == KOLO_VALUE_ACTIVATION || kind == KOLO_VALUE_WEIGHTS ||
           kind == KOLO_VALUE_GRADIENT;
}

static bool can_be_replaced(const kolo_plan *plan, const kolo_op *op)
{
    bool fits = op->kind != KOLO_OP_LOSS && op->kind != KOLO_OP_DENSE_LOSS && op->kind != KOLO_OP_CUSTOM;
    for (int i = 0; i < KOLO_OP_INS; i++) fits = fits && is_array(plan, op->in[i]);
    for (int i = 0; i < KOLO_OP_OUTS; i++) fits = fits && is_array(plan, op->out[i]);
    return fits;
}

static const char *layer_of(const kolo_plan *plan, const kolo_op *op)
{
    return plan->layers ? plan->layers[op->layer].name : "an operation";
}

static kolo_status check_replaceable(const kolo_plan *plan, const kolo_op *op, const kolo_backend *backend)
{
    if (can_be_replaced(plan, op)) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "%s: wanted a backend that has its operation %s, got %s; the reference backend cannot stand in, "
                     "since the operation is a loss or has a workspace or sums",
                     layer_of(plan, op), kolo_op_name(op->kind), backend->name);
}

/* Adds an operand of the same shape to the fallback's plan. Both it and the original become canonical. */
static kolo_status add_operand(kolo_fallback *fallback, kolo_plan *plan, int *value)
{
    if (*value < 0) return KOLO_OK;
    const kolo_value *from = &plan->values[*value];
    kolo_value_kind kind = plan->values[kolo_plan_base(plan, *value)].kind;
    plan->values[kolo_plan_base(plan, *value)].canonical = true;
    *value = kolo_plan_value(&fallback->plan, kind, from->shape);
    if (*value < 0) return KOLO_MEMORY;
    fallback->plan.values[*value].canonical = true;
    return KOLO_OK;
}

static kolo_status fill(kolo_fallback *fallback, kolo_plan *plan, const kolo_op *op)
{
    kolo_op alone = *op;
    alone.device = 0;
    fallback->plan = (kolo_plan){.microbatch = plan->microbatch,
                                 .training = plan->training,
                                 .dropout = plan->dropout,
                                 .precision = KOLO_FLOAT32};
    for (int i = 0; i < KOLO_OP_INS; i++) KOLO_TRY(add_operand(fallback, plan, &alone.in[i]));
    for (int i = 0; i < KOLO_OP_OUTS; i++) KOLO_TRY(add_operand(fallback, plan, &alone.out[i]));
    KOLO_TRY(kolo_plan_op(&fallback->plan, alone));
    return kolo_reference_backend.prepare(&fallback->plan, 0, &fallback->kernel);
}

static void say_once(const kolo_plan *plan, const kolo_op *op, const kolo_backend *backend)
{
    static atomic_flag said[KOLO_OP_KINDS];
    if (atomic_flag_test_and_set(&said[op->kind])) return;
    kolo_warn("%s: backend %s lacks its operation %s: the reference backend computes it, which is slow",
              layer_of(plan, op), backend->name, kolo_op_name(op->kind));
}

static kolo_status replace(kolo_plan *plan, kolo_op *op, kolo_fallback **list)
{
    kolo_fallback *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an operation");
    made->next = *list;
    *list = made;
    KOLO_TRY(fill(made, plan, op));
    op->kind = KOLO_OP_CUSTOM;
    op->custom = compute;
    op->custom_args = &made->args;
    return KOLO_OK;
}

kolo_status kolo_fallback_insert(kolo_plan *plan, const kolo_backend *backend, kolo_fallback **list)
{
    for (int o = 0; backend->has && o < plan->op_count; o++) {
        kolo_op *op = &plan->ops[o];
        bool of_the_engine = op->kind == KOLO_OP_REDUCE || op->kind == KOLO_OP_COPY;
        if (of_the_engine || backend->has(op->kind)) continue;
        KOLO_TRY(check_replaceable(plan, op, backend));
        say_once(plan, op, backend);
        KOLO_TRY(replace(plan, op, list));
    }
    return KOLO_OK;
}

void kolo_fallback_free(kolo_fallback **list)
{
    while (*list) {
        kolo_fallback *next = (*list)->next;
        if ((*list)->kernel) kolo_reference_backend.release((*list)->kernel);
        kolo_plan_free(&(*list)->plan);
        free(*list);
        *list = next;
    }
}
