/* Which backend computes: by name, by KOLO_BACKEND, by default; and what is said where there is none. */
#include "ext/backend/rig.h"

#include "core/plugin.h"
#include "runtime/runtime.h"

static void assert_found(const char *name, const char *variable, const char *wanted)
{
    const kolo_backend *backend = NULL;
    if (variable) setenv("KOLO_BACKEND", variable, 1);
    if (!variable) unsetenv("KOLO_BACKEND");
    rig_ok(kolo_backend_find(name, KOLO_FLOAT32, &backend));
    assert_non_null(backend);
    assert_string_equal(backend->name, wanted);
    unsetenv("KOLO_BACKEND");
}

static void test_names(void **state)
{
    (void)state;
    assert_found("reference", NULL, "reference");
    assert_found("reference", "onednn", "reference");
    assert_found(NULL, "reference", "reference");
    assert_found("", "reference", "reference");
    assert_found("onednn", NULL, "onednn");
    assert_found(NULL, NULL, "onednn");
}

static void test_unknown(void **state)
{
    (void)state;
    const kolo_backend *backend;
    assert_int_equal(kolo_backend_find("abacus", KOLO_FLOAT32, &backend), KOLO_NOT_FOUND);
    assert_string_equal(kolo_failure_take().text,
                        ".backend: there is no backend \"abacus\"; there are: reference, onednn");
    setenv("KOLO_BACKEND", "../onednn", 1);
    assert_int_equal(kolo_backend_find(NULL, KOLO_FLOAT32, &backend), KOLO_NOT_FOUND);
    assert_non_null(strstr(kolo_failure_take().text, "KOLO_BACKEND: there is no backend \"../onednn\""));
    setenv("KOLO_DEVICES", "cpu", 1);
    assert_int_equal(kolo_backend_find("cuda", KOLO_FLOAT32, &backend), KOLO_NOT_FOUND);
    assert_string_equal(kolo_failure_take().text, "backend \"cuda\": wanted a GPU, got none: KOLO_DEVICES is \"cpu\"");
    unsetenv("KOLO_DEVICES");
    unsetenv("KOLO_BACKEND");
}

static void test_plugins(void **state)
{
    (void)state;
    const char *why = NULL;
    const kolo_plugin *plugin = kolo_plugin_load("onednn", &why);
    assert_non_null(plugin);
    assert_ptr_equal(plugin, kolo_plugin_load("onednn", &why));
    assert_null(kolo_plugin_load("no_such", &why));
    assert_non_null(strstr(why, "libkolo_no_such.so"));
    assert_null(kolo_plugin_load("a_name_that_is_far_too_long_to_be_that_of_a_plugin", &why));
    assert_true(strlen(why) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_plugins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
