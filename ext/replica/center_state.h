/* The state of a centre, which center.c and center_exchange.c share. The functions at the end are called with the lock
 * held. */
#ifndef KOLO_REPLICA_CENTER_STATE_H
#define KOLO_REPLICA_CENTER_STATE_H

#include <pthread.h>

#include "replica/center.h"

typedef enum kolo_center_ending { GOES_ON, STOPPED, FAILED } kolo_center_ending;

typedef struct kolo_center_worker_state {
    kolo_exchange exchange;
    int64_t exchanged_at; /* the number of exchanges after its last one */
    int *batches;         /* [exchange.batches], those since its last exchange, with the one that it trains on */
    size_t room;
    int turn, position; /* with an order: where it looks for its next turn; batches of that turn that it was given */
    bool trains;        /* it was given a batch and has not reported it */
    bool admitted;      /* it is on its way through the parts */
    double given_at;    /* when it was given its last batch, or admitted */
    kolo_totals totals;    /* of its batches in this epoch */
    kolo_totals exchanged; /* of those that it has exchanged */
    bool arrived;       /* it waits in an exchange of all */
    bool gone, given_up; /* it will not come any more; it will soon be gone, since it does not come */
} kolo_center_worker_state;

struct kolo_center {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything that a call may wait for has changed */
    kolo_center_parts *parts; /* the caller's */
    kolo_parts_args args;     /* theirs */
    kolo_center_worker_state *workers;
    int16_t holder[KOLO_DEVICES_MAX]; /* of the last tickets: that of ticket n at n % KOLO_DEVICES_MAX */
    int64_t exchanges, updates; /* since the centre was opened */
    int64_t tickets; /* given out in this epoch */
    double learning_rate;
    kolo_center_epoch epoch;
    int64_t number; /* of the epoch */
    double stall_limit, longest; /* seconds: kolo_stall_limit(); the longest that a batch has taken */
    bool (*give_up)(void *owner, int worker, double limit); /* see center.h; NULL: no worker is given up */
    void *giver_up;
    int stalled;                 /* the worker that has failed the epoch, since it does not come; -1: none */
    int lost_server;             /* a rank that is gone with its parts; -1: none */
    kolo_center_ending ended;
    bool over; /* the epoch is finished, and the next one has not begun */
    bool last_round; /* exchanges of all: the epoch was stopped, and all workers learn it after the same exchange */
    int turn;        /* the number of the epoch's next exchange */
    int round;       /* exchanges of all so far in this epoch */
    int taken[KOLO_DEVICES_MAX]; /* of each shard: the number of the next batch */
    int trained;
    int lost, last_lost; /* the number of workers that are gone; the last of them */
    int *returned; /* [returned_count] batches of workers that are gone */
    int returned_count;
    kolo_totals totals;
};

/* ---- center.c ---- */

/* The failure of a call that the end of the epoch has called off. */
kolo_status kolo_center_called_off(const kolo_center *center);
/* The moment after so many seconds; 0: never, for 0 seconds. */
double kolo_center_end_of(double seconds);
/* Waits until something has changed, or `end` has come, which the result says. */
bool kolo_center_wait(kolo_center *center, double end);
/* holder: the worker; -1: none. */
kolo_ticket kolo_center_give_ticket(kolo_center *center, int holder);
/* Gives up a worker that trains or exchanges for longer than the limit, and ten times as long as any before. Where the
 * others cannot go on without it, the epoch fails. */
void kolo_center_look_for_stalled(kolo_center *center);

/* ---- center_exchange.c ---- */

/* Leaves out the turns of workers that are gone. */
void kolo_center_skip_lost_turns(kolo_center *center);
/* Makes the exchange of all if all that are left have come. */
void kolo_center_exchange_if_all_came(kolo_center *center);

#endif
