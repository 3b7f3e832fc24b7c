/* An activation as a layer. */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return kolo_check_activation(node->recipe.activate.activation);
}

static bool active(const kolo_layer_flow *flow)
{
    kolo_activation activation = flow->node->recipe.activate.activation;
    return activation > KOLO_LINEAR && activation != flow->left_out;
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->y = flow->x;
    if (!active(flow)) return KOLO_OK;
    return kolo_activation_forward(plan, flow->node, flow->node->recipe.activate.activation, flow->x, &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->dx = flow->need_dx ? flow->dy : -1;
    if (!flow->need_dx || !active(flow)) return KOLO_OK;
    return kolo_activation_backward(plan, flow->node, flow->node->recipe.activate.activation, flow->dy, flow->y,
                                    flow->x, &flow->dx);
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_ACTIVATION, activate, activation),
    KOLO_FIELDS_END(activate),
};

const kolo_layer_kind kolo_activate_kind = {
    .name = "activate", .fields = fields, .build = build, .forward = forward, .backward = backward};
