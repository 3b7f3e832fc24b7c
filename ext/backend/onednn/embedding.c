/* Rows of a table, and the table's gradient.
 *
 * The table is not packed: the kernel reads the canonical weights. Only those rows of the gradient are written whose
 * numbers occur in the microbatch; behind the rows, one mark for each row says whether it was written. The functions
 * that add two gradients or unpack one read the marked rows only (layout.c).
 */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

KOLO_INLINE void take_rows(const float *tokens, const float *table, void *y, int64_t positions, int64_t size,
                           int narrow)
{
    for (int64_t p = 0; p < positions; p++) {
        const float *row = table + (int64_t)tokens[p] * size;
        for (int64_t i = 0; i < size; i += KOLO_LANES) {
            int64_t lanes = kolo_lanes_at(i, size);
            kolo_put_some(y, p * size + i, kolo_get_some(row, i, lanes, 0), lanes, narrow);
        }
    }
}

KOLO_ALL_TYPES(take, (const float *tokens, const float *table, void *y, int64_t positions, int64_t size),
               take_rows(tokens, table, y, positions, size, narrow))

/* Operands: y, features, table. */
static void look_up(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_plan *plan = kernel->plan;
    const kolo_op *op = &plan->ops[kernel->op];
    void *y = kolo_operand_pointer(&step->operand[0], call);
    const float *tokens = kolo_operand_pointer(&step->operand[1], call),
                *table = kolo_operand_pointer(&step->operand[2], call);
    int64_t positions = plan->microbatch * kolo_shape_count(plan->values[op->in[0]].shape);
    int64_t size = plan->values[op->in[1]].shape.dim[1];
    KOLO_FASTEST(take, step->bfloat16)(tokens, table, y, positions, size);
}

kolo_status kolo_onednn_embedding(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[3];
    KOLO_TRY(kolo_layout_set_plain(plan, op->in[0]));
    KOLO_TRY(kolo_layout_set_in_place(plan, op->in[1]));
    KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], kolo_onednn_type(plan, op->out[0]), &operands[0]));
    for (int i = 0; i < 2; i++) operands[i + 1] = kolo_operand_of(kernel, op->in[i]);
    if (!kolo_step_loop(kernel, look_up, 3, operands)) return KOLO_INTERNAL;
    return kolo_reorder_out(kernel, operands[0], op->out[0]);
}

/* ---- backward */

KOLO_INLINE void add_rows(const float *tokens, const void *dy, float *table, uint8_t *touched, int64_t positions,
                          int64_t size, int narrow)
{
    for (int64_t p = 0; p < positions; p++) {
        int64_t token = (int64_t)tokens[p];
        float *row = table + token * size;
        for (int64_t i = 0; i < size; i += KOLO_LANES) {
            int64_t lanes = kolo_lanes_at(i, size);
            kolo_floats slope = kolo_get_some(dy, p * size + i, lanes, narrow);
            if (touched[token]) slope += kolo_get_some(row, i, lanes, 0);
            kolo_put_some(row, i, slope, lanes, 0);
        }
        touched[token] = 1;
    }
}

KOLO_ALL_TYPES(add,
               (const float *tokens, const void *dy, float *table, uint8_t *touched, int64_t positions, int64_t size),
               add_rows(tokens, dy, table, touched, positions, size, narrow))

/* Operands: dy, features, dtable. */
static void sum_rows(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_plan *plan = kernel->plan;
    const kolo_op *op = &plan->ops[kernel->op];
    const void *dy = kolo_operand_pointer(&step->operand[0], call);
    const float *tokens = kolo_operand_pointer(&step->operand[1], call);
    float *table = kolo_operand_pointer(&step->operand[2], call);
    uint8_t *touched = kolo_rows_touched(plan, op->out[0], table);
    kolo_shape shape = plan->values[op->out[0]].shape;
    int64_t positions = call->samples * kolo_shape_count(plan->values[op->in[1]].shape);
    memset(touched, 0, (size_t)shape.dim[0]);
    KOLO_FASTEST(add, step->bfloat16)(tokens, dy, table, touched, positions, shape.dim[1]);
}

kolo_status kolo_onednn_embedding_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[3];
    KOLO_TRY(kolo_layout_set_plain(plan, op->in[1]));
    KOLO_TRY(kolo_layout_set_sparse(plan, op->out[0]));
    KOLO_TRY(kolo_plain_in(kernel, op->in[0], kolo_layout_of(plan, op->in[0])->desc.data_type, &operands[0]));
    operands[1] = kolo_operand_of(kernel, op->in[1]);
    operands[2] = kolo_operand_of(kernel, op->out[0]);
    return kolo_step_loop(kernel, sum_rows, 3, operands) ? KOLO_OK : KOLO_INTERNAL;
}
