/* A meter: measures how fast devices copy to each other, for kolo_peer_bandwidth().
 *
 * The meter of the CPU devices copies with threads (topology/copies.c); a backend of GPUs has its own meter. Only one
 * thread at a time may use a pair. */
#ifndef KOLO_BACKEND_METER_H
#define KOLO_BACKEND_METER_H

#include "core/error.h"

/* A place in the machine: its processors, a bit for each as in a cpu_set_t, and the NUMA node of the nearest memory. */
#define KOLO_CPU_WORDS 16
typedef struct kolo_spot {
    unsigned long cpus[KOLO_CPU_WORDS]; /* no bit set: unknown */
    int numa_node; /* -1: unknown */
} kolo_spot;

/* Two devices, which may be the same one, with memory on both. */
typedef struct kolo_pair kolo_pair;

typedef struct kolo_side {
    int device; /* the device's number */
    const kolo_spot *spot; /* a CPU device's processors */
    int threads; /* the number of threads that copy for a CPU device */
} kolo_side;

typedef struct kolo_copies {
    int count; /* the number of copies in a direction, one after the other */
    bool there, back; /* from the first device to the second; the other way. If both are set, at the same time */
    bool direct; /* not through the host's memory; only for devices that can access each other's memory */
} kolo_copies;

typedef struct kolo_meter {
    /* bytes: the size of one copy, at least 1. */
    kolo_status (*open)(const kolo_side sides[2], int64_t bytes, kolo_pair **pair);
    /* Measures the seconds from the first byte to the last. NaN if they cannot be measured. */
    kolo_status (*time)(kolo_pair *pair, const kolo_copies *copies, double *seconds);
    /* Measures the seconds of a copy of a few bytes to the second device, or with `back` to the first. */
    kolo_status (*latency)(kolo_pair *pair, bool back, bool direct, double *seconds);
    void (*close)(kolo_pair **pair); /* takes NULL */
} kolo_meter;

#endif
