/* The centre of workers for other ranks: on rank 0 a thread for each worker of another rank, which calls the centre in
 * its place; on the other ranks the same calls as in center.h, by a channel to that thread. A rank that dies is a
 * worker that the centre loses, and the others go on.
 */
#ifndef KOLO_REPLICA_CENTER_LINK_H
#define KOLO_REPLICA_CENTER_LINK_H

#include "comm/comm.h"
#include "replica/center.h"

typedef struct kolo_center_server kolo_center_server;
typedef struct kolo_center_link kolo_center_link;

typedef struct kolo_link_args {
    kolo_comm *ranks;
    kolo_center *center; /* on rank 0; else NULL */
    int workers;         /* of each rank */
    int64_t count;       /* weights */
    const kolo_strategy_kind *kind;
} kolo_link_args;

/* All ranks call it, and it fails on all if it fails on one. Opens the server on rank 0, and on the other ranks
 * links[workers], an array that the caller frees. */
kolo_status kolo_center_link_open(const kolo_link_args *args, kolo_center_server **server, kolo_center_link ***links);
/* Closing the server waits until all ranks that are left have heard all news. Both take NULL. */
void kolo_center_server_close(kolo_center_server **server);
void kolo_center_link_close(kolo_center_link **link);

/* A worker's calls, as in center.h. report() is sent with the next call. */
kolo_status kolo_center_link_next(kolo_center_link *link, int64_t epoch, kolo_task *task);
void kolo_center_link_report(kolo_center_link *link, const kolo_totals *totals);
kolo_status kolo_center_link_exchange(kolo_center_link *link, const kolo_offer *offer);
/* Calls that wait fail, and later ones, too. Any thread. */
void kolo_center_link_interrupt(kolo_center_link *link);

/* News for all ranks, each with a number that both sides count. Rank 0 tells them; the first worker of each other rank
 * hears them, and waits until they are told. fail(): those that wait fail instead. */
kolo_status kolo_center_server_tell(kolo_center_server *server, int64_t number, const void *data, size_t bytes);
void kolo_center_server_fail(kolo_center_server *server);
kolo_status kolo_center_link_hear(kolo_center_link *link, int64_t number, void *data, size_t bytes);

#endif
