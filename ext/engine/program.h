/* A program: a plan with its kernels and its memory, ready to run microbatch by microbatch.
 *
 * A plan is cut into segments where all microbatches must meet (KOLO_OP_REDUCE) and where the device changes: a
 * microbatch goes through one segment without stopping. Most plans are a single one. One program serves every replica
 * and thread of a process. What differs is memory: packed weights and what microbatches met with belong to a replica;
 * what one segment leaves to another is in activations, of a microbatch; what a segment needs while it runs is in a
 * workspace, of a thread; gradients are a block of one node of the tree of sums (engine/reduction_tree.h).
 */
#ifndef KOLO_ENGINE_PROGRAM_H
#define KOLO_ENGINE_PROGRAM_H

#include "model/lower.h"
#include "engine/reduction_tree.h"

typedef struct kolo_program kolo_program;

typedef struct kolo_segment {
    const kolo_program *program;
    int first, end; /* operations */
    int device;     /* where they run: 0 … program->devices - 1 */
    int reduce;       /* the KOLO_OP_REDUCE that ends it, operation `end`; else -1 */
    bool backwards; /* the last microbatch goes first: every other time that all have met */
    int *values;    /* [value_count] that they touch */
    int value_count;
    size_t gradient_first, gradient_bytes; /* where its gradients are among those of a microbatch */
} kolo_segment;

struct kolo_program {
    kolo_plan plan;
    const kolo_backend *backend;
    const kolo_model *model;
    void **kernels;        /* [plan.op_count] */
    struct kolo_fallback *fallbacks; /* of operations that the backend lacks */
    kolo_segment *segments;
    int segment_count;
    int devices; /* that the segments name; 1 for a model that is not placed */
    int device[KOLO_DEVICES_MAX]; /* [devices], by their numbers among the replica's */
    kolo_stream *streams[KOLO_DEVICES_MAX]; /* likewise; the engine's */
    int memories; /* as many as devices where each has its own, else 1 */
    bool reduces;  /* some segment ends with a KOLO_OP_REDUCE */
    /* Inputs, activations, workspaces and partial sums, [memories]; places are shared by values that never meet: */
    size_t *activation_bytes; /* of a microbatch: what lives from segment to segment */
    size_t *workspace_bytes; /* of a thread: the others */
    size_t scratch_bytes;
    size_t reduced_bytes; /* all sums over microbatches */
    size_t weights_bytes; /* all packed weights */
    size_t gradient_bytes; /* all gradients of one microbatch, float32 in the backend's layout */
};

/* A program's operations are known, and its devices, whose streams are to be filled in before it is completed. */
kolo_status kolo_program_begin(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_program **program);
kolo_status kolo_program_complete(kolo_program *program);
void kolo_program_close(kolo_program **program); /* takes NULL */

/* Where the values of one microbatch lie while it goes through the program, in one memory. */
typedef struct kolo_activations {
    const kolo_program *program;
    void *block; /* what lives from segment to segment */
    void **memory; /* [plan.value_count] */
    /* What the samples are to give, each NULL where the plan wants none: */
    int32_t *labels; /* [microbatch][rows of the outputs] */
    float *targets; /* [microbatch][outputs] */
    float *weights; /* [microbatch] */
} kolo_activations;

/* What a lane needs while a segment runs. */
typedef struct kolo_workspace {
    void *block, *scratch;
} kolo_workspace;

/* A replica's weights: packed as the backend wants them, and the canonical ones for values that are read in place. */
typedef struct kolo_program_weights {
    void *packed;
    const float *canonical;
} kolo_program_weights;

/* What the values of a microbatch are bound to besides its activations. */
typedef struct kolo_blocks {
    const kolo_program_weights *weights;
    float *gradient; /* of the microbatch; NULL when not trained */
    size_t gradient_first; /* of all its gradients that block begins here */
    void *reduced;
} kolo_blocks;

/* Before a segment is run: its values are where this workspace and these blocks are. */
void kolo_activations_bind(kolo_activations *activations, int number, const kolo_workspace *workspace,
                           const kolo_blocks *blocks);
float *kolo_activations_input(const kolo_activations
                                  *activations); /* [microbatch][elements of the input]; the first segment is bound */
const float *kolo_activations_output(const kolo_activations
                                         *activations); /* [microbatch][elements of the output]; the last segment is */

/* Canonical weights into the packed block, both in the memory of the program's first stream: the values that fall to
 * part `part` of `parts`, dealt out by their sizes. Nothing is packed of weights that are read in place. */
kolo_status kolo_program_pack(const kolo_program *program, const float *weights, void *packed, int part, int parts);
/* A block of gradients into canonical[weight_count], likewise. */
kolo_status kolo_program_unpack(const kolo_program *program, const float *gradients, float *canonical);
/* How blocks of its gradients are allocated and added, for kolo_reduction_open(). */
kolo_reduction_memory kolo_program_reduction_memory(const kolo_program *program);

#endif
