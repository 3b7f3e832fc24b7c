/* Faults that a learner wants: see kolo_fault() in kolo_tools.h. The trainer asks here at every step of a replica.
 *
 * `number` is the rank; in a program of one rank, the number of the replica. */
#ifndef KOLO_RUNTIME_FAULT_H
#define KOLO_RUNTIME_FAULT_H

#include "comm/comm.h"

/* Whether any fault is wanted. Without one the functions below need not be called. */
bool kolo_faults_wanted(void);
/* Fails if the variable KOLO_FAULT is set and is no fault. */
kolo_status kolo_fault_check_environment(void);

/* Lets the faults happen that come before this step: the process dies, the thread waits for ever, or a message of the
 * step will be lost. `worker`: the step is a worker's, which calls no collectives. Fails if a fault cannot happen
 * here. */
kolo_status kolo_fault_strike(int number, int64_t step, bool worker);
/* Lets those happen that come after it: flips a bit of weights[count], and waits so that the step, which took so many
 * seconds, takes a multiple. Returns whether a bit was flipped. */
bool kolo_fault_follow(int number, int64_t step, double seconds, float *weights, int64_t count);

/* The treatment of this process's next message to another rank. */
typedef enum kolo_fate {
    KOLO_FATE_ARRIVES,
    KOLO_FATE_SKIPPED, /* this one call is left out */
    KOLO_FATE_DROPPED, /* this one message does not arrive */
    KOLO_FATE_CUT   /* no message arrives any more, in either direction */
} kolo_fate;
/* To be asked once for each message. Any thread. */
kolo_fate kolo_next_fate(void);
bool kolo_link_is_cut(void);

/* lossy.c: the ranks' comm, on which messages are lost as kolo_next_fate() says. It is valid until the next call;
 * closing it closes `ranks`. */
kolo_comm *kolo_lossy_comm(kolo_comm *ranks);

#endif
