/* What a layer is: one file here for each. Read plan/plan.h first.
 *
 * build() checks the options against the input's shape and declares the output's shape and the weights; forward() and
 * backward() write the layer's operations into a plan; a backend does the arithmetic. A learner's own layer is a
 * kolo_layer_kind, too. It writes operations that exist, or brings arithmetic of its own. This one computes
 * y = x · scale, with a learnt scale for each element:
 *
 *     static void scale_forward(const kolo_custom_call *call) // in: x, scale; out: y
 *     {
 *         int64_t count = kolo_shape_count(call->in_shape[0]);
 *         for (int64_t i = 0; i < call->samples * count; i++)
 *             call->out[0][i] = call->in[0][i] * call->in[1][i % count];
 *     }
 *
 *     static void scale_backward(const kolo_custom_call *call) // in: dy, x, scale; out: dscale, dx; zeros before
 *     {
 *         int64_t count = kolo_shape_count(call->in_shape[0]);
 *         for (int64_t i = 0; i < call->samples * count; i++) {
 *             call->out[0][i % count] += call->in[0][i] * call->in[1][i];
 *             if (call->out[1]) call->out[1][i] = call->in[0][i] * call->in[2][i % count];
 *         }
 *     }
 *
 *     static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
 *     {
 *         node->out = node->in;
 *         return kolo_declare_parameter(builder, node, "scale", node->in, KOLO_INIT_ONES, 1, 1);
 *     }
 *
 *     static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
 *     {
 *         const kolo_layer_node *node = flow->node;
 *         int ins[] = {flow->x, kolo_plan_weights(plan, node->parameters[0], node->in)};
 *         return kolo_plan_custom(plan, flow, scale_forward, 2, ins, 1, &flow->y, &node->out);
 *     }
 *
 *     static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
 *     {
 *         const kolo_layer_node *node = flow->node;
 *         int ins[] = {flow->dy, flow->x, kolo_plan_weights(plan, node->parameters[0], node->in)};
 *         int outs[] = {kolo_plan_gradient(plan, node->parameters[0], node->in), -1};
 *         kolo_shape shapes[] = {node->in, node->in};
 *         int count = flow->need_dx ? 2 : 1;
 *         kolo_status status = kolo_plan_custom(plan, flow, scale_backward, 3, ins, count, outs, shapes);
 *         flow->dx = outs[1];
 *         return status;
 *     }
 *
 *     static const kolo_layer_kind scale = {
 *         .name = "scale", .build = build, .forward = forward, .backward = backward};
 *     // kolo_sequential(kolo_input(8), kolo_layer_of(&scale), kolo_dense(2))
 */
#ifndef KOLO_LAYER_H
#define KOLO_LAYER_H

#include "core/field.h"
#include "plan/plan.h"

/* Glorot-uniform (Glorot and Bengio 2010) draws from ±√(6 / (fan_in + fan_out)), UNIFORM from ±0.05 (Keras's for
 * embeddings). */
typedef enum kolo_initializer {
    KOLO_INIT_ZEROS,
    KOLO_INIT_ONES,
    KOLO_INIT_GLOROT_UNIFORM,
    KOLO_INIT_UNIFORM
} kolo_initializer;

/* One array of weights. */
typedef struct kolo_parameter {
    char name[64]; /* "conv2d_1.kernel" */
    kolo_shape shape;
    kolo_initializer initializer;
    int fan_in, fan_out;
    int64_t offset; /* in the model's flat array of weights, in elements */
    double l2;      /* λ Σ w² is added to the loss */
    /* 0: the optimizer trains it. Otherwise it is a running mean of a statistic, which the layer writes as its
     * gradient: w ← momentum · w + (1 − momentum) · mean over the batch's samples. */
    double momentum;
} kolo_parameter;

#define KOLO_LAYER_PARAMETERS 4

/* A layer in its model. */
typedef struct kolo_layer_node {
    kolo_layer recipe;
    char name[48]; /* "conv2d_1": the option's, or the kind's with a number */
    int number; /* place in the model, the input is 0 */
    int from[KOLO_APPLY_MAX]; /* the layers whose outputs it takes */
    int from_count; /* 0 for the input */
    kolo_shape in, out; /* in: of the first of them */
    kolo_shape ins[KOLO_APPLY_MAX];
    int device; /* -1: the replica's own */
    int microbatch; /* it takes statistics over so many neighbouring samples, which must be one microbatch; 0: any size
                       will do */
    int parameters[KOLO_LAYER_PARAMETERS]; /* numbers in the model, in the order declared; -1: none */
    int parameter_count;
} kolo_layer_node;

/* What build() may do: set node->out, and declare weights. */
typedef struct kolo_model_builder kolo_model_builder;
kolo_status kolo_declare_parameter(kolo_model_builder *builder, kolo_layer_node *node, const char *suffix,
                                   kolo_shape shape, kolo_initializer initializer, int fan_in, int fan_out);
/* The parameter declared last, to set l2 or momentum. */
kolo_parameter *kolo_declared(kolo_model_builder *builder);

/* A layer's values in a plan. forward() reads x and sets y; it may keep numbers of values for backward() in saved[].
 * backward() reads dy and sets dx. dx stays -1 when need_dx is false: no layer before it has weights. */
typedef struct kolo_layer_flow {
    const kolo_layer_node *node;
    int x, y, dy, dx;
    bool need_dx;
    /* Of a layer with several inputs: [node->from_count]. Element 0 equals x, dx and need_dx. */
    int xs[KOLO_APPLY_MAX], dxs[KOLO_APPLY_MAX];
    bool need_dxs[KOLO_APPLY_MAX];
    kolo_activation left_out; /* a last activation that the loss computes: leave it out */
    int saved[8];
} kolo_layer_flow;

/* "KOLO_RELU"; NULL for a number that is none. */
const char *kolo_activation_name(int activation);

struct kolo_layer_kind {
    const char *name; /* "conv2d": in messages, summaries, and names of weights */
    const kolo_field *fields; /* its options, ended by one without a name; NULL: those of kolo_custom_args, for a
                                 learner's own layer */
    int inputs; /* the number of its inputs; 0 means one, -1 two or more */
    bool wants_features; /* x must be the model's features, canonical float32: they are indices, which rounding would
                            change */
    kolo_status (*build)(kolo_model_builder *builder, kolo_layer_node *node);
    kolo_status (*forward)(kolo_plan *plan, kolo_layer_flow *flow);
    kolo_status (*backward)(kolo_plan *plan, kolo_layer_flow *flow);
};

/* For a learner's own layer: adds an operation that `compute` performs. ins[] are its inputs; weights among them come
 * from kolo_plan_weights(). An element of outs[] that is -1 becomes a new value of that shape; one that is a number
 * already is a gradient, from kolo_plan_gradient(). Inputs and outputs are canonical float32, and outputs are zeros
 * before `compute` writes them. */
kolo_status kolo_plan_custom(kolo_plan *plan, const kolo_layer_flow *flow,
                             void (*compute)(const kolo_custom_call *call), int in_count, const int *ins, int out_count,
                             int *outs, const kolo_shape *shapes);

#endif
