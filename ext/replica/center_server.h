/* A rank's server for workers of other ranks: a thread for each of them, which calls the centre and the parts of the
 * weights that are on this rank in its place. A rank that dies is a worker that the centre loses, and the others go on,
 * unless it kept parts itself.
 */
#ifndef KOLO_REPLICA_CENTER_SERVER_H
#define KOLO_REPLICA_CENTER_SERVER_H

#include "comm/channel.h"
#include "comm/comm.h"
#include "replica/center.h"
#include "replica/worker_records.h"

typedef struct kolo_center_server kolo_center_server;

typedef struct kolo_server_args {
    kolo_comm *ranks;
    int root;                 /* the server's rank */
    kolo_center *center;      /* on rank 0; else NULL */
    kolo_center_parts *parts; /* of this rank; NULL: it keeps none */
    const kolo_part_range *ranges; /* [parts of all ranks] */
    const bool *keeps;        /* [ranks], those that keep parts, if several do; else NULL */
    int workers;              /* of each rank */
    int64_t count;            /* weights */
    const kolo_strategy_kind *kind;
    kolo_worker_record *const
        *records; /* on rank 0, [workers of all ranks], of record_bytes: the workers send theirs */
    size_t record_bytes;
} kolo_server_args;

/* The workers of other ranks have numbers, from 0; their addresses[number] are for kolo_center_link_open(). */
kolo_status kolo_center_server_open(const kolo_server_args *args, const kolo_channel_kind *channels, bool one_host,
                                    kolo_center_server **server, char (*addresses)[KOLO_CHANNEL_ADDRESS]);
/* Starts the threads. */
kolo_status kolo_center_server_start(kolo_center_server *server);
/* Waits until all ranks that are left have heard all news. Takes NULL. */
void kolo_center_server_close(kolo_center_server **server);

/* News for all ranks, each with a number that both sides count. Rank 0 tells them; the first worker of each other rank
 * hears them, and waits until they are told. After fail() all that wait fail. */
kolo_status kolo_center_server_tell(kolo_center_server *server, int64_t number, const void *data, size_t bytes);
void kolo_center_server_fail(kolo_center_server *server);
/* Waits until all ranks that are left have heard all news, or the news have failed. Fails after KOLO_STALL_LIMIT. */
kolo_status kolo_center_server_wait(kolo_center_server *server);

#endif
