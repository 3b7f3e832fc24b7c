/* The progress of a training: a bar and a line of measures, in a terminal, a log or a notebook. */
#ifndef KOLO_SHOW_H
#define KOLO_SHOW_H

#include <kolo.h>

typedef struct kolo_progress {
    int verbose; /* 0: nothing; 1: a bar; 2: a line per epoch */
    int epochs, steps; /* of the training; of an epoch */
    int before; /* steps of the epoch that an earlier fit did */
    bool redraws, colours;        /* whether stdout can redraw a line with "\r"; whether it has colours */
    double interval;              /* seconds between two drawings of a bar */
    double started, first, drawn; /* kolo_now() of the epoch's start, its first step's end, the last drawing */
    int width;                    /* columns of the unfinished line of stdout; 0: there is none */
} kolo_progress;

/* One measure of the line: "loss: 0.3582". */
typedef struct kolo_measure {
    const char *name;
    double value;
} kolo_measure;

/* "loss: 0.3582", in a buffer of kolo_phrase(). Numbers that are too small or too large for four decimals are written
 * as "loss: 3.5820e-05". */
const char *kolo_measure_text(const kolo_measure *measure);

/* verbose as in kolo_fit(): 0 chooses by the kind of stdout. Ranks other than 0 print nothing. steps: of an epoch.
 * The format is that of Keras 3, with the measures in the order given. */
void kolo_progress_begin(kolo_progress *progress, int verbose, int epochs, int steps);
/* Begins an epoch, counted from 0; prints "Epoch 1/8" if there are several, as Keras does. done:
 * kolo_progress.before. */
void kolo_progress_epoch(kolo_progress *progress, int epoch, int done);
/* Prints a line before the epochs. */
void kolo_progress_say(kolo_progress *progress, const char *text);
/* Prints, in place of the epochs, that none is left to train: `done` were completed before. */
void kolo_progress_nothing(kolo_progress *progress, int done);
/* Called after step `done` of the epoch; redraws the bar at most every 50 ms (200 ms in a notebook). */
void kolo_progress_step(kolo_progress *progress, int done, const kolo_measure *measures, int count);
/* Prints the epoch's last line, with its validation measures. seconds: of its training. */
void kolo_progress_end(kolo_progress *progress, int done, double seconds, const kolo_measure *measures, int count);
/* Ends the unfinished line of a bar, before anything else is printed. */
void kolo_progress_break(kolo_progress *progress);

#endif
