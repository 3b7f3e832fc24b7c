/* Products element by element, in the layout of x1, and their sums over the pixels. x2 may have one pixel, whose
 * channels scale those of every pixel of x1. */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

/* The operands as blocks of channels. Their tilings differ in height and width alone. */
typedef struct images {
    int64_t count, pixels, block; /* samples · blocks; pixels of x1; elements of a pixel in a block */
    bool one;                     /* x2 has one pixel */
    const void *x1, *x2;
    void *y;
} images;

KOLO_INLINE void multiply_lanes(const images *m, int64_t i, int64_t c, int64_t lanes, int narrow)
{
    kolo_floats scale = {0};
    int64_t at = i * m->pixels * m->block + c;
    if (m->one) scale = kolo_get(m->x2, i * m->block + c, lanes, narrow);
    for (int64_t p = 0; p < m->pixels; p++, at += m->block) {
        if (!m->one) scale = kolo_get(m->x2, at, lanes, narrow);
        kolo_put(m->y, at, kolo_get(m->x1, at, lanes, narrow) * scale, lanes, narrow);
    }
}

KOLO_INLINE void sum_lanes(const images *m, int64_t i, int64_t c, int64_t lanes, int narrow)
{
    kolo_floats sum = {0};
    int64_t at = i * m->pixels * m->block + c;
    for (int64_t p = 0; p < m->pixels; p++, at += m->block)
        sum += kolo_get(m->x1, at, lanes, narrow) * kolo_get(m->x2, at, lanes, narrow);
    kolo_put(m->y, i * m->block + c, sum, lanes, narrow);
}

KOLO_INLINE void each_block(const images *m, bool sum, int narrow)
{
    for (int64_t i = 0; i < m->count; i++) {
        for (int64_t c = 0; c < m->block; c += KOLO_LANES) {
            int64_t left = m->block - c;
            if (sum && left >= KOLO_LANES) sum_lanes(m, i, c, KOLO_LANES, narrow);
            if (sum && left < KOLO_LANES) sum_lanes(m, i, c, left, narrow);
            if (!sum && left >= KOLO_LANES) multiply_lanes(m, i, c, KOLO_LANES, narrow);
            if (!sum && left < KOLO_LANES) multiply_lanes(m, i, c, left, narrow);
        }
    }
}

KOLO_ALL_TYPES(multiply, (const images *m), const images copy = *m; each_block(&copy, false, narrow))
KOLO_ALL_TYPES(sum, (const images *m), const images copy = *m; each_block(&copy, true, narrow))

/* Operands: x1, x2, y. flag: x2 has one pixel. */
static images images_of(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    return (images){.count = kernel->plan->microbatch * step->x.blocks,
                    .pixels = step->x.height * step->x.width,
                    .block = step->x.block,
                    .one = step->flag,
                    .x1 = kolo_operand_pointer(&step->operand[0], call),
                    .x2 = kolo_operand_pointer(&step->operand[1], call),
                    .y = kolo_operand_pointer(&step->operand[2], call)};
}

static void multiply(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    images m = images_of(kernel, step, call);
    KOLO_FASTEST(multiply, step->bfloat16)(&m);
}

static void multiply_sum(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    images m = images_of(kernel, step, call);
    KOLO_FASTEST(sum, step->bfloat16)(&m);
}

/* ---- operations */

/* The layout of x1, which all operands of its shape get. */
static kolo_status layout_of_x1(const kolo_plan *plan, const kolo_op *op, dnnl_memory_desc_t *desc)
{
    if (plan->values[op->in[0]].shape.rank == 3) return kolo_desc_image(plan, op->in[0], desc);
    return kolo_desc_plain(plan, op->in[0], kolo_activation_type(plan), desc);
}

static kolo_status add(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, bool sum)
{
    dnnl_memory_desc_t x1, x2, y;
    kolo_operand operands[3];
    bool one = !kolo_shape_equal(plan->values[op->in[0]].shape, plan->values[op->in[1]].shape);
    KOLO_TRY(layout_of_x1(plan, op, &x1));
    x2 = y = x1;
    if (one) KOLO_TRY(kolo_desc_resized(plan, &x1, plan->values[op->in[1]].shape, &x2));
    if (sum) KOLO_TRY(kolo_desc_resized(plan, &x1, plan->values[op->out[0]].shape, &y));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &y));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[0]), &x1, &operands[0]));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[1]), &x2, &operands[1]));
    operands[2] = kolo_output_buffer(kernel, op->out[0], &y);
    kolo_step *step = kolo_step_loop(kernel, sum ? multiply_sum : multiply, 3, operands);
    if (!step || !kolo_tiling_of(&x1, &step->x)) return KOLO_INTERNAL;
    step->flag = one;
    return kolo_reorder_out(kernel, operands[2], op->out[0]);
}

kolo_status kolo_onednn_multiply(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add(kernel, plan, op, false);
}

kolo_status kolo_onednn_multiply_sum(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add(kernel, plan, op, true);
}
