/* Makes one text of the ranks' output: whole lines, each after its rank's tag, "[3] text", live and in the order of
 * each rank. A line that is redrawn ("\r") or not finished is shown below the others and replaced in place.
 *
 * Everything is a stream first, so that any client, log or test has it as it comes. When a cell of many lines has
 * ended, the stream makes place (clear_output) for one display in which each rank's part can be folded: HTML for
 * JupyterLab and notebooks that are saved or exported, the same lines as plain text for the rest. Not while it runs: a
 * display that is sent anew for each line would cost the square of its length, and would shut under a reader's hand.
 * Read first: output.h. */
#ifndef KERNEL_RANKS_TRANSCRIPT_H
#define KERNEL_RANKS_TRANSCRIPT_H

#include "output.h"

typedef struct rank_output {
    text unit[3];      /* by stream: what is not a line yet */
    text drawn[3];     /* the text before the last "\r" */
    double since[3];   /* when the unfinished unit began; 0: nothing to show */
    text said;         /* whole lines; one of stderr begins with STDERR_MARK */
    size_t count;      /* of lines */
} rank_output;

enum { STDERR_MARK = '\002' };

typedef struct transcript {
    output *out;
    rank_output *outputs;
    int count;
    int bar;           /* whose unfinished line is shown at the bottom; -1: none */
    int bar_stream;
    text bar_text;
    size_t total;      /* bytes of lines */
    size_t printed;    /* bytes of the cell's output that are the ranks' */
    bool dropped;      /* not all could be shown */
    bool displays;     /* something else was published in between: nothing may be cleared away */
} transcript;

/* At the beginning of a cell. */
void transcript_begin(transcript *t, output *out, int count);
void transcript_add(transcript *t, int rank, int stream, const char *bytes, size_t size);
/* Shows units that have been unfinished for a while. */
void transcript_tick(transcript *t);
/* Ends the rank's unfinished lines. */
void transcript_end(transcript *t, int rank);
/* fold.c: the foldable display in the place of the stream, once, where that is worth it and nothing but the ranks'
 * lines would be cleared away. */
void transcript_fold(transcript *t);
void transcript_free(transcript *t);

#endif
