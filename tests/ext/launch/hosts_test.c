/* Hosts and slots from -H, a hostfile and SLURM's variables. */
#include "ext/launch/launch_test.h"

#include "launch/allocation.h"
#include "launch/network.h"
#include "launch/say.h"
#include "launch/slurm.h"

static char said[1024];

static void lists_are_read(void **state)
{
    (void)state;
    struct launch_hosts hosts = {0};
    assert_int_equal(hosts_from_list("a:2,b.c-d_e:13,f,A:3", &hosts), KOLORUN_GO_ON);
    assert_int_equal(hosts.count, 3);
    assert_int_equal(hosts.host[0].slots, 5); /* a host named twice, in any case */
    assert_string_equal(hosts.host[1].name, "b.c-d_e");
    assert_int_equal(hosts.host[2].slots, 1);
    char *text = hosts_argument(&hosts);
    assert_string_equal(text, "a:5,b.c-d_e:13,f:1");
    free(text);
    hosts_free(&hosts);
}

static void broken_lists_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {"",   ",",   "a:", "a:0", "a:-1", "a:2:3", "a:2,", "a b", "a:99999999999",
                                         ":4", "a:2x"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct launch_hosts hosts = {0};
        int code = 0;
        CATCH_STDERR(said, code = hosts_from_list(broken[i], &hosts));
        if (code != KOLORUN_WRONG_USE) fail_msg("'%s' was taken", broken[i]);
        assert_non_null(strstr(said, "worker-0:2,worker-1:2"));
        hosts_free(&hosts);
    }
}

static int read_file(const char *text, struct launch_hosts *hosts)
{
    char path[] = "/tmp/kolo_hosts_test_XXXXXX";
    int file = mkstemp(path), code = 0;
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    CATCH_STDERR(said, code = hosts_from_file(path, hosts));
    unlink(path);
    return code;
}

static void hostfiles_are_read(void **state)
{
    (void)state;
    struct launch_hosts hosts = {0};
    assert_int_equal(read_file("# ours\n\n  a slots=2 # two\nb slots=4 max_slots=8\nc\nd:3\n", &hosts), KOLORUN_GO_ON);
    char *text = hosts_argument(&hosts);
    assert_string_equal(text, "a:2,b:4,c:1,d:3");
    free(text);
    hosts_free(&hosts);
}

static void broken_hostfiles_name_the_line(void **state)
{
    (void)state;
    static const char *const broken[] = {"a slots=2\nb slots=x\n", "a\nb slot=2\n", "a\nb 4\n", "a\nb,c slots=2\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct launch_hosts hosts = {0};
        assert_int_equal(read_file(broken[i], &hosts), KOLORUN_WRONG_USE);
        assert_non_null(strstr(said, "line 2"));
        hosts_free(&hosts);
    }
}

static void slurm_says_how_many_tasks(void **state)
{
    (void)state;
    assert_int_equal(slurm_tasks("12", NULL), 12);
    assert_int_equal(slurm_tasks("12", "1"), 12);
    assert_int_equal(slurm_tasks(NULL, "1,3(x2),4"), 11);
    assert_int_equal(slurm_tasks(NULL, "8"), 8);
    assert_int_equal(slurm_tasks(NULL, NULL), 0);
    static const char *const broken[] = {"x", "4(x0)", "4(x", "2147483647,1", "4 3", "-1"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        if (slurm_tasks(NULL, broken[i])) fail_msg("'%s' was taken", broken[i]);
    static const int on_nodes[] = {1, 3, 3, 4, 0};
    for (size_t node = 0; node < 5; node++) assert_int_equal(slurm_tasks_of_node("1,3(x2),4", node), on_nodes[node]);
    assert_int_equal(slurm_tasks_of_node("4(x", 0), 0);
}

static int choose(struct launch_options options, struct launch_hosts *hosts)
{
    int code = 0;
    CATCH_STDERR(said, code = allocation_choose(launch_allocations, &options, hosts));
    return code;
}

static void slots_are_counted(void **state)
{
    (void)state;
    struct launch_hosts hosts;
    assert_int_equal(choose((struct launch_options){.ranks = 8, .hosts = "localhost:4"}, &hosts), KOLORUN_WRONG_USE);
    assert_string_equal(said, "kolorun: wanted 8 ranks, hosts offer 4 slots\n");
    hosts_free(&hosts);
    assert_int_equal(choose((struct launch_options){.ranks = 6, .hosts = "localhost:4,127.0.0.1:4"}, &hosts),
                     KOLORUN_GO_ON);
    assert_true(hosts.all_local);
    hosts_free(&hosts);
    assert_int_equal(choose((struct launch_options){.ranks = 2, .hosts = "localhost:1,elsewhere:1"}, &hosts),
                     KOLORUN_GO_ON);
    assert_false(hosts.all_local);
    hosts_free(&hosts);
}

static void without_hosts_all_ranks_fit_here(void **state)
{
    (void)state;
    struct launch_hosts hosts;
    assert_int_equal(choose((struct launch_options){.ranks = 64}, &hosts), KOLORUN_GO_ON);
    char *text = hosts_argument(&hosts);
    assert_string_equal(text, "localhost:64");
    assert_true(hosts.all_local);
    free(text);
    hosts_free(&hosts);
    assert_int_equal(choose((struct launch_options){0}, &hosts), KOLORUN_WRONG_USE);
    hosts_free(&hosts);
}

static void an_allocation_decides(void **state)
{
    (void)state;
    struct launch_hosts hosts;
    setenv("SLURM_JOB_ID", "1", 1);
    setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
    setenv("SLURM_JOB_NUM_NODES", "2", 1);
    setenv("SLURM_TASKS_PER_NODE", "4(x2)", 1);
    assert_int_equal(choose((struct launch_options){0}, &hosts), KOLORUN_GO_ON);
    assert_true(hosts.from_scheduler && !hosts.all_local && hosts.ranks == 8);
    hosts_free(&hosts);
    assert_int_equal(choose((struct launch_options){.ranks = 3}, &hosts), KOLORUN_GO_ON);
    assert_int_equal(hosts.ranks, 3);
    hosts_free(&hosts);
    static const char *const names[] = {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES",
                                        "SLURM_TASKS_PER_NODE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

/* PBS, for instance, names a file with a line a slot. */
static bool is_strangers(const struct launch_options *options)
{
    return !options->hosts && getenv("STRANGERS_HOSTS");
}

static int read_strangers(const struct launch_options *options, struct launch_hosts *hosts)
{
    (void)options;
    char names[100], *rest = NULL;
    snprintf(names, sizeof names, "%s", getenv("STRANGERS_HOSTS"));
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        int code = hosts_add(hosts, name, 1);
        if (code != KOLORUN_GO_ON) return code;
        hosts->ranks += !options->ranks;
    }
    return KOLORUN_GO_ON;
}

static void a_stranger_adds_a_batch_system(void **state)
{
    (void)state;
    static const struct launch_allocation strangers = {"strangers'", is_strangers, read_strangers};
    const struct launch_allocation *const kinds[] = {&strangers, launch_allocations[0], NULL};
    struct launch_hosts hosts;
    setenv("STRANGERS_HOSTS", "elsewhere\nelsewhere\nthere\n", 1);
    assert_int_equal(allocation_choose(kinds, &(struct launch_options){0}, &hosts), KOLORUN_GO_ON);
    char *text = hosts_argument(&hosts);
    assert_string_equal(text, "elsewhere:2,there:1");
    assert_true(hosts.ranks == 3 && !hosts.all_local && !hosts.from_scheduler);
    free(text);
    hosts_free(&hosts);
    assert_int_equal(allocation_choose(kinds, &(struct launch_options){.ranks = 1, .hosts = "b:2"}, &hosts),
                     KOLORUN_GO_ON);
    assert_string_equal(hosts.host[0].name, "b");
    hosts_free(&hosts);
    unsetenv("STRANGERS_HOSTS");
}

static void tasks_of_srun_are_told_from_a_batch_script(void **state)
{
    (void)state;
    setenv("SLURM_NTASKS", "4", 1);
    setenv("SLURM_PROCID", "0", 1);
    assert_false(slurm_is_one_of_several_tasks()); /* a batch script */
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    assert_false(slurm_is_one_of_several_tasks());
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_true(slurm_is_one_of_several_tasks());
    setenv("OMPI_COMM_WORLD_RANK", "0", 1); /* a rank, whose Open MPI daemon srun has started */
    assert_false(slurm_is_one_of_several_tasks());
    unsetenv("OMPI_COMM_WORLD_RANK");
    setenv("SLURM_PTY_PORT", "1", 1);
    assert_false(slurm_is_one_of_several_tasks());
    static const char *const names[] = {"SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_PTY_PORT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static void a_host_is_told_from_a_command(void **state)
{
    (void)state;
    assert_true(hosts_looks_like_host("server2:4"));
    assert_true(hosts_looks_like_host("server2:4,server3:4"));
    assert_false(hosts_looks_like_host("./cnn"));
    assert_false(hosts_looks_like_host("cnn"));
    assert_false(hosts_looks_like_host("a:b"));
    assert_false(hosts_looks_like_host("./a:4"));
}

static void no_network_is_found_where_there_is_none(void **state)
{
    (void)state;
    char subnet[NETWORK_TEXT];
    struct launch_hosts hosts = {0};
    assert_int_equal(hosts_from_list("localhost:1,no-such-host.invalid:1", &hosts), KOLORUN_GO_ON);
    network_common(&hosts, subnet);
    assert_string_equal(subnet, "");
    hosts_free(&hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(broken_lists_are_refused),
        cmocka_unit_test(hostfiles_are_read),
        cmocka_unit_test(broken_hostfiles_name_the_line),
        cmocka_unit_test(slurm_says_how_many_tasks),
        cmocka_unit_test(slots_are_counted),
        cmocka_unit_test(without_hosts_all_ranks_fit_here),
        cmocka_unit_test(an_allocation_decides),
        cmocka_unit_test(a_stranger_adds_a_batch_system),
        cmocka_unit_test(tasks_of_srun_are_told_from_a_batch_script),
        cmocka_unit_test(a_host_is_told_from_a_command),
        cmocka_unit_test(no_network_is_found_where_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
