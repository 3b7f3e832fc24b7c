/* The last dense layer and the loss as one operation, for models of many outputs. The logits of a microbatch (32
 * samples of 80 positions, 20,000 words: 200 MB) never exist all at once. For one chunk of rows after the other, while
 * it is in the cache, the kernel computes the logits, loss and metrics, the gradient of the logits, dx, and the chunk's
 * part of dK and db.
 *
 * Steps run in rounds, one for each chunk (kernel.c). If rows are left over, a last round has separate steps for them.
 */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

#include <string.h>

/* At most, for the float32 logits of a chunk: about the size of the last-level cache. Smaller chunks make dK slower:
 * with 8 MB a training step of the GPT block takes 5 % longer. */
#define CHUNK_BYTES (26 << 20)
#define CHUNK_ROWS  320 /* at most; more rows make no product faster */

typedef struct chunks {
    int64_t rows, inputs, outputs; /* rows of a chunk; columns of x and of the logits */
    int64_t count, left; /* the number of whole chunks, and of the rows left over */
    dnnl_data_type_t type; /* of x, the kernel and dlogits, the gradient of the logits */
    kolo_operand x, dx, logits, dlogits, row;
} chunks;

static int64_t chunk_rows(int64_t rows, int64_t outputs)
{
    int64_t fitting = CHUNK_BYTES / (outputs * (int64_t)sizeof(float)) / 16 * 16;
    if (fitting < 16) fitting = 16;
    if (fitting > CHUNK_ROWS) fitting = CHUNK_ROWS;
    if (rows <= fitting) return rows;
    int64_t pieces = (rows + fitting - 1) / fitting; /* of about the same size, a multiple of 16 */
    return ((rows + pieces - 1) / pieces + 15) / 16 * 16;
}

/* ---- products */

static kolo_status matrix(int64_t rows, int64_t columns, dnnl_data_type_t type, dnnl_format_tag_t tag,
                          dnnl_memory_desc_t *desc)
{
    dnnl_dims_t dims = {rows, columns};
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(desc, 2, dims, type, tag), "a matrix");
}

/* c = a·b + bias, or with `more` c += a·b. */
static kolo_status describe(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                            const dnnl_memory_desc_t *c, bool more, dnnl_primitive_desc_t *made)
{
    dnnl_matmul_desc_t operation;
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t behind = NULL;
    KOLO_DNNL(dnnl_matmul_desc_init(&operation, a, b, bias, c), "a product");
    KOLO_TRY(kolo_attributes(false, &attributes));
    dnnl_status_t status = more ? dnnl_post_ops_create(&behind) : dnnl_success;
    if (more && status == dnnl_success) status = dnnl_post_ops_append_sum(behind, 1.0f);
    if (more && status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, behind);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(made, &operation, attributes, kolo_onednn_engine(), NULL);
    if (behind) dnnl_post_ops_destroy(behind);
    dnnl_primitive_attr_destroy(attributes);
    return kolo_onednn_check(status, "a product");
}

/* Gives a WEIGHTS value the layout that this product prefers, unless it has one. plain: the canonical weights. */
static kolo_status weights_like(kolo_plan *plan, int value, dnnl_primitive_desc_t made, const dnnl_memory_desc_t *plain)
{
    if (kolo_layout_of(plan, value)) return KOLO_OK;
    return kolo_layout_set_parameter(plan, value, dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0), plain,
                                     NULL);
}

/* Makes the step that was added last run in rounds from … to-1. */
static void in_rounds(kolo_kernel *kernel, int from, int to)
{
    kernel->step[kernel->step_count - 1].from = from;
    kernel->step[kernel->step_count - 1].to = to;
}

static kolo_operand chunk_of(const chunks *c, kolo_operand whole, const dnnl_memory_desc_t *desc)
{
    whole.advance = (size_t)(c->rows * desc->dims[1]) * (desc->data_type == dnnl_bf16 ? 2 : 4);
    whole.desc = *desc;
    return whole;
}

/* logits = x·K + b. */
static kolo_status add_logits(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const chunks *c, int64_t rows)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    dnnl_memory_desc_t x, any, plain, bias, logits;
    dnnl_primitive_desc_t made = NULL;
    bool biased = op->in[2] >= 0;
    KOLO_TRY(matrix(rows, c->inputs, c->type, dnnl_ab, &x));
    KOLO_TRY(matrix(c->inputs, c->outputs, c->type, dnnl_format_tag_any, &any));
    KOLO_TRY(matrix(c->inputs, c->outputs, dnnl_f32, dnnl_ab, &plain));
    KOLO_TRY(matrix(1, c->outputs, dnnl_f32, dnnl_ab, &bias));
    KOLO_TRY(matrix(rows, c->outputs, dnnl_f32, dnnl_ab, &logits));
    const kolo_layout *packed = kolo_layout_of(plan, op->in[1]);
    KOLO_TRY(describe(&x, packed ? &packed->desc : &any, biased ? &bias : NULL, &logits, false, &made));
    kolo_status status = weights_like(plan, op->in[1], made, &plain);
    if (status == KOLO_OK) status = kolo_layout_set_plain(plan, op->in[2]);
    if (status != KOLO_OK) {
        dnnl_primitive_desc_destroy(made);
        return status;
    }
    kolo_operand operands[] = {chunk_of(c, c->x, &x), kolo_operand_of(kernel, op->in[1]), c->logits, {.value = -1}};
    operands[2].desc = logits;
    if (biased) operands[3] = kolo_operand_of(kernel, op->in[2]);
    return kolo_step_primitive(kernel, made, biased ? 4 : 3, arguments, operands);
}

/* dx = dlogits·Kᵀ. */
static kolo_status add_dx(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const chunks *c, int64_t rows)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    dnnl_memory_desc_t dlogits, any, plain, dx;
    dnnl_primitive_desc_t made = NULL;
    KOLO_TRY(matrix(rows, c->outputs, c->type, dnnl_ab, &dlogits));
    KOLO_TRY(matrix(c->outputs, c->inputs, c->type, dnnl_format_tag_any, &any));
    KOLO_TRY(matrix(c->outputs, c->inputs, dnnl_f32, dnnl_ba, &plain));
    KOLO_TRY(matrix(rows, c->inputs, c->type, dnnl_ab, &dx));
    const kolo_layout *packed = kolo_layout_of(plan, op->in[3]);
    KOLO_TRY(describe(&dlogits, packed ? &packed->desc : &any, NULL, &dx, false, &made));
    kolo_status status = weights_like(plan, op->in[3], made, &plain);
    if (status != KOLO_OK) {
        dnnl_primitive_desc_destroy(made);
        return status;
    }
    kolo_operand operands[] = {c->dlogits, kolo_operand_of(kernel, op->in[3]), chunk_of(c, c->dx, &dx)};
    operands[0].desc = dlogits;
    return kolo_step_primitive(kernel, made, 3, arguments, operands);
}

/* dK = xᵀ·dlogits in the first round, then dK += xᵀ·dlogits. In float32, sgemm is faster than a matmul primitive. */
static kolo_status multiply_float(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    (void)kernel;
    const dnnl_memory_desc_t *x = &step->operand[0].desc, *dlogits = &step->operand[1].desc;
    dnnl_status_t status =
        dnnl_sgemm('T', 'N', x->dims[0], dlogits->dims[1], x->dims[1], 1, kolo_operand_pointer(&step->operand[0], call),
                   x->dims[0], kolo_operand_pointer(&step->operand[1], call), dlogits->dims[1], call->round > 0,
                   kolo_operand_pointer(&step->operand[2], call), dlogits->dims[1]);
    return kolo_onednn_check(status, "a product");
}

static kolo_status add_dkernel(kolo_kernel *kernel, const kolo_op *op, const chunks *c, int64_t rows, bool more)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    dnnl_memory_desc_t x, transposed, dlogits, dkernel;
    dnnl_primitive_desc_t made = NULL;
    KOLO_TRY(matrix(rows, c->inputs, c->type, dnnl_ab, &x));
    KOLO_TRY(matrix(c->inputs, rows, c->type, dnnl_ba, &transposed));
    KOLO_TRY(matrix(rows, c->outputs, c->type, dnnl_ab, &dlogits));
    KOLO_TRY(matrix(c->inputs, c->outputs, dnnl_f32, dnnl_ab, &dkernel));
    kolo_operand operands[] = {chunk_of(c, c->x, &x), c->dlogits, kolo_operand_of(kernel, op->out[1])};
    operands[0].desc = transposed;
    operands[1].desc = dlogits;
    if (c->type == dnnl_f32)
        return kolo_step_loop_or_fail(kernel, multiply_float, 3, operands) ? KOLO_OK : KOLO_INTERNAL;
    KOLO_TRY(describe(&transposed, &dlogits, NULL, &dkernel, more, &made));
    return kolo_step_primitive(kernel, made, 3, arguments, operands);
}

/* ---- the loss of a chunk */

/* Writes the gradient of a row of logits, row · factor, in the type of the products, and adds it to db. */
KOLO_INLINE void put_dlogits(const float *row, float factor, void *dlogits, int64_t at, int64_t count, float *dbias,
                             int narrow)
{
    for (int64_t i = 0; i < count; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, count);
        kolo_floats slope = kolo_get_some(row, i, lanes, 0) * factor;
        kolo_put_some(dlogits, at + i, slope, lanes, narrow);
        if (dbias) kolo_put_some(dbias, i, kolo_get_some(dbias, i, lanes, 0) + slope, lanes, 0);
    }
}

KOLO_ALL_TYPES(put, (const float *row, float factor, void *dlogits, int64_t at, int64_t count, float *dbias),
               put_dlogits(row, factor, dlogits, at, count, dbias, narrow))

/* Operands: logits, dlogits, two rows of scratch memory. In float32 dlogits overwrite the logits. */
static void compute_loss(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_plan *plan = kernel->plan;
    const kolo_op *op = &plan->ops[kernel->op];
    int64_t rows = step->operand[0].desc.dims[0], count = step->operand[0].desc.dims[1];
    int64_t first = call->round * step->rows, each = kolo_shape_count(plan->values[plan->output].shape) / count;
    const float *logits = kolo_operand_pointer(&step->operand[0], call);
    void *dlogits = kolo_operand_pointer(&step->operand[1], call);
    float *row = kolo_operand_pointer(&step->operand[2], call), *room = row + count;
    float *dbias = op->out[2] < 0 ? NULL : call->memory[op->out[2]];
    bool narrow = step->operand[1].desc.data_type == dnnl_bf16;
    if (dbias && call->round == 0) memset(dbias, 0, (size_t)count * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++) {
        bool counts = first + r < call->samples * each;
        float factor = 0;
        if (counts)
            factor = kolo_host_loss_row(plan, call, first + r, logits + r * count, plan->training ? row : NULL, room);
        if (!plan->training) continue;
        if (!counts) memset(row, 0, (size_t)count * sizeof *row);
        KOLO_FASTEST(put, narrow)(row, factor, dlogits, r * count, count, dbias);
    }
    if (first == 0) call->totals->samples += call->samples;
}

static kolo_status add_loss(kolo_kernel *kernel, const chunks *c, int64_t rows)
{
    kolo_operand operands[] = {c->logits, c->dlogits, c->row};
    operands[0].desc.dims[0] = rows;
    kolo_step *step = kolo_step_loop(kernel, compute_loss, 3, operands);
    if (!step) return KOLO_INTERNAL;
    step->rows = c->rows;
    return KOLO_OK;
}

/* ---- the operation */

/* The steps for chunks of `rows` rows, in rounds from … to-1. */
static kolo_status add_chunk(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, const chunks *c, int64_t rows,
                             int from, int to)
{
    KOLO_TRY(add_logits(kernel, plan, op, c, rows));
    in_rounds(kernel, from, to);
    KOLO_TRY(add_loss(kernel, c, rows));
    in_rounds(kernel, from, to);
    if (op->out[0] >= 0) {
        KOLO_TRY(add_dx(kernel, plan, op, c, rows));
        in_rounds(kernel, from, to);
    }
    if (op->out[1] < 0) return KOLO_OK;
    bool apart = from == 0 && c->type == dnnl_bf16; /* dK is set in round 0, added to later */
    if (apart) {
        KOLO_TRY(add_dkernel(kernel, op, c, rows, false));
        in_rounds(kernel, 0, 1);
    }
    if (apart && to == 1) return KOLO_OK;
    KOLO_TRY(add_dkernel(kernel, op, c, rows, true));
    in_rounds(kernel, apart ? 1 : from, to);
    return KOLO_OK;
}

static kolo_status find_chunks(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, chunks *c)
{
    kolo_shape kernel_shape = plan->values[op->in[1]].shape;
    int64_t rows = plan->microbatch * (kolo_shape_count(plan->values[op->in[0]].shape) / kernel_shape.dim[0]);
    dnnl_memory_desc_t desc;
    *c = (chunks){.inputs = kernel_shape.dim[0], .outputs = kernel_shape.dim[1]};
    c->type = kolo_activation_type(plan);
    c->rows = chunk_rows(rows, c->outputs);
    c->count = rows / c->rows;
    c->left = rows % c->rows;
    kernel->rounds = (int)(c->count + (c->left > 0));
    KOLO_TRY(kolo_plain_in(kernel, op->in[0], c->type, &c->x));
    KOLO_TRY(matrix(c->rows, c->outputs, dnnl_f32, dnnl_ab, &desc));
    c->dlogits = c->logits = kolo_operand_scratch(kernel, &desc);
    KOLO_TRY(matrix(c->rows, c->outputs, c->type, dnnl_ab, &desc));
    if (plan->training && c->type == dnnl_bf16) c->dlogits = kolo_operand_scratch(kernel, &desc);
    KOLO_TRY(matrix(2, c->outputs, dnnl_f32, dnnl_ab, &desc));
    c->row = kolo_operand_scratch(kernel, &desc);
    return KOLO_OK;
}

static kolo_status place_gradients(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, chunks *c)
{
    dnnl_memory_desc_t desc;
    if (op->out[0] >= 0) KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], c->type, &c->dx));
    KOLO_TRY(matrix(c->inputs, c->outputs, dnnl_f32, dnnl_ab, &desc));
    if (op->out[1] >= 0) KOLO_TRY(kolo_layout_set_parameter(plan, op->out[1], &desc, &desc, NULL));
    return kolo_layout_set_plain(plan, op->out[2]);
}

/* Reorders dx, if its value has another type or layout, in the last round, when it is complete. */
static kolo_status reorder_dx(kolo_kernel *kernel, const kolo_op *op, const chunks *c)
{
    int before = kernel->step_count;
    KOLO_TRY(kolo_reorder_out(kernel, c->dx, op->out[0]));
    kolo_steps_last(kernel, before);
    return KOLO_OK;
}

kolo_status kolo_onednn_dense_loss(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    chunks c;
    KOLO_TRY(find_chunks(kernel, plan, op, &c));
    KOLO_TRY(place_gradients(kernel, plan, op, &c));
    KOLO_TRY(add_chunk(kernel, plan, op, &c, c.rows, 0, (int)c.count));
    if (c.left > 0) KOLO_TRY(add_chunk(kernel, plan, op, &c, c.left, (int)c.count, kernel->rounds));
    return op->out[0] >= 0 ? reorder_dx(kernel, op, &c) : KOLO_OK;
}
