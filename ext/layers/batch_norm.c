/* Batch normalisation, over the last axis: y = gamma · (x − mean) / √(variance + epsilon) + beta.
 *
 * Ioffe and Szegedy 2015, "Batch Normalization". In training mean and variance are those of the batch's samples, which
 * needs a cross-microbatch reduction. Scoring and predicting use the running mean and variance instead. Ghost batches
 * (Hoffer et al. 2017, "Train longer, generalize better") have separate statistics: each microbatch is a ghost batch,
 * and nothing is reduced. */
#include <float.h>

#include "layers/common.h"

enum { MOST_GHOST_SAMPLES = 1024 };

/* Indices into saved[]: the sums of the moments, and the output before a separate activation. */
enum { MOMENTS = 0, NORMALISED = 1 };

/* Indices into node->parameters; -1: there is none. The running variance is number mean + 1. */
typedef struct arrays {
    int gamma, beta, mean;
} arrays;

static arrays arrays_of(const kolo_layer_node *node)
{
    const kolo_batch_norm_args *args = &node->recipe.batch_norm;
    int gamma = args->no_scale ? -1 : 0, beta = args->no_center ? -1 : gamma + 1;
    return (arrays){gamma, beta, (gamma >= 0) + (beta >= 0)};
}

static kolo_shape channels_of(const kolo_layer_node *node)
{
    return (kolo_shape){1, {node->in.dim[node->in.rank - 1]}};
}

/* The option's value: 0 means the default, and KOLO_NONE means 0. */
static double momentum_of(const kolo_batch_norm_args *args)
{
    if (args->momentum == 0) return 0.99;
    return args->momentum == KOLO_NONE ? 0 : args->momentum;
}

/* ---------------------------------------------------------------- options and weights */

static kolo_status check(const kolo_batch_norm_args *args)
{
    double momentum = momentum_of(args);
    if (!(momentum >= 0 && momentum < 1))
        return kolo_fail(KOLO_INVALID, "momentum: wanted 0 ≤ momentum < 1, got %g", momentum);
    bool none = args->epsilon == 0 && kolo_written(args->_, "epsilon");
    if (none || !(args->epsilon >= 0 && args->epsilon <= FLT_MAX))
        return kolo_fail(KOLO_INVALID, "epsilon: wanted more than 0, got %g", args->epsilon);
    if (args->ghost_batch < 0 || args->ghost_batch > MOST_GHOST_SAMPLES)
        return kolo_fail(KOLO_INVALID, "ghost_batch: wanted 1 … %d samples, got %d", MOST_GHOST_SAMPLES,
                         args->ghost_batch);
    if (args->ghost_batch && args->synchronized)
        return kolo_fail(KOLO_INVALID, "wanted .ghost_batch or .synchronized, got both: a ghost batch's statistics are "
                                       "its own");
    return kolo_check_activation(args->activation);
}

/* Declares a running mean. Its momentum must not be 0, because a momentum above 0 marks arrays that the optimizer does
 * not update. */
static kolo_status declare_running(kolo_model_builder *builder, kolo_layer_node *node, const char *name,
                                   kolo_initializer initializer)
{
    double momentum = momentum_of(&node->recipe.batch_norm);
    KOLO_TRY(kolo_declare_parameter(builder, node, name, channels_of(node), initializer, 0, 0));
    kolo_declared(builder)->momentum = momentum > 0 ? momentum : DBL_MIN;
    return KOLO_OK;
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    kolo_batch_norm_args *args = &node->recipe.batch_norm;
    kolo_keep_zero(args->_, "momentum", &args->momentum);
    KOLO_TRY(check(args));
    node->out = node->in;
    node->microbatch = args->ghost_batch;
    kolo_shape shape = channels_of(node);
    if (!args->no_scale) KOLO_TRY(kolo_declare_parameter(builder, node, "gamma", shape, KOLO_INIT_ONES, 0, 0));
    if (!args->no_center) KOLO_TRY(kolo_declare_parameter(builder, node, "beta", shape, KOLO_INIT_ZEROS, 0, 0));
    KOLO_TRY(declare_running(builder, node, "moving_mean", KOLO_INIT_ZEROS));
    return declare_running(builder, node, "moving_variance", KOLO_INIT_ONES);
}

/* ---------------------------------------------------------------- operations */

/* An operation of this layer, without operands. It includes a relu; any other activation is a separate operation. */
static kolo_op start(const kolo_layer_flow *flow, kolo_op_kind kind)
{
    const kolo_batch_norm_args *args = &flow->node->recipe.batch_norm;
    bool relu = args->activation == KOLO_RELU && flow->left_out != KOLO_RELU;
    return (kolo_op){.kind = kind,
                     .layer = flow->node->number,
                     .in = {-1, -1, -1, -1, -1, -1},
                     .out = {-1, -1, -1, -1},
                     .activation = relu ? KOLO_RELU : KOLO_LINEAR,
                     .epsilon = args->epsilon > 0 ? args->epsilon : 1e-3};
}

static bool apart(const kolo_layer_flow *flow)
{
    kolo_activation activation = flow->node->recipe.batch_norm.activation;
    return activation > KOLO_RELU && activation != flow->left_out;
}

static kolo_status add_weights(kolo_plan *plan, const kolo_layer_flow *flow, int number, int *value)
{
    const kolo_layer_node *node = flow->node;
    if (number < 0) return KOLO_OK;
    return kolo_added(value, kolo_plan_weights(plan, node->parameters[number], channels_of(node)));
}

static kolo_status add_gradient(kolo_plan *plan, const kolo_layer_flow *flow, int number, int *value)
{
    const kolo_layer_node *node = flow->node;
    if (number < 0) return KOLO_OK;
    return kolo_added(value, kolo_plan_gradient(plan, node->parameters[number], channels_of(node)));
}

/* Adds `op`, whose first output becomes `count` partial sums over a microbatch. If an operation will read the sums,
 * adds the reduction of these over microbatches. *sums becomes the reduced value; without a reduction, as for a ghost
 * batch, the partial sums. */
static kolo_status add_sums(kolo_plan *plan, const kolo_layer_flow *flow, kolo_op op, int count, bool read, int *sums)
{
    const kolo_batch_norm_args *args = &flow->node->recipe.batch_norm;
    kolo_shape shape = {1, {count}};
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_PARTIAL, shape)));
    KOLO_TRY(kolo_plan_op(plan, op));
    *sums = op.out[0];
    if (args->ghost_batch || !read) return KOLO_OK;
    kolo_op reduce = start(flow, KOLO_OP_REDUCE);
    reduce.across = args->synchronized;
    reduce.in[0] = op.out[0];
    KOLO_TRY(kolo_added(&reduce.out[0], kolo_plan_value(plan, KOLO_VALUE_REDUCED, shape)));
    *sums = reduce.out[0];
    return kolo_plan_op(plan, reduce);
}

/* Adds the operands of `op` that hold its statistics. In training these are the moments of the batch's samples; `op`
 * also writes mean and variance as the gradients of the running ones. Otherwise they are the running mean and variance.
 */
static kolo_status add_statistics(kolo_plan *plan, kolo_layer_flow *flow, kolo_op *op)
{
    arrays a = arrays_of(flow->node);
    if (!plan->training) {
        KOLO_TRY(add_weights(plan, flow, a.mean, &op->in[4]));
        return add_weights(plan, flow, a.mean + 1, &op->in[5]);
    }
    kolo_op moments = start(flow, KOLO_OP_BATCH_NORM_MOMENTS);
    moments.in[0] = flow->x;
    KOLO_TRY(add_sums(plan, flow, moments, 2 * channels_of(flow->node).dim[0] + 1, true, &op->in[1]));
    flow->saved[MOMENTS] = op->in[1];
    KOLO_TRY(add_gradient(plan, flow, a.mean, &op->out[1]));
    return add_gradient(plan, flow, a.mean + 1, &op->out[2]);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    arrays a = arrays_of(flow->node);
    kolo_op op = start(flow, KOLO_OP_BATCH_NORM);
    op.in[0] = flow->x;
    KOLO_TRY(add_statistics(plan, flow, &op));
    KOLO_TRY(add_weights(plan, flow, a.gamma, &op.in[2]));
    KOLO_TRY(add_weights(plan, flow, a.beta, &op.in[3]));
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, flow->node->out)));
    KOLO_TRY(kolo_plan_op(plan, op));
    flow->y = flow->saved[NORMALISED] = op.out[0];
    if (!apart(flow)) return KOLO_OK;
    return kolo_activation_forward(plan, flow->node, flow->node->recipe.batch_norm.activation, op.out[0], &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    arrays a = arrays_of(node);
    int dy = flow->dy;
    if (apart(flow))
        KOLO_TRY(kolo_activation_backward(plan, node, node->recipe.batch_norm.activation, flow->dy, flow->y,
                                          flow->saved[NORMALISED], &dy));
    kolo_op sums = start(flow, KOLO_OP_BATCH_NORM_SUMS), op = start(flow, KOLO_OP_BATCH_NORM_BACKWARD);
    sums.in[0] = op.in[0] = dy;
    sums.in[1] = op.in[1] = flow->x;
    sums.in[2] = op.in[2] = flow->saved[MOMENTS];
    KOLO_TRY(add_weights(plan, flow, a.gamma, &sums.in[3]));
    KOLO_TRY(add_weights(plan, flow, a.beta, &sums.in[4]));
    KOLO_TRY(add_gradient(plan, flow, a.gamma, &sums.out[1]));
    KOLO_TRY(add_gradient(plan, flow, a.beta, &sums.out[2]));
    KOLO_TRY(add_sums(plan, flow, sums, 2 * channels_of(node).dim[0], flow->need_dx, &op.in[5]));
    if (!flow->need_dx) return KOLO_OK;
    KOLO_TRY(add_weights(plan, flow, a.gamma, &op.in[3]));
    KOLO_TRY(add_weights(plan, flow, a.beta, &op.in[4]));
    KOLO_TRY(kolo_added(&op.out[0], kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, node->in)));
    flow->dx = op.out[0];
    return kolo_plan_op(plan, op);
}

static const kolo_field fields[] = {
    KOLO_FIELD(KOLO_FIELD_DOUBLE, batch_norm, momentum),       KOLO_FIELD(KOLO_FIELD_DOUBLE, batch_norm, epsilon),
    KOLO_FIELD(KOLO_FIELD_BOOL, batch_norm, no_scale),         KOLO_FIELD(KOLO_FIELD_BOOL, batch_norm, no_center),
    KOLO_FIELD(KOLO_FIELD_ACTIVATION, batch_norm, activation), KOLO_FIELD(KOLO_FIELD_INT, batch_norm, ghost_batch),
    KOLO_FIELD(KOLO_FIELD_BOOL, batch_norm, synchronized),     KOLO_FIELDS_END(batch_norm),
};

const kolo_layer_kind kolo_batch_norm_kind = {
    .name = "batch_norm", .fields = fields, .build = build, .forward = forward, .backward = backward};
