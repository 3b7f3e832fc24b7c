/* A thread that does one piece of work after the other while its owner goes on: what makes streams of the host work
 * side by side. */
#ifndef KOLO_BACKEND_SWEEPER_H
#define KOLO_BACKEND_SWEEPER_H

#include "core/error.h"

typedef struct kolo_sweeper kolo_sweeper;

kolo_status kolo_sweeper_open(kolo_sweeper **sweeper);
void kolo_sweeper_close(kolo_sweeper **sweeper); /* takes NULL; waits for what was enqueued */

/* work(a copy of argument), which has at most 96 bytes. After a failure what follows is left out until somebody waits.
 */
kolo_status kolo_sweeper_enqueue(kolo_sweeper *sweeper, kolo_status (*work)(void *argument), const void *argument,
                                 size_t bytes);
/* What is enqueued from now on waits until `other` has come to that position. */
kolo_status kolo_sweeper_follow(kolo_sweeper *sweeper, kolo_sweeper *other, int64_t position);
/* The position behind all that was enqueued. */
int64_t kolo_sweeper_end(kolo_sweeper *sweeper);
/* Waits until it has come to that position, and fails with the failure that there was, which is then past. */
kolo_status kolo_sweeper_wait(kolo_sweeper *sweeper, int64_t position);

#endif
