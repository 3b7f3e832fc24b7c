/* Layers of sequences beyond PyTorch's numbers (pytorch_sequence_test.c): gradients against differences of the loss,
 * the oneDNN backend against the reference on random shapes, and what must hold exactly: a causal model does not look
 * ahead, padding adds nothing, devices do not matter, wrong tokens and shapes get a sentence.
 */
#include "gpt.h"

#include "runtime/runtime.h"

/* Whether the fastest backend computes in bfloat16 on this CPU. */
static bool has_bfloat16(void)
{
    const kolo_backend *backend;
    bool has = kolo_backend_find("onednn", KOLO_MIXED_BF16, &backend) == KOLO_OK;
    if (!has) kolo_failure_take();
    return has;
}

/* ---- models and data drawn by a seed */

static uint32_t dice = 1;

static float roll(void)
{
    dice = dice * 1664525u + 1013904223u;
    return (float)(dice >> 16) / 65536.0f - 0.5f;
}
static int roll_between(int low, int high)
{
    return low + (int)((roll() + 0.5f) * (float)(high - low + 1));
}

static kolo_data *draw_text(int samples, gpt g)
{
    int64_t count = (int64_t)samples * g.length;
    float *features = malloc((size_t)count * sizeof *features);
    int32_t *labels = malloc((size_t)count * sizeof *labels);
    assert_true(features && labels);
    for (int64_t i = 0; i < count; i++) {
        features[i] = (float)roll_between(0, g.vocabulary - 1);
        labels[i] = roll_between(0, g.vocabulary - 1);
    }
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .shape = {g.length},
                                            .classes = g.vocabulary, .label_count = g.length);
    assert_non_null(data);
    free(features);
    free(labels);
    return data;
}

/* Compiled, its weights drawn anew from the seed. */
static kolo_model *ready(kolo_model *model, kolo_compile_args settings, uint32_t seed, float width)
{
    settings.model = model;
    settings.loss = KOLO_SPARSE_CROSSENTROPY;
    settings.seed = 5;
    assert_non_null(model);
    assert_int_equal(kolo_compile_at(&settings, KOLO_HERE), KOLO_OK);
    uint32_t kept = dice;
    dice = seed;
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++) weight.values[i] = roundf(roll() * width * 1024) / 1024;
    }
    dice = kept;
    return model;
}

static float *room(int64_t count)
{
    float *floats = malloc((size_t)count * sizeof *floats);
    assert_non_null(floats);
    return floats;
}

/* ---- differences: the bound as in gradients_test.c */

static void check_weight(kolo_model *model, kolo_data *data, kolo_weight weight, const float *gradient)
{
    const float step = 0x1p-10f;
    double largest = 0;
    for (int64_t i = 0; i < weight.count; i++) largest = fmax(largest, fabs((double)gradient[i]));
    for (int n = 0; n < 8; n++) {
        int64_t i = roll_between(0, (int)weight.count - 1);
        float kept = weight.values[i];
        weight.values[i] = kept + step;
        double up = kolo_gradients(model, data, NULL);
        weight.values[i] = kept - step;
        double down = kolo_gradients(model, data, NULL);
        weight.values[i] = kept;
        double slope = (up - down) / (2 * (double)step), bound = 2e-3 * largest + 1e-4;
        if (!(fabs(slope - (double)gradient[i]) <= bound))
            print_error("%s[%d]: %g, by differences %g\n", weight.name, (int)i, (double)gradient[i], slope);
        assert_true(fabs(slope - (double)gradient[i]) <= bound);
    }
}

static void differentiate(kolo_model *model, gpt g)
{
    kolo_data *data = draw_text(3, g);
    ready(model, (kolo_compile_args){.backend = "reference"}, 9, 1);
    float *gradients = room(kolo_count_params(model)), *gradient = gradients;
    assert_true(isfinite(kolo_gradients(model, data, gradients)));
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        check_weight(model, data, weight, gradient);
        gradient += weight.count;
    }
    free(gradients);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

#define SEQUENCE(...) kolo_sequential(kolo_input(g.length), kolo_embedding(g.vocabulary, g.size), __VA_ARGS__)

static void test_differences(void **state)
{
    (void)state;
    const gpt g = {7, 4, 6, 2, 5, 0};
    differentiate(SEQUENCE(kolo_position_embedding(), kolo_dense(7)), g);
    differentiate(SEQUENCE(kolo_layer_norm(), kolo_dense(7)), g);
    differentiate(SEQUENCE(kolo_layer_norm(.no_scale = true, .epsilon = 0.5), kolo_dense(7)), g);
    differentiate(SEQUENCE(kolo_layer_norm(.no_offset = true), kolo_dense(7)), g);
    differentiate(SEQUENCE(kolo_multi_head_attention(2), kolo_dense(7)), g);
    differentiate(SEQUENCE(kolo_multi_head_attention(2, .causal = true, .no_bias = true), kolo_dense(7)), g);
    differentiate(SEQUENCE(kolo_multi_head_attention(3, .key_size = 5, .causal = true), kolo_dense(7)), g);
}

/* ---- one backend against the other */

/* |a − b| / |b|, of whole arrays. */
static double distance(const float *a, const float *b, int64_t count)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return difference == 0 ? 0 : sqrt(difference / size);
}

typedef struct outcome {
    double loss;
    float *outputs, *gradients;
} outcome;

/* Takes the model over. */
static outcome compute(kolo_model *model, kolo_data *data, const char *backend, kolo_precision precision, int64_t count)
{
    ready(model, (kolo_compile_args){.backend = backend, .precision = precision}, 11, 0.5f);
    outcome made = {.outputs = room(count), .gradients = room(kolo_count_params(model))};
    made.loss = kolo_gradients(model, data, made.gradients);
    assert_int_equal(kolo_predict(model, data, made.outputs), KOLO_OK);
    kolo_model_free(&model);
    return made;
}

static kolo_model *draw_model(gpt g, bool block, int key, bool causal, bool bias)
{
    if (block) return gpt_model(g);
    return SEQUENCE(kolo_layer_norm(.no_scale = !bias),
                    kolo_multi_head_attention(g.heads, .key_size = key, .causal = causal, .no_bias = !bias),
                    kolo_dense(g.vocabulary));
}

/* Bounds: 1e-4 leaves float32 room for its order of adding; a bfloat16 has 2^-9 of rounding, and a dozen operations
 * pass it on. A bias of the keys moves no softmax: its gradient is rounding alone, so arrays are weighed together. */
static void compare_backends(kolo_precision precision, double bound, int rounds)
{
    for (int n = 0; n < rounds; n++) {
        int heads = roll_between(1, 3), key = roll_between(1, 20);
        gpt g = {roll_between(2, 60), roll_between(1, 100), heads * roll_between(1, 20), heads, roll_between(1, 40), 0};
        int samples = roll_between(1, 40);
        bool block = n % 2 == 0, causal = n % 3 == 0, bias = n % 5 != 0;
        kolo_data *data = draw_text(samples, g);
        int64_t count = (int64_t)samples * g.length * g.vocabulary;
        kolo_model *model = draw_model(g, block, key, causal, bias);
        int64_t weights = kolo_count_params(model);
        outcome fast = compute(model, data, "onednn", precision, count);
        outcome plain = compute(draw_model(g, block, key, causal, bias), data, "reference", precision, count);
        double outputs = distance(fast.outputs, plain.outputs, count);
        double gradients = distance(fast.gradients, plain.gradients, weights);
        bool fine = outputs <= bound && gradients <= bound && fabs(fast.loss - plain.loss) <= bound * plain.loss;
        if (!fine)
            print_error("round %d: %d tokens × %d, size %d: outputs %g, gradients %g, losses %.9g %.9g\n", n,
                        g.vocabulary, g.length, g.size, outputs, gradients, fast.loss, plain.loss);
        assert_true(fine);
        free(fast.outputs), free(fast.gradients), free(plain.outputs), free(plain.gradients);
        kolo_data_free(&data);
    }
}

static void test_float32(void **state)
{
    (void)state;
    compare_backends(KOLO_FLOAT32, 1e-4, 30);
}

static void test_bfloat16(void **state)
{
    (void)state;
    if (!has_bfloat16()) skip();
    compare_backends(KOLO_MIXED_BF16, 4e-2, 30);
}

/* Outputs so many that the last layer and the loss are one operation: in chunks that come out even or not, of several
 * rows a sample and of one, with and without biases. */
static void many_outputs(kolo_precision precision, double bound)
{
    const struct {
        int samples, length, words;
        bool bias;
    } rounds[] = {{13, 60, 1500, true}, {32, 20, 1700, false}, {5, 1, 250000, true}, {2, 7, 90000, true}};
    for (size_t n = 0; n < sizeof rounds / sizeof *rounds; n++) {
        const gpt g = {rounds[n].words, rounds[n].length, 12, 2, 9, 0};
        kolo_data *data = draw_text(rounds[n].samples, g);
        double losses[2], accuracies[2];
        float *gradients[2];
        int64_t count = 0;
        for (int b = 0; b < 2; b++) {
            kolo_compile_args settings = {.backend = b ? "reference" : "onednn", .precision = precision};
            settings.metrics[0] = KOLO_ACCURACY;
            kolo_model *model = SEQUENCE(kolo_layer_norm(), kolo_dense(g.vocabulary, .no_bias = !rounds[n].bias,
                                                                       .activation = KOLO_SOFTMAX));
            ready(model, settings, 11, 1);
            count = kolo_count_params(model);
            gradients[b] = room(count);
            losses[b] = kolo_gradients(model, data, gradients[b]);
            kolo_scores scores = kolo_evaluate(model, data);
            assert_float_equal(scores.loss, losses[b], 1e-6);
            accuracies[b] = scores.accuracy;
            kolo_model_free(&model);
        }
        double far = distance(gradients[0], gradients[1], count);
        if (!(far <= bound)) print_error("%d words: gradients %g\n", g.vocabulary, far);
        assert_true(far <= bound);
        assert_float_equal(losses[0], losses[1], (float)(bound * losses[1]));
        assert_float_equal(accuracies[0], accuracies[1], precision == KOLO_FLOAT32 ? 1e-9f : 0.02f);
        free(gradients[0]), free(gradients[1]);
        kolo_data_free(&data);
    }
}

static void test_many_outputs(void **state)
{
    (void)state;
    many_outputs(KOLO_FLOAT32, 1e-4);
    if (has_bfloat16()) many_outputs(KOLO_MIXED_BF16, 2e-2);
}

/* ---- what must hold exactly */

static void look_ahead(const char *backend, kolo_precision precision)
{
    enum { length = 70, changed = 40, words = 13 };
    const gpt g = {words, length, 24, 3, 10, 0};
    static float features[2 * length], outputs[2 * length * words];
    for (int i = 0; i < length; i++) features[i] = features[length + i] = (float)roll_between(0, words - 1);
    for (int i = changed; i < length; i++) features[length + i] = (float)((int)(features[i] + 1) % words);
    kolo_data *data = kolo_data_from_arrays(features, NULL, .samples = 2, .shape = {length});
    kolo_model *model = ready(gpt_model(g), (kolo_compile_args){.backend = backend, .precision = precision}, 3, 0.5f);
    assert_int_equal(kolo_predict(model, data, outputs), KOLO_OK);
    assert_memory_equal(outputs, outputs + length * words, changed * words * sizeof *outputs);
    assert_memory_not_equal(outputs + changed * words, outputs + (length + changed) * words, words * sizeof *outputs);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void test_causal(void **state)
{
    (void)state;
    look_ahead("reference", KOLO_FLOAT32);
    look_ahead("onednn", KOLO_FLOAT32);
    if (has_bfloat16()) look_ahead("onednn", KOLO_MIXED_BF16);
}

/* One step over seven samples, in microbatches of which one is not full, against the gradient of a microbatch of seven.
 */
static void pad(const char *backend)
{
    const gpt g = {9, 5, 8, 2, 6, 0};
    const kolo_compile_args settings = {
        .backend = backend, .optimizer = kolo_sgd(.learning_rate = 1), .deterministic = true};
    kolo_data *data = draw_text(21, g), *seven = kolo_data_slice(data, 0, 7);
    kolo_model *one = ready(gpt_model(g), settings, 3, 1), *whole = ready(gpt_model(g), settings, 3, 1);
    int64_t count = kolo_count_params(one);
    float *gradients = room(count);
    assert_non_null(kolo_fit(one, seven, .batch_size = 7, .verbose = KOLO_NONE));
    kolo_gradients(whole, seven, gradients);
    const float *stepped = kolo_weight_get(one, 0).values, *start = kolo_weight_get(whole, 0).values;
    for (int64_t i = 0; i < count; i++) assert_float_equal((double)stepped[i], (double)(start[i] - gradients[i]), 1e-5);
    assert_non_null(kolo_fit(one, data, .batch_size = 21,
                             .verbose = KOLO_NONE)); /* microbatches of two: the last has one */
    for (int64_t i = 0; i < count; i++) assert_true(isfinite(stepped[i]));
    free(gradients);
    kolo_model_free(&one);
    kolo_model_free(&whole);
    kolo_data_free(&data);
    kolo_data_free(&seven);
}

static void test_padding(void **state)
{
    (void)state;
    pad("reference");
    pad("onednn");
}

static kolo_model *trained(gpt g, kolo_data *data, int devices, kolo_precision precision)
{
    kolo_compile_args settings = {.optimizer = kolo_adam(), .precision = precision, .deterministic = true};
    settings.metrics[0] = KOLO_ACCURACY;
    settings.strategy = kolo_mirrored(.devices = devices);
    kolo_model *model = ready(gpt_model(g), settings, 3, 0.5f);
    assert_non_null(kolo_fit(model, data, .epochs = 2, .batch_size = 17, .verbose = KOLO_NONE));
    return model;
}

static void test_devices(void **state)
{
    (void)state;
    const gpt g = {31, 12, 16, 2, 12, 0.2};
    kolo_data *data = draw_text(40, g);
    for (int p = KOLO_FLOAT32; p <= (has_bfloat16() ? KOLO_MIXED_BF16 : KOLO_FLOAT32); p++) {
        kolo_model *one = trained(g, data, 1, (kolo_precision)p);
        for (int devices = 2; devices <= 3; devices++) {
            kolo_model *several = trained(g, data, devices, (kolo_precision)p);
            for (int w = 0; w < kolo_weight_count(one); w++) {
                kolo_weight a = kolo_weight_get(one, w), b = kolo_weight_get(several, w);
                assert_memory_equal(a.values, b.values, (size_t)a.count * sizeof *a.values);
            }
            kolo_model_free(&several);
        }
        kolo_model_free(&one);
    }
    kolo_data_free(&data);
}

/* ---- sentences */

static void refuse_token(float token, const char *backend)
{
    const gpt g = {5, 3, 4, 2, 4, 0};
    float features[4 * 3] = {[2 * 3 + 1] = token}, outputs[4 * 3 * 5];
    kolo_data *data = kolo_data_from_arrays(features, NULL, .samples = 4, .shape = {3});
    kolo_model *model = ready(gpt_model(g), (kolo_compile_args){.backend = backend}, 1, 1);
    assert_int_equal(kolo_predict(model, data, outputs), KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "sample 2, position 1: wanted a token"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void test_tokens(void **state)
{
    (void)state;
    const float tokens[] = {5, -1, 0.5f, NAN, INFINITY, 1e30f};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        refuse_token(tokens[i], "reference");
        refuse_token(tokens[i], "onednn");
    }
}

static void refuse(kolo_model *model, const char *sentence)
{
    assert_null(model);
    if (!strstr(kolo_last_error().text, sentence)) print_error("%s\n", kolo_last_error().text);
    assert_non_null(strstr(kolo_last_error().text, sentence));
    kolo_clear_error();
}

static void test_shapes(void **state)
{
    (void)state;
    refuse(kolo_sequential(kolo_input(4), kolo_embedding(0, 3)), "layer 1 (embedding): vocabulary: wanted 1");
    refuse(kolo_sequential(kolo_input(4), kolo_embedding(9, -3)), "layer 1 (embedding): size: wanted 1");
    refuse(kolo_sequential(kolo_input(4), kolo_dense(3), kolo_embedding(9, 3)), "right behind kolo_input()");
    refuse(kolo_sequential(kolo_input(4), kolo_layer_norm(.epsilon = -1)), "epsilon: wanted a number above 0, got -1");
    refuse(kolo_sequential(kolo_input(4), kolo_multi_head_attention(2)), "its input is {4}, wanted {length, size}");
    refuse(kolo_sequential(kolo_input(4, 5), kolo_multi_head_attention(2)), "no multiple of 2 heads");
    refuse(kolo_sequential(kolo_input(4, 6), kolo_multi_head_attention(0)), "heads: wanted 1");
    refuse(kolo_sequential(kolo_input(4, 6), kolo_multi_head_attention(2, .dropout = 1)), "dropout: wanted 0");
    refuse(kolo_sequential(kolo_input(4, 6), kolo_multi_head_attention(2, .key_size = 1048576)), "of at most");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences),  cmocka_unit_test(test_float32), cmocka_unit_test(test_bfloat16),
        cmocka_unit_test(test_many_outputs), cmocka_unit_test(test_causal),  cmocka_unit_test(test_padding),
        cmocka_unit_test(test_devices),      cmocka_unit_test(test_tokens),  cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
