/* A training that goes on: with batches of another size, from a checkpoint, on another backend. What the optimizer has
 * gathered goes along. */
#include "ext/core/small.h"

#include <string.h>
#include <unistd.h>

#include "ext/backend/tested.h"

#define REFERENCE "reference"

typedef struct training {
    kolo_precision precision;
    kolo_strategy strategy;
    bool deterministic;
} training;

static const training trainings[] = {
    {0},
    {.precision = KOLO_MIXED_FP16},
    {.strategy = {.kind = &kolo_mirrored_kind, .devices = 3}},
    {.strategy = {.kind = &kolo_mirrored_kind, .devices = 3}, .deterministic = true},
};

static kolo_model *compiled(training t, kolo_optimizer optimizer, const char *backend)
{
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .precision = t.precision, .strategy = t.strategy, .deterministic = t.deterministic,
                                  .backend = backend),
                     KOLO_OK);
    return model;
}

static void learn(kolo_model *model, int batch)
{
    kolo_data *data = small_data(96);
    assert_non_null(kolo_fit(model, data, .batch_size = batch, .epochs = 2, .verbose = KOLO_NONE));
    kolo_data_free(&data);
}

static void compare(kolo_model *model, kolo_model *other, double tolerance)
{
    const float *one = kolo_weight_get(model, 0).values, *two = kolo_weight_get(other, 0).values;
    for (int64_t i = 0; i < kolo_count_params(model); i++)
        if (!(fabs((double)one[i] - (double)two[i]) <= tolerance))
            fail_msg("weight %lld: %.9g and %.9g", (long long)i, (double)one[i], (double)two[i]);
}

static double tolerance_of(training t)
{
    return t.precision == KOLO_MIXED_FP16 ? 2e-2 : 2e-4;
}

static void for_all(void (*check)(training t, kolo_optimizer optimizer))
{
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
        check(trainings[i], kolo_adam(.learning_rate = 0.01));
        check(trainings[i], kolo_novograd(.learning_rate = 0.01));
        check(trainings[i], kolo_sgd(.learning_rate = 0.1, .momentum = 0.9, .accumulate_steps = 2));
    }
}

static void check_sizes(training t, kolo_optimizer optimizer)
{
    kolo_model *wanted = compiled(t, optimizer, REFERENCE), *got = compiled(t, optimizer, KOLO_TEST_BACKEND);
    static const int sizes[] = {32, 12, 48};
    for (int s = 0; s < 3; s++) {
        learn(wanted, sizes[s]);
        learn(got, sizes[s]);
    }
    compare(wanted, got, tolerance_of(t));
    kolo_model_free(&wanted);
    kolo_model_free(&got);
}

static void batches_may_become_others(void **state)
{
    (void)state;
    for_all(check_sizes);
}

/* Trains on one backend, and with what that leaves in a file on the other. */
static kolo_model *resumed(training t, kolo_optimizer optimizer, const char *first, const char *second)
{
    char path[] = "/tmp/kolo-go-on-XXXXXX";
    close(mkstemp(path));
    kolo_model *before = compiled(t, optimizer, first), *model = compiled(t, optimizer, second);
    learn(before, 32);
    assert_int_equal(kolo_checkpoint_save(before, path), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(model, path), KOLO_OK);
    learn(model, 32);
    unlink(path);
    kolo_model_free(&before);
    return model;
}

static void check_resuming(training t, kolo_optimizer optimizer)
{
    kolo_model *straight = compiled(t, optimizer, KOLO_TEST_BACKEND);
    learn(straight, 32);
    learn(straight, 32);
    kolo_model *same = resumed(t, optimizer, KOLO_TEST_BACKEND, KOLO_TEST_BACKEND);
    compare(straight, same, 0);
    kolo_model *there = resumed(t, optimizer, REFERENCE, KOLO_TEST_BACKEND);
    compare(straight, there, tolerance_of(t));
    kolo_model *back = resumed(t, optimizer, KOLO_TEST_BACKEND, REFERENCE);
    compare(straight, back, tolerance_of(t));
    kolo_model_free(&straight);
    kolo_model_free(&same);
    kolo_model_free(&there);
    kolo_model_free(&back);
}

static void checkpoints_go_on_anywhere(void **state)
{
    (void)state;
    for_all(check_resuming);
}

int main(void)
{
    setenv("KOLO_CPU_DEVICES", "3", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_may_become_others),
        cmocka_unit_test(checkpoints_go_on_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
