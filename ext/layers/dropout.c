/* Dropout: in training each element becomes 0 with probability rate, and the others are divided by 1 − rate, so that
 * the expectation stays the same (Srivastava et al. 2014, in the inverted form). core/random.h chooses the elements. */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    double rate = node->recipe.dropout.rate;
    if (!(rate >= 0 && rate < 1)) return kolo_fail(KOLO_INVALID, "rate: wanted 0 ≤ rate < 1, got %g", rate);
    node->out = node->in;
    return KOLO_OK;
}

static bool active(const kolo_plan *plan, const kolo_layer_flow *flow)
{
    return plan->dropout && flow->node->recipe.dropout.rate > 0;
}

/* saved[0]: the mask. */
static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->y = flow->x;
    if (!active(plan, flow)) return KOLO_OK;
    KOLO_TRY(kolo_added(&flow->y, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, flow->node->out)));
    KOLO_TRY(kolo_added(&flow->saved[0], kolo_plan_value(plan, KOLO_VALUE_WORKSPACE, flow->node->out)));
    return kolo_plan_op(plan, (kolo_op){.kind = KOLO_OP_DROPOUT,
                                        .layer = flow->node->number,
                                        .in = {flow->x},
                                        .out = {flow->y, flow->saved[0]},
                                        .activation = KOLO_LINEAR,
                                        .rate = flow->node->recipe.dropout.rate});
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->dx = flow->need_dx ? flow->dy : -1;
    if (!flow->need_dx || !active(plan, flow)) return KOLO_OK;
    KOLO_TRY(kolo_added(&flow->dx, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, flow->node->in)));
    return kolo_plan_op(plan, (kolo_op){.kind = KOLO_OP_DROPOUT_BACKWARD,
                                        .layer = flow->node->number,
                                        .in = {flow->dy, flow->saved[0]},
                                        .out = {flow->dx},
                                        .activation = KOLO_LINEAR,
                                        .rate = flow->node->recipe.dropout.rate});
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_DOUBLE, dropout, rate),
    KOLO_FIELDS_END(dropout),
};

const kolo_layer_kind kolo_dropout_kind = {
    .name = "dropout", .fields = fields, .build = build, .forward = forward, .backward = backward};
