/* The lesson's CNN against PyTorch's, on the same weights and the same eight images: loss, outputs, gradients.
 * pytorch_cnn.py wrote the numbers in pytorch_cnn.h, in float64, and says how. Held to 1e-4 of an array's largest
 * element, which leaves float32 a hundred times its rounding.
 */
#include "rig.h"
#include "tested.h"

#include "pytorch_cnn.h"

enum { pixels = 28 * 28, classes = 10 };

/* As numbers() in pytorch_cnn.py: in [0, 1), the mixing of MurmurHash3 over the element's number. */
static double number(uint32_t i, uint32_t stream)
{
    uint32_t x = i + stream * 0x9E3779B1u;
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    x ^= x >> 16;
    return (x >> 16) / 65536.0;
}

static kolo_model *lesson_model(const char *backend)
{
    kolo_model *model =
        kolo_sequential(kolo_input(28, 28, 1), kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
                        kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                        kolo_dropout(0.25), kolo_flatten(), kolo_dense(128, .activation = KOLO_RELU), kolo_dropout(0.5),
                        kolo_dense(classes));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1,
                                  .backend = backend),
                     KOLO_OK);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++) {
            double unit = number((uint32_t)i, (uint32_t)w + 1);
            weight.values[i] = (float)((unit - 0.5) * pytorch_gradients[w].width);
        }
    }
    return model;
}

static kolo_data *lesson_data(void)
{
    static float features[pytorch_samples * pixels];
    int32_t labels[pytorch_samples];
    for (int i = 0; i < pytorch_samples * pixels; i++) features[i] = (float)number((uint32_t)i, 0);
    for (int s = 0; s < pytorch_samples; s++) labels[s] = s % classes;
    kolo_data *data =
        kolo_data_from_arrays(features, labels, .samples = pytorch_samples, .shape = {28, 28, 1}, .classes = classes);
    assert_non_null(data);
    return data;
}

static void assert_near(const char *what, double got, double wanted, double bound)
{
    if (!(fabs(got - wanted) <= bound)) print_error("%s: %.9g, PyTorch %.9g, bound %g\n", what, got, wanted, bound);
    assert_true(fabs(got - wanted) <= bound);
}

static void compare_gradient(const kolo_weight *weight, int w, const float *gradient)
{
    double largest = 0, squares = 0, bound = 1e-4 * pytorch_gradients[w].largest;
    for (int64_t i = 0; i < weight->count; i++) {
        largest = fmax(largest, fabs((double)gradient[i]));
        squares += (double)gradient[i] * (double)gradient[i];
    }
    assert_near(weight->name, largest, pytorch_gradients[w].largest, bound);
    assert_near(weight->name, sqrt(squares), pytorch_gradients[w].norm, 1e-4 * pytorch_gradients[w].norm);
    for (int e = 0; e < pytorch_entries; e++) {
        double got = (double)gradient[e * weight->count / pytorch_entries];
        assert_near(weight->name, got, pytorch_gradients[w].entry[e], bound);
    }
}

static void compare(const char *backend)
{
    kolo_model *model = lesson_model(backend);
    kolo_data *data = lesson_data();
    float outputs[pytorch_samples * classes], *gradients = malloc((size_t)kolo_count_params(model) * sizeof(float));
    assert_non_null(gradients);
    assert_near("loss", kolo_gradients(model, data, gradients), pytorch_loss, 1e-4 * pytorch_loss);
    assert_int_equal(kolo_predict(model, data, outputs), KOLO_OK);
    for (int i = 0; i < pytorch_samples * classes; i++) {
        assert_near("output", (double)outputs[i], pytorch_outputs[i], 1e-4 * 2.2); /* the largest is 2.14 */
    }
    assert_int_equal(kolo_weight_count(model), sizeof pytorch_gradients / sizeof *pytorch_gradients);
    const float *gradient = gradients;
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        compare_gradient(&weight, w, gradient);
        gradient += weight.count;
    }
    free(gradients);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void test_reference(void **state)
{
    (void)state;
    compare("reference");
}
static void test_tested(void **state)
{
    (void)state;
    compare(KOLO_TEST_BACKEND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_tested)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
