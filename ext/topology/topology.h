/* Where devices are, and what joins them: the seam between kolo_topology() and who knows: hwloc, in libkolo_hwloc.so,
 * about the machine's processors, an accelerator (backend/accelerator.h) about its devices. */
#ifndef KOLO_TOPOLOGY_TOPOLOGY_H
#define KOLO_TOPOLOGY_TOPOLOGY_H

#include <stdio.h>

#include "backend/meter.h"
#include "core/error.h"

/* What the CPU's devices stand for. */
typedef struct kolo_machine {
    kolo_spot spot[KOLO_PEERS_MAX];
    kolo_link between[KOLO_PEERS_MAX][KOLO_PEERS_MAX];
    int64_t cache_bytes; /* of the largest cache; 0: unknown */
} kolo_machine;

/* The first `count` of so many sharers of the processors that this thread may run on. Any thread. */
typedef kolo_status kolo_read_machine(int sharers, int count, kolo_machine *machine);

/* The same by the plugin; fails where that does not load. */
kolo_read_machine kolo_machine_read;

/* "0-19,40-59"; what does not fit is left out behind "…". */
void kolo_cpus_text(const unsigned long cpus[KOLO_CPU_WORDS], char *text, size_t size);

/* Of the first `most` devices; 0: of all. */
kolo_status kolo_topology_read(int most, kolo_topology_report *report);

/* A connection's .name, by its other members. */
void kolo_connection_name(kolo_connection *connection);

/* copies.c: the meter of the CPU's devices. */
extern const kolo_meter kolo_cpu_meter;
/* table.c: the matrix of bandwidths. Fails for want of memory alone. */
kolo_status kolo_bandwidth_write(FILE *out, const kolo_bandwidth_report *report);

/* table.c: the matrix, and a legend of what stands in it. Fails for want of memory alone. */
kolo_status kolo_topology_write(FILE *out, const kolo_topology_report *report);

#endif
