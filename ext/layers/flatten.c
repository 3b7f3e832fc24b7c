/* Flatten: a view of the input's memory as one row. */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = (kolo_shape){1, {(int)kolo_shape_count(node->in)}};
    return KOLO_OK;
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_added(&flow->y, kolo_plan_view(plan, flow->x, flow->node->out));
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->dx = -1;
    return flow->need_dx ? kolo_added(&flow->dx, kolo_plan_view(plan, flow->dy, flow->node->in)) : KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_FIELDS_END(flatten),
};

const kolo_layer_kind kolo_flatten_kind = {
    .name = "flatten", .fields = fields, .build = build, .forward = forward, .backward = backward};
