/* A loss or a metric of a learner's own that forgets a part: it is refused with a sentence, or trains as it should. */
#include "ext/core/small.h"

#include <string.h>

#include "core/error.h"
#include "losses/loss.h"

static double square(const kolo_row *row, float *gradient)
{
    double sum = 0;
    for (int64_t i = 0; i < row->count; i++) {
        float e = row->outputs[i] - row->targets[i];
        sum += (double)(e * e);
        if (gradient) gradient[i] = 2 * e / (float)row->count;
    }
    return sum / (double)row->count;
}

static double square_alone(const kolo_row *row, float *gradient)
{
    double loss = square(row, NULL);
    if (gradient) gradient[0] = 0; /* and none of the others */
    return loss;
}

static void distance(const kolo_row *row, double weight, double *sums)
{
    for (int64_t i = 0; i < row->count; i++)
        sums[0] += weight * fabs((double)(row->outputs[i] - row->targets[i])) / (double)row->count;
}

static double train(kolo_loss loss, kolo_metric metric, double *value)
{
    double last = NAN;
    kolo_data *data = small_data(20);
    kolo_model *model = small_model();
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = loss, .metrics = {metric}, .seed = 3);
    const kolo_history *history =
        kolo_failed() ? NULL : kolo_fit(model, data, .epochs = 2, .batch_size = 10, .verbose = KOLO_NONE);
    if (history) last = history->epoch[1].loss;
    if (history) *value = history->epoch[1].metric[0];
    kolo_model_free(&model);
    kolo_data_free(&data);
    return last;
}

/* Labels become one-hot targets, as with .wants. */
static void targets_without_wants_are_there(void **state)
{
    (void)state;
    const kolo_loss_kind whole = {.name = "square", .wants = KOLO_WANTS_TARGETS, .row = square};
    const kolo_loss_kind less = {.name = "square", .row = square};
    const kolo_metric_kind whole_metric = {.name = "distance", .wants = KOLO_WANTS_TARGETS, .row = distance};
    const kolo_metric_kind less_metric = {.name = "distance", .row = distance};
    double wanted_value = NAN, value = NAN;
    double wanted = train((kolo_loss){&whole, 0, false}, (kolo_metric){&whole_metric, 0}, &wanted_value);
    assert_true(isfinite(wanted) && isfinite(wanted_value));
    double got = train((kolo_loss){&less, 0, false}, (kolo_metric){&less_metric, 0}, &value);
    assert_true(got == wanted && value == wanted_value);
    wanted = train(KOLO_SPARSE_CROSSENTROPY, (kolo_metric){&whole_metric, 0}, &wanted_value);
    got = train(KOLO_SPARSE_CROSSENTROPY, (kolo_metric){&less_metric, 0}, &value);
    assert_true(got == wanted && value == wanted_value);
}

static void a_gradient_that_is_not_written_is_a_sentence(void **state)
{
    (void)state;
    const kolo_loss_kind alone = {.name = "alone", .wants = KOLO_WANTS_TARGETS, .row = square_alone};
    double value;
    assert_true(isnan(train((kolo_loss){&alone, 0, false}, KOLO_ACCURACY, &value)));
    assert_non_null(strstr(kolo_last_error().text,
                           ".loss alone: wanted a row() that writes gradient[0] to gradient[3], "
                           "got nothing in [1]"));
    kolo_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(targets_without_wants_are_there),
                                       cmocka_unit_test(a_gradient_that_is_not_written_is_a_sentence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
