/* The options that every program of the lessons understands, parsed by glibc's argp. The error messages of argp and
 * getopt take two lines and do not say what was wanted, so they are switched off, and this file writes its own. */
#include "core/file.h"
#include "core/help.h"
#include "runtime/runtime.h"
#include "strategy/strategy.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_key {
    OPTION_HELP = 'h',
    OPTION_DATA = 256,
    OPTION_BATCH_SIZE,
    OPTION_EPOCHS,
    OPTION_STEPS_PER_EPOCH,
    OPTION_DROP_REMAINDER,
    OPTION_NO_VALIDATION,
    OPTION_LEARNING_RATE,
    OPTION_PRECISION,
    OPTION_SEED,
    OPTION_DETERMINISTIC,
    OPTION_DEVICES,
    OPTION_STRATEGY,
    OPTION_WORKERS,
    OPTION_WINDOW,
    OPTION_SERVERS,
    OPTION_RECORD,
    OPTION_REPLAY,
    OPTION_SAVE,
    OPTION_HISTORY,
    OPTION_OWN /* the first option of the program's own */
};

static const kolo_strategy_kind *const strategies[] = {
#define KIND(name) &kolo_##name##_kind,
    KOLO_STRATEGIES(KIND)
#undef KIND
};
#define STRATEGIES     (sizeof strategies / sizeof *strategies)
#define QUOTED(name)   " " #name
#define STRATEGY_NAMES "one of:" KOLO_STRATEGIES(QUOTED)

static const struct argp_option option_table[] = {
    {"data", OPTION_DATA, "NAME|FOLDER", 0,
     "mnist, fashion-mnist or another folder of KOLO_DATA; a folder that holds IDX files; synthetic", 1},
    {"batch-size", OPTION_BATCH_SIZE, "N", 0, "samples an update", 1},
    {"epochs", OPTION_EPOCHS, "N", 0, "passes over the data", 1},
    {"steps-per-epoch", OPTION_STEPS_PER_EPOCH, "N", 0, "updates an epoch", 1},
    {"drop-remainder", OPTION_DROP_REMAINDER, NULL, 0, "leave out the last, short batch", 1},
    {"no-validation", OPTION_NO_VALIDATION, NULL, 0, "do not evaluate after each epoch", 1},
    {"learning-rate", OPTION_LEARNING_RATE, "X", 0, "of the optimizer", 2},
    {"precision", OPTION_PRECISION, "fp32|bf16|fp16|tf32", 0,
     "of the arithmetic; tf32 is of GPUs, on the CPU it is fp32", 2},
    {"seed", OPTION_SEED, "N", 0, "of weights, order and dropout", 2},
    {"deterministic", OPTION_DETERMINISTIC, NULL, 0, "the same bits for any number of devices and ranks", 2},
    {"devices", OPTION_DEVICES, "N", 0, "so many devices, a replica on each", 3},
    {"strategy", OPTION_STRATEGY, "NAME", 0, "how the devices share the work: " STRATEGY_NAMES, 3},
    {"workers", OPTION_WORKERS, "N", 0, "so many workers, threads that train on batches of their own", 3},
    {"window", OPTION_WINDOW, "N", 0, "batches that a worker trains on between two exchanges", 3},
    {"servers", OPTION_SERVERS, "N", 0, "divide the weights that workers exchange with among so many servers", 3},
    {"record", OPTION_RECORD, "FILE", 0, "write the order in which workers exchange there, as JSON", 3},
    {"replay", OPTION_REPLAY, "FILE", 0, "let workers exchange in the order of such a file", 3},
    {"save", OPTION_SAVE, "FILE", 0, "write the weights there, as safetensors", 4},
    {"history", OPTION_HISTORY, "FILE", 0, "write what each epoch gave there, as JSON", 4},
    {"help", OPTION_HELP, NULL, 0, "show this and end", 6},
    {0},
};
#define OPTIONS     (sizeof option_table / sizeof *option_table - 1)
#define OPTIONS_MAX (OPTIONS + KOLO_OWN_OPTIONS_MAX)

/* The common options and the program's own, for argp. */
typedef struct option_list {
    struct argp_option option[OPTIONS_MAX + 1]; /* the last one is all zeros */
    char help[OPTIONS_MAX][320];
} option_list;

/* ------------------------------------------------------------------------------------------ endings */

static const char *program_name(char **argv)
{
    const char *path = argv && argv[0] ? argv[0] : "kolo", *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static _Noreturn void leave(int code)
{
    kolo_finish();
    exit(code);
}

/* Every rank reads the same command line and finds the same mistake, so only rank 0 reports it. */
static _Noreturn void refuse(char **argv, const char *what, const char *wanted, const char *got)
{
    if (kolo_rank() == 0) {
        fflush(stdout);
        fprintf(stderr, "%s: %s%swanted %s, got \"%s\"\n", program_name(argv), what, *what ? ": " : "", wanted, got);
    }
    leave(KOLO_EXIT_USE);
}

/* ------------------------------------------------------------------------------------------ values */

typedef struct reading {
    char **argv;
    kolo_options *options;
    const struct argp_option *table; /* all options that the program understands */
    bool help;
    const char *option; /* the current option: "--epochs" */
    const char *value;  /* its value */
} reading;

static void wrong(const reading *r, const char *wanted)
{
    refuse(r->argv, r->option, wanted, r->value);
}

/* Reads a whole number; false if the text is not digits only, or exceeds 64 bits. */
static bool read_digits(const char *text, uint64_t *number)
{
    char *end;
    if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0;
}

static int read_count(const reading *r, bool or_zero)
{
    uint64_t number;
    bool digits = read_digits(r->value, &number);
    if (digits && number <= INT32_MAX && (number > 0 || or_zero)) return (int)number;
    bool large = strspn(r->value, "0123456789") == strlen(r->value) && strlen(r->value) > 9;
    const char *least = or_zero ? "a whole number of at least 0" : "a whole number of at least 1";
    wrong(r, large ? "a whole number of at most 2147483647" : least);
    return 0;
}

static uint64_t read_seed(const reading *r)
{
    uint64_t number;
    if (!read_digits(r->value, &number) || number == KOLO_NEW_SEED)
        wrong(r, "a whole number from 0 to 18446744073709551614");
    return number;
}

static kolo_precision read_precision(const reading *r)
{
    if (strcmp(r->value, "fp32") == 0) return KOLO_FLOAT32;
    if (strcmp(r->value, "bf16") == 0) return KOLO_MIXED_BF16;
    if (strcmp(r->value, "fp16") == 0) return KOLO_MIXED_FP16;
    if (strcmp(r->value, "tf32") != 0) wrong(r, "fp32, bf16, fp16 or tf32");
    return KOLO_TF32;
}

static const kolo_strategy_kind *find_strategy(const char *name)
{
    for (size_t i = 0; i < STRATEGIES; i++)
        if (strcmp(name, strategies[i]->name) == 0) return strategies[i];
    return NULL;
}

static const char *read_strategy(const reading *r)
{
    if (!find_strategy(r->value)) wrong(r, STRATEGY_NAMES);
    return r->value;
}

static const char *read_text(const reading *r, const char *wanted)
{
    if (!*r->value) wrong(r, wanted);
    return r->value;
}

static const char *read_own_text(const reading *r, const kolo_program_option *own)
{
    const char *text = read_text(r, own->value);
    size_t length = strlen(text), end = own->ending ? strlen(own->ending) : 0;
    if (end && (length <= end || strcmp(text + length - end, own->ending) != 0))
        wrong(r, kolo_phrase("a file that ends in %s", own->ending));
    return text;
}

/* Whether a word is one of `choices`: "adam|sgd|lamb". */
static bool is_choice(const char *choices, const char *word)
{
    size_t length = strcspn(word, "|");
    if (word[length]) return false;
    for (const char *choice = choices; length > 0 && choice; choice = strchr(choice, '|')) {
        choice += *choice == '|';
        if (strncmp(choice, word, length) == 0 && (choice[length] == '|' || !choice[length])) return true;
    }
    return false;
}

static const char *read_choice(const reading *r, const char *choices)
{
    char wanted[240];
    size_t used = 0;
    if (is_choice(choices, r->value)) return r->value;
    for (; *choices && used + 5 < sizeof wanted; choices++) {
        const char *last = strchr(choices + 1, '|') ? ", " : " or ", *next = (char[]){*choices, 0};
        used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s", *choices == '|' ? last : next);
    }
    wrong(r, wanted);
    return NULL;
}

static double read_number(const reading *r, bool or_zero)
{
    char *end;
    double number = strtod(r->value, &end);
    bool plain = *r->value && strspn(r->value, "0123456789.eE+-") == strlen(r->value) && *end == 0;
    if (!plain || !isfinite(number) || number < 0 || (number == 0 && !or_zero))
        wrong(r, or_zero ? "a number of at least 0" : "a number above 0");
    return number;
}

static void read_own(const reading *r, const kolo_program_option *own)
{
    if (own->flag) *own->flag = true;
    if (own->count) *own->count = read_count(r, own->or_zero);
    if (own->number) *own->number = read_number(r, own->or_zero);
    if (own->choice) *own->choice = read_choice(r, own->value);
    if (own->text) *own->text = read_own_text(r, own);
}

static void read_option(const reading *r, int key)
{
    kolo_options *options = r->options;
    switch (key) {
    case OPTION_DATA: options->data = read_text(r, "the name of a data set or a folder"); break;
    case OPTION_BATCH_SIZE: options->batch_size = read_count(r, false); break;
    case OPTION_EPOCHS: options->epochs = read_count(r, false); break;
    case OPTION_STEPS_PER_EPOCH: options->steps_per_epoch = read_count(r, false); break;
    case OPTION_DROP_REMAINDER: options->drop_remainder = true; break;
    case OPTION_NO_VALIDATION: options->no_validation = true; break;
    case OPTION_LEARNING_RATE: options->learning_rate = read_number(r, false); break;
    case OPTION_PRECISION: options->precision = read_precision(r); break;
    case OPTION_SEED: options->seed = read_seed(r); break;
    case OPTION_DETERMINISTIC: options->deterministic = true; break;
    case OPTION_DEVICES: options->devices = read_count(r, false); break;
    case OPTION_STRATEGY: options->strategy = read_strategy(r); break;
    case OPTION_WORKERS: options->workers = read_count(r, false); break;
    case OPTION_WINDOW: options->window = read_count(r, false); break;
    case OPTION_SERVERS: options->servers = read_count(r, false); break;
    case OPTION_RECORD: options->record = read_text(r, "a file to write"); break;
    case OPTION_REPLAY: options->replay = read_text(r, "a file that --record has written"); break;
    case OPTION_SAVE: options->save = read_text(r, "a file to write"); break;
    case OPTION_HISTORY: options->history = read_text(r, "a file to write"); break;
    default: read_own(r, &options->own[key - OPTION_OWN]); break;
    }
}

/* ------------------------------------------------------------------------------------------ argp */

static const struct argp_option *option_of(const struct argp_option *table, int key)
{
    while (table->name && table->key != key) table++;
    return table->name ? table : NULL;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    reading *r = state->input;
    char name[64];
    if (key == OPTION_HELP) r->help = true;
    if (key == ARGP_KEY_ARG) refuse(r->argv, "", "options only", value);
    const struct argp_option *option = option_of(r->table, key);
    if (!option) return ARGP_ERR_UNKNOWN;
    snprintf(name, sizeof name, "--%s", option->name);
    r->option = name;
    r->value = value;
    if (key != OPTION_HELP) read_option(r, key);
    return 0;
}

/* The option that "--name" or "--name=value" names: by its whole name, or by a beginning that no other option has. */
static const struct argp_option *find_option(const struct argp_option *table, const char *argument, bool *ambiguous)
{
    size_t length = strcspn(argument + 2, "=");
    const struct argp_option *found = NULL;
    *ambiguous = false;
    for (const struct argp_option *option = table; option->name; option++) {
        if (strncmp(option->name, argument + 2, length) != 0) continue;
        if (strlen(option->name) == length) {
            *ambiguous = false;
            return option;
        }
        *ambiguous = found != NULL;
        found = option;
    }
    return found;
}

static _Noreturn void refuse_name(char **argv, const char *argument, bool ambiguous)
{
    if (kolo_rank() == 0)
        fprintf(stderr, "%s: %s option \"%s\": --help lists the options\n", program_name(argv),
                ambiguous ? "ambiguous" : "unknown", argument);
    leave(KOLO_EXIT_USE);
}

/* Finds the mistake, since argp reports only that there was one. Values have been checked by then, so it is an
 * unknown name, a missing value, or a value for an option that takes none. */
static _Noreturn void refuse_first_fault(const struct argp_option *table, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool ambiguous = false, named = strncmp(argv[i], "--", 2) == 0;
        const struct argp_option *option = named ? find_option(table, argv[i], &ambiguous) : NULL;
        if (strcmp(argv[i], "-h") == 0) continue;
        if (!option || ambiguous) refuse_name(argv, argv[i], ambiguous);
        const char *value = strchr(argv[i], '='), *name = kolo_phrase("--%s", option->name);
        if (value && !option->arg) refuse(argv, name, "no value", value + 1);
        if (!value && option->arg && ++i == argc) refuse(argv, name, "a value", "");
    }
    refuse_name(argv, argv[argc - 1], false);
}

/* ------------------------------------------------------------------------------------------ help */

/* The default of a program's own option: the value that the program stored where the option's value goes; or NULL. */
static const char *default_of(const kolo_program_option *own)
{
    if (own->count) return *own->count > 0 ? kolo_phrase("%d", *own->count) : NULL;
    if (own->number) return *own->number > 0 ? kolo_phrase("%g", *own->number) : NULL;
    if (own->choice) return *own->choice;
    return own->text ? *own->text : NULL;
}

static const char *default_text(const kolo_options *options, int key)
{
    static const char *const precisions[] = {"fp32", "fp32", "bf16", "fp16", "tf32"};
    switch (key) {
    case OPTION_DATA: return options->data ? options->data : "mnist, or synthetic where KOLO_DATA is not set";
    case OPTION_BATCH_SIZE: return kolo_phrase("%d", options->batch_size > 0 ? options->batch_size : 32);
    case OPTION_EPOCHS: return kolo_phrase("%d", options->epochs > 0 ? options->epochs : 1);
    case OPTION_STEPS_PER_EPOCH:
        return options->steps_per_epoch > 0 ? kolo_phrase("%d", options->steps_per_epoch) : "as many as the data has";
    case OPTION_LEARNING_RATE:
        return options->learning_rate > 0 ? kolo_phrase("%g", options->learning_rate) : "the optimizer's";
    case OPTION_PRECISION: return precisions[options->precision];
    case OPTION_SEED:
        if (options->seed == KOLO_NEW_SEED) return "a new one each time";
        return kolo_phrase("%" PRIu64, options->seed);
    case OPTION_DEVICES:
        if (options->devices > 0) return kolo_phrase("%d", options->devices);
        return options->trains_nothing ? "all" : "one device";
    case OPTION_STRATEGY:
        if (options->strategy) return options->strategy;
        return kolo_phrase("%s with --devices, else %s", kolo_strategy_for_devices(1).kind->name,
                           kolo_strategy_kind_of(&(kolo_strategy){0})->name);
    case OPTION_WORKERS: return options->workers > 0 ? kolo_phrase("%d", options->workers) : "one on each device";
    case OPTION_WINDOW: return options->window > 0 ? kolo_phrase("%d", options->window) : "the strategy's";
    case OPTION_SERVERS: return kolo_phrase("%d", options->servers > 0 ? options->servers : 1);
    default: return key < OPTION_OWN || !options->own ? NULL : default_of(&options->own[key - OPTION_OWN]);
    }
}

/* The description of --data: a program whose data set is not MNIST names its own. */
static const char *data_doc(const kolo_options *options, const char *of_mnist)
{
    if (options->data_help) return options->data_help;
    if (!options->data) return of_mnist;
    return kolo_phrase("%s or another folder of KOLO_DATA; a folder that holds a data set's files; synthetic",
                       options->data);
}

/* Whether a program that trains nothing understands the option. */
static bool is_of_any_program(const struct argp_option *option)
{
    return option->key == OPTION_DEVICES || option->key == OPTION_HELP;
}

/* Lists the options, with their defaults in the descriptions. Called before parsing, which may change the defaults. */
static void make_list(option_list *list, const kolo_options *options)
{
    struct argp_option *next = list->option;
    memset(list, 0, sizeof *list);
    for (size_t i = 0; i < OPTIONS; i++)
        if (!options->trains_nothing || is_of_any_program(&option_table[i])) *next++ = option_table[i];
    for (int i = 0; options->own && options->own[i].name && i < KOLO_OWN_OPTIONS_MAX; i++) {
        const kolo_program_option *own = &options->own[i];
        *next++ = (struct argp_option){own->name, OPTION_OWN + i, own->flag ? NULL : own->value, 0, own->help, 5};
    }
    for (size_t i = 0; list->option[i].name; i++) {
        struct argp_option *option = &list->option[i];
        const char *value = default_text(options, option->key);
        if (option->key == OPTION_DATA) option->doc = data_doc(options, option->doc);
        if (option->key == OPTION_DEVICES && options->trains_nothing)
            option->doc = options->most_devices ? "so many modelled devices" : "the first so many";
        if (!value) continue;
        snprintf(list->help[i], sizeof list->help[i], "%s (default: %s)", option->doc, value);
        option->doc = list->help[i];
    }
}

static void show_help(char **argv, const option_list *list, const char *what)
{
    struct argp argp = {.options = list->option, .doc = what};
    kolo_print_help(&argp, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, program_name(argv));
}

/* ------------------------------------------------------------------------------------------ the calls */

/* Refuses options of workers with a strategy that has none. */
static void check_workers(char **argv, const kolo_options *options)
{
    const char *option = options->workers   ? "--workers"
                         : options->window  ? "--window"
                         : options->servers ? "--servers"
                         : options->record  ? "--record"
                         : options->replay  ? "--replay"
                                            : NULL;
    bool has = options->strategy && kolo_strategy_has_workers(find_strategy(options->strategy));
    if (option && !has)
        refuse(argv, option, "--strategy with one that has workers", options->strategy ? options->strategy : "none");
    if (options->window && find_strategy(options->strategy)->ensemble)
        refuse(argv, "--window", "a strategy whose workers exchange", options->strategy);
    if (options->workers > KOLO_DEVICES_MAX)
        refuse(argv, "--workers", kolo_phrase("1 to %d", KOLO_DEVICES_MAX), kolo_phrase("%d", options->workers));
    if (options->workers && options->devices)
        refuse(argv, "--workers", "no --devices beside it", kolo_phrase("%d", options->devices));
}

static void check_together(char **argv, const kolo_options *options)
{
    check_workers(argv, options);
    if (options->strategy && find_strategy(options->strategy)->one_replica && options->devices > 1)
        refuse(argv, "--devices", kolo_phrase("1 with --strategy %s", options->strategy),
               kolo_phrase("%d", options->devices));
    if (options->save && options->history && strcmp(options->save, options->history) == 0)
        refuse(argv, "--history", "another file than --save", options->history);
}

/* An option that asks for a device that this machine does not have. */
typedef struct refusal {
    const char *option, *wanted, *got; /* option NULL: all devices exist */
} refusal;

static refusal missing_device(const kolo_options *options)
{
    int there = kolo_visible_devices(), most = there > 0 ? there : 1; /* 0 devices: the host counts as one */
    if (options->most_devices > 0 && options->devices > options->most_devices)
        return (refusal){"--devices", kolo_phrase("1 to %d", options->most_devices),
                         kolo_phrase("%d", options->devices)};
    if (options->most_devices == 0 && options->devices > most)
        return (refusal){"--devices", kolo_phrase("1 to %d (%s sets how many there are)", most, kolo_device_variable()),
                         kolo_phrase("%d", options->devices)};
    for (const kolo_program_option *own = options->own; own && own->name; own++)
        if (own->device && *own->text && kolo_device_number(*own->text) == KOLO_NO_DEVICE)
            return (refusal){
                kolo_phrase("--%s", own->name),
                kolo_phrase("host, or %s:0 to %s:%d", kolo_device_word(), kolo_device_word(), kolo_device_count() - 1),
                *own->text};
    return (refusal){0};
}

/* Ranks may run on different machines. If one of them lacks a device, all end. Rank 0 reports what it lacks; if it
 * lacks nothing, the ranks that do report it. */
static void check_devices(char **argv, const kolo_options *options)
{
    refusal mine = missing_device(options);
    float lacks[2] = {mine.option != NULL, mine.option && kolo_rank() == 0}; /* some rank lacks a device; rank 0 does */
    if (kolo_allreduce(lacks, 2) == KOLO_OK && lacks[0] == 0) return;
    if (mine.option && (kolo_rank() == 0 || lacks[1] == 0))
        fprintf(stderr, "%s: %s: wanted %s, got \"%s\"\n", program_name(argv), mine.option, mine.wanted, mine.got);
    leave(KOLO_EXIT_USE);
}

static bool target_fails(char **argv, const char *option, const char *path)
{
    if (!path || kolo_check_writable(path) == KOLO_OK) return false;
    fprintf(stderr, "%s: %s: %s\n", program_name(argv), option, kolo_failure_take().text);
    return true;
}

static bool any_target_fails(char **argv, const kolo_options *options)
{
    bool failed = target_fails(argv, "--save", options->save) || target_fails(argv, "--history", options->history) ||
                  target_fails(argv, "--record", options->record);
    for (const kolo_program_option *own = options->own; own && own->name && !failed; own++)
        failed = own->written && target_fails(argv, kolo_phrase("--%s", own->name), *own->text);
    return failed;
}

/* Rank 0 writes the files, so it checks them, and broadcasts the result. */
static void check_targets(char **argv, const kolo_options *options)
{
    float failed = kolo_rank() == 0 && any_target_fails(argv, options);
    if (kolo_broadcast(&failed, 1, 0) != KOLO_OK || failed != 0) leave(KOLO_EXIT_FAILED);
}

static bool can_parse(char **argv, const kolo_options *options)
{
    kolo_scope scope = kolo_enter("kolo_parse_options", (kolo_here){0});
    kolo_status status = KOLO_OK;
    if (!argv || !options) status = kolo_fail(KOLO_INVALID, "wanted main's arguments and options to fill in, got NULL");
    return kolo_leave(scope, status) == KOLO_OK;
}

void kolo_parse_options(int argc, char **argv, kolo_options *options, const char *what_the_program_does)
{
    if (!can_parse(argv, options)) return;
    if (options->seed == 0) options->seed = KOLO_NEW_SEED;
    option_list list;
    make_list(&list, options);
    const struct argp argp = {.options = list.option, .parser = parse};
    reading r = {.argv = argv, .options = options, .table = list.option};
    error_t error = argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT | ARGP_IN_ORDER, NULL, &r);
    if (error) refuse_first_fault(list.option, argc, argv);
    if (r.help) {
        if (kolo_rank() == 0) show_help(argv, &list, what_the_program_does);
        leave(EXIT_SUCCESS);
    }
    if (kolo_failed()) exit(kolo_finish());
    check_together(argv, options);
    check_devices(argv, options);
    check_targets(argv, options);
}

kolo_strategy kolo_options_strategy(const kolo_options *options)
{
    if (!options->strategy) return kolo_strategy_for_devices(options->devices);
    return (kolo_strategy){._ = "",
                           .kind = find_strategy(options->strategy),
                           .devices = options->devices,
                           .workers = options->workers,
                           .window = options->window,
                           .servers = options->servers,
                           .record = options->record,
                           .replay = options->replay};
}
