/* kolo_topology() of CPU devices: on this machine, and on machines that hwloc is told of. */
#include "ext/topology/described.h"

#include <unistd.h>

#include "topology/topology.h"

static int environment_is_clean(void **state)
{
    (void)state;
    static const char *const names[] = {"HWLOC_SYNTHETIC", "CUDA_VISIBLE_DEVICES", "KOLO_CPU_DEVICES"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    setenv("KOLO_DEVICES", "cpu", 1);
    kolo_finish(); /* forgets what was set and pinned */
    kolo_clear_error();
    return 0;
}

/* Two processors, each of two third-level caches over two second-level ones; cores of two threads. */
#define SERVER "pack:2 [numa] l3:2 l2:2 core:2 pu:2"

static void cores_share_what_is_closest(void **state)
{
    (void)state;
    setenv("HWLOC_SYNTHETIC", SERVER, 1);
    static const struct {
        const char *devices, *machine, *rows[3];
    } cases[] = {
        {"32", SERVER, {"X SAME L2 L2 L3 L3 L3 L3 NODE NODE NODE NODE NODE NODE NODE NODE | 0 | 0"}},
        {"16",
         SERVER,
         {"X L2 L3 L3 NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS SYS SYS | 0-1 | 0",
          "L2 X L3 L3 NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS SYS SYS | 2-3 | 0"}},
        {"8", SERVER, {"X L3 NODE NODE SYS SYS SYS SYS | 0-3 | 0", [2] = "NODE NODE X L3 SYS SYS SYS SYS | 8-11 | 0"}},
        {"3", SERVER, {"X SYS SYS | 0-9 | 0", "SYS X SYS | 10-20 | -1", "SYS SYS X | 21-31 | 1"}},
        {"1", SERVER, {"X | 0-31 | -1"}},
        {"3", "core:2 pu:1", {"X SAME NODE | 0 | 0", "SAME X NODE | 0 | 0", "NODE NODE X | 1 | 0"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("KOLO_CPU_DEVICES", cases[i].devices, 1);
        setenv("HWLOC_SYNTHETIC", cases[i].machine, 1);
        kolo_topology_report report = kolo_topology();
        int devices = atoi(cases[i].devices);
        assert_int_equal(report.count, devices < KOLO_PEERS_MAX ? devices : KOLO_PEERS_MAX);
        for (int d = 0; d < 3; d++)
            if (cases[i].rows[d]) assert_string_equal(described(&report, d), cases[i].rows[d]);
        assert_true(report.between[0][report.count - 1].direct);
    }
}

/* Whatever it is: all that is known of it fits. */
static void this_machine(void **state)
{
    (void)state;
    kolo_topology_report report = kolo_topology(.most = 3);
    assert_int_equal(report.count, 3);
    for (int a = 0; a < 3; a++) {
        assert_string_equal(report.device[a].name, ((const char *[]){"cpu:0", "cpu:1", "cpu:2"})[a]);
        assert_true(*report.device[a].cpus);
        for (int b = 0; b < 3; b++) {
            assert_true(report.between[a][b].link == report.between[b][a].link);
            assert_int_equal(report.between[a][b].link == KOLO_LINK_SELF, a == b);
        }
    }
}

static void masked_devices_have_the_shares_of_fewer(void **state)
{
    (void)state;
    setenv("HWLOC_SYNTHETIC", SERVER, 1);
    setenv("CUDA_VISIBLE_DEVICES", "5,1", 1);
    kolo_topology_report report = kolo_topology();
    assert_int_equal(report.count, 2);
    assert_string_equal(described(&report, 1), "SYS X | 16-31 | 1");
}

static char *written(const kolo_topology_report *report)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(kolo_topology_write(out, report), KOLO_OK);
    fclose(out);
    return text;
}

static void the_table_explains_what_stands_in_it(void **state)
{
    (void)state;
    setenv("HWLOC_SYNTHETIC", "pack:2 [numa] core:1 pu:1", 1);
    setenv("KOLO_CPU_DEVICES", "3", 1);
    kolo_topology_report report = kolo_topology();
    char *text = written(&report);
    assert_string_equal(text, "       cpu:0  cpu:1  cpu:2  processors  NUMA node\n"
                              "─────────────────────────────────────────────────\n"
                              "cpu:0      X   SAME    SYS           0          0\n"
                              "cpu:1   SAME      X    SYS           0          0\n"
                              "cpu:2    SYS    SYS      X           1          1\n"
                              "\n"
                              "X     the device itself\n"
                              "SAME  the same GPU or the same core, on which virtual devices take turns\n"
                              "SYS   what joins the NUMA nodes, such as QPI, UPI or Infinity Fabric\n");
    free(text);
}

static void processors_as_ranges(void **state)
{
    (void)state;
    unsigned long cpus[KOLO_CPU_WORDS] = {0};
    char text[64], narrow[16];
    kolo_cpus_text(cpus, text, sizeof text);
    assert_string_equal(text, "");
    cpus[0] = 0xC000000000000005, cpus[1] = 7, cpus[KOLO_CPU_WORDS - 1] = 1ul << 63;
    kolo_cpus_text(cpus, text, sizeof text);
    assert_string_equal(text, "0,2,62-66,1023");
    kolo_cpus_text(cpus, narrow, sizeof narrow);
    assert_string_equal(narrow, "0,2,62-66…");
}

static void wrong_calls_are_one_sentence(void **state)
{
    (void)state;
    assert_int_equal(kolo_topology(-1).count, 0);
    assert_non_null(strstr(kolo_last_error().text, "kolo_topology: most: wanted at least 1 device, got -1"));
    kolo_clear_error();
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(kolo_topology().count, 0);
    assert_non_null(strstr(kolo_last_error().text, "wanted a device, got none: CUDA_VISIBLE_DEVICES"));
    kolo_clear_error();
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("KOLO_CPU_DEVICES", "many", 1);
    assert_int_equal(kolo_topology().count, 0);
    assert_non_null(strstr(kolo_last_error().text, "\"many\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(cores_share_what_is_closest, environment_is_clean),
        cmocka_unit_test_setup(this_machine, environment_is_clean),
        cmocka_unit_test_setup(masked_devices_have_the_shares_of_fewer, environment_is_clean),
        cmocka_unit_test_setup(the_table_explains_what_stands_in_it, environment_is_clean),
        cmocka_unit_test_setup(processors_as_ranges, environment_is_clean),
        cmocka_unit_test_setup(wrong_calls_are_one_sentence, environment_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
