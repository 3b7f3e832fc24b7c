/* A worker's way to a server on another rank: to the centre on rank 0, and to parts of the weights on the ranks that
 * keep some. On the server's rank is a thread for each worker of another rank, which calls the centre or the parts in
 * its place (center_server.h); here are the same calls as in center.h and center_parts.h, by a channel to that thread.
 */
#ifndef KOLO_REPLICA_CENTER_LINK_H
#define KOLO_REPLICA_CENTER_LINK_H

#include "replica/center_server.h"

typedef struct kolo_center_link kolo_center_link;

/* All ranks call it, and it fails on all if it fails on one. Opens the server on rank args->root, and on the other
 * ranks links[workers], an array that the caller frees. */
kolo_status kolo_center_link_open(const kolo_server_args *args, kolo_center_server **server, kolo_center_link ***links);
void kolo_center_link_close(kolo_center_link **link); /* takes NULL */
/* Calls that wait fail, and later ones, too. Any thread. */
void kolo_center_link_interrupt(kolo_center_link *link);

/* A worker's calls of the centre, as in center.h. report() and exchanged() are sent with the next call. */
kolo_status kolo_center_link_next(kolo_center_link *link, int64_t epoch, kolo_task *task);
void kolo_center_link_report(kolo_center_link *link, const kolo_totals *totals);
kolo_status kolo_center_link_exchange(kolo_center_link *link, const kolo_offer *offer);
kolo_status kolo_center_link_admit(kolo_center_link *link, double samples, kolo_admission *admission);
void kolo_center_link_exchanged(kolo_center_link *link);
kolo_status kolo_center_link_check(kolo_center_link *link);
/* The news with this number: waits until rank 0 tells them. */
kolo_status kolo_center_link_hear(kolo_center_link *link, int64_t number, void *data, size_t bytes);

/* Sends the worker's record (worker_records.h). */
kolo_status kolo_center_link_record(kolo_center_link *link, const kolo_worker_record *record, size_t bytes);

/* A worker's calls of a part on the link's rank, as in center_parts.h. *done: false if the turn has not come yet: ask
 * the centre whether it still will, and call again. */
kolo_status kolo_center_link_part(kolo_center_link *link, int part, const kolo_ticket *ticket, int batches,
                                  const kolo_offer *offer, bool *done);
/* bytes[room] becomes the part as bytes. */
kolo_status kolo_center_link_get(kolo_center_link *link, int part, const kolo_ticket *ticket, void *bytes, size_t room,
                                 bool *done);

#endif
