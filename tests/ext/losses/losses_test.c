/* Every loss: its value and gradient as Keras has them (keras_losses.py), weighted and of several rows, and the
 * gradient against finite differences. Losses are computed as a backend does, by kolo_host_loss(). */
#include "ext/core/small.h"

#include <string.h>

#include "backend/backend.h"

typedef enum truth { LABEL, SOFT, HALF, REAL } truth;

typedef struct loss_row {
    kolo_loss loss;
    truth kind;
    int n, rows;
    bool weighted;
    double value, slope, square;
} loss_row;

enum { SAMPLES = 6, MOST = SAMPLES * 3 * 5, MICROBATCH = SAMPLES + 2 };

/* A loss at work on one microbatch, two samples of which are padding. */
typedef struct bench {
    kolo_plan plan;
    kolo_value values[2];
    kolo_op op;
    float z[MICROBATCH * 15], gradient[MICROBATCH * 15], targets[MOST], weights[SAMPLES];
    int32_t labels[SAMPLES * 3];
    kolo_call call;
    kolo_totals totals;
    void *memory[2];
} bench;

static void fill_targets(bench *b, truth kind, int count, int n)
{
    for (int k = 0; k < count; k += n) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += exp(cos(0.9 * (k + i)));
        for (int i = 0; i < n; i++) {
            double wave = cos(0.9 * (k + i));
            b->targets[k + i] = (float)(kind == SOFT ? exp(wave) / sum : kind == HALF ? 0.5 + 0.5 * wave : 2 * wave);
        }
        b->labels[k / n] = (k / n * 7 + 3) % n;
    }
}

static void prepare(bench *b, const loss_row *row)
{
    int count = SAMPLES * row->rows * row->n;
    kolo_shape shape = {2, {row->rows, row->n}};
    *b = (bench){.op = {.kind = KOLO_OP_LOSS, .in = {0}, .out = {1}}};
    for (int k = 0; k < count; k++) b->z[k] = (float)(3 * sin(1.7 * k + 0.3));
    for (int s = 0; s < SAMPLES; s++) b->weights[s] = 0.25f * (float)(s % 5);
    fill_targets(b, row->kind, count, row->n);
    b->values[0].shape = b->values[1].shape = shape;
    b->plan = (kolo_plan){.microbatch = MICROBATCH, .values = b->values, .value_count = 2, .loss = row->loss};
    b->memory[0] = b->z;
    b->memory[1] = b->gradient;
    b->call = (kolo_call){.memory = b->memory,
                          .samples = SAMPLES,
                          .labels = row->kind == LABEL ? b->labels : NULL,
                          .targets = row->kind == LABEL ? NULL : b->targets,
                          .weights = row->weighted ? b->weights : NULL,
                          .totals = &b->totals};
}

static double mean_loss(bench *b)
{
    b->totals = (kolo_totals){0};
    assert_int_equal(kolo_host_loss(&b->plan, &b->op, &b->call), KOLO_OK);
    return b->totals.loss / b->totals.samples;
}

static void near(double got, double wanted, const loss_row *row, const char *what)
{
    if (fabs(got - wanted) <= 2e-6 + 3e-6 * fabs(wanted)) return; /* Keras computes in float32 */
    fail_msg("%s (number %g), n %d, rows %d, weighted %d: %s: wanted %.9g, got %.9g", row->loss.kind->name,
             row->loss.number, row->n, row->rows, row->weighted, what, wanted, got);
}

static void values_and_gradients_are_keras_s(void **state)
{
    (void)state;
    static bench b;
    const loss_row loss_rows[] = {
#include "ext/losses/keras_losses.h"
    };
    for (size_t i = 0; i < sizeof loss_rows / sizeof *loss_rows; i++) {
        const loss_row *row = &loss_rows[i];
        prepare(&b, row);
        memset(b.gradient, 0xFF, sizeof b.gradient);
        near(mean_loss(&b), row->value, row, "the loss");
        double slope = 0, square = 0;
        int count = SAMPLES * row->rows * row->n;
        for (int k = 0; k < count; k++) {
            double g = (double)b.gradient[k] / SAMPLES;
            slope += g * cos(k);
            square += g * g;
        }
        near(slope, row->slope, row, "its gradient");
        near(square, row->square, row, "its gradient's square");
        for (int k = count; k < MICROBATCH * row->rows * row->n; k++) assert_true(b.gradient[k] == 0);
    }
}

/* Outputs are float32, so a step of 2^-8 costs 2^-24 · 3 · 2^8: 5e-5. Where the slope jumps (|z − t| and its like)
 * within a step there is nothing to compare. */
static void gradients_are_slopes(void **state)
{
    (void)state;
    static bench b;
    int compared = 0, left_out = 0;
    const loss_row loss_rows[] = {
#include "ext/losses/keras_losses.h"
    };
    for (size_t i = 0; i < sizeof loss_rows / sizeof *loss_rows; i++) {
        const loss_row *row = &loss_rows[i];
        prepare(&b, row);
        mean_loss(&b);
        float gradient[MOST];
        memcpy(gradient, b.gradient, sizeof gradient);
        for (int k = 0; k < SAMPLES * row->rows * row->n; k++) {
            float kept = b.z[k], step = 0x1p-8f;
            bool jump = fabsf(kept - b.targets[k]) < 2 * step;
            b.z[k] = kept + step;
            double up = mean_loss(&b);
            b.z[k] = kept - step;
            double down = mean_loss(&b);
            b.z[k] = kept;
            double slope = (up - down) / (2 * (double)step) * SAMPLES;
            compared += !jump;
            left_out += jump;
            if (!jump && fabs(slope - (double)gradient[k]) > 2e-4)
                fail_msg("%s, element %d: gradient %g, slope %g", row->loss.kind->name, k, (double)gradient[k], slope);
        }
    }
    assert_true(compared > 1000 && left_out * 20 < compared);
}

/* What would overflow if it were computed as it is written. */
static void huge_outputs_give_finite_losses(void **state)
{
    (void)state;
    const kolo_loss losses[] = {KOLO_SPARSE_CROSSENTROPY,
                                KOLO_CATEGORICAL_CROSSENTROPY,
                                KOLO_BINARY_CROSSENTROPY,
                                KOLO_KL_DIVERGENCE,
                                KOLO_LOG_COSH,
                                KOLO_HUBER(1)};
    const float z[3] = {1e4f, -1e4f, 0}, t[3] = {0, 1, 0};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        float gradient[3];
        kolo_row row = {.outputs = z, .count = 3, .label = 1, .targets = t, .number = losses[i].number};
        double loss = losses[i].kind->row(&row, gradient);
        assert_true(isfinite(loss) && loss > 1000);
        for (int k = 0; k < 3; k++) assert_true(isfinite(gradient[k]));
    }
}

static void fails_with(kolo_status status, const char *part)
{
    assert_int_not_equal(status, KOLO_OK);
    if (!strstr(kolo_last_error().text, part)) fail_msg("wanted \"%s\" in \"%s\"", part, kolo_last_error().text);
    kolo_clear_error();
}

static void mistakes_are_told_when_compiling(void **state)
{
    (void)state;
    kolo_model *model = small_model();
    fails_with(kolo_compile(model, .loss = KOLO_LABEL_SMOOTHING(KOLO_SPARSE_CROSSENTROPY, 1)),
               ".loss sparse_crossentropy: label smoothing: wanted a number from 0 to below 1, got 1");
    fails_with(kolo_compile(model, .loss = KOLO_LABEL_SMOOTHING(KOLO_MSE, 0.1)),
               ".loss mse: wanted a cross-entropy in KOLO_LABEL_SMOOTHING(), got a loss that cannot be smoothed");
    fails_with(kolo_compile(model, .loss = KOLO_LABEL_SMOOTHING(KOLO_HUBER(1), 0.1)),
               ".loss huber: wanted a cross-entropy in KOLO_LABEL_SMOOTHING(), got a loss that cannot be smoothed");
    fails_with(kolo_compile(model, .loss = {.kind = &kolo_mse_kind, .number = 3}),
               ".loss mse: wanted no number, got 3");
    fails_with(kolo_compile(model, .loss = KOLO_HUBER(-2)), ".loss huber: delta: wanted a number above 0, got -2");
    const kolo_loss_kind nothing = {.name = "nothing"};
    fails_with(kolo_compile(model, .loss = {&nothing}), "a row(), got none of the second");
    kolo_model_free(&model);
    model = kolo_sequential(kolo_input(4), kolo_dense(6, .activation = KOLO_SOFTMAX), kolo_dropout(0.1));
    fails_with(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY),
               "wanted the activation that sparse_crossentropy takes over in the last layer, got it in layer 1 "
               "(dense), "
               "with layer 2 (dropout) behind it");
    assert_int_equal(kolo_compile(model, .loss = KOLO_MSE), KOLO_OK);
    kolo_model_free(&model);
}

/* The softmax or sigmoid of a last layer is left out for the loss, and there for the outputs; any other stays. */
static void a_last_activation_is_taken_over_or_stays(void **state)
{
    (void)state;
    const struct {
        kolo_loss loss;
        kolo_activation activation;
    } cases[] = {{KOLO_CATEGORICAL_CROSSENTROPY, KOLO_SOFTMAX},
                 {KOLO_BINARY_CROSSENTROPY, KOLO_SIGMOID},
                 {KOLO_MSE, KOLO_SIGMOID},
                 {KOLO_MAE, KOLO_RELU},
                 {KOLO_KL_DIVERGENCE, KOLO_SOFTMAX}};
    kolo_data *data = small_data(40);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(),
                                            kolo_dense(SMALL_CLASSES, .activation = cases[i].activation));
        assert_int_equal(kolo_compile(model, .loss = cases[i].loss, .seed = 5), KOLO_OK);
        float y[40][SMALL_CLASSES];
        assert_int_equal(kolo_predict(model, data, y[0]), KOLO_OK);
        double sum = 0;
        for (int s = 0; s < 40; s++)
            for (int c = 0; c < SMALL_CLASSES; c++) {
                double t = c == s % SMALL_CLASSES, p = (double)y[s][c];
                if (i == 0 || i == 4) sum -= t * log(p);
                if (i == 1) sum -= (t * log(p) + (1 - t) * log(1 - p)) / SMALL_CLASSES;
                if (i == 2) sum += (p - t) * (p - t) / SMALL_CLASSES;
                if (i == 3) sum += fabs(p - t) / SMALL_CLASSES;
            }
        assert_float_equal(kolo_evaluate(model, data).loss, sum / 40, 1e-5);
        kolo_model_free(&model);
    }
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_gradients_are_keras_s),         cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(huge_outputs_give_finite_losses),          cmocka_unit_test(mistakes_are_told_when_compiling),
        cmocka_unit_test(a_last_activation_is_taken_over_or_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
