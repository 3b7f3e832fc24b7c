/* The product of two inputs, element by element, or of an image and one pixel, which scales the image's channels. The
 * gradient of a factor is dy times the other factor; for a pixel it is summed over the image's pixels. */
#include "layers/common.h"

static bool is_pixel_of(kolo_shape pixel, kolo_shape image)
{
    return kolo_shape_equal(pixel, (kolo_shape){3, {1, 1, image.dim[2]}}) && image.rank == 3;
}

/* The index of the input that is the image; the other may be a pixel. */
static int image_of(const kolo_layer_node *node)
{
    return is_pixel_of(node->ins[0], node->ins[1]) ? 1 : 0;
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    kolo_shape image = node->ins[image_of(node)], other = node->ins[1 - image_of(node)];
    node->out = image;
    if (kolo_shape_equal(image, other) || is_pixel_of(other, image)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "wanted two inputs of one shape, or {height, width, channels} and {1, 1, channels}, "
                     "got %s and %s",
                     kolo_shape_text(node->ins[0]), kolo_shape_text(node->ins[1]));
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    int image = image_of(flow->node);
    kolo_op op = {.kind = KOLO_OP_MULTIPLY, .in = {flow->xs[image], flow->xs[1 - image]}};
    return kolo_simple_op(plan, flow->node, op, flow->node->out, &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    for (int i = 0; i < 2; i++) {
        bool sum = !kolo_shape_equal(node->ins[i], node->out);
        kolo_op op = {.kind = sum ? KOLO_OP_MULTIPLY_SUM : KOLO_OP_MULTIPLY, .in = {flow->dy, flow->xs[1 - i]}};
        flow->dxs[i] = -1;
        if (flow->need_dxs[i]) KOLO_TRY(kolo_simple_op(plan, node, op, node->ins[i], &flow->dxs[i]));
    }
    return KOLO_OK;
}

static const kolo_field fields[] = {
    KOLO_FIELDS_END(multiply),
};

const kolo_layer_kind kolo_multiply_kind = {
    .name = "multiply", .fields = fields, .inputs = 2, .build = build, .forward = forward, .backward = backward};
