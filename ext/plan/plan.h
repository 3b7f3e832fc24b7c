/* The plan: a model as a list of operations over values, for one microbatch.
 *
 * A microbatch is a few neighbouring samples of a batch: kolo_plan.microbatch of them. A plan says how one microbatch
 * goes forward and, in training, backward. Layers write the plan (layers/layer.h). A backend prepares a kernel for each
 * operation and chooses the layout of each value (backend/backend.h). engine/program.c then places the values in memory
 * and runs the kernels. A plan is built once for each combination of microbatch size, purpose and precision: it is
 * lowered (model/lower.h), gets copies between devices (plan/copies.h) and operations for what a backend lacks
 * (engine/fallback.h), and is fused (plan/fusion.h). From then on its operations and views do not change. A backend
 * that prepares kernels only fills in how values lie in memory.
 *
 * A microbatch that is not full is padded with samples of zeros. Their loss does not count, so their gradients are
 * exactly zero.
 */
#ifndef KOLO_PLAN_PLAN_H
#define KOLO_PLAN_PLAN_H

#include "core/error.h"
#include "losses/loss.h"
#include "core/shape.h"

typedef enum kolo_value_kind {
    KOLO_VALUE_INPUT,      /* the microbatch's features, canonical; filled before the microbatch runs */
    KOLO_VALUE_ACTIVATION, /* microbatch × shape; lives from the operation that writes it to the last one that reads it
                            */
    KOLO_VALUE_WEIGHTS, /* a packed copy of a parameter, for the one operation that reads it; filled by pack() */
    KOLO_VALUE_GRADIENT, /* a parameter's gradient summed over the microbatch, float32, in the backend's layout */
    KOLO_VALUE_WORKSPACE, /* bytes that the backend carries from forward to backward (where a maximum was) */
    KOLO_VALUE_PARTIAL, /* double[shape]: sums over the samples of one microbatch. A KOLO_OP_REDUCE adds those of all
                           microbatches; without one, operations read the microbatch's own sums */
    KOLO_VALUE_REDUCED /* double[shape]: the sum of a PARTIAL over all microbatches of the replica's shard, or of its
                          group's with op.across. The engine writes it, operations read it */
} kolo_value_kind;

/* Canonical means: float32, microbatch × shape, the last axis fastest, no gaps. */
typedef struct kolo_value {
    kolo_value_kind kind;
    kolo_shape shape; /* of one sample; of the whole parameter for WEIGHTS and GRADIENT */
    int parameter; /* its number for WEIGHTS and GRADIENT, else -1 */
    int view_of; /* the same elements under another shape: shares that value's memory; else -1 */
    bool canonical; /* it must be canonical, since code outside the backend reads or writes it */
    /* The backend sets these when it prepares the first operation that touches the value. PARTIAL and REDUCED always
     * are double[shape]. */
    size_t bytes; /* of the whole microbatch, or parameter, in its layout; 0 for a view and for a value not needed */
    int packed_as; /* WEIGHTS that are packed as that other value is, and share its memory; else -1 */
    bool in_place; /* WEIGHTS that the backend reads from the canonical weights, without a packed copy */
    void *layout; /* the backend's own description; freed by its forget() */
    /* Set by engine/program.c: */
    int memory; /* the number of the memory that holds it: its device, where each has its own; else 0 */
    size_t offset; /* in the memory of its kind */
    bool kept; /* it lives on in a later segment, so it lies with the microbatch's activations; else in a workspace */
} kolo_value;

typedef enum kolo_op_kind {
    /* kind                     in                                   out                                            */
    KOLO_OP_INPUT, /* features                             x                                              */
    KOLO_OP_CONV2D, /* x, kernel, bias or -1                y = activation(x * kernel + bias)              */
    KOLO_OP_CONV2D_BACKWARD, /* dy, y, x, kernel: see below          dx or -1, dkernel, dbias or -1                 */
    KOLO_OP_CONV2D_TRANSPOSE, /* x, kernel, bias or -1      y; the window is of the convolution from y to x        */
    KOLO_OP_CONV2D_TRANSPOSE_BACKWARD, /* as CONV2D_BACKWARD  dx or -1, dkernel, dbias or -1                       */
    KOLO_OP_DENSE, /* x, kernel, bias or -1                y; x may be a view, its elements in order      */
    KOLO_OP_DENSE_BACKWARD, /* dy, y, x, kernel: see below          dx or -1, dkernel, dbias or -1                 */
    KOLO_OP_MAX_POOL2D, /* x                                    y, where (workspace; -1 in a plan not trained). With
                                                             .activation, y is that of the maximum, and `where` tells
                                                             which maxima a ReLU makes zero */
    KOLO_OP_MAX_POOL2D_BACKWARD, /* dy, where                        dx                                             */
    KOLO_OP_AVERAGE_POOL2D, /* x                              y: zeros of padding take no part               */
    KOLO_OP_AVERAGE_POOL2D_BACKWARD, /* dy                    dx                                             */
    KOLO_OP_PAD2D, /* x                                       y: window.before and .after zeros around       */
    KOLO_OP_CROP2D, /* dy                                     dx: without them                               */
    KOLO_OP_UPSAMPLE2D, /* x                                  y: each pixel window.kernel times              */
    KOLO_OP_UPSAMPLE2D_BACKWARD, /* dy                        dx: the sums over them                         */
    KOLO_OP_CONCATENATE, /* x1 … x8, as many as there are     y: one behind the other along .axis            */
    KOLO_OP_SLICE, /* x                                       y: from element .first of .axis on             */
    KOLO_OP_MULTIPLY, /* x1, x2                               y = x1 · x2; x2 {1, 1, C}: for every pixel     */
    KOLO_OP_MULTIPLY_SUM, /* x1, x2                           y {1, 1, C}: Σ x1 · x2 over the pixels         */
    KOLO_OP_ACTIVATION, /* x                                y                                              */
    KOLO_OP_ACTIVATION_BACKWARD, /* dy, y or -1, x or -1             dx                                             */
    KOLO_OP_DROPOUT, /* x                                y, mask (workspace)                            */
    KOLO_OP_DROPOUT_BACKWARD, /* dy, mask                         dx                                             */
    KOLO_OP_ADD, /* x1, x2                               y = activation(x1 + x2)                        */
    KOLO_OP_EMBEDDING, /* features, table                      y: the rows of the table that they number      */
    KOLO_OP_EMBEDDING_BACKWARD, /* dy, features                         dtable */
    KOLO_OP_POSITION, /* x, table                             y = x + table, the same table for every sample */
    KOLO_OP_POSITION_BACKWARD, /* dy                                   dtable                                         */
    KOLO_OP_LAYER_NORM, /* x, scale or -1, offset or -1         y                                              */
    KOLO_OP_LAYER_NORM_BACKWARD, /* dy, x, scale or -1                   dx or -1, dscale or -1, doffset or -1 */
    KOLO_OP_ATTENTION, /* queries, keys, values in one: below  y, sums (workspace; -1 in a plan not trained)    */
    KOLO_OP_ATTENTION_BACKWARD, /* dy, queries keys values, y, sums     their gradient, in one */
    KOLO_OP_REDUCE, /* partial                              reduced; it waits for all microbatches                   */
    KOLO_OP_COPY, /* x, of another device                   y: x on the operation's device; plan/copies.c adds it */
    KOLO_OP_BATCH_NORM_MOMENTS, /* x                         partial {2C + 1}: Σx, Σx², and how many x a channel    */
    KOLO_OP_BATCH_NORM, /* x, reduced or -1, gamma or -1, beta or -1, mean or -1, variance or -1
                                                             y; samples · mean and samples · variance, each or -1,
                                                             which are the gradients of the running mean and variance.
                                                             The statistics come from the reduced moments where there
                                                             are some, else from `mean` and `variance` */
    KOLO_OP_BATCH_NORM_SUMS, /* dy, x, reduced, gamma or -1, beta or -1
                                                             partial {2C}: Σdy, Σdy·x̂; dgamma or -1, dbeta or -1    */
    KOLO_OP_BATCH_NORM_BACKWARD, /* dy, x, reduced, gamma or -1, beta or -1, reduced of the sums
                                                             dx                                             */
    KOLO_OP_CUSTOM, /* as its layer says, all canonical     the same: arithmetic is op.custom                 */
    KOLO_OP_DENSE_LOSS, /* x, kernel, bias or -1, kernel or -1  dx, dkernel, dbias, each or -1: below          */
    KOLO_OP_LOSS, /* outputs (canonical)                  d outputs (canonical; -1 when not trained)     */
    KOLO_OP_KINDS
    /* In the backward operations y is -1 unless the activation is fused, and kernel is -1 when dx is -1. The backward
     * operation of an activation gets y, or x where y does not suffice (gelu, silu).
     * The input of ATTENTION is {length, 3 · heads · key size}: each position holds the queries of all heads, then the
     * keys, then the values. y is {length, heads · key size}. sums is {heads, length}; each backend chooses what it
     * keeps there.
     * DENSE_LOSS does three things at once: the last dense layer, the loss of its outputs, and the way back through
     * both. The outputs are not kept. */
} kolo_op_kind;

typedef struct kolo_window {
    int kernel[2], stride[2];
    int gap[2]; /* elements skipped between two elements under the kernel: dilation − 1 */
    int before[2], after[2]; /* zeros around: {top, left}, {bottom, right} */
} kolo_window;

#define KOLO_OP_INS  8
#define KOLO_OP_OUTS 4

/* A learner's own arithmetic (KOLO_OP_CUSTOM) on one microbatch, in float32 whatever the precision of the plan.
 * Arrays are [microbatch][shape]; those of weights and gradients are [shape]. An array is NULL where the operation has
 * -1. out[] is all zeros before the call. Only the first `samples` samples of the microbatch count; the rest is
 * padding, which may be left alone. Padding is finite in inputs and zero in gradients; an output's must be so, too. */
typedef struct kolo_custom_call {
    const kolo_custom_args *args; /* of the layer */
    const float *in[KOLO_OP_INS];
    float *out[KOLO_OP_OUTS];
    kolo_shape in_shape[KOLO_OP_INS], out_shape[KOLO_OP_OUTS];
    int samples, microbatch;
    int64_t first_sample; /* the microbatch's first sample's number in the global batch */
    uint64_t seed, step; /* names of random numbers that do not depend on the device: core/random.h */
    int layer; /* its number in the model */
    bool chance; /* whether random choices are made: in kolo_fit(), as for dropout */
    const float *weights; /* [samples], of the loss; NULL: all 1 */
    double *loss; /* a layer may add to its samples' losses; it then adds to its gradients accordingly */
} kolo_custom_call;

typedef struct kolo_op {
    kolo_op_kind kind;
    int layer; /* number in the model: for messages, and for dropout's random numbers */
    int device; /* where it runs: the layer's device, or -1 for the replica's. A program numbers them 0 … devices - 1 */
    int in[KOLO_OP_INS], out[KOLO_OP_OUTS];
    kolo_activation activation; /* KOLO_LINEAR, or fused: KOLO_RELU. Its backward needs only y. */
    kolo_window window; /* of images */
    double rate; /* of DROPOUT and ATTENTION and their backwards */
    double epsilon; /* of LAYER_NORM, the BATCH_NORMs and their backwards: added to the variance */
    int heads; /* of ATTENTION and its backward */
    bool causal; /* likewise: a position does not see those after it */
    int axis, first; /* of CONCATENATE and SLICE: an axis of the sample, an element of it */
    bool across; /* of REDUCE: the sum is over the microbatches of the whole group, not of the replica alone */
    void (*custom)(const kolo_custom_call *call);
    const kolo_custom_args *custom_args;
    int with; /* the operation whose work this one's kernel does, too, or -1: plan/fusion.h */
    int into; /* the operation whose kernel does this one's work, or -1 */
    size_t scratch; /* bytes that its kernel needs while it runs; set by the backend */
} kolo_op;

typedef struct kolo_plan {
    int microbatch;
    bool training; /* has backward operations */
    bool adds_microbatches; /* a batch usually has several microbatches, so their gradients are added up */
    bool dropout; /* dropout is active: in kolo_fit(), not in kolo_gradients() or kolo_evaluate() */
    kolo_precision precision;
    kolo_value *values;
    int value_count;
    kolo_op *ops; /* the forward ones first */
    int op_count;
    int forward_count;
    int input; /* the KOLO_VALUE_INPUT */
    int output; /* the model's outputs, canonical: for prediction, and for the loss */
    int loss_gradient; /* d loss / d outputs, or -1 */
    kolo_loss loss;
    kolo_metric metrics[KOLO_METRICS_MAX];
    int metric_offset[KOLO_METRICS_MAX]; /* among the sums of kolo_totals */
    int metric_sums; /* of all metrics */
    int tokens; /* the features are whole numbers from 0 to tokens - 1; 0: any numbers */
    kolo_activation probabilities; /* the activation that turns outputs into probabilities, for metrics that ask for
                                      them; 0: none does */
    bool labels, targets, weights; /* which of these the loss and the metrics read */
    int device; /* kolo_op.device of the operations that are added next */
    const struct kolo_layer_node *layers; /* the model's, for their names; NULL in a plan that was made by hand */
    struct kolo_stream *stream; /* where the kernels run; NULL in a plan that was made by hand. During prepare() it is
                                   the stream of the operation's device, otherwise device 0's */
    int device_number; /* of the stream's device */
} kolo_plan;

/* For layers: each adds a value and returns its number, or -1 and a failure when there is no memory. */
int kolo_plan_value(kolo_plan *plan, kolo_value_kind kind, kolo_shape shape);
int kolo_plan_view(kolo_plan *plan, int value, kolo_shape shape);
int kolo_plan_weights(kolo_plan *plan, int parameter, kolo_shape shape); /* one for each operation that reads */
int kolo_plan_gradient(kolo_plan *plan, int parameter, kolo_shape shape);
/* Adds an operation. The elements of in[] and out[] that its kind does not have become -1. */
kolo_status kolo_plan_op(kolo_plan *plan, kolo_op op);
/* Frees the lists and empties the plan. The backend's forget() comes first, which frees the layouts. */
void kolo_plan_free(kolo_plan *plan);

/* The value whose memory a value has: that behind all views; the value itself if it has memory of its own. */
int kolo_plan_base(const kolo_plan *plan, int value);
static inline bool kolo_value_has_memory(const kolo_value *value)
{
    return value->view_of < 0 && value->packed_as < 0;
}
/* Whether both are what one operation wrote, under whatever shape; false if one is -1. Fusion makes views of values
 * that are written, too: those are not the same. */
bool kolo_plan_same(const kolo_plan *plan, int a, int b);
/* The operation that writes a value, and the one operand that reads it; NULL: there is none, or there are several. */
const kolo_op *kolo_plan_writer(const kolo_plan *plan, int value);
const kolo_op *kolo_plan_only_reader(const kolo_plan *plan, int value);
/* Whether a value must be canonical: it is marked so, or the value behind it is, or another view of that value is. */
bool kolo_plan_canonical(const kolo_plan *plan, int value);

#endif
