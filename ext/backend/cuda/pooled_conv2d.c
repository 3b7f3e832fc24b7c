/* A convolution, the max pooling behind it, and perhaps a dropout behind that, as one: the image between them, the
 * largest of all, is nowhere, nor is its gradient. The convolution's operations do all there is to do, the others
 * nothing: forward it writes what the last of them would, in the pooling's place, and where the maxima were; on its way
 * back it reads dy where the pooling would have. So each has an operand more than it had. Kernels: conv_pooled.cu,
 * conv_filter.cu. */
#include "backend/cuda/pooled_conv2d.h"

#include <string.h>

enum { Y = 0, WHERE = 1 };           /* what it writes */
enum { DY = 0, X = 2, GIVEN_WHERE = 4 }; /* what it reads on its way back */

/* ---- which ---- */

typedef struct chain {
    const kolo_op *conv, *pool;
    const kolo_op *pool_back, *conv_back; /* NULL: there is no way back */
} chain;

static const kolo_op *reader_of_kind(const kolo_plan *plan, int value, kolo_op_kind kind)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        if (op->kind == kind && op->in[0] == value) return op;
    return NULL;
}

static bool is_inside(const kolo_plan *plan, const kolo_cuda_kernel *kernel, int value)
{
    return plan->values[value].kind == KOLO_VALUE_ACTIVATION && !kolo_plan_canonical(plan, value) &&
           kolo_cuda_element(plan, value) == kernel->element;
}

/* Whether nobody but the pooling sees the image between, and the convolution's own way back, which only looks where a
 * relu has made zeros: the pooling's `where` says it, too. */
static bool is_hidden(const kolo_plan *plan, const chain *c)
{
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_INS; i++)
            if (kolo_cuda_same(plan, op->in[i], c->conv->out[Y]) && op != c->pool && !(op == c->conv_back && i == 1))
                return false;
    return true;
}

/* Windows of 2 × 2 that cover each pixel once. */
static bool halves(const kolo_plan *plan, const kolo_op *pool)
{
    kolo_shape x = plan->values[pool->in[0]].shape, y = plan->values[pool->out[Y]].shape;
    const kolo_window *w = &pool->window;
    bool all = true;
    for (int axis = 0; axis < 2; axis++)
        all = all && w->kernel[axis] == 2 && w->stride[axis] == 2 && w->gap[axis] == 0 && w->before[axis] == 0 &&
              x.dim[axis] == 2 * y.dim[axis];
    return all;
}

static bool goes_back(const kolo_plan *plan, const kolo_cuda_kernel *kernel, chain *c)
{
    const kolo_op *conv = c->conv;
    const kolo_op *back = c->pool_back = kolo_cuda_only_reader(plan, c->pool->out[WHERE]);
    if (!back || back->kind != KOLO_OP_MAX_POOL2D_BACKWARD) return false;
    const kolo_op *last = c->conv_back = kolo_cuda_only_reader(plan, back->out[0]);
    if (!last || last->kind != KOLO_OP_CONV2D_BACKWARD || last->in[DY] != back->out[0] || last->in[X] != conv->in[0])
        return false;
    int mask = last->activation == KOLO_RELU ? conv->out[Y] : -1;
    bool alike = last->activation == conv->activation && last->in[1] == mask && last->out[1] >= 0 &&
                 memcmp(&last->window, &conv->window, sizeof conv->window) == 0;
    bool here = back->device == conv->device && last->device == conv->device;
    return alike && here && is_inside(plan, kernel, back->in[DY]) && is_inside(plan, kernel, back->out[0]);
}

static bool find_chain(const kolo_cuda_kernel *kernel, const kolo_plan *plan, const kolo_op *op, chain *c)
{
    *c = (chain){.conv = op, .pool = reader_of_kind(plan, op->out[Y], KOLO_OP_MAX_POOL2D)};
    if (!c->pool || c->pool->device != op->device || !halves(plan, c->pool)) return false;
    if (!is_inside(plan, kernel, op->out[Y]) || !is_inside(plan, kernel, c->pool->out[Y])) return false;
    if (c->pool->out[WHERE] >= 0 && !goes_back(plan, kernel, c)) return false;
    return is_hidden(plan, c);
}

bool kolo_cuda_is_pooled_conv2d(const kolo_cuda_kernel *kernel, const kolo_plan *plan, const kolo_op *op,
                                const kolo_conv *conv)
{
    chain c;
    return kolo_cuda_conv_pooled_fits(kernel->element, conv) && find_chain(kernel, plan, op, &c);
}

/* ---- forward ---- */

typedef struct pooled {
    kolo_conv conv;
    const kolo_op *drop;          /* or NULL */
    kolo_cuda_parts kernel, bias; /* the gradients */
} pooled;

static kolo_status run_forward(const kolo_cuda_job *job)
{
    const pooled *own = job->kernel->own;
    kolo_dropout_job dropout;
    if (own->drop) dropout = kolo_cuda_dropout_of(job, own->drop);
    const kolo_pooled_y y = {.y = job->out[Y],
                             .where = job->out[WHERE],
                             .relu = job->op->activation == KOLO_RELU,
                             .dropout = own->drop ? &dropout : NULL,
                             .step_parameters = job->call->step_parameters};
    KOLO_CUDA(kolo_cuda_conv_pooled(job->stream, job->element, &own->conv, job->in[0], job->in[1], job->in[2], &y),
              "a convolution and max pooling");
    return KOLO_OK;
}

/* From here on the image between is the pooling's y, its gradient the pooling's dy. */
static void join(kolo_plan *plan, const chain *c)
{
    kolo_value *between = &plan->values[c->conv->out[Y]];
    int where = c->pool->out[WHERE];
    between->view_of = c->pool->out[Y];
    between->bytes = 0;
    if (where < 0) return;
    plan->ops[c->conv - plan->ops].out[WHERE] = where;
    plan->values[where].bytes = (size_t)kolo_cuda_count(plan, where); /* a byte a window */
    plan->values[c->pool_back->out[0]].view_of = c->pool_back->in[DY];
    plan->ops[c->conv_back - plan->ops].in[GIVEN_WHERE] = where;
}

kolo_status kolo_cuda_make_pooled_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                         const kolo_conv *conv)
{
    chain c;
    find_chain(kernel, plan, op, &c);
    pooled made = {.conv = *conv, .drop = kolo_cuda_take_dropout(plan, c.pool, kernel->element)};
    join(plan, &c);
    kernel->run = run_forward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}

/* ---- backward ---- */

bool kolo_cuda_is_pooled_conv2d_backward(const kolo_op *op)
{
    return op->in[GIVEN_WHERE] >= 0;
}

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const pooled *own = job->kernel->own;
    const kolo_pooled_dy dy = {
        .dy = job->in[DY], .where = job->in[GIVEN_WHERE], .rate = own->drop ? own->drop->rate : 0};
    KOLO_CUDA(kolo_cuda_conv_pooled_filter(job->stream, job->element, &own->conv, job->in[X], &dy,
                                           kolo_cuda_parts_at(job, &own->kernel), kolo_cuda_parts_at(job, &own->bias)),
              "a convolution's gradient");
    KOLO_TRY(kolo_cuda_sum_parts(job, &own->kernel));
    KOLO_TRY(kolo_cuda_sum_parts(job, &own->bias));
    if (!job->out[0]) return KOLO_OK;
    KOLO_CUDA(kolo_cuda_conv_pooled_data(job->stream, job->element, &own->conv, &dy, job->in[3], job->out[0]),
              "a convolution's gradient");
    return KOLO_OK;
}

static const kolo_op *pooling_that_writes(const kolo_plan *plan, int where)
{
    const kolo_op *op = plan->ops;
    while (op->kind != KOLO_OP_MAX_POOL2D || op->out[WHERE] != where) op++;
    return op;
}

kolo_status kolo_cuda_make_pooled_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op,
                                                  const kolo_conv *conv)
{
    int parts = kolo_cuda_conv_pooled_parts(conv);
    pooled made = {.conv = *conv, .drop = kolo_cuda_took(plan, pooling_that_writes(plan, op->in[GIVEN_WHERE]))};
    KOLO_TRY(kolo_cuda_expect_parts(kernel, plan, 1, parts, &made.kernel));
    KOLO_TRY(kolo_cuda_expect_parts(kernel, plan, 2, parts, &made.bias));
    kernel->run = run_backward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}
