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

void kolo_reference_conv2d(const kolo_reference_job *job);
void kolo_reference_conv2d_backward(const kolo_reference_job *job);
void kolo_reference_conv2d_transpose(const kolo_reference_job *job);
void kolo_reference_conv2d_transpose_backward(const kolo_reference_job *job);
void kolo_reference_dense(const kolo_reference_job *job);
void kolo_reference_dense_backward(const kolo_reference_job *job);
void kolo_reference_max_pool2d(const kolo_reference_job *job); /* where: int32_t[microbatch][shape] */
void kolo_reference_max_pool2d_backward(const kolo_reference_job *job);
void kolo_reference_average_pool2d(const kolo_reference_job *job);
void kolo_reference_average_pool2d_backward(const kolo_reference_job *job);
void kolo_reference_pad2d(const kolo_reference_job *job);
void kolo_reference_crop2d(const kolo_reference_job *job);
void kolo_reference_upsample2d(const kolo_reference_job *job);
void kolo_reference_upsample2d_backward(const kolo_reference_job *job);
void kolo_reference_concatenate(const kolo_reference_job *job);
void kolo_reference_slice(const kolo_reference_job *job);
void kolo_reference_multiply(const kolo_reference_job *job);
void kolo_reference_multiply_sum(const kolo_reference_job *job);
void kolo_reference_activation(const kolo_reference_job *job);
void kolo_reference_activation_backward(const kolo_reference_job *job);
void kolo_reference_add(const kolo_reference_job *job);
void kolo_reference_batch_norm_moments(const kolo_reference_job *job);
void kolo_reference_batch_norm(const kolo_reference_job *job);
void kolo_reference_batch_norm_sums(const kolo_reference_job *job);
void kolo_reference_batch_norm_backward(const kolo_reference_job *job);
void kolo_reference_dropout(const kolo_reference_job *job); /* mask: uint8_t[microbatch][shape], 1 where kept */
void kolo_reference_dropout_backward(const kolo_reference_job *job);
void kolo_reference_embedding(const kolo_reference_job *job);
void kolo_reference_embedding_backward(const kolo_reference_job *job);
void kolo_reference_position(const kolo_reference_job *job);
void kolo_reference_position_backward(const kolo_reference_job *job);
void kolo_reference_layer_norm(const kolo_reference_job *job);
void kolo_reference_layer_norm_backward(const kolo_reference_job *job);
void kolo_reference_attention(const kolo_reference_job *job);
void kolo_reference_attention_backward(const kolo_reference_job *job);

#endif
