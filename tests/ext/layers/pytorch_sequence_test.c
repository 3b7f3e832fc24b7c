/* Layers of sequences, and a one-block GPT of them, against PyTorch's on the same weights and tokens: outputs, loss,
 * gradients, and twenty losses of SGD. pytorch_sequence.py wrote the numbers in pytorch_sequence.h, in float64, and
 * says how. Held to 1e-4 of an array's largest element, which leaves float32 a hundred times its rounding.
 */
#include "gpt.h"

#include "pytorch_sequence.h"

/* As numbers() in pytorch_sequence.py: in [0, 1), the mixing of MurmurHash3 over the element's number. */
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

static kolo_model *build(int number_of_model)
{
    enum { L = pytorch_length, V = pytorch_vocabulary, E = pytorch_size, H = pytorch_heads };
    switch (number_of_model) {
    case 0: return kolo_sequential(kolo_input(L), kolo_embedding(V, E), kolo_dense(V));
    case 1: return kolo_sequential(kolo_input(L), kolo_embedding(V, E), kolo_position_embedding(), kolo_dense(V));
    case 2: return kolo_sequential(kolo_input(L), kolo_embedding(V, E), kolo_layer_norm(), kolo_dense(V));
    case 3:
        return kolo_sequential(kolo_input(L), kolo_embedding(V, E), kolo_multi_head_attention(H, .key_size = 3),
                               kolo_dense(V));
    case 4:
        return kolo_sequential(kolo_input(L), kolo_embedding(V, E), kolo_multi_head_attention(H, .causal = true),
                               kolo_dense(V));
    default: return gpt_model((gpt){V, L, E, H, pytorch_hidden, 0});
    }
}

static kolo_data *text(void)
{
    enum { wide = pytorch_length + 1 };
    float features[pytorch_samples * pytorch_length];
    int32_t labels[pytorch_samples * pytorch_length];
    for (int i = 0; i < pytorch_samples * pytorch_length; i++) {
        uint32_t at = (uint32_t)(i / pytorch_length * wide + i % pytorch_length);
        features[i] = (float)(int)(number(at, 0) * pytorch_vocabulary);
        labels[i] = (int)(number(at + 1, 0) * pytorch_vocabulary);
    }
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = pytorch_samples, .shape = {pytorch_length},
                                            .classes = pytorch_vocabulary, .label_count = pytorch_length);
    assert_non_null(data);
    return data;
}

static kolo_model *drawn_model(int number_of_model, const char *backend)
{
    kolo_model *model = build(number_of_model);
    assert_non_null(model);
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = pytorch_rate),
                                  .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend, .seed = 1),
                     KOLO_OK);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++)
            weight.values[i] = (float)(number((uint32_t)i, (uint32_t)w + 1) - 0.5);
    }
    return model;
}

static void assert_near(const char *what, double got, double wanted, double bound)
{
    if (!(fabs(got - wanted) <= bound)) print_error("%s: %.9g, PyTorch %.9g, bound %g\n", what, got, wanted, bound);
    assert_true(fabs(got - wanted) <= bound);
}

static void compare(const char *name, const float *values, const pytorch_array *wanted)
{
    double largest = 0, squares = 0, bound = 1e-4 * wanted->largest;
    for (int i = 0; i < wanted->count; i++) {
        largest = fmax(largest, fabs((double)values[i]));
        squares += (double)values[i] * (double)values[i];
    }
    assert_near(name, largest, wanted->largest, bound);
    assert_near(name, sqrt(squares), wanted->norm, 1e-4 * wanted->norm);
    for (int e = 0; e < pytorch_entries; e++)
        assert_near(name, (double)values[e * wanted->count / pytorch_entries], wanted->entry[e], bound);
}

static void compare_model(int number_of_model, const char *backend)
{
    kolo_data *data = text();
    kolo_model *model = drawn_model(number_of_model, backend);
    float outputs[pytorch_samples * pytorch_length * pytorch_vocabulary];
    float *gradients = malloc((size_t)kolo_count_params(model) * sizeof *gradients), *gradient = gradients;
    assert_non_null(gradients);
    double loss = pytorch_model[number_of_model].loss;
    assert_near("loss", kolo_gradients(model, data, gradients), loss, 1e-4 * loss);
    assert_int_equal(kolo_predict(model, data, outputs), KOLO_OK);
    compare("outputs", outputs, &pytorch_model[number_of_model].array[0]);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        assert_int_equal(weight.count, pytorch_model[number_of_model].array[w + 1].count);
        compare(weight.name, gradient, &pytorch_model[number_of_model].array[w + 1]);
        gradient += weight.count;
    }
    free(gradients);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* An epoch is one step, over all samples; its loss is from before the step. */
static void compare_training(const char *backend)
{
    kolo_data *data = text();
    kolo_model *model = drawn_model(pytorch_models - 1, backend);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = pytorch_steps, .batch_size = pytorch_samples, .verbose = KOLO_NONE);
    assert_non_null(history);
    for (int e = 0; e < pytorch_steps; e++)
        assert_near("a step's loss", history->epoch[e].loss, pytorch_losses[e], 1e-4 * pytorch_losses[e]);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void test_reference(void **state)
{
    (void)state;
    for (int m = 0; m < pytorch_models; m++) compare_model(m, "reference");
    compare_training("reference");
}

static void test_onednn(void **state)
{
    (void)state;
    for (int m = 0; m < pytorch_models; m++) compare_model(m, "onednn");
    compare_training("onednn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_onednn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
