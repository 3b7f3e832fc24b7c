/* A station: a device of a replica at work, its stream and what lies in its memory. Most replicas have one.
 *
 * Of a model that is placed on several devices, station 0 is the home of what there is once: the canonical weights, the
 * samples, the sums of gradients and of losses, the update. The others are given what their layers need of it (their
 * packed weights, what the loss is to be told of the samples), and give back their gradients and sums. A step begins
 * and ends at home: the others wait until home has come to its beginning, and home until they have come to its end. In
 * between each goes on by itself but for copies of activations (KOLO_OP_COPY), which wait for the segment that they
 * come from. All of it can be captured.
 *
 * Read engine/program.h and backend/accelerator.h first. station.c is one station, stations.c what is between them.
 */
#ifndef KOLO_ENGINE_STATION_H
#define KOLO_ENGINE_STATION_H

#include "engine/program.h"

typedef struct kolo_queued kolo_queued;
typedef struct kolo_queued_job kolo_queued_job;

/* Bytes of weights that a station is given: they lie side by side here and there. */
typedef struct kolo_carried {
    const char *from;
    char *to;
    size_t bytes;
} kolo_carried;

typedef struct kolo_station {
    const kolo_accelerator *accelerator;
    const kolo_program *program;
    int number; /* of the program's devices */
    kolo_stream *stream;
    kolo_program_weights weights; /* as if the station had all of them; home has */
    float *gradient; /* at home NULL: that of a segment, on its way there */
    void *reduced;
    char *brought; /* [microbatches of a batch]: what each brings to a meeting of all, in deterministic mode */
    kolo_workspace workspace;
    kolo_activations **activation_sets; /* activation_stride bytes apart */
    char *activation_blocks;
    size_t activation_stride;
    int activation_set_count;
    kolo_step_parameters *step_parameters;
    bool told; /* operations of it are told the samples' labels and weights, and add to the losses */
    char *totals; /* [microbatches of the shard][stride]: what it adds to them; memory of queued.c's */
    kolo_event *event; /* for others to wait for it */
    char *weights_block, *packed_block; /* what it really has of them */
    kolo_carried *carried;
    int carried_count;
} kolo_station;

/* Memory on a device whose stream is open already; where home is NULL it is this. */
kolo_status kolo_station_open(kolo_station *station, const kolo_station *home);
void kolo_station_close(kolo_station *station); /* the stream stays; takes one that has none */
kolo_status kolo_station_open_activations(kolo_station *station, int count);
void kolo_station_close_activations(kolo_station *station);

/* ---- Between stations; where there is but one they do nothing. ---- */

/* The others begin when home has come so far, with its step parameters. */
kolo_status kolo_stations_begin(const kolo_queued_job *job);
/* Home goes on when the others have come so far; the sums of losses of all are there. */
kolo_status kolo_stations_end(const kolo_queued_job *job);
/* The weights that home has packed last. */
kolo_status kolo_stations_carry_weights(const kolo_queued *queued);
/* Around segment `number` of a microbatch: what it is to be told of the samples is there; its gradients go home, and
 * others may copy what it wrote. */
kolo_status kolo_stations_enter(const kolo_queued_job *j, int64_t microbatch, int number);
kolo_status kolo_stations_leave(const kolo_queued_job *j, int64_t microbatch, int number);
/* A KOLO_OP_COPY, operation `number`. */
kolo_status kolo_stations_copy(const kolo_queued_job *j, int64_t microbatch, int number);
/* Home has the samples of the microbatch. */
kolo_status kolo_stations_gathered(const kolo_queued_job *job, int64_t microbatch);

#endif
