/* kolo-board: the class's board, its instructor's calls and its learners'. */
#define _GNU_SOURCE
#include "board/board.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *file, *address, *host, *words[5];
    char **program; /* of ring and open: the words that are a program's */
    double slow; /* ring: how many times slower than it could this rank computes; 0: it computes as fast as it can */
    int port, count;
} options;

static const char doc[] =
    "The live board of a class: who has passed which exercise, who is stuck at which hint, who waits.\v"
    "COMMAND is one of\n"
    "  serve                    start the board; it prints its URLs\n"
    "  push URL TEXT            show TEXT to every learner; - reads it from the input\n"
    "  results FILE             print the results as CSV, also of a board that has ended; or results URL\n"
    "  open URL SIZE PROGRAM... open a ring: SIZE learners' programs become the ranks of one job\n"
    "  join URL NAME            a learner takes part from now on\n"
    "  leave                    and no longer\n"
    "  news                     what the instructor has pushed\n"
    "  wait                     show on the board that you wait for help\n"
    "  helped                   and no longer\n"
    "  ring PROGRAM...          run PROGRAM as a rank of the ring that the instructor has opened\n"
    "  send EXERCISE EVENT [N]  tell of tried, passed, hint (number N), waiting or served\n";
static const struct argp_option known[] = {
    {"file", 'f', "FILE", 0, "serve: where the class is kept (default: kolo-board.json)", 0},
    {"address", 'a', "ADDRESS", 0,
     "serve: where to listen (default: 127.0.0.1; 0.0.0.0 is every network of this machine)", 0},
    {"host", 'H', "NAME", 0, "serve: this machine's name in the URLs", 0},
    {"port", 'p', "PORT", 0, "serve: default 9090; ring: where this rank listens (default: a free port)", 0},
    {"slow", 's', "FACTOR", 0, "ring: this rank is a straggler, whose steps take FACTOR times as long", 0},
    {0},
};

static bool program_follows(const options *o)
{
    return (o->count == 1 && strcmp(o->words[0], "ring") == 0) || (o->count == 3 && strcmp(o->words[0], "open") == 0);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    options *o = state->input;
    char *end;
    switch (key) {
    case 'f': o->file = value; return 0;
    case 'a': o->address = value; return 0;
    case 'H': o->host = value; return 0;
    case 'p':
        o->port = (int)strtol(value, &end, 10);
        if (*end || end == value || o->port < 0 || o->port > 65535)
            exit(board_say(BOARD_WRONG_USE, "--port is a number from 0 to 65535, got '%s'", value));
        return 0;
    case 's':
        o->slow = strtod(value, &end);
        if (*end || !(o->slow >= 1 && o->slow <= 1000))
            exit(board_say(BOARD_WRONG_USE, "--slow is a number from 1 to 1000, got '%s'", value));
        return 0;
    case ARGP_KEY_ARG:
        if (o->count == 5) exit(board_say(BOARD_WRONG_USE, "one argument too many: '%s'", value));
        o->words[o->count++] = value;
        if (program_follows(o)) {
            o->program = state->argv + state->next;
            state->next = state->argc; /* its options are not this program's */
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int push(const char *url, const char *text)
{
    char input[4097];
    if (strcmp(text, "-") != 0) return board_push(url, text);
    size_t size = fread(input, 1, sizeof input, stdin);
    if (size == sizeof input) return board_say(BOARD_WRONG_USE, "a message has at most 4000 bytes");
    input[size] = '\0';
    return board_push(url, input);
}

static int send_number(const char *exercise, const char *event, const char *number)
{
    char *end = "";
    long value = number ? strtol(number, &end, 10) : 0;
    if (*end || value < 0 || value > 100)
        return board_say(BOARD_WRONG_USE, "a hint's number is from 0 to 100, got '%s'", number);
    return board_send(exercise, event, (int)value);
}

static int wrong_count(const char *command, const char *wanted);

static int open_ring(const options *o)
{
    char *end, *command = NULL;
    size_t bytes;
    if (!o->program || !*o->program) return wrong_count("open", "URL SIZE PROGRAM...");
    long size = strtol(o->words[2], &end, 10);
    if (*end || size < 2 || size > 64)
        return board_say(BOARD_WRONG_USE, "a ring has 2 to 64 learners, got '%s'", o->words[2]);
    FILE *out = open_memstream(&command, &bytes);
    if (!out) return board_say(BOARD_FAILED, "no memory");
    for (char **word = o->program; *word; word++) fprintf(out, "%s%s", word == o->program ? "" : " ", *word);
    fclose(out);
    int code = board_open(o->words[1], (int)size, command);
    free(command);
    return code;
}

static int wrong_count(const char *command, const char *wanted)
{
    return board_say(BOARD_WRONG_USE, "wanted %s %s: `kolo-board --help` lists the commands", command, wanted);
}

static int run(const options *o)
{
    const char *command = o->count ? o->words[0] : "", *const *w = o->words + 1;
    int given = o->count - 1;
    if (strcmp(command, "serve") == 0)
        return given ? wrong_count(command, "without arguments")
                     : board_serve(o->file, o->address, o->host && *o->host ? o->host : NULL,
                                   o->port < 0 ? 9090 : o->port);
    if (strcmp(command, "push") == 0) return given != 2 ? wrong_count(command, "URL TEXT") : push(w[0], w[1]);
    if (strcmp(command, "results") == 0) return given != 1 ? wrong_count(command, "FILE or URL") : board_results(w[0]);
    if (strcmp(command, "join") == 0) return given != 2 ? wrong_count(command, "URL NAME") : board_join(w[0], w[1]);
    if (strcmp(command, "leave") == 0) return given ? wrong_count(command, "without arguments") : board_leave();
    if (strcmp(command, "news") == 0) return given ? wrong_count(command, "without arguments") : board_news();
    if (strcmp(command, "wait") == 0) return given ? wrong_count(command, "without arguments") : board_hand(true);
    if (strcmp(command, "helped") == 0) return given ? wrong_count(command, "without arguments") : board_hand(false);
    if (strcmp(command, "open") == 0) return open_ring(o);
    if (strcmp(command, "ring") == 0)
        return *o->program ? board_ring(o->port, o->slow, o->program) : wrong_count(command, "PROGRAM...");
    if (strcmp(command, "send") == 0)
        return given < 2 || given > 3 ? wrong_count(command, "EXERCISE EVENT [N]") : send_number(w[0], w[1], w[2]);
    return board_say(BOARD_WRONG_USE, "wanted a command, got '%s': `kolo-board --help` lists them", command);
}

int main(int argc, char **argv)
{
    options o = {.file = "kolo-board.json", .address = "127.0.0.1", .port = -1};
    argp_err_exit_status = BOARD_WRONG_USE;
    argp_parse(&(struct argp){.options = known, .parser = parse, .args_doc = "COMMAND [ARGUMENT...]", .doc = doc}, argc,
               argv, ARGP_IN_ORDER, NULL, &o);
    return run(&o);
}
