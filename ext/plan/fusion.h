/* Fusion: one kernel computes several operations, so that a value between them is not written and read again.
 *
 * This is one pass over a plan, for every backend, and the last one that changes operations and views. It runs before
 * the backend prepares kernels (engine/program.c). It knows which patterns are right; a backend says which of them it
 * has kernels for, through the one function kolo_fuses. The reference backend has none.
 *
 * There are two ways to fuse:
 * - An operation is rewritten. It then does more, and another one less: see kolo_fusion_kind.
 * - Two operations stay as they are, and share one kernel: op.with is the number of the operation whose work the
 *   kernel does, too, and that operation's .into is the number of the first. The engine does not run an operation that
 *   has an .into, and no kernel is prepared for it. Its output and the first one's are one value.
 * What is rounded between two operations stays rounded there. */
#ifndef KOLO_PLAN_FUSION_H
#define KOLO_PLAN_FUSION_H

#include "plan/plan.h"

typedef enum kolo_fusion_kind { /* op[0], op[1], …: */
    /* Rewritten: */
                                KOLO_FUSE_DENSE_LOSS, /* DENSE, LOSS, its DENSE_BACKWARD or NULL: one DENSE_LOSS, where
                                                         the outputs are many */
                                KOLO_FUSE_RELU_MASK, /* MAX_POOL2D, its backward, the backward of the convolution
                                                        before. The pooling's workspace also encodes the mask of the
                                                        convolution's ReLU; the convolution's backward needs neither y
                                                        nor the ReLU */
                                KOLO_FUSE_RELU, /* CONV2D, MAX_POOL2D: the poolings that read the convolution's output
                                                   apply its ReLU */
                                KOLO_FUSE_BIAS_GRADIENT, /* MAX_POOL2D_BACKWARD, the backward of the convolution before:
                                                            the pooling's backward writes the gradient of the
                                                            convolution's bias, as its out[1] */
                                /* One kernel: */
                                KOLO_FUSE_POOL, /* CONV2D, MAX_POOL2D of windows of 2 × 2, and in training their
                                                   backwards in the same order: the larger image and its gradient are
                                                   not kept. `where` is out[1] of the convolution and in[4] of its
                                                   backward */
                                KOLO_FUSE_DROPOUT, /* MAX_POOL2D, DROPOUT, and their backwards: the pooling's workspace
                                                      also encodes the dropout's mask */
                                KOLO_FUSE_ADD, /* BATCH_NORM or LAYER_NORM_BACKWARD, ADD */
                                KOLO_FUSE_RELU_BACKWARD /* ADD, ACTIVATION_BACKWARD of a ReLU whose y is there */
} kolo_fusion_kind;

#define KOLO_FUSED_OPS 4

typedef struct kolo_fusion {
    kolo_fusion_kind kind;
    const kolo_op *op[KOLO_FUSED_OPS]; /* NULL behind the last */
} kolo_fusion;

/* Whether a backend has a kernel for the candidate. */
typedef bool kolo_fuses(const kolo_plan *plan, const kolo_fusion *fusion);

/* Runs the pass. fuses: NULL: the backend has no fused kernels. */
void kolo_fuse(kolo_plan *plan, kolo_fuses *fuses);
/* Runs KOLO_FUSE_DENSE_LOSS alone, which decides how large a microbatch may be before a device is open
 * (model/lower.h). */
void kolo_fuse_loss(kolo_plan *plan, kolo_fuses *fuses);

#endif
