/* The numbers that a replay needs of a recorded timeline. kolo_what_if.h says which of its events are left out. */
#ifndef KOLO_WHATIF_RECORDING_H
#define KOLO_WHATIF_RECORDING_H

#include <stddef.h>

#include "core/error.h"

/* A layer's gradient. */
typedef struct kolo_recorded_gradient {
    char name[64];
    double bytes;
    double before_end; /* seconds from the moment when it is complete to the end of the backward pass */
} kolo_recorded_gradient;

typedef struct kolo_recording {
    int ranks, cores, threads;          /* cores that rank 0 may use; threads of a rank */
    int samples;                        /* of a device in a step */
    int microbatches;                   /* of a device in a step */
    double *computing;                  /* [steps] seconds until the end of the backward pass, in ascending order */
    size_t steps;
    double update;                      /* seconds behind the backward pass, to the beginning of the next step */
    kolo_recorded_gradient *gradients;  /* [count], in the order in which they are complete */
    size_t count;
    double sum_rate; /* bytes/s of a large all-reduce, without waiting, if there are several ranks; NaN: none */
} kolo_recording;

/* The caller closes the recording, after a failure, too. */
kolo_status kolo_recording_read(const char *path, kolo_recording *recording);
void kolo_recording_close(kolo_recording *recording);

double kolo_recording_bytes(const kolo_recording *recording); /* of all gradients */
/* The share of the steps, 0 to 1, as a quantile of `computing`; between two steps it is interpolated. */
double kolo_recording_quantile(const kolo_recording *recording, double share);

#endif
