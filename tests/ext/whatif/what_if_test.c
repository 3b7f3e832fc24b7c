/* kolo_what_if(): answers for traces that are small enough to calculate by hand, its output, and wrong input. */
#include "ext/data/files.h"

#include <math.h>

/* --------------------------------------------------------------------------------------- traces */

#define HEAD "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
#define TAIL "\n],\"otherData\":{}}\n"
#define RANK(pid, rank)                                                                                                \
    "{\"ph\":\"M\",\"pid\":" #pid ",\"tid\":" #pid "000,\"name\":\"process_name\",\"args\":{\"name\":\"rank " #rank    \
    " (one)\",\"cores\":2,\"threads\":1}}"
#define ROW(pid, tid, name)                                                                                            \
    ",\n{\"ph\":\"M\",\"pid\":" #pid ",\"tid\":" #tid ",\"name\":\"thread_name\",\"args\":{\"name\":\"" name "\"}}"
#define NAMES RANK(1, 0) ROW(1, 1001, "device 0")

static char written[1 << 16]; /* the trace that is being made */

static void add(const char *text)
{
    strcat(written, text);
}

/* An event of rank 0's row 1001, or of its row `row`; times in milliseconds. */
static void span_in(int row, double begin, double end, const char *category, const char *name, const char *arguments)
{
    char line[400];
    snprintf(line, sizeof line,
             ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":\"%s\",\"args\":{%"
             "s}}",
             row, 1e3 * begin, 1e3 * (end - begin), category, name, arguments);
    add(line);
}

static void span(double begin, double end, const char *category, const char *name, const char *arguments)
{
    span_in(1001, begin, end, category, name, arguments);
}

/* A step: `computing` ms until the end of the backward pass, and 20 ms of the update. The gradient of "last", 4 MB, is
 * complete 30 ms before that end, and that of "first", 1 MB, with it. */
static void add_step(int number, double begin, double computing, int samples)
{
    char arguments[64];
    double end = begin + computing;
    snprintf(arguments, sizeof arguments, "\"step\":%d,\"samples\":%d", number, samples);
    span(begin, end + 20, "step", "step", arguments);
    span(begin, begin + 10, "forward", "last", "\"microbatch\":0");
    span(begin + 10, end - 30, "backward", "last backward", "\"microbatch\":0,\"bytes\":4000000");
    span(end - 30, end, "backward", "first backward", "\"microbatch\":0,\"bytes\":1000000");
    span(end, end + 20, "update", "update", "");
}

static void begin_trace(const char *names)
{
    strcpy(written, HEAD);
    add(names);
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void end_trace(const char *path)
{
    add(TAIL);
    put(path, written);
}

/* Steps of 80 ms + 20 ms with 10 samples; the first one is slower, and is left out. */
static void make_trace(const char *path, double computing, int samples)
{
    begin_trace(NAMES);
    for (int i = 0; i < 4; i++) add_step(i, i * 1000, i ? computing : 500, samples);
    span_in(1001, 900, 950, "validation", "validation", "");
    end_trace(path);
}

static int clear(void **state)
{
    (void)state;
    kolo_clear_error();
    make_trace("trace.json", 80, 10);
    return 0;
}

/* --------------------------------------------------------------------------------------- questions */

static void is(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-6 * fabs(wanted) + 1e-12)) fail_msg("wanted %.9g, got %.9g", wanted, got);
}

/* The gaps between the steps are no part of these: each step is followed 900 ms later, so `next` counts. */
#define GAP      0.9
#define ASK(...) kolo_what_if("trace.json", .quiet = true, __VA_ARGS__).answer[0]
#define HOST     .memory = 1.0

/* While a device's first thread waits for the others, these compute; while it waits for ranks, they do not. A wait that
 * goes on behind the backward pass belongs to both parts of the step. */
static void a_wait_for_threads_is_computing(void **state)
{
    (void)state;
    begin_trace(NAMES);
    for (int i = 0; i < 4; i++) {
        add_step(i, i * 1000, i ? 80 : 500, 10);
        if (i) span(i * 1000 + 40, i * 1000 + 79, "wait", "wait for threads", "");
        if (i) span(i * 1000 + 72, i * 1000 + 85, "wait", "wait for ranks", ""); /* 8 ms, and 5 ms of the update's 20 */
    }
    end_trace("threads.json");
    kolo_answers answers = kolo_what_if("threads.json", .quiet = true, HOST);
    is(answers.answer[0].seconds, 0.1 - 0.013 + GAP);
    is(answers.answer[0].seconds - answers.answer[0].waiting - answers.answer[0].exposed, 0.1 - 0.013 + GAP);
}

static void one_device_is_as_recorded(void **state)
{
    (void)state;
    kolo_answers answers = kolo_what_if("trace.json", .quiet = true, .memory = 1);
    assert_int_equal(answers.count, 4);
    assert_int_equal(answers.recorded_batch, 10);
    is(answers.recorded, 0.1 + GAP);
    for (int i = 0; i < 4; i++) assert_int_equal(answers.answer[i].devices, 1 << i);
    is(answers.answer[0].seconds, 0.1 + GAP);
    is(answers.answer[0].samples, 10 / (0.1 + GAP));
    is(answers.answer[0].efficiency, 1);
    is(answers.answer[0].communication, 0);
    assert_true(isnan(answers.answer[0].more_time));
    assert_string_equal(answers.links, "the memory of a host at 1 GB/s, given");
}

/* Each rank reads and writes 5 MB at 1 GB/s: 10 ms, of which nothing is hidden without a core to spare. */
static void ranks_share_cores_and_memory(void **state)
{
    (void)state;
    kolo_answer two = ASK(HOST, .devices = {2});
    is(two.communication, 0.010);
    is(two.exposed, 0.010);
    is(two.seconds, 0.1 + GAP + 0.010);
    is(two.samples, 20 / two.seconds);
    is(two.efficiency, (0.1 + GAP) / two.seconds);
    kolo_answer four = ASK(HOST, .devices = {4}); /* twice as many as cores: all takes twice as long */
    is(four.communication, 2 * 5e-3 * 2);
    is(four.seconds, 2 * (0.1 + GAP) + 2 * 5e-3 * 2);
    kolo_answer crowded = ASK(HOST, .devices = {2}, .contention = 1.5);
    is(crowded.seconds, 1.5 * (0.1 + GAP + 0.010));
    is(ASK(HOST, .contention = 1.5).seconds, 0.1 + GAP); /* one rank does not use all cores */
    is(ASK(HOST, .devices = {4}, .cores = 1).seconds, 4 * (0.1 + GAP) + 4 * 5e-3 * 2);
}

/* The 4 MB are summed within the 30 ms that the backward pass still takes, in 8 ms; the last 1 MB in 2 ms behind it. */
static void sums_hide_behind_the_backward_pass(void **state)
{
    (void)state;
    kolo_answer spare = ASK(HOST, .devices = {2}, .cores = 8);
    is(spare.communication, 0.010);
    is(spare.exposed, 0.002);
    is(ASK(HOST, .devices = {2}, .cores = 8, .overlap = KOLO_NONE).exposed, 0.010);
    is(ASK(HOST, .devices = {2}, .cores = 8, .bucket_bytes = 5e6).exposed, 0.010);
    is(ASK(HOST, .devices = {2}, .cores = 8, .compression = KOLO_COMPRESSION_FP16).exposed, 0.001);
    is(ASK(.memory = 0.1, .devices = {2}, .cores = 8).exposed, 0.050 + 0.020); /* 80 ms from 30 ms before the end */
}

#define PAIR                                                                                                           \
    "{\"nodes\": [{\"name\": \"a\", \"kind\": \"device\"}, {\"name\": \"b\", \"kind\": \"device\"}], \"links\": ["     \
    "{\"from\": \"a\", \"to\": \"b\", \"kind\": \"NV1\", \"gigabytes_per_second\": 1, \"microseconds\": 0}]}"

/* Two devices: an all-reduce of S bytes is two rounds of S/2. */
static void a_machine_has_its_own_links(void **state)
{
    (void)state;
    put("pair.json", PAIR);
    kolo_answer answer = ASK(.machine = "./pair.json", .devices = {2});
    is(answer.communication, 0.005);
    is(answer.exposed, 0.001);
    is(answer.seconds, 0.1 + GAP + 0.001);
    is(ASK(.machine = "./pair.json", .link = "b-a:0.5", .devices = {2}).exposed, 0.002);
    is(ASK(.machine = "./pair.json", .link = "b-a:0.5", .devices = {2}, .overlap = KOLO_NONE).exposed, 0.010);
    kolo_link_model *model = kolo_link_model_open("./pair.json", .link = "a-b:0.5");
    is(ASK(.model = model, .devices = {2}, .algorithm = KOLO_ALGORITHM_RING).exposed, 0.002);
    kolo_link_model_free(&model);
    assert_int_equal(kolo_what_if("trace.json", .quiet = true, .machine = "pcie-4", .devices = {8}).count, 1);
}

static void a_batch_takes_its_time(void **state)
{
    (void)state;
    is(ASK(HOST, .batch = 20).seconds, 0.160 + 0.020 + GAP);
    make_trace("other.json", 120, 20); /* 4 ms a sample, and 40 ms that do not depend on them */
    is(ASK(HOST, .batch = 20, .other_trace = "other.json").seconds, 0.120 + 0.020 + GAP);
    is(ASK(HOST, .batch = 40, .other_trace = "other.json").seconds, 0.200 + 0.020 + GAP);
    is(ASK(HOST, .compute = 0.5).seconds, 0.040 + 0.020 + GAP);
}

/* The share of time of a tail of the backward pass stays, if only the last microbatch has it. */
static void the_tail_is_that_of_the_last_microbatch(void **state)
{
    (void)state;
    is(ASK(.memory = 0.1, .devices = {2}, .cores = 8, .batch = 20).exposed, 0.080 - 0.060 + 0.020);
    begin_trace(NAMES);
    for (int i = 0; i < 4; i++) {
        add_step(i, i * 1000, 80, 10);
        span(i * 1000 + 79, i * 1000 + 80, "backward", "loss backward", "\"microbatch\":1");
    }
    end_trace("trace.json");
    is(ASK(.memory = 0.1, .devices = {2}, .cores = 8, .batch = 20).exposed, 0.080 - 0.030 + 0.020);
}

/* The median of the slowest of two is at 2^(-1/2) of the distribution: between 100 ms and 120 ms here. */
static void the_slowest_is_waited_for(void **state)
{
    (void)state;
    const double computing[] = {500, 120, 80, 100};
    begin_trace(NAMES);
    for (int i = 0; i < 4; i++) add_step(i, i * 1000, computing[i], 10);
    end_trace("trace.json");
    double waiting = 0.020 * (2 * exp2(-0.5) - 1);
    is(ASK(HOST, .devices = {2}).waiting, waiting);
    is(ASK(HOST, .devices = {8}).waiting, 4 * waiting); /* two of them run at once, a quarter as fast */
    is(ASK(HOST, .devices = {2}, .same_pace = true).waiting, 0);
    is(ASK(HOST).waiting, 0);
}

/* Steps in proportion to 1 + 90 / batch: 10 for 10 samples, 5.5 for 20. */
static void an_accuracy_takes_steps_and_time(void **state)
{
    (void)state;
    kolo_answer two = ASK(HOST, .devices = {2}, .noise_scale = 90, .steps = 1000);
    is(two.more_steps, 0.55);
    is(two.more_time, 0.55 * two.seconds / (0.1 + GAP));
    is(two.accuracy_seconds, 550 * two.seconds);
    is(ASK(HOST, .noise_scale = 90).more_time, 1);
    assert_true(isnan(ASK(HOST, .noise_scale = 90).accuracy_seconds));
    is(ASK(HOST, .noise_scale = 90, .batch = 20).more_steps, 0.55);
}

/* Of two ranks: what rank 0 waits and sums is left out, and its sums say how fast its host's memory is. */
static void several_ranks_say_how_fast_they_sum(void **state)
{
    (void)state;
    begin_trace(RANK(1, 0) ROW(1, 1001, "device 0") ROW(1, 1002, "communication"));
    for (int i = 0; i < 4; i++) {
        double at = i * 1000;
        span(at, at + 115, "step", "step",
             i == 0   ? "\"step\":0,\"samples\":10"
             : i == 1 ? "\"step\":1,\"samples\":10"
             : i == 2 ? "\"step\":2,\"samples\":10"
                      : "\"step\":3,\"samples\":10");
        span(at, at + 50, "backward", "last backward", "\"microbatch\":0,\"bytes\":4000000");
        span(at + 50, at + 85, "backward", "first backward", "\"microbatch\":0,\"bytes\":1000000");
        span(at + 60, at + 65, "wait", "wait for buckets", "");
        span(at + 85, at + 95, "reduce", "sum bucket", "\"bytes\":5000000");
        span(at + 85, at + 95, "reduce", "allreduce", "\"bytes\":5000000");
        span(at + 86, at + 91, "wait", "wait for ranks", "");
    }
    add(",\n" RANK(2, 1));
    end_trace("trace.json");
    kolo_answers answers = kolo_what_if("trace.json", .quiet = true, .devices = {1, 2});
    is(answers.recorded, 0.080 + 0.020 + 0.885);
    is(answers.answer[0].seconds, answers.recorded);
    assert_string_equal(answers.links, "the memory of a host at 2 GB/s, as recorded");
    is(answers.answer[1].communication, 0.005);
}

/* --------------------------------------------------------------------------------------- output */

static char shown[1 << 16];

static kolo_answers show(const kolo_what_if_args *args)
{
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(out, STDOUT_FILENO);
    kolo_answers answers = kolo_what_if_at(args, KOLO_HERE);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(out);
    size_t size = read_whole("out", (unsigned char *)shown, sizeof shown - 1);
    shown[size] = 0;
    return answers;
}

static void all_that_is_shown_is_called_modelled(void **state)
{
    (void)state;
    const kolo_what_if_args args = {
        .trace = "trace.json", HOST, .noise_scale = 90, .steps = 10, .batch = 20, .file = "chart.svg"};
    assert_int_equal(show(&args).count, 4);
    assert_int_equal(kolo_last_error().code, KOLO_OK);
    char *chart = strstr(shown, "modelled samples/s");
    assert_non_null(chart);
    assert_non_null(strstr(shown, "taken for proportional"));
    int lines = 0;
    for (char *line = shown; line < chart && strncmp(line, "  ", 2) != 0; line = strchr(line, '\n') + 1, lines++)
        assert_memory_equal(line, "modelled  ", 10);
    assert_int_equal(lines, 3 + 4);
    size_t size = read_whole("chart.svg", (unsigned char *)shown, sizeof shown - 1);
    shown[size] = 0;
    for (const char *const *title =
             (const char *const[]){"modelled samples/s", "modelled step, ms", "modelled to the same accuracy", NULL};
         *title; title++)
        assert_non_null(strstr(shown, *title));
}

/* --------------------------------------------------------------------------------------- wrong input */

static void refuses(const kolo_what_if_args *args, kolo_status code, const char *words)
{
    kolo_answers answers = kolo_what_if_at(args, KOLO_HERE);
    kolo_error error = kolo_last_error();
    if (answers.count != 0 || error.code != code || !strstr(error.text, words))
        fail_msg("wanted %d and \"%s\", got %d and \"%s\"", (int)code, words, (int)error.code, error.text);
    kolo_clear_error();
}
#define REFUSES_FILE(code, words, ...)                                                                                 \
    refuses(&(const kolo_what_if_args){._ = #__VA_ARGS__, .quiet = true, __VA_ARGS__}, code, words)
#define REFUSES(code, words, ...) REFUSES_FILE(code, words, .trace = "trace.json", __VA_ARGS__)

static void wrong_options_are_one_sentence(void **state)
{
    (void)state;
    REFUSES(KOLO_INVALID, ".devices: wanted at least 1, got 0", .devices = {0});
    REFUSES(KOLO_INVALID, ".devices: wanted 1 to 1000000, got -2", .devices = {1, -2});
    REFUSES(KOLO_INVALID, ".batch: wanted 1 to 1e15, got 0", .batch = 0);
    REFUSES(KOLO_INVALID, ".bucket_bytes: wanted 1", .bucket_bytes = -1);
    REFUSES(KOLO_INVALID, ".memory: wanted more than 0", .memory = NAN);
    REFUSES(KOLO_INVALID, ".compute: wanted more than 0", .compute = -1);
    REFUSES(KOLO_INVALID, ".contention: wanted more than 0", .contention = 0);
    REFUSES(KOLO_INVALID, ".noise_scale: wanted more than 0", .noise_scale = 0);
    REFUSES(KOLO_INVALID, ".steps: wanted a .noise_scale", .steps = 10);
    REFUSES(KOLO_INVALID, ".overlap: wanted 1 or KOLO_NONE, got 2", .overlap = 2);
    REFUSES(KOLO_INVALID, ".compression: wanted a kolo_compression", .compression = 7);
    REFUSES(KOLO_INVALID, ".file: wanted one that ends in .svg or .png", .file = "chart.gif");
    REFUSES(KOLO_NOT_FOUND, "machine: wanted dgx-1v", .machine = "dgx-9");
    REFUSES(KOLO_NOT_FOUND, ".link: wanted a link of the machine", .machine = "pcie-4", .link = "gpu0-gpu9:1");
    REFUSES(KOLO_INVALID, ".link: wanted two nodes", .machine = "pcie-4", .link = "gpu0-plx0");
    REFUSES(KOLO_INVALID, ".link: wanted a .machine with it", .link = "gpu0-plx0:1");
    REFUSES(KOLO_INVALID, ".memory: wanted no .machine with it", .machine = "pcie-4", .memory = 1);
    REFUSES(KOLO_INVALID, ".devices: wanted at most 4, or a multiple", .machine = "pcie-4", .devices = {6});
    REFUSES(KOLO_INVALID, ".other_trace: wanted another batch than 10", .other_trace = "trace.json");
    make_trace("other.json", 60, 20); /* more samples in less time */
    REFUSES(KOLO_INVALID, ".batch: wanted one to which the times", .other_trace = "other.json", .batch = 60);
}

static void refuses_file(const char *names, const char *words, bool step, const char *arguments)
{
    begin_trace(names);
    for (int i = 0; i < 3; i++) {
        if (step) span(i * 100, i * 100 + 50, "step", "step", arguments);
        span(i * 100, i * 100 + 40, i == 1 ? "forward" : "backward", "x backward", "");
    }
    end_trace("trace.json");
    const kolo_status code = strstr(words, "one device") ? KOLO_UNSUPPORTED : KOLO_FORMAT;
    REFUSES(code, words, .memory = 1);
}

static void other_files_are_one_sentence(void **state)
{
    (void)state;
    REFUSES_FILE(KOLO_NOT_FOUND, "nope.json: wanted a file to read", .trace = "nope.json");
    REFUSES_FILE(KOLO_INVALID, "wanted the name of a file, got NULL", .trace = NULL);
    put("other.json", "[]");
    REFUSES_FILE(KOLO_FORMAT, "other.json, line 1: wanted a timeline", .trace = "other.json");
    written[strlen(written) / 2] = 0; /* of the last trace */
    put("other.json", written);
    REFUSES_FILE(KOLO_FORMAT, "wanted a timeline as kolo_start_timeline() writes it, got", .trace = "other.json");
    refuses_file(RANK(1, 0) ROW(1, 1001, "worker 0"), "the training steps of a device", true, "\"step\":1");
    refuses_file(NAMES, "the training steps of a device", false, "");
    refuses_file(NAMES ROW(1, 1002, "device 1"), "one device a rank, got 2", true, "\"step\":1");
    refuses_file(NAMES, "backward events in each step", true, "\"step\":1,\"samples\":3");
    begin_trace(NAMES);
    for (int i = 0; i < 3; i++) {
        span(i * 100, i * 100 + 50, "step", "step", "\"step\":1,\"samples\":3");
        span(i * 100, i * 100 + 40, "backward", "x backward", "");
    }
    end_trace("trace.json");
    REFUSES(KOLO_FORMAT, "the bytes of gradients", .memory = 1);
    begin_trace(NAMES);
    span(0, 50, "step", "step", "\"step\":1");
    span(0, 40, "backward", "x backward", "\"bytes\":4");
    end_trace("trace.json");
    REFUSES(KOLO_FORMAT, "the samples of each step", .memory = 1);
}

int main(void)
{
    unsetenv("KOLO_DISPLAY");
#define TEST(test) cmocka_unit_test_setup(test, clear)
    const struct CMUnitTest tests[] = {
        TEST(one_device_is_as_recorded),
        TEST(a_wait_for_threads_is_computing),
        TEST(ranks_share_cores_and_memory),
        TEST(sums_hide_behind_the_backward_pass),
        TEST(a_machine_has_its_own_links),
        TEST(a_batch_takes_its_time),
        TEST(the_tail_is_that_of_the_last_microbatch),
        TEST(the_slowest_is_waited_for),
        TEST(an_accuracy_takes_steps_and_time),
        TEST(several_ranks_say_how_fast_they_sum),
        TEST(all_that_is_shown_is_called_modelled),
        TEST(wrong_options_are_one_sentence),
        TEST(other_files_are_one_sentence),
    };
    return cmocka_run_group_tests_name("whatif/what_if", tests, enter_folder, leave_folder);
}
