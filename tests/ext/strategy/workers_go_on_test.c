/* Workers go on from a checkpoint with the bits of a training without a pause. */
#include "ext/strategy/workers.h"

static void fit_to(kolo_model *model, kolo_data *data, int epochs, bool resume)
{
    assert_non_null(kolo_fit(model, data, .epochs = epochs, .resume = resume, .batch_size = BATCH,
                             .verbose = KOLO_NONE));
}

static char file[] = "/tmp/kolo_workers_XXXXXX"; /* of a checkpoint after the first of three epochs */

/* An interrupted training has the bits of one without a pause, whether the same model goes on or another one. */
static void check_going_on(kolo_strategy strategy, kolo_optimizer optimizer, kolo_data *data)
{
    kolo_model *whole = plain_model(optimizer, strategy), *first = plain_model(optimizer, strategy);
    kolo_model *second = plain_model(optimizer, strategy);
    fit_to(whole, data, 3, false);
    fit_to(first, data, 1, false);
    assert_int_equal(kolo_checkpoint_save(first, file), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(second, file), KOLO_OK);
    fit_to(first, data, 3, true);
    fit_to(second, data, 2, true);
    assert_int_equal(kolo_checkpoint_save(second, file), KOLO_OK); /* once more, of a training that has gone on */
    assert_int_equal(kolo_checkpoint_load(second, file), KOLO_OK);
    fit_to(second, data, 3, true);
    assert_memory_equal(weights_of(whole), weights_of(first), bytes_of(whole));
    assert_memory_equal(weights_of(whole), weights_of(second), bytes_of(whole));
    kolo_model_free(&whole);
    kolo_model_free(&first);
    kolo_model_free(&second);
}

static void open_file(void)
{
    strcpy(strrchr(file, '_'), "_XXXXXX");
    int made = mkstemp(file);
    assert_true(made >= 0);
    close(made);
}

static void workers_go_on_from_a_checkpoint(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {kolo_parameter_server(),
                                        kolo_downpour(),
                                        kolo_adag(.window = 2),
                                        kolo_dynsgd(.turns = "0 1 0 1 2"),
                                        kolo_async_easgd(.window = 2),
                                        kolo_async_eamsgd(.window = 2),
                                        kolo_easgd(),
                                        kolo_averaging(),
                                        kolo_local_sgd(.window = 2),
                                        kolo_ensemble()};
    const kolo_optimizer optimizers_with_state[] = {kolo_adam(), kolo_novograd(),
                                                    kolo_sgd(.momentum = 0.9, .accumulate_steps = 3)};
    kolo_data *data = small_data(SAMPLES);
    open_file();
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        for (int o = 0; o < 3; o++) {
            kolo_strategy strategy = strategies[i];
            if (o == 2 && strategy.kind->updates_center) continue; /* the centre updates with each gradient */
            strategy.workers = WORKERS;
            backend = i % 2 ? "enqueued" : NULL;
            check_going_on(strategy, optimizers_with_state[o], data);
        }
    backend = NULL;
    kolo_data_free(&data);
    remove(file);
}

/* With another number of workers, or another strategy, they begin anew with the centre's weights. */
static void other_workers_drop_their_state(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    open_file();
    kolo_model *three = plain_model(kolo_adam(), kolo_async_easgd(.workers = WORKERS));
    kolo_model *two = plain_model(kolo_adam(), kolo_async_easgd(.workers = 2));
    kolo_model *one = plain_model(kolo_adam(), kolo_one_device());
    fit_to(three, data, 1, false);
    assert_int_equal(kolo_checkpoint_save(three, file), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(two, file), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(one, file), KOLO_OK);
    assert_memory_equal(weights_of(three), weights_of(two), bytes_of(three));
    assert_memory_equal(weights_of(three), weights_of(one), bytes_of(three));
    fit_to(two, data, 2, true);
    fit_to(one, data, 2, true);
    kolo_model_free(&three);
    kolo_model_free(&two);
    kolo_model_free(&one);
    kolo_data_free(&data);
    remove(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_go_on_from_a_checkpoint),
        cmocka_unit_test(other_workers_drop_their_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
