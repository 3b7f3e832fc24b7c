/* How many cores, and how much memory, this process may use. For libkolo, and for kolorun, which is not linked with
 * libkolo. */
#ifndef KOLO_CORE_CORES_H
#define KOLO_CORE_CORES_H

#include <stdint.h>

/* The cores in this process's affinity mask, or fewer if the control group limits CPU time (docker run --cpus); at
 * least 1. */
int kolo_cores_usable(void);
/* The number of cores that a control group's quota allows, rounded up, from the text of cpu.max ("200000 100000",
 * "max 100000"); 0: no limit. */
int64_t kolo_cores_of_quota(const char *cpu_max);
/* Bytes of memory that the control group allows; 0: no limit. */
int64_t kolo_memory_limit(void);

/* Tells the core that this thread spins. */
static inline void kolo_pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
