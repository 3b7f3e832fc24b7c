/* A device context: one device of a replica, its stream and its memory. Most replicas have one.
 *
 * A model that is placed on several devices has a context for each. Context 0 is called home. Only home has all
 * weights, the samples, the reduction trees of gradients and of losses, and the update. If each device has its own
 * memory (program->memory), every other context has the weights of its operations, activations, and a gradient that
 * is copied to home. If the devices share one memory, the other contexts use home's arrays, and only
 * their workspaces are separate.
 *
 * Read engine/program.h and backend/stream.h first.
 */
#ifndef KOLO_ENGINE_DEVICE_CONTEXT_H
#define KOLO_ENGINE_DEVICE_CONTEXT_H

#include "engine/program.h"

/* One contiguous copy of weights from home to the same offset in a context. */
typedef struct kolo_weight_transfer {
    bool in_place; /* it copies canonical weights; else packed ones */
    size_t from, bytes; /* the offset and the size, in bytes */
} kolo_weight_transfer;

typedef struct kolo_device_context {
    const kolo_program *program;
    const kolo_stream_kind *streams;
    int number; /* its number among the program's devices */
    int memory; /* the number of its memory: its own number, or 0 if it uses home's */
    kolo_stream *stream;
    int lanes;
    kolo_workspace *workspaces;          /* [lanes] */
    double **seconds; /* [lanes][plan.op_count], the time of each operation; NULL: times are not measured */
    kolo_event *event; /* recorded when another context has to wait for this one */
    /* Arrays in its memory; home's arrays if the memory is shared: */
    kolo_program_weights weights; /* base addresses, to which offsets are added; only its operations' weights exist */
    float *gradient; /* of one segment, before it is copied to home; NULL: segments write to home's memory */
    void *reduced;
    double *partials; /* [microbatches of a batch], each as long as the longest partial: for a reduction over the group
                       in deterministic mode */
    kolo_activations **activation_sets; /* [activation_set_count], activation_stride bytes apart */
    char *activation_blocks;
    size_t activation_stride;
    int activation_set_count;
    kolo_step_parameters *step_parameters;
    bool receives_labels; /* its operations read the samples' labels, targets and weights, and add to the losses */
    char *totals; /* [microbatches of the shard][totals_stride]: its part of the losses; the engine frees it */
    char *weights_block, *packed_block; /* the allocated memory of `weights` */
    kolo_weight_transfer *transfers;
    int transfer_count;
} kolo_device_context;

/* Allocates the memory of a context whose stream is open. home: NULL for home itself. borrowed: another engine's packed
 * weights, which home reads; NULL: home allocates its own. */
kolo_status kolo_device_context_open(kolo_device_context *context, const kolo_device_context *home, void *borrowed);
/* Frees everything but the stream. Does nothing without a stream. */
void kolo_device_context_close(kolo_device_context *context);
/* Allocates activations for so many microbatches. A context that shares home's memory uses home's. */
kolo_status kolo_device_context_open_activations(kolo_device_context *context, const kolo_device_context *home,
                                                 int count);
void kolo_device_context_close_activations(kolo_device_context *context);

/* Work that is enqueued on `context` from now on waits for all work that is enqueued on `other` by now. */
kolo_status kolo_device_context_wait_for(kolo_device_context *context, kolo_device_context *other);
/* Copies the weights of the context's operations from home. */
kolo_status kolo_device_context_copy_weights(kolo_device_context *context, const kolo_device_context *home);

/* Whether the context has its own arrays. */
static inline bool kolo_device_context_owns(const kolo_device_context *context)
{
    return context->memory == context->number;
}

#endif
