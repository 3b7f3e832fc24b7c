/* What is shown while training: the progress bar and its line, for a terminal, a log or a notebook. */
#ifndef KOLO_SHOW_H
#define KOLO_SHOW_H

#include <kolo.h>

/* Whether this process's output is shown in a notebook (KOLO_DISPLAY is set). */
bool kolo_in_notebook(void);

typedef struct kolo_progress {
    int verbose; /* 0 nothing, 1 a bar, 2 a line an epoch */
    int epochs, steps;
    int epoch;                /* from 0 */
    double started, redrawn;  /* seconds, kolo_now() */
    int width;                /* columns of the line last drawn */
} kolo_progress;

/* One number of the line: "loss: 0.3582". */
typedef struct kolo_measure {
    const char *name;
    double value;
} kolo_measure;

/* verbose as in kolo_fit: 0 chooses by where stdout goes; silent on ranks other than 0. */
void kolo_progress_begin(kolo_progress *progress, int verbose, int epochs, int steps);
void kolo_progress_epoch(kolo_progress *progress, int epoch);
/* After step `done` of the epoch; redraws at most every 50 ms (200 ms in a notebook). */
void kolo_progress_step(kolo_progress *progress, int done, const kolo_measure *measures, int count);
/* The epoch's last line, with its validation measures. seconds: of training. */
void kolo_progress_end(kolo_progress *progress, int done, double seconds, const kolo_measure *measures, int count);
/* Breaks off a bar that stands on an unfinished line, before anything else is printed. */
void kolo_progress_break(kolo_progress *progress);

/* Seconds since some fixed moment. */
double kolo_now(void);

#endif
