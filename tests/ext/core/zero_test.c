/* A zero that is written is a zero; an option that is left out has its default. */
#include "ext/core/small.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static kolo_data *data;

static int open_data(void **state)
{
    (void)state;
    data = kolo_synthetic_table(KOLO_TRAIN, .samples = 64, .features = 4);
    return data ? 0 : -1;
}

static int close_data(void **state)
{
    (void)state;
    kolo_data_free(&data);
    return 0;
}

static kolo_model *trained(kolo_optimizer optimizer)
{
    kolo_model *model = kolo_sequential(kolo_input(4), kolo_dense(2));
    assert_int_equal(kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                                  .deterministic = true),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .epochs = 2, .batch_size = 16, .verbose = 0));
    return model;
}

static void assert_same(kolo_optimizer one, kolo_optimizer other, bool same)
{
    kolo_model *a = trained(one), *b = trained(other);
    kolo_weight left = kolo_weight_get(a, 0), right = kolo_weight_get(b, 0);
    assert_int_equal(memcmp(left.values, right.values, (size_t)left.count * sizeof(float)) == 0, same);
    kolo_model_free(&a), kolo_model_free(&b);
}

static void a_decay_of_zero_is_none(void **state)
{
    (void)state;
    double none = 0;
    assert_same(kolo_adamw(.weight_decay = 0), kolo_adam(), true);
    assert_same(kolo_adamw(.weight_decay = none), kolo_adam(), true);
    assert_same(kolo_adamw(.learning_rate = 1e-3, .weight_decay = 0.0), kolo_adam(), true);
    assert_same(kolo_adamw(), kolo_adam(.weight_decay = 0.004), true);
    assert_same(kolo_adamw(.weight_decay = KOLO_NONE), kolo_adam(), true);
    assert_same(kolo_adamw(.schedule = kolo_constant(.initial_learning_rate = 1e-3)), kolo_adam(.weight_decay = 0.004),
                true);
}

static void other_zeros_of_optimizers_are_zeros(void **state)
{
    (void)state;
    assert_same(kolo_sgd(.learning_rate = 0), kolo_sgd(.learning_rate = KOLO_NONE), true);
    assert_same(kolo_adam(.beta_1 = 0), kolo_adam(.beta_1 = KOLO_NONE), true);
    assert_same(kolo_rmsprop(.rho = 0), kolo_rmsprop(.rho = KOLO_NONE), true);
    assert_same(kolo_lars(.momentum = 0), kolo_lars(.momentum = KOLO_NONE), true);
    assert_same(kolo_adagrad(.initial_accumulator_value = 0), kolo_adagrad(.initial_accumulator_value = KOLO_NONE),
                true);
    assert_same(kolo_adam(.beta_1 = 0), kolo_adam(), false);
    kolo_model *model = kolo_sequential(kolo_input(4), kolo_dense(2));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(.accumulate_steps = 0)), KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "wanted an .accumulate_steps of at least 1, got 0"));
    kolo_clear_error();
    kolo_model_free(&model);
}

static void zeros_of_schedules_are_zeros(void **state)
{
    (void)state;
    kolo_schedule ends = kolo_polynomial_decay(.decay_steps = 10, .end_learning_rate = 0);
    assert_true(kolo_schedule_rate(ends, 0.1, 10) == 0);
    assert_true(kolo_schedule_rate(kolo_polynomial_decay(.decay_steps = 10), 0.1, 10) == 1e-4);
    assert_true(kolo_schedule_rate(kolo_constant(.initial_learning_rate = 0), 0.1, 10) == 0);
    assert_true(kolo_schedule_rate(kolo_constant(), 0.1, 10) == 0.1);
    assert_true(kolo_schedule_rate(kolo_one_cycle(.total_steps = 10, .max_learning_rate = 0), 0.1, 3) == 0);
    kolo_schedule pieces = kolo_piecewise_constant(.boundaries = {2, 4}, .values = {0, 0.1, 0});
    assert_true(kolo_schedule_rate(pieces, 0.5, 1) == 0);
    assert_true(kolo_schedule_rate(pieces, 0.5, 3) == 0.1);
    assert_true(kolo_schedule_rate(pieces, 0.5, 9) == 0);
}

/* What a model of this layer says for the sample {1, 2, 3, 4}, normalised by running statistics after one epoch. */
static double moving_mean(kolo_layer layer)
{
    kolo_model *model = kolo_sequential(kolo_input(4), layer, kolo_dense(2));
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3);
    kolo_fit(model, data, .batch_size = 64, .verbose = KOLO_NONE);
    double mean = kolo_weight_get(model, 2).values[0];
    kolo_model_free(&model);
    return mean;
}

static void zeros_of_layers_are_zeros_or_a_sentence(void **state)
{
    (void)state;
    assert_true(moving_mean(kolo_batch_norm(.momentum = 0)) == moving_mean(kolo_batch_norm(.momentum = KOLO_NONE)));
    assert_true(moving_mean(kolo_batch_norm(.momentum = 0)) != moving_mean(kolo_batch_norm()));
    assert_null(kolo_sequential(kolo_input(4), kolo_batch_norm(.epsilon = 0)));
    assert_non_null(strstr(kolo_last_error().text, "epsilon: wanted more than 0, got 0"));
    kolo_clear_error();
    assert_null(kolo_sequential(kolo_input(4), kolo_layer_norm(.epsilon = 0)));
    assert_non_null(strstr(kolo_last_error().text, "epsilon: wanted a number above 0, got 0"));
    kolo_clear_error();
    kolo_model *model = kolo_sequential(kolo_input(4, 4, 1), kolo_zero_padding2d(2, .top = 0), kolo_flatten(),
                                        kolo_dense(1, .no_bias = true));
    assert_int_equal(kolo_count_params(model), 6 * 8);
    kolo_model_free(&model);
    model = kolo_sequential(kolo_input(4), kolo_dense(2));
    assert_non_null(model);
    kolo_model_free(&model);
}

/* Of stdout while `call` runs. */
static long printed(void (*call)(void))
{
    fflush(stdout);
    int out = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    dup2(fileno(file), STDOUT_FILENO);
    call();
    fflush(stdout);
    dup2(out, STDOUT_FILENO), close(out);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fclose(file);
    return size;
}

static kolo_model *silent_model;

static void fit_in_silence(void)
{
    kolo_fit(silent_model, data, .verbose = 0);
}
static void fit_as_usual(void)
{
    kolo_fit(silent_model, data);
}

static void a_fit_of_verbose_zero_prints_nothing(void **state)
{
    (void)state;
    silent_model = trained(kolo_sgd());
    assert_int_equal(printed(fit_in_silence), 0);
    assert_true(printed(fit_as_usual) > 0);
    kolo_model_free(&silent_model);
}

static bool draws_the_same(uint64_t one, uint64_t other)
{
    kolo_model *a = kolo_sequential(kolo_input(4), kolo_dense(2)), *b = kolo_sequential(kolo_input(4), kolo_dense(2));
    kolo_compile(a, .seed = one), kolo_compile(b, .seed = other);
    bool same = memcmp(kolo_weight_get(a, 0).values, kolo_weight_get(b, 0).values, 8 * sizeof(float)) == 0;
    kolo_model_free(&a), kolo_model_free(&b);
    return same;
}

static void a_seed_of_zero_is_a_seed(void **state)
{
    (void)state;
    assert_true(draws_the_same(0, 0));
    assert_false(draws_the_same(0, 1));
    assert_false(draws_the_same(KOLO_NEW_SEED, KOLO_NEW_SEED));
    kolo_model *a = kolo_sequential(kolo_input(4), kolo_dense(2)), *b = kolo_sequential(kolo_input(4), kolo_dense(2));
    kolo_compile(a), kolo_compile(b);
    assert_true(memcmp(kolo_weight_get(a, 0).values, kolo_weight_get(b, 0).values, 8 * sizeof(float)) != 0);
    kolo_model_free(&a), kolo_model_free(&b);
}

static float *weighted(const kolo_fit_args *args)
{
    kolo_model *model = kolo_sequential(kolo_input(4), kolo_dense(3));
    kolo_fit_args fit = *args;
    float *weights = malloc(12 * sizeof *weights);
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3);
    fit.model = model, fit.data = data, fit.no_shuffle = true;
    assert_non_null(weights);
    assert_non_null(kolo_fit_at(&fit, KOLO_HERE));
    memcpy(weights, kolo_weight_get(model, 0).values, 12 * sizeof *weights);
    kolo_model_free(&model);
    return weights;
}
#define WEIGHTED(...) weighted(&(const kolo_fit_args){._ = #__VA_ARGS__, .verbose = KOLO_NONE, __VA_ARGS__})

static void a_class_weight_of_zero_is_none(void **state)
{
    (void)state;
    double none = 0;
    float *same[] = {WEIGHTED(.class_weight = {2, KOLO_NONE}), WEIGHTED(.class_weight = {2, 0}),
                     WEIGHTED(.class_weight = {2, none}), WEIGHTED(.class_weight[1] = 0, .class_weight[0] = 2),
                     WEIGHTED(.epochs = 1, .class_weight = {[1] = 0, [0] = 2})};
    float *other[] = {WEIGHTED(.class_weight = {2}), WEIGHTED(.class_weight = {2, 1})};
    for (int i = 1; i < 5; i++) assert_memory_equal(same[i], same[0], 12 * sizeof(float));
    assert_memory_equal(other[0], other[1], 12 * sizeof(float));
    assert_memory_not_equal(other[0], same[0], 12 * sizeof(float));
    for (int i = 0; i < 5; i++) free(same[i]);
    free(other[0]), free(other[1]);
}

static void zeros_of_callbacks_are_zeros(void **state)
{
    (void)state;
    kolo_callback callback = kolo_reduce_lr_on_plateau(.patience = 0, .min_delta = 0);
    assert_int_equal(callback.reduce_lr_on_plateau.patience, KOLO_NONE);
    assert_true(callback.reduce_lr_on_plateau.min_delta == KOLO_NONE);
    assert_true(callback.reduce_lr_on_plateau.factor == 0);
    assert_true(kolo_early_stopping(.baseline = 0).early_stopping.baseline == KOLO_NONE);
    assert_true(kolo_early_stopping().early_stopping.baseline == 0);
    assert_true(kolo_gradient_noise_scale(.smoothing = 0).gradient_noise_scale.smoothing == KOLO_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decay_of_zero_is_none),
        cmocka_unit_test(other_zeros_of_optimizers_are_zeros),
        cmocka_unit_test(zeros_of_schedules_are_zeros),
        cmocka_unit_test(zeros_of_layers_are_zeros_or_a_sentence),
        cmocka_unit_test(a_fit_of_verbose_zero_prints_nothing),
        cmocka_unit_test(a_seed_of_zero_is_a_seed),
        cmocka_unit_test(a_class_weight_of_zero_is_none),
        cmocka_unit_test(zeros_of_callbacks_are_zeros),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
