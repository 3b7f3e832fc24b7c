/* The fusions that have kernels (plan/fusion.h). Those of operations that share one kernel need all activations in the
 * precision's element. */
#include "backend/cuda/pooled_conv2d.h"

/* Whether a value is not an activation, or is one in the precision's element. */
static bool is_element(const kolo_plan *plan, int value)
{
    return value < 0 || plan->values[value].kind != KOLO_VALUE_ACTIVATION ||
           kolo_cuda_element(plan, value) == kolo_cuda_element_of(plan->precision);
}

/* The same for the value between two operations, and for all operands of the second. */
static bool are_element(const kolo_plan *plan, const kolo_op *op, const kolo_op *next)
{
    bool all = is_element(plan, op->out[0]);
    for (int i = 0; i < KOLO_OP_INS; i++) all = all && is_element(plan, next->in[i]);
    for (int i = 0; i < KOLO_OP_OUTS; i++) all = all && is_element(plan, next->out[i]);
    return all;
}

static bool fuses_dropout(const kolo_plan *plan, const kolo_fusion *fusion)
{
    const kolo_op *pool = fusion->op[0], *drop_back = fusion->op[3];
    kolo_pooling p = kolo_cuda_pooling_of(plan, pool, pool->in[0], pool->out[0]);
    bool back = is_element(plan, drop_back->in[0]) && is_element(plan, drop_back->out[0]);
    return back && are_element(plan, pool, fusion->op[1]) &&
           kolo_pooling_whole(kolo_cuda_element_of(plan->precision), &p);
}

static bool fuses_bias_gradient(const kolo_plan *plan, const kolo_op *pool_back)
{
    kolo_pooling p = kolo_cuda_pooling_of(plan, pool_back, pool_back->out[0], pool_back->in[0]);
    return kolo_pooling_exact(kolo_cuda_element(plan, pool_back->out[0]), &p);
}

static bool fuses_add(const kolo_plan *plan, const kolo_op *norm, const kolo_op *add)
{
    bool adds = norm->kind == KOLO_OP_BATCH_NORM || add->activation <= KOLO_LINEAR;
    return adds && are_element(plan, norm, add);
}

bool kolo_cuda_fuses(const kolo_plan *plan, const kolo_fusion *fusion)
{
    const kolo_op *op = fusion->op[0];
    switch (fusion->kind) {
    case KOLO_FUSE_DENSE_LOSS: return kolo_cuda_has_loss(plan);
    case KOLO_FUSE_RELU_MASK: return true;
    case KOLO_FUSE_RELU: return false; /* with a bias, the convolution applies it without another pass */
    case KOLO_FUSE_BIAS_GRADIENT: return fuses_bias_gradient(plan, op);
    case KOLO_FUSE_POOL: return kolo_cuda_fuses_pooled_conv2d(plan, fusion);
    case KOLO_FUSE_DROPOUT: return fuses_dropout(plan, fusion);
    case KOLO_FUSE_ADD: return fuses_add(plan, op, fusion->op[1]);
    case KOLO_FUSE_RELU_BACKWARD: return are_element(plan, op, fusion->op[1]);
    }
    return false;
}

const kolo_op *kolo_cuda_fused(const kolo_plan *plan, const kolo_op *op)
{
    return op->also_computes < 0 ? NULL : &plan->ops[op->also_computes];
}

int kolo_cuda_other(const kolo_plan *plan, const kolo_op *add, int value)
{
    return kolo_plan_same(plan, add->in[0], value) ? add->in[1] : add->in[0];
}
