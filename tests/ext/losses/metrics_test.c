/* Every metric as Keras or its definition has it (keras_losses.py), from logits and from probabilities, on both
 * backends, over any number of devices; their names; and the mistakes that are told. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>

#include "losses/loss.h"

typedef struct metric_row {
    kolo_loss loss;
    int n;
    kolo_metric metric;
    double value;
} metric_row;

enum { MANY = 300 };

/* The formulas of keras_losses.py. With several outputs under the binary cross-entropy each has a target of its own. */
static kolo_data *spread(int n, kolo_loss loss)
{
    static float z[MANY * 4], targets[MANY * 4];
    int32_t labels[MANY];
    bool clipped = loss.kind == &kolo_mse_kind, each = loss.kind == &kolo_binary_crossentropy_kind && n > 1;
    for (int s = 0; s < MANY; s++) {
        labels[s] = (s * 7 + s / 11) % (n > 2 ? n : 2);
        for (int i = 0; i < n; i++) {
            int k = s * n + i;
            double there = n == 1 ? labels[s] - 0.5 : labels[s] == i;
            double value = 2.5 * sin(1.3 * k + fmod(0.1 * k, 3)) + 1.2 * there;
            z[k] = (float)(clipped ? fmin(fmax(value, 0), 1) : value);
            targets[k] = sin(2.1 * k) > 0.2;
        }
    }
    return kolo_data_from_arrays(z, each ? NULL : labels, .samples = MANY, .shape = {n},
                                 .targets = each ? targets : NULL, .target_shape = {each ? n : 0},
                                 .classes = each    ? 0
                                            : n > 2 ? n
                                                    : 2);
}

/* A model whose outputs are its inputs. */
static kolo_model *identity(int n)
{
    return kolo_sequential(kolo_input(n), kolo_dense(n, .no_bias = true));
}

static void make_identity(kolo_model *model, int n)
{
    kolo_weight kernel = kolo_weight_get(model, 0);
    for (int i = 0; i < n * n; i++) kernel.values[i] = i % (n + 1) == 0;
}

static void values_are_keras_s(void **state)
{
    const char *backend = *state;
    const metric_row metric_rows[] = {
#include "ext/losses/keras_metrics.h"
    };
    for (size_t i = 0; i < sizeof metric_rows / sizeof *metric_rows; i++) {
        const metric_row *row = &metric_rows[i];
        kolo_data *data = spread(row->n, row->loss);
        kolo_model *model = identity(row->n);
        assert_int_equal(kolo_compile(model, .loss = row->loss, .metrics = {row->metric}, .backend = backend), KOLO_OK);
        make_identity(model, row->n);
        kolo_scores scores = kolo_evaluate(model, data);
        assert_int_equal(scores.metrics, 1);
        if (!(fabs(scores.metric[0] - row->value) < 2e-6)) /* Keras's sums are float32 */
            fail_msg("row %zu, %s under %s, n %d: wanted %.9g, got %.9g", i, scores.metric_name[0],
                     row->loss.kind->name, row->n, row->value, scores.metric[0]);
        kolo_model_free(&model);
        kolo_data_free(&data);
    }
}

#define SEVERAL KOLO_ACCURACY, KOLO_TOP_K(2), KOLO_F1(KOLO_WEIGHTED), KOLO_F1(KOLO_MACRO), KOLO_AUC, KOLO_METRIC_MSE

static const kolo_history *train(kolo_model *model, kolo_data *data, int devices, bool deterministic)
{
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {SEVERAL}, .seed = 4,
                                  .optimizer = kolo_adam(), .strategy = kolo_mirrored(.devices = devices),
                                  .deterministic = deterministic, .backend = "reference"),
                     KOLO_OK);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 2, .batch_size = 50, .validation_split = 0.25, .verbose = KOLO_NONE);
    assert_non_null(history);
    return history;
}

/* In deterministic mode every bit of every metric, else what rounding leaves of them. */
static void devices_agree(void **state)
{
    (void)state;
    kolo_data *data = small_data(210);
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        kolo_model *one = small_model();
        const kolo_history *first = train(one, data, 1, deterministic);
        assert_int_equal(first->metrics, 6);
        for (int devices = 2; devices <= 8; devices *= 2) {
            kolo_model *model = small_model();
            const kolo_history *other = train(model, data, devices, deterministic);
            for (int e = 0; e < 2; e++)
                for (int m = 0; m < 6; m++) {
                    double bound = deterministic ? 0 : 1e-3;
                    assert_true(fabs(first->epoch[e].metric[m] - other->epoch[e].metric[m]) <= bound);
                    assert_true(fabs(first->epoch[e].val_metric[m] - other->epoch[e].val_metric[m]) <= bound);
                }
            kolo_model_free(&model);
        }
        assert_true(first->epoch[1].metric[1] >= first->epoch[1].metric[0]);
        kolo_model_free(&one);
    }
    kolo_data_free(&data);
}

static double seen;

static void look(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)self, (void)epoch;
    seen = kolo_logs_get(logs, "val_f1_score_weighted");
}

static void every_metric_is_known_by_name(void **state)
{
    (void)state;
    kolo_data *data = small_data(80);
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {SEVERAL}, .seed = 4,
                                  .optimizer = kolo_adam()),
                     KOLO_OK);
    const kolo_history *history =
        kolo_fit(model, data, .validation_data = data, .verbose = KOLO_NONE, .callbacks = {{.on_epoch_end = look}});
    static const char *const names[] = {"accuracy", "top_2_accuracy", "f1_score_weighted", "f1_score_macro", "auc",
                                        "mse"};
    kolo_scores scores = kolo_evaluate(model, data);
    for (int m = 0; m < 6; m++) {
        char val_name[64];
        assert_string_equal(history->metric_name[m], names[m]);
        assert_string_equal(scores.metric_name[m], names[m]);
        snprintf(val_name, sizeof val_name, "val_%s", names[m]);
        assert_float_equal(kolo_scores_get(&scores, names[m]), scores.metric[m], 0);
        assert_float_equal(kolo_history_get(history, 0, val_name), scores.metric[m], 0);
        assert_float_equal(kolo_history_get(history, 0, names[m]), history->epoch[0].metric[m], 0);
    }
    assert_float_equal(seen, scores.metric[2], 0);
    assert_float_equal(scores.accuracy, scores.metric[0], 0);
    assert_float_equal(kolo_history_get(history, 0, "val_loss"), scores.loss, 0);
    assert_true(isnan(kolo_history_get(history, 0, "val_nothing")) && isnan(kolo_history_get(history, 1, "loss")));
    assert_true(isnan(kolo_scores_get(&scores, "nothing")));
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void fails_with(kolo_status status, const char *part)
{
    assert_int_not_equal(status, KOLO_OK);
    if (!strstr(kolo_last_error().text, part)) fail_msg("wanted \"%s\" in \"%s\"", part, kolo_last_error().text);
    kolo_clear_error();
}

static void one(const kolo_row *row, double weight, double *sums)
{
    (void)row;
    sums[0] += weight;
}

static void mistakes_are_told_when_compiling(void **state)
{
    (void)state;
    kolo_model *model = small_model();
#define COMPILE(...) kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {__VA_ARGS__})
    fails_with(COMPILE(KOLO_ACCURACY, KOLO_AUC, KOLO_ACCURACY),
               ".metrics: wanted different ones, got \"accuracy\" twice");
    fails_with(COMPILE(KOLO_TOP_K(2), KOLO_TOP_K(2)), "got \"top_2_accuracy\" twice");
    fails_with(COMPILE(KOLO_TOP_K(5)), "wanted a whole k from 1 to 4, as many as a row has outputs, got 5");
    fails_with(COMPILE(KOLO_F1(KOLO_BINARY)), "KOLO_BINARY: wanted one or two outputs a row, got 4");
    fails_with(COMPILE(KOLO_PRECISION(0)), ".metrics precision: wanted KOLO_BINARY, KOLO_MACRO");
    const kolo_metric_kind taken = {.name = "loss", .row = one}, behind = {.name = "val_mine", .row = one},
                           empty = {.name = "mine"}, own = {.name = "mine", .row = one};
    fails_with(COMPILE({&taken}), "wanted a name that says nothing else yet, got \"loss\"");
    fails_with(COMPILE({&behind}), "got \"val_mine\"");
    fails_with(COMPILE({&empty}), "a row(), got none of the second");
    fails_with(COMPILE({&own}, {&own}), "got \"mine\" twice");
    assert_int_equal(COMPILE({&own}, KOLO_ACCURACY), KOLO_OK);
    kolo_model_free(&model);
    model = kolo_sequential(kolo_input(4), kolo_dense(200));
    assert_int_equal(COMPILE(KOLO_F1(KOLO_MACRO)), KOLO_OK);
    kolo_model_free(&model);
    model = kolo_sequential(kolo_input(4), kolo_dense(100));
    assert_int_equal(COMPILE(KOLO_PRECISION(KOLO_MACRO), KOLO_RECALL(KOLO_MACRO), KOLO_F1(KOLO_MACRO)), KOLO_OK);
    kolo_model_free(&model);
    model = kolo_sequential(kolo_input(4), kolo_dense(342));
    fails_with(COMPILE(KOLO_F1(KOLO_MACRO)),
               "wanted at most 1024 sums over the samples in all of them together, got 1026 with \"f1_score_macro\"");
    kolo_model_free(&model);
}

int main(void)
{
    static const char reference[] = "reference", onednn[] = "onednn";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(values_are_keras_s, (void *)(uintptr_t)reference),
        cmocka_unit_test_prestate(values_are_keras_s, (void *)(uintptr_t)onednn),
        cmocka_unit_test(devices_agree),
        cmocka_unit_test(every_metric_is_known_by_name),
        cmocka_unit_test(mistakes_are_told_when_compiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
