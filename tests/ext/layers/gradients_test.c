/* Every layer's gradient against central finite differences of the loss, through the public interface, on the
 * reference backend. A layer without weights stands behind one that has some: its gradient is in theirs.
 *
 * The loss is a double made of float32 outputs, whose rounding (6e-8) over a step of 2^-10 gives errors of 1e-4; the
 * bound is that and 2e-3 of an array's largest gradient (tests/ext/backend/reference_test.c, in doubles throughout, is
 * the sharper one). An element at which steps of 2^-9 and 2^-10 disagree by more has a kink of relu or of a maximum
 * nearby and is left out. So is one at the kink itself, where both steps give the mean of two slopes. At most one in
 * ten may be left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include <kolo.h>

enum { samples = 3, side = 6, channels = 2, classes = 4 };

static uint32_t state_of_dice = 1;

static float roll(void)
{
    state_of_dice = state_of_dice * 1664525u + 1013904223u;
    return (float)(state_of_dice >> 16) / 65536.0f - 0.5f;
}

static kolo_data *some_data(void)
{
    float features[samples * side * side * channels];
    int32_t labels[samples];
    for (int i = 0; i < samples * side * side * channels; i++) features[i] = 2 * roll();
    for (int s = 0; s < samples; s++) labels[s] = s % classes;
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .shape = {side, side, channels},
                                            .classes = classes);
    assert_non_null(data);
    return data;
}

static double slope(kolo_model *model, kolo_data *data, float *weight, float step)
{
    float kept = *weight;
    *weight = kept + step;
    double up = kolo_gradients(model, data, NULL);
    *weight = kept - step;
    double down = kolo_gradients(model, data, NULL);
    *weight = kept;
    return (up - down) / (2 * (double)step);
}

static double second_difference(kolo_model *model, kolo_data *data, float *weight, float step)
{
    float kept = *weight;
    double here = kolo_gradients(model, data, NULL);
    *weight = kept + step;
    double up = kolo_gradients(model, data, NULL);
    *weight = kept - step;
    double down = kolo_gradients(model, data, NULL);
    *weight = kept;
    return up - 2 * here + down;
}

/* How much the slope jumps at the weight's value. A curve's second difference is proportional to the step's square, so
 * it cancels out; that of a kink is proportional to the step. */
static double jump(kolo_model *model, kolo_data *data, float *weight)
{
    float step = 0x1p-10f;
    double narrow = second_difference(model, data, weight, step);
    double wide = second_difference(model, data, weight, 2 * step);
    return (4 * narrow - wide) / (2 * (double)step);
}

static void check_weight(kolo_model *model, kolo_data *data, kolo_weight weight, const float *gradient, int *skipped,
                         int *checked)
{
    double largest = 0;
    for (int64_t i = 0; i < weight.count; i++) largest = fmax(largest, fabs((double)gradient[i]));
    double bound = 2e-3 * largest + 1e-4;
    for (int n = 0; n < 10; n++) {
        int64_t i = (int64_t)((double)(roll() + 0.5f) * (double)weight.count);
        double wide = slope(model, data, &weight.values[i], 0x1p-9f);
        double narrow = slope(model, data, &weight.values[i], 0x1p-10f);
        bool agrees = fabs(narrow - (double)gradient[i]) <= bound;
        *checked += 1;
        if (fabs(wide - narrow) > bound || (!agrees && fabs(jump(model, data, &weight.values[i])) / 2 > bound)) {
            *skipped += 1;
            continue;
        }
        if (!agrees)
            print_error("%s[%d]: gradient %.8g, by differences %.8g\n", weight.name, (int)i, (double)gradient[i],
                        narrow);
        assert_true(agrees);
    }
}

/* Takes the model over. The dice begin anew, so that a new network does not change the numbers of the others. */
static void check(kolo_model *model)
{
    int skipped = 0, checked = 0;
    state_of_dice = 11; /* with which few weights of these networks have a kink near */
    kolo_data *data = some_data();
    assert_non_null(model);
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = "reference", .seed = 3), KOLO_OK);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++) weight.values[i] = roundf(roll() * 1024) / 1024;
    }
    float *gradients = malloc((size_t)kolo_count_params(model) * sizeof *gradients), *gradient = gradients;
    assert_non_null(gradients);
    assert_true(isfinite(kolo_gradients(model, data, gradients)));
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        check_weight(model, data, weight, gradient, &skipped, &checked);
        gradient += weight.count;
    }
    if (skipped * 10 > checked)
        print_error("%d of %d weights left out, since a kink is near: take a network with fewer elements before its "
                    "kinks\n",
                    skipped, checked);
    assert_true(checked > 0 && skipped * 10 <= checked);
    free(gradients);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

#define NETWORK(...) check(kolo_sequential(kolo_input(side, side, channels), __VA_ARGS__))
#define HEAD         kolo_flatten(), kolo_dense(classes)

static void test_dense(void **state)
{
    (void)state;
    NETWORK(HEAD);
    NETWORK(kolo_flatten(), kolo_dense(9, .activation = KOLO_RELU), kolo_dense(classes));
    NETWORK(kolo_dense(3, .no_bias = true), HEAD);
    NETWORK(kolo_flatten(), kolo_dense(5, .activation = KOLO_SOFTMAX), kolo_dense(classes));
    NETWORK(kolo_flatten(), kolo_dense(classes, .activation = KOLO_SOFTMAX));
}

static void test_conv2d(void **state)
{
    (void)state;
    NETWORK(kolo_conv2d(3, .kernel = {3, 3}), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 3}, .stride = {2, 1}, .activation = KOLO_RELU), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {3, 4}, .padding = KOLO_SAME, .no_bias = true),
            kolo_conv2d(2, .kernel = {3, 3}, .stride = {2, 2}, .padding = KOLO_SAME, .activation = KOLO_RELU), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}, .activation = KOLO_SOFTMAX), HEAD);
}

static void test_other_convolutions(void **state)
{
    (void)state;
    NETWORK(kolo_conv2d(6, .kernel = {3, 2}, .groups = 2, .dilation = {2, 3}), HEAD);
    NETWORK(kolo_conv2d(4, .kernel = {1, 1}), kolo_conv2d(4, .kernel = {2, 2}, .groups = 4, .padding = KOLO_SAME),
            HEAD);
    NETWORK(kolo_depthwise_conv2d(3, .kernel = {3, 3}, .stride = {2, 1}, .padding = KOLO_SAME), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {1, 1}), kolo_depthwise_conv2d(.kernel = {2, 2}, .no_bias = true), HEAD);
    NETWORK(kolo_conv2d_transpose(3, .kernel = {3, 3}, .stride = {2, 2}, .padding = KOLO_SAME), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}),
            kolo_conv2d_transpose(2, .kernel = {2, 1}, .stride = {3, 2}, .output_padding = {2, KOLO_NONE}), HEAD);
}

static void test_max_pool2d(void **state)
{
    (void)state;
    NETWORK(kolo_conv2d(3, .kernel = {1, 1}), kolo_max_pool2d(2, 2), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {1, 1}), kolo_max_pool2d(3, 2, .stride = {2, 1}, .padding = KOLO_SAME), HEAD);
}

/* As a layer, and as the last step of every layer that takes one. */
static void test_activations(void **state)
{
    (void)state;
    NETWORK(kolo_flatten(), kolo_dense(9, .activation = KOLO_LEAKY_RELU), kolo_dense(classes));
    for (kolo_activation a = KOLO_SIGMOID; a <= KOLO_ELU; a++) {
        if (a == KOLO_LEAKY_RELU) continue; /* an image of it has a kink near every step */
        NETWORK(kolo_conv2d(3, .kernel = {2, 2}, .activation = a), HEAD);
        NETWORK(kolo_dense(3, .activation = a), kolo_activate(a), HEAD);
    }
}

static void test_others(void **state)
{
    (void)state;
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}), kolo_activate(KOLO_RELU), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}), kolo_activate(KOLO_SOFTMAX), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}), kolo_activate(KOLO_LINEAR), kolo_dropout(0.5), HEAD);
    NETWORK(HEAD, kolo_activate(KOLO_SOFTMAX));
}

static void test_images(void **state)
{
    (void)state;
    NETWORK(kolo_conv2d(3, .kernel = {1, 1}), kolo_average_pool2d(2), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {1, 1}), kolo_average_pool2d(3, 2, .stride = {2, 1}, .padding = KOLO_SAME), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}), kolo_global_average_pool2d(), kolo_dense(classes));
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}), kolo_global_max_pool2d(.keep_dims = true), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {2, 2}), kolo_zero_padding2d(1, .left = 2, .bottom = KOLO_NONE),
            kolo_conv2d(2, .kernel = {3, 3}), HEAD);
    NETWORK(kolo_conv2d(3, .kernel = {3, 3}), kolo_upsampling2d(2, 3), HEAD);
    NETWORK(kolo_conv2d(4, .kernel = {3, 3}), kolo_reshape(8, -1, 2), kolo_conv2d(3, .kernel = {2, 2}), HEAD);
}

/* x and s(x), squeezed to a pixel: x · s(x) beside x, along the axis. */
static kolo_model *branches(int axis)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_apply(kolo_conv2d(3, .kernel = {2, 2}), kolo_graph_input(model, side, side, channels));
    kolo_tensor s = kolo_apply(kolo_global_average_pool2d(.keep_dims = true), x);
    s = kolo_apply(kolo_dense(3, .activation = KOLO_SIGMOID), s);
    kolo_tensor scaled = kolo_apply(kolo_multiply(), s, x), square = kolo_apply(kolo_multiply(), x, scaled);
    kolo_tensor all = kolo_apply(kolo_concatenate(.axis = axis), x, scaled, square);
    kolo_graph_output(model, kolo_apply(kolo_dense(classes), kolo_apply(kolo_flatten(), all)));
    return model;
}

/* A sum gives each of its terms the same gradient: the ReLU of one term must not cut the other's. */
static kolo_model *sum_of_relu(kolo_layer with_relu)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_apply(kolo_conv2d(3, .kernel = {2, 2}), kolo_graph_input(model, side, side, channels));
    x = kolo_apply(kolo_average_pool2d(4), x); /* fewer elements that may be near the kink */
    kolo_tensor y = kolo_apply(with_relu, x);
    kolo_graph_output(model, kolo_apply(kolo_dense(classes), kolo_apply(kolo_flatten(), kolo_apply(kolo_add(), y, x))));
    return model;
}

static void test_branches(void **state)
{
    (void)state;
    check(sum_of_relu(kolo_conv2d_transpose(3, .kernel = {1, 1}, .activation = KOLO_RELU)));
    check(sum_of_relu(kolo_conv2d(3, .kernel = {1, 1}, .activation = KOLO_RELU)));
    check(sum_of_relu(kolo_dense(3, .activation = KOLO_RELU)));
    check(sum_of_relu(kolo_activate(KOLO_RELU)));
    for (int axis = -3; axis <= 3; axis++) check(branches(axis));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),       cmocka_unit_test(test_conv2d),   cmocka_unit_test(test_max_pool2d),
        cmocka_unit_test(test_activations), cmocka_unit_test(test_others),   cmocka_unit_test(test_other_convolutions),
        cmocka_unit_test(test_images),      cmocka_unit_test(test_branches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
