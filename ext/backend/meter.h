/* How fast bytes get from one device's memory to another's: the seam between kolo_peer_bandwidth() and who copies: the
 * CPU devices' threads (copies.c), or an accelerator. One thread at a time has a pair. */
#ifndef KOLO_BACKEND_METER_H
#define KOLO_BACKEND_METER_H

#include "core/error.h"

/* Processors by number, a bit each, as sched_setaffinity() has them; and the NUMA node of the nearest memory. */
#define KOLO_CPU_WORDS 16
typedef struct kolo_spot {
    unsigned long cpus[KOLO_CPU_WORDS]; /* none: unknown */
    int numa_node;                      /* -1: unknown */
} kolo_spot;

/* Two devices, perhaps the same one twice, with memory on both. */
typedef struct kolo_pair kolo_pair;

typedef struct kolo_side {
    int device;            /* the accelerator's number */
    const kolo_spot *spot; /* of the CPU's: its processors, */
    int threads;           /* and how many of its threads copy */
} kolo_side;

typedef struct kolo_copies {
    int count;        /* each after the other */
    bool there, back; /* from the first to the second, the other way, or both at the same time */
    bool direct;      /* past the host's memory: only of devices that reach each other */
} kolo_copies;

typedef struct kolo_meter {
    /* bytes: of one copy, at least 1. */
    kolo_status (*open)(const kolo_side sides[2], int64_t bytes, kolo_pair **pair);
    /* Seconds from the first byte to the last. NaN where it cannot be told. */
    kolo_status (*time)(kolo_pair *pair, const kolo_copies *copies, double *seconds);
    /* Until a few bytes have come there, or back. */
    kolo_status (*latency)(kolo_pair *pair, bool back, bool direct, double *seconds);
    void (*close)(kolo_pair **pair); /* takes NULL */
} kolo_meter;

#endif
