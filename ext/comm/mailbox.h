/* Messages between threads of one process: a queue for each receiver. A message is copied when it is sent, so a sender
 * never waits. */
#ifndef KOLO_COMM_MAILBOX_H
#define KOLO_COMM_MAILBOX_H

#include "comm/comm.h"

typedef struct kolo_mailboxes kolo_mailboxes;

kolo_status kolo_mailboxes_open(int size, kolo_mailboxes **boxes);
void kolo_mailboxes_close(kolo_mailboxes *boxes); /* takes NULL; drops messages that were not received */

/* As send, receive and probe of kolo_comm_kind; from or me is the calling member. */
kolo_status kolo_mailboxes_send(kolo_mailboxes *boxes, int from, const void *data, size_t bytes, int to, int tag);
kolo_status kolo_mailboxes_receive(kolo_mailboxes *boxes, int me, void *data, size_t room, int from, int tag,
                                   kolo_message *message);
bool kolo_mailboxes_probe(kolo_mailboxes *boxes, int me, int from, int tag, kolo_message *message);
/* Ends the waits of all members, now and later: they fail with KOLO_COMM. */
void kolo_mailboxes_abort(kolo_mailboxes *boxes);

/* Fails if a message has more than `room` bytes, or elements of another type than the tag of the receive wants. Bytes
 * receive any type, and any type receives bytes. `tag`: the message's own. */
kolo_status kolo_message_check(const kolo_message *message, int tag, int wanted, size_t room);
/* Fail because a rank has waited so many seconds for a message: as long as its watch allows; as the stall limit. */
kolo_status kolo_message_late(int rank, double seconds, int from, int tag);
kolo_status kolo_message_stalled(int rank, double seconds, int from, int tag);
/* Fails because rank `from`, or all others for KOLO_ANY_RANK, will send no more messages. */
kolo_status kolo_message_never(int from);

#endif
