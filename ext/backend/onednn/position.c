/* Learned positions: one table is added to every sample. Its gradient is the sum of dy over the samples. */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

#include <string.h>

/* y = x + table, of one sample. */
KOLO_INLINE void add_table(const void *x, const float *table, void *y, int64_t at, int64_t count, int narrow)
{
    for (int64_t i = 0; i < count; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, count);
        kolo_floats sum = kolo_get_some(x, at + i, lanes, narrow) + kolo_get_some(table, i, lanes, 0);
        kolo_put_some(y, at + i, sum, lanes, narrow);
    }
}

KOLO_ALL_TYPES(add, (const void *x, const float *table, void *y, int64_t at, int64_t count),
               add_table(x, table, y, at, count, narrow))

/* Operands: x, table, y. */
static void add_positions(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    int64_t count = kolo_shape_count(kernel->plan->values[kernel->plan->ops[kernel->op].in[1]].shape);
    const void *x = kolo_operand_pointer(&step->operand[0], call);
    const float *table = kolo_operand_pointer(&step->operand[1], call);
    void *y = kolo_operand_pointer(&step->operand[2], call);
    for (int n = 0; n < kernel->plan->microbatch; n++) KOLO_FASTEST(add, step->bfloat16)(x, table, y, n * count, count);
}

kolo_status kolo_onednn_position(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[3];
    dnnl_data_type_t type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(kolo_layout_set_in_place(plan, op->in[1]));
    KOLO_TRY(kolo_plain_in(kernel, op->in[0], type, &operands[0]));
    operands[1] = kolo_operand_of(kernel, op->in[1]);
    KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], type, &operands[2]));
    if (!kolo_step_loop(kernel, add_positions, 3, operands)) return KOLO_INTERNAL;
    return kolo_reorder_out(kernel, operands[2], op->out[0]);
}

/* ---- backward */

KOLO_INLINE void add_sample(float *sum, const void *dy, int64_t at, int64_t count, int narrow)
{
    for (int64_t i = 0; i < count; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, count);
        kolo_floats more = kolo_get_some(sum, i, lanes, 0) + kolo_get_some(dy, at + i, lanes, narrow);
        kolo_put_some(sum, i, more, lanes, 0);
    }
}

KOLO_ALL_TYPES(sum, (float *sum, const void *dy, int64_t at, int64_t count), add_sample(sum, dy, at, count, narrow))

/* Operands: dy, dtable. */
static void sum_samples(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    int64_t count = kolo_shape_count(kernel->plan->values[kernel->plan->ops[kernel->op].out[0]].shape);
    const void *dy = kolo_operand_pointer(&step->operand[0], call);
    float *sum = kolo_operand_pointer(&step->operand[1], call);
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int n = 0; n < call->samples; n++) KOLO_FASTEST(sum, step->bfloat16)(sum, dy, n * count, count);
}

kolo_status kolo_onednn_position_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[2];
    KOLO_TRY(kolo_layout_set_plain(plan, op->out[0]));
    KOLO_TRY(kolo_plain_in(kernel, op->in[0], kolo_layout_of(plan, op->in[0])->desc.data_type, &operands[0]));
    operands[1] = kolo_operand_of(kernel, op->out[0]);
    return kolo_step_loop(kernel, sum_samples, 2, operands) ? KOLO_OK : KOLO_INTERNAL;
}
