/* Loading a part of a file, remarks in a file. */
#include "ext/data/files.h"

#include <fcntl.h>

static kolo_model *made(int units, const char *last, float first)
{
    kolo_model *model = kolo_sequential(kolo_input(3), kolo_dense(2, .name = "first"),
                                        kolo_dense(units, .no_bias = true, .name = last));
    assert_int_equal(kolo_compile(model, .seed = 1, .backend = "reference"), KOLO_OK);
    for (int i = 0; i < kolo_weight_count(model); i++)
        for (int64_t k = 0; k < kolo_weight_get(model, i).count; k++) kolo_weight_get(model, i).values[k] = first++;
    return model;
}

/* What a call prints on stderr. */
static char told[2000];
static int kept;
static void listen(void)
{
    fflush(stderr);
    kept = dup(STDERR_FILENO);
    int file = open("told", O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
}
static const char *heard(void)
{
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    told[read_whole("told", (unsigned char *)told, sizeof told - 1)] = 0;
    return told;
}

static float value(kolo_model *model, int array, int index)
{
    return kolo_weight_get(model, array).values[index];
}

static void what_both_have_is_taken_by_name(void **state)
{
    (void)state;
    kolo_model *theirs = made(4, "other", 100), *ours = made(2, "last", 0);
    assert_int_equal(kolo_save(theirs, "file"), KOLO_OK);
    assert_int_not_equal(kolo_load(ours, "file"), KOLO_OK);
    kolo_clear_error();
    assert_float_equal(value(ours, 0, 0), 0, 0);
    listen();
    assert_int_equal(kolo_load(ours, "file", .by_name = true), KOLO_OK);
    const char *sentence = heard();
    assert_non_null(strstr(sentence, "took 2 of the model's 3 arrays; skipped \"last.kernel\", which the file has not; "
                                     "\"other.kernel\", which the model has not\n"));
    assert_float_equal(value(ours, 0, 0), 100, 0);
    assert_float_equal(value(ours, 1, 1), 107, 0);
    assert_float_equal(value(ours, 2, 0), 8, 0);
    kolo_model_free(&theirs);
    kolo_model_free(&ours);
}

static void other_shapes_are_skipped_when_asked(void **state)
{
    (void)state;
    kolo_model *theirs = made(4, "last", 100), *ours = made(2, "last", 0);
    assert_int_equal(kolo_save(theirs, "file"), KOLO_OK);
    assert_int_equal(kolo_load(ours, "file", .by_name = true), KOLO_FORMAT);
    assert_failure(KOLO_FORMAT, "wanted the shape {2, 2}, got {2, 4}", NULL);
    assert_float_equal(value(ours, 0, 0), 0, 0);
    listen();
    assert_int_equal(kolo_load(ours, "file", .skip_mismatch = true), KOLO_OK);
    assert_non_null(strstr(heard(), "skipped \"last.kernel\", wanted the shape {2, 2}, got {2, 4}\n"));
    assert_float_equal(value(ours, 0, 0), 100, 0);
    assert_float_equal(value(ours, 2, 0), 8, 0);
    kolo_model_free(&theirs);
    kolo_model_free(&ours);
}

static void nothing_in_common_is_a_failure(void **state)
{
    (void)state;
    kolo_model *theirs = kolo_sequential(kolo_input(3), kolo_dense(2, .name = "a")), *ours = made(2, "last", 0);
    assert_int_equal(kolo_load(theirs, "file", .by_name = true), KOLO_INVALID); /* it has no weights to keep */
    assert_failure(KOLO_INVALID, "no weights yet", NULL);
    assert_int_equal(kolo_compile(theirs, .backend = "reference"), KOLO_OK);
    assert_int_equal(kolo_save(theirs, "file"), KOLO_OK);
    assert_int_equal(kolo_load(ours, "file", .by_name = true), KOLO_FORMAT);
    assert_failure(KOLO_FORMAT, "wanted at least one array that the model has, got none", NULL);
    kolo_model_free(&theirs);
    kolo_model_free(&ours);
}

static void remarks_are_kept(void **state)
{
    (void)state;
    kolo_model *model = made(2, "last", 0);
    assert_int_equal(kolo_save(model, "file", .metadata = {{"author", "Ada"}, {"licence", "CC BY 4.0"}}), KOLO_OK);
    char *author = kolo_read_metadata("file", "author"), *nothing = kolo_read_metadata("file", "nothing");
    assert_string_equal(author, "Ada");
    assert_null(nothing);
    assert_int_equal(kolo_last_error().code, KOLO_OK);
    free(author);
    assert_null(kolo_read_metadata("nowhere", "author"));
    assert_failure(KOLO_NOT_FOUND, "kolo_read_metadata: nowhere", NULL);
    assert_int_equal(kolo_load(model, "file"), KOLO_OK);
    assert_int_equal(kolo_save(model, "file", .metadata = {{"format", "mine"}}), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "wanted different keys other than \"format\"", NULL);
    assert_int_equal(kolo_save(model, "file", .metadata = {{"a", "\xff"}}), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "in UTF-8", NULL);
    kolo_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_both_have_is_taken_by_name),
        cmocka_unit_test(other_shapes_are_skipped_when_asked),
        cmocka_unit_test(nothing_in_common_is_a_failure),
        cmocka_unit_test(remarks_are_kept),
    };
    return cmocka_run_group_tests_name("core/load", tests, enter_folder, leave_folder);
}
