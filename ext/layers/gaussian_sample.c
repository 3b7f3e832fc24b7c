/* Draws from a normal distribution whose mean μ and log variance λ are the inputs, in a form that has gradients:
 * z = μ + σ ε with σ = exp(λ/2). It adds k times the divergence from N(0, 1), Σ (μ² + σ² − 1 − λ) / 2, to the loss. So
 *     dμ = dz + k μ,   dλ = dz · (z − μ) / 2 + k (σ² − 1) / 2.
 * Kingma and Welling 2014, "Auto-encoding variational Bayes", sections 2.4 and 3. It is a custom operation
 * (KOLO_OP_CUSTOM): its arrays are so small that backends have no kernel for it. */
#include "layers/common.h"

#include <math.h>

#include "core/random.h"

static double kl_weight(const kolo_gaussian_sample_args *args)
{
    return args->kl_weight == 0 ? 1 : args->kl_weight == KOLO_NONE ? 0 : args->kl_weight;
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    kolo_gaussian_sample_args *args = &node->recipe.gaussian_sample;
    kolo_keep_zero(args->_, "kl_weight", &args->kl_weight);
    double weight = kl_weight(args);
    node->out = node->in;
    if (!(weight >= 0 && isfinite(weight)))
        return kolo_fail(KOLO_INVALID, "kl_weight: wanted at least 0, got %g", weight);
    if (kolo_shape_equal(node->ins[0], node->ins[1])) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a mean and a log variance of one shape, got %s and %s",
                     kolo_shape_text(node->ins[0]), kolo_shape_text(node->ins[1]));
}

/* k, times the sample's weight in the loss. call->args points to this layer's arguments: all arguments of a recipe
 * share one union. */
static double weight_of(const kolo_custom_call *call, int sample)
{
    double weight = kl_weight((const kolo_gaussian_sample_args *)call->args);
    return call->weights ? weight * (double)call->weights[sample] : weight;
}

/* in: μ, λ; out: z. */
static void draw(const kolo_custom_call *call)
{
    uint64_t key = kolo_random_key(kolo_random_key(call->seed, KOLO_RANDOM_SAMPLE, (uint64_t)call->layer),
                                   KOLO_RANDOM_SAMPLE, call->step);
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int s = 0; s < call->microbatch; s++) {
        double divergence = 0;
        for (int64_t e = 0, i = s * count; e < count; e++, i++) {
            double mean = (double)call->in[0][i], log_variance = (double)call->in[1][i], noise = 0;
            if (call->chance) noise = kolo_random_normal(key, (uint64_t)e, (uint64_t)(call->first_sample + s));
            call->out[0][i] = (float)(mean + exp(log_variance / 2) * noise);
            divergence += (mean * mean + exp(log_variance) - 1 - log_variance) / 2;
        }
        if (s < call->samples) *call->loss += weight_of(call, s) * divergence;
    }
}

/* in: dz, μ, λ, z; out: dμ, dλ. */
static void spread(const kolo_custom_call *call)
{
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int s = 0; s < call->microbatch; s++) {
        bool counts = s < call->samples;
        double weight = counts ? weight_of(call, s) * call->loss_scale : 0;
        for (int64_t i = s * count; i < (s + 1) * count; i++) {
            double dz = (double)call->in[0][i], mean = (double)call->in[1][i], z = (double)call->in[3][i];
            double of_variance = weight * (exp((double)call->in[2][i]) - 1) / 2;
            call->out[0][i] = counts ? (float)(dz + weight * mean) : 0;
            call->out[1][i] = counts ? (float)(dz * (z - mean) / 2 + of_variance) : 0;
        }
    }
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->y = -1;
    return kolo_plan_custom(plan, flow, draw, 2, flow->xs, 1, &flow->y, &flow->node->out);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const int ins[] = {flow->dy, flow->xs[0], flow->xs[1], flow->y};
    const kolo_shape shapes[] = {flow->node->out, flow->node->out};
    int outs[] = {-1, -1};
    KOLO_TRY(kolo_plan_custom(plan, flow, spread, 4, ins, 2, outs, shapes));
    for (int i = 0; i < 2; i++) flow->dxs[i] = flow->need_dxs[i] ? outs[i] : -1;
    return KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_FIELD(KOLO_FIELD_DOUBLE, gaussian_sample, kl_weight),
    KOLO_FIELDS_END(gaussian_sample),
};

const kolo_layer_kind kolo_gaussian_sample_kind = {
    .name = "gaussian_sample", .fields = fields, .inputs = 2, .build = build, .forward = forward, .backward = backward};
