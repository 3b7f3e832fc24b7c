/* The pass over a plan that fuses operations: see fusion.h. */
#include "plan/fusion.h"

#include <string.h>

typedef struct pass {
    kolo_plan *plan;
    kolo_fuses *fuses;
} pass;

static bool has(const pass *p, kolo_fusion_kind kind, const kolo_op *a, const kolo_op *b, const kolo_op *c,
                const kolo_op *d)
{
    const kolo_fusion fusion = {.kind = kind, .op = {a, b, c, d}};
    return p->fuses(p->plan, &fusion);
}

static int number_of(const pass *p, const kolo_op *op)
{
    return (int)(op - p->plan->ops);
}

static kolo_op *to_change(const pass *p, const kolo_op *op)
{
    return &p->plan->ops[number_of(p, op)];
}

/* Fuses operation `with` into op's kernel. */
static void share_kernel(const pass *p, const kolo_op *op, const kolo_op *with)
{
    to_change(p, op)->also_computes = number_of(p, with);
    to_change(p, with)->computed_by = number_of(p, op);
}

static bool is_convolution_backward(const kolo_op *op)
{
    return op->kind == KOLO_OP_CONV2D_BACKWARD || op->kind == KOLO_OP_CONV2D_TRANSPOSE_BACKWARD;
}

/* ---------------------------------------------------------------- dense layer and loss */

#define LARGE_OUTPUTS (4 << 20) /* bytes of a microbatch's float32 outputs that do not fit in a core's caches */

static void remove_op(kolo_plan *plan, int number)
{
    size_t after = (size_t)(--plan->op_count - number);
    memmove(&plan->ops[number], &plan->ops[number + 1], after * sizeof *plan->ops);
    if (number < plan->forward_count) plan->forward_count--;
}

static const kolo_op *find_loss(const kolo_plan *plan)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        if (op->kind == KOLO_OP_LOSS) return op;
    return NULL;
}

static bool is_plain_dense(const kolo_plan *plan, const kolo_op *op)
{
    if (!op || op->kind != KOLO_OP_DENSE || op->activation > KOLO_LINEAR || op->out[0] != plan->output) return false;
    int64_t outputs = kolo_plan_outputs(plan);
    return plan->microbatch * outputs * (int64_t)sizeof(float) >= LARGE_OUTPUTS;
}

void kolo_fuse_loss(kolo_plan *plan, kolo_fuses *fuses)
{
    const pass p = {plan, fuses};
    const kolo_op *loss = fuses ? find_loss(plan) : NULL;
    const kolo_op *dense = loss ? kolo_plan_writer(plan, loss->in[0]) : NULL, *backward = NULL;
    if (!is_plain_dense(plan, dense) || dense->device != loss->device) return;
    if (kolo_plan_only_reader(plan, plan->output) != loss) return;
    if (loss->out[0] >= 0) {
        backward = kolo_plan_only_reader(plan, loss->out[0]);
        if (!backward || backward->kind != KOLO_OP_DENSE_BACKWARD || backward->in[2] != dense->in[0]) return;
        if (backward->device != dense->device || backward->in[0] != loss->out[0]) return;
    }
    if (!has(&p, KOLO_FUSE_DENSE_LOSS, dense, loss, backward, NULL)) return;
    kolo_op fused = *dense;
    fused.kind = KOLO_OP_DENSE_LOSS;
    fused.in[3] = backward ? backward->in[3] : -1;
    for (int i = 0; i < KOLO_OP_OUTS; i++) fused.out[i] = backward ? backward->out[i] : -1;
    int at = number_of(&p, dense), last = backward ? number_of(&p, backward) : -1;
    *to_change(&p, loss) = fused;
    if (last >= 0) remove_op(plan, last);
    remove_op(plan, at);
    plan->loss_gradient = -1;
}

/* ---------------------------------------------------------------- an operation and its consumer */

/* The only operation that reads op's first output, if it is of that kind and on the same device, and its other operands
 * are written before op runs. NULL: there is none. */
static const kolo_op *next_of(const pass *p, const kolo_op *op, kolo_op_kind kind)
{
    const kolo_plan *plan = p->plan;
    if (op->out[0] < 0 || kolo_plan_same(plan, op->out[0], plan->output)) return NULL;
    const kolo_op *next = kolo_plan_only_reader(plan, op->out[0]);
    if (!next || next->kind != kind || next->device != op->device) return NULL;
    for (int i = 0; i < KOLO_OP_INS; i++) {
        if (next->in[i] < 0 || kolo_plan_same(plan, next->in[i], op->out[0])) continue;
        const kolo_op *writer = kolo_plan_writer(plan, next->in[i]);
        if (writer && writer >= op) return NULL;
    }
    return next;
}

/* Makes their outputs one value, whose lifetime covers both. */
static void fuse_next(const pass *p, const kolo_op *op, const kolo_op *next)
{
    p->plan->values[next->out[0]].view_of = op->out[0];
    share_kernel(p, op, next);
}

static void fuse_add(const pass *p, const kolo_op *op)
{
    const kolo_op *add = next_of(p, op, KOLO_OP_ADD);
    if (add && has(p, KOLO_FUSE_ADD, op, add, NULL, NULL)) fuse_next(p, op, add);
}

static void fuse_relu_backward(const pass *p, const kolo_op *add)
{
    const kolo_op *relu = next_of(p, add, KOLO_OP_ACTIVATION_BACKWARD);
    if (!relu || relu->activation != KOLO_RELU || relu->in[1] < 0 || add->activation > KOLO_LINEAR) return;
    if (!kolo_plan_same(p->plan, relu->in[0], add->out[0])) return;
    if (has(p, KOLO_FUSE_RELU_BACKWARD, add, relu, NULL, NULL)) fuse_next(p, add, relu);
}

static void fuse_dropout(const pass *p, const kolo_op *pool)
{
    kolo_plan *plan = p->plan;
    const kolo_op *drop = next_of(p, pool, KOLO_OP_DROPOUT);
    if (!drop || pool->out[1] < 0) return;
    const kolo_op *drop_back = kolo_plan_only_reader(plan, drop->out[1]);
    const kolo_op *pool_back = kolo_plan_only_reader(plan, pool->out[1]);
    if (!drop_back || !pool_back || kolo_plan_only_reader(plan, drop_back->out[0]) != pool_back) return;
    if (drop_back->device != pool->device || !kolo_plan_same(plan, pool_back->in[0], drop_back->out[0])) return;
    if (!has(p, KOLO_FUSE_DROPOUT, pool, drop, pool_back, drop_back)) return;
    fuse_next(p, pool, drop);
    plan->values[drop_back->out[0]].view_of = drop_back->in[0];
    share_kernel(p, pool_back, drop_back);
}

/* ---------------------------------------------------------------- a convolution and the max pooling behind it */

typedef struct chain {
    const kolo_op *conv, *pool;
    const kolo_op *conv_back, *pool_back; /* NULL in a plan without training */
} chain;

/* Whether only the pooling reads the convolution's output, and the convolution's backward for the ReLU's mask. */
static bool is_hidden(const kolo_plan *plan, const chain *c)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_INS; i++)
            if (kolo_plan_same(plan, op->in[i], c->conv->out[0]) && op != c->pool && !(op == c->conv_back && i == 1))
                return false;
    return !kolo_plan_canonical(plan, c->conv->out[0]);
}

/* Whether windows of 2 × 2 cover each pixel once. */
static bool halves(const kolo_plan *plan, const kolo_op *pool)
{
    kolo_shape x = plan->values[pool->in[0]].shape, y = plan->values[pool->out[0]].shape;
    const kolo_window *w = &pool->window;
    bool all = true;
    for (int axis = 0; axis < 2; axis++)
        all = all && w->kernel[axis] == 2 && w->stride[axis] == 2 && w->gap[axis] == 0 && w->before[axis] == 0 &&
              x.dim[axis] == 2 * y.dim[axis];
    return all;
}

static bool goes_back(const kolo_plan *plan, chain *c)
{
    const kolo_op *conv = c->conv;
    const kolo_op *pool_back = c->pool_back = kolo_plan_only_reader(plan, c->pool->out[1]);
    if (!pool_back || pool_back->kind != KOLO_OP_MAX_POOL2D_BACKWARD) return false;
    const kolo_op *back = c->conv_back = kolo_plan_only_reader(plan, pool_back->out[0]);
    if (!back || back->kind != KOLO_OP_CONV2D_BACKWARD || back->in[0] != pool_back->out[0] ||
        back->in[2] != conv->in[0])
        return false;
    int mask = back->activation == KOLO_RELU ? conv->out[0] : -1;
    bool alike = back->activation == conv->activation && back->in[1] == mask && back->out[1] >= 0 &&
                 memcmp(&back->window, &conv->window, sizeof conv->window) == 0;
    bool here = pool_back->device == conv->device && back->device == conv->device;
    return alike && here && !kolo_plan_canonical(plan, pool_back->out[0]);
}

static const kolo_op *pooling_of(const kolo_plan *plan, const kolo_op *conv)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        if (op->kind == KOLO_OP_MAX_POOL2D && op->in[0] == conv->out[0]) return op;
    return NULL;
}

static bool find_chain(const kolo_plan *plan, const kolo_op *conv, chain *c)
{
    *c = (chain){.conv = conv, .pool = pooling_of(plan, conv)};
    if (!c->pool || c->pool->device != conv->device || !halves(plan, c->pool)) return false;
    if (c->pool->out[1] >= 0 && !goes_back(plan, c)) return false;
    return is_hidden(plan, c);
}

/* The convolution's output becomes a view of the pooling's y, and its gradient a view of the pooling's dy. */
static void fuse_pool(const pass *p, const kolo_op *conv)
{
    kolo_plan *plan = p->plan;
    chain c;
    if (!find_chain(plan, conv, &c) || !has(p, KOLO_FUSE_POOL, conv, c.pool, c.conv_back, c.pool_back)) return;
    fuse_dropout(p, c.pool);
    plan->values[conv->out[0]].view_of = c.pool->out[0];
    share_kernel(p, conv, c.pool);
    if (!c.conv_back) return;
    plan->values[c.pool_back->out[0]].view_of = c.pool_back->in[0];
    share_kernel(p, c.conv_back, c.pool_back);
    to_change(p, conv)->out[1] = c.pool->out[1];
    to_change(p, c.conv_back)->in[4] = c.pool->out[1];
}

/* ---------------------------------------------------------------- max pooling and the convolution before it */

/* Finds the pooling's backward, and the convolution's backward that reads its output. */
static const kolo_op *convolution_backward(const pass *p, const kolo_op *pool, const kolo_op **pool_back)
{
    const kolo_plan *plan = p->plan;
    *pool_back = pool->out[1] < 0 ? NULL : kolo_plan_only_reader(plan, pool->out[1]);
    if (!*pool_back) return NULL;
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        if (is_convolution_backward(op) && kolo_plan_same(plan, op->in[0], (*pool_back)->out[0])) return op;
    return NULL;
}

static void fuse_relu_mask(const pass *p, const kolo_op *pool)
{
    const kolo_op *pool_back, *back = convolution_backward(p, pool, &pool_back);
    if (!back || back->activation != KOLO_RELU || !kolo_plan_same(p->plan, pool->in[0], back->in[1])) return;
    if (!has(p, KOLO_FUSE_RELU_MASK, pool, pool_back, back, NULL)) return;
    to_change(p, pool)->activation = KOLO_RELU;
    to_change(p, back)->activation = KOLO_LINEAR;
    to_change(p, back)->in[1] = -1;
}

static bool only_poolings_read(const kolo_plan *plan, int value)
{
    bool pooled = false;
    if (kolo_plan_canonical(plan, value)) return false;
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++) {
        for (int i = 0; i < KOLO_OP_INS; i++) {
            if (!kolo_plan_same(plan, op->in[i], value)) continue;
            if (op->kind != KOLO_OP_MAX_POOL2D) return false;
            pooled = true;
        }
    }
    return pooled;
}

static void fuse_relu(const pass *p, const kolo_op *pool)
{
    kolo_plan *plan = p->plan;
    const kolo_op *conv = kolo_plan_writer(plan, pool->in[0]);
    if (!conv || conv->kind != KOLO_OP_CONV2D || conv->activation != KOLO_RELU || conv->also_computes >= 0) return;
    if (!only_poolings_read(plan, conv->out[0]) || !has(p, KOLO_FUSE_RELU, conv, pool, NULL, NULL)) return;
    to_change(p, conv)->activation = KOLO_LINEAR;
    for (kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        if (op->kind == KOLO_OP_MAX_POOL2D && kolo_plan_same(plan, op->in[0], conv->out[0])) op->activation = KOLO_RELU;
}

static void fuse_bias_gradient(const pass *p, const kolo_op *pool_back)
{
    kolo_plan *plan = p->plan;
    const kolo_op *back = kolo_plan_only_reader(plan, pool_back->out[0]);
    if (!back || !is_convolution_backward(back) || back->out[2] < 0 || back->activation == KOLO_RELU) return;
    if (!kolo_plan_same(plan, back->in[0], pool_back->out[0]) || back->device != pool_back->device) return;
    if (kolo_plan_canonical(plan, pool_back->out[0])) return;
    if (!has(p, KOLO_FUSE_BIAS_GRADIENT, pool_back, back, NULL, NULL)) return;
    to_change(p, pool_back)->out[1] = back->out[2];
    to_change(p, back)->out[2] = -1;
}

/* ---------------------------------------------------------------- the pass */

static void fuse_max_pool(const pass *p, const kolo_op *pool)
{
    fuse_relu_mask(p, pool);
    fuse_relu(p, pool);
    fuse_dropout(p, pool);
}

typedef void fuse_op(const pass *p, const kolo_op *op);

static fuse_op *const patterns[KOLO_OP_KINDS] = {
    [KOLO_OP_CONV2D] = fuse_pool,
    [KOLO_OP_MAX_POOL2D] = fuse_max_pool,
    [KOLO_OP_MAX_POOL2D_BACKWARD] = fuse_bias_gradient,
    [KOLO_OP_BATCH_NORM] = fuse_add,
    [KOLO_OP_LAYER_NORM_BACKWARD] = fuse_add,
    [KOLO_OP_ADD] = fuse_relu_backward,
};

void kolo_fuse(kolo_plan *plan, kolo_fuses *fuses)
{
    const pass p = {plan, fuses};
    if (!fuses) return;
    kolo_fuse_loss(plan, fuses);
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        if (op->computed_by < 0 && patterns[op->kind]) patterns[op->kind](&p, op);
}
