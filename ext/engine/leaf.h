/* A leaf at work: what engine/engine.c and engine/pipeline.c do with one. */
#ifndef KOLO_ENGINE_LEAF_H
#define KOLO_ENGINE_LEAF_H

#include "engine/engine.h"

typedef struct kolo_leaf {
    int64_t number; /* in the batch */
    int samples;    /* of it that count */
    kolo_frame *frame;
    kolo_node node; /* its gradient and totals */
    size_t gradient_first; /* of all its gradients the node's begin here: those of one segment */
} kolo_leaf;

/* Before its first segment is run: samples from the data set into the frame. `leaf` has its frame; it stays where it
 * is until its end. */
kolo_status kolo_leaf_begin(kolo_leaf *leaf, kolo_engine *engine, const kolo_share *share, kolo_fold *fold,
                            int64_t number, const kolo_bench *bench);
kolo_status kolo_leaf_run(kolo_leaf *leaf, kolo_engine *engine, const kolo_share *share, int segment,
                          const kolo_bench *bench);
/* After its last segment: outputs to where they are wanted, gradient and totals into the fold. */
kolo_status kolo_leaf_end(kolo_leaf *leaf, const kolo_share *share, kolo_fold *fold);
/* Instead of that, when something failed. */
void kolo_leaf_drop(kolo_leaf *leaf, kolo_fold *fold);

/* As many leaves at once as the process has cores. */
void kolo_gate_enter(sem_t *gate);
void kolo_gate_leave(sem_t *gate);

#endif
