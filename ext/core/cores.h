/* How many cores, and how much memory, this process may use: for libkolo and for kolorun, which is linked without it.
 */
#ifndef KOLO_CORE_CORES_H
#define KOLO_CORE_CORES_H

#include <stdint.h>

/* The cores of its affinity mask, or fewer where the control group allows less time (docker run --cpus); at least 1. */
int kolo_cores_usable(void);
/* Cores that a control group's quota leaves, from the text of cpu.max ("200000 100000", "max 100000"), rounded up;
 * 0 when there is no limit. */
int kolo_cores_of_quota(const char *cpu_max);
/* Bytes that the control group allows; 0 when there is no limit. */
int64_t kolo_memory_limit(void);

#endif
