/* kolorun's command line, read by glibc's argp. Names are horovodrun's, or else mpirun's or torchrun's. */
#define _GNU_SOURCE 1 /* asprintf */
#include "launch/options.h"

#include "core/help.h"
#include "launch/config.h"
#include "launch/options_check.h"
#include "launch/say.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MPI_ARGS = 256,
    KEY_OUTPUT,
    KEY_VERBOSE,
    KEY_CHECK,
    KEY_START_TIMEOUT,
    KEY_HOSTFILE,
    KEY_HELP,
    KEY_INTERFACES,
    KEY_STOP_TIMEOUT,
    KEY_KEEP_GOING,
    KEY_STALL_LIMIT,
    KEY_FAULT,
    KEY_RESTARTS,
    KEY_MPI,
    KEY_LEAST,
    KEY_DISCOVERY,
    KEY_CONFIG,
    KEY_BIND_TO,
    KEY_WDIR,
    KEY_TIMESTAMPS,
    KEY_SHOWN_RANKS,
    KEY_MERGE_STDERR,
    KEY_HIERARCHICAL,
    KEY_NO_HIERARCHICAL,
    KEY_NO_STALL_CHECK,
    KEY_RDMA,
    KEY_TCP,
    KEY_TIMELINE,
    KEY_AUTOTUNE,
    KEY_NO_AUTOTUNE,
    KEY_AUTOTUNE_LOG,
};

static const struct argp_option known_options[] = {
    {"num-proc", 'n', "N", 0,
     "Start N ranks (also written -np N); inside a SLURM allocation the default is its number of tasks", 1},
    {"np", 'n', "N", OPTION_ALIAS, NULL, 1},
    {"hosts", 'H', "HOST:SLOTS,...", 0,
     "Hosts and how many ranks each may hold; default localhost, with room for all; USER@HOST where ssh needs a name",
     1},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "The same from a file, a line a host: NAME slots=N", 1},
    {"host-discovery-script", KEY_DISCOVERY, "FILE", 0,
     "The same from a program that prints a line a host, NAME:SLOTS; it is run at each start, see --restarts", 1},
    {"min-np", KEY_LEAST, "N", 0,
     "With --host-discovery-script, start with N ranks or more where there are no slots for -np; default -np", 1},
    {"network-interfaces", KEY_INTERFACES, "NAME,...", 0,
     "Networks that join the hosts, as interfaces (eth0) or subnets (10.0.0.0/24); default: the one that they share",
     1},
    {"network-interface", KEY_INTERFACES, "NAME", OPTION_ALIAS, NULL, 1},
    {"ssh-port", 'p', "PORT", 0, "The port of sshd on the other hosts; default: what ssh's own settings say", 1},
    {"ssh-identity-file", 'i', "FILE", 0, "The private key for ssh; default: what ssh's own settings say", 1},
    {"rdma", KEY_RDMA, "ucx|verbs", OPTION_ARG_OPTIONAL,
     "Exchange messages by RDMA: --rdma or --rdma=ucx through UCX, --rdma=verbs through Open MPI's older openib; "
     "--check-build tells what there is",
     1},
    {"tcp", KEY_TCP, NULL, 0, "Exchange MPI's messages over TCP alone, also on one host; default: shared memory there",
     1},
    {"env", 'x', "NAME=VALUE", 0,
     "Set a variable for the ranks; may be repeated; -x NAME insists that kolorun's environment has it, all of which "
     "the ranks get anyway",
     2},
    {"wdir", KEY_WDIR, "FOLDER", 0, "The ranks' working directory; default: this one, on every host", 2},
    {"bind-to", KEY_BIND_TO, "WHAT", 0,
     "Bind each rank to a core, hwthread, l1cache, l2cache, l3cache, numa, socket or none; default none; a rank's "
     "threads are as many as its part of the cores",
     2},
    {"config-file", KEY_CONFIG, "FILE", 0,
     "Read options from a JSON file: {\"num-proc\": 4, \"verbose\": true, \"env\": [\"A=1\"]}; the command line wins",
     2},
    {"hierarchical-allreduce", KEY_HIERARCHICAL, NULL, 0, "Reduce on each host before the hosts reduce among them", 2},
    {"no-hierarchical-allreduce", KEY_NO_HIERARCHICAL, NULL, 0, "Do not; this is the default", 2},
    {"autotune", KEY_AUTOTUNE, NULL, 0,
     "Let kolo_fit() over ranks try sizes of the gradient's buckets in its first steps and keep the fastest; it says "
     "which",
     2},
    {"no-autotune", KEY_NO_AUTOTUNE, NULL, 0, "Undo the --autotune of a --config-file or of KOLO_AUTOTUNE=1", 2},
    {"autotune-log-file", KEY_AUTOTUNE_LOG, "FILE", 0,
     "With --autotune, write the sizes that were tried and their seconds a step to a table in CSV", 2},
    {"mpi-args", KEY_MPI_ARGS, "ARGS", 0, "More arguments for mpirun, in quotes", 2},
    {"start-timeout", KEY_START_TIMEOUT, "SECONDS", 0, "Give up when not all ranks have started by then; default 30",
     2},
    {"stop-timeout", KEY_STOP_TIMEOUT, "SECONDS", 0,
     "After Ctrl-C, TERM or HUP, kill the ranks that have not ended by then; default 30; a second Ctrl-C kills at once",
     2},
    {"keep-going", KEY_KEEP_GOING, NULL, 0,
     "When a rank fails, report it and let the others go on; the exit code is that of the first that failed. When a "
     "rank "
     "has ended and all others do nothing for twice the --stall-limit, they are ended",
     2},
    {"restarts", KEY_RESTARTS, "N", 0,
     "Start a job that has failed again, up to N times; programs go on from their last checkpoint "
     "(kolo_backup_and_restore)",
     2},
    {"stall-limit", KEY_STALL_LIMIT, "SECONDS", 0,
     "End the job when a rank does not come to a collective in which the others wait; default 60, 0 for never", 2},
    {"no-stall-check", KEY_NO_STALL_CHECK, NULL, 0, "The same as --stall-limit 0", 2},
    {"fault", KEY_FAULT, "SPEC", 0,
     "Let a fault happen in training: rank=3,step=10,what=kill (or segv, exit, hang, skip, drop, cut, slow:5x, "
     "flip); several with ; between them; not in restarts",
     2},
    {"timeline", KEY_TIMELINE, "FILE", 0,
     "Record where the time of all ranks goes, from kolo_init() to kolo_finish(), as a trace that ui.perfetto.dev and "
     "chrome://tracing open",
     2},
    {"timeline-filename", KEY_TIMELINE, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 2}, /* horovodrun's */
    {"mpi", KEY_MPI, NULL, OPTION_HIDDEN, NULL, 2}, /* horovodrun's, and not an abbreviation of --mpi-args */
    {"output-filename", KEY_OUTPUT, "FOLDER", 0,
     "Also write each rank's output to FOLDER/rank.N/stdout and FOLDER/rank.N/stderr", 3},
    {"local-ranks-filter", KEY_SHOWN_RANKS, "N,...", 0,
     "Show only the output of the ranks with these numbers on each host, which count from 0; files and the report of a "
     "failure have all",
     3},
    {"prefix-output-with-timestamp", KEY_TIMESTAMPS, NULL, 0, "Begin each line with the time at which it came", 3},
    {"prefix-timestamp", KEY_TIMESTAMPS, NULL, OPTION_ALIAS, NULL, 3},
    {"merge-stderr-to-stdout", KEY_MERGE_STDERR, NULL, 0,
     "Let each rank's stderr be its stdout, so that the lines of both stay in the order in which they were written", 3},
    {"verbose", KEY_VERBOSE, NULL, 0, "Print the mpirun line, and what mpirun itself says", 3},
    {"check-build", KEY_CHECK, NULL, 0, "Say what this Kolo was built with and what is available here, and exit", 4},
    {"cb", KEY_CHECK, NULL, OPTION_ALIAS, NULL, 4},
    {"version", 'v', NULL, 0, "Print the version and exit", 4},
    {"help", KEY_HELP, NULL, 0, "Print this and exit (also -h)", 4},
    {"h", KEY_HELP, NULL, OPTION_HIDDEN, NULL, 4},
    {0},
};

#define AT(member) offsetof(struct launch_options, member)

/* Where the value of an option is kept. */
static const struct {
    int key;
    size_t offset;
} texts[] = {{'H', AT(hosts)},
             {KEY_HOSTFILE, AT(hostfile)},
             {KEY_MPI_ARGS, AT(mpi_args)},
             {KEY_FAULT, AT(fault)},
             {KEY_OUTPUT, AT(output_folder)},
             {KEY_DISCOVERY, AT(discovery)},
             {'i', AT(ssh_key)},
             {KEY_CONFIG, AT(config_file)},
             {KEY_BIND_TO, AT(bind_to)},
             {KEY_WDIR, AT(wdir)},
             {KEY_SHOWN_RANKS, AT(shown_ranks)},
             {KEY_TIMELINE, AT(timeline)},
             {KEY_AUTOTUNE_LOG, AT(autotune_log)}},
  flags[] = {{KEY_KEEP_GOING, AT(keep_going)},
             {KEY_VERBOSE, AT(verbose)},
             {KEY_CHECK, AT(check_build)},
             {'v', AT(version)},
             {KEY_HELP, AT(help)},
             {KEY_TIMESTAMPS, AT(timestamps)},
             {KEY_MERGE_STDERR, AT(merge_stderr)},
             {KEY_TCP, AT(tcp)}};
static const struct {
    int key;
    size_t offset;
    const char *name;
    int least, most;
} numbers[] = {{'n', AT(ranks), "-np", 1, INT_MAX},
               {'p', AT(ssh_port), "--ssh-port", 1, 65535},
               {KEY_START_TIMEOUT, AT(start_timeout), "--start-timeout", 1, INT_MAX},
               {KEY_STOP_TIMEOUT, AT(stop_timeout), "--stop-timeout", 1, INT_MAX},
               {KEY_RESTARTS, AT(restarts), "--restarts", 0, INT_MAX},
               {KEY_LEAST, AT(least), "--min-np", 1, INT_MAX},
               {KEY_STALL_LIMIT, AT(stall_limit), "--stall-limit", 0, INT_MAX}};
#define COUNT(array) (sizeof(array) / sizeof *(array))

struct reading {
    struct launch_options *options;
    const char *where; /* the file that the words are from; "": the command line */
    int code;          /* KOLORUN_GO_ON until a sentence was printed */
};

static int read_number(struct reading *reading, const char *option, const char *text, int least, int most, int *number)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!errno && end != text && !*end && value >= least && value <= most) {
        *number = (int)value;
        return 0;
    }
    char range[64];
    if (most == INT_MAX) snprintf(range, sizeof range, "of at least %d", least);
    else snprintf(range, sizeof range, "from %d to %d", least, most);
    reading->code =
        launch_say(KOLORUN_WRONG_USE, "%s%s: wanted a whole number %s, got '%s'", reading->where, option, range, text);
    return EINVAL;
}

static bool is_known(const char *name, size_t length)
{
    for (const struct argp_option *option = known_options; option->name; option++)
        if ((!strncmp(option->name, name, length) && !option->name[length]) || (length == 1 && *name == option->key))
            return true;
    return false;
}

static void refuse_option(struct reading *reading, const struct argp_state *state)
{
    if (reading->code != KOLORUN_GO_ON) return;
    const char *word = state->argv[state->next > 1 ? state->next - 1 : 1];
    if (!word) word = "";
    const char *name = word + strspn(word, "-");
    size_t length = strcspn(name, "=");
    bool known = is_known(name, length);
    if (known && name[length])
        reading->code = launch_say(KOLORUN_WRONG_USE, "%s%.*s: wanted no value, got '%s'", reading->where,
                                   (int)(name + length - word), word, name + length + 1);
    else if (known)
        reading->code = launch_say(KOLORUN_WRONG_USE, "%s%s: wanted a value, got none", reading->where, word);
    else
        reading->code = launch_say(KOLORUN_WRONG_USE, "%s'%s' is not an option of kolorun; see kolorun --help",
                                   reading->where, word);
}

static int add_variable(struct reading *reading, const char *text)
{
    if (*text == '=' || !*text)
        reading->code = launch_say(KOLORUN_WRONG_USE, "%s-x: wanted NAME=VALUE, got '%s'", reading->where, text);
    else if (!strchr(text, '=') && !getenv(text))
        reading->code = launch_say(KOLORUN_WRONG_USE,
                                   "%s-x %s: wanted a variable of kolorun's environment, or %s=VALUE; it is not set",
                                   reading->where, text, text);
    else words_add(&reading->options->variables, text);
    return reading->code == KOLORUN_GO_ON ? 0 : EINVAL;
}

static int add_interface(struct launch_options *options, const char *text)
{
    char *joined = NULL;
    if (asprintf(&joined, "%s%s%s", options->interfaces ? options->interfaces : "", options->interfaces ? "," : "",
                 text) < 0)
        return ENOMEM;
    free(options->interfaces);
    options->interfaces = joined;
    return 0;
}

/* Reads an option that has a place in one of the tables above. */
static error_t read_value(struct reading *reading, int key, char *text)
{
    char *base = (char *)reading->options;
    for (size_t i = 0; i < COUNT(texts); i++)
        if (texts[i].key == key) {
            memcpy(base + texts[i].offset, &text, sizeof text);
            return 0;
        }
    for (size_t i = 0; i < COUNT(flags); i++)
        if (flags[i].key == key) {
            base[flags[i].offset] = true;
            return 0;
        }
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (numbers[i].key == key) {
            int number = 0;
            error_t error = read_number(reading, numbers[i].name, text, numbers[i].least, numbers[i].most, &number);
            if (!error) memcpy(base + numbers[i].offset, &number, sizeof number);
            return error;
        }
    return ARGP_ERR_UNKNOWN;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct reading *reading = state->input;
    struct launch_options *options = reading->options;
    switch (key) {
    case KEY_INTERFACES: return add_interface(options, text);
    case 'x': return add_variable(reading, text);
    case KEY_RDMA: options->rdma = text ? text : "ucx"; return 0;
    case KEY_HIERARCHICAL: options->hierarchical = 1; return 0;
    case KEY_NO_HIERARCHICAL: options->hierarchical = 0; return 0;
    case KEY_AUTOTUNE: options->autotune = 1; return 0;
    case KEY_NO_AUTOTUNE: options->autotune = 0; return 0;
    case KEY_NO_STALL_CHECK: options->stall_limit = 0; return 0;
    case KEY_MPI: return 0; /* the ranks always use MPI */
    case ARGP_KEY_ARG: /* the command, with all words that follow */
        options->command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_ERROR: refuse_option(reading, state); return 0;
    default: return read_value(reading, key, text);
    }
}

static const struct argp grammar = {
    known_options,
    read_option,
    "COMMAND [ARGUMENTS...]",
    "Start COMMAND as N ranks over Open MPI and watch over them.\v"
    "Each line of output is tagged with its rank: [1,0]<stdout>:text. The first rank to fail is named, the others are "
    "ended, and kolorun exits with that rank's code: 128 + signal when a signal ended it, 130 after Ctrl-C. Wrong use "
    "exits with 2.\n\n"
    "  kolorun -np 8 ./cnn --batch-size 2048\n"
    "  kolorun -np 16 -H server1:8,server2:8 ./cnn",
    NULL,
    NULL,
    NULL};

int options_help(void)
{
    bool printed = kolo_print_help(&grammar, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, "kolorun");
    return printed ? KOLORUN_DONE : KOLORUN_FAILED;
}

static int parse_words(int argc, char **argv, struct reading *reading)
{
    error_t error =
        argp_parse(&grammar, argc, argv, ARGP_LONG_ONLY | ARGP_IN_ORDER | ARGP_NO_ERRS | ARGP_NO_HELP, NULL, reading);
    if (reading->code != KOLORUN_GO_ON) return reading->code;
    if (!error) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_WRONG_USE, "the command line could not be read: %s", strerror(error));
}

/* Sets the defaults, of which one may be in the environment. */
static int begin(struct reading *reading)
{
    const char *timeout = getenv("KOLO_START_TIMEOUT");
    struct launch_options *options = reading->options;
    *options = (struct launch_options){
        .start_timeout = 30, .stop_timeout = 30, .stall_limit = -1, .hierarchical = -1, .autotune = -1};
    if (timeout) read_number(reading, "KOLO_START_TIMEOUT", timeout, 1, INT_MAX, &options->start_timeout);
    return reading->code;
}

/* Reads the options of the file `path`. */
static int parse_file(const char *path, struct launch_options *options)
{
    char where[300];
    snprintf(where, sizeof where, "%s: ", path);
    struct reading reading = {.options = options, .where = where, .code = KOLORUN_GO_ON};
    words_add(&options->from_file, "kolorun");
    int code = config_read(path, known_options, &options->from_file);
    if (code != KOLORUN_GO_ON) return code;
    return parse_words((int)options->from_file.count, options->from_file.word, &reading);
}

/* Gives back what the file says of hosts and networks, unless the command line says it. */
static void restore(struct launch_options *options, struct launch_options *file)
{
    if (!options->hosts && !options->hostfile && !options->discovery) {
        options->hosts = file->hosts;
        options->hostfile = file->hostfile;
        options->discovery = file->discovery;
    }
    if (options->interfaces) free(file->interfaces);
    else options->interfaces = file->interfaces;
}

/* Reads the file, and then the command line again, over it. */
static int parse_over_file(int argc, char **argv, const char *path, struct launch_options *options)
{
    struct reading reading = {.options = options, .where = "", .code = KOLORUN_GO_ON};
    options_free(options);
    int code = begin(&reading);
    if (code == KOLORUN_GO_ON) code = parse_file(path, options);
    if (code != KOLORUN_GO_ON) return code;
    struct launch_options file = *options;
    options->hosts = options->hostfile = options->discovery = NULL;
    options->interfaces = NULL;
    code = parse_words(argc, argv, &reading);
    restore(options, &file);
    return code;
}

int options_parse(int argc, char **argv, struct launch_options *options)
{
    struct reading reading = {.options = options, .where = "", .code = KOLORUN_GO_ON};
    int code = begin(&reading);
    if (code == KOLORUN_GO_ON) code = parse_words(argc, argv, &reading);
    const char *path = options->config_file;
    if (code == KOLORUN_GO_ON && path) code = parse_over_file(argc, argv, path, options);
    if (code == KOLORUN_GO_ON && (options->variables.failed || options->from_file.failed))
        code = launch_say(KOLORUN_FAILED, "out of memory");
    return code == KOLORUN_GO_ON ? options_check(options) : code;
}

void options_free(struct launch_options *options)
{
    words_free(&options->variables);
    words_free(&options->from_file);
    free(options->interfaces);
    options->interfaces = NULL;
}
