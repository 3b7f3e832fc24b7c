/* Layer normalisation by custom loops, a row at a time, so that a row stays in the first-level cache while it is read
 * several times. The formulas are in backend/reference/layer_norm.c; a sum is made of sixteen float32 partial sums. */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

#include <string.h>

typedef struct moments {
    float mean, inverse; /* 1 / √(variance + ε) */
} moments;

/* Lanes of `values`; where there are no values (NULL), `otherwise` in every lane. */
KOLO_INLINE kolo_floats get_or(const float *values, int64_t at, int64_t lanes, float otherwise)
{
    return values ? kolo_get_some(values, at, lanes, 0) : otherwise - (kolo_floats){0};
}

KOLO_INLINE moments moments_of(const void *x, int64_t at, int64_t count, float epsilon, int narrow)
{
    kolo_floats sum = {0}, squares = {0};
    for (int64_t i = 0; i < count; i += KOLO_LANES) sum += kolo_get_some(x, at + i, kolo_lanes_at(i, count), narrow);
    float mean = kolo_sum_lanes(sum) / (float)count;
    for (int64_t i = 0; i < count; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, count);
        kolo_floats d = kolo_only(kolo_get_some(x, at + i, lanes, narrow) - mean, lanes);
        squares += d * d;
    }
    return (moments){mean, 1 / __builtin_sqrtf(kolo_sum_lanes(squares) / (float)count + epsilon)};
}

typedef struct normalisation {
    const void *x, *dy;
    const float *scale, *offset;
    void *y, *dx;
    float *dscale, *doffset;
    int64_t rows, count;
    float epsilon;
} normalisation;

KOLO_INLINE void normalise(const normalisation *o, int narrow)
{
    const int64_t count = o->count;
    for (int64_t r = 0, at = 0; r < o->rows; r++, at += count) {
        moments m = moments_of(o->x, at, count, o->epsilon, narrow);
        for (int64_t i = 0; i < count; i += KOLO_LANES) {
            int64_t lanes = kolo_lanes_at(i, count);
            kolo_floats z = (kolo_get_some(o->x, at + i, lanes, narrow) - m.mean) * m.inverse;
            z = z * get_or(o->scale, i, lanes, 1) + get_or(o->offset, i, lanes, 0);
            kolo_put_some(o->y, at + i, z, lanes, narrow);
        }
    }
}

/* Adds a row's part to dscale and doffset, and computes *sum = Σ dz and *dot = Σ dz·z. */
KOLO_INLINE void add_row(const normalisation *o, moments m, int64_t at, int64_t count, int narrow, float *sum,
                         float *dot)
{
    kolo_floats sums = {0}, dots = {0};
    for (int64_t i = 0; i < count; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, count);
        kolo_floats dy = kolo_get_some(o->dy, at + i, lanes, narrow);
        kolo_floats z = (kolo_get_some(o->x, at + i, lanes, narrow) - m.mean) * m.inverse;
        if (o->dscale) kolo_put_some(o->dscale, i, kolo_get_some(o->dscale, i, lanes, 0) + dy * z, lanes, 0);
        if (o->doffset) kolo_put_some(o->doffset, i, kolo_get_some(o->doffset, i, lanes, 0) + dy, lanes, 0);
        kolo_floats dz = dy * get_or(o->scale, i, lanes, 1);
        sums += kolo_only(dz, lanes);
        dots += kolo_only(dz * z, lanes);
    }
    *sum = kolo_sum_lanes(sums);
    *dot = kolo_sum_lanes(dots);
}

KOLO_INLINE void differentiate(const normalisation *o, int narrow)
{
    const int64_t count = o->count;
    for (int64_t r = 0, at = 0; r < o->rows; r++, at += count) {
        float sum, dot;
        moments m = moments_of(o->x, at, count, o->epsilon, narrow);
        add_row(o, m, at, count, narrow, &sum, &dot);
        for (int64_t i = 0; o->dx && i < count; i += KOLO_LANES) {
            int64_t lanes = kolo_lanes_at(i, count);
            kolo_floats dz = kolo_get_some(o->dy, at + i, lanes, narrow) * get_or(o->scale, i, lanes, 1);
            kolo_floats z = (kolo_get_some(o->x, at + i, lanes, narrow) - m.mean) * m.inverse;
            kolo_put_some(o->dx, at + i, (dz - sum / (float)count - z * (dot / (float)count)) * m.inverse, lanes,
                          narrow);
        }
    }
}

KOLO_ALL_TYPES(normalise, (const normalisation *o), normalise(o, narrow))
KOLO_ALL_TYPES(differentiate, (const normalisation *o), differentiate(o, narrow))

static void *pointer(const kolo_call *call, int value)
{
    return value < 0 ? NULL : call->memory[value];
}

/* Sets the number of rows in a microbatch, the number of elements of a row, and epsilon. */
static void measure(const kolo_plan *plan, const kolo_op *op, int x, normalisation *o)
{
    kolo_shape shape = plan->values[x].shape;
    o->count = shape.dim[shape.rank - 1];
    o->rows = plan->microbatch * (kolo_shape_count(shape) / o->count);
    o->epsilon = (float)op->epsilon;
}

/* Operands: x, y. */
static void forward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    normalisation o = {.x = kolo_operand_pointer(&step->operand[0], call),
                       .y = kolo_operand_pointer(&step->operand[1], call),
                       .scale = pointer(call, op->in[1]),
                       .offset = pointer(call, op->in[2])};
    measure(kernel->plan, op, op->in[0], &o);
    KOLO_FASTEST(normalise, step->bfloat16)(&o);
}

/* Operands: dy, x, dx (x again if there is no dx). */
static void backward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    normalisation o = {.dy = kolo_operand_pointer(&step->operand[0], call),
                       .x = kolo_operand_pointer(&step->operand[1], call),
                       .dx = op->out[0] < 0 ? NULL : kolo_operand_pointer(&step->operand[2], call),
                       .scale = pointer(call, op->in[2]),
                       .dscale = pointer(call, op->out[1]),
                       .doffset = pointer(call, op->out[2])};
    measure(kernel->plan, op, op->in[1], &o);
    if (o.dscale) memset(o.dscale, 0, (size_t)o.count * sizeof *o.dscale);
    if (o.doffset) memset(o.doffset, 0, (size_t)o.count * sizeof *o.doffset);
    KOLO_FASTEST(differentiate, step->bfloat16)(&o);
}

kolo_status kolo_onednn_layer_norm(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[2];
    dnnl_data_type_t type = kolo_onednn_type(plan, op->out[0]);
    for (int i = 1; i < 3; i++)
        if (op->in[i] >= 0) KOLO_TRY(kolo_layout_set_in_place(plan, op->in[i]));
    KOLO_TRY(kolo_plain_in(kernel, op->in[0], type, &operands[0]));
    KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], type, &operands[1]));
    if (!kolo_step_loop(kernel, forward, 2, operands)) return KOLO_INTERNAL;
    return kolo_reorder_out(kernel, operands[1], op->out[0]);
}

kolo_status kolo_onednn_layer_norm_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[3];
    dnnl_data_type_t type = kolo_activation_type(plan);
    for (int i = 1; i < 3; i++) KOLO_TRY(kolo_layout_set_plain(plan, op->out[i]));
    if (op->in[2] >= 0) KOLO_TRY(kolo_layout_set_in_place(plan, op->in[2]));
    for (int i = 0; i < 2; i++) KOLO_TRY(kolo_plain_in(kernel, op->in[i], type, &operands[i]));
    operands[2] = operands[1];
    if (op->out[0] >= 0) KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], type, &operands[2]));
    if (!kolo_step_loop(kernel, backward, 3, operands)) return KOLO_INTERNAL;
    return op->out[0] >= 0 ? kolo_reorder_out(kernel, operands[2], op->out[0]) : KOLO_OK;
}
