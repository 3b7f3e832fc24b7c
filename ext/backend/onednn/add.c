/* y = activation(x1 + x2), in the layout of x1, by a custom loop in the order of memory. A sum of gradients also takes
 * the gradient of the ReLU behind it (KOLO_FUSE_RELU_BACKWARD). */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

KOLO_INLINE void add_lanes(const void *x1, const void *x2, void *y, int64_t at, int64_t lanes, bool relu, int narrow)
{
    kolo_floats sum = kolo_get_some(x1, at, lanes, narrow) + kolo_get_some(x2, at, lanes, narrow);
    if (relu) sum = kolo_select_floats(sum < 0, (kolo_floats){0}, sum);
    kolo_put_some(y, at, sum, lanes, narrow);
}
KOLO_ALL_TYPES(add, (const void *x1, const void *x2, void *y, int64_t count, bool relu),
               for (int64_t at = 0; at < count; at += KOLO_LANES)
                   add_lanes(x1, x2, y, at, kolo_lanes_at(at, count), relu, narrow))

/* y ← (x1 + x2) · [relu > 0]: NaN stays NaN, as in the pass of pointwise.c that this one replaces. */
KOLO_INLINE void add_masked_lanes(const void *x1, const void *x2, const void *relu, void *y, int64_t at, int64_t lanes,
                                  int narrow)
{
    kolo_floats sum = kolo_get_some(x1, at, lanes, narrow) + kolo_get_some(x2, at, lanes, narrow), one = {0};
    one += 1;
    kolo_floats mask = kolo_select_floats(kolo_get_some(relu, at, lanes, narrow) <= 0, (kolo_floats){0}, one);
    kolo_put_some(y, at, sum * mask, lanes, narrow);
}
KOLO_ALL_TYPES(add_masked, (const void *x1, const void *x2, const void *relu, void *y, int64_t count),
               for (int64_t at = 0; at < count; at += KOLO_LANES)
                   add_masked_lanes(x1, x2, relu, y, at, kolo_lanes_at(at, count), narrow))

/* Operands: x1, x2, y. flag: relu. */
static void add(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)kernel;
    const void *x1 = kolo_operand_pointer(&step->operand[0], call), *x2 = kolo_operand_pointer(&step->operand[1], call);
    void *y = kolo_operand_pointer(&step->operand[2], call);
    KOLO_FASTEST(add, step->bfloat16)(x1, x2, y, step->elements, step->flag);
}

/* Operands: x1, x2, y, the output of the ReLU. */
static void add_masked(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)kernel;
    const void *x1 = kolo_operand_pointer(&step->operand[0], call), *x2 = kolo_operand_pointer(&step->operand[1], call);
    const void *relu = kolo_operand_pointer(&step->operand[3], call);
    void *y = kolo_operand_pointer(&step->operand[2], call);
    KOLO_FASTEST(add_masked, step->bfloat16)(x1, x2, relu, y, step->elements);
}

kolo_status kolo_onednn_add(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    const kolo_op *relu = kolo_onednn_fused(plan, op);
    kolo_operand operands[4];
    dnnl_memory_desc_t layout = kolo_layout_of(plan, op->in[0])->desc;
    layout.data_type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &layout));
    for (int i = 0; i < 2; i++)
        KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[i]), &layout, &operands[i]));
    operands[2] = kolo_output_buffer(kernel, op->out[0], &layout);
    if (relu) KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, relu->in[1]), &layout, &operands[3]));
    kolo_step *step = kolo_step_loop(kernel, relu ? add_masked : add, relu ? 4 : 3, operands);
    if (!step) return KOLO_INTERNAL;
    step->flag = op->activation == KOLO_RELU;
    return kolo_reorder_out(kernel, operands[2], op->out[0]);
}
