/* The layers of networks of images against PyTorch's numbers, forward and backward, on the same weights and images, in
 * both backends. pytorch_images.py wrote the numbers in pytorch_images.h, in float64, and says how. Held to 1e-4 of an
 * array's largest gradient, which leaves float32 a hundred times its rounding, and 1e-6 for sums that cancel. */
#include "ext/backend/rig.h"
#include "ext/backend/tested.h"

#include "pytorch_images.h"

enum { height = 9, width = 8, channels = 4, classes = 3 };

/* As numbers() in pytorch_images.py: in [0, 1), the mixing of MurmurHash3 over the element's number. */
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

static kolo_tensor excite(kolo_tensor x)
{
    kolo_tensor s = kolo_apply(kolo_global_average_pool2d(), x);
    s = kolo_apply(kolo_reshape(1, 1, -1), kolo_apply(kolo_dense(channels, .activation = KOLO_SIGMOID), s));
    return kolo_apply(kolo_concatenate(), x, kolo_apply(kolo_multiply(), x, s), kolo_apply(kolo_multiply(), x, x));
}

static kolo_tensor sample(kolo_tensor x)
{
    x = kolo_apply(kolo_flatten(), x);
    kolo_tensor mean = kolo_apply(kolo_dense(5), x), log_variance = kolo_apply(kolo_dense(5), x);
    return kolo_apply(kolo_gaussian_sample(.kl_weight = 0.5), mean, log_variance);
}

/* The models of pytorch_images.py, by number. */
static kolo_tensor layer_of(int n, kolo_tensor x)
{
    const kolo_layer layers[] = {
        kolo_conv2d(6, .kernel = {3, 2}, .groups = 2, .dilation = {2, 3}),
        kolo_depthwise_conv2d(2, .kernel = {3, 3}, .stride = {2, 2}, .padding = KOLO_SAME),
        kolo_conv2d_transpose(5, .kernel = {3, 4}, .stride = {2, 3}),
        kolo_conv2d_transpose(5, .kernel = {3, 2}, .stride = {2, 1}, .padding = KOLO_SAME),
        kolo_average_pool2d(2, 3, .stride = {2, 1}),
        kolo_average_pool2d(3, 2, .stride = {2, 2}, .padding = KOLO_SAME),
        kolo_global_average_pool2d(),
        kolo_global_max_pool2d(),
        kolo_zero_padding2d(.left = 2, .right = 3, .bottom = 1),
        kolo_upsampling2d(2, 3),
    };
    static const kolo_activation activations[] = {KOLO_RELU,      KOLO_SIGMOID, KOLO_TANH,       KOLO_GELU,
                                                  KOLO_GELU_TANH, KOLO_SILU,    KOLO_LEAKY_RELU, KOLO_ELU};
    const int first = sizeof layers / sizeof *layers, count = sizeof activations / sizeof *activations;
    if (n < first) return kolo_apply(layers[n], x);
    if (n == first) return excite(x);
    return n <= first + count ? kolo_apply(kolo_activate(activations[n - first - 1]), x) : sample(x);
}

static kolo_model *model_of(int n, const char *backend)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, height, width, channels);
    x = layer_of(n, kolo_apply(kolo_conv2d(channels, .kernel = {1, 1}), x));
    kolo_graph_output(model, kolo_apply(kolo_dense(classes), kolo_apply(kolo_flatten(), x)));
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1, .backend = backend));
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++)
            weight.values[i] = (float)((number((uint32_t)i, (uint32_t)w + 1) - 0.5) * 0.75);
    }
    return model;
}

static void assert_near(int n, const char *what, double got, double wanted, double bound)
{
    if (!(fabs(got - wanted) <= bound))
        print_error("%s, %s: %.9g, PyTorch %.9g, bound %g\n", pytorch_models[n].name, what, got, wanted, bound);
    assert_true(fabs(got - wanted) <= bound);
}

static void compare_gradient(int n, int w, const kolo_weight *weight, const float *gradient)
{
    double largest = 0, squares = 0, bound = 1e-4 * pytorch_models[n].gradient[w].largest + 1e-6;
    assert_int_equal(weight->count, pytorch_models[n].gradient[w].count);
    for (int64_t i = 0; i < weight->count; i++) {
        largest = fmax(largest, fabs((double)gradient[i]));
        squares += (double)gradient[i] * (double)gradient[i];
    }
    double norm = pytorch_models[n].gradient[w].norm;
    assert_near(n, weight->name, largest, pytorch_models[n].gradient[w].largest, bound);
    assert_near(n, weight->name, sqrt(squares), norm, 1e-4 * norm + 1e-6);
    for (int e = 0; e < pytorch_entries; e++)
        assert_near(n, weight->name, (double)gradient[e * weight->count / pytorch_entries],
                    pytorch_models[n].gradient[w].entry[e], bound);
}

static void compare(int n, const char *backend)
{
    static float features[pytorch_samples * height * width * channels];
    const int32_t labels[pytorch_samples] = {0, 1, 2};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        features[i] = (float)(number((uint32_t)i, 0) * 4 - 2);
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = pytorch_samples,
                                            .shape = {height, width, channels}, .classes = classes);
    kolo_model *model = model_of(n, backend);
    float *gradients = malloc((size_t)kolo_count_params(model) * sizeof *gradients), *gradient = gradients;
    assert_true(data && gradients);
    assert_near(n, "loss", kolo_gradients(model, data, gradients), pytorch_models[n].loss,
                1e-4 * pytorch_models[n].loss);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        compare_gradient(n, w, &weight, gradient);
        gradient += weight.count;
    }
    free(gradients);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void test_reference(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof pytorch_models / sizeof *pytorch_models; n++) compare((int)n, "reference");
}

static void test_tested(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof pytorch_models / sizeof *pytorch_models; n++) compare((int)n, KOLO_TEST_BACKEND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_tested)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
