/* Ranks that no launcher started: they find each other by the addresses in TF_CONFIG, and exchange messages by ZeroMQ.
 *
 *   zmq_join.c         the processes meet, whichever is started first
 *   zmq_messages.c     sending, and the list of letters that have arrived
 *   zmq_collectives.c  the collectives, made of such messages
 *   zmq_world.c        a world of ranks, its layout over hosts, and its end
 *
 * A rank listens at its address, and connects to all lower ranks, so that there is one connection for each pair.
 * ZeroMQ's threads send and receive, so two ranks that send each other a large message do not wait for each other.
 * Messages of one rank arrive in the order of their sending. Two threads of a rank may communicate: one in a collective
 * of the queue (queue.h), the other one with messages or signs of life. Each function of zmq_messages.c takes the lock.
 * With KOLO_CLUSTER_KEY all connections are encrypted and authenticated (zmq_curve.h). Without it nothing is, as in
 * tf.distribute: the workers' network must then be one that only trusted people use.
 *
 * Read comm.h, call.h and tf_config.h first. */
#ifndef KOLO_COMM_ZMQ_COMM_H
#define KOLO_COMM_ZMQ_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <zmq.h>

#include "comm/call.h"
#include "comm/comm.h"
#include "comm/tf_config.h"

typedef enum letter_kind {
    LETTER_HELLO = 1, /* a greeting: a higher rank wants to join */
    LETTER_WELCOME,   /* a lower rank has accepted it */
    LETTER_REFUSED,   /* a lower rank has not; a text says why */
    LETTER_CALL,      /* a kolo_collective that the sender has begun */
    LETTER_DATA,      /* of a collective */
    LETTER_MESSAGE,   /* of kolo_send() */
    LETTER_LIFE,      /* a sign of life, of a rank that computes */
    LETTER_FAILED,    /* the sender goes, because a rank has failed */
    LETTER_GAVE_UP,   /* the sender's part of a learner's all-reduce has failed; a text says why */
} letter_kind;

/* The first bytes of every letter. */
typedef struct letter_head {
    uint32_t kind; /* letter_kind */
    int32_t tag; /* of a LETTER_MESSAGE; of a LETTER_FAILED the rank that failed first; of a LETTER_GAVE_UP the number
                    of the all-reduce */
} letter_head;

/* The contents of a higher rank's greeting. */
typedef struct greeting {
    uint64_t job; /* a hash of all addresses: the ranks of one job have the same */
    uint32_t version; /* KOLO_PLUGIN_VERSION */
    int32_t rank;
} greeting;

/* A letter that has arrived. */
typedef struct letter {
    struct letter *next;
    letter_head head;
    int from;
    zmq_msg_t message; /* with the head */
    const char *data; /* [bytes] behind the head */
    size_t bytes;
} letter;

#define IDENTITY 16 /* bytes of a connection's name */

typedef struct peer {
    void *link, *monitor; /* a lower rank: the connection to it, and the reports on that; a higher rank: NULL */
    unsigned char identity[IDENTITY]; /* of a higher rank */
    int descriptor; /* of a higher rank's connection */
    bool present; /* it has joined */
    bool left, failed, gone; /* it has finished in order; has said that it failed; its connection is closed */
    uint64_t life; /* signs of life that have arrived */
} peer;

typedef struct zmq_comm {
    kolo_comm comm;
    kolo_cluster cluster;
    uint64_t job;
    void *context, *listener, *monitor; /* monitor: the reports on the listener's connections */
    zmq_pollitem_t *items; /* [item_count] everything that may have something to read */
    int item_count;
    peer *peers; /* [size] */
    letter *first, **end; /* the letters that have arrived and were not taken yet, oldest first */
    pthread_mutex_t lock; /* of the sockets, the peers and the letters */
    atomic_int waiting; /* threads that wait for the lock */
    kolo_collective *calls; /* [size] of the current meeting */
    double stall_limit; /* seconds; 0: none */
    _Atomic double met; /* when the ranks met for the last time */
    unsigned char identity[IDENTITY];
    atomic_bool aborted;
    int culprit; /* the rank whose failure ended the job; this one, as long as no other has failed */
    int refusals; /* that lower ranks have sent */
    int given_up; /* the number of the last learner's all-reduce that another rank has given up; 0: none */
    char why[240]; /* given_up: the reason */
} zmq_comm;

extern const kolo_comm_kind kolo_zmq_kind;

/* --- zmq_messages.c --- */

/* Sends the head and the parts as one letter. Does not wait. */
kolo_status kolo_zmq_post(zmq_comm *me, int to, letter_head head, const void *data, size_t bytes);
/* Milliseconds between two looks at the list of letters, which another thread may have filled, and at the connections.
 */
#define ZMQ_TURN 5
/* Reads all that has arrived, and waits at most so many milliseconds if there is nothing. Meanwhile it keeps the lock.
 */
kolo_status kolo_zmq_pump(zmq_comm *me, long milliseconds);
/* Takes the oldest letter of that kind from rank `from` (or KOLO_ANY_RANK) with that tag (or KOLO_ANY_TAG) out of the
 * list; NULL: there is none. The caller frees it. */
letter *kolo_zmq_find(zmq_comm *me, letter_kind kind, int from, int tag);
void kolo_zmq_free_letter(letter *freed); /* takes NULL */
/* Waits for the letter with the data of a collective, of `bytes` bytes, and copies it to `data`. */
kolo_status kolo_zmq_take_data(zmq_comm *me, int from, void *data, size_t bytes);
/* Whether a letter to that rank, which is another one, would reach it. */
bool kolo_zmq_hears(zmq_comm *me, int rank);
/* Whether it has finished in order. */
bool kolo_zmq_has_left(zmq_comm *me, int rank);
/* The number of its signs of life. */
uint64_t kolo_zmq_life(zmq_comm *me, int rank);
/* Fails if one of the ranks has failed or is gone. */
kolo_status kolo_zmq_check_peers(zmq_comm *me);

kolo_status kolo_zmq_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag);
kolo_status kolo_zmq_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message);
kolo_status kolo_zmq_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message);
void kolo_zmq_give_up(kolo_comm *comm, int call, const char *why);

/* --- zmq_join.c --- */

/* Listens, connects, and waits for all ranks, at most KOLO_STALL_LIMIT seconds. */
kolo_status kolo_zmq_join(zmq_comm *me);
/* Answers a process that greets. */
void kolo_zmq_answer(zmq_comm *me, const unsigned char *identity, int descriptor, const greeting *from);

/* --- zmq_world.c --- */

extern const struct kolo_world_kind kolo_zmq_world;

#endif
