/* Augmentation: in training each image is one that its options allow, and the gradient goes the way back; elsewhere it
 * is as it was. Two layers of the test's own stand before and behind, and write down what passes. */
#include "ext/backend/rig.h"

#include "layers/layer.h"

enum { rows = 6, columns = 5, channels = 2, count = rows * columns * channels, samples = 40 };

typedef struct passage {
    float up[samples][count], down[samples][count]; /* forward, backward */
} passage;
static passage before, behind;

static void pass(const kolo_own_call *call, float (*seen)[count])
{
    memcpy(call->out[0], call->in[0], (size_t)call->leaf * count * sizeof(float));
    for (int s = 0; s < call->samples; s++)
        memcpy(seen[call->first_sample + s], call->in[0] + (size_t)s * count, count * sizeof(float));
}

static void pass_up(const kolo_own_call *call)
{
    pass(call, ((passage *)(uintptr_t)call->args->user)->up);
}

static void pass_down(const kolo_own_call *call)
{
    pass(call, ((passage *)(uintptr_t)call->args->user)->down);
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return KOLO_OK;
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_own(plan, flow, pass_up, 1, &flow->x, 1, &flow->y, &flow->node->out);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_own(plan, flow, pass_down, 1, &flow->dy, 1, &flow->dx, &flow->node->in);
}

static const kolo_layer_kind witness = {.name = "witness", .build = build, .forward = forward, .backward = backward};

static kolo_data *some_images(void)
{
    dice d = {1};
    float *x = numbers(&d, samples * count, 0);
    int32_t labels[samples];
    for (int s = 0; s < samples; s++) labels[s] = s % 3;
    kolo_data *data = kolo_data_from_arrays(x, labels, .samples = samples, .shape = {rows, columns, channels});
    free(x);
    return data;
}

/* One step of all samples, or a prediction. */
static void go(kolo_layer layer, const char *backend, int devices, bool train)
{
    kolo_data *data = some_images();
    kolo_model *model = kolo_sequential(kolo_input(rows, columns, channels), kolo_conv2d(channels, .kernel = {1, 1}),
                                        kolo_layer_of(&witness, .user = &before), layer,
                                        kolo_layer_of(&witness, .user = &behind), kolo_flatten(), kolo_dense(3));
    rig_ok(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend, .seed = 5,
                        .strategy = kolo_mirrored(.devices = devices)));
    static float outputs[samples * 3];
    if (train) assert_non_null(kolo_fit(model, data, .batch_size = samples, .no_shuffle = true, .verbose = KOLO_NONE));
    else rig_ok(kolo_predict(model, data, outputs));
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static float pixel(const float *image, int row, int column, int channel)
{
    bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
    return inside ? image[(row * columns + column) * channels + channel] : 0;
}

/* Whether y is x turned over (or not) and moved. */
static bool is_moved(const float *x, const float *y, bool turned, int down, int right)
{
    for (int i = 0; i < count; i++) {
        int row = i / (columns * channels), column = i / channels % columns;
        float wanted = pixel(x, row + down, turned ? columns - 1 - column : column + right, i % channels);
        if (memcmp(&wanted, &y[i], sizeof wanted) != 0 && (wanted != 0 || y[i] != 0)) return false;
    }
    return true;
}

/* Σ y·dy = Σ x·dx: the way back is the transpose of the way there. */
static void check_transposed(void)
{
    for (int s = 0; s < samples; s++) {
        double there = 0, back = 0;
        for (int i = 0; i < count; i++) {
            there += (double)behind.up[s][i] * (double)behind.down[s][i];
            back += (double)before.up[s][i] * (double)before.down[s][i];
        }
        assert_true(fabs(there - back) < 1e-6);
        assert_true(fabs(there) > 0);
    }
}

static const char *const backends[] = {"reference", "onednn"};

static void images_are_turned_over_or_not(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++) {
        int turned = 0;
        go(kolo_random_flip(), backends[b], 1, true);
        for (int s = 0; s < samples; s++) {
            bool over = is_moved(before.up[s], behind.up[s], true, 0, 0);
            assert_true(over || is_moved(before.up[s], behind.up[s], false, 0, 0));
            turned += over;
        }
        assert_in_range(turned, samples / 4, 3 * samples / 4);
        check_transposed();
    }
}

static void images_move_by_so_many_pixels(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++) {
        int seen[5][5] = {0}, found = 0;
        go(kolo_random_shift(2), backends[b], 1, true);
        for (int s = 0; s < samples; s++)
            for (int down = -2; down <= 2; down++)
                for (int right = -2; right <= 2; right++)
                    if (is_moved(before.up[s], behind.up[s], false, down, right)) seen[down + 2][right + 2]++, found++;
        assert_int_equal(found, samples);
        for (int edge = 0; edge < 5; edge += 4) {
            int by_row = 0, by_column = 0;
            for (int i = 0; i < 5; i++) by_row += seen[edge][i], by_column += seen[i][edge];
            assert_true(by_row > 0 && by_column > 0);
        }
        check_transposed();
    }
}

static void any_number_of_devices_sees_the_same(void **state)
{
    (void)state;
    static float one[samples][count];
    go(kolo_random_shift(2), "onednn", 1, true);
    memcpy(one, behind.up, sizeof one);
    go(kolo_random_shift(2), "onednn", 3, true);
    for (int s = 0; s < samples; s++)
        for (int i = 0; i < count; i++) assert_true(fabsf(one[s][i] - behind.up[s][i]) < 1e-5f);
}

static void scores_see_images_as_they_are(void **state)
{
    (void)state;
    go(kolo_random_flip(), "onednn", 1, false);
    assert_memory_equal(before.up, behind.up, sizeof before.up);
    go(kolo_random_shift(4), "onednn", 1, false);
    assert_memory_equal(before.up, behind.up, sizeof before.up);
}

static void misfits_are_told(void **state)
{
    (void)state;
    assert_null(kolo_sequential(kolo_input(rows, columns, 1), kolo_random_shift(5), kolo_flatten(), kolo_dense(2)));
    assert_non_null(strstr(kolo_last_error().text, "(random_shift): pixels: wanted 1 to 4, got 5"));
    kolo_clear_error();
    assert_null(kolo_sequential(kolo_input(rows, columns, 1), kolo_random_shift(), kolo_flatten(), kolo_dense(2)));
    assert_non_null(strstr(kolo_last_error().text, "wanted 1 to 4, got 0"));
    kolo_clear_error();
    assert_null(kolo_sequential(kolo_input(7), kolo_random_flip(), kolo_dense(2)));
    assert_non_null(strstr(kolo_last_error().text, "(random_flip): wanted images {H, W, C}, got {7}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_turned_over_or_not),
        cmocka_unit_test(images_move_by_so_many_pixels),
        cmocka_unit_test(any_number_of_devices_sees_the_same),
        cmocka_unit_test(scores_see_images_as_they_are),
        cmocka_unit_test(misfits_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
