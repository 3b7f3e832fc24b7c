/* Flatten: a view of the input's memory as one row. */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = (kolo_shape){1, {(int)kolo_shape_count(node->in)}};
    return KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_FIELDS_END(flatten),
};

const kolo_layer_kind kolo_flatten_kind = {
    .name = "flatten", .fields = fields, .build = build, .forward = kolo_view_forward, .backward = kolo_view_backward};
