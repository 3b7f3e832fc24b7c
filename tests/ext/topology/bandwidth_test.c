/* kolo_peer_bandwidth() of CPU devices: figures that can be, of every pair, and sentences. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "topology/topology.h"

static int environment_is_clean(void **state)
{
    (void)state;
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "KOLO_CPU_DEVICES", "KOLO_THREADS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    setenv("KOLO_DEVICES", "cpu", 1);
    kolo_finish(); /* forgets what was set and pinned */
    kolo_clear_error();
    return 0;
}

/* No memory copies a thousand gigabytes a second, and a line gets to another core within a second however busy it is.
 */
static void every_pair_has_figures(void **state)
{
    (void)state;
    kolo_bandwidth_report report = kolo_peer_bandwidth(.most = 3, .bytes = 1 << 20, .seconds = 1e-3);
    assert_int_equal(report.count, 3);
    assert_int_equal(report.bytes, 1 << 20);
    assert_false(report.gpus);
    for (int a = 0; a < 3; a++) {
        assert_string_equal(report.name[a], ((const char *[]){"cpu:0", "cpu:1", "cpu:2"})[a]);
        for (int b = 0; b < 3; b++) {
            assert_true(report.direct.one_way[a][b] > 0 && report.direct.one_way[a][b] < 1e3);
            assert_true(report.direct.both_ways[a][b] > 0 && report.direct.both_ways[a][b] < 1e3);
            assert_true(report.direct.both_ways[a][b] == report.direct.both_ways[b][a]);
            assert_true(report.direct.latency[a][b] > 0 && report.direct.latency[a][b] < 1e6);
            assert_true(isnan(report.staged.one_way[a][b]));
        }
    }
}

/* Threads of uneven parts, and fewer bytes than threads. */
static void many_threads_copy_all_of_it(void **state)
{
    (void)state;
    kolo_spot nowhere = {.numa_node = -1};
    const kolo_side sides[2] = {{0, &nowhere, 3}, {1, &nowhere, 5}};
    const kolo_copies copies = {.count = 2, .there = true, .back = true, .direct = true};
    static const int64_t sizes[] = {1, 4, 1001};
    for (int i = 0; i < 3; i++) {
        kolo_pair *pair = NULL;
        double seconds = -1;
        assert_int_equal(kolo_cpu_meter.open(sides, sizes[i], &pair), KOLO_OK);
        assert_int_equal(kolo_cpu_meter.time(pair, &copies, &seconds), KOLO_OK);
        assert_true(seconds >= 0);
        assert_int_equal(kolo_cpu_meter.latency(pair, true, true, &seconds), KOLO_OK);
        kolo_cpu_meter.close(&pair);
        assert_null(pair);
    }
}

static void tables(void **state)
{
    (void)state;
    kolo_bandwidth_report report = {.count = 2, .bytes = 32000000, .name = {"cpu:0", "cpu:1"}};
    double figure = 1;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            report.direct.one_way[a][b] = figure++;
            report.direct.both_ways[a][b] = figure++;
            report.direct.latency[a][b] = a == b ? NAN : 123.456;
        }
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(kolo_bandwidth_write(out, &report), KOLO_OK);
    fclose(out);
    assert_string_equal(text, "Of CPU devices: the memory of this machine, which they share; there is no link.\n"
                              "Copies of 32.0 MB.\n\n"
                              "One way, GB/s, by the threads of the device that gets it\n"
                              "from \\ to  cpu:0  cpu:1\n"
                              "───────────────────────\n"
                              "cpu:0       1.00   3.00\n"
                              "cpu:1       5.00   7.00\n\n"
                              "Both ways at once, GB/s\n"
                              "from \\ to  cpu:0  cpu:1\n"
                              "───────────────────────\n"
                              "cpu:0       2.00   4.00\n"
                              "cpu:1       6.00   8.00\n\n"
                              "Latency, µs, until the other has seen it\n"
                              "from \\ to   cpu:0   cpu:1\n"
                              "─────────────────────────\n"
                              "cpu:0           -  123.46\n"
                              "cpu:1      123.46       -\n\n");
    free(text);
}

static void a_stop_ends_it(void **state)
{
    (void)state;
    kolo_request_stop();
    assert_int_equal(kolo_peer_bandwidth(2).count, 0);
    assert_int_equal(kolo_last_error().code, KOLO_INTERRUPTED);
    kolo_clear_error();
    assert_int_equal(kolo_peer_bandwidth(1, .bytes = 1, .seconds = 1e-6).count, 1);
}

static void wrong_calls_are_one_sentence(void **state)
{
    (void)state;
    static const struct {
        kolo_peer_bandwidth_args args;
        const char *sentence;
    } cases[] = {{{.most = -2}, "most: wanted at least 1 device, got -2"},
                 {{.bytes = -1}, "bytes: wanted 1 to 2^40 of them, got -1"},
                 {{.bytes = INT64_MAX}, "bytes: wanted 1 to 2^40 of them, got 9223372036854775807"},
                 {{.seconds = -0.5}, "seconds: wanted more than 0, at most 60, got -0.5"},
                 {{.seconds = NAN}, "seconds: wanted more than 0, at most 60, got nan"},
                 {{.bytes = (int64_t)1 << 40}, "wanted four times 1.1e+03 GB of memory, got "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(kolo_peer_bandwidth_at(&cases[i].args, KOLO_HERE).count, 0);
        assert_non_null(strstr(kolo_last_error().text, cases[i].sentence));
        kolo_clear_error();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_pair_has_figures, environment_is_clean),
        cmocka_unit_test_setup(many_threads_copy_all_of_it, environment_is_clean),
        cmocka_unit_test_setup(tables, environment_is_clean),
        cmocka_unit_test_setup(a_stop_ends_it, environment_is_clean),
        cmocka_unit_test_setup(wrong_calls_are_one_sentence, environment_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
