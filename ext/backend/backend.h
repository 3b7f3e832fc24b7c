/* The seam for arithmetic: who computes?
 *
 * A backend turns each operation of a plan (plan/plan.h: read that first) into a kernel and runs it. It chooses how
 * activations and weights lie in memory; the library asks it only for canonical weights and gradients (pack, unpack)
 * and for canonical outputs. `reference` (backend/reference/) is plain loops in double precision, never optimised: the
 * oracle of the others and the one to read. `onednn` (backend/onednn/) is the plugin libkolo_onednn.so.
 *
 * To write one: fill in a kolo_backend, and either list it in runtime/backends.c or export it from a shared library
 * libkolo_NAME.so as `const kolo_plugin kolo_plugin_entry`. tests/ext/backend/ holds any backend against reference.
 */
#ifndef KOLO_BACKEND_H
#define KOLO_BACKEND_H

#include "backend/accelerator.h"
#include "plan/plan.h"
#include "losses/totals.h"

#define KOLO_BACKEND_VERSION 5

/* What a kernel is told about the microbatch at hand. */
typedef struct kolo_call {
    void *const *memory; /* [plan->value_count]: where each value is; views included */
    void *scratch;       /* at least op.scratch bytes, 64-byte aligned, this thread's own */
    int samples;         /* of the microbatch that count; the rest is padding */
    int64_t first_sample; /* the microbatch's first sample's number in the global batch: dropout's sample */
    uint64_t seed, step;  /* for dropout */
    const int32_t *labels; /* [samples][rows of the outputs]; NULL where the loss wants none */
    const float *targets;  /* [samples][outputs]; NULL likewise */
    const float *weights;  /* [samples], in the loss; NULL: all 1 */
    double loss_scale;     /* d loss / d outputs is to be multiplied by it, which engine/program.c does; 0: 1 */
    int round;             /* of a kernel that goes through its steps several times: the backend's own */
    kolo_totals *totals;   /* LOSS adds its samples' loss and metrics here */
    /* On an accelerator all of this memory is the device's; samples, seed, step and loss_scale are the step
     * parameters', and of the microbatch count those of the batch's that are from first_sample on: */
    kolo_stream *stream; /* the plan's */
    const kolo_step_parameters *step_parameters;
} kolo_call;

/* A WEIGHTS value to be packed, or a GRADIENT to be unpacked. */
typedef struct kolo_conversion {
    int value;
    const void *from;
    void *to;
} kolo_conversion;

typedef struct kolo_backend {
    unsigned version; /* KOLO_BACKEND_VERSION */
    const char *name;
    /* Whether it has KOLO_OP_DENSE_LOSS for a plan of this precision, loss and metrics, which is made without it else.
     * NULL: it has not. */
    bool (*dense_loss)(const kolo_plan *plan);
    /* Whether it can serve this precision on this machine; fails with a sentence if not. Called once, first. */
    kolo_status (*open)(kolo_precision precision);
    /* Brackets every stretch of kernels in a thread, which may be the caller's own: from enter to leave a kernel runs
     * on that one thread; leave, given what enter returned, puts the thread's own settings back. */
    int (*enter_thread)(void);
    void (*leave_thread)(int entered);

    /* Prepares operation number op; operations come in the plan's order. Sets bytes and layout of every value that it
     * is first to touch, op.scratch, and *kernel. */
    kolo_status (*prepare)(kolo_plan *plan, int op, void **kernel);
    /* Runs it on one microbatch. Several threads may run the same kernel at once, each with memory of its own (weights
     * are shared and only read). Gradients are written, not added to. */
    kolo_status (*run)(void *kernel, const kolo_call *call);
    void (*release)(void *kernel);
    /* Frees values[…].layout. */
    void (*forget)(kolo_plan *plan);

    /* Canonical float32 weights to the layout of a WEIGHTS value, and a GRADIENT value to canonical float32. */
    kolo_status (*pack)(const kolo_plan *plan, int value, const float *canonical, void *packed);
    kolo_status (*unpack)(const kolo_plan *plan, int value, const void *packed, float *canonical);
    /* Many of either at once, whose list may then go; NULL: they are done one by one. */
    kolo_status (*convert)(const kolo_plan *plan, const kolo_conversion *list, int count);

    /* Memory for values, 64-byte aligned; NULL when there is none. Host backends use kolo_host_allocate/free. */
    void *(*allocate)(size_t bytes);
    void (*deallocate)(void *memory);
    /* Adds one GRADIENT value, in the backend's layout, to another. */
    void (*add)(const kolo_plan *plan, int value, void *to, const void *from);

    /* One that computes on devices with memory of their own has this. Plans are then made for a stream: run(), pack(),
     * unpack() and add() give their work to it, all memory is its device's, and allocate() and deallocate() are NULL.
     * NULL: it computes on the host. */
    const kolo_accelerator *accelerator;
} kolo_backend;

/* The shared parts of backends that compute in this process's own memory (backend/host.c). */
void *kolo_host_allocate(size_t bytes);
void kolo_host_deallocate(void *memory);
/* to[i] += from[i] */
void kolo_host_add(float *to, const float *from, int64_t count);
/* Each to the nearest binary16, which KOLO_MIXED_FP16 computes with (backend/half.c). */
void kolo_host_round_half(float *values, int64_t count);
float kolo_nearest_half(float value);
/* One row of the model's outputs, number `number` of the microbatch: its part in the loss and the metrics, and unless
 * NULL its gradient[outputs of a row], which is yet to be multiplied by what is returned: the sample's weight over the
 * number of rows. room: as many floats, for itself. */
float kolo_host_loss_row(const kolo_plan *plan, const kolo_call *call, int64_t number, const float *outputs,
                         float *gradient, float *room);
/* KOLO_OP_LOSS: adds to totals; writes the gradient, where there is one, zero for padding. Needs that much scratch. */
size_t kolo_host_loss_scratch(const kolo_plan *plan, const kolo_op *op);
kolo_status kolo_host_loss(const kolo_plan *plan, const kolo_op *op, const kolo_call *call);

/* KOLO_OP_CUSTOM. The operands of both must be canonical. */
kolo_status kolo_host_custom(const kolo_plan *plan, const kolo_op *op, const kolo_call *call);

extern const kolo_backend kolo_reference_backend;

#endif
