/* The reference backend: every operation as the loops of its formula, in double precision, never optimised.
 *
 * The other backends are tested against it, and it is the one to read. Activations and packed weights are doubles in
 * the canonical order (microbatch × shape, the last axis fastest). Values that code outside the backend reads or
 * writes (features, outputs, gradients) are float32: reference.c widens them before an operation and narrows them after
 * it, so that the file of an operation has doubles only. With KOLO_MIXED_BF16 and KOLO_MIXED_FP16, the operands and
 * results of an operation are rounded to that type, but sums are not, as in hardware that has the type. Biases, the
 * model's outputs and the gradients of parameters stay float32.
 */
#ifndef KOLO_REFERENCE_H
#define KOLO_REFERENCE_H

#include "backend/backend.h"

/* The arguments of an operation on one microbatch. */
typedef struct kolo_reference_job {
    const kolo_plan *plan;
    const kolo_op *op;
    const kolo_call *call;
    /* As in the table of plan/plan.h, NULL for -1: double[microbatch][shape], or double[shape] for weights, gradients
     * and sums. The types of workspaces are below. */
    void *in[KOLO_OP_INS], *out[KOLO_OP_OUTS];
} kolo_reference_job;

/* The shape of one sample of an operand, or of a parameter. */
static inline kolo_shape kolo_reference_in(const kolo_reference_job *job, int i)
{
    return job->plan->values[job->op->in[i]].shape;
}
static inline kolo_shape kolo_reference_out(const kolo_reference_job *job, int i)
{
    return job->plan->values[job->op->out[i]].shape;
}
static inline double kolo_reference_relu(double z)
{
    return z < 0 ? 0 : z; /* NaN stays NaN */
}

/* The operations. Workspaces: where of MAX_POOL2D is int32_t[microbatch][shape]; mask of DROPOUT is
 * uint8_t[microbatch][shape], 1 where kept. */
typedef void kolo_compute(const kolo_reference_job *job);
kolo_compute kolo_reference_conv2d, kolo_reference_conv2d_backward, kolo_reference_conv2d_transpose,
    kolo_reference_conv2d_transpose_backward, kolo_reference_dense, kolo_reference_dense_backward,
    kolo_reference_max_pool2d, kolo_reference_max_pool2d_backward, kolo_reference_average_pool2d,
    kolo_reference_average_pool2d_backward, kolo_reference_pad2d, kolo_reference_crop2d, kolo_reference_upsample2d,
    kolo_reference_upsample2d_backward, kolo_reference_concatenate, kolo_reference_slice, kolo_reference_multiply,
    kolo_reference_multiply_sum, kolo_reference_activation, kolo_reference_activation_backward, kolo_reference_dropout,
    kolo_reference_dropout_backward, kolo_reference_add, kolo_reference_embedding, kolo_reference_embedding_backward,
    kolo_reference_position, kolo_reference_position_backward, kolo_reference_layer_norm,
    kolo_reference_layer_norm_backward, kolo_reference_attention, kolo_reference_attention_backward,
    kolo_reference_batch_norm_moments, kolo_reference_batch_norm, kolo_reference_batch_norm_sums,
    kolo_reference_batch_norm_backward;

#endif
