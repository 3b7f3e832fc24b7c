/* A device context: one device of a replica, its stream and its memory. Most replicas have one.
 *
 * A model that is placed on several devices has a context for each. Context 0 is called home. It holds what exists
 * once: the canonical weights, the samples, the reduction trees of gradients and of losses, the update. Where the
 * devices have memories of their own (program->memories), each other context has its packed weights, the activations of
 * its microbatches, and a gradient that is copied home. Where they share one memory, the other contexts use home's
 * arrays and only have workspaces of their own.
 *
 * Read engine/program.h and backend/stream.h first.
 */
#ifndef KOLO_ENGINE_DEVICE_CONTEXT_H
#define KOLO_ENGINE_DEVICE_CONTEXT_H

#include "engine/program.h"

/* One contiguous copy of weights from home to the same offset in the context's memory. */
typedef struct kolo_weight_transfer {
    bool in_place; /* canonical weights, else packed ones */
    size_t from, bytes; /* offset and size */
} kolo_weight_transfer;

typedef struct kolo_device_context {
    const kolo_program *program;
    const kolo_stream_kind *streams;
    int number; /* of the program's devices */
    kolo_stream *stream;
    int lanes;
    kolo_workspace *workspaces;          /* [lanes] */
    double **seconds;             /* [lanes][plan.op_count], the time of each operation; NULL: not measured */
    kolo_event *event;            /* other contexts wait for this one with it */
    /* Arrays in its memory, or home's where the memory is shared: */
    kolo_program_weights weights; /* base addresses for the offsets of all weights; only its own are there */
    float *gradient;              /* of a segment, to be copied home; NULL: segments write to home's memory */
    void *reduced;
    char *partials; /* [microbatches of a batch][longest]: their partial sums for a reduction over the group, in
                       deterministic mode */
    kolo_activations **activation_sets; /* [activation_set_count], activation_stride bytes apart */
    char *activation_blocks;
    size_t activation_stride;
    int activation_set_count;
    kolo_step_parameters *step_parameters;
    bool receives_labels; /* its operations are given the samples' labels and weights, and add to the losses */
    char *totals; /* [microbatches of the shard][totals_stride]: its part of the losses; it belongs to the engine */
    char *weights_block, *packed_block; /* the allocations behind `weights` */
    kolo_weight_transfer *transfers;
    int transfer_count;
} kolo_device_context;

/* Allocates the memory of a context whose stream is open. home: NULL for home itself. borrowed: packed weights of
 * another engine that home reads; NULL: home has its own. */
kolo_status kolo_device_context_open(kolo_device_context *context, const kolo_device_context *home, void *borrowed);
/* Frees everything but the stream. Takes a context without a stream, too. */
void kolo_device_context_close(kolo_device_context *context);
/* Allocates activations for so many microbatches. Contexts that share home's memory use home's. */
kolo_status kolo_device_context_open_activations(kolo_device_context *context, const kolo_device_context *home,
                                                 int count);
void kolo_device_context_close_activations(kolo_device_context *context);

/* Work that is enqueued on `context` from now on waits for all work that is enqueued on `other` by now. */
kolo_status kolo_device_context_wait_for(kolo_device_context *context, kolo_device_context *other);
/* Copies the context's weights from home. */
kolo_status kolo_device_context_copy_weights(kolo_device_context *context, const kolo_device_context *home);

/* Whether the context has arrays of its own. */
static inline bool kolo_device_context_owns(const kolo_device_context *context)
{
    return context->number == 0 || context->program->memories > 1;
}

#endif
