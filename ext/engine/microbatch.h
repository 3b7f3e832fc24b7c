/* A microbatch at work: what engine/engine.c and engine/pipeline.c do with one. */
#ifndef KOLO_ENGINE_MICROBATCH_H
#define KOLO_ENGINE_MICROBATCH_H

#include "engine/engine.h"

typedef struct kolo_microbatch {
    int64_t number; /* in the batch */
    int samples;    /* of it that count */
    kolo_activations *activations;
    kolo_node node; /* its gradient and totals */
    size_t gradient_first; /* of all its gradients the node's begin here: those of one segment */
} kolo_microbatch;

/* Before its first segment is run: samples from the data set into the activations. `microbatch` has its activations; it
 * stays where it is until its end. */
kolo_status kolo_microbatch_begin(kolo_microbatch *microbatch, kolo_engine *engine, const kolo_shard *shard,
                                  kolo_reduction *reduction, int64_t number, const kolo_workspace *workspace);
kolo_status kolo_microbatch_run(kolo_microbatch *microbatch, kolo_engine *engine, const kolo_shard *shard, int segment,
                                const kolo_workspace *workspace);
/* After its last segment: outputs to where they are wanted, gradient and totals into the reduction. */
kolo_status kolo_microbatch_end(kolo_microbatch *microbatch, const kolo_shard *shard, kolo_reduction *reduction);
/* Instead of that, when something failed. */
void kolo_microbatch_drop(kolo_microbatch *microbatch, kolo_reduction *reduction);

/* As many microbatches at once as the process has cores. */
void kolo_gate_enter(sem_t *gate);
void kolo_gate_leave(sem_t *gate);

#endif
