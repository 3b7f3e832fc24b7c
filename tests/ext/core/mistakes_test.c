/* Mistakes that once ended the process, trained on nonsense, or were told in another call's words. */
#include "ext/data/files.h"

#include <math.h>

static void null_layers_are_a_sentence(void **state)
{
    (void)state;
    assert_null(kolo_sequential_at(NULL, KOLO_HERE));
    assert_failure(KOLO_INVALID, "kolo_sequential: wanted layers, got NULL", NULL);
    assert_null(kolo_apply_at(kolo_dense(2), NULL, KOLO_HERE).model);
    assert_failure(KOLO_INVALID, "kolo_apply: wanted at least one input, got none", NULL);
}

static void null_options_are_a_sentence(void **state)
{
    (void)state;
    char *argv[] = {(char[]){"program"}, NULL};
    kolo_parse_options(1, argv, NULL, "does nothing");
    assert_failure(KOLO_INVALID, "kolo_parse_options: wanted main's arguments and options to fill in, got NULL", NULL);
}

static void an_archive_without_a_path_is_a_sentence_of_its_own(void **state)
{
    (void)state;
    assert_null(kolo_npz(NULL, "x", "y"));
    assert_failure(KOLO_INVALID, "kolo_npz: wanted the path of a .npz archive, got none", NULL);
    assert_null(kolo_npy(NULL, "y"));
    assert_failure(KOLO_INVALID, "kolo_npy: wanted the name of a .npy file, got none", NULL);
}

static void half_a_cycle_may_go_up(void **state)
{
    (void)state;
    kolo_schedule half = kolo_one_cycle(.total_steps = 10, .pct_start = 0.5, .three_phase = true);
    assert_true(fabs(kolo_schedule_rate(half, 0.1, 4) - 0.1) < 1e-12);
    assert_true(fabs(kolo_schedule_rate(half, 0.1, 8) - 0.1 / 25) < 1e-12);
    assert_true(fabs(kolo_schedule_rate(half, 0.1, 9) - 0.1 / 25 / 1e4) < 1e-12);
    assert_true(isfinite(kolo_schedule_rate(kolo_one_cycle(.total_steps = 10, .pct_start = 0.5), 0.1, 4)));
    assert_true(isnan(kolo_schedule_rate(kolo_one_cycle(.total_steps = 10, .pct_start = 0.6, .three_phase = true), 0.1,
                                         4)));
    assert_failure(KOLO_INVALID, "one_cycle: wanted a .pct_start above 0 and at most 0.5, got 0.6", NULL);
}

static kolo_model *binary_model(void)
{
    kolo_model *model = kolo_sequential(kolo_input(2), kolo_dense(1));
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_BINARY_CROSSENTROPY, .seed = 1);
    return model;
}

static void binary_crossentropy_takes_shares_alone(void **state)
{
    (void)state;
    float x[400] = {0}, y[200] = {0};
    y[3] = 1, y[4] = 0.5f;
    kolo_model *model = binary_model();
    kolo_data *good = kolo_data_from_arrays(x, .samples = 200, .shape = {2}, .targets = y);
    assert_non_null(kolo_fit(model, good, .verbose = 0));
    y[150] = 3.5f;
    kolo_data *bad = kolo_data_from_arrays(x, .samples = 200, .shape = {2}, .targets = y);
    static const char *const sentence =
        "wanted targets from 0 to 1, as binary_crossentropy takes them, got 3.5 in sample 150";
    assert_null(kolo_fit(model, bad, .verbose = 0));
    assert_failure(KOLO_INVALID, "kolo_fit: data: ", sentence, NULL);
    assert_true(isnan(kolo_evaluate(model, bad).loss));
    assert_failure(KOLO_INVALID, "kolo_evaluate: data: ", sentence, NULL);
    assert_null(kolo_fit(model, good, .validation_data = bad, .verbose = 0));
    assert_failure(KOLO_INVALID, "kolo_fit: .validation_data: ", sentence, NULL);
    assert_true(isnan(kolo_train_on_batch(model, bad, 0, 8).loss));
    assert_failure(KOLO_INVALID, sentence, NULL);
    kolo_data *scaled = kolo_standardize(good), *same = kolo_data_autoencoder(scaled);
    assert_true(!isnan(kolo_evaluate(model, scaled).loss));
    kolo_data_free(&same), kolo_data_free(&scaled), kolo_data_free(&good), kolo_data_free(&bad);
    kolo_model_free(&model);
}

/* Targets are checked behind any view, however many samples there are. */
static void late_targets_are_checked_behind_views(void **state)
{
    (void)state;
    enum { samples = 3000 };
    static float x[2 * samples], y[samples];
    for (int i = 0; i < 2 * samples; i++) x[i] = (float)(i % 7);
    y[samples - 1] = -2;
    kolo_model *model = binary_model();
    kolo_data *bad = kolo_data_from_arrays(x, .samples = samples, .shape = {2}, .targets = y);
    kolo_data *scaled = kolo_standardize(bad), *cached = kolo_cache(scaled);
    assert_null(kolo_fit(model, cached, .verbose = 0));
    assert_failure(KOLO_INVALID, "wanted targets from 0 to 1, as binary_crossentropy takes them, got -2 in sample 2999",
                   NULL);
    kolo_data *part = kolo_take(scaled, samples - 1);
    assert_non_null(kolo_fit(model, part, .verbose = 0));
    kolo_data *others[] = {part, cached, scaled, bad};
    for (int i = 0; i < 4; i++) kolo_data_free(&others[i]);
    kolo_model_free(&model);
}

static char said[4096];

/* What a data set says whose labels are 0 to 9 in turn, but for the last one. */
static const char *said_of(int samples, int last)
{
    static float x[1000];
    static int labels[1000];
    for (int i = 0; i < samples; i++) labels[i] = i % 10;
    labels[samples - 1] = last;
    fflush(stderr);
    int err = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    dup2(fileno(file), STDERR_FILENO);
    kolo_data *data = kolo_data_from_arrays(x, .labels = labels, .samples = samples, .shape = {1});
    dup2(err, STDERR_FILENO), close(err);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    assert_non_null(data);
    kolo_data_free(&data);
    return said;
}

static void classes_without_samples_are_told(void **state)
{
    (void)state;
    assert_non_null(strstr(said_of(1000, 200), "only 11 of the 201 classes 0 to 200 have samples"));
    assert_non_null(strstr(said_of(1000, 12), "only 11 of the 13 classes 0 to 12 have samples"));
    assert_non_null(strstr(said_of(150, 200), "only 11 of the 201 classes 0 to 200 have samples"));
    assert_string_equal(said_of(60, 12), ""); /* so few samples may well leave out a class */
    assert_string_equal(said_of(1000, 9), "");
}

static void two_tables_in_a_folder_are_a_sentence(void **state)
{
    (void)state;
    char row[128] = "1";
    for (int i = 0; i < 28; i++) strcat(row, ",0.5");
    strcat(row, "\n");
    char text[1024] = "";
    for (int i = 0; i < 4; i++) strcat(text, row);
    mkdir("tables", 0755);
    write_file("tables/higgs_train_10k.csv", text, strlen(text));
    kolo_data *data = kolo_dataset("tables", KOLO_TRAIN);
    assert_non_null(data);
    kolo_data_free(&data);
    write_gzip("tables/higgs_train_10k.csv.gz", text, strlen(text));
    data = kolo_dataset("tables", KOLO_TEST);
    assert_non_null(data);
    kolo_data_free(&data);
    write_file("tables/higgs_test_5k.csv", text, strlen(text));
    assert_null(kolo_dataset("tables", KOLO_TRAIN));
    assert_failure(KOLO_FORMAT, "wanted one HIGGS table in this folder", "higgs_test_5k.csv", "higgs_train_10k.csv",
                   NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_layers_are_a_sentence),
        cmocka_unit_test(null_options_are_a_sentence),
        cmocka_unit_test(an_archive_without_a_path_is_a_sentence_of_its_own),
        cmocka_unit_test(half_a_cycle_may_go_up),
        cmocka_unit_test(binary_crossentropy_takes_shares_alone),
        cmocka_unit_test(late_targets_are_checked_behind_views),
        cmocka_unit_test(classes_without_samples_are_told),
        cmocka_unit_test(two_tables_in_a_folder_are_a_sentence),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
