/* Fusion: one kernel computes several operations, so that a value between them is not written and read again.
 *
 * One pass over a plan serves every backend. It runs before the backend prepares kernels (engine/program.c), and no
 * later pass changes operations or views. The pass finds the patterns that can be fused. A backend says which of them
 * it has kernels for, through the function kolo_fuses. The reference backend has none.
 *
 * There are two ways to fuse:
 * - Rewritten: an operation takes over work of another one (kolo_fusion_kind).
 * - One kernel: both operations stay as they are. The kernel of the first also computes the second, whose number is
 *   first.also_computes; second.computed_by is the number of the first. No kernel is prepared for an operation that has
 *   a .computed_by, and the engine does not run it. The value between the two shares the memory of the result, or in a
 *   backward pass of the gradient that the pair reads.
 *
 * A value that is rounded between two operations is rounded in a fused kernel, too. */
#ifndef KOLO_PLAN_FUSION_H
#define KOLO_PLAN_FUSION_H

#include "plan/plan.h"

/* Each comment lists op[0], op[1], … of the kolo_fusion. */
typedef enum kolo_fusion_kind {
    /* Rewritten: */
    KOLO_FUSE_DENSE_LOSS, /* DENSE, LOSS, its DENSE_BACKWARD or NULL: become one DENSE_LOSS if there are many outputs */
    KOLO_FUSE_RELU_MASK, /* MAX_POOL2D, its backward, the backward of the convolution before. The pooling's workspace
                            also encodes the mask of the convolution's ReLU; the convolution's backward needs neither y
                            nor the ReLU */
    KOLO_FUSE_RELU, /* CONV2D, MAX_POOL2D: all poolings that read the convolution's output apply its ReLU */
    KOLO_FUSE_BIAS_GRADIENT, /* MAX_POOL2D_BACKWARD, the backward of the convolution before: the pooling's backward
                                writes the gradient of the convolution's bias, as its out[1] */
    /* One kernel: */
    KOLO_FUSE_POOL, /* CONV2D, MAX_POOL2D of windows of 2 × 2, and in training their backwards in the same order: the
                       larger image and its gradient are not kept. `where` becomes out[1] of the convolution and in[4]
                       of its backward */
    KOLO_FUSE_DROPOUT, /* MAX_POOL2D, DROPOUT, and their backwards in the same order: the pooling's workspace also
                          encodes the dropout's mask */
    KOLO_FUSE_ADD, /* BATCH_NORM or LAYER_NORM_BACKWARD, ADD */
    KOLO_FUSE_RELU_BACKWARD /* ADD, ACTIVATION_BACKWARD of a ReLU that has y as an operand */
} kolo_fusion_kind;

#define KOLO_FUSED_OPS 4

typedef struct kolo_fusion {
    kolo_fusion_kind kind;
    const kolo_op *op[KOLO_FUSED_OPS]; /* unused elements are NULL */
} kolo_fusion;

/* Whether a backend has a kernel for the candidate. */
typedef bool kolo_fuses(const kolo_plan *plan, const kolo_fusion *fusion);

/* Runs the pass. fuses is NULL if the backend has no fused kernels; nothing is fused then. */
void kolo_fuse(kolo_plan *plan, kolo_fuses *fuses);
/* Runs KOLO_FUSE_DENSE_LOSS alone. The largest microbatch depends on it, and is chosen before a device is open
 * (model/lower.h). */
void kolo_fuse_loss(kolo_plan *plan, kolo_fuses *fuses);

#endif
