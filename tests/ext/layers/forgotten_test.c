/* A layer of a learner's own that forgets a part: a sentence that names the layer and the part, instead of a training
 * that goes wrong without a word. The layer is y = x · scale, of layers/layer.h. */
#include "ext/core/small.h"

#include <string.h>

#include "layers/layer.h"

typedef enum part { NOTHING, DX, SHAPE_OF_DX, GRADIENT, SECOND_GRADIENT, SHAPE_OF_Y, OPERAND, UNWRITTEN, WEIGHTS } part;
static part forgotten;

static void scale_forward(const kolo_custom_call *call)
{
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int64_t i = 0; i < call->samples * count; i++) call->out[0][i] = call->in[0][i] * call->in[1][i % count];
}

static void scale_backward(const kolo_custom_call *call)
{
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int64_t i = 0; i < call->samples * count; i++) {
        call->out[0][i % count] += call->in[0][i] * call->in[1][i];
        if (call->out[1]) call->out[1][i] = call->in[0][i] * call->in[2][i % count];
    }
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    node->out = node->in;
    return kolo_declare_parameter(builder, node, "scale", node->in, KOLO_INIT_ONES, 1, 1);
}

/* A separate activation that changes nothing, with the part that is forgotten. */
static kolo_status add_activation(kolo_plan *plan, kolo_layer_flow *flow)
{
    int y = kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, flow->node->out), x = flow->y;
    if (forgotten == UNWRITTEN) x = kolo_plan_value(plan, KOLO_VALUE_ACTIVATION, flow->node->out);
    kolo_op op = {.kind = KOLO_OP_ACTIVATION, .layer = flow->node->number, .activation = KOLO_LINEAR, .out = {y}};
    if (forgotten != OPERAND) op.in[0] = x;
    flow->y = y;
    return kolo_plan_op(plan, op);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    kolo_shape wrong = {1, {2}}, weights = forgotten == WEIGHTS ? wrong : node->in;
    int ins[] = {flow->x, kolo_plan_weights(plan, node->parameters[0], weights)};
    flow->y = -1;
    KOLO_TRY(kolo_plan_custom(plan, flow, scale_forward, 2, ins, 1, &flow->y,
                              forgotten == SHAPE_OF_Y ? &wrong : &node->out));
    return forgotten == SHAPE_OF_Y ? KOLO_OK : add_activation(plan, flow);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    int ins[] = {flow->dy, flow->x, kolo_plan_weights(plan, node->parameters[0], node->in)};
    int outs[] = {forgotten == GRADIENT ? -1 : kolo_plan_gradient(plan, node->parameters[0], node->in), -1};
    kolo_shape shapes[] = {node->in, forgotten == SHAPE_OF_DX ? (kolo_shape){1, {2}} : node->in};
    int count = flow->need_dx ? 2 : 1;
    for (int i = 0; i < (forgotten == SECOND_GRADIENT ? 2 : 1); i++) {
        if (i > 0) outs[0] = kolo_plan_gradient(plan, node->parameters[0], node->in);
        KOLO_TRY(kolo_plan_custom(plan, flow, scale_backward, 3, ins, count, outs, shapes));
    }
    if (forgotten != DX) flow->dx = outs[1];
    return KOLO_OK;
}

static const kolo_layer_kind scale = {.name = "scale", .build = build, .forward = forward, .backward = backward};

/* The layers below the one that forgets have weights. */
static const kolo_history *train(part left_out, const char *backend)
{
    forgotten = left_out;
    kolo_data *data = small_data(20);
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(), kolo_dense(6),
                                        kolo_layer_of(&scale), kolo_dense(SMALL_CLASSES));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend),
                     KOLO_OK);
    const kolo_history *history = kolo_fit(model, data, .batch_size = 5, .verbose = KOLO_NONE);
    kolo_history *copy = history ? kolo_history_copy(history) : NULL;
    kolo_model_free(&model);
    kolo_data_free(&data);
    return copy;
}

static void refuse(part left_out, const char *sentence)
{
    static const char *const backends[] = {"reference", "enqueued"};
    for (int b = 0; b < 2; b++) {
        assert_null(train(left_out, backends[b]));
        const char *text = kolo_last_error().text;
        if (!strstr(text, sentence)) fail_msg("wanted \"%s\" in: %s", sentence, text);
        assert_non_null(strstr(text, "layer 3 (scale): "));
        kolo_clear_error();
    }
}

static void a_complete_layer_trains(void **state)
{
    (void)state;
    kolo_history *history = (kolo_history *)(uintptr_t)train(NOTHING, "reference");
    assert_non_null(history);
    kolo_history_free(&history);
}

static void a_forgotten_part_is_a_sentence(void **state)
{
    (void)state;
    refuse(DX, "wanted a value in the flow's .dx after backward(), since need_dx is set, of the shape {6}, got none");
    refuse(SHAPE_OF_DX, "since need_dx is set, of the shape {6}, got {2}");
    refuse(GRADIENT, "wanted one operation that writes the gradient of scale.scale, got 0");
    refuse(SECOND_GRADIENT, "wanted one operation that writes the gradient of scale.scale, got 2");
    refuse(SHAPE_OF_Y, "wanted a value in the flow's .y after forward() of the shape {6}, got {2}");
    refuse(OPERAND, "operation ACTIVATION: in[0]: wanted an activation, got value 0, the features");
    refuse(UNWRITTEN, "operation ACTIVATION: in[0]: wanted a value that an operation before it writes");
    refuse(WEIGHTS, "operation CUSTOM: wanted scale.scale with as many elements as {6}, got {2}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_complete_layer_trains),
                                       cmocka_unit_test(a_forgotten_part_is_a_sentence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
