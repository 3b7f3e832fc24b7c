/* What a hook may do to a training that runs: free its data, ask it to stop, train another model; and what it is
 * told. */
#include <math.h>
#include <string.h>

#include "ext/core/small.h"

static kolo_model *compiled(void)
{
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                                  .deterministic = true),
                     KOLO_OK);
    return model;
}

/* ---------------------------------------------------------------- data that is freed */

static void free_data(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch, (void)logs;
    kolo_data **data = self->user;
    kolo_data_free(&data[0]);
    kolo_data_free(&data[1]);
}

static double loss_of(kolo_callback callback, kolo_data **data)
{
    data[0] = small_data(40);
    data[1] = small_data(12);
    kolo_model *model = compiled();
    const kolo_history *history = kolo_fit(model, data[0], .epochs = 2, .batch_size = 8, .validation_data = data[1],
                                           .verbose = KOLO_NONE, .callbacks = {callback});
    assert_non_null(history);
    double loss = history->epoch[1].val_loss;
    kolo_model_free(&model);
    return loss;
}

static void data_freed_in_a_hook_stay_until_the_fit_ends(void **state)
{
    (void)state;
    kolo_data *freed[2], *kept[2];
    double loss = loss_of((kolo_callback){.on_train_batch_end = free_data, .user = freed}, freed);
    assert_null(freed[0]);
    assert_true(loss == loss_of((kolo_callback){0}, kept));
    kolo_data_free(&kept[0]);
    kolo_data_free(&kept[1]);
}

/* ---------------------------------------------------------------- a stop */

typedef struct request {
    kolo_data *data;
    kolo_model *other;
    int batches;
} request;

static void stop_and_score(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch, (void)logs;
    request *asked = self->user;
    asked->batches++;
    kolo_request_stop();
    assert_true(isnan(kolo_evaluate(self->model, asked->data).loss));
}

static void stop_and_fit(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch, (void)logs;
    request *asked = self->user;
    asked->batches++;
    kolo_request_stop();
    const kolo_history *history = kolo_fit(asked->other, asked->data, .verbose = KOLO_NONE);
    assert_true(history && history->stopped && history->epochs == 0);
}

/* What runs inside the hook ends, and so does the training around it. */
static void check_stop(void (*hook)(kolo_callback *self, int batch, const kolo_logs *logs))
{
    request asked = {.data = small_data(40), .other = compiled()};
    kolo_model *model = compiled();
    const kolo_history *history = kolo_fit(model, asked.data, .epochs = 3, .batch_size = 8, .verbose = KOLO_NONE,
                                           .callbacks = {(kolo_callback){.on_train_batch_end = hook, .user = &asked}});
    assert_true(history && history->stopped && history->epochs == 0);
    assert_int_equal(asked.batches, 1);
    history = kolo_fit(model, asked.data, .verbose = KOLO_NONE); /* and nothing after it */
    assert_true(history && !history->stopped && history->epochs == 1);
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_model_free(&asked.other);
    kolo_data_free(&asked.data);
}

static void a_stop_obeyed_in_a_hook_ends_the_fit_too(void **state)
{
    (void)state;
    check_stop(stop_and_score);
    check_stop(stop_and_fit);
}

static void gradients_obey_a_stop(void **state)
{
    (void)state;
    kolo_data *data = small_data(40);
    kolo_model *model = compiled();
    kolo_request_stop();
    assert_true(isnan(kolo_gradients(model, data, NULL)));
    assert_int_equal(kolo_last_error().code, KOLO_INTERRUPTED);
    assert_true(isfinite(kolo_gradients(model, data, NULL))); /* which was its end */
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- what a hook is told */

static void note_seconds(kolo_callback *self, int batch, const kolo_logs *logs)
{
    double *seconds = self->user;
    seconds[batch] = kolo_logs_get(logs, "seconds");
    assert_true(fabs(kolo_logs_get(logs, "images_per_second") * seconds[batch] - 8 * (batch + 1)) < 1e-6);
}

static void a_batch_ends_with_the_time_so_far(void **state)
{
    (void)state;
    double seconds[5] = {0};
    kolo_callback callback = {.on_train_batch_end = note_seconds, .user = seconds};
    kolo_data *data = small_data(40);
    kolo_model *model = compiled();
    const kolo_history *history = kolo_fit(model, data, .batch_size = 8, .verbose = KOLO_NONE, .callbacks = {callback});
    assert_non_null(history);
    assert_true(seconds[0] > 0 && seconds[1] > seconds[0] && seconds[4] > seconds[3]);
    assert_true(history->epoch[0].seconds >= seconds[4]);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void of_two_mistakes_in_a_callback_the_first_is_told(void **state)
{
    (void)state;
    kolo_data *data = small_data(40);
    kolo_model *model = compiled();
    assert_null(kolo_fit(model, data, .callbacks = {kolo_reduce_lr_on_plateau(.factor = 2, .monitor = "nothing")}));
    assert_non_null(strstr(kolo_last_error().text,
                           ": kolo_fit: kolo_reduce_lr_on_plateau: .factor: wanted a number below 1, got 2"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_freed_in_a_hook_stay_until_the_fit_ends),
        cmocka_unit_test(a_stop_obeyed_in_a_hook_ends_the_fit_too),
        cmocka_unit_test(gradients_obey_a_stop),
        cmocka_unit_test(a_batch_ends_with_the_time_so_far),
        cmocka_unit_test(of_two_mistakes_in_a_callback_the_first_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
