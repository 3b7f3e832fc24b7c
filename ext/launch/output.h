/* The ranks' output, shown in complete lines, each tagged with its rank and stream.
 *
 * A unit is a line (ended by \n) or a redraw, for instance of a progress bar (ended by \r, or following one). A line is
 * shown as "[1,RANK]<stdout>:text\n", after the time if that is asked for. In a file or a pipe a redraw is shown as a
 * line. In a terminal or a notebook redraws are shown in place: the bar of the lowest rank that has one is in the
 * bottom line, and lines of other ranks appear above it. lines.c cuts units, output.c shows them, queue.c writes them.
 */
#ifndef KOLO_LAUNCH_OUTPUT_H
#define KOLO_LAUNCH_OUTPUT_H

#include "launch/queue.h"

#include <stdbool.h>
#include <stddef.h>

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR };
enum output_place { OUTPUT_FILE, OUTPUT_TERMINAL, OUTPUT_NOTEBOOK };

enum {
    OUTPUT_FULL = 1 << 20,         /* queued bytes above which no more output is read from the ranks */
    OUTPUT_LONGEST_LINE = 4 << 20, /* a longer line is shown in parts */
    LAST_WORDS = 5,                /* last lines of a rank's stderr that are kept for the report */
    LAST_WORD_LENGTH = 400,        /* bytes kept of each of these lines */
    OUTPUT_TIME = 24,              /* characters of a timestamp, "2026-11-26 16:04:21.125 " */
};

struct output_source { /* one stream of one rank */
    char *text;        /* the unfinished unit */
    size_t length, capacity;
    bool after_return; /* the last unit ended in \r, so a \n that follows at once only ends the bar */
    bool undrawn;      /* `text` has grown since it was last shown in place */
    int file;          /* its file under --output-filename; negative: none */
};

struct output_rank {
    struct output_source source[2];
    char words[LAST_WORDS][LAST_WORD_LENGTH + 1]; /* ring buffer of the last lines of stderr */
    unsigned word_count;                          /* number of lines ever stored in it */
    bool aftermath;                               /* output_aftermath() was called */
    bool hidden;                                  /* its output is not shown (--local-ranks-filter) */
};

struct output {
    struct output_rank *rank;
    int ranks;
    int fd[2]; /* kolorun's stdout and stderr */
    enum output_place place;
    struct queue queue;
    int bar_rank; /* the rank whose bar is in the bottom line, or -1 */
    enum output_stream bar_stream;
    char *bar; /* the bar's text with its tag */
    const char *folder; /* of the files */
    bool incomplete; /* a file could not be written */
    bool timestamps; /* each line begins with the time (--prefix-output-with-timestamp) */
    bool merged;     /* the ranks write both streams to stdout (--merge-stderr-to-stdout) */
};

/* OUTPUT_TERMINAL, OUTPUT_NOTEBOOK (KOLO_DISPLAY is set and `fd` is not a file), or OUTPUT_FILE, also for a pipe. */
enum output_place output_place_of(int fd);
/* Opens `folder`/rank.N/stdout and stderr unless folder is NULL. A first start empties them and removes those of ranks
 * that this job has not; a `restart` adds to them. Returns KOLORUN_GO_ON, or an exit code after a sentence. */
int output_open(struct output *output, int ranks, const char *folder, bool restart);
/* Adds bytes that a rank printed; complete units are queued. */
void output_take(struct output *output, int rank, enum output_stream stream, const char *bytes, size_t length);
/* Called when a rank is being ended: from now on Open MPI's own messages ("[host:pid] PMIX ERROR ...", because its
 * launcher is gone) are left out. */
void output_aftermath(struct output *output, int rank);
/* Called when there was no output for a moment: shows, in place, the unfinished text of the lowest rank that has some
 * (a prompt, or a bar that follows its \r). */
void output_idle(struct output *output);
/* Whether output_idle() would show anything. */
bool output_undrawn(const struct output *output);
/* Called when a rank has ended: ends its unfinished lines. */
void output_end_rank(struct output *output, int rank);
/* Queues a sentence of kolorun as a line on stderr. */
void output_say(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Line i of the last lines of the rank's stderr, oldest first; NULL after the last. */
const char *output_last_words(const struct output *output, int rank, unsigned i);
/* Ends the bar in the bottom line with a newline. */
void output_finish_bar(struct output *output);
/* False if a file could not be written completely, which output_take() has said. */
bool output_close(struct output *output);

/* For lines.c: show a complete line, and a redraw. */
void output_show_line(struct output *output, int rank, enum output_stream stream, const char *text, size_t length);
void output_show_redraw(struct output *output, int rank, enum output_stream stream, const char *text, size_t length);

#endif
