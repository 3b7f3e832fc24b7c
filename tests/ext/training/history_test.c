/* Histories of one's own: copied, read from a file, looked at by name, plotted; and files that are none. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/kolo-history-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static const kolo_history *train(kolo_model *model, kolo_data *data, int epochs)
{
    return kolo_fit(model, data, .epochs = epochs, .validation_split = 0.2, .validation_freq = 2, .verbose = KOLO_NONE);
}

static kolo_model *compiled(void)
{
    kolo_model *model = small_model();
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_adam(), .seed = 1,
                                  .metrics = {KOLO_ACCURACY, KOLO_F1(KOLO_MACRO)}),
                     KOLO_OK);
    return model;
}

static void same(double a, double b)
{
    assert_true((isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fabs(a));
}

/* Numbers in the file have ten digits. */
static void equal(const kolo_history *a, const kolo_history *b)
{
    static const char *const names[] = {"loss",           "accuracy",           "val_loss",         "val_accuracy",
                                        "f1_score_macro", "val_f1_score_macro", "seconds",          "images",
                                        "steps",          "learning_rate",      "images_per_second"};
    assert_int_equal(a->epochs, b->epochs);
    assert_int_equal(a->metrics, b->metrics);
    assert_int_equal(a->ranks, b->ranks);
    assert_int_equal(a->devices, b->devices);
    assert_int_equal(a->stopped, b->stopped);
    for (int e = 0; e < a->epochs; e++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            same(kolo_history_get(a, e, names[i]), kolo_history_get(b, e, names[i]));
}

static void a_copy_and_a_file_survive_the_next_fit(void **state)
{
    (void)state;
    kolo_data *data = small_data(60);
    kolo_model *model = compiled();
    const kolo_history *history = train(model, data, 3);
    assert_true(isnan(kolo_history_get(history, 0, "val_loss")) && !isnan(kolo_history_get(history, 1, "val_loss")));
    kolo_history *copy = kolo_history_copy(history);
    assert_int_equal(kolo_history_save(history, "h.json"), KOLO_OK);
    kolo_history *loaded = kolo_history_load("h.json");
    equal(history, copy);
    equal(copy, loaded);
    double loss = kolo_history_get(copy, 2, "loss");
    train(model, data, 1);
    kolo_model_free(&model);
    assert_int_equal(copy->epochs, 3);
    same(copy->epoch[2].loss, loss);
    assert_string_equal(loaded->metric_name[1], "f1_score_macro");
    kolo_history_free(&copy);
    kolo_history_free(&loaded);
    assert_null(loaded);
    kolo_history_free(&loaded);
    kolo_data_free(&data);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void refused(const char *path, const char *part)
{
    assert_null(kolo_history_load(path));
    if (!strstr(kolo_last_error().text, part)) fail_msg("wanted \"%s\" in \"%s\"", part, kolo_last_error().text);
    kolo_clear_error();
}

static void what_is_no_history_is_refused(void **state)
{
    (void)state;
    refused("nowhere.json", "nowhere.json: wanted a file to read");
    refused(NULL, "wanted the name of a file, got NULL");
    refused(".", "wanted a history, got a folder or a device");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    refused("pipe", "wanted a history, got a folder or a device");
    write_text("a", "{\"epochs\": [1, 2");
    refused("a", "line 1: wanted a history in JSON");
    write_text("a", "[1, 2]");
    refused("a", "a JSON object with a list of \"epochs\"");
    write_text("a", "");
    refused("a", "wanted a history in JSON");
}

/* Only what is known is taken; what is odd is no number. */
static void odd_histories_are_read_as_far_as_they_go(void **state)
{
    (void)state;
    write_text("a", "{\"ranks\": -3, \"metrics\": [1, \"a name that is longer than any metric may have\", \"f1\"],"
                    "\"epochs\": [{\"loss\": \"x\", \"f1\": 0.5, \"steps\": 1e300}, 7, null]}");
    kolo_history *history = kolo_history_load("a");
    assert_non_null(history);
    assert_int_equal(history->epochs, 3);
    assert_int_equal(history->metrics, 1);
    assert_int_equal(history->ranks, 1);
    assert_true(isnan(history->epoch[0].loss) && isnan(history->epoch[2].metric[0]));
    same(kolo_history_get(history, 0, "f1"), 0.5);
    kolo_history_free(&history);
    write_text("a", "{\"ranks\": 8, \"devices\": 1, \"epochs\": [{\"loss\": 1, \"accuracy\": 0.25}]}");
    history = kolo_history_load("a"); /* of before metrics had a list */
    assert_int_equal(history->metrics, 1);
    assert_string_equal(history->metric_name[0], "accuracy");
    same(history->epoch[0].metric[0], 0.25);
    kolo_history_free(&history);
}

static void a_plot_says_what_it_lacks(void **state)
{
    (void)state;
    kolo_epoch epochs[2] = {{.loss = 2, .accuracy = 0.5, .val_loss = NAN, .metric = {0.5}, .val_metric = {NAN}},
                            {.loss = 1, .accuracy = 0.75, .val_loss = NAN, .metric = {0.75}, .val_metric = {NAN}}};
    kolo_history history = {.epochs = 2, .epoch = epochs, .metrics = 1, .metric_name = {"accuracy"}};
    assert_int_equal(kolo_plot_history(&history, .file = "h.svg"), KOLO_OK);
    struct stat info;
    assert_int_equal(stat("h.svg", &info), 0);
    assert_true(info.st_size > 1000);
    assert_int_equal(kolo_plot_history(&history, .metrics = {"auc"}), KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "wanted what the history tells of, got \"auc\""));
    kolo_clear_error();
    assert_int_equal(kolo_plot_history(&history, .file = "h.gif"), KOLO_INVALID);
    kolo_clear_error();
    assert_int_not_equal(kolo_plot_history(NULL), KOLO_OK);
    history.epochs = 0;
    assert_int_equal(kolo_plot_history(&history), KOLO_INVALID);
    kolo_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_and_a_file_survive_the_next_fit),
        cmocka_unit_test(what_is_no_history_is_refused),
        cmocka_unit_test(odd_histories_are_read_as_far_as_they_go),
        cmocka_unit_test(a_plot_says_what_it_lacks),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
