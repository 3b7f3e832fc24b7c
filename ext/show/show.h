/* What is shown while training: the progress bar and its line, for a terminal, a log or a notebook. */
#ifndef KOLO_SHOW_H
#define KOLO_SHOW_H

#include <kolo.h>

/* Whether what this process prints is shown in a notebook: KOLO_DISPLAY is set, and stdout is not a file. */
bool kolo_in_notebook(void);

typedef struct kolo_progress {
    int verbose; /* 0 nothing, 1 a bar, 2 a line an epoch */
    int epochs, steps;
    int before; /* steps of the epoch that were done before */
    bool redraws, colours;        /* what this stdout can: "\r", and a terminal's colours */
    double interval;              /* seconds between two drawings of a bar */
    double started, first, drawn; /* kolo_now() of the epoch's start, its first step's end, the last drawing */
    int width;                    /* columns of the unfinished line; 0: there is none */
} kolo_progress;

/* One number of the line: "loss: 0.3582". */
typedef struct kolo_measure {
    const char *name;
    double value;
} kolo_measure;

/* "loss: 0.3582", in kolo_phrase's ring; "loss: 3.5820e-05" and "loss: 1.0000e+30" where four decimals say nothing. */
const char *kolo_measure_text(const kolo_measure *measure);

/* verbose as in kolo_fit: 0 chooses by where stdout goes; silent on ranks other than 0. steps of an epoch. The line is
 * Keras 3's, measures in the order given. */
void kolo_progress_begin(kolo_progress *progress, int verbose, int epochs, int steps);
/* Epochs count from 0; "Epoch 1/8" is printed where there are several, as in Keras. done: steps of it, before. */
void kolo_progress_epoch(kolo_progress *progress, int epoch, int done);
/* A line of its own, before the epochs. */
void kolo_progress_say(kolo_progress *progress, const char *text);
/* In the place of all epochs: so many, or more, were done before. */
void kolo_progress_nothing(kolo_progress *progress, int done);
/* After step `done` of the epoch; redraws at most every 50 ms (200 ms in a notebook). */
void kolo_progress_step(kolo_progress *progress, int done, const kolo_measure *measures, int count);
/* The epoch's last line, with its validation measures. seconds: of training. */
void kolo_progress_end(kolo_progress *progress, int done, double seconds, const kolo_measure *measures, int count);
/* Breaks off a bar that stands on an unfinished line, before anything else is printed. */
void kolo_progress_break(kolo_progress *progress);

#endif
