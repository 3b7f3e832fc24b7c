/* Watches how much memory and how many processes cells use, ten times a second. They are ended before the system, short
 * of memory, picks a process by itself: it might pick the kernel or Jupyter. Read first: family.h.
 *
 * Memory: that of the machine or of the control group, less a reserve of 5 % (64 MiB to 1 GiB), or KOLO_CELLS_MEMORY
 * (bytes; K, M, G) if that is less.
 * Processes: WATCH_PROCESSES, twice the ranks of the largest job that one machine is asked to run (256), and few enough
 * to be found and ended within a second. Threads: WATCH_THREADS, 16 for each of those ranks. */
#ifndef KERNEL_WORKER_WATCH_H
#define KERNEL_WORKER_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { WATCH_PROCESSES = 512, WATCH_THREADS = 4096 };

typedef struct watch {
    uint64_t limit; /* KOLO_CELLS_MEMORY, or 0 */
    long tasks; /* of the rest of the machine when the family was last counted */
    bool close; /* the limit is not far */
} watch;

void watch_open(watch *w);

/* Looks once. True when the family has to end: `sentence` says why. `large` is the process to end where that will do:
 * the one that holds most, when it is not `worker`; else 0. */
bool watch_look(watch *w, pid_t worker, char *sentence, size_t size, pid_t *large);

/* Milliseconds until the next look. */
int watch_delay(const watch *w);

#endif
