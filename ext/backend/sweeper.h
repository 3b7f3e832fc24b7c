/* A sweeper: a thread that runs pieces of work in order while its owner continues. Concurrent streams of the host have
 * one. */
#ifndef KOLO_BACKEND_SWEEPER_H
#define KOLO_BACKEND_SWEEPER_H

#include "core/error.h"

typedef struct kolo_sweeper kolo_sweeper;

kolo_status kolo_sweeper_open(kolo_sweeper **sweeper);
void kolo_sweeper_close(kolo_sweeper **sweeper); /* takes NULL; waits for all enqueued pieces */

/* Enqueues a piece: the call work(copy), where copy is a copy of the argument, at most 96 bytes. After a failure,
 * pieces are skipped until kolo_sweeper_wait() has returned the failure. */
kolo_status kolo_sweeper_enqueue(kolo_sweeper *sweeper, kolo_status (*work)(void *argument), const void *argument,
                                 size_t bytes);
/* Pieces that are enqueued from now on wait until `other` has reached that position. */
kolo_status kolo_sweeper_wait_for(kolo_sweeper *sweeper, kolo_sweeper *other, int64_t position);
/* The position behind all enqueued pieces: the number of pieces that were ever enqueued. */
int64_t kolo_sweeper_end(kolo_sweeper *sweeper);
/* Waits until it has reached that position. Returns the first failure since the last wait, and clears it. */
kolo_status kolo_sweeper_wait(kolo_sweeper *sweeper, int64_t position);

#endif
