/* The plan: a model as a list of operations over values, for one microbatch.
 *
 * A microbatch is a few neighbouring samples of a batch: kolo_plan.microbatch of them. A plan holds the operations
 * of one microbatch's forward pass and, in training, of its backward pass. Layers write the plan (layers/layer.h). A
 * backend prepares a kernel for each operation and chooses the layout of each value (backend/backend.h). The engine
 * then places the values in memory (engine/memory_plan.h) and runs the kernels. A plan is built once for each
 * combination of microbatch size, purpose and precision: the model is lowered to it (model/lower.h), copies between
 * devices are added (plan/copies.h), operations that the backend lacks are replaced (engine/fallback.h), and operations
 * are fused (plan/fusion.h). From then on operations and views do not change. A backend that prepares kernels still
 * fills in the bytes and the layout of each value, which WEIGHTS share memory or are read in place, and the size of
 * each operation's scratch memory.
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
    KOLO_VALUE_INPUT,      /* the microbatch's features, canonical; filled in before the microbatch runs */
    KOLO_VALUE_ACTIVATION, /* microbatch × shape; its lifetime ends with the last operation that reads it */
    KOLO_VALUE_WEIGHTS, /* a packed copy of a parameter, for the one operation that reads it; filled in by pack() */
    KOLO_VALUE_GRADIENT, /* a parameter's gradient summed over the microbatch, float32, in the backend's layout */
    KOLO_VALUE_WORKSPACE, /* bytes that a forward kernel writes for its backward kernel, such as the places of maxima */
    KOLO_VALUE_PARTIAL, /* double[shape]: sums over the samples of one microbatch. A KOLO_OP_REDUCE adds those of all
                           microbatches; without a KOLO_OP_REDUCE, operations read the partial itself */
    KOLO_VALUE_REDUCED /* double[shape]: the sum of a PARTIAL over all microbatches of the replica's shard, or with
                          op.across over those of the whole group. The engine writes it, operations read it */
} kolo_value_kind;

/* Canonical means: float32, microbatch × shape, the last axis fastest, no gaps. */
typedef struct kolo_value {
    kolo_value_kind kind;
    kolo_shape shape; /* of one sample; of the whole parameter for WEIGHTS and GRADIENT */
    int parameter; /* the parameter's number in the model for WEIGHTS and GRADIENT, else -1 */
    int view_of; /* the value whose memory this one shares, with the same elements in another shape; -1: no view */
    bool canonical; /* it must be canonical, since code outside the backend reads or writes it */
    /* The backend sets these when it prepares the first operation that touches the value. PARTIAL and REDUCED are
     * always double[shape]. */
    size_t bytes; /* of the whole microbatch, or parameter, in its layout; 0 for a view and for a value not needed */
    int packed_as; /* the WEIGHTS value that is packed in the same way and whose memory this one shares; -1: none */
    bool in_place; /* WEIGHTS that the backend reads from the canonical weights, without a packed copy */
    void *layout; /* the backend's description of the layout; freed by its forget() */
    /* Set by plan/copies.c (memory) and engine/memory_plan.c: */
    int memory; /* the number of the memory that it is stored in: its device's if each device has its own, else 0 */
    size_t offset; /* in bytes, from the beginning of the block for values of its kind */
    bool kept; /* needed after its segment, so stored in the microbatch's activations; else in the lane's workspace */
} kolo_value;

/* The operations. From each entry, X(name, ins, outs), come its constant and what plan/operands.c checks of its
 * operands, which its comment lists: in[] -> out[]. dy is the gradient with respect to y. "or -1": the operation may
 * lack this operand, which must be set to -1 then, since 0 is a value.
 *
 * ins and outs have a word for each operand. Its first letter is the kind of value: a activation, f activation or
 * features, w weights, g gradient, s workspace, p partial, r reduced or partial, '.' any. Operands with the same
 * capital letter have the same shape. A '?' at the end says "or -1".
 *
 * In the backward operations y is -1 unless the activation is fused, and kernel is -1 when dx is -1. The backward
 * operation of an activation gets y, or x where y does not suffice (gelu, silu).
 *
 * `where` of MAX_POOL2D has the places of the maxima. With .activation KOLO_RELU, y is the ReLU of the maxima, and
 * `where` also marks the maxima that the ReLU makes zero.
 *
 * BATCH_NORM takes the statistics from the reduced moments, or from `mean` and `variance` if there are none. dmean and
 * dvariance, each or -1, are the gradients of the running mean and variance: samples · mean, samples · variance.
 *
 * The x of ATTENTION is {length, 3 · heads · key size}: each position holds the queries of all heads, then the
 * keys, then the values. y is {length, heads · key size}. sums is {heads, length}; each backend chooses what it
 * stores there.
 *
 * DENSE_LOSS is three operations in one: the last dense layer, the loss of its outputs, and the backward pass
 * through both. The outputs are not kept. Its second kernel is the operand of the backward pass. */
#define KOLO_OPS(X)                                                                                                    \
    X(INPUT, "fX", "aX") /* features -> x */                                                                           \
    X(CONV2D, "aX wK wB?", "aY") /* x, kernel, bias or -1 -> y = activation(x * kernel + bias) */                      \
    X(CONV2D_BACKWARD, "aY aY? aX wK?",                                                                                \
      "aX? gK gB?") /* dy, y or -1, x, kernel or -1 -> dx or -1, dkernel, dbias or -1 */                               \
    X(CONV2D_TRANSPOSE, "aX wK wB?",                                                                                   \
      "aY") /* x, kernel, bias or -1 -> y; the window is of the convolution from y to x */                             \
    X(CONV2D_TRANSPOSE_BACKWARD, "aY aY? aX wK?", "aX? gK gB?") /* as CONV2D_BACKWARD */                               \
    X(DENSE, "aX wK wB?", "aY") /* x, kernel, bias or -1 -> y; x may be a view, its elements in order */               \
    X(DENSE_BACKWARD, "aY aY? aX wK?", "aX? gK gB?") /* as CONV2D_BACKWARD */                                          \
    X(MAX_POOL2D, "aX", "aY sY?") /* x -> y, where (workspace; -1 in a plan without training) */                       \
    X(MAX_POOL2D_BACKWARD, "aY sY", "aX") /* dy, where -> dx */                                                        \
    X(AVERAGE_POOL2D, "aX", "aY") /* x -> y: zeros of padding do not count */                                          \
    X(AVERAGE_POOL2D_BACKWARD, "aY", "aX") /* dy -> dx */                                                              \
    X(PAD2D, "aX", "aY") /* x -> y: x with window.before and .after zeros around it */                                 \
    X(CROP2D, "aY", "aX") /* dy -> dx: dy without those borders */                                                     \
    X(UPSAMPLE2D, "aX", "aY") /* x -> y: each pixel repeated window.kernel[0] × window.kernel[1] times */              \
    X(UPSAMPLE2D_BACKWARD, "aY", "aX") /* dy -> dx: the sums over the repetitions */                                   \
    X(CONCATENATE, "aA aB? aC? aD? aE? aF? aG? aH?",                                                                   \
      "aY") /* x1 … x8, or fewer -> y: one behind the other along .axis */                                             \
    X(SLICE, "aX", "aY") /* x -> y: from element .first of .axis on */                                                 \
    X(MULTIPLY, "aX aP", "aX") /* x1, x2 -> y = x1 · x2; an x2 of {1, 1, C} multiplies every pixel */                  \
    X(MULTIPLY_SUM, "aX aX", "aP") /* x1, x2 -> y {1, 1, C}: Σ x1 · x2 over the pixels */                              \
    X(ACTIVATION, "aX", "aX") /* x -> y */                                                                             \
    X(ACTIVATION_BACKWARD, "aX aX? aX?", "aX") /* dy, y or -1, x or -1 -> dx */                                        \
    X(DROPOUT, "aX", "aX sX") /* x -> y, mask (workspace) */                                                           \
    X(DROPOUT_BACKWARD, "aX sX", "aX") /* dy, mask -> dx */                                                            \
    X(ADD, "aX aX", "aX") /* x1, x2 -> y = activation(x1 + x2) */                                                      \
    X(EMBEDDING, "fX wT", "aY") /* features, table -> y: the rows of the table whose numbers the features are */       \
    X(EMBEDDING_BACKWARD, "aY fX", "gT") /* dy, features -> dtable */                                                  \
    X(POSITION, "aX wX", "aX") /* x, table -> y = x + table, the same table for every sample */                        \
    X(POSITION_BACKWARD, "aX", "gX") /* dy -> dtable */                                                                \
    X(LAYER_NORM, "aX wC? wC?", "aX") /* x, scale or -1, offset or -1 -> y */                                          \
    X(LAYER_NORM_BACKWARD, "aX aX wC?",                                                                                \
      "aX? gC? gC?") /* dy, x, scale or -1 -> dx or -1, dscale or -1, doffset or -1 */                                 \
    X(ATTENTION, "aX",                                                                                                 \
      "aY sS?") /* x: queries, keys and values -> y, sums (workspace; -1 in a plan without training) */                \
    X(ATTENTION_BACKWARD, "aY aX aY sS", "aX") /* dy, x, y, sums -> dx */                                              \
    X(REDUCE, "pS", "rS") /* partial -> reduced; it waits for all microbatches */                                      \
    X(COPY, "fX", "fX") /* x, of another device -> y: x on the operation's device; plan/copies.c adds it */            \
    X(BATCH_NORM_MOMENTS, "aX", "pM") /* x -> partial {2C + 1}: Σx, Σx² of each channel; the number of x a channel */  \
    X(BATCH_NORM, "aX rM? wC? wC? wC? wC?",                                                                            \
      "aX gC? gC?") /* x, reduced, gamma, beta, mean, variance, all but x or -1 -> y, dmean, dvariance */              \
    X(BATCH_NORM_SUMS, "aX aX rM wC? wC?",                                                                             \
      "pS gC? gC?") /* dy, x, reduced, gamma or -1, beta or -1 -> partial {2C}: Σdy, Σdy·x̂; dgamma, dbeta */           \
    X(BATCH_NORM_BACKWARD, "aX aX rM wC? wC? rS",                                                                      \
      "aX") /* dy, x, reduced, gamma or -1, beta or -1, reduced of the sums -> dx */                                   \
    X(CUSTOM, ".? .? .? .? .? .? .? .?", ".? .? .? .?") /* as the layer defines, all canonical; op.custom computes */  \
    X(DENSE_LOSS, "aX wK wB? wK?",                                                                                     \
      "aX? gK? gB?") /* x, kernel, bias or -1, kernel or -1 -> dx, dkernel, dbias, each or -1 */                       \
    X(LOSS, "fY", "aY?") /* outputs (canonical) -> d loss / d outputs (canonical; -1 in a plan without training) */

typedef enum kolo_op_kind {
#define KOLO_OP_CONSTANT(name, ins, outs) KOLO_OP_##name,
    KOLO_OPS(KOLO_OP_CONSTANT)
#undef KOLO_OP_CONSTANT
        KOLO_OP_KINDS
} kolo_op_kind;

const char *kolo_op_name(kolo_op_kind kind); /* "CONV2D" */

typedef struct kolo_window {
    int kernel[2], stride[2];
    int gap[2]; /* elements skipped between two that the kernel reads: dilation − 1 */
    int before[2], after[2]; /* rows and columns of zeros: {top, left}, {bottom, right} */
} kolo_window;

#define KOLO_OP_INS  8
#define KOLO_OP_OUTS 4

/* The arguments of a custom operation (KOLO_OP_CUSTOM) on one microbatch. It computes in float32 whatever the precision
 * of the plan. Arrays are [microbatch][shape]; those of weights and gradients of weights are [shape]. An array is NULL
 * where the operation has -1. out[] is all zeros before the call. Only the first `samples` samples of the microbatch
 * count; the rest is padding, which may be left alone. Padding is finite in activations and zero in their gradients,
 * and the operation must keep it so in out[]. */
typedef struct kolo_custom_call {
    const kolo_custom_args *args; /* the options of the layer */
    const float *in[KOLO_OP_INS];
    float *out[KOLO_OP_OUTS];
    kolo_shape in_shape[KOLO_OP_INS], out_shape[KOLO_OP_OUTS];
    int samples, microbatch;
    int64_t first_sample; /* the microbatch's first sample's number in the global batch */
    uint64_t seed, step; /* keys of random numbers, which are the same on every device: core/random.h */
    int layer; /* the layer's number in the model */
    bool chance; /* whether random choices are made: in kolo_fit(), as for dropout */
    const float *weights; /* [samples], each sample's weight in the loss; NULL: all 1 */
    double *loss; /* the sum of the samples' losses. A layer may add a term to it. The layer then adds the term's
                     gradient, times loss_scale, to the gradients that it writes */
    double loss_scale; /* all gradients are multiplied by it: 1, or with KOLO_MIXED_FP16 the scale of the loss */
} kolo_custom_call;

typedef struct kolo_op {
    kolo_op_kind kind;
    int layer; /* number in the model: for messages, and for dropout's random numbers */
    int device; /* the layer's device, or -1 for the replica's first. A program renumbers them from 0 to devices - 1 */
    int in[KOLO_OP_INS], out[KOLO_OP_OUTS];
    kolo_activation activation; /* of ACTIVATION and its backward: any. Of others: KOLO_LINEAR, or a fused KOLO_RELU,
                                   whose backward needs only y */
    kolo_window window; /* of operations on images */
    double rate; /* the dropout rate of DROPOUT, ATTENTION and their backwards */
    double epsilon; /* of LAYER_NORM, the BATCH_NORMs and their backwards: added to the variance */
    int heads; /* of ATTENTION and its backward */
    bool causal; /* of the same: a position does not attend to later ones */
    int axis, first; /* of CONCATENATE and SLICE: an axis of the sample; of SLICE: its first element along the axis */
    bool across; /* of REDUCE: the sum is over the microbatches of the whole group, not of the replica alone */
    void (*custom)(const kolo_custom_call *call);
    const kolo_custom_args *custom_args;
    int also_computes; /* the operation that this one's kernel also computes, or -1: plan/fusion.h */
    int computed_by; /* the operation whose kernel also computes this one, or -1 */
    size_t scratch; /* bytes of scratch memory that its kernel needs while it runs; set by the backend */
} kolo_op;

typedef struct kolo_plan {
    int microbatch;
    bool training; /* has backward operations */
    bool deterministic; /* deterministic mode: a batch has several microbatches, whose gradients are added up */
    bool dropout; /* dropout is active: in kolo_fit(), not in kolo_gradients() or kolo_evaluate() */
    kolo_precision precision;
    kolo_value *values;
    int value_count;
    kolo_op *ops; /* the forward ones first */
    int op_count;
    int forward_count;
    int input; /* the KOLO_VALUE_INPUT */
    int output; /* the model's outputs, canonical: for prediction, and for the loss */
    int loss_gradient; /* the value d loss / d outputs, or -1 */
    kolo_loss loss;
    kolo_metric metrics[KOLO_METRICS_MAX];
    int metric_offset[KOLO_METRICS_MAX]; /* the first sum of each metric in kolo_totals.sums */
    int metric_sums; /* the number of sums of all metrics */
    int tokens; /* the features are whole numbers from 0 to tokens - 1; 0: any numbers */
    kolo_activation probabilities; /* the activation that turns outputs into probabilities, for metrics that ask for
                                      them; 0: none does */
    bool labels, targets, weights; /* which of these the loss and the metrics read */
    int device; /* kolo_op.device of the operations that are added next */
    const struct kolo_layer_node *layers; /* the model's, for their names; NULL in a plan that was made by hand */
    struct kolo_stream *stream; /* where the kernels run; NULL in a plan that was made by hand. During prepare() it is
                                   the stream of the operation's device, otherwise device 0's */
    int device_number; /* the backend's number of device 0 */
} kolo_plan;

/* For layers: each adds a value and returns its number, or -1 and a failure when there is no memory. */
int kolo_plan_value(kolo_plan *plan, kolo_value_kind kind, kolo_shape shape);
int kolo_plan_view(kolo_plan *plan, int value, kolo_shape shape);
int kolo_plan_weights(kolo_plan *plan, int parameter, kolo_shape shape); /* one value for each operation that reads */
int kolo_plan_gradient(kolo_plan *plan, int parameter, kolo_shape shape);
/* Adds an operation. The elements of in[] and out[] that its kind does not have become -1; it fails if one is the
 * number of a value, and with a sentence unless the operands are of the kinds and shapes that KOLO_OPS gives them. */
kolo_status kolo_plan_op(kolo_plan *plan, kolo_op op);
/* operands.c. The checks of kolo_plan_op(); sets the operands that the kind does not have to -1. */
kolo_status kolo_plan_check_operands(const kolo_plan *plan, kolo_op *op);
/* Fails if an operation reads a value that no operation before it writes. *op becomes that operation. */
kolo_status kolo_plan_check_order(const kolo_plan *plan, const kolo_op **op);
/* Frees the lists and empties the plan. The caller calls the backend's forget() first, which frees the layouts. */
void kolo_plan_free(kolo_plan *plan);

/* The value that has the memory of `value`: follows view_of and packed_as. It is `value` itself if it has memory. */
int kolo_plan_base(const kolo_plan *plan, int value);
static inline bool kolo_value_has_memory(const kolo_value *value)
{
    return value->view_of < 0 && value->packed_as < 0;
}
/* Lets a WEIGHTS value with a packed copy use the one of an earlier value of the same parameter, if there is one in the
 * same memory for which alike() is true. A backend calls it when it has chosen the value's layout. */
void kolo_plan_share_packed(kolo_plan *plan, int value, bool (*alike)(const kolo_plan *plan, int earlier, int value));
/* Whether both are the result of the same operation, perhaps in different shapes; false if one is -1. Fusion also makes
 * the result of one operation a view of another's: these are not the same. */
bool kolo_plan_same(const kolo_plan *plan, int a, int b);
/* The operation that writes a value; NULL: none. The operation that reads it; NULL unless the value is exactly one
 * operand in the whole plan. */
const kolo_op *kolo_plan_writer(const kolo_plan *plan, int value);
const kolo_op *kolo_plan_only_reader(const kolo_plan *plan, int value);
/* Whether a value must be canonical: any value with the same memory is marked so. */
bool kolo_plan_canonical(const kolo_plan *plan, int value);

/* Elements of one sample's outputs; its rows, of which each may have a label. */
static inline int64_t kolo_plan_outputs(const kolo_plan *plan)
{
    return kolo_shape_count(plan->values[plan->output].shape);
}
static inline int64_t kolo_plan_rows(const kolo_plan *plan)
{
    kolo_shape outputs = plan->values[plan->output].shape;
    return kolo_shape_count(outputs) / outputs.dim[outputs.rank - 1];
}

#endif
