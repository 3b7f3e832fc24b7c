/* Which operation is next to which, and one that does another's work along with its own: a pass over memory less.
 *
 * An operation that takes the next one writes that one's output, and the next has nothing to do; the two outputs are
 * then one value, which lives as long as either, and the next one's maker is not asked. What is rounded at the border
 * between the two stays rounded there. */
#include "backend/cuda/cuda.h"

static bool written(const kolo_plan *plan, int value)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            if (op->out[i] == value) return true;
    return false;
}

/* The value that an operation wrote, of which this is a view; one that was taken counts as written all the same. */
static int origin(const kolo_plan *plan, int value)
{
    while (plan->values[value].view_of >= 0 && !written(plan, value)) value = plan->values[value].view_of;
    return value;
}

bool kolo_cuda_same(const kolo_plan *plan, int a, int b)
{
    if (a < 0 || b < 0 || kolo_plan_base(plan, a) != kolo_plan_base(plan, b)) return false;
    return origin(plan, a) == origin(plan, b);
}

const kolo_op *kolo_cuda_writer(const kolo_plan *plan, int value)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            if (kolo_cuda_same(plan, op->out[i], value)) return op;
    return NULL;
}

const kolo_op *kolo_cuda_only_reader(const kolo_plan *plan, int value)
{
    const kolo_op *found = NULL;
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++) {
        for (int i = 0; i < KOLO_OP_INS; i++) {
            if (!kolo_cuda_same(plan, op->in[i], value)) continue;
            if (found) return NULL;
            found = op;
        }
    }
    return found;
}

/* Whether a value is no activation, or one of that element. */
static bool fits(const kolo_plan *plan, kolo_element element, int value)
{
    return value < 0 || plan->values[value].kind != KOLO_VALUE_ACTIVATION || kolo_cuda_element(plan, value) == element;
}

const kolo_op *kolo_cuda_next(const kolo_plan *plan, const kolo_op *op, kolo_element element, kolo_op_kind kind)
{
    const kolo_op *next = NULL;
    if (op->out[0] >= 0 && !kolo_cuda_same(plan, op->out[0], plan->output))
        next = kolo_cuda_only_reader(plan, op->out[0]);
    if (!next || next->kind != kind || next->device != op->device || !fits(plan, element, op->out[0])) return NULL;
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (!fits(plan, element, next->out[i])) return NULL;
    for (int i = 0; i < KOLO_OP_INS; i++) {
        if (!fits(plan, element, next->in[i])) return NULL;
        if (next->in[i] < 0 || kolo_cuda_same(plan, next->in[i], op->out[0])) continue;
        const kolo_op *writer = kolo_cuda_writer(plan, next->in[i]);
        if (writer && writer >= op) return NULL;
    }
    return next;
}

void kolo_cuda_take(kolo_plan *plan, const kolo_op *op, const kolo_op *next)
{
    plan->values[next->out[0]].view_of = op->out[0];
}

const kolo_op *kolo_cuda_took(const kolo_plan *plan, const kolo_op *op)
{
    const kolo_op *next = op->out[0] < 0 ? NULL : kolo_cuda_only_reader(plan, op->out[0]);
    bool took = next && next->out[0] >= 0 && kolo_plan_base(plan, next->out[0]) == kolo_plan_base(plan, op->out[0]);
    return took ? next : NULL;
}

bool kolo_cuda_taken(const kolo_plan *plan, const kolo_op *op)
{
    if (op->out[0] < 0) return false;
    int out = kolo_plan_base(plan, op->out[0]);
    for (int i = 0; i < KOLO_OP_INS; i++)
        if (op->in[i] >= 0 && kolo_plan_base(plan, op->in[i]) == out) return true;
    return false;
}

int kolo_cuda_other(const kolo_plan *plan, const kolo_op *add, int value)
{
    return kolo_cuda_same(plan, add->in[0], value) ? add->in[1] : add->in[0];
}
