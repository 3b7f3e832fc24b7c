/* Shapes, weights and the sentences of misfits, layer by layer. Shapes of KOLO_SAME and strides are TensorFlow's;
 * counts of weights are what Keras's summary prints for the same layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <math.h>
#include <string.h>

#include "model/model.h"

static void assert_out(kolo_model *model, int rank, int d0, int d1, int d2, int64_t weights)
{
    assert_non_null(model);
    kolo_shape out = model->layers[model->layer_count - 1].out, wanted = {rank, {d0, d1, d2}};
    if (!kolo_shape_equal(out, wanted)) print_error("%s, wanted %s\n", kolo_shape_text(out), kolo_shape_text(wanted));
    assert_true(kolo_shape_equal(out, wanted));
    assert_int_equal(kolo_count_params(model), weights);
    kolo_model_free(&model);
}

#define IMAGE(...) kolo_sequential(kolo_input(28, 28, 3), __VA_ARGS__)

static void test_shapes(void **state)
{
    (void)state;
    assert_out(IMAGE(kolo_conv2d(8, .kernel = {3, 5})), 3, 26, 24, 8, 3 * 5 * 3 * 8 + 8);
    assert_out(IMAGE(kolo_conv2d(8, .kernel = {3, 3}, .no_bias = true)), 3, 26, 26, 8, 3 * 3 * 3 * 8);
    assert_out(IMAGE(kolo_conv2d(1, .kernel = {28, 28})), 3, 1, 1, 1, 28 * 28 * 3 + 1);
    assert_out(IMAGE(kolo_conv2d(4, .kernel = {3, 3}, .stride = {2, 3})), 3, 13, 9, 4, 112);
    assert_out(IMAGE(kolo_conv2d(4, .kernel = {3, 3}, .stride = {2, 3}, .padding = KOLO_SAME)), 3, 14, 10, 4, 112);
    assert_out(IMAGE(kolo_conv2d(4, .kernel = {31, 30}, .padding = KOLO_SAME)), 3, 28, 28, 4, 31 * 30 * 3 * 4 + 4);
    assert_out(IMAGE(kolo_max_pool2d(2)), 3, 14, 14, 3, 0);
    assert_out(IMAGE(kolo_max_pool2d(3, 2)), 3, 9, 14, 3, 0);
    assert_out(IMAGE(kolo_max_pool2d(3, 3, .stride = {2, 2}, .padding = KOLO_SAME)), 3, 14, 14, 3, 0);
    assert_out(IMAGE(kolo_max_pool2d(3, 3, .padding = KOLO_SAME)), 3, 10, 10, 3, 0);
    assert_out(IMAGE(kolo_flatten()), 1, 2352, 0, 0, 0);
    assert_out(IMAGE(kolo_dense(5)), 3, 28, 28, 5, 20);
    assert_out(IMAGE(kolo_dropout(0.5), kolo_activate(KOLO_RELU)), 3, 28, 28, 3, 0);
    assert_out(kolo_sequential(kolo_input(30), kolo_dense(7), kolo_dense(2, .no_bias = true)), 1, 2, 0, 0, 217 + 14);
}

static void test_convolutions(void **state)
{
    (void)state;
    assert_out(IMAGE(kolo_conv2d(6, .kernel = {3, 3}, .groups = 3)), 3, 26, 26, 6, 3 * 3 * 1 * 6 + 6);
    assert_out(IMAGE(kolo_conv2d(6, .kernel = {3, 3}, .dilation = {4, 2})), 3, 20, 24, 6, 3 * 3 * 3 * 6 + 6);
    assert_out(IMAGE(kolo_conv2d(6, .kernel = {3, 3}, .dilation = {9, 9}, .padding = KOLO_SAME)), 3, 28, 28, 6, 168);
    assert_out(IMAGE(kolo_depthwise_conv2d(.kernel = {3, 3})), 3, 26, 26, 3, 3 * 3 * 3 + 3);
    assert_out(IMAGE(kolo_depthwise_conv2d(4, .kernel = {3, 3}, .stride = {2, 2}, .padding = KOLO_SAME)), 3, 14, 14, 12,
               3 * 3 * 3 * 4 + 12);
    assert_out(IMAGE(kolo_conv2d_transpose(5, .kernel = {3, 1}, .stride = {2, 2})), 3, 57, 56, 5, 3 * 3 * 5 + 5);
    assert_out(IMAGE(kolo_conv2d_transpose(5, .kernel = {3, 3}, .stride = {2, 2}, .padding = KOLO_SAME)), 3, 56, 56, 5,
               3 * 3 * 3 * 5 + 5);
    assert_out(IMAGE(kolo_conv2d_transpose(5, .kernel = {3, 3}, .stride = {2, 3}, .output_padding = {1, KOLO_NONE})), 3,
               58, 84, 5, 140);
    assert_out(IMAGE(kolo_conv2d_transpose(5, .kernel = {3, 3}, .stride = {2, 2}, .padding = KOLO_SAME,
                                           .output_padding = {1, KOLO_NONE})),
               3, 56, 55, 5, 140);
}

static void test_images(void **state)
{
    (void)state;
    assert_out(IMAGE(kolo_average_pool2d(3, .padding = KOLO_SAME)), 3, 10, 10, 3, 0);
    assert_out(IMAGE(kolo_average_pool2d(3, 2, .stride = {1, 2})), 3, 26, 14, 3, 0);
    assert_out(IMAGE(kolo_global_average_pool2d()), 1, 3, 0, 0, 0);
    assert_out(IMAGE(kolo_global_max_pool2d(.keep_dims = true)), 3, 1, 1, 3, 0);
    assert_out(IMAGE(kolo_zero_padding2d(2)), 3, 32, 32, 3, 0);
    assert_out(IMAGE(kolo_zero_padding2d(2, .top = KOLO_NONE, .right = 5)), 3, 30, 35, 3, 0);
    assert_out(IMAGE(kolo_zero_padding2d(.bottom = 1, .right = 1)), 3, 29, 29, 3, 0);
    assert_out(IMAGE(kolo_upsampling2d()), 3, 56, 56, 3, 0);
    assert_out(IMAGE(kolo_upsampling2d(1, 3)), 3, 28, 84, 3, 0);
    assert_out(IMAGE(kolo_reshape(14, -1, 2)), 3, 14, 84, 2, 0);
    assert_out(IMAGE(kolo_reshape(28 * 84)), 1, 2352, 0, 0, 0);
    assert_out(IMAGE(kolo_reshape(-1)), 1, 2352, 0, 0, 0);
}

static kolo_model *two_images(kolo_layer left, kolo_layer right, kolo_layer joined)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 28, 28, 3);
    kolo_tensor y = kolo_apply(joined, kolo_apply(left, x), kolo_apply(right, x));
    if (kolo_graph_output(model, y) != KOLO_OK) kolo_model_free(&model);
    return model;
}

static void test_joined(void **state)
{
    (void)state;
    const kolo_layer same = kolo_activate(KOLO_LINEAR), half = kolo_max_pool2d(1, 2),
                     pixel = kolo_global_max_pool2d(.keep_dims = true);
    assert_out(two_images(same, same, kolo_concatenate()), 3, 28, 28, 6, 0);
    assert_out(two_images(same, kolo_dense(2), kolo_concatenate(.axis = -1)), 3, 28, 28, 5, 8);
    assert_out(two_images(same, half, kolo_concatenate(.axis = 2)), 3, 28, 42, 3, 0);
    assert_out(two_images(same, same, kolo_concatenate(.axis = -3)), 3, 56, 28, 3, 0);
    assert_out(two_images(same, same, kolo_multiply()), 3, 28, 28, 3, 0);
    assert_out(two_images(pixel, same, kolo_multiply()), 3, 28, 28, 3, 0);
    assert_out(two_images(half, pixel, kolo_multiply()), 3, 28, 14, 3, 0);
}

/* The odd zero goes behind: bottom and right. */
static void test_padding(void **state)
{
    (void)state;
    kolo_model *model =
        kolo_sequential(kolo_input(5, 6, 1), kolo_conv2d(1, .kernel = {4, 3}, .stride = {1, 2}, .padding = KOLO_SAME));
    kolo_plan plan = {.microbatch = 1, .precision = KOLO_FLOAT32};
    assert_non_null(model);
    int x = kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, model->layers[0].out);
    kolo_layer_flow flow = {.node = &model->layers[1], .x = x};
    assert_int_equal(model->layers[1].recipe.kind->forward(&plan, &flow), KOLO_OK);
    const kolo_window *window = &plan.ops[0].window;
    assert_int_equal(window->before[0], 1);
    assert_int_equal(window->after[0], 2);
    assert_int_equal(window->before[1], 0);
    assert_int_equal(window->after[1], 1);
    kolo_plan_free(&plan);
    kolo_model_free(&model);
}

/* Glorot-uniform's limits: fans as Keras counts them. */
static void test_fans(void **state)
{
    (void)state;
    kolo_model *model = IMAGE(kolo_conv2d(8, .kernel = {3, 5}), kolo_flatten(), kolo_dense(10));
    assert_non_null(model);
    assert_int_equal(model->parameters[0].fan_in, 3 * 5 * 3);
    assert_int_equal(model->parameters[0].fan_out, 3 * 5 * 8);
    assert_int_equal(model->parameters[2].fan_in, 26 * 24 * 8);
    assert_int_equal(model->parameters[2].fan_out, 10);
    assert_int_equal(model->parameters[1].initializer, KOLO_INIT_ZEROS);
    kolo_model_free(&model);
}

static void assert_refused(kolo_model *model, const char *sentence)
{
    const char *text = kolo_last_error().text;
    if (!strstr(text, sentence)) print_error("got \"%s\"\nwanted \"%s\"\n", text, sentence);
    assert_null(model);
    assert_int_equal(kolo_last_error().code, KOLO_INVALID);
    assert_non_null(strstr(text, sentence));
    kolo_clear_error();
}

static void test_sentences_of_convolutions(void **state)
{
    (void)state;
    assert_refused(IMAGE(kolo_conv2d(0, .kernel = {3, 3})), "layer 1 (conv2d): filters: wanted 1 … 1048576, got 0");
    assert_refused(IMAGE(kolo_conv2d(8)), "layer 1 (conv2d): kernel[0]: wanted 1 … 1048576, got 0");
    assert_refused(IMAGE(kolo_conv2d(8, .kernel = {3, -3})), "kernel[1]: wanted 1 … 1048576, got -3");
    assert_refused(IMAGE(kolo_conv2d(8, .kernel = {3, 3}, .stride = {2})), "stride[1]: wanted 1 … 1048576, got 0");
    assert_refused(IMAGE(kolo_conv2d(8, .kernel = {29, 3})), "kernel {29, 3} is larger than the input {28, 28, 3}");
    assert_refused(IMAGE(kolo_conv2d(8, .kernel = {3, 3}, .padding = 7)),
                   "padding: wanted KOLO_VALID or KOLO_SAME, got 7");
    assert_refused(IMAGE(kolo_conv2d(8, .kernel = {3, 3}, .activation = -1)), "got -1");
    assert_refused(IMAGE(kolo_conv2d(8, .kernel = {3, 3}, .groups = 2)),
                   "groups: wanted a divisor of 3 channels and of 8 filters, got 2");
    assert_refused(IMAGE(kolo_conv2d(9, .kernel = {3, 3}, .groups = -3)), "groups: wanted 1 … 1048576, got -3");
    assert_refused(IMAGE(kolo_conv2d(9, .kernel = {3, 3}, .dilation = {14, 1})),
                   "kernel {29, 3}, dilated, is larger than the input {28, 28, 3}");
    assert_refused(IMAGE(kolo_conv2d(9, .kernel = {3, 3}, .dilation = {0, 2})),
                   "dilation[0]: wanted 1 … 1048576, got 0");
    assert_refused(IMAGE(kolo_conv2d(9, .kernel = {3, 3}, .dilation = {1048576, 1})), "covers at most 1048576");
    assert_refused(IMAGE(kolo_depthwise_conv2d(-1, .kernel = {3, 3})), "depth_multiplier: wanted 1 … 1048576, got -1");
    assert_refused(IMAGE(kolo_depthwise_conv2d(2, .kernel = {0, 3})), "layer 1 (depthwise_conv2d): kernel[0]: wanted");
    assert_refused(IMAGE(kolo_conv2d_transpose(4, .kernel = {3, 3}, .stride = {2, 2}, .output_padding = {2, 0})),
                   "output_padding[0]: wanted 0 … 1, less than the stride, got 2");
    assert_refused(IMAGE(kolo_conv2d_transpose(1, .kernel = {1048576, 3}, .stride = {1048576, 1})),
                   "output size 1: wanted 1 … 1048576, got ");
}

static void test_sentences(void **state)
{
    (void)state;
    const int most = INT_MAX;
    assert_refused(IMAGE(kolo_average_pool2d(29, 2)), "pool window {29, 2} is larger than the input {28, 28, 3}");
    assert_refused(IMAGE(kolo_flatten(), kolo_global_max_pool2d()), "its input is {2352}, wanted {height, width");
    assert_refused(IMAGE(kolo_zero_padding2d(-1)), "layer 1 (zero_padding2d): top: wanted 0 … 1048576, got -1");
    assert_refused(IMAGE(kolo_upsampling2d(2, -1)), "width: wanted 1 … 1048576, got -1");
    assert_refused(IMAGE(kolo_upsampling2d(1048576)), "its output {29360128, 29360128, 3} is too large");
    assert_refused(IMAGE(kolo_reshape(5, -1)),
                   "wanted a shape of the 2352 elements of its input {28, 28, 3}, got {5, -1}");
    assert_refused(IMAGE(kolo_reshape(-1, 3, -1)), "size 3: wanted one -1 at most, got a second");
    assert_refused(IMAGE(kolo_reshape(1048576, 1048576, 1048576, 1048576)), "wanted a shape of the 2352 elements");
    assert_refused(IMAGE(kolo_reshape()), "size 1: wanted 1 … 1048576, got 0");
    const kolo_layer same = kolo_activate(KOLO_LINEAR), half = kolo_max_pool2d(2);
    assert_refused(two_images(same, half, kolo_concatenate()),
                   "wanted inputs that differ along axis 3 alone, got {28, 28, 3} and {14, 14, 3}");
    assert_refused(two_images(same, same, kolo_concatenate(.axis = 4)),
                   "axis: wanted 1 … 3, or -1 for the last, got 4");
    assert_refused(two_images(same, half, kolo_multiply()), "wanted two inputs of one shape, or {height, width, ");
    assert_refused(IMAGE(kolo_flatten(), kolo_conv2d(8, .kernel = {3, 3})),
                   "layer 2 (conv2d): its input is {2352}, wanted {height, width, channels}");
    assert_refused(IMAGE(kolo_max_pool2d(28), kolo_max_pool2d(2)),
                   "layer 2 (max_pool2d_1): pool window {2, 2} is larger than the input {1, 1, 3}");
    assert_refused(IMAGE(kolo_max_pool2d(0)), "pool window[0]: wanted 1 … 1048576, got 0");
    assert_refused(IMAGE(kolo_dropout(1)), "rate: wanted 0 ≤ rate < 1, got 1");
    assert_refused(IMAGE(kolo_dropout(-0.1)), "rate: wanted 0 ≤ rate < 1, got -0.1");
    assert_refused(IMAGE(kolo_dropout(NAN)), "rate: wanted 0 ≤ rate < 1, got ");
    assert_refused(IMAGE(kolo_dense(-4)), "units: wanted 1 … 1048576, got -4");
    assert_refused(IMAGE(kolo_activate(99)), "got 99");
    assert_refused(kolo_sequential(kolo_input(28, 0, 3), kolo_flatten()), "size 2: wanted 1 … 1048576, got 0");
    assert_refused(kolo_sequential(kolo_input(), kolo_flatten()), "size 1: wanted 1 … 1048576, got 0");
    assert_refused(kolo_sequential(kolo_input(most), kolo_flatten()), "size 1: wanted 1 … 1048576, got 2147483647");
    assert_refused(kolo_sequential(kolo_input(1048576, 1048576, 1048576, 1048576), kolo_flatten()), "too large");
    assert_refused(IMAGE(kolo_flatten(), kolo_dense(1048576)), "its kernel {2352, 1048576} is too large");
    assert_refused(kolo_sequential(kolo_input(2048, 2048, 1), kolo_conv2d(1024, .kernel = {1, 1})),
                   "its output {2048, 2048, 1024} is too large");
    assert_refused(IMAGE(kolo_conv2d(1, .kernel = {1048576, 1048576}, .padding = KOLO_SAME)), "is too large");
    assert_refused(IMAGE(kolo_max_pool2d(1048576, .padding = KOLO_SAME)), "is too large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_fans),
        cmocka_unit_test(test_sentences_of_convolutions),
        cmocka_unit_test(test_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
