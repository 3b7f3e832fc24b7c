/* An all-reduce of a learner's own (kolo_own_comm), in place of a group's.
 *
 * The learner's function moves its bytes with kolo_send() and kolo_receive(). While it runs, these are watched: one
 * that waits too long fails, and all later ones of the same call fail at once. So a function that waits for a message
 * which no rank sends ends, even if it ignores what its calls return.
 */
#ifndef KOLO_COMM_OWN_H
#define KOLO_COMM_OWN_H

#include "comm/comm.h"

/* Fails unless the struct is complete. */
kolo_status kolo_own_comm_check(const kolo_own_comm *own);
/* own->name, or "of your own". */
const char *kolo_own_comm_name(const kolo_own_comm *own);

/* Calls own->allreduce() on this member of `ranks`, with its messages watched as `watch` says. Fails if it, or a
 * message in it, fails. Does not wait for the other members. */
kolo_status kolo_own_allreduce(const kolo_own_comm *own, kolo_comm *ranks, kolo_message_watch watch, float *values,
                               int64_t count);

/* Receives and drops the messages that a failed call has left, so that the next call does not. All members call it. */
void kolo_drop_messages(kolo_comm *ranks);

/* Opens a group of the same members as `ranks`, whose sums of floats own->allreduce() computes; `ranks` does everything
 * else. The caller keeps `own` and `ranks` until it has closed the group. */
kolo_status kolo_comm_own_open(const kolo_own_comm *own, kolo_comm *ranks, kolo_comm **comm);

#endif
