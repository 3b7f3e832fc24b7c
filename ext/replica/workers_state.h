/* The state of a process's workers, which workers.c and workers_exchange.c share. */
#ifndef KOLO_REPLICA_WORKERS_STATE_H
#define KOLO_REPLICA_WORKERS_STATE_H

#include "replica/center_link.h"
#include "replica/worker_records.h"
#include "replica/workers.h"

struct kolo_workers {
    kolo_comm *ranks;
    int first, all; /* the number of this process's first worker among all; the number of all */
    kolo_center *center;      /* on rank 0; else NULL */
    kolo_center_server *server; /* for workers of other ranks, on rank 0 and on ranks that keep parts; else NULL */
    kolo_center_link ***links;  /* [ranks][trainer->count], NULL for ranks without a server and for this one */
    bool linked;
    int64_t epochs; /* begun since the workers were opened, and news told or heard: the same on all ranks */
    int64_t news;
    int lost; /* workers that are gone, as far as rank 0 has told */
    kolo_worker_arrays *arrays; /* [trainer->count] */
    double *losses; /* [loss_epochs × all], of an ensemble's members in the epochs of the last fit; else NULL */
    int loss_epochs;
    /* The parts of the centre: */
    int servers;
    kolo_part_range *ranges;  /* [servers] */
    bool *keeps;              /* [ranks], those that keep parts, if several do; else NULL */
    kolo_center_parts *parts; /* of this rank; NULL: it keeps none */
    bool trains;              /* an epoch is under way, so parts of other ranks are newer than here */
    bool is_set;              /* the centre's weights were set since the last epoch */
    /* [all], see worker_records.h; NULL: there are none */
    kolo_worker_record **records, **expected;
    bool has_trained; /* an epoch to its end */
};

/* The rank that keeps a part: parts are spread over all ranks as evenly as they go, so that with a server for each node
 * every node has one. */
static inline int kolo_workers_keeper(const kolo_workers *workers, int part)
{
    return (int)((int64_t)part * workers->ranks->size / workers->servers);
}

/* The link of a worker of this process to a rank. */
static inline kolo_center_link *kolo_workers_link_to(const kolo_workers *workers, int rank, int index)
{
    return workers->links[rank][index];
}

/* ---- workers_exchange.c: a worker's calls of the centre, wherever it is ---- */

kolo_status kolo_worker_next(kolo_replica *replica, kolo_task *task);
void kolo_worker_report(kolo_replica *replica);
kolo_status kolo_worker_exchange(kolo_replica *replica);

/* With parts on several ranks; else nothing. The first gives the parts the weights of rank 0's centre if these were
 * set, and all ranks call it before an epoch. The second brings the current parts to rank 0, which alone calls it. */
kolo_status kolo_workers_spread(kolo_trainer *trainer);
kolo_status kolo_workers_gather(kolo_trainer *trainer);

/* ---- worker_records.c ---- */

/* *records becomes the list of all workers' records. */
kolo_status kolo_workers_open_records(kolo_trainer *trainer, kolo_worker_record *const **records);
void kolo_workers_free_records(kolo_workers *workers);

#endif
