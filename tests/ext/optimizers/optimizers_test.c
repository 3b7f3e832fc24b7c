/* Optimizers, with what all of them share, against where Keras's own arrive in 100 steps (keras_optimizers.py), and
 * schedules against Keras's and PyTorch's (schedules.py). */
#include "ext/core/small.h"

#include "replica/trainer.h"

#include <string.h>

#define WEIGHTS 16 /* of a kernel {3, 4} and a bias {4} */
#define STEPS   100
#define POINTS  50

/* Keras forms 1 − β₂ᵗ in float32: at the first steps, where it is about 1e-3, that is off by up to 6e-8 / 1e-3 = 6e-5
 * of itself, and half of that is left under the root. Ours is formed in double. */
#define TOLERANCE 5e-5

/* One device, whose strategy may change the gradient between the shard and the update, as take_step() does. */
static kolo_strategy_kind changes_gradients;

static kolo_trainer *open_trainer(kolo_model *model, kolo_optimizer optimizer)
{
    changes_gradients = kolo_one_device_kind;
    changes_gradients.updates_every_step = false;
    assert_int_equal(kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1,
                                  .strategy = kolo_strategy_of(&changes_gradients), .backend = "reference"),
                     KOLO_OK);
    assert_int_equal(kolo_model_meet(model), KOLO_OK);
    assert_int_equal(kolo_trainer_prepare(model, 1), KOLO_OK);
    return model->trainer;
}

/* One update as if the batch of four samples had had this gradient. */
static void take_step(kolo_replica *replica, const float *gradient)
{
    int64_t count = kolo_replica_count(replica);
    for (int64_t i = 0; i < count; i++) replica->gradient[i] = 4 * gradient[i];
    replica->gradient_on_host = true;
    replica->totals.samples = 4;
    assert_int_equal(kolo_replica_update(replica), KOLO_OK);
}

static void arrives_where_keras_does(void **state)
{
    (void)state;
    const struct {
        kolo_optimizer optimizer;
        double arrived[WEIGHTS];
    } cases[] = {
#include "keras_optimizers.h"
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        kolo_model *model = kolo_sequential(kolo_input(3), kolo_dense(4));
        for (int i = 0; i < WEIGHTS; i++) model->weights[i] = (float)cos(i);
        model->has_weights = true;
        kolo_replica *replica = &open_trainer(model, cases[c].optimizer)->replicas[0];
        for (int step = 0; step < STEPS; step++) {
            float gradient[WEIGHTS];
            for (int i = 0; i < WEIGHTS; i++) gradient[i] = (float)(sin(0.7 * step + i) + 0.3 * (i % 4));
            take_step(replica, gradient);
        }
        for (int i = 0; i < WEIGHTS; i++) {
            double wanted = cases[c].arrived[i], got = (double)replica->weights[i];
            if (!(fabs(got - wanted) <= TOLERANCE * fmax(1, fabs(wanted))))
                fail_msg("line %zu of keras_optimizers.h (%s): weight %d: wanted %.9g, got %.9g", c + 2,
                         cases[c].optimizer.kind->name, i, wanted, got);
        }
        kolo_model_free(&model);
    }
}

/* Several rounds over many chunks: the sums of a whole array must not depend on who formed them. */
static void threads_change_nothing(void **state)
{
    (void)state;
    const kolo_optimizer optimizers[] = {kolo_adamw(.clip_norm = 0.5), kolo_lamb(.global_clip_norm = 0.3),
                                         kolo_lars(.weight_decay = 1e-3), kolo_novograd(.clip_value = 0.1), kolo_sgd()};
    enum { weights = 3 * 20000 + 20000 };
    static float gradient[weights], one[weights];
    for (int i = 0; i < weights; i++) gradient[i] = sinf((float)i);
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            setenv("KOLO_THREADS", threads == 1 ? "1" : "3", 1);
            kolo_model *model = kolo_sequential(kolo_input(3), kolo_dense(20000, .l2 = 1e-3));
            kolo_replica *replica = &open_trainer(model, optimizers[o])->replicas[0];
            assert_int_equal(kolo_engine_lanes(replica->engine), threads);
            for (int step = 0; step < 3; step++) take_step(replica, gradient);
            if (threads == 1) memcpy(one, replica->weights, sizeof one);
            else assert_memory_equal(one, replica->weights, sizeof one);
            kolo_model_free(&model);
        }
    }
    unsetenv("KOLO_THREADS");
}

/* After one clipped step of plain descent the way gone is the clipped gradient. */
static void norms_are_clipped(void **state)
{
    (void)state;
    const struct {
        kolo_optimizer optimizer;
        double kernel, bias;
    } cases[] = {{kolo_sgd(.learning_rate = 1, .clip_norm = 2), 2, 1},
                 {kolo_sgd(.learning_rate = 1, .global_clip_norm = 2), 2 * 6 / sqrt(37), 2 / sqrt(37)}};
    for (size_t c = 0; c < 2; c++) {
        kolo_model *model = kolo_sequential(kolo_input(9), kolo_dense(4));
        kolo_replica *replica = &open_trainer(model, cases[c].optimizer)->replicas[0];
        float gradient[40], *w = replica->weights, *before = model->weights;
        for (int i = 0; i < 40; i++) gradient[i] = i < 36 ? 1 : 0.5f; /* norms 6 and 1 */
        double kernel = 0, bias = 0;
        take_step(replica, gradient);
        for (int i = 0; i < 40; i++) *(i < 36 ? &kernel : &bias) += pow((double)(w[i] - before[i]), 2);
        assert_float_equal(sqrt(kernel), cases[c].kernel, 1e-5);
        assert_float_equal(sqrt(bias), cases[c].bias, 1e-5);
        kolo_model_free(&model);
    }
}

static void schedules_agree(void **state)
{
    (void)state;
    const struct {
        kolo_schedule schedule;
        double rates[POINTS];
    } cases[] = {
#include "keras_schedules.h"
#include "pytorch_schedules.h"
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int i = 0; i < POINTS; i++) {
            double got = kolo_schedule_rate(cases[c].schedule, 0.2, 7 * i), wanted = cases[c].rates[i];
            if (!(fabs(got - wanted) <= 1e-5 * wanted + 1e-7)) /* Keras's are float32 */
                fail_msg("schedule %zu (%s): step %d: wanted %.9g, got %.9g", c, cases[c].schedule.kind->name, 7 * i,
                         wanted, got);
        }
    }
}

static double rates_seen[8];

static void see_rate(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)self;
    if (batch < 8) rates_seen[batch] = kolo_logs_get(logs, "learning_rate");
}

static void a_schedule_is_followed(void **state)
{
    (void)state;
    kolo_data *data = small_data(64);
    kolo_model *model = small_model();
    kolo_schedule schedule = kolo_warmup(kolo_exponential_decay(.decay_steps = 1, .decay_rate = 0.5), .steps = 2);
    kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.1, .schedule = schedule),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = 8, .callbacks = {{.on_train_batch_end = see_rate}}, .verbose = KOLO_NONE);
    for (int i = 0; i < 8; i++) assert_float_equal(rates_seen[i], kolo_schedule_rate(schedule, 0.1, i), 0);
    assert_float_equal(rates_seen[1], 0.05, 1e-12);
    assert_float_equal(rates_seen[4], 0.025, 1e-12);
    assert_float_equal(history->epoch[0].learning_rate, rates_seen[7], 0);
    assert_int_not_equal(kolo_set_learning_rate(model, 0.5), KOLO_OK);
    assert_non_null(strstr(kolo_last_error().text, "wanted an optimizer without a .schedule"));
    assert_float_equal(kolo_get_learning_rate(model), rates_seen[7], 0);
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void mistakes_are_one_sentence(void **state)
{
    (void)state;
    const struct {
        kolo_optimizer optimizer;
        const char *sentence;
    } cases[] = {
        {kolo_rmsprop(.rho = 1), "rmsprop: wanted a .rho from 0 to below 1, got 1"},
        {kolo_adamw(.weight_decay = -1), "adamw: wanted a .weight_decay of at least 0, got -1"},
        {kolo_lamb(.epsilon = NAN), "lamb: wanted an .epsilon of at least 0, got nan"},
        {kolo_adam(.accumulate_steps = -2), "adam: wanted an .accumulate_steps of at least 1, got -2"},
        {kolo_sgd(.clip_value = 1, .clip_norm = 1),
         "sgd: wanted one of .clip_value, .clip_norm and .global_clip_norm, got 2"},
        {kolo_sgd(.schedule = kolo_cosine_decay()), "cosine_decay: wanted a .decay_steps of at least 1, got 0"},
        {kolo_sgd(.schedule = kolo_cosine_decay(.decay_steps = 9, .alpha = 1.5)), ".alpha from 0 to 1, got 1.5"},
        {kolo_sgd(.schedule = kolo_piecewise_constant(.boundaries = {5, 5}, .values = {1, 2, 3})), "that rise, got 5"},
        {kolo_sgd(.schedule = kolo_piecewise_constant(.boundaries = {5}, .values = {1})), "wanted 2 .values"},
        {kolo_sgd(.schedule = kolo_warmup(kolo_constant())), "kolo_warmup: wanted .steps of at least 1"},
        {kolo_sgd(.schedule = kolo_one_cycle(.total_steps = 9, .pct_start = 0.7, .three_phase = true)),
         "one_cycle: wanted a .pct_start above 0 and at most 0.5, got 0.7"},
    };
    kolo_model *model = small_model();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_int_not_equal(kolo_compile(model, .optimizer = cases[c].optimizer), KOLO_OK);
        if (!strstr(kolo_last_error().text, cases[c].sentence))
            fail_msg("wanted \"%s\" in \"%s\"", cases[c].sentence, kolo_last_error().text);
        kolo_clear_error();
    }
    kolo_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrives_where_keras_does), cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(norms_are_clipped),        cmocka_unit_test(schedules_agree),
        cmocka_unit_test(a_schedule_is_followed),   cmocka_unit_test(mistakes_are_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
