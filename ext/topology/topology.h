/* Where the devices are, and what connects them.
 *
 * kolo_topology() asks two sources: hwloc, in the plugin libkolo_hwloc.so, about the machine's processors, and a
 * backend (backend/device_information.h) about its devices. */
#ifndef KOLO_TOPOLOGY_TOPOLOGY_H
#define KOLO_TOPOLOGY_TOPOLOGY_H

#include <stdio.h>

#include "backend/meter.h"
#include "core/error.h"

/* The processors that each CPU device stands for, and what connects these. */
typedef struct kolo_machine {
    kolo_spot spot[KOLO_PEERS_MAX];
    kolo_link between[KOLO_PEERS_MAX][KOLO_PEERS_MAX];
    int64_t cache_bytes; /* of the largest cache; 0: unknown */
} kolo_machine;

/* Divides the processors that this thread may run on among `sharers`, and describes the first `count` shares. Any
 * thread. */
typedef kolo_status kolo_read_machine(int sharers, int count, kolo_machine *machine);

/* The same, by the plugin. Fails where the plugin does not load. */
kolo_read_machine kolo_machine_read;

/* Writes "0-19,40-59". A text that does not fit ends with "…". */
void kolo_cpus_text(const unsigned long cpus[KOLO_CPU_WORDS], char *text, size_t size);

/* Describes the first `most` devices; 0 means all. */
kolo_status kolo_topology_read(int most, kolo_topology_report *report);

/* Sets a connection's .name, which follows from its other members. */
void kolo_connection_name(kolo_connection *connection);

/* copies.c: the meter of the CPU's devices. */
extern const kolo_meter kolo_cpu_meter;
/* table.c: the matrix of bandwidths. Fails for want of memory alone. */
kolo_status kolo_bandwidth_write(FILE *out, const kolo_bandwidth_report *report);

/* table.c: the matrix of connections with its legend. Fails for want of memory alone. */
kolo_status kolo_topology_write(FILE *out, const kolo_topology_report *report);

#endif
