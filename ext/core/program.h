/* A program: a plan with its kernels and its memory, ready to run leaf by leaf.
 *
 * One program serves every replica and thread of a process. What differs is memory: packed weights belong to a
 * replica, a frame (activations, workspaces, scratch) to a thread, a block of gradients to one node of the tree of sums
 * (core/fold.h).
 */
#ifndef KOLO_CORE_PROGRAM_H
#define KOLO_CORE_PROGRAM_H

#include "core/model.h"

typedef enum kolo_purpose {
    KOLO_FOR_TRAINING,  /* forward with dropout, loss, backward */
    KOLO_FOR_GRADIENTS, /* the same without dropout */
    KOLO_FOR_SCORES,    /* forward and loss */
    KOLO_FOR_OUTPUTS    /* forward */
} kolo_purpose;

typedef struct kolo_program {
    kolo_plan plan;
    const kolo_backend *backend;
    const kolo_model *model;
    void **kernels;        /* [plan.op_count] */
    size_t frame_bytes;    /* inputs, activations, workspaces: places are shared by values that never meet */
    size_t scratch_bytes;
    size_t weights_bytes;  /* all packed weights */
    size_t gradient_bytes; /* all gradients of one leaf, float32 in the backend's layout */
} kolo_program;

kolo_status kolo_program_open(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_program **program);
void kolo_program_close(kolo_program **program); /* takes NULL */

/* A thread's memory for a program. */
typedef struct kolo_frame {
    const kolo_program *program;
    void *block, *scratch;
    void **memory;   /* [plan.value_count] */
    /* What the samples are to give, each NULL where the plan wants none: */
    int32_t *labels; /* [leaf][rows of the outputs] */
    float *targets;  /* [leaf][outputs] */
    float *weights; /* [leaf] */
} kolo_frame;

kolo_status kolo_frame_open(const kolo_program *program, kolo_frame **frame);
void kolo_frame_close(kolo_frame **frame);
float *kolo_frame_input(const kolo_frame *frame);        /* [leaf][elements of the input] */
const float *kolo_frame_output(const kolo_frame *frame); /* [leaf][elements of the output] */

/* A replica's weights: packed as the backend wants them, and the canonical ones for values that are read in place. */
typedef struct kolo_program_weights {
    void *packed;
    const float *canonical;
} kolo_program_weights;

/* Runs one leaf with these weights; gradients (NULL when not trained) are written. call.memory, scratch and
 * labels are the frame's; the rest is the caller's. */
kolo_status kolo_program_run(kolo_frame *frame, const kolo_program_weights *weights, float *gradients, kolo_call call);

/* One value of plan->values: canonical weights into the packed block; does nothing for values that are no weights, or
 * weights in place. */
kolo_status kolo_program_pack(const kolo_program *program, int value, const float *weights, void *packed);
/* Adds a block of gradients to another, for kolo_fold_open(). */
void kolo_program_add(const void *program, float *to, const float *from);
/* A block of gradients into canonical[weight_count]. */
kolo_status kolo_program_unpack(const kolo_program *program, const float *gradients, float *canonical);

#endif
