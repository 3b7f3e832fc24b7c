/* A part of the centre's weights, with its server. Workers exchange with a part one at a time, in the order of their
 * tickets. The centre gives out one ticket for each exchange (center.h), so all parts see the same order, and
 * the weights have the same bits for any number of parts. While one worker exchanges with a part, the next worker can
 * exchange with the part before it.
 */
#ifndef KOLO_REPLICA_CENTER_PART_H
#define KOLO_REPLICA_CENTER_PART_H

#include "strategy/strategy.h"

/* The weights first … end-1, which are those of the parameters first_parameter … end_parameter-1. */
typedef struct kolo_part_range {
    int first_parameter, end_parameter;
    int64_t first, end;
} kolo_part_range;

/* An exchange, as the centre has admitted it. */
typedef struct kolo_ticket {
    int64_t epoch, number; /* the number is counted from 0 in each epoch */
    int64_t staleness;     /* see kolo_exchange */
    /* For strategies with .updates_center: the samples of the gradient, the learning rate, and the number of updates
     * before. */
    double samples, learning_rate;
    int64_t updates;
    /* The workers that hold the tickets before this one: holder[0] the ticket number - 1, holder[1] number - 2, …; -1:
     * its holder cannot die. A part leaves out the ticket of a worker that has died. There is at most one ticket for
     * each worker, so the list is that long at most. */
    int16_t holder[KOLO_DEVICES_MAX];
    int holders;
} kolo_ticket;

/* One step of the optimizer on this range of weights[], with the sum of gradients. Both arrays are whole. */
typedef kolo_status kolo_center_update(void *owner, const kolo_part_range *range, float *weights, const float *gradient,
                                       const kolo_ticket *ticket);

typedef struct kolo_part_args {
    const kolo_strategy_kind *kind;
    const kolo_strategy *strategy;
    kolo_part_range range;
    float *weights; /* the whole centre's, of which the part uses its range */
    kolo_center_update *update; /* NULL unless kind->updates_center */
    void *owner;
} kolo_part_args;

typedef struct kolo_center_part kolo_center_part;

kolo_status kolo_center_part_open(const kolo_part_args *args, kolo_center_part **part);
void kolo_center_part_close(kolo_center_part **part); /* takes NULL */

/* Begins an epoch: tickets of earlier epochs are not valid any more. Those of later epochs wait for theirs. */
void kolo_center_part_begin(kolo_center_part *part, int64_t epoch);
/* Calls fail with KOLO_COMM_CALLED_OFF until the next epoch begins. */
void kolo_center_part_fail(kolo_center_part *part);
/* The worker is gone: its tickets are left out from now on. */
void kolo_center_part_lose(kolo_center_part *part, int worker);

/* Waits for the ticket's turn, and exchanges. The arrays of `mine` and the gradient are whole. *done: false if the turn
 * has not come after `seconds` (0: waits for ever); the call is then to be made again. */
kolo_status kolo_center_part_exchange(kolo_center_part *part, const kolo_ticket *ticket, const kolo_exchange *mine,
                                      const float *gradient, double seconds, bool *done);
/* Waits for the ticket's turn, and calls visit() while nobody exchanges. After a failure it calls it at once. Returns
 * false if the turn has not come after `seconds`. */
bool kolo_center_part_visit(kolo_center_part *part, const kolo_ticket *ticket, double seconds,
                            void (*visit)(void *visitor, const kolo_part_args *args), void *visitor);

#endif
