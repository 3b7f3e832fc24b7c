/* A cell whose text may grow without bounds as it is read (macros within macros, included files, ranges of
 * initialisers) is read by a copy of this process first, in limits of time and memory: libclang works in the kernel's
 * own process, which must outlive whatever a learner writes. */
#ifndef KERNEL_TRIAL_H
#define KERNEL_TRIAL_H

#include "cells/analyser.h"

typedef enum trial_end {
    TRIAL_PASSED, /* or there was no need for one */
    TRIAL_MEMORY, /* more memory than it may have, or libclang gave up */
    TRIAL_TIME,   /* more processor time */
    TRIAL_WAIT,   /* it waits for a file that gives nothing */
    TRIAL_INTERRUPTED,
} trial_end;

/* Seconds of processor time that a trial may take: help is not waited for as long as a cell. */
#define TRIAL_OF_CELL 4
enum { TRIAL_OF_HELP = 1 };

/* May this text, the unit of a cell, be read in the kernel's process? `wake`: readable when the cell is interrupted;
 * -1: it is not interrupted. */
trial_end trial_of(const analyser *a, const text *unit, unsigned seconds, int wake);
/* A sentence about it for the user. */
const char *trial_sentence(trial_end end);

/* growth.c: may reading this text need much more memory or time than its size tells? */
bool grows(const char *unit, size_t size);

#endif
