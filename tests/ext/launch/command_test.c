/* The command line in, the mpirun line out; the environment of ranks; frames. */
#include "ext/launch/launch_test.h"

#include "launch/allocation.h"
#include "launch/command.h"
#include "core/cores.h"
#include "launch/environment.h"
#include "launch/say.h"
#include "launch/wire.h"

#include <sys/socket.h>

static char said[1024];

static int parse(struct launch_options *options, int count, const char *const *words)
{
    static char *argv[32];
    argv[0] = (char[]){"kolorun"};
    for (int i = 0; i < count; i++) argv[i + 1] = (char *)(uintptr_t)words[i];
    argv[count + 1] = NULL;
    int code = 0;
    CATCH_STDERR(said, code = options_parse(count + 1, argv, options));
    return code;
}
#define PARSE(options, ...)                                                                                            \
    parse(options, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

static void options_are_read(void **state)
{
    (void)state;
    struct launch_options options;
    assert_int_equal(PARSE(&options, "-np", "8", "-H", "a:4,b:4", "--mpi-args=--mca x y", "--verbose", "./cnn", "-np",
                           "3"),
                     KOLORUN_GO_ON);
    assert_int_equal(options.ranks, 8);
    assert_string_equal(options.hosts, "a:4,b:4");
    assert_string_equal(options.mpi_args, "--mca x y");
    assert_true(options.verbose && options.start_timeout == 30 && options.stop_timeout == 30 && options.restarts == 0);
    assert_string_equal(options.command[0], "./cnn");
    assert_string_equal(options.command[2], "3");
    assert_null(options.command[3]);
    assert_int_equal(PARSE(&options, "-np", "1", "--", "--odd"), KOLORUN_GO_ON);
    assert_string_equal(options.command[0], "--odd");
    assert_int_equal(PARSE(&options, "--check-build"), KOLORUN_GO_ON);
    assert_true(options.check_build);
}

static void wrong_options_get_a_sentence(void **state)
{
    (void)state;
    struct launch_options options;
    assert_int_equal(PARSE(&options, "-np", "0", "x"), KOLORUN_WRONG_USE);
    assert_string_equal(said, "kolorun: -np: wanted a whole number of at least 1, got '0'\n");
    assert_int_equal(PARSE(&options, "--no-such", "x"), KOLORUN_WRONG_USE);
    assert_string_equal(said, "kolorun: '--no-such' is not an option of kolorun; see kolorun --help\n");
    assert_int_equal(PARSE(&options, "--hosts"), KOLORUN_WRONG_USE);
    assert_string_equal(said, "kolorun: --hosts: wanted a value, got none\n");
}

static char *line_for(const char *hosts_list, const char *mpi_args)
{
    char *program[] = {(char[]){"./cnn"}, (char[]){"a b"}, NULL};
    struct launch_options options = {.ranks = 4, .hosts = hosts_list, .mpi_args = mpi_args, .command = program};
    struct launch_hosts hosts;
    struct words words = {0};
    assert_int_equal(allocation_choose(launch_allocations, &options, &hosts), KOLORUN_GO_ON);
    assert_int_equal(command_build(&options, &hosts, "/usr/bin/mpirun", "/opt/kolo/bin/kolorun", &words),
                     KOLORUN_GO_ON);
    char *line = words_line(&words);
    words_free(&words);
    hosts_free(&hosts);
    return line;
}

static void the_line_for_this_host(void **state)
{
    (void)state;
    char *line = line_for(NULL, NULL);
    assert_string_equal(line,
                        "/usr/bin/mpirun --noprefix -np 4 -H localhost:4 --bind-to none --map-by slot --mca plm "
                        "isolated "
                        "--mca oob_tcp_if_include lo "
                        "--mca btl self,vader --mca pml ob1 --mca opal_signal '' --mca odls_base_sigkill_timeout 0 "
                        "/opt/kolo/bin/kolorun --as-rank ./cnn 'a b'");
    free(line);
}

static void the_line_for_several_hosts(void **state)
{
    (void)state;
    setenv("KOLO_TEST_SEEN", "1", 1);
    setenv("SLURMD_NODENAME", "node1", 1);
    char *line = line_for("localhost:2,no-such-host.invalid:2", NULL);
    assert_non_null(strstr(line, "--mca btl_tcp_if_exclude lo,docker0,virbr0"));
    assert_non_null(strstr(line, "-x KOLO_TEST_SEEN"));
    assert_null(strstr(line, "-x PWD"));
    assert_null(strstr(line, "-x SLURMD_NODENAME")); /* each host has a name of its own */
    assert_null(strstr(line, "isolated"));
    free(line);
    line = line_for("localhost:2,no-such-host.invalid:2", "--mca btl_tcp_if_include eth0");
    assert_non_null(strstr(line, "btl_tcp_if_include eth0"));
    assert_null(strstr(line, "btl_tcp_if_exclude"));
    free(line);
}

static void colons_are_no_separators(void **state)
{
    (void)state;
    static const char *const words[] = {":", "\\:", "\\\\:", "a:", "::", "\\", "", "\\a:"};
    struct words list = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        words_add_shielded(&list, words[i]);
        assert_string_not_equal(list.word[i], ":");
        assert_string_equal(words_unshielded(list.word[i]), words[i]);
    }
    words_free(&list);
}

static void words_are_quoted_for_a_shell(void **state)
{
    (void)state;
    struct words words = {0};
    assert_true(words_add_split(&words, "a 'b c' \"d  e\" f\\ g ''"));
    assert_int_equal(words.count, 5);
    words_add(&words, "it's");
    char *line = words_line(&words);
    assert_string_equal(line, "a 'b c' 'd  e' 'f g' '' 'it'\\''s'");
    free(line);
    assert_false(words_add_split(&words, "a; b"));
    assert_false(words_add_split(&words, "$(a)"));
    words_free(&words);
}

static void a_surrounding_job_is_forgotten(void **state)
{
    (void)state;
    assert_true(environment_is_of_job("OMPI_COMM_WORLD_RANK", false));
    assert_true(environment_is_of_job("PMIX_NAMESPACE", false));
    assert_true(environment_is_of_job("OMPI_MCA_orte_hnp_uri", true));
    assert_true(environment_is_of_job("OMPI_MCA_ess", true));
    assert_true(environment_is_of_job("KOLORUN_TOKEN", false));
    assert_false(environment_is_of_job("OMPI_MCA_orte_tmpdir_base", false)); /* outside a job it is the user's */
    assert_false(environment_is_of_job("OMPI_MCA_btl", true));
    assert_false(environment_is_of_job("KOLO_DISPLAY", true));
    assert_false(environment_is_of_job("PATH", true));
}

static void quotas_are_read(void **state)
{
    (void)state;
    assert_int_equal(kolo_cores_of_quota("max 100000\n"), 0);
    assert_int_equal(kolo_cores_of_quota("200000 100000\n"), 2);
    assert_int_equal(kolo_cores_of_quota("150000 100000\n"), 2);
    assert_int_equal(kolo_cores_of_quota("50000 100000\n"), 1);
    assert_int_equal(kolo_cores_of_quota(""), 0);
    assert_true(kolo_cores_usable() >= 1);
}

static void frames_arrive_whole(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    struct wire from = {.fd = fd[0]}, to = {.fd = fd[1]};
    static char large[WIRE_LARGEST];
    memset(large, 'x', sizeof large);
    for (int i = 0; i < 20; i++) wire_send(&from, FRAME_OUT, large, sizeof large); /* more than a socket holds */
    wire_print(&from, FRAME_EXIT, "%d %d", -3, 9);
    assert_true(wire_queued(&from) > 0);
    struct frame frame = {0};
    int seen = 0;
    while (frame.kind != FRAME_EXIT) {
        assert_true(wire_fill(&to));
        while (wire_next(&to, &frame))
            seen += frame.kind == FRAME_OUT && frame.length == sizeof large && frame.bytes[7] == 'x';
        wire_flush(&from);
    }
    long numbers[3] = {0};
    assert_int_equal(seen, 20);
    assert_int_equal(frame_numbers(&frame, numbers, 3), 2);
    assert_true(numbers[0] == -3 && numbers[1] == 9);
    wire_close(&from);
    assert_false(wire_fill(&to));
    wire_close(&to);
}

static void an_endless_frame_breaks_the_wire(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    struct wire to = {.fd = fd[1]};
    struct frame frame;
    assert_int_equal(write(fd[0], "o\xff\xff\xff\xff", 5), 5);
    assert_true(wire_fill(&to));
    assert_false(wire_next(&to, &frame));
    assert_true(to.broken);
    wire_close(&to);
    close(fd[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(wrong_options_get_a_sentence),
        cmocka_unit_test(the_line_for_this_host),
        cmocka_unit_test(the_line_for_several_hosts),
        cmocka_unit_test(colons_are_no_separators),
        cmocka_unit_test(words_are_quoted_for_a_shell),
        cmocka_unit_test(a_surrounding_job_is_forgotten),
        cmocka_unit_test(quotas_are_read),
        cmocka_unit_test(frames_arrive_whole),
        cmocka_unit_test(an_endless_frame_breaks_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
