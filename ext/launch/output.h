/* What the ranks print, made readable: whole lines, each tagged with its rank and stream, in one order.
 *
 * A unit is a line (ended by \n) or a redraw (ended by \r, or standing behind one: a progress bar). Lines come out as
 * "[1,RANK]<stdout>:text\n". Redraws are lines of their own in a file or a pipe; in place (a terminal, a notebook) the
 * bar of the lowest rank that has one is redrawn at the bottom, and lines of others pass above it.
 * lines.c cuts units, output.c shows them, queue.c brings them out. */
#ifndef KOLO_LAUNCH_OUTPUT_H
#define KOLO_LAUNCH_OUTPUT_H

#include "launch/queue.h"

#include <stdbool.h>
#include <stddef.h>

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR };
enum output_place { OUTPUT_FILE, OUTPUT_TERMINAL, OUTPUT_NOTEBOOK };

enum {
    OUTPUT_FULL = 1 << 20,         /* bytes waiting beyond which the ranks should be held back */
    OUTPUT_LONGEST_LINE = 4 << 20, /* a longer line is cut */
    LAST_WORDS = 5,                /* lines of stderr kept for a rank's obituary */
    LAST_WORD_LENGTH = 400,
};

struct output_source { /* one stream of one rank */
    char *text;        /* what came since the last unit ended */
    size_t length, capacity;
    bool after_return; /* the last unit ended in \r: a \n now only closes it */
    bool undrawn;      /* `text` has grown since it was last shown in place */
    int file;          /* its file under --output-filename, or -1 */
};

struct output_rank {
    struct output_source source[2];
    char words[LAST_WORDS][LAST_WORD_LENGTH + 1]; /* the last lines of stderr, a ring */
    unsigned word_count;                          /* lines ever put into it */
    bool aftermath;                               /* output_aftermath() was called */
};

struct output {
    struct output_rank *rank;
    int ranks;
    int fd[2]; /* where stdout and stderr go */
    enum output_place place;
    struct queue queue;
    int bar_rank; /* whose bar stands at the bottom, or -1 */
    enum output_stream bar_stream;
    char *bar; /* its text, tagged */
};

/* A terminal, a notebook (KOLO_DISPLAY is set and `fd` is no file), or else a file or a pipe. */
enum output_place output_place_of(int fd);
/* Opens `folder`/rank.N/stdout and stderr when `folder` is given. Returns KOLORUN_GO_ON, or an exit code after a
 * sentence. */
int output_open(struct output *output, int ranks, const char *folder);
/* Takes bytes that a rank printed; whole units are queued. */
void output_take(struct output *output, int rank, enum output_stream stream, const char *bytes, size_t length);
/* The rank is being ended: what Open MPI itself complains of from here on ("[host:pid] PMIX ERROR ...", its launcher
 * has gone) is of no use to anybody and left out. */
void output_aftermath(struct output *output, int rank);
/* Nothing new for a moment: shows unfinished text of the lowest rank that has some, where that can be done in place (a
 * prompt, or a bar drawn behind its \r). */
void output_idle(struct output *output);
/* True while output_idle() would have something to do. */
bool output_undrawn(const struct output *output);
/* The rank has ended: its unfinished lines are ended by a newline. */
void output_end_rank(struct output *output, int rank);
/* Queues a sentence of kolorun's own as a line on stderr. */
void output_say(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Line `i` of the rank's last words on stderr, oldest first; NULL behind the last. */
const char *output_last_words(const struct output *output, int rank, unsigned i);
/* Takes a bar that stands at the bottom for finished: what follows begins on a line of its own. */
void output_finish_bar(struct output *output);
void output_close(struct output *output);

/* For lines.c: a whole line, and a redraw. */
void output_show_line(struct output *output, int rank, enum output_stream stream, const char *text, size_t length);
void output_show_redraw(struct output *output, int rank, enum output_stream stream, const char *text, size_t length);

#endif
