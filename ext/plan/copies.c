/* Copies between devices: see copies.h. */
#include "plan/copies.h"

#include <stdlib.h>
#include <string.h>

typedef struct work {
    kolo_plan *plan;
    int devices;
    int layer; /* the current operation's */
    int *copies; /* [value_count before copies were added][devices]: each value's copy on each device; -1: none yet */
} work;

/* Adds a copy of a value that is not a view to the current device (plan->device). */
static kolo_status copy_value(work *w, int value, int *copy)
{
    kolo_plan *plan = w->plan;
    kolo_value x = plan->values[value];
    if (x.kind != KOLO_VALUE_INPUT && x.kind != KOLO_VALUE_ACTIVATION)
        return kolo_fail(KOLO_UNSUPPORTED, "wanted layers of one device, which share more than activations");
    int y = kolo_plan_value(plan, x.kind, x.shape);
    if (y < 0) return KOLO_MEMORY;
    plan->values[y].canonical = kolo_plan_canonical(plan, value);
    plan->values[y].memory = plan->device;
    *copy = y;
    return kolo_plan_op(plan, (kolo_op){.kind = KOLO_OP_COPY, .layer = w->layer, .in = {value}, .out = {y}});
}

/* Finds the value, or a view, on the current device. Adds the copy if there is none yet. */
static kolo_status find_or_copy(work *w, int value, int *found)
{
    kolo_plan *plan = w->plan;
    int *known = &w->copies[value * w->devices + plan->device];
    int base = kolo_plan_base(plan, value), copy = base;
    if (plan->values[base].memory == plan->device) *known = value;
    if (*known < 0 && value == base) KOLO_TRY(copy_value(w, value, known));
    if (*known < 0) {
        KOLO_TRY(find_or_copy(w, base, &copy));
        *known = kolo_plan_view(plan, copy, plan->values[value].shape);
        if (*known < 0) return KOLO_MEMORY;
        plan->values[*known].memory = plan->device;
    }
    *found = *known;
    return KOLO_OK;
}

static bool is_of_samples(kolo_value_kind kind)
{
    return kind != KOLO_VALUE_WEIGHTS && kind != KOLO_VALUE_GRADIENT;
}

static kolo_status add_op(work *w, kolo_op op)
{
    kolo_plan *plan = w->plan;
    plan->device = op.device;
    w->layer = op.layer;
    for (int i = 0; i < KOLO_OP_INS; i++) {
        if (op.in[i] < 0) continue;
        if (!is_of_samples(plan->values[op.in[i]].kind)) plan->values[op.in[i]].memory = op.device;
        else KOLO_TRY(find_or_copy(w, op.in[i], &op.in[i]));
    }
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (op.out[i] >= 0) plan->values[op.out[i]].memory = op.device;
    if (op.kind == KOLO_OP_LOSS) plan->output = op.in[0]; /* the copy that the loss reads */
    return kolo_plan_op(plan, op);
}

static kolo_status add_ops(work *w, const kolo_op *ops, int count, int forward_count)
{
    for (int o = 0; o < count; o++) {
        if (o == forward_count) w->plan->forward_count = w->plan->op_count;
        KOLO_TRY(add_op(w, ops[o]));
    }
    if (count == forward_count) w->plan->forward_count = w->plan->op_count;
    return KOLO_OK;
}

kolo_status kolo_copies_insert(kolo_plan *plan, int devices)
{
    if (devices == 1) return KOLO_OK;
    size_t bytes = (size_t)(plan->value_count * devices) * sizeof(int);
    work w = {.plan = plan, .devices = devices, .copies = malloc(bytes)};
    if (!w.copies) return kolo_fail_memory(bytes, "a plan");
    memset(w.copies, -1, bytes);
    kolo_op *ops = plan->ops;
    int count = plan->op_count;
    plan->ops = NULL;
    plan->op_count = 0;
    kolo_status status = add_ops(&w, ops, count, plan->forward_count);
    free(ops);
    free(w.copies);
    return status;
}
