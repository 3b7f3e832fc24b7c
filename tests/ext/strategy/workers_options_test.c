/* Strategies of workers: a wrong option or file is a sentence, before anything is trained. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"

#define SAMPLES 90 /* 12 batches of 8: the last has 2 samples */
#define BATCH   8

static void refuse(kolo_strategy strategy, const char *sentence)
{
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = strategy);
    if (!kolo_failed()) assert_null(kolo_fit(model, data, .batch_size = BATCH, .verbose = KOLO_NONE));
    if (!strstr(kolo_last_error().text, sentence)) fail_msg("wanted \"%s\" in: %s", sentence, kolo_last_error().text);
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void refuse_file_of(kolo_strategy strategy, const char *text, const char *sentence)
{
    char file[] = "/tmp/kolo_order_XXXXXX";
    int made = mkstemp(file);
    assert_true(made >= 0 && write(made, text, strlen(text)) == (ssize_t)strlen(text));
    close(made);
    strategy.replay = file;
    refuse(strategy, sentence);
    remove(file);
}

static void refuse_file(const char *text, const char *sentence)
{
    refuse_file_of(kolo_downpour(.workers = 2, .window = 2), text, sentence);
}

static void stop_now(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch;
    (void)logs;
    kolo_stop_training(self->model);
}

/* The file of an earlier fit is not taken for the record of one that ended within its first epoch. */
static void a_record_without_epochs_replaces_the_old_file(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {
        kolo_downpour(.workers = 2, .window = 2, .turns = "0 1"), /* worker 0 stops it */
        kolo_easgd(.workers = 2, .window = 2)};
    kolo_data *data = small_data(SAMPLES);
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        char file[] = "/tmp/kolo_order_XXXXXX";
        int made = mkstemp(file);
        assert_true(made >= 0);
        close(made);
        kolo_strategy strategy = strategies[i];
        strategy.record = file;
        kolo_model *model = small_model();
        kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = strategy);
        assert_non_null(kolo_fit(model, data, .batch_size = BATCH, .verbose = KOLO_NONE));
        const kolo_history *history = kolo_fit(model, data, .batch_size = BATCH, .verbose = KOLO_NONE,
                                               .callbacks = {{.name = "stop", .on_train_batch_end = stop_now}});
        assert_true(history && history->stopped && history->epochs == 0);
        kolo_model_free(&model);
        strategy.record = strategy.turns = NULL;
        strategy.replay = file;
        refuse(strategy, "wanted the exchanges of 1 epochs, got those of 0");
        remove(file);
    }
    kolo_data_free(&data);
}

static void wrong_options_are_sentences(void **state)
{
    (void)state;
    refuse(kolo_downpour(.workers = -1), ".workers: wanted 1 to 256, got -1");
    refuse(kolo_downpour(.workers = 257), ".workers: wanted 1 to 256, got 257");
    refuse(kolo_downpour(.workers = 2, .devices = 2), "wanted .workers or .devices, got 2 and 2");
    refuse(kolo_downpour(.workers = 2, .window = -3), ".window: wanted at least 1 batch, got -3");
    refuse(kolo_downpour(.workers = 2, .turns = "0 1 2"), ".turns: wanted numbers of workers from 0 to 1");
    refuse(kolo_downpour(.workers = 2, .turns = ""), ".turns: wanted numbers of workers from 0 to 1");
    refuse(kolo_downpour(.workers = 2, .turns = "0 x"), ".turns: wanted numbers of workers from 0 to 1");
    refuse(kolo_downpour(.workers = 3, .turns = "0 2 0"),
           ".turns: wanted each of the workers 0 to 2, got a script without worker 1");
    refuse(kolo_downpour(.workers = 2, .turns = "0", .replay = "a"), "wanted .turns or .replay, got both");
    refuse(kolo_easgd(.workers = 2, .turns = "0 1"),
           ".turns: wanted none, since workers do not exchange one at a time");
    refuse(kolo_async_easgd(.rho = -1), ".rho: wanted at least 0, got -1");
    refuse(kolo_async_easgd(.rho = 100), "wanted at least 0 and below 1, got 10");
    refuse(kolo_async_eamsgd(.momentum = 1), ".momentum: wanted at least 0 and below 1, got 1");
    refuse(kolo_downpour(.servers = -1), ".servers: wanted at least 1, got -1");
    refuse(kolo_easgd(.servers = 2), ".servers: wanted 1, since workers do not exchange one at a time, got 2");
    refuse(kolo_parameter_server(.window = 2), ".window: wanted 1");
    refuse(kolo_ensemble(.workers = 2, .window = 5), ".window: wanted none, since its workers never exchange, got 5");
    refuse(kolo_mirrored(.devices = 1, .servers = 2), ".servers: wanted a strategy of workers");
    refuse(kolo_downpour(.staging = true), ".staging: wanted a strategy that divides each batch");
    refuse(kolo_mirrored(.devices = 1, .window = 2), ".window: wanted a strategy of workers");
    refuse(kolo_mirrored(.devices = 1, .servers = 2), "strategy mirrored: .servers: wanted a strategy of workers");
    refuse(kolo_mirrored(.devices = 1, .rho = 2), "mirrored: .rho: wanted a strategy of elastic averaging");
    refuse(kolo_mirrored(.devices = 1, .learning_rate = 2), "mirrored: .learning_rate: wanted a strategy of elastic");
    refuse(kolo_mirrored(.devices = 1, .momentum = 0.5), "mirrored: .momentum: wanted a strategy that reads it");
    refuse(kolo_downpour(.workers = 2, .rho = 0), "downpour: .rho: wanted a strategy of elastic averaging");
    refuse(kolo_async_easgd(.workers = 2, .momentum = 0.5), "async_easgd: .momentum: wanted a strategy that reads it");
    refuse(kolo_strategy_of(&kolo_one_device_kind, .servers = 2), "one_device: .servers: wanted a strategy of workers");
    refuse(kolo_downpour(.replay = "/nowhere/order.json"), "/nowhere/order.json: wanted a file to read");
    refuse(kolo_downpour(.record = "/nowhere/order.json"), "/nowhere/order.json");
}

static void wrong_files_are_sentences(void **state)
{
    (void)state;
#define HEAD "{\"strategy\": \"downpour\", \"workers\": 2, \"window\": 2, \"steps\": 12, \"epochs\": "
    refuse_file("", "wanted the order of exchanges in JSON");
    refuse_file("[]", "wanted a file that .record has written");
    refuse_file("{\"strategy\": \"adag\", \"workers\": 2, \"window\": 2, \"steps\": 12, \"epochs\": []}",
                "wanted the exchanges of strategy downpour with 2 workers, 12 batches an epoch and a window of 2, got "
                "those of "
                "adag with 2, 12 and 2");
    refuse_file("{\"strategy\": \"downpour\", \"workers\": 2, \"window\": 3, \"steps\": 12, \"epochs\": []}",
                "got those of downpour with 2, 12 and 3");
    refuse_file("{\"strategy\": \"downpour\", \"workers\": 2, \"window\": 3, \"steps\": 1099511627776, \"epochs\": []}",
                "got those of downpour with 2, 1099511627776 and 3");
    refuse_file(HEAD "[]}", "wanted the exchanges of 1 epochs, got those of 0");
    refuse_file(HEAD "7}", "wanted the exchanges of 1 epochs, got those of 0");
    refuse_file(HEAD "[[[0, [0, 1]]]]}", "wanted 12 batches in an epoch, got 2");
    refuse_file(HEAD "[[[2, [0]]]]}", "wanted [worker, [batches]] with a worker below 2");
    refuse_file(HEAD "[[[-1, [0]]]]}", "wanted [worker, [batches]] with a worker below 2");
    refuse_file(HEAD "[[[0, [0, 0]]]]}", "wanted batches from 0 to 11, each once");
    refuse_file(HEAD "[[[0, [12]]]]}", "wanted batches from 0 to 11, each once");
    refuse_file(HEAD "[[[0, [\"x\"]]]]}", "wanted batches from 0 to 11, each once");
    refuse_file(HEAD "[[0, 1]]}", "wanted [worker, [batches]]");
#undef HEAD
}

/* The worker would never come, and the others would wait for it. */
static void a_round_without_a_worker_is_a_sentence(void **state)
{
    (void)state;
#define HEAD "{\"strategy\": \"easgd\", \"workers\": 2, \"window\": 9, \"steps\": 12, \"epochs\": "
    const char *sentence = "wanted an exchange of each of the 2 workers in each round";
    refuse_file_of(kolo_easgd(.workers = 2, .window = 9), HEAD "[[[0, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]]]}",
                   sentence);
    refuse_file_of(kolo_easgd(.workers = 2, .window = 9),
                   HEAD "[[[0, [0, 1, 2, 3, 4, 5]], [0, [6, 7, 8, 9, 10, 11]], [1, []], [1, []]]]}", sentence);
#undef HEAD
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_without_epochs_replaces_the_old_file),
        cmocka_unit_test(wrong_options_are_sentences),
        cmocka_unit_test(wrong_files_are_sentences),
        cmocka_unit_test(a_round_without_a_worker_is_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
