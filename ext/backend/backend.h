/* The interface for arithmetic.
 *
 * Read plan/plan.h first. A backend turns each operation of a plan into a kernel and runs it. It chooses the layout of
 * activations and weights. The rest of the library only sees canonical outputs, and through pack() and unpack()
 * canonical weights and gradients. `reference` (backend/reference/) has plain loops in double precision, which are
 * never optimised. It is the one to read, and the tests compare the others with it. `onednn` (backend/onednn/) is the
 * plugin libkolo_onednn.so, `cuda` (backend/cuda/) the plugin libkolo_cuda.so.
 *
 * To write one: fill in a kolo_backend, and either list it in runtime/backends.c or export it from a shared library
 * libkolo_NAME.so as `const kolo_plugin kolo_plugin_entry`. tests/ext/backend/ compares any backend with reference.
 */
#ifndef KOLO_BACKEND_H
#define KOLO_BACKEND_H

#include "core/align.h"
#include "backend/device_information.h"
#include "backend/stream.h"
#include "backend/update.h"
#include "backend/weight_placement.h"
#include "plan/fusion.h"
#include "plan/plan.h"
#include "losses/rows.h"
#include "losses/totals.h"
#include "optimizers/rules.h"

/* A plugin that was compiled with other lists of operations, rules or formulas would run another one's kernel. Each
 * entry changes this sum by its place, by three letters of its name, and by its operands, so that such a plugin does
 * not load. */
#define KOLO_NAME_SUM(text) ((unsigned)(3 * (text)[0] + 5 * (text)[sizeof(text) / 2] + 7 * (text)[sizeof(text) - 2]))
#define KOLO_OP_SUM(name, ins, outs)                                                                                   \
    +(KOLO_OP_##name + 1u) * (KOLO_NAME_SUM(#name) + 37u * (unsigned)sizeof(ins) + 41u * (unsigned)sizeof(outs))
#define KOLO_RULE_SUM(name, slots, function) +(KOLO_RULE_##name + 1u) * (KOLO_NAME_SUM(#name) + 43u * (slots))
#define KOLO_LISTS_SUM                       (0u KOLO_OPS(KOLO_OP_SUM) KOLO_RULES(KOLO_RULE_SUM) + 47u * (unsigned)KOLO_FORMULA_KINDS)
/* The sizes of the seam's structs, for the same reason: such a plugin would read other members. */
#define KOLO_SIZE_SUM(number, type) (number##u * (unsigned)sizeof(type))
#define KOLO_STRUCTS_SUM                                                                                               \
    (KOLO_SIZE_SUM(53, kolo_backend) + KOLO_SIZE_SUM(59, kolo_stream_kind) + KOLO_SIZE_SUM(61, kolo_update_kind) +     \
     KOLO_SIZE_SUM(67, kolo_update_job) + KOLO_SIZE_SUM(71, kolo_step_parameters) + KOLO_SIZE_SUM(73, kolo_call) +     \
     KOLO_SIZE_SUM(79, kolo_device_information) + KOLO_SIZE_SUM(83, kolo_plan) + KOLO_SIZE_SUM(89, kolo_op) +          \
     KOLO_SIZE_SUM(97, kolo_value))
/* Raise the first number with each change of the seam that leaves these sums as they are, such as a new meaning of a
 * member or another struct: plugins must then be compiled again. */
#define KOLO_BACKEND_VERSION (12u << 24 | ((KOLO_LISTS_SUM + KOLO_STRUCTS_SUM) & 0xFFFFFFu))

/* The arguments of a kernel: one microbatch. */
typedef struct kolo_call {
    void *const *memory; /* [plan->value_count]: the address of each value, views included */
    void *scratch;       /* at least op.scratch bytes, 64-byte aligned, for this thread alone */
    int samples;         /* the number of samples of the microbatch that are not padding */
    int64_t first_sample; /* the number of the microbatch's first sample in the global batch; for dropout */
    uint64_t seed, step;  /* for dropout */
    const int32_t *labels; /* [samples][rows of the outputs]; NULL: the loss and the metrics read none */
    const float *targets;  /* [samples][outputs]; NULL likewise */
    const float *weights;  /* [samples], each sample's weight in the loss; NULL: all 1 */
    double loss_scale;     /* d loss / d outputs is multiplied by it; 0 means 1 */
    int round;             /* set and read by the backend alone: the pass of a kernel that repeats its steps */
    kolo_totals *totals;   /* LOSS and DENSE_LOSS add the loss and metrics of the samples here, CUSTOM its loss */
    /* All of this memory is the stream's. The engine leaves samples, seed, step and loss_scale unset. On the host the
     * stream copies them from *step_parameters when the kernel runs; a device's kernels read them there. */
    kolo_stream *stream;
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
    /* Which fusions it has kernels for. NULL: none. */
    kolo_fuses *fuses;
    /* Called before the others, each time that a model is compiled. Fails with a sentence if this machine cannot
     * compute in this precision. */
    kolo_status (*open)(kolo_precision precision);
    /* A thread calls enter_thread() before a run of kernels and leave_thread() after it. In between, each kernel runs
     * on that thread alone. leave_thread() takes the return value of enter_thread() and restores the thread's
     * settings, since the thread may be one of the program's. */
    int (*enter_thread)(void);
    void (*leave_thread)(int entered);

    /* Prepares operation number op. The calls are in the plan's order. Sets op.scratch and *kernel, and the bytes and
     * the layout of each value that no operation before it touched. */
    kolo_status (*prepare)(kolo_plan *plan, int op, void **kernel);
    /* Whether it has kernels for that kind of operation. The reference backend computes the others, on canonical copies
     * (engine/fallback.h). NULL: it has all. */
    bool (*has)(kolo_op_kind kind);
    /* Runs a kernel on one microbatch. Several threads may run the same kernel at once, each with its own memory; the
     * weights are shared and only read. Gradients are overwritten, not added to. */
    kolo_status (*run)(void *kernel, const kolo_call *call);
    void (*release)(void *kernel);
    /* Frees values[…].layout. */
    void (*forget)(kolo_plan *plan);

    /* Converts canonical float32 weights to the layout of a WEIGHTS value; converts a GRADIENT value to canonical
     * float32. */
    kolo_status (*pack)(const kolo_plan *plan, int value, const float *canonical, void *packed);
    kolo_status (*unpack)(const kolo_plan *plan, int value, const void *packed, float *canonical);
    /* Packs or unpacks several values at once. The caller may free the list afterwards. NULL: one by one. */
    kolo_status (*convert)(const kolo_plan *plan, const kolo_conversion *list, int count);

    /* Adds one GRADIENT value, in the backend's layout, to another. */
    void (*add)(const kolo_plan *plan, int value, void *to, const void *from);

    /* The streams that its kernels run on, and the updates of weights on such streams. */
    const kolo_stream_kind *streams;
    const kolo_update_kind *updates;
    /* The number of separate memories that so many devices have. NULL: they share one. */
    int (*memories)(int devices);
    /* The weight placement that it uses when a strategy wants the given one. NULL: the wanted one. */
    kolo_weight_placement (*place_weights)(kolo_weight_placement wanted);
    /* For devices that are faster with larger microbatches: the bytes that the values of one microbatch may take. They
     * depend on the device's whole memory, not on its free memory, because a microbatch's size affects the last bits of
     * sums. NULL: microbatches are small enough for a CPU's caches. */
    int64_t (*microbatch_bytes)(int device);
    /* Information about its devices; NULL: it computes on the host. */
    const kolo_device_information *devices;
} kolo_backend;

/* Whether one microbatch keeps a whole device busy. */
static inline bool kolo_backend_fills_device(const kolo_backend *backend)
{
    return backend->microbatch_bytes;
}

/* Shared by backends that compute in the host's memory (backend/host.c). */
/* An open() for any precision. Warns that KOLO_TF32 is KOLO_FLOAT32. */
kolo_status kolo_host_open(kolo_precision precision);
void *kolo_host_allocate(size_t bytes);
void kolo_host_deallocate(void *memory);
/* to[i] += from[i] */
void kolo_host_add(float *to, const float *from, int64_t count);
/* half.c: rounds each value to the nearest binary16, the numbers of KOLO_MIXED_FP16. */
void kolo_host_round_half(float *values, int64_t count);
float kolo_nearest_half(float value);
/* Adds the loss and the metrics of row `number` of the microbatch's outputs to call->totals, and writes its gradient
 * [outputs of a row] unless that is NULL. The caller multiplies the gradient by the return value: the sample's weight
 * over the number of rows of a sample. room: scratch memory, [outputs of a row]. */
float kolo_host_loss_row(const kolo_plan *plan, const kolo_call *call, int64_t number, const float *outputs,
                         float *gradient, float *room);
/* KOLO_OP_LOSS: adds to the totals and writes the gradient, if there is one, with zeros for padding. The first function
 * returns the bytes of scratch memory that the second one needs. */
size_t kolo_host_loss_scratch(const kolo_plan *plan, const kolo_op *op);
kolo_status kolo_host_loss(const kolo_plan *plan, const kolo_op *op, const kolo_call *call);

/* KOLO_OP_CUSTOM. The operands of both must be canonical. */
kolo_status kolo_host_custom(const kolo_plan *plan, const kolo_op *op, const kolo_call *call);

extern const kolo_backend kolo_reference_backend;
/* The backend "enqueued": the same arithmetic on kolo_enqueued_streams, with a separate memory for each device. */
extern const kolo_backend kolo_enqueued_backend;

#endif
