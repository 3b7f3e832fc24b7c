/* The places of the devices in the machine, and their connections.
 *
 * kolo_topology() has two sources: for processors hwloc, in the plugin libkolo_hwloc.so; for GPUs the backend
 * (backend/device_information.h). */
#ifndef KOLO_TOPOLOGY_TOPOLOGY_H
#define KOLO_TOPOLOGY_TOPOLOGY_H

#include <stdio.h>

#include "backend/meter.h"
#include "core/error.h"

/* The processors of each CPU device, and the links between them. */
typedef struct kolo_machine {
    kolo_spot spot[KOLO_PEERS_MAX];
    kolo_link between[KOLO_PEERS_MAX][KOLO_PEERS_MAX];
    int64_t cache_bytes; /* size of the largest cache; 0: unknown */
} kolo_machine;

/* Divides the processors that this thread may run on among `sharers` devices, and describes the first `count` of
 * these. Any thread. */
typedef kolo_status kolo_read_machine(int sharers, int count, kolo_machine *machine);

/* The same, by the plugin. Fails if the plugin does not load. */
kolo_read_machine kolo_machine_read;

/* Writes a set of processors as "0-19,40-59". A text that does not fit ends with "…". */
void kolo_cpus_text(const unsigned long cpus[KOLO_CPU_WORDS], char *text, size_t size);

/* Describes the first `most` devices; 0 means all. */
kolo_status kolo_topology_read(int most, kolo_topology_report *report);

/* Sets a connection's .name, which follows from its other members. */
void kolo_connection_name(kolo_connection *connection);

/* copies.c: the meter of the CPU's devices. */
extern const kolo_meter kolo_cpu_meter;
/* table.c: writes the matrices of bandwidths and latencies. Fails only if there is no memory. */
kolo_status kolo_bandwidth_write(FILE *out, const kolo_bandwidth_report *report);

/* table.c: writes the matrix of connections, with its legend. Fails only if there is no memory. */
kolo_status kolo_topology_write(FILE *out, const kolo_topology_report *report);

#endif
