/* Models with branches: what is built, what is refused, and that gradients flow through every branch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "layers/layer.h"

#define SAMPLES 6

static kolo_data *small_data(int features)
{
    float *x = calloc((size_t)(SAMPLES * features), sizeof *x);
    int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * features; i++) x[i] = (float)((i * 37) % 19) / 19 - 0.5f;
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % 3;
    kolo_data *data = kolo_data_from_arrays(x, labels, .samples = SAMPLES, .shape = {features}, .classes = 3);
    free(x);
    return data;
}

/* A diamond whose sides share the input, with a layer taken three times over. */
static kolo_model *diamond(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 5);
    kolo_tensor stem = kolo_apply(kolo_dense(4, .name = "stem"), x);
    kolo_tensor left = kolo_apply(kolo_dense(4, .activation = KOLO_RELU, .name = "left"), stem);
    kolo_tensor right = kolo_apply(kolo_dense(4, .name = "right"), stem);
    kolo_tensor all = kolo_apply(kolo_add(.activation = KOLO_RELU), left, right, stem);
    kolo_graph_output(model, kolo_apply(kolo_dense(3), all));
    return model;
}

static void gradients_agree(kolo_model *model, const char *backend, double tolerance)
{
    kolo_data *data = small_data(5);
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 4, .backend = backend), KOLO_OK);
    int64_t count = kolo_count_params(model);
    float *gradient = calloc((size_t)count, sizeof *gradient);
    kolo_gradients(model, data, gradient);
    int64_t at = 0;
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++, at++) {
            float kept = weight.values[i], step = 1e-3f;
            weight.values[i] = kept + step;
            double up = kolo_gradients(model, data, NULL);
            weight.values[i] = kept - step;
            double down = kolo_gradients(model, data, NULL);
            weight.values[i] = kept;
            assert_true(fabs((up - down) / (2e-3) - (double)gradient[at]) < tolerance);
        }
    }
    free(gradient);
    kolo_data_free(&data);
}

static void gradients_flow_through_every_branch(void **state)
{
    (void)state;
    kolo_model *model = diamond();
    gradients_agree(model, "reference", 2e-4);
    gradients_agree(model, "onednn", 2e-4); /* float32 sums over a step of 1e-3 */
    kolo_model_free(&model);
}

static void misfits_are_told_and_nothing_follows(void **state)
{
    (void)state;
    kolo_clear_error();
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 5);
    kolo_tensor bad = kolo_apply(kolo_add(), x, kolo_apply(kolo_dense(4), x));
    assert_null(bad.model);
    assert_non_null(strstr(kolo_last_error().text, "layer 2 (add): wanted inputs of one shape, got {5} and {4}"));
    kolo_tensor after = kolo_apply(kolo_dense(3), bad);
    assert_null(after.model);
    assert_int_not_equal(kolo_graph_output(model, after), KOLO_OK);
    assert_int_not_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_OK);
    kolo_model_free(&model);
    kolo_clear_error();
}

static void what_leads_nowhere_is_refused(void **state)
{
    (void)state;
    kolo_clear_error();
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 5);
    kolo_apply(kolo_dense(4, .name = "forgotten"), x);
    assert_int_equal(kolo_graph_output(model, kolo_apply(kolo_dense(3), x)), KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "forgotten"));
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_INVALID);
    kolo_model_free(&model);
    kolo_clear_error();
}

/* A cell with a misfit, mended and run again: the model is the one that it would have been without. */
static void a_misfit_is_mended_in_place(void **state)
{
    (void)state;
    kolo_clear_error();
    kolo_model *model = kolo_graph(), *plain = kolo_sequential(kolo_input(5), kolo_dense(4), kolo_dense(3));
    kolo_tensor x = kolo_graph_input(model, 5), y = kolo_apply(kolo_dense(4), x);
    assert_null(kolo_apply(kolo_dense(3, .name = "b", .device = "cpu:none"), y).model);
    assert_null(kolo_apply(kolo_add(.name = "b"), y, x).model);
    assert_int_not_equal(kolo_graph_output(model, y), KOLO_OK);
    kolo_clear_error();
    assert_int_not_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_OK);
    assert_non_null(strstr(kolo_last_error().text, "without its kolo_graph_output()"));
    kolo_clear_error();
    kolo_tensor z = kolo_apply(kolo_dense(3), y);
    assert_int_equal(z.node, 2);
    assert_int_equal(kolo_graph_output(model, z), KOLO_OK);
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1), KOLO_OK);
    assert_int_equal(kolo_compile(plain, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1), KOLO_OK);
    assert_int_equal(kolo_weight_count(model), 4);
    assert_string_equal(kolo_weight_get(model, 2).name, "dense_1.kernel");
    assert_memory_equal(kolo_weight_get(model, 0).values, kolo_weight_get(plain, 0).values,
                        (size_t)kolo_count_params(plain) * sizeof(float));
    kolo_model_free(&model);
    kolo_model_free(&plain);
}

static void tensors_of_nowhere_are_refused(void **state)
{
    (void)state;
    for (int node = -1; node < 3; node += 3) {
        kolo_model *model = kolo_graph();
        kolo_tensor x = kolo_graph_input(model, 5), other = {model, node};
        assert_null(kolo_apply(kolo_add(), x, other).model);
        assert_non_null(strstr(kolo_last_error().text, "of 1 layers"));
        kolo_clear_error();
        assert_int_equal(kolo_graph_output(model, other), KOLO_INVALID);
        assert_non_null(strstr(kolo_last_error().text, "of 1 layers"));
        kolo_clear_error();
        kolo_model_free(&model);
    }
}

static void names_are_of_printable_characters(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",     "a\n",     "\x7f",
                                        "\xff", "caf\xc3", "a name that is longer than forty-seven characters!"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(kolo_sequential(kolo_input(5), kolo_dense(3, .name = wrong[i])));
        assert_non_null(strstr(kolo_last_error().text, "layer 1: wanted a name of "));
        kolo_clear_error();
    }
    kolo_model *model = kolo_sequential(kolo_input(5), kolo_dense(3, .name = "cafés/Ω \"1\""));
    assert_non_null(model);
    kolo_model_free(&model);
}

static void a_branch_trains(void **state)
{
    (void)state;
    kolo_model *model = diamond();
    kolo_data *data = small_data(5);
    kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_adam(.learning_rate = 0.05), .seed = 2,
                 .metrics = {KOLO_ACCURACY});
    const kolo_history *history = kolo_fit(model, data, .epochs = 60, .batch_size = SAMPLES, .verbose = KOLO_NONE);
    assert_non_null(history);
    assert_true(history->epoch[59].loss < 0.1 * history->epoch[0].loss);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* ---- a layer of one's own: y = x³, all its arithmetic here */

static void cube(const kolo_custom_call *call)
{
    int64_t count = call->microbatch * kolo_shape_count(call->in_shape[0]);
    for (int64_t i = 0; i < count; i++) call->out[0][i] = call->in[0][i] * call->in[0][i] * call->in[0][i];
}

static void cube_backward(const kolo_custom_call *call)
{
    int64_t count = call->microbatch * kolo_shape_count(call->in_shape[0]);
    for (int64_t i = 0; i < count; i++) call->out[0][i] = 3 * call->in[1][i] * call->in[1][i] * call->in[0][i];
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return KOLO_OK;
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_custom(plan, flow, cube, 1, &flow->x, 1, &flow->y, &flow->node->out);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_custom(plan, flow, cube_backward, 2, (int[]){flow->dy, flow->x}, 1, &flow->dx, &flow->node->in);
}

static void a_layer_of_ones_own_is_a_layer(void **state)
{
    (void)state;
    const kolo_layer_kind cube_kind = {.name = "cube", .build = build, .forward = forward, .backward = backward};
    kolo_model *model = kolo_sequential(kolo_input(5), kolo_dense(6), kolo_layer_of(&cube_kind), kolo_dense(3));
    gradients_agree(model, "reference", 2e-4);
    gradients_agree(model, "onednn", 2e-4);
    kolo_model_free(&model);
}

/* ---- the layer that layers/layer.h shows: y = x · scale. It writes for the samples that count, and adds up its
 * gradient, in arrays that held something else before. */

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

static kolo_status build_scale(kolo_model_builder *builder, kolo_layer_node *node)
{
    node->out = node->in;
    return kolo_declare_parameter(builder, node, "scale", node->in, KOLO_INIT_ONES, 1, 1);
}

static int scale_of(kolo_plan *plan, const kolo_layer_flow *flow)
{
    return kolo_plan_weights(plan, flow->node->parameters[0], flow->node->in);
}

static kolo_status plan_scale_forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_custom(plan, flow, scale_forward, 2, (int[]){flow->x, scale_of(plan, flow)}, 1, &flow->y,
                            &flow->node->out);
}

static kolo_status plan_scale_backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    const kolo_layer_node *node = flow->node;
    int ins[] = {flow->dy, flow->x, scale_of(plan, flow)};
    int outs[] = {kolo_plan_gradient(plan, node->parameters[0], node->in), -1};
    const kolo_shape shapes[] = {node->in, node->in};
    kolo_status status = kolo_plan_custom(plan, flow, scale_backward, 3, ins, flow->need_dx ? 2 : 1, outs, shapes);
    flow->dx = outs[1];
    return status;
}

/* 5 samples a microbatch, 6 in all: the last microbatch is mostly padding. */
static void arrays_of_an_operation_of_ones_own_begin_as_zeros(void **state)
{
    (void)state;
    const kolo_layer_kind kind = {
        .name = "scale", .build = build_scale, .forward = plan_scale_forward, .backward = plan_scale_backward};
    static const char *const backends[] = {"reference", "onednn"};
    double losses[2];
    for (int i = 0; i < 2; i++) {
        kolo_model *model =
            kolo_sequential(kolo_input(5), kolo_layer_of(&kind), kolo_dense(6), kolo_layer_of(&kind), kolo_dense(3));
        kolo_data *data = small_data(5);
        gradients_agree(model, backends[i], 2e-4);
        kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_sgd(.learning_rate = 0.1), .seed = 4,
                     .backend = backends[i]);
        const kolo_history *history =
            kolo_fit(model, data, .epochs = 20, .batch_size = SAMPLES, .micro_batch = 5, .verbose = KOLO_NONE);
        assert_non_null(history);
        losses[i] = history->epoch[19].loss;
        kolo_model_free(&model);
        kolo_data_free(&data);
    }
    assert_float_equal(losses[0], losses[1], 1e-5);
}

static void a_kind_that_lacks_something_is_refused(void **state)
{
    (void)state;
    const kolo_layer_kind nameless = {.build = build, .forward = forward, .backward = backward};
    const kolo_layer_kind one_way = {.name = "one_way", .build = build, .forward = forward};
    const kolo_layer_kind *const kinds[] = {NULL, &nameless, &one_way};
    static const char *const got[] = {"got NULL", "a .name", "\"one_way\" without"};
    for (int i = 0; i < 3; i++) {
        assert_null(kolo_sequential(kolo_input(5), kolo_dense(6), kolo_layer_of(kinds[i]), kolo_dense(3)));
        assert_non_null(strstr(kolo_last_error().text, "layer 2 (kolo_layer_of): wanted a kind"));
        assert_non_null(strstr(kolo_last_error().text, got[i]));
        kolo_clear_error();
    }
}

static kolo_status build_nothing(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder, (void)node;
    return KOLO_OK;
}

static kolo_status lead_nowhere(kolo_plan *plan, kolo_layer_flow *flow)
{
    (void)plan, (void)flow;
    return KOLO_OK;
}

static void a_layer_that_gives_nothing_is_refused(void **state)
{
    (void)state;
    const kolo_layer_kind shapeless = {"shapeless", .build = build_nothing, .forward = forward, .backward = backward};
    const kolo_layer_kind dead_end = {"dead_end", .build = build, .forward = lead_nowhere, .backward = backward};
    assert_null(kolo_sequential(kolo_input(5), kolo_layer_of(&shapeless), kolo_dense(3)));
    assert_non_null(strstr(kolo_last_error().text, "layer 1 (shapeless): wanted a shape in the node's .out"));
    kolo_clear_error();
    kolo_model *model = kolo_sequential(kolo_input(5), kolo_layer_of(&dead_end), kolo_dense(3));
    kolo_data *data = small_data(5);
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_OK);
    assert_true(isnan(kolo_evaluate(model, data).loss));
    assert_non_null(strstr(kolo_last_error().text, "(dead_end): wanted a value in the flow's .y"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static char *summary(const kolo_model *model)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(kolo_summary_write(model, out), KOLO_OK);
    fclose(out);
    return text;
}

static void a_summary_says_what_is_connected_and_what_is_trained(void **state)
{
    (void)state;
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 8);
    kolo_tensor y = kolo_apply(kolo_batch_norm(), kolo_apply(kolo_dense(8, .name = "größe"), x));
    assert_int_equal(kolo_graph_output(model, kolo_apply(kolo_add(), x, y)), KOLO_OK);
    char *text = summary(model);
    assert_non_null(strstr(text,
                           "│ größe (dense)                    │ (None, 8)              │            72 │ input"));
    assert_non_null(strstr(text, " 0 │ input, batch_norm  │\n"));
    assert_non_null(strstr(text, " Total params: 104 (0.42 KB)\n Trainable params: 88 (0.35 KB)\n"
                                 " Non-trainable params: 16 (0.06 KB)\n"));
    free(text);
    kolo_model_free(&model);
    model = kolo_sequential(kolo_input(8), kolo_dense(3));
    text = summary(model);
    assert_null(strstr(text, "Connected"));
    assert_null(strstr(text, "rainable"));
    free(text);
    kolo_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_flow_through_every_branch),
        cmocka_unit_test(misfits_are_told_and_nothing_follows),
        cmocka_unit_test(what_leads_nowhere_is_refused),
        cmocka_unit_test(a_branch_trains),
        cmocka_unit_test(a_layer_of_ones_own_is_a_layer),
        cmocka_unit_test(a_misfit_is_mended_in_place),
        cmocka_unit_test(arrays_of_an_operation_of_ones_own_begin_as_zeros),
        cmocka_unit_test(tensors_of_nowhere_are_refused),
        cmocka_unit_test(names_are_of_printable_characters),
        cmocka_unit_test(a_kind_that_lacks_something_is_refused),
        cmocka_unit_test(a_layer_that_gives_nothing_is_refused),
        cmocka_unit_test(a_summary_says_what_is_connected_and_what_is_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
