/* The command line of a program: what each option sets, and one sentence with its exit code for each mistake. */
#include "ext/data/files.h"

#include <sys/wait.h>

#define ARGUMENTS_MAX 12

/* What a run said, and how it ended. */
static char out[8192], err[2048];

static void read_back(const char *path, char *text, size_t room)
{
    text[read_whole(path, (unsigned char *)text, room - 1)] = 0;
}

static bool trains_nothing;

/* What parse_own() adds, and where that goes. */
typedef struct own_targets {
    const bool *flag;
    const int *epochs, *size;
    const double *rho;
    const char *const *rule, *const *note;
} own_targets;
static own_targets own_values;
static const kolo_program_option *own_options;
static const char *data_default;

static void print_own(void)
{
    own_targets at = own_values;
    printf("own %d %d %d %g %s %s\n", *at.flag, *at.epochs, *at.size, *at.rho, *at.rule, *at.note ? *at.note : "-");
}

/* Runs kolo_parse_options in a child, which then prints what it got. Returns the exit code. */
static int parse(const char *command_line)
{
    char line[512], *argv[ARGUMENTS_MAX] = {"path/to/cnn_mnist"};
    int argc = 1, status;
    strcpy(line, command_line);
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) argv[argc++] = strcmp(word, "''") ? word : "";
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
        dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
        kolo_init(NULL, NULL);
        kolo_options o = {.data = data_default,
                          .batch_size = 512,
                          .epochs = 8,
                          .learning_rate = 1e-3,
                          .own = own_options,
                          .trains_nothing = trains_nothing};
        kolo_parse_options(argc, argv, &o, "Trains a network.");
        char seed[32] = "new";
        if (o.seed != KOLO_NEW_SEED) snprintf(seed, sizeof seed, "%llu", (unsigned long long)o.seed);
        printf("%s %d %d %d %g %d %s %d %d %s %s %s %d %d\n", o.data ? o.data : "-", o.batch_size, o.epochs,
               o.drop_remainder, o.learning_rate, o.precision, seed, o.deterministic, o.devices,
               o.strategy ? o.strategy : "-", o.save ? o.save : "-", o.history ? o.history : "-", o.steps_per_epoch,
               o.no_validation);
        if (own_options) print_own();
        fflush(stdout);
        _exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    read_back("out", out, sizeof out);
    read_back("err", err, sizeof err);
    return WEXITSTATUS(status);
}

static void each_option_sets_its_own(void **state)
{
    (void)state;
    assert_int_equal(parse(""), 7);
    assert_string_equal(out, "- 512 8 0 0.001 0 new 0 0 - - - 0 0\n");
    assert_int_equal(parse("--data fashion-mnist --batch-size 1 --epochs=2147483647 --drop-remainder"), 7);
    assert_string_equal(out, "fashion-mnist 1 2147483647 1 0.001 0 new 0 0 - - - 0 0\n");
    assert_int_equal(parse("--learning-rate 2.5e-2 --precision bf16 --seed 18446744073709551614 --deterministic"), 7);
    assert_string_equal(out, "- 512 8 0 0.025 2 18446744073709551614 1 0 - - - 0 0\n");
    assert_int_equal(parse("--devices 8 --strategy mirrored --save a --history b --steps-per-epoch 3 --no-validation"),
                     7);
    assert_string_equal(out, "- 512 8 0 0.001 0 new 0 8 mirrored a b 3 1\n");
    assert_int_equal(parse("--precision fp32 --strategy one_device --batch 64"), 7);
    assert_string_equal(out, "- 64 8 0 0.001 1 new 0 0 one_device - - 0 0\n");
    assert_int_equal(parse("--precision fp16"), 7);
    assert_string_equal(out, "- 512 8 0 0.001 3 new 0 0 - - - 0 0\n");
    assert_int_equal(parse("--precision tf32"), 7);
    assert_string_equal(out, "- 512 8 0 0.001 4 new 0 0 - - - 0 0\n");
    assert_string_equal(err, "");
    assert_int_equal(access("a", F_OK), -1);
}

/* The same with options of the program's own. */
static int parse_own(const char *command_line)
{
    bool ghost = false;
    int epochs = 5, size = 0;
    double rho = 0.5;
    const char *rule = "adam", *note = NULL, *picture = NULL, *home = NULL;
    own_options = (const kolo_program_option[]){
        {"batch-norm", .flag = &ghost, .help = "with batch norm"},
        {"warmup-epochs", "N", "of warm-up", .count = &epochs, .or_zero = true},
        {"ghost-batch", "N", "samples", .count = &size},
        {"rho", "X", "of the elastic force", .number = &rho, .or_zero = true},
        {"optimizer", "adam|adamw|lamb", "which rule", .choice = &rule},
        {"note", "TEXT", "a remark", .text = &note},
        {"picture", "FILE.png", "fifty characters, which end at the right margin __", .text = &picture,
         .ending = ".png"},
        {"home", "DEVICE", "where weights are", .text = &home, .device = true},
        {0},
    };
    own_values = (own_targets){&ghost, &epochs, &size, &rho, &rule, &note};
    int code = parse(command_line);
    own_options = NULL;
    return code;
}

static void own_options_set_their_own(void **state)
{
    (void)state;
    assert_int_equal(parse_own("--epochs 3"), 7);
    assert_non_null(strstr(out, "\nown 0 5 0 0.5 adam -\n"));
    assert_int_equal(parse_own("--batch-norm --warmup-epochs 0 --ghost-batch=32 --rho 0 --optimizer adamw --note a=b"),
                     7);
    assert_non_null(strstr(out, "\nown 1 0 32 0 adamw a=b\n"));
    assert_int_equal(parse_own("--opt lamb --ghost 7 --batch-size 9"), 7);
    assert_non_null(strstr(out, "\nown 0 5 7 0.5 lamb -\n"));
    assert_int_equal(parse_own("--ghost-batch 9 --help"), 0);
    static const char *const words[] = {"--optimizer=adam|adamw|lamb", "which rule (default: adam)",
                                        "of warm-up (default: 5)", "--batch-norm ", "samples\n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) assert_non_null(strstr(out, words[i]));
    assert_null(strstr(out, " \n")); /* argp's line of blanks after a text that fills its line */
    assert_int_equal(parse_own("--home host --picture a.png"), 7);
    assert_int_equal(parse_own("--home cpu:7"), 7);
}

static void own_options_are_judged_too(void **state)
{
    (void)state;
    static const char *const faults[][2] = {
        {"--optimizer ada", "--optimizer: wanted adam, adamw or lamb, got \"ada\""},
        {"--optimizer adam|adamw", "--optimizer: wanted adam, adamw or lamb, got \"adam|adamw\""},
        {"--optimizer ''", "--optimizer: wanted adam, adamw or lamb, got \"\""},
        {"--ghost-batch 0", "--ghost-batch: wanted a whole number of at least 1, got \"0\""},
        {"--warmup-epochs -1", "--warmup-epochs: wanted a whole number of at least 0, got \"-1\""},
        {"--rho -1", "--rho: wanted a number of at least 0, got \"-1\""},
        {"--batch-norm=3", "--batch-norm: wanted no value, got \"3\""},
        {"--batch 3", "ambiguous option \"--batch\": --help lists the options"},
        {"--note ''", "--note: wanted TEXT, got \"\""},
        {"--note", "--note: wanted a value, got \"\""},
        {"--picture a.svg", "--picture: wanted a file that ends in .png, got \"a.svg\""},
        {"--picture .png", "--picture: wanted a file that ends in .png, got \".png\""},
        {"--home gpu:0", "--home: wanted host, or cpu:0 to cpu:7, got \"gpu:0\""},
        {"--home cpu:8", "--home: wanted host, or cpu:0 to cpu:7, got \"cpu:8\""},
        {"--home cpu:4294967296", "--home: wanted host, or cpu:0 to cpu:7, got \"cpu:4294967296\""},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        assert_int_equal(parse_own(faults[i][0]), 2);
        assert_non_null(strstr(err, faults[i][1]));
    }
}

static void seed_0_is_a_seed(void **state)
{
    (void)state;
    assert_int_equal(parse("--seed 0"), 7);
    assert_string_equal(out, "- 512 8 0 0.001 0 0 0 0 - - - 0 0\n");
}

static void expect(const char *command_line, int code, const char *sentence)
{
    assert_int_equal(parse(command_line), code);
    assert_string_equal(err, sentence);
    assert_string_equal(out, "");
}

static void impossible_values_are_one_sentence(void **state)
{
    (void)state;
    static const char *const counts[] = {"0", "-1", "x", "3x", "1.5", "''", "0x10", "+3", "1e3"};
    static const char *const options[] = {"--batch-size", "--epochs", "--steps-per-epoch", "--devices"};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            char line[64], sentence[128];
            const char *got = strcmp(counts[k], "''") ? counts[k] : "";
            snprintf(line, sizeof line, "%s %s", options[i], counts[k]);
            snprintf(sentence, sizeof sentence, "cnn_mnist: %s: wanted a whole number of at least 1, got \"%s\"\n",
                     options[i], got);
            expect(line, 2, sentence);
        }
    }
    expect("--epochs 2147483648", 2,
           "cnn_mnist: --epochs: wanted a whole number of at most 2147483647, got \"2147483648\"\n");
    static const char *const rates[] = {"0", "-1e-3", "nan", "inf", "1e999", "1e-3x", "0x1p-3", "fast", "-"};
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        char line[64], sentence[128];
        snprintf(line, sizeof line, "--learning-rate=%s", rates[k]);
        snprintf(sentence, sizeof sentence, "cnn_mnist: --learning-rate: wanted a number above 0, got \"%s\"\n",
                 rates[k]);
        expect(line, 2, sentence);
    }
    expect("--precision fp8", 2, "cnn_mnist: --precision: wanted fp32, bf16, fp16 or tf32, got \"fp8\"\n");
#define NAMED(name) " " #name
    expect("--strategy fastest", 2,
           "cnn_mnist: --strategy: wanted one of:" KOLO_STRATEGIES(NAMED) ", got \"fastest\"\n");
#undef NAMED
    expect("--seed -1", 2, "cnn_mnist: --seed: wanted a whole number from 0 to 18446744073709551614, got \"-1\"\n");
    expect("--seed 18446744073709551616", 2,
           "cnn_mnist: --seed: wanted a whole number from 0 to 18446744073709551614, got \"18446744073709551616\"\n");
    expect("--seed 18446744073709551615", 2,
           "cnn_mnist: --seed: wanted a whole number from 0 to 18446744073709551614, got \"18446744073709551615\"\n");
    expect("--data ''", 2, "cnn_mnist: --data: wanted the name of a data set or a folder, got \"\"\n");
    expect("--devices 2 --strategy one_device", 2,
           "cnn_mnist: --devices: wanted 1 with --strategy one_device, got \"2\"\n");
    expect("--devices 9", 2,
           "cnn_mnist: --devices: wanted 1 to 8 (KOLO_CPU_DEVICES sets how many there are), got \"9\"\n");
    expect("--save a --history a", 2, "cnn_mnist: --history: wanted another file than --save, got \"a\"\n");
}

static void wrong_names_are_one_sentence(void **state)
{
    (void)state;
    expect("--batchsize 3", 2, "cnn_mnist: unknown option \"--batchsize\": --help lists the options\n");
    expect("--batch-size 3 --foo=1 --bar", 2, "cnn_mnist: unknown option \"--foo=1\": --help lists the options\n");
    expect("-x", 2, "cnn_mnist: unknown option \"-x\": --help lists the options\n");
    expect("--epochs 3 -xyz", 2, "cnn_mnist: unknown option \"-xyz\": --help lists the options\n");
    expect("--s 3", 2, "cnn_mnist: ambiguous option \"--s\": --help lists the options\n");
    expect("--epochs", 2, "cnn_mnist: --epochs: wanted a value, got \"\"\n");
    expect("--drop-remainder=yes", 2, "cnn_mnist: --drop-remainder: wanted no value, got \"yes\"\n");
    expect("--epochs 3 mnist", 2, "cnn_mnist: wanted options only, got \"mnist\"\n");
}

static void targets_are_tried_before_training(void **state)
{
    (void)state;
    mkdir("folder", 0755);
    expect("--save nowhere/a", 1,
           "cnn_mnist: --save: nowhere/a: wanted a file that can be written, got: No such file or directory\n");
    expect("--history folder", 1, "cnn_mnist: --history: folder: wanted a file to write, got a folder\n");
    expect("--save good --history /dev/null", 1,
           "cnn_mnist: --history: /dev/null: wanted a file to write, got a device or a pipe\n");
    assert_int_equal(access("good", F_OK), -1);
}

static void help_shows_the_defaults(void **state)
{
    (void)state;
    static const char *const words[] = {"Trains a network.", "--data=",
                                        "--batch-size=N",    "(default: 512)",
                                        "--epochs=N",        "(default: 8)",
                                        "--save=FILE",       "--history=FILE",
                                        "--devices=N",       "--strategy=NAME",
                                        "--learning-rate=X", "--seed=N",
                                        "--deterministic",   "--no-validation",
                                        "--drop-remainder",  "--precision=fp32|bf16|fp16|tf32",
                                        "(default: 0.001)",  "--steps-per-epoch=N"};
    assert_int_equal(parse("--epochs 3 --help"), 0);
    assert_string_equal(err, "");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) assert_non_null(strstr(out, words[i]));
    assert_int_equal(parse("-h"), 0);
}

static void help_names_the_programs_own_data(void **state)
{
    (void)state;
    data_default = "cifar-10";
    assert_int_equal(parse("--help"), 0);
    data_default = NULL;
    assert_non_null(strstr(out, "cifar-10 or another folder of"));
    assert_null(strstr(out, "mnist,"));
}

static void a_program_that_trains_nothing_has_fewer(void **state)
{
    (void)state;
    trains_nothing = true;
    assert_int_equal(parse("--devices 2"), 7);
    assert_int_equal(parse("--help"), 0);
    assert_non_null(strstr(out, "--devices=N"));
    assert_null(strstr(out, "--epochs"));
    expect("--epochs 3", 2, "cnn_mnist: unknown option \"--epochs\": --help lists the options\n");
    trains_nothing = false;
}

/* A wrong environment ends the program where the command line is read: nothing is trained on other terms. */
static void a_failed_start_ends_the_program(void **state)
{
    (void)state;
    static const char *const faults[][2] = {
        {"KOLO_CPU_DEVICES", "abc"}, {"KOLO_THREADS", "0"}, {"KOLO_BACKEND", "foo"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        setenv(faults[i][0], faults[i][1], 1);
        assert_int_equal(parse(""), 2);
        assert_non_null(strstr(err, faults[i][0]));
        assert_non_null(strstr(err, faults[i][1]));
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
        assert_string_equal(out, "");
        unsetenv(faults[i][0]);
    }
}

static void the_strategy_is_what_was_asked(void **state)
{
    (void)state;
    kolo_options options = {0};
    assert_null(kolo_options_strategy(&options).kind);
    options.devices = 3;
    assert_ptr_equal(kolo_options_strategy(&options).kind, &kolo_mirrored_kind);
    assert_int_equal(kolo_options_strategy(&options).devices, 3);
    options = (kolo_options){.strategy = "mirrored"};
    assert_ptr_equal(kolo_options_strategy(&options).kind, &kolo_mirrored_kind);
    assert_int_equal(kolo_options_strategy(&options).devices, 0);
    options.strategy = "one_device";
    assert_ptr_equal(kolo_options_strategy(&options).kind, &kolo_one_device_kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_sets_its_own),
        cmocka_unit_test(seed_0_is_a_seed),
        cmocka_unit_test(impossible_values_are_one_sentence),
        cmocka_unit_test(wrong_names_are_one_sentence),
        cmocka_unit_test(targets_are_tried_before_training),
        cmocka_unit_test(help_shows_the_defaults),
        cmocka_unit_test(a_program_that_trains_nothing_has_fewer),
        cmocka_unit_test(the_strategy_is_what_was_asked),
        cmocka_unit_test(own_options_set_their_own),
        cmocka_unit_test(own_options_are_judged_too),
        cmocka_unit_test(help_names_the_programs_own_data),
        cmocka_unit_test(a_failed_start_ends_the_program),
    };
    return cmocka_run_group_tests_name("core/options", tests, enter_folder, leave_folder);
}
