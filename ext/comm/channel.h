/* Requests and replies between two processes.
 *
 * Unlike a comm, a channel has two ends only, and outlives a dead process at the other end: the call then fails, and
 * nothing else happens. Strategies of workers use channels to reach their centre. The ends find each other by an
 * address, which the caller brings from one to the other, for instance by a broadcast. It contains a key: only a
 * process that has the address can connect. Made by the plugin libkolo_zmq.so.
 */
#ifndef KOLO_COMM_CHANNEL_H
#define KOLO_COMM_CHANNEL_H

#include "core/error.h"

#define KOLO_CHANNEL_ADDRESS 512 /* bytes, with the terminating 0 */

typedef struct kolo_channel kolo_channel;

/* A piece of a message. */
typedef struct kolo_channel_part {
    const void *data;
    size_t bytes;
} kolo_channel_part;

/* The connecting end sends a request and receives its reply, the listening end receives a request and sends its reply,
 * in turn. One thread at a time uses an end. */
typedef struct kolo_channel_kind {
    const char *name;
    /* Opens the listening end, and writes its address, which only processes of this host can use if one_host. */
    kolo_status (*listen)(bool one_host, kolo_channel **channel, char address[KOLO_CHANNEL_ADDRESS]);
    kolo_status (*connect)(const char *address, kolo_channel **channel);
    /* Sends the parts as one message. Fails with KOLO_COMM if the other end is gone, or interrupt() was called; so far
     * as this is not known yet, the message is lost, and receive() fails. */
    kolo_status (*send)(kolo_channel *channel, const kolo_channel_part *parts, int count);
    /* Waits for the next message, at most so many seconds (0: for ever). *data is valid until the next receive(). Fails
     * with KOLO_COMM if the other end is gone, if interrupt() was called, or when the time is over. */
    kolo_status (*receive)(kolo_channel *channel, double seconds, const void **data, size_t *bytes);
    /* From now on receive() fails, also one that waits. Any thread. */
    void (*interrupt)(kolo_channel *channel);
    /* Takes NULL. The last messages are lost if the other end has not received them yet. */
    void (*close)(kolo_channel **channel);
} kolo_channel_kind;

#endif
