/* tf_config.c: what a process is by its TF_CONFIG, and a sentence for each that does not say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "comm/tf_config.h"

#define WORKERS "\"worker\":[\"one:2222\",\"two:2222\",\"three:2222\"]"

static void check(const char *text, int rank, int size, const char *own)
{
    kolo_cluster cluster;
    assert_int_equal(kolo_tf_config_read(text, &cluster), KOLO_OK);
    assert_int_equal(cluster.rank, rank);
    assert_int_equal(cluster.size, size);
    if (own) assert_string_equal(cluster.addresses[rank], own);
    kolo_cluster_free(&cluster);
}

static void says_what_a_process_is(void **state)
{
    (void)state;
    check("{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"worker\",\"index\":0}}", 0, 3, "one:2222");
    check("{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"worker\",\"index\":\"2\"}}", 2, 3, "three:2222");
    /* The chief comes first, wherever it stands; parameter servers and an evaluator do not count. */
    const char *rest = WORKERS ",\"ps\":[\"s:1\"],\"chief\":[\"boss:1\"],\"evaluator\":[\"e:1\"]";
    static const struct {
        const char *task;
        int rank, size;
        const char *own;
    } tasks[] = {{"\"chief\",\"index\":0", 0, 4, "boss:1"},
                 {"\"worker\",\"index\":0", 1, 4, "one:2222"},
                 {"\"worker\",\"index\":2", 3, 4, "three:2222"},
                 {"\"evaluator\",\"index\":0", 0, 1, NULL}};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"cluster\":{%s},\"task\":{\"type\":%s}}", rest, tasks[i].task);
        check(text, tasks[i].rank, tasks[i].size, tasks[i].own);
    }
    check("{\"cluster\":{\"worker\":[\"[::1]:80\"]},\"task\":{\"type\":\"worker\",\"index\":0}}", 0, 1, "[::1]:80");
}

static void nothing_is_a_process_alone(void **state)
{
    (void)state;
    check(NULL, 0, 1, NULL);
    check("", 0, 1, NULL);
    check("{}", 0, 1, NULL);
}

static void refuses_with_one_sentence(void **state)
{
    (void)state;
#define TASK ",\"task\":{\"type\":\"worker\",\"index\":0}}"
    static const char *const cases[][2] = {
        {"{\"cluster\":", "wanted JSON, got"},
        {"{\"a\":1,\"a\":2}", "wanted JSON, got"},
        {"[1]", "wanted a JSON object with \"cluster\" and \"task\""},
        {"3", "wanted JSON, got \"3\""},
        {"{\"task\":{\"type\":\"worker\",\"index\":0}}", "wanted \"cluster\" with a list"},
        {"{\"cluster\":{}" TASK, "wanted \"cluster\" with a list"},
        {"{\"cluster\":[\"one:1\"]" TASK, "wanted \"cluster\" with a list"},
        {"{\"cluster\":{\"worker\":\"one:1\"}" TASK, "wanted a list of \"host:port\" for \"worker\""},
        {"{\"cluster\":{\"boss\":[\"one:1\"]}" TASK, "got \"boss\""},
        {"{\"cluster\":{\"worker\":[\"one\"]}" TASK, "address of worker 0: wanted \"host:port\", got \"one\""},
        {"{\"cluster\":{\"worker\":[\"one:1\",\"two:0\"]}" TASK,
         "address of worker 1: wanted \"host:port\", got \"two:0\""},
        {"{\"cluster\":{\"worker\":[\"one:65536\"]}" TASK, "got \"one:65536\""},
        {"{\"cluster\":{\"worker\":[\":80\"]}" TASK, "got \":80\""},
        {"{\"cluster\":{\"worker\":[\"a:b:80\"]}" TASK, "got \"a:b:80\""},
        {"{\"cluster\":{\"worker\":[\"tcp://a:80\"]}" TASK, "got \"tcp://a:80\""},
        {"{\"cluster\":{\"worker\":[7]}" TASK, "got \"no text\""},
        {"{\"cluster\":{\"worker\":[\"a:1\",\"b:1\",\"a:1\"]}" TASK, "got \"a:1\" for worker 0 and worker 2"},
        {"{\"cluster\":{\"worker\":[\"a:1\"],\"chief\":[\"a:1\"]}" TASK, "got \"a:1\" for chief 0 and worker 0"},
        {"{\"cluster\":{\"worker\":[\"a:1\"],\"chief\":[\"b:1\",\"c:1\"]}" TASK,
         "at most one chief and one evaluator, got 2 and 0"},
        {"{\"cluster\":{" WORKERS "}}", "wanted \"task\" with the \"type\" and the \"index\""},
        {"{\"cluster\":{" WORKERS "},\"task\":3}", "wanted \"task\" with the \"type\" and the \"index\""},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"index\":0}}", "\"type\" of \"task\": wanted \"chief\""},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"master\",\"index\":0}}", "got \"master\""},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"worker\"}}", "\"index\" of \"task\": wanted a whole number"},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"worker\",\"index\":-1}}", "wanted a whole number"},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"worker\",\"index\":\"x\"}}", "wanted a whole number"},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"worker\",\"index\":1.5}}", "wanted a whole number"},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"worker\",\"index\":3}}", "wanted less than 3"},
        {"{\"cluster\":{" WORKERS "},\"task\":{\"type\":\"chief\",\"index\":0}}",
         "wanted less than 0, as many as \"cluster\" has of \"chief\", got 0"},
        {"{\"cluster\":{\"ps\":[\"s:1\"]},\"task\":{\"type\":\"ps\",\"index\":0}}", "this process is \"ps\" 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kolo_cluster cluster;
        kolo_status status = kolo_tf_config_read(cases[i][0], &cluster);
        kolo_failure failure = kolo_failure_take();
        if (status == KOLO_OK || !strstr(failure.text, cases[i][1]) || strncmp(failure.text, "TF_CONFIG: ", 11) != 0)
            fail_msg("%s: wanted \"%s\", got \"%s\"", cases[i][0], cases[i][1], failure.text);
        kolo_cluster_free(&cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_a_process_is),
        cmocka_unit_test(nothing_is_a_process_alone),
        cmocka_unit_test(refuses_with_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
