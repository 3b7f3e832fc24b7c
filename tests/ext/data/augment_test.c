/* Images that are flipped, cropped and shifted at random: what comes out is always a piece of what went in, each kind
 * is as likely as it should be, and it does not matter who gathers it, when, in what company. */
#include "ext/data/files.h"
#include "data/data.h"

#include <math.h>

enum { SAMPLES = 60, H = 5, W = 6, C = 3, PIXELS = H * W * C };

static float images[SAMPLES][H][W][C];
static int32_t classes[SAMPLES];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES * PIXELS; i++) (&images[0][0][0][0])[i] = (float)(i + 1);
    for (int i = 0; i < SAMPLES; i++) classes[i] = i % 3;
    kolo_clear_error();
    return 0;
}

static kolo_data *make_images(void)
{
    kolo_data *data =
        kolo_data_from_arrays(&images[0][0][0][0], classes, .samples = SAMPLES, .shape = {H, W, C}, .classes = 3);
    assert_non_null(data);
    return data;
}

/* Sample `index` as step `step` of a training sees it, `number` in its batch. */
static void look(const kolo_data *data, uint64_t step, int32_t index, int64_t number, float *to)
{
    kolo_gather_call call = {.training = true, .seed = 5, .step = step, .first_sample = number};
    assert_int_equal(kolo_data_gather(data, &call, &index, 0, 1, &(kolo_gathered){.features = to}), KOLO_OK);
}

/* What NumPy's pad(mode = constant, edge or reflect) has at a place. */
static float padded(int sample, int row, int column, int channel, kolo_fill fill_with)
{
    int at[2] = {row, column}, size[2] = {H, W};
    for (int i = 0; i < 2; i++) {
        if (at[i] >= 0 && at[i] < size[i]) continue;
        if (fill_with == KOLO_FILL_ZEROS) return 0;
        if (fill_with == KOLO_FILL_NEAREST) at[i] = at[i] < 0 ? 0 : size[i] - 1;
        while (at[i] < 0 || at[i] >= size[i]) at[i] = at[i] < 0 ? -at[i] : 2 * (size[i] - 1) - at[i];
    }
    return images[sample][at[0]][at[1]][channel];
}

/* Whether `seen` of rows × columns is the piece at (top, left), turned over or not. */
static bool is_piece(const float *seen, int sample, int rows, int columns, int top, int left, bool down, bool right,
                     kolo_fill fill_with)
{
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            for (int c = 0; c < C; c++)
                if (seen[(row * columns + column) * C + c] != padded(sample, (down ? rows - 1 - row : row) + top,
                                                                     (right ? columns - 1 - column : column) + left, c,
                                                                     fill_with))
                    return false;
    return true;
}

static void flips_are_half_of_them(void **state)
{
    (void)state;
    float seen[PIXELS];
    int counts[2][2] = {{0}};
    kolo_data *data = make_images(), *flipped = kolo_augment(data, .flip = true, .flip_vertical = true);
    for (int step = 0; step < 2000; step++) {
        look(flipped, (uint64_t)step, step % SAMPLES, 3, seen);
        int found = 0;
        for (int way = 0; way < 4; way++) {
            if (!is_piece(seen, step % SAMPLES, H, W, 0, 0, way & 1, way >> 1, KOLO_FILL_ZEROS)) continue;
            counts[way & 1][way >> 1]++;
            found++;
        }
        assert_int_equal(found, 1);
    }
    for (int way = 0; way < 4; way++) assert_in_range(counts[way & 1][way >> 1], 500 - 80, 500 + 80); /* 4 deviations */
    kolo_data_free(&flipped);
    kolo_data_free(&data);
}

/* Every place is met, and none else. */
static void pieces_are_cut_from_everywhere(void **state)
{
    (void)state;
    enum {
        PADDING = 2,
        ROWS = 4,
        COLUMNS = 3,
        DOWN = H + 2 * PADDING - ROWS + 1,
        ACROSS = W + 2 * PADDING - COLUMNS + 1
    };
    for (int kind = 0; kind <= KOLO_FILL_REFLECT; kind++) {
        float seen[ROWS * COLUMNS * C];
        int counts[DOWN][ACROSS] = {{0}}, met = 0;
        kolo_fill fill_with = kind ? (kolo_fill)kind : KOLO_FILL_ZEROS;
        kolo_data *data = make_images();
        kolo_data *cut = kolo_augment(data, .padding = PADDING, .crop = {ROWS, COLUMNS}, .fill = (kolo_fill)kind);
        kolo_data_info info = kolo_data_get_info(cut);
        assert_int_equal(info.shape[0], ROWS);
        assert_int_equal(info.shape[1], COLUMNS);
        assert_int_equal(info.shape[2], C);
        for (int step = 0; step < 3000; step++) {
            bool found = false;
            look(cut, (uint64_t)step, 7, 0, seen);
            for (int top = 0; top < DOWN && !found; top++)
                for (int left = 0; left < ACROSS && !found; left++) {
                    found = is_piece(seen, 7, ROWS, COLUMNS, top - PADDING, left - PADDING, false, false, fill_with);
                    counts[top][left] += found;
                }
            assert_true(found);
        }
        for (int i = 0; i < DOWN * ACROSS; i++) met += (&counts[0][0])[i] > 0;
        if (kind != KOLO_FILL_ZEROS && kind != 0) assert_true(met > DOWN * ACROSS / 2); /* some look alike */
        else assert_int_equal(met, DOWN * ACROSS);
        kolo_data_free(&data); /* before the view */
        kolo_data_free(&cut);
    }
}

static void shifts_go_as_far_as_they_may(void **state)
{
    (void)state;
    float seen[PIXELS];
    bool met[3][7] = {{false}};
    kolo_data *data = make_images(), *shifted = kolo_augment(data, .shift = {1, 3}, .fill = KOLO_FILL_NEAREST);
    for (int step = 0; step < 600; step++) {
        int found = 0;
        look(shifted, (uint64_t)step, 1, step, seen);
        for (int i = 0; i < 21; i++) {
            bool here = is_piece(seen, 1, H, W, i / 7 - 1, i % 7 - 3, false, false, KOLO_FILL_NEAREST);
            met[i / 7][i % 7] |= here;
            found += here;
        }
        assert_int_equal(found, 1);
    }
    for (int i = 0; i < 21; i++) assert_true(met[i / 7][i % 7]);
    kolo_data_free(&shifted);
    kolo_data_free(&data);
}

/* As a score, a prediction and kolo_data_sample() see it. */
static void scored_they_stand_still(void **state)
{
    (void)state;
    float seen[PIXELS];
    int label;
    kolo_data *data = make_images(), *same = kolo_augment(data, .flip = true, .padding = 4, .shift = {2, 2});
    kolo_data *middle = kolo_augment(data, .flip = true, .crop = {3, 3});
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(kolo_data_sample(same, i, seen, &label), KOLO_OK);
        assert_int_equal(label, i % 3);
        assert_memory_equal(seen, images[i], sizeof images[i]);
        assert_int_equal(kolo_data_sample(middle, i, seen, NULL), KOLO_OK);
        assert_true(is_piece(seen, i, 3, 3, 1, 1, false, false, KOLO_FILL_ZEROS));
    }
    kolo_data_free(&data);
    kolo_data_free(&same);
    kolo_data_free(&middle);
}

/* A batch in pieces, in any order of them, through slices and views of views. */
static void company_does_not_matter(void **state)
{
    (void)state;
    static float whole[SAMPLES][PIXELS], piece[PIXELS];
    int32_t order[SAMPLES];
    kolo_data *data = make_images(), *once = kolo_augment(data, .flip = true, .shift = {2, 2});
    kolo_data *twice = kolo_augment(once, .flip = true, .padding = 1);
    for (int i = 0; i < SAMPLES; i++) order[i] = (i * 7) % SAMPLES;
    kolo_gather_call call = {.training = true, .seed = 9, .step = 4, .first_sample = 100};
    assert_int_equal(kolo_data_gather(twice, &call, order, 0, SAMPLES, &(kolo_gathered){.features = &whole[0][0]}),
                     KOLO_OK);
    for (int i = SAMPLES - 1; i >= 0; i--) {
        call.first_sample = 100 + i;
        assert_int_equal(kolo_data_gather(twice, &call, order + i, 0, 1, &(kolo_gathered){.features = piece}), KOLO_OK);
        assert_memory_equal(piece, whole[i], sizeof piece);
    }
    kolo_data *part = kolo_data_slice(twice, 10, 5);
    kolo_data_free(&once), kolo_data_free(&data), kolo_data_free(&twice);
    assert_int_equal(kolo_data_gather(part, &call, NULL, 4, 1, &(kolo_gathered){.features = piece}), KOLO_OK);
    assert_true(order[2] == 14);
    call.first_sample = 102;
    kolo_data_gather(part, &call, NULL, 4, 1, &(kolo_gathered){.features = piece});
    assert_memory_equal(piece, whole[2], sizeof piece);
    kolo_data_free(&part);
}

/* Seed, step and the number in the batch each make a difference; two augmentations do not draw alike. */
static void whatever_it_goes_by_makes_a_difference(void **state)
{
    (void)state;
    float first[PIXELS], other[PIXELS];
    int differ[4] = {0};
    kolo_data *data = make_images(), *shifted = kolo_augment(data, .shift = {4, 4}),
              *again = kolo_augment(shifted, .flip = true);
    kolo_data *own = kolo_augment(data, .shift = {4, 4}, .seed = 3);
    kolo_gather_call call = {.training = true, .seed = 1, .step = 1, .first_sample = 1};
    for (int i = 0; i < 40; i++) {
        call.first_sample = i;
        kolo_data_gather(shifted, &call, NULL, 0, 1, &(kolo_gathered){.features = first});
        kolo_gather_call calls[] = {call, call, call};
        calls[0].seed = 2, calls[1].step = 2, calls[2].first_sample = i + 1;
        for (int k = 0; k < 3; k++) {
            kolo_data_gather(shifted, &calls[k], NULL, 0, 1, &(kolo_gathered){.features = other});
            differ[k] += memcmp(first, other, sizeof first) != 0;
        }
        float one[PIXELS], two[PIXELS]; /* with a seed of its own the training's does not matter */
        kolo_data_gather(own, &call, NULL, 0, 1, &(kolo_gathered){.features = one});
        kolo_data_gather(own, &calls[0], NULL, 0, 1, &(kolo_gathered){.features = two});
        assert_memory_equal(one, two, sizeof one);
        differ[3] += memcmp(first, one, sizeof one) != 0;
    }
    for (int k = 0; k < 4; k++) assert_true(differ[k] > 30);
    kolo_data_free(&own), kolo_data_free(&again), kolo_data_free(&shifted), kolo_data_free(&data);
}

/* The epoch's loss and the weights after two epochs. */
static void train(const kolo_strategy *strategy, kolo_feed_kind feed, bool augmented, double *loss, float *weights)
{
    kolo_data *data = make_images();
    kolo_data *seen = augmented ? kolo_augment(data, .flip = true, .padding = 1, .crop = {4, 4})
                                : kolo_augment(data, .crop = {4, 4}, .seed = 1);
    kolo_model *model = kolo_sequential(kolo_input(4, 4, C), kolo_conv2d(4, .kernel = {3, 3}), kolo_flatten(),
                                        kolo_dropout(0.25), kolo_dense(3));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 1e-8), .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .strategy = *strategy, .seed = 3, .deterministic = true),
                     KOLO_OK);
    const kolo_history *history =
        kolo_fit(model, seen, .epochs = 2, .batch_size = 23, .feed = feed, .verbose = KOLO_NONE);
    assert_non_null(history);
    *loss = history->epoch[1].loss;
    memcpy(weights, kolo_weight_get(model, 0).values, sizeof(float) * 4 * 27);
    kolo_scores scores = kolo_evaluate(model, seen), again = kolo_evaluate(model, seen);
    assert_true(isfinite(scores.loss) && scores.loss == again.loss);
    kolo_model_free(&model);
    kolo_data_free(&seen);
    kolo_data_free(&data);
}

static void devices_and_feeds_make_no_difference(void **state)
{
    (void)state;
    double loss, other_loss;
    float weights[4 * 27], other[4 * 27];
    train(&kolo_one_device(), 0, true, &loss, weights);
    for (int devices = 1; devices <= 5; devices += 2)
        for (kolo_feed_kind feed = 0; feed <= KOLO_FEED_STAGED; feed++)
            for (int staging = 0; staging < 2; staging++) {
                train(&kolo_mirrored(.devices = devices, .staging = staging), feed, true, &other_loss, other);
                assert_memory_equal(weights, other, sizeof other);
                assert_true(loss == other_loss);
            }
    train(&kolo_one_device(), 0, false, &other_loss, other);
    assert_true(loss != other_loss);
}

static void what_cannot_be_is_one_sentence(void **state)
{
    (void)state;
    kolo_data *data = make_images(),
              *flat = kolo_data_from_arrays(&images[0][0][0][0], classes, .samples = 4, .shape = {7});
    assert_null(kolo_augment(NULL, .flip = true));
    assert_string_equal(kolo_last_error().text, "");
    assert_null(kolo_augment(flat, .flip = true));
    assert_failure(KOLO_INVALID, "kolo_augment: wanted images of {height, width}", "got {7}", NULL);
    assert_null(kolo_augment(data));
    assert_failure(KOLO_INVALID, "wanted .flip, .flip_vertical, .padding, .crop or .shift, got none", NULL);
    assert_null(kolo_augment(data, .crop = {6, 6}));
    assert_failure(KOLO_INVALID, ".crop: wanted 1 to 5 rows, got 6", NULL);
    assert_null(kolo_augment(data, .crop = {5, -1}));
    assert_failure(KOLO_INVALID, ".crop: wanted 1 to 6 columns, got -1", NULL);
    assert_null(kolo_augment(data, .shift = {0, 6}));
    assert_failure(KOLO_INVALID, ".shift: wanted 0 to 5 columns, got 6", NULL);
    assert_null(kolo_augment(data, .padding = -1));
    assert_failure(KOLO_INVALID, ".padding: wanted at least 0, got -1", NULL);
    assert_null(kolo_augment(data, .padding = 2000000000));
    assert_failure(KOLO_INVALID, ".padding: wanted at most 4096", NULL);
    assert_null(kolo_augment(data, .flip = true, .fill = (kolo_fill)9));
    assert_failure(KOLO_INVALID, ".fill: wanted KOLO_FILL_ZEROS", "got 9", NULL);
    kolo_data_free(&flat);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(flips_are_half_of_them, fill),
        cmocka_unit_test_setup(pieces_are_cut_from_everywhere, fill),
        cmocka_unit_test_setup(shifts_go_as_far_as_they_may, fill),
        cmocka_unit_test_setup(scored_they_stand_still, fill),
        cmocka_unit_test_setup(company_does_not_matter, fill),
        cmocka_unit_test_setup(whatever_it_goes_by_makes_a_difference, fill),
        cmocka_unit_test_setup(devices_and_feeds_make_no_difference, fill),
        cmocka_unit_test_setup(what_cannot_be_is_one_sentence, fill),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
