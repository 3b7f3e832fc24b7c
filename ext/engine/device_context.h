/* A device of a replica at work: its stream, and what lies in its memory. Most replicas have one.
 *
 * Of a model that is placed on several devices, context 0 is the home of what there is once: the canonical weights, the
 * samples, the sums of gradients and of losses, the update. Where the devices have memories of their own
 * (program->memories), each other context has its packed weights, its microbatches' values and a gradient on its way
 * home. Where they share one memory, the other contexts use home's arrays, and have workspaces of their own.
 *
 * Read engine/program.h and backend/stream.h first.
 */
#ifndef KOLO_ENGINE_DEVICE_CONTEXT_H
#define KOLO_ENGINE_DEVICE_CONTEXT_H

#include "engine/program.h"

/* Bytes of weights that are copied from home: they lie side by side here and there. */
typedef struct kolo_carried {
    bool in_place; /* of the canonical weights, else of the packed ones */
    size_t from, bytes;
} kolo_carried;

typedef struct kolo_device_context {
    const kolo_program *program;
    const kolo_stream_kind *streams;
    int number; /* of the program's devices */
    kolo_stream *stream;
    int lanes;
    kolo_workspace *workspaces;          /* [lanes] */
    double **seconds;             /* [lanes][plan.op_count] that operations took; NULL: nobody looks */
    kolo_event *event;            /* for other contexts to wait for this one */
    /* Arrays of its memory; those of home where the memory is shared: */
    kolo_program_weights weights; /* as if it had all of them; home has */
    float *gradient;              /* of a segment, on its way home; NULL where segments write it there */
    void *reduced;
    char *brought; /* [microbatches of a batch][longest]: what each brings to a sum over the group, in deterministic
                      mode */
    kolo_activations **activation_sets; /* [activation_set_count], activation_stride bytes apart */
    char *activation_blocks;
    size_t activation_stride;
    int activation_set_count;
    kolo_step_parameters *step_parameters;
    bool told; /* its operations are given the samples' labels and weights, and add to the losses */
    char *totals; /* [microbatches of the shard][stride]: what it adds to them; the engine's */
    char *weights_block, *packed_block; /* what it really has of the weights */
    kolo_carried *carried;
    int carried_count;
} kolo_device_context;

/* Memory of a context whose stream is open already; where home is NULL it is this. borrowed: home takes another
 * engine's packed weights; NULL: its own. */
kolo_status kolo_device_context_open(kolo_device_context *context, const kolo_device_context *home, void *borrowed);
void kolo_device_context_close(kolo_device_context *context); /* the stream stays; takes one that has none */
/* Room for so many microbatches at once; contexts that share home's memory take home's activations. */
kolo_status kolo_device_context_open_frames(kolo_device_context *context, const kolo_device_context *home, int count);
void kolo_device_context_close_frames(kolo_device_context *context);

/* `context` waits until `other` has come to where it is now. */
kolo_status kolo_device_context_follow(kolo_device_context *context, kolo_device_context *other);
/* The weights that home has packed last. */
kolo_status kolo_device_context_carry(kolo_device_context *context, const kolo_device_context *home);

/* Whether it has arrays of its own. */
static inline bool kolo_device_context_owns(const kolo_device_context *context)
{
    return context->number == 0 || context->program->memories > 1;
}

#endif
