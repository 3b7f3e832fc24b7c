/* Attention, one head of one sample at a time. The head's operands are gathered as float32, and oneDNN computes the
 * products of matrices. Only BLOCK_ROWS rows of the matrix of weights exist at a time, so that they stay in the cache;
 * backward computes them again. The formulas are in backend/reference/attention.c. A row's maximum, sum and
 * exponentials are float32. */
#include "backend/onednn/onednn.h"
#include "core/lanes_math.h"
#include "core/vector.h"

#include <math.h>
#include <string.h>

#define BLOCK_ROWS 64 /* rows of the matrix of weights that are computed at once */

/* One head of one sample. Arrays are float32 [length][size]; weights, dweights (their gradient, later that of the
 * scores) and mask are [BLOCK_ROWS][length]. */
typedef struct head {
    const kolo_op *op;
    const kolo_call *call;
    int64_t length, size, wide; /* wide: elements of one position: the queries, keys and values of all heads */
    int sample, number;
    float scale;
    float *q, *k, *v, *y; /* backward, y is dy */
    float *dq, *dk, *dv;
    float *weights, *dweights, *mask;
} head;

/* ---- copies between the microbatch and the arrays of a head */

KOLO_INLINE void copy_rows(const void *from, int64_t from_at, int64_t from_stride, int from_narrow, void *to,
                           int64_t to_at, int64_t to_stride, int to_narrow, int64_t rows, int64_t count)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < count; i += KOLO_LANES) {
            int64_t lanes = kolo_lanes_at(i, count);
            kolo_floats x = kolo_get_some(from, from_at + r * from_stride + i, lanes, from_narrow);
            kolo_put_some(to, to_at + r * to_stride + i, x, lanes, to_narrow);
        }
    }
}

/* Copies `count` columns, beginning at element `at`, of `rows` rows that are `stride` elements apart. */
KOLO_VECTORISED static void gather(const void *from, int64_t at, int64_t stride, bool bfloat16, float *to, int64_t rows,
                                   int64_t count)
{
    if (bfloat16) copy_rows(from, at, stride, 1, to, 0, count, 0, rows, count);
    else copy_rows(from, at, stride, 0, to, 0, count, 0, rows, count);
}

KOLO_VECTORISED static void scatter(const float *from, void *to, int64_t at, int64_t stride, bool bfloat16,
                                    int64_t rows, int64_t count)
{
    if (bfloat16) copy_rows(from, 0, count, 0, to, at, stride, 1, rows, count);
    else copy_rows(from, 0, count, 0, to, at, stride, 0, rows, count);
}

/* ---- a row of weights */

/* The first `seen` elements of s become their softmax; the others, up to `count`, become zero. */
KOLO_VECTORISED static void softmax_row(float *s, int64_t seen, int64_t count)
{
    float most = kolo_largest(s, seen);
    kolo_floats sum = {0};
    for (int64_t i = 0; i < seen; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, seen);
        kolo_floats e = kolo_only(kolo_floats_exp(kolo_get_some(s, i, lanes, 0) - most), lanes);
        sum += e;
        kolo_put_some(s, i, e, lanes, 0);
    }
    float inverse = 1 / kolo_sum_lanes(sum);
    for (int64_t i = 0; i < seen; i++) s[i] *= inverse;
    for (int64_t i = seen; i < count; i++) s[i] = 0;
}

/* ds = scale · p · (g − Σ p·g), written to g. */
KOLO_VECTORISED static void softmax_row_backward(const float *p, float *g, int64_t count, float scale)
{
    kolo_floats sum = {0};
    for (int64_t i = 0; i < count; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, count);
        sum += kolo_get_some(p, i, lanes, 0) * kolo_get_some(g, i, lanes, 0);
    }
    float all = kolo_sum_lanes(sum);
    for (int64_t i = 0; i < count; i++) g[i] = scale * p[i] * (g[i] - all);
}

KOLO_VECTORISED static void multiply(float *x, const float *by, int64_t count)
{
    for (int64_t i = 0; i < count; i++) x[i] *= by[i];
}

/* mask = 0 or 1 / (1 − rate) for the weights of rows first … first+rows-1; core/random.h has the rule. */
static void make_mask(const head *h, int64_t first, int64_t rows, int64_t seen)
{
    const kolo_call *call = h->call;
    uint64_t key = kolo_dropout_key(call->seed, h->op->layer, call->step);
    uint64_t sample = (uint64_t)(call->first_sample + h->sample);
    uint32_t threshold = kolo_dropout_threshold(h->op->rate);
    float kept = (float)(1 / (1 - h->op->rate));
    for (int64_t r = 0; r < rows; r++) {
        uint64_t element = (uint64_t)((h->number * h->length + first + r) * h->length), group = UINT64_MAX;
        kolo_random_block block = {0};
        for (int64_t j = 0; j < seen; j++, element++) {
            if (element / 4 != group) block = kolo_philox(key, group = element / 4, sample);
            h->mask[r * h->length + j] = block.word[element % 4] >= threshold ? kept : 0;
        }
    }
}

/* ---- a block of rows */

/* The rows first … first+rows-1 of the weights, of which only the first `seen` columns can be other than zero. Operands
 * of products are row-major. */
typedef struct block {
    int64_t first, rows, seen;
} block;

static block block_of(const head *h, int64_t first)
{
    int64_t rows = h->length - first < BLOCK_ROWS ? h->length - first : BLOCK_ROWS;
    return (block){first, rows, h->op->causal ? first + rows : h->length};
}

static dnnl_status_t weigh(const head *h, block b)
{
    dnnl_status_t status = dnnl_sgemm('N', 'T', b.rows, b.seen, h->size, h->scale, h->q + b.first * h->size, h->size,
                                      h->k, h->size, 0, h->weights, h->length);
    for (int64_t r = 0; r < b.rows; r++)
        softmax_row(h->weights + r * h->length, h->op->causal ? b.first + r + 1 : h->length, b.seen);
    if (h->op->rate > 0) make_mask(h, b.first, b.rows, b.seen);
    return status;
}

static void apply_mask(const head *h, block b, float *x)
{
    for (int64_t r = 0; h->op->rate > 0 && r < b.rows; r++)
        multiply(x + r * h->length, h->mask + r * h->length, b.seen);
}

static dnnl_status_t attend(const head *h, block b)
{
    dnnl_status_t status = weigh(h, b);
    if (status != dnnl_success) return status;
    apply_mask(h, b, h->weights);
    return dnnl_sgemm('N', 'N', b.rows, h->size, b.seen, 1, h->weights, h->length, h->v, h->size, 0,
                      h->y + b.first * h->size, h->size);
}

/* x += rowsᵀ·of, over the block's rows. */
static dnnl_status_t add_product(const head *h, block b, const float *rows, const float *of, float *x)
{
    return dnnl_sgemm('T', 'N', b.seen, h->size, b.rows, 1, rows, h->length, of + b.first * h->size, h->size, 1, x,
                      h->size);
}

static dnnl_status_t attend_backward(const head *h, block b)
{
    const float *dy = h->y + b.first * h->size;
    dnnl_status_t status = weigh(h, b);
    if (status == dnnl_success)
        status =
            dnnl_sgemm('N', 'T', b.rows, b.seen, h->size, 1, dy, h->size, h->v, h->size, 0, h->dweights, h->length);
    if (status != dnnl_success) return status;
    apply_mask(h, b, h->dweights);
    for (int64_t r = 0; r < b.rows; r++)
        softmax_row_backward(h->weights + r * h->length, h->dweights + r * h->length, b.seen, h->scale);
    apply_mask(h, b, h->weights);
    status = add_product(h, b, h->weights, h->y, h->dv);
    if (status == dnnl_success) status = add_product(h, b, h->dweights, h->q, h->dk);
    if (status != dnnl_success) return status;
    return dnnl_sgemm('N', 'N', b.rows, h->size, b.seen, 1, h->dweights, h->length, h->k, h->size, 0,
                      h->dq + b.first * h->size, h->size);
}

/* ---- heads */

static void gather_head(head *h, const void *qkv, bool bfloat16)
{
    int64_t all = h->wide / 3, at = h->sample * h->length * h->wide + h->number * h->size;
    gather(qkv, at, h->wide, bfloat16, h->q, h->length, h->size);
    gather(qkv, at + all, h->wide, bfloat16, h->k, h->length, h->size);
    gather(qkv, at + 2 * all, h->wide, bfloat16, h->v, h->length, h->size);
}

static void scatter_gradients(const head *h, void *dqkv, bool bfloat16)
{
    int64_t all = h->wide / 3, at = h->sample * h->length * h->wide + h->number * h->size;
    scatter(h->dq, dqkv, at, h->wide, bfloat16, h->length, h->size);
    scatter(h->dk, dqkv, at + all, h->wide, bfloat16, h->length, h->size);
    scatter(h->dv, dqkv, at + 2 * all, h->wide, bfloat16, h->length, h->size);
}

static int64_t y_place(const head *h)
{
    return h->sample * h->length * (h->wide / 3) + h->number * h->size;
}

/* The number of elements of all arrays of a head, which are stored in this order: q k v y, dq dk dv, weights, dweights,
 * mask. */
static int64_t room(const kolo_shape *qkv, int heads)
{
    int64_t length = qkv->dim[0], size = qkv->dim[1] / 3 / heads;
    return 7 * length * size + 3 * BLOCK_ROWS * length;
}

static head head_of(const kolo_kernel *kernel, const kolo_call *call, int qkv, float *memory)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    kolo_shape shape = kernel->plan->values[qkv].shape;
    int64_t length = shape.dim[0], size = shape.dim[1] / 3 / op->heads, one = length * size;
    head h = {.op = op, .call = call, .length = length, .size = size, .wide = shape.dim[1]};
    h.scale = 1 / sqrtf((float)size);
    h.q = memory, h.k = h.q + one, h.v = h.k + one, h.y = h.v + one;
    h.dq = h.y + one, h.dk = h.dq + one, h.dv = h.dk + one;
    h.weights = h.dv + one, h.dweights = h.weights + BLOCK_ROWS * length, h.mask = h.dweights + BLOCK_ROWS * length;
    return h;
}

/* Operands: qkv, y, the arrays of a head. */
static kolo_status forward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const void *qkv = kolo_operand_pointer(&step->operand[0], call);
    void *y = kolo_operand_pointer(&step->operand[1], call);
    head h = head_of(kernel, call, kernel->plan->ops[kernel->op].in[0], kolo_operand_pointer(&step->operand[2], call));
    for (int n = 0; n < kernel->plan->microbatch * h.op->heads; n++) {
        h.sample = n / h.op->heads;
        h.number = n % h.op->heads;
        gather_head(&h, qkv, step->bfloat16);
        for (int64_t first = 0; first < h.length; first += BLOCK_ROWS)
            KOLO_DNNL(attend(&h, block_of(&h, first)), "attention");
        scatter(h.y, y, y_place(&h), h.wide / 3, step->bfloat16, h.length, h.size);
    }
    return KOLO_OK;
}

/* Operands: qkv, dy, dqkv, the arrays of a head. */
static kolo_status backward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const void *qkv = kolo_operand_pointer(&step->operand[0], call),
               *dy = kolo_operand_pointer(&step->operand[1], call);
    void *dqkv = kolo_operand_pointer(&step->operand[2], call);
    head h = head_of(kernel, call, kernel->plan->ops[kernel->op].in[1], kolo_operand_pointer(&step->operand[3], call));
    for (int n = 0; n < kernel->plan->microbatch * h.op->heads; n++) {
        h.sample = n / h.op->heads;
        h.number = n % h.op->heads;
        gather_head(&h, qkv, step->bfloat16);
        gather(dy, y_place(&h), h.wide / 3, step->bfloat16, h.y, h.length, h.size);
        memset(h.dk, 0, (size_t)(2 * h.length * h.size) * sizeof *h.dk); /* and dv, which follows it */
        for (int64_t first = 0; first < h.length; first += BLOCK_ROWS)
            KOLO_DNNL(attend_backward(&h, block_of(&h, first)), "attention");
        scatter_gradients(&h, dqkv, step->bfloat16);
    }
    return KOLO_OK;
}

/* ---- operations */

static kolo_status memory_of_head(kolo_kernel *kernel, const kolo_op *op, int qkv, kolo_operand *operand)
{
    dnnl_memory_desc_t rows;
    KOLO_TRY(kolo_desc_rows(1, room(&kernel->plan->values[qkv].shape, op->heads), dnnl_f32, &rows));
    *operand = kolo_operand_scratch(kernel, &rows);
    return KOLO_OK;
}

kolo_status kolo_onednn_attention(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[3];
    dnnl_data_type_t type = kolo_activation_type(plan);
    KOLO_TRY(kolo_plain_in(kernel, op->in[0], type, &operands[0]));
    KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], type, &operands[1]));
    KOLO_TRY(memory_of_head(kernel, op, op->in[0], &operands[2]));
    if (!kolo_step_loop_or_fail(kernel, forward, 3, operands)) return KOLO_INTERNAL;
    return kolo_reorder_out(kernel, operands[1], op->out[0]);
}

kolo_status kolo_onednn_attention_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_operand operands[4];
    dnnl_data_type_t type = kolo_activation_type(plan);
    KOLO_TRY(kolo_plain_in(kernel, op->in[1], type, &operands[0]));
    KOLO_TRY(kolo_plain_in(kernel, op->in[0], type, &operands[1]));
    KOLO_TRY(kolo_plain_buffer(kernel, plan, op->out[0], type, &operands[2]));
    KOLO_TRY(memory_of_head(kernel, op, op->in[1], &operands[3]));
    if (!kolo_step_loop_or_fail(kernel, backward, 4, operands)) return KOLO_INTERNAL;
    return kolo_reorder_out(kernel, operands[2], op->out[0]);
}
