/* Small graphs of all layers of images, drawn at random, with branches that are added, multiplied, concatenated and
 * used again: outputs, loss and gradients of a backend against the reference backend's, in float32 and
 * bfloat16.
 *
 * Features and weights are eighths. As long as few operations follow one another sums are exact in float32, and whether
 * a relu cuts or where a maximum is cannot hang on rounding; after `exact_operations` of them, or after one that is
 * never exact, only smooth layers follow. Bounds are of the largest: 1e-5 in float32, 2^-8 in
 * bfloat16, whose roundings are the same in both backends but where a float32 sum is next to a tie.
 */
#include "outcome.h"
#include "tested.h"

#include "model/model.h"
#include "runtime/runtime.h"

#ifndef KOLO_TEST_CASES /* fewer, where a backend is slow */
#define KOLO_TEST_CASES 120
#endif
enum { graphs = KOLO_TEST_CASES, tensors_max = 16, samples_max = 9, exact_operations = 3 };

typedef struct drawing {
    dice d;
    kolo_tensor tensor[tensors_max];
    int operations[tensors_max]; /* inexact ones in a row, of what it was computed by */
    bool used[tensors_max];
    int count;
} drawing;

static kolo_shape shape_of(const drawing *g, int t)
{
    return g->tensor[t].model->layers[g->tensor[t].node].out;
}

static void keep(drawing *g, kolo_tensor made, int operations)
{
    if (!made.model) print_error("%s\n", kolo_last_error().text);
    assert_non_null(made.model);
    g->operations[g->count] = operations;
    g->used[g->count] = false;
    g->tensor[g->count++] = made;
}

/* A layer of one input that fits any image; *costs: the exactness that it takes. */
static kolo_layer roll_layer(dice *d, kolo_shape in, bool exact, int *costs)
{
    int height = in.dim[0], width = in.dim[1], channels = in.dim[2], k = roll_between(d, 1, 3),
        s = roll_between(d, 1, 3);
    kolo_activation kinked = roll_coin(d) ? KOLO_RELU : KOLO_LINEAR, smooth = roll_between(d, KOLO_SIGMOID, KOLO_SILU);
    if (!exact) kinked = roll_coin(d) ? KOLO_TANH : KOLO_LINEAR;
    *costs = 1;
    switch (roll_between(d, 0, 14)) {
    case 0: return kolo_dense(roll_between(d, 1, 20), .activation = kinked);
    case 1: return kolo_depthwise_conv2d(roll_between(d, 1, 2), .kernel = {k, 2}, .padding = KOLO_SAME);
    case 2:
        if (height * width > 40) break;
        return kolo_conv2d_transpose(roll_between(d, 1, 20), .kernel = {k, 2}, .stride = {s, 2}, .activation = kinked);
    case 3: return kolo_conv2d(2 * channels, .kernel = {2, k}, .groups = channels, .padding = KOLO_SAME);
    case 4:
        if (height * width > 40) break;
        *costs = 0;
        return kolo_upsampling2d(1, 2);
    case 5: *costs = 0; return kolo_zero_padding2d(roll_between(d, 0, 1), .left = 2);
    case 6: *costs = 0; return kolo_reshape(-1, height, channels);
    case 7: *costs = 9; return kolo_average_pool2d(k, .stride = {s, 1}, .padding = KOLO_SAME);
    case 8: *costs = 9; return kolo_activate(smooth);
    case 9: *costs = 9; return kolo_global_average_pool2d(.keep_dims = true);
    case 10:
        if (!exact) break;
        *costs = 0;
        return kolo_max_pool2d(k, .stride = {s, s}, .padding = KOLO_SAME);
    case 11:
        if (!exact) break;
        *costs = 0;
        return roll_coin(d) ? kolo_activate(KOLO_RELU) : kolo_global_max_pool2d(.keep_dims = true);
    case 12: *costs = 9; return kolo_batch_norm(.epsilon = 1); /* weights, a variance too, are -3/8 at least */
    default: break;
    }
    return kolo_conv2d(roll_coin(d) ? 16 : roll_between(d, 1, 20), .kernel = {k, k},
                       .stride = {s, roll_between(d, 1, 2)}, .padding = KOLO_SAME,
                       .dilation = {1, roll_between(d, 1, 2)}, .activation = kinked, .no_bias = roll_coin(d));
}

static void add_one(drawing *g)
{
    int from = roll_between(&g->d, 0, g->count - 1), costs;
    bool exact = g->operations[from] < exact_operations;
    kolo_layer layer = roll_layer(&g->d, shape_of(g, from), exact, &costs);
    keep(g, kolo_apply(layer, g->tensor[from]), g->operations[from] + costs);
    g->used[from] = true;
}

/* An image of what was none: a row of numbers for each pixel, or one row of all. */
static void add_rows(drawing *g)
{
    dice *d = &g->d;
    int from = roll_between(d, 0, g->count - 1), channels = roll_between(d, 1, 5);
    kolo_shape in = shape_of(g, from);
    int pixels = in.dim[0] * in.dim[1], size = pixels > 16 || roll_coin(d) ? in.dim[2] : pixels * in.dim[2];
    kolo_tensor rows = kolo_apply(kolo_reshape(-1, size), g->tensor[from]);
    rows = kolo_apply(kolo_dense(size == in.dim[2] ? channels : pixels * channels), rows);
    rows = kolo_apply(kolo_reshape(in.dim[0], in.dim[1], channels), rows);
    keep(g, kolo_apply(kolo_batch_norm(.epsilon = 1), rows), 9);
    g->used[from] = true;
}

/* Two tensors that fit, joined; else nothing. */
static void add_joined(drawing *g)
{
    int a = roll_between(&g->d, 0, g->count - 1), b = roll_between(&g->d, 0, g->count - 1);
    kolo_shape x = shape_of(g, a), y = shape_of(g, b);
    int costs = 1 + (g->operations[a] > g->operations[b] ? g->operations[a] : g->operations[b]);
    bool equal = kolo_shape_equal(x, y), high = x.dim[0] == y.dim[0], wide = x.dim[1] == y.dim[1];
    kolo_tensor made = {0};
    if (equal && roll_coin(&g->d)) made = kolo_apply(kolo_add(), g->tensor[a], g->tensor[b]);
    else if (high && wide && roll_coin(&g->d)) made = kolo_apply(kolo_concatenate(), g->tensor[a], g->tensor[b]);
    else if (wide && x.dim[2] == y.dim[2]) made = kolo_apply(kolo_concatenate(.axis = 1), g->tensor[a], g->tensor[b]);
    else if (equal || (y.dim[0] * y.dim[1] == 1 && x.dim[2] == y.dim[2])) {
        made = kolo_apply(kolo_multiply(), g->tensor[a], g->tensor[b]);
        costs += exact_operations;
    }
    if (!made.model) return;
    keep(g, made, costs);
    g->used[a] = g->used[b] = true;
}

/* All that nobody has used yet, side by side. */
static kolo_tensor gather(drawing *g)
{
    kolo_tensor row = {0};
    for (int t = 0; t < g->count; t++) {
        if (g->used[t]) continue;
        kolo_tensor flat = kolo_apply(kolo_flatten(), g->tensor[t]);
        row = row.model ? kolo_apply(kolo_concatenate(), row, flat) : flat;
    }
    return row;
}

static kolo_model *draw(uint64_t seed, kolo_shape *shape, int classes)
{
    drawing g = {.d = {seed}};
    dice *d = &g.d;
    kolo_model *model = kolo_graph();
    *shape = (kolo_shape){3, {roll_between(d, 1, 8), roll_between(d, 1, 8), roll_coin(d) ? 16 : roll_between(d, 1, 5)}};
    keep(&g, kolo_graph_input(model, shape->dim[0], shape->dim[1], shape->dim[2]), 0);
    for (int n = roll_between(d, 1, 8); n > 0; n--) {
        if (g.count > 1 && roll_between(d, 0, 2) == 0) add_joined(&g);
        else if (roll_between(d, 0, 9) == 0) add_rows(&g);
        else add_one(&g);
    }
    rig_ok(kolo_graph_output(model, kolo_apply(kolo_dense(classes), gather(&g))));
    return model;
}

static void assert_close(uint64_t seed, const char *what, const float *got, const float *wanted, int64_t count,
                         double bound)
{
    double difference = outcome_difference(got, wanted, count);
    if (!(difference <= bound)) {
        kolo_shape shape;
        kolo_model *model = draw(seed, &shape, 3);
        print_error("graph %d: %s differ by %g, bound %g\n", (int)seed, what, difference, bound);
        kolo_summary(model);
        kolo_model_free(&model);
    }
    assert_true(difference <= bound);
}

static void one_graph(uint64_t seed, kolo_precision precision)
{
    enum { classes = 3 };
    dice d = {seed + 7};
    kolo_shape shape;
    kolo_model *model = draw(seed, &shape, classes);
    kolo_model_free(&model);
    int samples = roll_between(&d, 1, samples_max);
    float *features = numbers(&d, samples * kolo_shape_count(shape), 8);
    int32_t labels[samples_max];
    for (int s = 0; s < samples; s++) labels[s] = roll_between(&d, 0, classes - 1);
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples,
                                            .shape = {shape.dim[0], shape.dim[1], shape.dim[2]}, .classes = classes);
    assert_non_null(data);
    outcome wanted = outcome_of(draw(seed, &shape, classes), "reference", precision, seed, data, classes);
    outcome got = outcome_of(draw(seed, &shape, classes), KOLO_TEST_BACKEND, precision, seed, data, classes);
    bool wide = precision == KOLO_FLOAT32;
    assert_true(fabs(got.loss - wanted.loss) <= (wide ? 1e-5 : 0x1p-8) * (fabs(wanted.loss) + 1));
    assert_close(seed, "outputs", got.outputs, wanted.outputs, samples * classes, wide ? 1e-5 : 0x1p-8);
    assert_close(seed, "gradients", got.gradients, wanted.gradients, got.weights, wide ? 1e-5 : 0x1p-8);
    float *all[] = {got.gradients, got.outputs, wanted.gradients, wanted.outputs, features};
    for (int i = 0; i < 5; i++) free(all[i]);
    kolo_data_free(&data);
}

static void test_float32(void **state)
{
    (void)state;
    for (int n = 0; n < graphs; n++) one_graph(5000u + (unsigned)n, KOLO_FLOAT32);
}

static void test_bfloat16(void **state)
{
    (void)state;
    const kolo_backend *backend;
    if (kolo_backend_find(KOLO_TEST_BACKEND, KOLO_MIXED_BF16, &backend) == KOLO_UNSUPPORTED) {
        kolo_failure_take();
        skip();
    }
    for (int n = 0; n < graphs; n++) one_graph(6000u + (unsigned)n, KOLO_MIXED_BF16);
}

/* Halves, of which float32 products and sums are rounded ones. */
static void test_float16(void **state)
{
    (void)state;
    for (int n = 0; n < graphs / 4; n++) one_graph(7000u + (unsigned)n, KOLO_MIXED_FP16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_float32), cmocka_unit_test(test_bfloat16),
                                       cmocka_unit_test(test_float16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
