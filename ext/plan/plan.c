/* Builds a plan: the growing lists of values and operations. Read plan/plan.h first. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

const char *kolo_op_name(kolo_op_kind kind)
{
    static const char *const names[] = {
#define NAME(name, ins, outs) #name,
        KOLO_OPS(NAME)
#undef NAME
    };
    return names[kind];
}

/* Grows a list by one element. It doubles the memory whenever the length is a power of two. */
static kolo_status grow(void **list, int count, size_t size)
{
    if (count != 0 && (count & (count - 1)) != 0) return KOLO_OK;
    size_t bytes = (count == 0 ? 1 : 2 * (size_t)count) * size;
    void *larger = realloc(*list, bytes);
    if (!larger) return kolo_fail_memory(bytes, "the plan");
    *list = larger;
    return KOLO_OK;
}

static int add_value(kolo_plan *plan, kolo_value value)
{
    void *list = plan->values;
    if (grow(&list, plan->value_count, sizeof value) != KOLO_OK) return -1;
    plan->values = list;
    plan->values[plan->value_count] = value;
    return plan->value_count++;
}

int kolo_plan_value(kolo_plan *plan, kolo_value_kind kind, kolo_shape shape)
{
    bool sums = kind == KOLO_VALUE_PARTIAL || kind == KOLO_VALUE_REDUCED;
    return add_value(plan, (kolo_value){.kind = kind,
                                        .shape = shape,
                                        .parameter = -1,
                                        .view_of = -1,
                                        .packed_as = -1,
                                        .canonical = kind == KOLO_VALUE_INPUT,
                                        .bytes = sums ? (size_t)kolo_shape_count(shape) * sizeof(double) : 0});
}

int kolo_plan_view(kolo_plan *plan, int value, kolo_shape shape)
{
    kolo_value_kind kind = plan->values[value].kind;
    return add_value(plan,
                     (kolo_value){.kind = kind, .shape = shape, .parameter = -1, .view_of = value, .packed_as = -1});
}

static int add_of_parameter(kolo_plan *plan, kolo_value_kind kind, int parameter, kolo_shape shape)
{
    return add_value(plan, (kolo_value){
                               .kind = kind, .shape = shape, .parameter = parameter, .view_of = -1, .packed_as = -1});
}

int kolo_plan_weights(kolo_plan *plan, int parameter, kolo_shape shape)
{
    return add_of_parameter(plan, KOLO_VALUE_WEIGHTS, parameter, shape);
}

int kolo_plan_gradient(kolo_plan *plan, int parameter, kolo_shape shape)
{
    return add_of_parameter(plan, KOLO_VALUE_GRADIENT, parameter, shape);
}

kolo_status kolo_plan_op(kolo_plan *plan, kolo_op op)
{
    void *list = plan->ops;
    KOLO_TRY(kolo_plan_check_operands(plan, &op));
    KOLO_TRY(grow(&list, plan->op_count, sizeof op));
    plan->ops = list;
    op.device = plan->device;
    op.also_computes = op.computed_by = -1;
    plan->ops[plan->op_count++] = op;
    return KOLO_OK;
}

void kolo_plan_free(kolo_plan *plan)
{
    free(plan->values);
    free(plan->ops);
    memset(plan, 0, sizeof *plan);
}

int kolo_plan_base(const kolo_plan *plan, int value)
{
    while (plan->values[value].view_of >= 0) value = plan->values[value].view_of;
    return plan->values[value].packed_as < 0 ? value : plan->values[value].packed_as;
}

/* A packed copy. */
static bool is_packed(const kolo_value *value)
{
    return value->kind == KOLO_VALUE_WEIGHTS && kolo_value_has_memory(value) && !value->in_place && value->bytes > 0;
}

void kolo_plan_share_packed(kolo_plan *plan, int value, bool (*alike)(const kolo_plan *plan, int earlier, int value))
{
    kolo_value *own = &plan->values[value];
    if (!is_packed(own)) return;
    for (int v = 0; v < value; v++) {
        const kolo_value *earlier = &plan->values[v];
        bool same = is_packed(earlier) && earlier->parameter == own->parameter && earlier->memory == own->memory &&
                    earlier->bytes == own->bytes;
        if (!same || !alike(plan, v, value)) continue;
        own->packed_as = v;
        own->bytes = 0;
        return;
    }
}

static bool is_written(const kolo_plan *plan, int value)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            if (op->out[i] == value) return true;
    return false;
}

/* Follows views until a value that an operation writes. */
static int origin(const kolo_plan *plan, int value)
{
    while (plan->values[value].view_of >= 0 && !is_written(plan, value)) value = plan->values[value].view_of;
    return value;
}

bool kolo_plan_same(const kolo_plan *plan, int a, int b)
{
    if (a < 0 || b < 0 || kolo_plan_base(plan, a) != kolo_plan_base(plan, b)) return false;
    return origin(plan, a) == origin(plan, b);
}

const kolo_op *kolo_plan_writer(const kolo_plan *plan, int value)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            if (kolo_plan_same(plan, op->out[i], value)) return op;
    return NULL;
}

const kolo_op *kolo_plan_only_reader(const kolo_plan *plan, int value)
{
    const kolo_op *found = NULL;
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++) {
        for (int i = 0; i < KOLO_OP_INS; i++) {
            if (!kolo_plan_same(plan, op->in[i], value)) continue;
            if (found) return NULL;
            found = op;
        }
    }
    return found;
}

bool kolo_plan_canonical(const kolo_plan *plan, int value)
{
    int base = kolo_plan_base(plan, value);
    bool canonical = false;
    for (int i = 0; i < plan->value_count; i++) {
        canonical = canonical || (plan->values[i].canonical && kolo_plan_base(plan, i) == base);
    }
    return canonical;
}
