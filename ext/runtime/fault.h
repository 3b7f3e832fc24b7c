/* Faults that a learner wants: see kolo_fault() in kolo_tools.h. The trainer asks here at every step of a replica.
 *
 * `number` is the rank; in a program of one rank, the number of the replica. */
#ifndef KOLO_RUNTIME_FAULT_H
#define KOLO_RUNTIME_FAULT_H

#include "core/error.h"

/* Whether any fault is wanted. Without one the functions below need not be called. */
bool kolo_faults_wanted(void);

/* Lets the faults happen that come before this step: the process dies, or the thread waits for ever. */
void kolo_fault_strike(int number, int64_t step);
/* Lets those happen that come after it: flips a bit of weights[count], and waits so that the step, which took so many
 * seconds, takes a multiple. Returns whether a bit was flipped. */
bool kolo_fault_follow(int number, int64_t step, double seconds, float *weights, int64_t count);

#endif
