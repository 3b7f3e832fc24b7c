/* Data sets made of data sets: each transform against its formula in double, written out here; handles freed in every
 * order; and what cannot be done is one sentence. */
#include "ext/data/files.h"
#include "data/data.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

enum { N = 50, COLUMNS = 4 };

static float table[N][COLUMNS];
static int32_t classes[N];
static float weights[N];

static int fill(void **state)
{
    (void)state;
    uint32_t word = 7;
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            word = word * 1664525u + 1013904223u;
            table[i][c] = (float)(word >> 8) * 0x1p-20f * (float)(c + 1) + 1000 * (float)c;
        }
        table[i][3] = 7; /* always the same */
        classes[i] = i % 5 == 0 ? 2 : i % 5 < 3 ? 0 : 5;
        weights[i] = (float)i / 4;
    }
    kolo_clear_error();
    return 0;
}

static void assert_near(double got, double wanted, double epsilon)
{
    if (!(fabs(got - wanted) <= epsilon)) fail_msg("wanted %g, got %g", wanted, got);
}

static kolo_data *rows_of(int first, int count)
{
    kolo_data *data = kolo_data_from_arrays(table[first], classes + first, .samples = count, .shape = {COLUMNS},
                                            .classes = 6, .weights = weights + first);
    assert_non_null(data);
    return data;
}

/* Which row of the table a sample is, by its features; and all that belongs to it is that row's. */
static int row_at(const kolo_data *data, int64_t index)
{
    float features[COLUMNS], weight;
    int label;
    assert_int_equal(kolo_data_sample(data, index, features, &label, .weight = &weight), KOLO_OK);
    for (int i = 0; i < N; i++) {
        if (memcmp(features, table[i], sizeof features) != 0) continue;
        assert_int_equal(label, classes[i]);
        assert_true(weight == weights[i]);
        return i;
    }
    fail_msg("sample %d is no row of the table", (int)index);
    return -1;
}

/* ------------------------------------------------------------------------------------------ numbers */

static void check_standardized(const kolo_data *data, int first, int count, int by_first, int by_count)
{
    for (int c = 0; c < COLUMNS; c++) {
        double mean = 0, variance = 0;
        for (int i = by_first; i < by_first + by_count; i++) mean += (double)table[i][c] / by_count;
        for (int i = by_first; i < by_first + by_count; i++) variance += pow(table[i][c] - mean, 2) / by_count;
        double deviation = variance > 1e-12 ? sqrt(variance) : 1;
        for (int i = 0; i < count; i++) {
            float features[COLUMNS];
            assert_int_equal(kolo_data_sample(data, i, features, NULL), KOLO_OK);
            assert_near(features[c], (table[first + i][c] - mean) / deviation, 2e-4);
        }
    }
}

static void columns_are_standardized_by_the_training_data(void **state)
{
    (void)state;
    kolo_data *train = rows_of(0, 35), *test = rows_of(35, 15);
    kolo_data *own = kolo_standardize(train), *by_made = kolo_standardize(test, .like = own);
    kolo_data *by_raw = kolo_standardize(test, .like = train);
    check_standardized(own, 0, 35, 0, 35);
    check_standardized(by_made, 35, 15, 0, 35);
    check_standardized(by_raw, 35, 15, 0, 35);
    kolo_data *mixed = kolo_shuffle(own), *part = kolo_take(mixed, 3), *kept = kolo_cache(part);
    kolo_data *through = kolo_standardize(test, .like = kept); /* what those three were standardized by */
    check_standardized(through, 35, 15, 0, 35);
    kolo_data_free(&train), kolo_data_free(&own), kolo_data_free(&test), kolo_data_free(&mixed), kolo_data_free(&part);
    check_standardized(by_made, 35, 15, 0, 35);
    kolo_data_free(&by_made), kolo_data_free(&by_raw), kolo_data_free(&kept), kolo_data_free(&through);
}

static void channels_are_standardized_or_elements(void **state)
{
    (void)state;
    kolo_data *data = kolo_data_from_arrays(&table[0][0], classes, .samples = N / 2, .shape = {2, 2, 2});
    kolo_data *channels = kolo_standardize(data), *elements = kolo_standardize(data, .per_element = true);
    double sums[2][8] = {{0}}, squares[2][8] = {{0}};
    for (int i = 0; i < N / 2; i++) {
        float seen[2][8];
        assert_int_equal(kolo_data_sample(channels, i, seen[0], NULL), KOLO_OK);
        assert_int_equal(kolo_data_sample(elements, i, seen[1], NULL), KOLO_OK);
        for (int k = 0; k < 16; k++) sums[k / 8][k % 8] += seen[k / 8][k % 8];
        for (int k = 0; k < 16; k++) squares[k / 8][k % 8] += pow(seen[k / 8][k % 8], 2);
    }
    for (int e = 0; e < 8; e++) {
        assert_near(sums[1][e] / (N / 2), 0, 1e-4);
        assert_near(squares[1][e] / (N / 2), e % 4 == 3 ? 0 : 1, 1e-3);
    }
    for (int c = 0; c < 2; c++) {
        assert_near(sums[0][c] + sums[0][c + 2] + sums[0][c + 4] + sums[0][c + 6], 0, 0.01);
        assert_true(fabs(sums[0][c]) > 1);
        assert_near((squares[0][c] + squares[0][c + 2] + squares[0][c + 4] + squares[0][c + 6]) / (4.0 * N / 2), 1,
                    1e-3);
    }
    kolo_data_free(&data), kolo_data_free(&channels), kolo_data_free(&elements);
}

static void ranges_are_what_they_are_told_to_be(void **state)
{
    (void)state;
    kolo_data *data = rows_of(0, 30), *rest = rows_of(30, 20);
    kolo_data *unit = kolo_min_max(data), *wide = kolo_min_max(data, .low = -1, .high = 3);
    kolo_data *like = kolo_min_max(rest, .like = wide), *given = kolo_min_max(data, .from_low = -10, .from_high = 10);
    for (int c = 0; c < COLUMNS; c++) {
        double least = INFINITY, most = -INFINITY;
        for (int i = 0; i < 30; i++) least = fmin(least, (double)table[i][c]), most = fmax(most, table[i][c]);
        double range = most > least ? most - least : 0;
        for (int i = 0; i < 30; i++) {
            float seen[4][COLUMNS];
            double there = range > 0 ? (table[i][c] - least) / range : 0;
            double beyond = range > 0 ? (table[30 + i % 20][c] - least) / range : 0;
            kolo_data_sample(unit, i, seen[0], NULL), kolo_data_sample(wide, i, seen[1], NULL);
            kolo_data_sample(like, i % 20, seen[2], NULL), kolo_data_sample(given, i, seen[3], NULL);
            assert_near(seen[0][c], there, 1e-4);
            assert_near(seen[1][c], there * 4 - 1, 1e-4);
            assert_near(seen[2][c], beyond * 4 - 1, 1e-3);
            assert_near(seen[3][c], ((double)table[i][c] + 10) / 20, 1e-3);
        }
    }
    kolo_data_free(&data), kolo_data_free(&rest), kolo_data_free(&unit), kolo_data_free(&wide);
    kolo_data_free(&like), kolo_data_free(&given);
}

static void what_is_no_number_is_left_out_of_the_mean(void **state)
{
    (void)state;
    float seen[1], values[] = {1, NAN, 3}, endless[] = {1, INFINITY};
    kolo_data *data = kolo_data_from_arrays(values, .samples = 3, .shape = {1}), *scaled = kolo_standardize(data);
    for (int i = 0; i < 3; i++) {
        kolo_data_sample(scaled, i, seen, NULL);
        assert_true(i == 1 ? isnan(seen[0]) : seen[0] == (float)(i - 1));
    }
    kolo_data_free(&data), kolo_data_free(&scaled);
    data = kolo_data_from_arrays(endless, .samples = 2, .shape = {1});
    assert_null(kolo_standardize(data));
    assert_failure(KOLO_INVALID, "sample 1, feature 0: wanted a finite number, got inf", NULL);
    kolo_data_free(&data);
}

/* ------------------------------------------------------------------------------------------ labels */

static void labels_become_targets_and_labels_again(void **state)
{
    (void)state;
    kolo_data *data = rows_of(0, N), *hot = kolo_one_hot(data, .classes = 8), *mixed = kolo_shuffle(hot);
    kolo_data *back = kolo_label_index(mixed);
    kolo_data_free(&data), kolo_data_free(&hot);
    assert_int_equal(kolo_data_get_info(mixed).target_shape[0], 8);
    assert_int_equal(kolo_data_get_info(back).target_rank, 0);
    assert_int_equal(kolo_data_get_info(back).classes, 8);
    for (int i = 0; i < N; i++) {
        float targets[8], features[COLUMNS];
        int label, again;
        assert_int_equal(kolo_data_sample(mixed, i, features, &label, .targets = targets), KOLO_OK);
        for (int c = 0; c < 8; c++) assert_true(targets[c] == (c == label));
        assert_int_equal(kolo_data_sample(back, i, NULL, &again), KOLO_OK);
        assert_int_equal(label, again);
    }
    kolo_data_free(&mixed), kolo_data_free(&back);
}

static void labels_are_numbered_by_frequency(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    kolo_data *data = kolo_data_from_arrays(&table[0][0], classes, .samples = N, .shape = {COLUMNS}, .classes = 6,
                                            .class_names = names);
    kolo_data *indexed = kolo_label_index(data), *some = kolo_take(data, 7),
              *like = kolo_label_index(some, .like = indexed);
    kolo_data_info info = kolo_data_get_info(indexed);
    assert_int_equal(info.classes, 3);
    assert_string_equal(info.class_names[0], "a"); /* 20, as many as 5: the smaller first */
    assert_string_equal(info.class_names[1], "f");
    assert_string_equal(info.class_names[2], "c");
    for (int i = 0; i < N; i++) {
        int label, wanted = classes[i] == 0 ? 0 : classes[i] == 5 ? 1 : 2;
        kolo_data_sample(indexed, i, NULL, &label);
        assert_int_equal(label, wanted);
        if (i >= 7) continue;
        kolo_data_sample(like, i, NULL, &label);
        assert_int_equal(label, wanted);
    }
    int32_t strange[] = {1};
    kolo_data *other = kolo_data_from_arrays(&table[0][0], strange, .samples = 1, .shape = {COLUMNS});
    assert_null(kolo_label_index(other, .like = indexed));
    assert_failure(KOLO_INVALID, "kolo_label_index: sample 0: wanted a label that .like has, got 1", NULL);
    assert_null(kolo_label_index(other, .like = data));
    assert_failure(KOLO_INVALID, ".like: wanted data whose labels kolo_label_index() numbered", NULL);
    kolo_data_free(&data), kolo_data_free(&indexed), kolo_data_free(&some), kolo_data_free(&like);
    kolo_data_free(&other);
}

static void one_number_is_a_class_above_the_threshold(void **state)
{
    (void)state;
    float targets[] = {0.2f, 0.5f, 0.56f, 0.9f};
    kolo_data *data = kolo_data_from_arrays(targets, .samples = 4, .shape = {1}, .targets = targets);
    kolo_data *half = kolo_label_index(data), *more = kolo_label_index(data, .threshold = 0.6);
    for (int i = 0; i < 4; i++) {
        int label;
        kolo_data_sample(half, i, NULL, &label);
        assert_int_equal(label, i >= 2);
        kolo_data_sample(more, i, NULL, &label);
        assert_int_equal(label, i >= 3);
    }
    kolo_data_free(&data), kolo_data_free(&half), kolo_data_free(&more);
}

static void sequences_have_a_row_for_each_position(void **state)
{
    (void)state;
    static const int32_t labels[2][3] = {{1, 0, 2}, {2, 2, 1}};
    kolo_data *data = kolo_data_from_arrays(&table[0][0], &labels[0][0], .samples = 2, .shape = {2}, .label_count = 3);
    kolo_data *hot = kolo_one_hot(data), *back = kolo_label_index(hot);
    kolo_data_info info = kolo_data_get_info(hot);
    assert_true(info.target_rank == 2 && info.target_shape[0] == 3 && info.target_shape[1] == 3);
    float targets[3][3];
    int32_t again[3];
    assert_int_equal(kolo_data_sample(hot, 1, NULL, NULL, .targets = &targets[0][0]), KOLO_OK);
    for (int i = 0; i < 9; i++) assert_true(targets[i / 3][i % 3] == (labels[1][i / 3] == i % 3));
    assert_int_equal(kolo_data_sample(back, 1, NULL, NULL, .labels = again), KOLO_OK);
    assert_memory_equal(again, labels[1], sizeof again);
    kolo_data_free(&data), kolo_data_free(&hot), kolo_data_free(&back);
}

/* ------------------------------------------------------------------------------------------ which samples */

static void shuffling_loses_and_doubles_nothing(void **state)
{
    (void)state;
    kolo_data *data = rows_of(0, N);
    for (int buffer = 0; buffer <= 60; buffer += 20) {
        kolo_data *mixed = kolo_shuffle(data, .buffer_size = buffer), *same = kolo_shuffle(data, .buffer_size = buffer);
        kolo_data *other = kolo_shuffle(data, .buffer_size = buffer, .seed = 2);
        int met[N] = {0}, moved = 0, differ = 0;
        for (int i = 0; i < N; i++) {
            int row = row_at(mixed, i);
            met[row]++;
            moved += row != i;
            differ += row != row_at(other, i);
            assert_int_equal(row, row_at(same, i));
            if (buffer) assert_true(row < i + buffer); /* not in the buffer yet */
        }
        for (int i = 0; i < N; i++) assert_int_equal(met[i], 1);
        assert_true(moved > N / 2 && differ > N / 2);
        kolo_data_free(&mixed), kolo_data_free(&same), kolo_data_free(&other);
    }
    kolo_data *still = kolo_shuffle(data, .buffer_size = 1);
    for (int i = 0; i < N; i++) assert_int_equal(row_at(still, i), i);
    kolo_data_free(&still), kolo_data_free(&data);
}

static void a_split_is_a_partition(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        kolo_data *data = rows_of(0, N), *train, *test, *again, *rest;
        assert_int_equal(kolo_data_split(data, 0.7, &train, &test, .no_shuffle = kind == 1, .seed = (uint64_t)kind),
                         KOLO_OK);
        assert_int_equal(kolo_data_split(data, 0.7, &again, &rest, .no_shuffle = kind == 1, .seed = (uint64_t)kind),
                         KOLO_OK);
        kolo_data_free(&data);
        assert_int_equal(kolo_data_get_info(train).samples, 35);
        assert_int_equal(kolo_data_get_info(test).samples, 15);
        int met[N] = {0}, moved = 0;
        for (int i = 0; i < N; i++) {
            int row = i < 35 ? row_at(train, i) : row_at(test, i - 35);
            met[row]++;
            moved += row != i;
            assert_int_equal(row, i < 35 ? row_at(again, i) : row_at(rest, i - 35));
        }
        for (int i = 0; i < N; i++) assert_int_equal(met[i], 1);
        assert_true(kind == 1 ? moved == 0 : moved > N / 2);
        kolo_data_free(&train), kolo_data_free(&test), kolo_data_free(&again), kolo_data_free(&rest);
    }
}

static void parts_repeat_and_join(void **state)
{
    (void)state;
    kolo_data *data = rows_of(0, 10), *rest = rows_of(10, 40), *mixed = kolo_shuffle(data, .buffer_size = 1);
    kolo_data *all = kolo_data_concatenate(mixed, rest), *thrice = kolo_repeat(all, 3);
    kolo_data *late = kolo_skip(thrice, 55), *few = kolo_take(late, 20), *many = kolo_take(data, 99);
    kolo_data_free(&data), kolo_data_free(&all), kolo_data_free(&rest), kolo_data_free(&thrice), kolo_data_free(&late);
    kolo_data_free(&mixed);
    assert_int_equal(kolo_data_get_info(few).samples, 20);
    assert_int_equal(kolo_data_get_info(many).samples, 10);
    for (int i = 0; i < 20; i++) assert_int_equal(row_at(few, i), (55 + i) % N);
    float together[20][COLUMNS]; /* runs of either part, in any order */
    int32_t order[20];
    for (int i = 0; i < 20; i++) order[i] = (i * 7) % 20;
    assert_int_equal(kolo_data_gather(few, NULL, order, 0, 20, &(kolo_gathered){.features = &together[0][0]}), KOLO_OK);
    for (int i = 0; i < 20; i++) assert_memory_equal(together[i], table[(55 + order[i]) % N], sizeof together[i]);
    kolo_data_free(&few), kolo_data_free(&many);
}

/* ------------------------------------------------------------------------------------------ map and cache */

/* Three numbers of four: the row's number, the sum, the random word. */
static kolo_status sum_up(const kolo_map_sample *sample)
{
    if (sample->context) atomic_fetch_add((atomic_int *)sample->context, 1);
    assert_true(sample->in_count == COLUMNS && sample->out_count == 3);
    sample->out[0] = (float)sample->number;
    for (int c = 0; c < COLUMNS; c++) sample->out[1] += sample->in[c];
    sample->out[2] = (float)(sample->random >> 40) + (float)sample->training;
    return KOLO_OK;
}

static void a_function_may_change_the_shape(void **state)
{
    (void)state;
    atomic_int calls = 0;
    kolo_data *data = rows_of(0, N), *mapped = kolo_map(data, sum_up, .shape = {3}, .context = &calls);
    float seen[3], again[3];
    int different = 0;
    assert_int_equal(kolo_data_get_info(mapped).shape[0], 3);
    for (int i = 0; i < N; i++) {
        assert_int_equal(kolo_data_sample(mapped, i, seen, NULL), KOLO_OK);
        float sum = 0;
        for (int c = 0; c < COLUMNS; c++) sum += table[i][c];
        assert_true(seen[0] == (float)i && seen[1] == sum && seen[2] == 0);
        assert_int_equal(kolo_data_sample(mapped, i, seen, NULL, .training = true, .step = 1), KOLO_OK);
        assert_int_equal(kolo_data_sample(mapped, i, again, NULL, .training = true, .step = 1), KOLO_OK);
        assert_memory_equal(seen, again, sizeof seen);
        assert_int_equal(kolo_data_sample(mapped, i, again, NULL, .training = true, .step = 2), KOLO_OK);
        different += seen[2] != again[2];
    }
    assert_true(different == N && atomic_load(&calls) == 4 * N);
    int label;
    kolo_data_sample(mapped, 0, NULL, &label); /* no features are asked for: no call */
    assert_int_equal(atomic_load(&calls), 4 * N);
    kolo_data_free(&data), kolo_data_free(&mapped);
}

typedef struct reading {
    const kolo_data *data;
    int first;
    bool wrong;
} reading;

static void *read_all(void *argument)
{
    reading *r = argument;
    for (int i = 0; i < 4 * N; i++) {
        float seen[3], sum = 0;
        int32_t row = (r->first + i) % N;
        kolo_gather_call call = {.training = true, .step = (uint64_t)i};
        kolo_data_gather(r->data, &call, &row, 0, 1, &(kolo_gathered){.features = seen});
        for (int c = 0; c < COLUMNS; c++) sum += table[row][c];
        r->wrong |= seen[0] != (float)row || seen[1] != sum || seen[2] != 0;
    }
    return NULL;
}

static void what_is_cached_is_worked_out_once(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    atomic_int calls = 0;
    pthread_t threads[THREADS];
    reading readings[THREADS];
    kolo_data *data = rows_of(0, N), *mapped = kolo_map(data, sum_up, .shape = {3}, .context = &calls);
    kolo_data *kept = kolo_cache(mapped);
    for (int t = 0; t < THREADS; t++) {
        readings[t] = (reading){.data = kept, .first = t * 11};
        assert_int_equal(pthread_create(&threads[t], NULL, read_all, &readings[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        assert_false(readings[t].wrong);
    }
    assert_in_range(atomic_load(&calls), N, THREADS * N); /* at most once for each that came at the same moment */
    int before = atomic_load(&calls);
    read_all(&readings[0]);
    assert_int_equal(atomic_load(&calls), before);
    kolo_data_free(&data), kolo_data_free(&mapped), kolo_data_free(&kept);
}

/* ------------------------------------------------------------------------------------------ whole workflows */

/* dist-keras's: standardise, index, one-hot, shuffle, split, train, predict, index, compare. */
static void a_workflow_learns(void **state)
{
    (void)state;
    kolo_data *all = kolo_synthetic_table(KOLO_TRAIN, .samples = 1200), *train, *test;
    assert_non_null(all);
    assert_int_equal(kolo_data_split(all, 0.7, &train, &test), KOLO_OK);
    kolo_data *numbers = kolo_standardize(train), *test_numbers = kolo_standardize(test, .like = train);
    kolo_data *hot = kolo_one_hot(numbers), *test_hot = kolo_one_hot(test_numbers), *ready = kolo_prefetch(hot, 3);
    kolo_data_info info = kolo_data_get_info(ready);
    kolo_model *model = kolo_sequential(kolo_input(info.shape[0]), kolo_dense(24, .activation = KOLO_RELU),
                                        kolo_dense(info.classes, .activation = KOLO_SOFTMAX));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(.learning_rate = 0.01), .seed = 1,
                                  .loss = KOLO_CATEGORICAL_CROSSENTROPY, .metrics = {KOLO_ACCURACY}),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, ready, .epochs = 15, .shuffle_buffer = 300, .class_weight = {1, 2},
                             .validation_data = test_hot, .verbose = KOLO_NONE));
    kolo_scores scores = kolo_evaluate(model, test_hot);
    int64_t samples = kolo_data_get_info(test_hot).samples;
    float *outputs = malloc((size_t)samples * (size_t)info.classes * sizeof *outputs);
    assert_int_equal(kolo_predict(model, test_hot, outputs), KOLO_OK);
    kolo_data *predicted = kolo_data_from_arrays(outputs, .samples = samples, .shape = {info.classes},
                                                 .targets = outputs, .target_shape = {info.classes});
    kolo_data *guesses = kolo_label_index(predicted);
    int right = 0;
    for (int64_t i = 0; i < samples; i++) {
        int guess, label;
        kolo_data_sample(guesses, i, NULL, &guess);
        kolo_data_sample(test_hot, i, NULL, &label);
        right += guess == label;
    }
    assert_near((double)right / (double)samples, scores.accuracy, 1e-9);
    assert_true(scores.accuracy > 1.2 / info.classes);
    free(outputs);
    kolo_model_free(&model);
    kolo_data *const given[] = {all, train, test, numbers, test_numbers, hot, test_hot, ready, predicted, guesses};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) kolo_data_free(&(kolo_data *){given[i]});
}

/* Views are written as what a network sees. */
static void views_are_written_and_read_again(void **state)
{
    (void)state;
    kolo_data *data = rows_of(0, N), *mixed = kolo_shuffle(data), *scaled = kolo_standardize(mixed);
    assert_int_equal(kolo_npy_write(scaled, "x.npy", "y.npy"), KOLO_OK);
    assert_int_equal(kolo_tfrecord_write(scaled, "x.tfrecord"), KOLO_OK);
    kolo_data *npy = kolo_npy("x.npy", "y.npy"), *records = kolo_tfrecord("x.tfrecord");
    for (int i = 0; i < N; i++) {
        float seen[3][COLUMNS];
        int label[3];
        kolo_data *const all[] = {scaled, npy, records};
        for (int k = 0; k < 3; k++) {
            assert_int_equal(kolo_data_sample(all[k], i, seen[k], &label[k]), KOLO_OK);
            assert_memory_equal(seen[k], seen[0], sizeof seen[0]);
            assert_int_equal(label[k], label[0]);
        }
    }
    kolo_data_free(&data), kolo_data_free(&mixed), kolo_data_free(&scaled), kolo_data_free(&npy);
    kolo_data_free(&records);
}

/* An autoencoder's targets are what its features were made, augmented alike. */
static void an_autoencoder_of_a_view_wants_what_it_sees(void **state)
{
    (void)state;
    kolo_data *data = kolo_data_from_arrays(&table[0][0], .samples = N / 4, .shape = {4, 4, 1});
    kolo_data *seen = kolo_augment(data, .shift = {2, 2}), *coder = kolo_data_autoencoder(seen);
    float features[16], targets[16];
    for (int i = 0; i < N / 4; i++) {
        assert_int_equal(kolo_data_sample(coder, i, features, NULL, .targets = targets, .training = true), KOLO_OK);
        assert_memory_equal(features, targets, sizeof features);
    }
    kolo_data *noisy = kolo_data_autoencoder(data), *denoising = kolo_augment(noisy, .shift = {2, 2}, .seed = 4);
    int same = 0;
    for (int i = 0; i < N / 4; i++) {
        assert_int_equal(kolo_data_sample(denoising, i, features, NULL, .targets = targets, .training = true), KOLO_OK);
        assert_memory_equal(targets, &table[4 * i], sizeof targets);
        same += memcmp(features, targets, sizeof features) == 0;
    }
    assert_true(same < N / 8);
    kolo_data_free(&data), kolo_data_free(&seen), kolo_data_free(&coder), kolo_data_free(&noisy);
    kolo_data_free(&denoising);
}

static void what_cannot_be_is_one_sentence(void **state)
{
    (void)state;
    kolo_data *data = rows_of(0, N), *a, *b, *short_rows = kolo_data_from_arrays(table[0], .samples = 3, .shape = {2});
    assert_null(kolo_standardize(NULL));
    assert_string_equal(kolo_last_error().text, "");
    assert_null(kolo_standardize(data, .like = short_rows));
    assert_failure(KOLO_INVALID, "kolo_standardize: .like: wanted samples of {4}, got {2}", NULL);
    assert_null(kolo_min_max(data, .low = 2));
    assert_failure(KOLO_INVALID, "wanted .low below .high, got 2 and 1", NULL);
    assert_null(kolo_min_max(data, .from_high = -3));
    assert_failure(KOLO_INVALID, "wanted .from_low below .from_high, got 0 and -3", NULL);
    assert_null(kolo_one_hot(data, .classes = 3));
    assert_failure(KOLO_INVALID, ".classes: wanted at least 6, as many as there are, got 3", NULL);
    assert_null(kolo_one_hot(short_rows));
    assert_failure(KOLO_INVALID, "wanted data with labels, got data without", NULL);
    assert_null(kolo_label_index(short_rows));
    assert_failure(KOLO_INVALID, "wanted data with targets or labels, got data without", NULL);
    assert_null(kolo_shuffle(data, .buffer_size = -1));
    assert_failure(KOLO_INVALID, ".buffer_size: wanted at least 1, got -1", NULL);
    assert_int_not_equal(kolo_data_split(data, 1.5, &a, &b), KOLO_OK);
    assert_failure(KOLO_INVALID, "wanted a share between 0 and 1 with samples on both sides, got 1.5 of 50", NULL);
    assert_true(!a && !b);
    assert_int_not_equal(kolo_data_split(data, 0.5, NULL, &b), KOLO_OK);
    assert_failure(KOLO_INVALID, "wanted the addresses of two data sets, got NULL", NULL);
    assert_null(kolo_skip(data, N));
    assert_failure(KOLO_INVALID, "kolo_skip: wanted samples within 0 to 49", NULL);
    assert_null(kolo_repeat(data, 0));
    assert_failure(KOLO_INVALID, "wanted 1 to 42949672 times", NULL);
    assert_null(kolo_data_concatenate(data, short_rows));
    assert_failure(KOLO_INVALID, "wanted samples of one shape, got {4} and {2}", NULL);
    assert_null(kolo_map(data, NULL));
    assert_failure(KOLO_INVALID, "wanted a function, got NULL", NULL);
    assert_null(kolo_prefetch(data, 0));
    assert_failure(KOLO_INVALID, "wanted at least 1 batch, got 0", NULL);
    assert_int_not_equal(kolo_data_sample(data, 0, NULL, NULL, .targets = table[0]), KOLO_OK);
    assert_failure(KOLO_INVALID, ".targets: wanted data with targets, got data without", NULL);
    kolo_data *images = kolo_data_from_arrays(table[0], .samples = 3, .shape = {4, 4, 1});
    kolo_data *augmented = kolo_augment(images, .flip = true);
    assert_null(kolo_cache(augmented));
    assert_failure(KOLO_INVALID, "wanted samples that are always the same, got augmented ones", NULL);
    kolo_data_free(&images), kolo_data_free(&augmented), kolo_data_free(&data), kolo_data_free(&short_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(columns_are_standardized_by_the_training_data, fill),
        cmocka_unit_test_setup(channels_are_standardized_or_elements, fill),
        cmocka_unit_test_setup(ranges_are_what_they_are_told_to_be, fill),
        cmocka_unit_test_setup(what_is_no_number_is_left_out_of_the_mean, fill),
        cmocka_unit_test_setup(labels_become_targets_and_labels_again, fill),
        cmocka_unit_test_setup(labels_are_numbered_by_frequency, fill),
        cmocka_unit_test_setup(one_number_is_a_class_above_the_threshold, fill),
        cmocka_unit_test_setup(sequences_have_a_row_for_each_position, fill),
        cmocka_unit_test_setup(shuffling_loses_and_doubles_nothing, fill),
        cmocka_unit_test_setup(a_split_is_a_partition, fill),
        cmocka_unit_test_setup(parts_repeat_and_join, fill),
        cmocka_unit_test_setup(a_function_may_change_the_shape, fill),
        cmocka_unit_test_setup(what_is_cached_is_worked_out_once, fill),
        cmocka_unit_test_setup(a_workflow_learns, fill),
        cmocka_unit_test_setup(views_are_written_and_read_again, fill),
        cmocka_unit_test_setup(an_autoencoder_of_a_view_wants_what_it_sees, fill),
        cmocka_unit_test_setup(what_cannot_be_is_one_sentence, fill),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
