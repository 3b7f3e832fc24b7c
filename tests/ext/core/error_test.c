/* A failure is one sentence: several unrelated ones are several, what follows from one is none. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char said[8192];

/* Puts into `said` what is written to stderr while `call` runs. */
static void listen(void (*call)(void))
{
    int err = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    call();
    dup2(err, STDERR_FILENO), close(err);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
}

static int lines(void)
{
    int count = 0;
    for (const char *p = said; *p; p++) count += *p == '\n';
    return count;
}

static void three_unrelated(void)
{
    assert_null(kolo_sequential(kolo_input(0)));
    assert_null(kolo_csv("no such file"));
    assert_int_equal(kolo_pin_device(-1), KOLO_INVALID);
}

static void three_unrelated_failures_are_three_sentences(void **state)
{
    (void)state;
    listen(three_unrelated);
    assert_int_equal(lines(), 3);
    assert_non_null(strstr(said, "kolo_sequential: "));
    assert_non_null(strstr(said, "kolo_csv: no such file"));
    assert_non_null(strstr(said, "kolo_pin_device: "));
    assert_non_null(strstr(kolo_last_error().text, "kolo_sequential: "));
    assert_int_equal(kolo_finish(), 1);
    kolo_clear_error();
    assert_string_equal(kolo_last_error().text, "");
    assert_int_equal(kolo_finish(), 0);
}

static void one_and_what_follows(void)
{
    kolo_model *model = kolo_sequential(kolo_input(0));
    kolo_data *data = kolo_csv("no such file");
    kolo_data *scaled = kolo_standardize(data);
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_MSE);
    const kolo_history *history = kolo_fit(model, scaled);
    kolo_plot_history(history);
    kolo_plot_samples(data);
    kolo_evaluate(model, scaled);
    kolo_save(model, "nowhere");
    kolo_model_free(&model);
    kolo_data_free(&scaled), kolo_data_free(&data);
}

static void what_follows_from_a_failure_is_silent(void **state)
{
    (void)state;
    listen(one_and_what_follows);
    assert_int_equal(lines(), 2);
    kolo_clear_error();
}

static void again_and_again(void)
{
    for (int i = 0; i < 1000; i++) assert_null(kolo_csv("no such file"));
}

static void a_loop_says_it_once_and_again_after_a_clear(void **state)
{
    (void)state;
    listen(again_and_again);
    assert_int_equal(lines(), 1);
    listen(again_and_again);
    assert_int_equal(lines(), 0);
    kolo_clear_error();
    listen(again_and_again);
    assert_int_equal(lines(), 1);
    kolo_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_unrelated_failures_are_three_sentences),
        cmocka_unit_test(what_follows_from_a_failure_is_silent),
        cmocka_unit_test(a_loop_says_it_once_and_again_after_a_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
