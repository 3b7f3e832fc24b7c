/* A program: a plan with its kernels and its memory plan, which can be run microbatch by microbatch.
 *
 * A plan is cut into segments at every reduction over microbatches (KOLO_OP_REDUCE) and wherever the device changes. A
 * microbatch goes through one segment without waiting for the others. Most plans have a single segment.
 *
 * Packed weights and reduced statistics exist once per replica, activations that a later segment reads once per
 * microbatch, and workspaces once per lane. Gradients of one microbatch are one block, which becomes a node of the
 * reduction tree (engine/reduction_tree.h).
 */
#ifndef KOLO_ENGINE_PROGRAM_H
#define KOLO_ENGINE_PROGRAM_H

#include "model/lower.h"
#include "engine/reduction_tree.h"

typedef struct kolo_program kolo_program;
struct kolo_buckets; /* buckets.h */

/* Gradients that are one block of memory: those of one microbatch, or of one segment of it. */
typedef struct kolo_gradients {
    const kolo_program *program;
    size_t first, bytes; /* the offset in the microbatch's block, and the size, in bytes */
    const int *values;   /* [count], the GRADIENT values, in the order of their offsets */
    int count;
} kolo_gradients;

typedef struct kolo_segment {
    const kolo_program *program;
    int first, end; /* its operations are first … end-1 */
    int device;     /* where they run: 0 … program->devices - 1 */
    int reduce;       /* the number of operation `end` if that is a KOLO_OP_REDUCE; else -1 */
    bool backwards; /* microbatches run from the last to the first; this alternates at every reduction */
    int *values;    /* [value_count], the values that its operations read and write */
    int value_count;
    kolo_gradients gradients;
} kolo_segment;

struct kolo_program {
    kolo_plan plan;
    const kolo_backend *backend;
    const kolo_model *model;
    void **kernels; /* [plan.op_count] */
    struct kolo_fallback *fallbacks; /* for operations that the backend lacks */
    kolo_segment *segments;
    int segment_count;
    int devices; /* the number of devices that the segments use; 1 for a model that is not placed */
    int device[KOLO_DEVICES_MAX]; /* [devices], their numbers among the replica's devices */
    kolo_stream *streams[KOLO_DEVICES_MAX]; /* [devices]; they belong to the engine */
    int memories; /* the number of separate memories: `devices`, or 1 that all devices share */
    int memory[KOLO_DEVICES_MAX]; /* [devices], the number of the memory that each device uses; home's is 0 */
    bool reduces; /* some segment ends with a KOLO_OP_REDUCE */
    /* [memories], for the values of kinds INPUT, ACTIVATION, WORKSPACE and PARTIAL. Values whose lifetimes do not
     * overlap may share an offset. */
    size_t *activation_bytes; /* per microbatch, for values that are kept (kolo_value.kept) */
    size_t *workspace_bytes; /* per lane, for the others */
    size_t scratch_bytes; /* per lane: the most that a kernel needs */
    size_t reduced_bytes; /* all sums over microbatches */
    size_t weights_bytes; /* all packed weights */
    kolo_gradients gradients; /* all of one microbatch, float32 in the backend's layout */
    int *gradient_values; /* gradients.values, of which those of the segments are parts */
};

/* Lowers the model and finds the devices. The caller then fills in program->streams. */
kolo_status kolo_program_begin(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_program **program);
/* Prepares the kernels and plans the memory. */
kolo_status kolo_program_complete(kolo_program *program);
void kolo_program_close(kolo_program **program); /* takes NULL */

/* The addresses of one microbatch's values in one memory, from its first segment to its last. */
typedef struct kolo_activations {
    const kolo_program *program;
    void *block; /* the values that are kept (kolo_value.kept) */
    void **memory; /* [plan.value_count], the addresses */
    /* The samples' labels, targets and weights. NULL: no operation in this memory reads them. */
    int32_t *labels; /* [microbatch][rows of the outputs] */
    float *targets; /* [microbatch][outputs] */
    float *weights; /* [microbatch] */
} kolo_activations;

/* A lane's memory for the segment that it runs: values that are not kept, and scratch memory. */
typedef struct kolo_workspace {
    void *block, *scratch;
} kolo_workspace;

/* A replica's weights: packed in the backend's layout; canonical, for values that are read in place. */
typedef struct kolo_program_weights {
    void *packed;
    const float *canonical;
} kolo_program_weights;

/* The memory of a microbatch's values besides activations and workspace. */
typedef struct kolo_blocks {
    const kolo_program_weights *weights;
    float *gradient; /* of the microbatch; NULL: gradients are not wanted */
    size_t gradient_first; /* the offset in the microbatch's block at which `gradient` begins */
    const struct kolo_buckets *buckets; /* their parts have a block each, and `gradient` is not used; or NULL */
    float *const *parts; /* [part_count] */
    void *reduced;
} kolo_blocks;

/* Sets the addresses of the values of segment `number`. Called before the segment runs. */
void kolo_activations_bind(kolo_activations *activations, int number, const kolo_workspace *workspace,
                           const kolo_blocks *blocks);
/* [microbatch][elements of the input]. The first segment is bound. */
float *kolo_activations_input(const kolo_activations *activations);
/* [microbatch][elements of the output]. The last segment is bound. */
const float *kolo_activations_output(const kolo_activations *activations);

/* Packs the canonical weights of part number `part` of `parts`, which are about equal in bytes. `weights` and `packed`
 * are in the memory of the program's first stream. Weights that are read in place are not packed. */
kolo_status kolo_program_pack(const kolo_program *program, const float *weights, void *packed, int part, int parts);
/* Unpacks a block of gradients into canonical[weight_count], both in the memory of the program's first stream. */
kolo_status kolo_program_unpack(const kolo_program *program, const float *gradients, float *canonical);
/* The same for the block of these gradients. Within for_each() it runs in the order of its lane. */
kolo_status kolo_gradients_unpack(const kolo_gradients *gradients, const float *block, float *canonical);
/* Opens a reduction tree for blocks of these gradients, in the memory of the program's first stream. */
kolo_status kolo_gradients_reduction(const kolo_gradients *gradients, kolo_reduction **reduction);
/* Adds one such block to another. */
kolo_status kolo_gradients_add(const kolo_gradients *gradients, float *to, const float *from);

#endif
