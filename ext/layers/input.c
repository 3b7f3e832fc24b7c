/* The input layer: sets the shape of a sample, and converts the features to the backend's layout. */
#include "layers/common.h"

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    const kolo_input_args *args = &node->recipe.input;
    const int sizes[4] = {args->size_1, args->size_2, args->size_3, args->size_4};
    node->out.rank = 0;
    for (int axis = 0; axis < 4; axis++) {
        if (sizes[axis] != 0) node->out.rank = axis + 1;
    }
    for (int axis = 0; axis < node->out.rank || axis == 0; axis++) {
        if (axis == 0 && sizes[axis] == 0 && kolo_last_error().code != KOLO_OK)
            return KOLO_INVALID; /* the shape of data that could not be read: that failure was reported already */
        KOLO_TRY(kolo_check_size(kolo_phrase("size %d", axis + 1), sizes[axis]));
        node->out.dim[axis] = sizes[axis];
    }
    return kolo_check_elements("shape", node->out);
}

/* x is plan->input. */
static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    KOLO_TRY(kolo_added(&flow->y, kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, flow->node->out)));
    return kolo_plan_op(plan, (kolo_op){.kind = KOLO_OP_INPUT,
                                        .layer = flow->node->number,
                                        .in = {flow->x},
                                        .out = {flow->y},
                                        .activation = KOLO_LINEAR});
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    (void)plan;
    flow->dx = -1;
    return KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, input, size_1),
    KOLO_POSITIONAL(KOLO_FIELD_INT, input, size_2),
    KOLO_POSITIONAL(KOLO_FIELD_INT, input, size_3),
    KOLO_POSITIONAL(KOLO_FIELD_INT, input, size_4),
    {0},
};

const kolo_layer_kind kolo_input_kind = {
    .name = "input", .fields = fields, .build = build, .forward = forward, .backward = backward};
