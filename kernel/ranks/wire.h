/* Messages between the kernel and kolo-rank, one at each rank, over ZeroMQ: the kernel is a ROUTER, each rank a
 * DEALER. A message is a head (worker/protocol.h's `message`, with its version and the payload's length; it travels
 * as it is: both ends are of one architecture, and of one version or refused), a payload, and, for RANK_LOAD, the
 * object file's bytes. A rank answers in the order in which it is asked.
 *
 * Between hosts the sockets speak CURVE: the kernel's public key, made for the group, and a token reach the ranks in
 * their environment, never on a command line. A rank makes its own key pair. Its name on the ROUTER, "TOKEN:RANK", goes
 * through the encrypted handshake: the kernel ignores a peer without the token. Open MPI itself
 * sends the environment to other hosts in the clear, as it sends the ranks' own messages. A listener there cannot read
 * what goes through here, since CURVE's session keys are made anew and never sent. A listener could pose as a rank
 * before that rank connects. */
#ifndef KERNEL_RANKS_WIRE_H
#define KERNEL_RANKS_WIRE_H

#include "worker/protocol.h"

#define RANKS_ENDPOINT                                                                                                 \
    "KOLO_RANKS_ENDPOINT" /* "ipc://…", or "tcp://A:P tcp://B:P …": all addresses of the kernel's                  \
                           */
#define RANKS_TOKEN "KOLO_RANKS_TOKEN"
#define RANKS_KEY   "KOLO_RANKS_KEY" /* the kernel's public key as Z85 text; unset: this host alone, no CURVE */

enum rank_kind {
    /* from a rank */
    RANK_HELLO = 1, /* code: process id; payload: host */
    RANK_READY, /* MPI is initialised */
    RANK_PUBLISH, /* payload: message type, content */
    RANK_ASK, /* wants a line of input; answered by RANK_INPUT */
    RANK_DONE, /* the cell has ended: number, code, address, size, payload as in exit_status.h */
    RANK_DIED, /* the process of the rank's cells is gone: the same */
    RANK_BYTES, /* to RANK_PEEK: code 0 and the bytes, or code -1 */
    RANK_WHERE, /* to RANK_SAY_WHERE: frames, outermost known last */
    RANK_ALIVE, /* every RANK_BEAT seconds */
    /* to a rank */
    RANK_LOAD = 100, /* payload of MESSAGE_LOAD with the object's bare file name, then the object itself */
    RANK_RUN, /* payload: object's bare file name, function; number 1: reads may be put to the user */
    RANK_PEEK, /* address, size */
    RANK_FOLDER, /* as MESSAGE_FOLDER; not answered */
    RANK_SETENV, /* as MESSAGE_SETENV; not answered */
    RANK_INTERRUPT,
    RANK_SAY_WHERE,
    RANK_INPUT, /* payload: the line; code -1: there is none */
    RANK_QUIT,
};

static const double RANK_BEAT = 1.0;

typedef struct rank_message {
    message head;
    char *payload; /* owned, NUL-terminated beyond its size */
    size_t size;
    char *object; /* owned; NULL: none */
    size_t object_size;
    const char *problem; /* it is no message of this version, or was cut; then it has no payload. NULL: it is whole */
} rank_message;

enum { RANK_NAME = 64 }; /* bytes of "TOKEN:RANK" */
void rank_name(char name[RANK_NAME], const char *token, int rank);

/* `to`: the peer's name on a ROUTER, NULL on a DEALER. Queued without limit: never blocks. False when nobody is there.
 */
bool rank_message_send(void *socket, const char *to, const message *head, const void *payload, size_t size,
                       const void *object, size_t object_size);
/* Takes what has come, without waiting. False when there is nothing. `from`: room for the peer's name on a ROUTER, NULL
 * on a DEALER. rank_message_free() after true. */
bool rank_message_take(void *socket, char *from, rank_message *into);
void rank_message_free(rank_message *l);

/* The second of two strings in a payload; "" when there is none. */
const char *rank_message_second(const rank_message *l);

#endif
