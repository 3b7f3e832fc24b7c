/* The reference backend: every operation as the loops of its formula, in double precision, never optimised.
 *
 * It is the oracle of the other backends and the one to read. Activations and packed weights are doubles in the
 * canonical order (microbatch × shape, the last axis fastest). What others see (features, outputs, gradients) is
 * float32: reference.c widens it before an operation and narrows it after, so that an operation's own file knows only
 * doubles. With KOLO_MIXED_BF16 and KOLO_MIXED_FP16 what goes into an operation and what comes out of it is rounded to
 * that type, sums are not: what hardware that has it does. Biases, outputs and gradients of weights stay float32.
 */
#ifndef KOLO_REFERENCE_H
#define KOLO_REFERENCE_H

#include "backend/backend.h"

/* An operation at work on one microbatch. */
typedef struct kolo_reference_job {
    const kolo_plan *plan;
    const kolo_op *op;
    const kolo_call *call;
    void *in[KOLO_OP_INS], *out[KOLO_OP_OUTS]; /* as in the table of plan/plan.h: double[microbatch][shape], NULL for
                                                  -1; workspaces as bytes */
} kolo_reference_job;

/* Shapes of the operands, of one sample. */
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
void kolo_reference_batch_norm_moments(const kolo_reference_job *job); /* sums: double[shape] as they are */
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
