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
     * and sums. The types of workspaces are below. out[] holds any bytes before the operation, which writes every
     * element. The samples from call->samples on are padding: finite numbers, and zeros in their gradients dy. */
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

typedef void kolo_compute(const kolo_reference_job *job);

/* The operations of this backend. Each entry is X(operation of plan/plan.h, function). It declares
 * kolo_reference_function(), which a file of this folder defines, and becomes a row in the table of reference.c. */
#define KOLO_REFERENCE_OPS(X)                                                                                          \
    X(INPUT, input)                                                                                                    \
    X(CONV2D, conv2d)                                                                                                  \
    X(CONV2D_BACKWARD, conv2d_backward)                                                                                \
    X(CONV2D_TRANSPOSE, conv2d_transpose)                                                                              \
    X(CONV2D_TRANSPOSE_BACKWARD, conv2d_transpose_backward)                                                            \
    X(DENSE, dense)                                                                                                    \
    X(DENSE_BACKWARD, dense_backward)                                                                                  \
    X(MAX_POOL2D, max_pool2d) /* where: int32_t[microbatch][shape] */                                                  \
    X(MAX_POOL2D_BACKWARD, max_pool2d_backward)                                                                        \
    X(AVERAGE_POOL2D, average_pool2d)                                                                                  \
    X(AVERAGE_POOL2D_BACKWARD, average_pool2d_backward)                                                                \
    X(PAD2D, pad2d)                                                                                                    \
    X(CROP2D, crop2d)                                                                                                  \
    X(UPSAMPLE2D, upsample2d)                                                                                          \
    X(UPSAMPLE2D_BACKWARD, upsample2d_backward)                                                                        \
    X(CONCATENATE, concatenate)                                                                                        \
    X(SLICE, slice)                                                                                                    \
    X(MULTIPLY, multiply)                                                                                              \
    X(MULTIPLY_SUM, multiply_sum)                                                                                      \
    X(ACTIVATION, activation)                                                                                          \
    X(ACTIVATION_BACKWARD, activation_backward)                                                                        \
    X(ADD, add)                                                                                                        \
    X(BATCH_NORM_MOMENTS, batch_norm_moments)                                                                          \
    X(BATCH_NORM, batch_norm)                                                                                          \
    X(BATCH_NORM_SUMS, batch_norm_sums)                                                                                \
    X(BATCH_NORM_BACKWARD, batch_norm_backward)                                                                        \
    X(DROPOUT, dropout) /* mask: uint8_t[microbatch][shape], 1 where kept */                                           \
    X(DROPOUT_BACKWARD, dropout_backward)                                                                              \
    X(EMBEDDING, embedding)                                                                                            \
    X(EMBEDDING_BACKWARD, embedding_backward)                                                                          \
    X(POSITION, position)                                                                                              \
    X(POSITION_BACKWARD, position_backward)                                                                            \
    X(LAYER_NORM, layer_norm)                                                                                          \
    X(LAYER_NORM_BACKWARD, layer_norm_backward)                                                                        \
    X(ATTENTION, attention)                                                                                            \
    X(ATTENTION_BACKWARD, attention_backward)

#define KOLO_REFERENCE_FUNCTION(name, function) kolo_compute kolo_reference_##function;
KOLO_REFERENCE_OPS(KOLO_REFERENCE_FUNCTION)
#undef KOLO_REFERENCE_FUNCTION

#endif
