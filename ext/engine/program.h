/* A program: a plan with its kernels and its memory, ready to run leaf by leaf.
 *
 * A plan is cut into segments where all leaves must meet (KOLO_OP_MEET) and where the device changes: a leaf goes
 * through one segment without stopping. Most plans are a single one. One program serves every replica and thread of a
 * process. What differs is memory: packed weights and what leaves met with belong to a replica; what one segment leaves
 * to another is in a frame, of a leaf; what a segment needs while it runs is on a bench, of a thread; gradients are a
 * block of one node of the tree of sums (engine/fold.h).
 */
#ifndef KOLO_ENGINE_PROGRAM_H
#define KOLO_ENGINE_PROGRAM_H

#include "core/model.h"
#include "engine/fold.h"

typedef enum kolo_purpose {
    KOLO_FOR_TRAINING,  /* forward with dropout, loss, backward */
    KOLO_FOR_GRADIENTS, /* the same without dropout */
    KOLO_FOR_SCORES,    /* forward and loss */
    KOLO_FOR_OUTPUTS    /* forward */
} kolo_purpose;

typedef struct kolo_program kolo_program;

typedef struct kolo_segment {
    const kolo_program *program;
    int first, end; /* operations */
    int device;     /* where they run: 0 … program->devices - 1 */
    int meet;       /* the KOLO_OP_MEET that ends it, operation `end`; else -1 */
    bool backwards; /* the last leaf goes first: every other time that all have met */
    int *values;    /* [value_count] that they touch */
    int value_count;
    size_t gradient_first, gradient_bytes; /* where its gradients are among those of a leaf */
} kolo_segment;

struct kolo_program {
    kolo_plan plan;
    const kolo_backend *backend;
    const kolo_model *model;
    void **kernels;        /* [plan.op_count] */
    kolo_segment *segments;
    int segment_count;
    int devices; /* that the segments name; 1 for a model that is not placed */
    int device[KOLO_DEVICES_MAX]; /* [devices], by their numbers among the replica's */
    struct kolo_queue *queues[KOLO_DEVICES_MAX]; /* likewise, of an accelerator */
    int memories; /* as many as devices where each has its own, else 1 */
    bool meets;  /* some segment ends with a KOLO_OP_MEET */
    /* Inputs, activations, workspaces and partial sums, [memories]; places are shared by values that never meet: */
    size_t *frame_bytes; /* of a leaf: what lives from segment to segment */
    size_t *bench_bytes; /* of a thread: the others */
    size_t scratch_bytes;
    size_t met_bytes; /* all sums over leaves */
    size_t weights_bytes; /* all packed weights */
    size_t gradient_bytes; /* all gradients of one leaf, float32 in the backend's layout */
};

/* A program's operations are known, and its devices, whose queues, if it is an accelerator's, are to be filled in
 * before it is completed. */
kolo_status kolo_program_begin(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_program **program);
kolo_status kolo_program_complete(kolo_program *program);
/* Both, of the host's. */
kolo_status kolo_program_open(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_program **program);
void kolo_program_close(kolo_program **program); /* takes NULL */

/* A leaf's memory for a program. */
typedef struct kolo_frame {
    const kolo_program *program;
    void *block;
    void **memory; /* [plan.value_count] */
    /* What the samples are to give, each NULL where the plan wants none: */
    int32_t *labels; /* [leaf][rows of the outputs] */
    float *targets; /* [leaf][outputs] */
    float *weights; /* [leaf] */
} kolo_frame;

/* A thread's. */
typedef struct kolo_bench {
    void *block, *scratch;
    double *seconds; /* [plan.op_count] to which each operation's time is added; NULL: nobody looks */
} kolo_bench;

/* A replica's weights: packed as the backend wants them, and the canonical ones for values that are read in place. */
typedef struct kolo_program_weights {
    void *packed;
    const float *canonical;
} kolo_program_weights;

/* What the values of a leaf are bound to besides its frame. */
typedef struct kolo_blocks {
    const kolo_program_weights *weights;
    float *gradient; /* of the leaf; NULL when not trained */
    size_t gradient_first; /* of all its gradients that block begins here */
    void *met;
} kolo_blocks;

kolo_status kolo_frame_open(const kolo_program *program, kolo_frame **frame);
void kolo_frame_close(kolo_frame **frame);
kolo_status kolo_bench_open(const kolo_program *program, kolo_bench *bench);
void kolo_bench_close(const kolo_program *program, kolo_bench *bench); /* takes one of all zeros */

/* Before a segment is run: its values are where this bench and these blocks are. */
void kolo_frame_bind(kolo_frame *frame, int number, const kolo_bench *bench, const kolo_blocks *blocks);
float *kolo_frame_input(const kolo_frame *frame); /* [leaf][elements of the input]; the first segment is bound */
const float *kolo_frame_output(const kolo_frame *frame); /* [leaf][elements of the output]; the last segment is */

/* Runs the segment of one leaf that was bound. call.memory, scratch and what the samples are to give are the frame's
 * and the bench's; the rest is the caller's. */
kolo_status kolo_program_run(kolo_frame *frame, int number, const kolo_bench *bench, kolo_call call);

/* One value of plan->values: canonical weights into the packed block; does nothing for values that are no weights, or
 * weights in place. */
kolo_status kolo_program_pack(const kolo_program *program, int value, const float *weights, void *packed);
kolo_status kolo_program_pack_all(const kolo_program *program, const float *weights, void *packed);
/* Memory where the program's values lie; NULL when there is none. */
void *kolo_program_allocate(const kolo_program *program, size_t bytes);
void kolo_program_deallocate(const kolo_program *program, void *memory); /* takes NULL */
/* How blocks of its gradients are made and added, for kolo_fold_open(). */
kolo_fold_memory kolo_program_fold_memory(const kolo_program *program);
/* A block of gradients into canonical[weight_count], where its values lie. */
kolo_status kolo_program_unpack_there(const kolo_program *program, const float *gradients, float *canonical);
/* The same, of the host. */
kolo_status kolo_program_unpack(const kolo_program *program, const float *gradients, float *canonical);

#endif
