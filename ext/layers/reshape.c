/* Reshape: a view of the input's memory under another shape. */
#include "layers/common.h"

/* The shape in the options, which may contain a -1. */
static kolo_shape asked_for(const kolo_layer_node *node)
{
    const kolo_reshape_args *args = &node->recipe.reshape;
    kolo_shape shape = {1, {args->size_1, args->size_2, args->size_3, args->size_4}};
    for (int axis = 1; axis < 4; axis++)
        if (shape.dim[axis] != 0) shape.rank = axis + 1;
    return shape;
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    kolo_shape wanted = asked_for(node);
    int64_t elements = kolo_shape_count(node->in), known = 1;
    int open = -1;
    for (int axis = 0; axis < wanted.rank; axis++) {
        if (wanted.dim[axis] == -1 && open >= 0)
            return kolo_fail(KOLO_INVALID, "size %d: wanted one -1 at most, got a second", axis + 1);
        if (wanted.dim[axis] == -1) open = axis;
        else KOLO_TRY(kolo_check_size(kolo_phrase("size %d", axis + 1), wanted.dim[axis]));
        known = wanted.dim[axis] == -1 || known > elements ? known : known * wanted.dim[axis];
    }
    if (known < 1 || (open >= 0 ? elements % known != 0 : elements != known))
        return kolo_fail(KOLO_INVALID, "wanted a shape of the %lld elements of its input %s, got %s",
                         (long long)elements, kolo_shape_text(node->in), kolo_shape_text(wanted));
    if (open >= 0) wanted.dim[open] = (int)(elements / known);
    node->out = wanted;
    return KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, reshape, size_1),
    KOLO_POSITIONAL(KOLO_FIELD_INT, reshape, size_2),
    KOLO_POSITIONAL(KOLO_FIELD_INT, reshape, size_3),
    KOLO_POSITIONAL(KOLO_FIELD_INT, reshape, size_4),
    KOLO_FIELDS_END(reshape),
};

const kolo_layer_kind kolo_reshape_kind = {
    .name = "reshape", .fields = fields, .build = build, .forward = kolo_view_forward, .backward = kolo_view_backward};
