/* Concatenation along an axis, and slices of it, by copying runs. A run is contiguous in memory: it spans the axis and
 * the axes behind it. The axes before it give the number of runs of a sample, `outer`. In the canonical order this
 * holds for any axis. Images in blocks of channels stay so where no block is cut; the axes in memory are then {blocks,
 * height, width}. */
#include "backend/onednn/onednn.h"

#include <string.h>

static size_t element_size(const dnnl_memory_desc_t *desc)
{
    return desc->data_type == dnnl_bf16 ? sizeof(uint16_t) : sizeof(float);
}

/* Bytes of one run of an operand that has `runs` runs. */
static size_t run_of(const kolo_step *step, int operand, int64_t runs)
{
    return dnnl_memory_desc_get_size(&step->operand[operand].desc) / (size_t)runs;
}

/* Operands: the inputs, then y. number[0]: outer. */
static void join(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    int64_t runs = kernel->plan->microbatch * step->number[0];
    int inputs = step->count - 1;
    char *y = kolo_operand_pointer(&step->operand[inputs], call);
    const char *x[KOLO_OP_INS];
    size_t run[KOLO_OP_INS];
    for (int i = 0; i < inputs; i++) {
        x[i] = kolo_operand_pointer(&step->operand[i], call);
        run[i] = run_of(step, i, runs);
    }
    for (int64_t r = 0; r < runs; r++)
        for (int i = 0; i < inputs; y += run[i], x[i] += run[i], i++) memcpy(y, x[i], run[i]);
}

/* Operands: x, y. number[0]: outer; number[1]: the elements of each run of x before the slice. */
static void cut(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    int64_t runs = kernel->plan->microbatch * step->number[0];
    size_t from = run_of(step, 0, runs), to = run_of(step, 1, runs);
    const char *x = kolo_operand_pointer(&step->operand[0], call);
    char *y = kolo_operand_pointer(&step->operand[1], call);
    x += (size_t)step->number[1] * element_size(&step->operand[0].desc);
    for (int64_t r = 0; r < runs; r++, x += from, y += to) memcpy(y, x, to);
}

/* ---- layouts */

/* Whether a part that begins at element `first` of the axis and has `count` of `whole` cuts no block of channels. */
static bool fits(const kolo_tiling *t, int axis, int first, int count, int whole)
{
    return axis != 2 || (first % t->block == 0 && (count % t->block == 0 || first + count == whole));
}

/* The number of runs of a sample: for an image in that tiling, or (t NULL) in the canonical order. */
static int64_t outer_of(const kolo_tiling *t, kolo_shape shape, int axis)
{
    int64_t outer = 1;
    for (int a = 0; !t && a < axis; a++) outer *= shape.dim[a];
    if (t && axis < 2) outer = t->blocks * (axis == 1 ? shape.dim[0] : 1);
    return outer;
}

/* The elements of a run that lie before element `first` of the axis. */
static int64_t offset_of(const kolo_tiling *t, kolo_shape shape, int axis, int first)
{
    int64_t inner = 1;
    for (int a = axis + 1; !t && a < shape.rank; a++) inner *= shape.dim[a];
    if (t && axis == 0) inner = shape.dim[1] * t->block;
    if (t && axis == 1) inner = t->block;
    if (t && axis == 2) inner = (int64_t)shape.dim[0] * shape.dim[1]; /* first is a multiple of the block */
    return first * inner;
}

/* *shared: whether all inputs are images in one tiling, *t, that y can have, too. */
static kolo_status shared_tiling(const kolo_plan *plan, const kolo_op *op, int inputs, kolo_tiling *t, bool *shared)
{
    dnnl_memory_desc_t desc;
    kolo_tiling other;
    int first = 0, axis = op->axis, whole = plan->values[op->out[0]].shape.dim[axis];
    *shared = plan->values[op->in[0]].shape.rank == 3;
    for (int i = 0; *shared && i < inputs; i++) {
        int count = plan->values[op->in[i]].shape.dim[axis];
        KOLO_TRY(kolo_desc_image(plan, op->in[i], &desc));
        bool tiled = kolo_tiling_of(&desc, i == 0 ? t : &other);
        *shared = tiled && (i == 0 || other.block == t->block) && fits(t, axis, first, count, whole);
        *shared = *shared && (axis != 2 || t->block == 4 || t->block == 8 || t->block == 16);
        first += count;
    }
    return KOLO_OK;
}

kolo_status kolo_onednn_concatenate(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[KOLO_STEP_OPERANDS];
    dnnl_memory_desc_t x, y;
    kolo_tiling t;
    bool tiled;
    int inputs = 0;
    kolo_shape shape = plan->values[op->out[0]].shape;
    dnnl_data_type_t type = kolo_activation_type(plan);
    while (inputs < KOLO_OP_INS && op->in[inputs] >= 0) inputs++;
    KOLO_TRY(shared_tiling(plan, op, inputs, &t, &tiled));
    KOLO_TRY(kolo_desc_plain(plan, op->out[0], type, &y));
    for (int i = 0; i < inputs; i++) {
        KOLO_TRY(kolo_desc_plain(plan, op->in[i], type, &x));
        if (tiled) KOLO_TRY(kolo_desc_image(plan, op->in[i], &x));
        if (tiled && i == 0)
            KOLO_TRY(kolo_desc_blocked(plan, shape, op->axis < 2 && t.block == t.channels ? 0 : t.block, type, &y));
        KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[i]), &x, &operands[i]));
    }
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &y));
    operands[inputs] = kolo_output_buffer(kernel, op->out[0], &y);
    kolo_step *step = kolo_step_loop(kernel, join, inputs + 1, operands);
    if (!step) return KOLO_INTERNAL;
    step->number[0] = outer_of(tiled ? &t : NULL, shape, op->axis);
    return kolo_reorder_out(kernel, operands[inputs], op->out[0]);
}

kolo_status kolo_onednn_slice(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    dnnl_memory_desc_t x, y;
    kolo_tiling t;
    kolo_shape in = plan->values[op->in[0]].shape, out = plan->values[op->out[0]].shape;
    dnnl_data_type_t type = kolo_activation_type(plan);
    bool tiled = in.rank == 3;
    if (tiled) KOLO_TRY(kolo_desc_image(plan, op->in[0], &x));
    tiled = tiled && kolo_tiling_of(&x, &t) && (op->axis != 2 || t.block != t.channels) &&
            fits(&t, op->axis, op->first, out.dim[op->axis], in.dim[op->axis]);
    if (tiled) KOLO_TRY(kolo_desc_resized(plan, &x, out, &y));
    if (!tiled) KOLO_TRY(kolo_desc_plain(plan, op->in[0], type, &x));
    if (!tiled) KOLO_TRY(kolo_desc_plain(plan, op->out[0], type, &y));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &y));
    kolo_step *step = kolo_step_images(kernel, op->in[0], &x, op->out[0], &y, cut);
    if (!step) return KOLO_INTERNAL;
    step->number[0] = outer_of(tiled ? &t : NULL, in, op->axis);
    step->number[1] = offset_of(tiled ? &t : NULL, in, op->axis, op->first);
    return KOLO_OK;
}
