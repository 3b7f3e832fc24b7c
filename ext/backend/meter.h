/* How fast bytes get from one device's memory to another's.
 *
 * kolo_peer_bandwidth() measures with a meter. The CPU devices' meter copies with threads (topology/copies.c); a
 * GPU's backend brings its own. Only one thread at a time may use a pair. */
#ifndef KOLO_BACKEND_METER_H
#define KOLO_BACKEND_METER_H

#include "core/error.h"

/* A place in the machine: processors, a bit for each as sched_setaffinity() takes them, and the NUMA node of the
 * nearest memory. */
#define KOLO_CPU_WORDS 16
typedef struct kolo_spot {
    unsigned long cpus[KOLO_CPU_WORDS]; /* no bit set: unknown */
    int numa_node;                      /* -1: unknown */
} kolo_spot;

/* Two devices, which may be the same one, with memory on both. */
typedef struct kolo_pair kolo_pair;

typedef struct kolo_side {
    int device;            /* its number, of an accelerator's device */
    const kolo_spot *spot; /* its processors, of a CPU device */
    int threads;           /* the number of threads that copy, of a CPU device */
} kolo_side;

typedef struct kolo_copies {
    int count;        /* one after the other */
    bool there, back; /* from the first to the second; the other way; both at the same time */
    bool direct;      /* not through the host's memory; only for devices that reach each other */
} kolo_copies;

typedef struct kolo_meter {
    /* bytes: the size of one copy, at least 1. */
    kolo_status (*open)(const kolo_side sides[2], int64_t bytes, kolo_pair **pair);
    /* Measures the seconds from the first byte to the last. NaN where they cannot be measured. */
    kolo_status (*time)(kolo_pair *pair, const kolo_copies *copies, double *seconds);
    /* Measures the seconds until a few bytes have arrived: at the second device, or at the first with `back`. */
    kolo_status (*latency)(kolo_pair *pair, bool back, bool direct, double *seconds);
    void (*close)(kolo_pair **pair); /* takes NULL */
} kolo_meter;

#endif
