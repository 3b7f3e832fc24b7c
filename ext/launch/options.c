/* kolorun's command line, read by glibc's argp. Names are horovodrun's. */
#include "launch/options.h"

#include "core/fault_text.h"
#include "core/help.h"
#include "launch/say.h"

#include <errno.h>
#include <limits.h>
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
    KEY_TIMELINE,
};

static const struct argp_option known_options[] = {
    {"num-proc", 'n', "N", 0,
     "Start N ranks (also written -np N); inside a SLURM allocation the default is its number of tasks", 1},
    {"np", 'n', "N", OPTION_ALIAS, NULL, 1},
    {"hosts", 'H', "HOST:SLOTS,...", 0, "Hosts and how many ranks each may hold; default localhost, with room for all",
     1},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "The same from a file, a line a host: NAME slots=N", 1},
    {"host-discovery-script", KEY_DISCOVERY, "FILE", 0,
     "The same from a program that prints a line a host, NAME:SLOTS; it is run at each start, see --restarts", 1},
    {"min-np", KEY_LEAST, "N", 0,
     "With --host-discovery-script, start with N ranks or more where there are no slots for -np; default -np", 1},
    {"network-interfaces", KEY_INTERFACES, "NAME,...", 0,
     "Networks that join the hosts, as interfaces (eth0) or subnets (10.0.0.0/24); default: the one that they share",
     1},
    {"mpi-args", KEY_MPI_ARGS, "ARGS", 0, "More arguments for mpirun, in quotes", 2},
    {"output-filename", KEY_OUTPUT, "FOLDER", 0,
     "Also write each rank's output to FOLDER/rank.N/stdout and FOLDER/rank.N/stderr", 2},
    {"start-timeout", KEY_START_TIMEOUT, "SECONDS", 0, "Give up when not all ranks have started by then; default 30",
     2},
    {"stop-timeout", KEY_STOP_TIMEOUT, "SECONDS", 0,
     "After Ctrl-C, TERM or HUP, kill the ranks that have not ended by then; default 30; a second Ctrl-C kills at once",
     2},
    {"keep-going", KEY_KEEP_GOING, NULL, 0,
     "When a rank fails, report it and let the others go on; the exit code is that of the first that failed", 2},
    {"restarts", KEY_RESTARTS, "N", 0,
     "Start a job that has failed again, up to N times; programs go on from their last checkpoint "
     "(kolo_backup_and_restore)",
     2},
    {"stall-limit", KEY_STALL_LIMIT, "SECONDS", 0,
     "End the job when a rank does not come to a collective in which the others wait; default 60, 0 for never", 2},
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
    {"verbose", KEY_VERBOSE, NULL, 0, "Print the mpirun line, and what mpirun itself says", 3},
    {"check-build", KEY_CHECK, NULL, 0, "Say what this Kolo was built with and what is available here, and exit", 3},
    {"cb", KEY_CHECK, NULL, OPTION_ALIAS, NULL, 3},
    {"version", 'v', NULL, 0, "Print the version and exit", 3},
    {"help", KEY_HELP, NULL, 0, "Print this and exit (also -h)", 3},
    {"h", KEY_HELP, NULL, OPTION_HIDDEN, NULL, 3},
    {0},
};

struct reading {
    struct launch_options *options;
    int code; /* KOLORUN_GO_ON until a sentence was printed */
};

static int read_number_from(int least, struct reading *reading, const char *option, const char *text, int *number)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > INT_MAX) {
        reading->code =
            launch_say(KOLORUN_WRONG_USE, "%s: wanted a whole number of at least %d, got '%s'", option, least, text);
        return EINVAL;
    }
    *number = (int)value;
    return 0;
}

static int read_number(struct reading *reading, const char *option, const char *text, int *number)
{
    return read_number_from(1, reading, option, text, number);
}

static void refuse_option(struct reading *reading, const struct argp_state *state)
{
    if (reading->code != KOLORUN_GO_ON) return;
    const char *word = state->argv[state->next > 1 ? state->next - 1 : 1], *name = word ? word + strspn(word, "-") : "";
    bool known = false;
    for (const struct argp_option *option = known_options; option->name; option++)
        known = known || !strcmp(option->name, name) || (name[0] == option->key && !name[1]);
    reading->code =
        known ? launch_say(KOLORUN_WRONG_USE, "%s: wanted a value, got none", word)
              : launch_say(KOLORUN_WRONG_USE, "'%s' is not an option of kolorun; see kolorun --help", word ? word : "");
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct reading *reading = state->input;
    struct launch_options *options = reading->options;
    switch (key) {
    case 'n': return read_number(reading, "-np", text, &options->ranks);
    case 'H': options->hosts = text; break;
    case KEY_HOSTFILE: options->hostfile = text; break;
    case KEY_MPI_ARGS: options->mpi_args = text; break;
    case KEY_INTERFACES: options->interfaces = text; break;
    case KEY_OUTPUT: options->output_folder = text; break;
    case KEY_START_TIMEOUT: return read_number(reading, "--start-timeout", text, &options->start_timeout);
    case KEY_STOP_TIMEOUT: return read_number(reading, "--stop-timeout", text, &options->stop_timeout);
    case KEY_RESTARTS: return read_number_from(0, reading, "--restarts", text, &options->restarts);
    case KEY_LEAST: return read_number(reading, "--min-np", text, &options->least);
    case KEY_DISCOVERY: options->discovery = text; break;
    case KEY_KEEP_GOING: options->keep_going = true; break;
    case KEY_STALL_LIMIT: return read_number_from(0, reading, "--stall-limit", text, &options->stall_limit);
    case KEY_FAULT: options->fault = text; break;
    case KEY_TIMELINE: options->timeline = text; break;
    case KEY_VERBOSE: options->verbose = true; break;
    case KEY_CHECK: options->check_build = true; break;
    case KEY_MPI: break; /* the ranks always use MPI */
    case 'v': options->version = true; break;
    case KEY_HELP: options->help = true; break;
    case ARGP_KEY_ARG: /* the command, with all words that follow */
        options->command = &state->argv[state->next - 1];
        state->next = state->argc;
        break;
    case ARGP_KEY_ERROR: refuse_option(reading, state); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int check_fault(const char *text)
{
    char why[200];
    kolo_fault_wishes wishes = {0};
    if (!text || kolo_faults_read(&wishes, text, why, sizeof why)) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_WRONG_USE, "--fault: %s", why);
}

static int check_options(const struct launch_options *options)
{
    if (options->check_build || options->version || options->help) return KOLORUN_GO_ON;
    if (options->hosts && options->hostfile)
        return launch_say(KOLORUN_WRONG_USE, "-H and --hostfile both name the hosts: wanted one of them, got both");
    if (options->discovery && (options->hosts || options->hostfile))
        return launch_say(KOLORUN_WRONG_USE,
                          "%s and --host-discovery-script both name the hosts: wanted one of them, "
                          "got both",
                          options->hosts ? "-H" : "--hostfile");
    if (options->least && !options->discovery)
        return launch_say(KOLORUN_WRONG_USE, "--min-np: wanted --host-discovery-script, too, got none");
    if (options->ranks && options->least > options->ranks)
        return launch_say(KOLORUN_WRONG_USE, "--min-np: wanted at most the %d ranks of -np, got %d", options->ranks,
                          options->least);
    int code = check_fault(options->fault);
    if (code != KOLORUN_GO_ON) return code;
    if (!options->command)
        return launch_say(KOLORUN_WRONG_USE, "no command: wanted kolorun -np 8 ./program, got no program to start");
    return KOLORUN_GO_ON;
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

int options_parse(int argc, char **argv, struct launch_options *options)
{
    *options = (struct launch_options){.start_timeout = 30, .stop_timeout = 30, .stall_limit = -1};
    struct reading reading = {.options = options, .code = KOLORUN_GO_ON};
    const char *timeout = getenv("KOLO_START_TIMEOUT");
    if (timeout && read_number(&reading, "KOLO_START_TIMEOUT", timeout, &options->start_timeout)) return reading.code;

    error_t error =
        argp_parse(&grammar, argc, argv, ARGP_LONG_ONLY | ARGP_IN_ORDER | ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &reading);
    if (reading.code != KOLORUN_GO_ON) return reading.code;
    if (error) return launch_say(KOLORUN_WRONG_USE, "the command line could not be read: %s", strerror(error));
    return check_options(options);
}
