/* What a layer is: one file here for each. Read plan/plan.h first.
 *
 * build() checks the options against the input's shape and declares the output's shape and the weights; forward() and
 * backward() write the layer's operations into a plan. The arithmetic itself is the backend's. A layer of one's own is
 * a kolo_layer_kind that writes such operations, or arithmetic of its own: y = x · scale, a learnt scale an element, is
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
    /* 0: the optimizer trains it. Else it is a running mean of what a layer saw, which is handed in as its gradient:
     * w ← momentum · w + (1 − momentum) · mean over the batch's samples. */
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
    int microbatch; /* its statistics are of so many neighbouring samples, which must be a microbatch; 0: any microbatch
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

/* A layer's values in a plan: forward() reads x and sets y and whatever backward() will need in saved[]; backward()
 * reads dy and sets dx, or leaves it -1 when need_dx is false (nothing before it has weights). */
typedef struct kolo_layer_flow {
    const kolo_layer_node *node;
    int x, y, dy, dx;
    bool need_dx;
    /* Of a layer with several inputs: [node->from_count]; the first are x, dx and need_dx again. */
    int xs[KOLO_APPLY_MAX], dxs[KOLO_APPLY_MAX];
    bool need_dxs[KOLO_APPLY_MAX];
    kolo_activation left_out; /* leave this activation out where it is the last one: the loss takes it over */
    int saved[8];
} kolo_layer_flow;

/* "KOLO_RELU"; NULL for a number that is none. */
const char *kolo_activation_name(int activation);

struct kolo_layer_kind {
    const char *name; /* "conv2d": in messages, summaries, and names of weights */
    const kolo_field *fields; /* its options, ended by one without a name; NULL: none (a layer of one's own has those
                                 of kolo_own_args) */
    int inputs; /* how many it takes; 0: one; -1: two or more */
    bool wants_features; /* x is the features themselves, canonical float32: indices that must not be rounded */
    kolo_status (*build)(kolo_model_builder *builder, kolo_layer_node *node);
    kolo_status (*forward)(kolo_plan *plan, kolo_layer_flow *flow);
    kolo_status (*backward)(kolo_plan *plan, kolo_layer_flow *flow);
};

/* For a layer of one's own: an operation that `compute` does, on those inputs; every output is a new value, of that
 * shape, put into outs[]. Inputs and outputs become canonical float32; outputs are zeros before `compute` writes them.
 * Weights among the inputs come from kolo_plan_weights(), gradients are outputs[] that are >= 0 already: from
 * kolo_plan_gradient(). */
kolo_status kolo_plan_custom(kolo_plan *plan, const kolo_layer_flow *flow,
                             void (*compute)(const kolo_custom_call *call), int in_count, const int *ins, int out_count,
                             int *outs, const kolo_shape *shapes);

#endif
