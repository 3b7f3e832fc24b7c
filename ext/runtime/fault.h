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

/* Fails if a fault that is wanted cannot happen: one of messages in a program of one rank, or a skipped collective
 * where the steps are workers', which call none. */
kolo_status kolo_faults_check(bool workers);

/* A step of a replica. */
typedef struct kolo_fault_place {
    int number;
    int64_t step;
    bool worker; /* the step is a worker's */
    bool (*is_called_off)(const void *argument); /* whether the replicas of this process have given up the step */
    const void *argument;
} kolo_fault_place;
/* Lets the faults happen that come before this step: the process dies, the thread waits, or a message of the step will
 * be lost. Fails if a fault cannot happen here, and after a wait that was called off. */
kolo_status kolo_fault_strike(const kolo_fault_place *place);
/* Lets those happen that come after it: flips a bit of weights[count], and waits so that the step, which took so many
 * seconds, takes a multiple. Returns whether a bit was flipped. */
bool kolo_fault_follow(const kolo_fault_place *place, double seconds, float *weights, int64_t count);
/* Says which of this rank's faults have not happened, at the end of the program. */
void kolo_faults_end(void);

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
