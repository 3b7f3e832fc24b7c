/* The interface of a layer. Each layer has a file in this folder. Read plan/plan.h first.
 *
 * build() checks the options against the input's shape and declares the output's shape and the weights; forward() and
 * backward() add the layer's operations to a plan; a backend does the arithmetic. A custom layer is a kolo_layer_kind,
 * too. It adds existing operations, or custom operations with kolo_plan_custom(). This one computes y = x · scale, with
 * a trained scale for each element:
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

/* GLOROT_UNIFORM (Glorot and Bengio 2010) draws from ±√(6 / (fan_in + fan_out)), UNIFORM from ±0.05, as Keras does for
 * embeddings. */
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
    /* 0: the optimizer trains it. Otherwise it is a running mean of a statistic, which the layer writes as the
     * parameter's gradient: w ← momentum · w + (1 − momentum) · mean of the statistic over the batch's samples. */
    double momentum;
} kolo_parameter;

#define KOLO_LAYER_PARAMETERS 4

/* A layer in its model. */
typedef struct kolo_layer_node {
    kolo_layer recipe;
    char name[48]; /* the option .name, or the kind's name with a number: "conv2d_1" */
    int number; /* its index in the model; the input's is 0 */
    int from[KOLO_APPLY_MAX]; /* the numbers of the layers whose outputs are its inputs */
    int from_count; /* 0 for the input */
    kolo_shape in, out; /* in: the shape of the first input */
    kolo_shape ins[KOLO_APPLY_MAX];
    int device; /* the number of the replica's device that computes it; -1: the option is left out */
    int microbatch; /* samples that a microbatch must have, since the layer computes statistics over each; 0: any
                       number */
    int parameters[KOLO_LAYER_PARAMETERS]; /* the parameters' numbers in the model, as declared; -1: none */
    int parameter_count;
} kolo_layer_node;

/* build() sets node->out, and declares weights by these functions. */
typedef struct kolo_model_builder kolo_model_builder;
kolo_status kolo_declare_parameter(kolo_model_builder *builder, kolo_layer_node *node, const char *suffix,
                                   kolo_shape shape, kolo_initializer initializer, int fan_in, int fan_out);
/* The parameter that was declared last, to set its l2 or momentum. */
kolo_parameter *kolo_declared(kolo_model_builder *builder);

/* The numbers of a layer's values in a plan. forward() reads x and sets y; it may keep numbers of values for backward()
 * in saved[], which begins with all -1. backward() reads dy and sets dx. need_dx is false if no layer before it has
 * weights; dx then stays -1. */
typedef struct kolo_layer_flow {
    const kolo_layer_node *node;
    int x, y, dy, dx;
    bool need_dx;
    /* For a layer with several inputs, [node->from_count] each. xs[0] and need_dxs[0] equal x and need_dx. backward()
     * of a kind with .inputs sets dxs instead of dx. */
    int xs[KOLO_APPLY_MAX], dxs[KOLO_APPLY_MAX];
    bool need_dxs[KOLO_APPLY_MAX];
    /* The activation that the loss computes, for the model's last layer whatever its options; 0: none. A layer whose
     * last step is this activation leaves it out, as kolo_weighted_forward() does. A layer that computes anything after
     * it calls kolo_weighted_forward() and _backward() with a copy of the flow in which left_out is 0. */
    kolo_activation left_out;
    int saved[8];
} kolo_layer_flow;

/* "KOLO_RELU"; NULL if no activation has this number. */
const char *kolo_activation_name(int activation);

struct kolo_layer_kind {
    const char *name; /* "conv2d": in messages, summaries, and names of weights */
    const kolo_field *fields; /* its options, ended by one without a name; NULL: those of kolo_custom_args, for a custom
                                 layer */
    int inputs; /* the number of its inputs; 0 means one; -1 means two or more */
    bool wants_features; /* x must be the model's features in canonical float32: the layer uses them as indices, which
                            rounding would change */
    kolo_status (*build)(kolo_model_builder *builder, kolo_layer_node *node);
    kolo_status (*forward)(kolo_plan *plan, kolo_layer_flow *flow);
    kolo_status (*backward)(kolo_plan *plan, kolo_layer_flow *flow);
};

/* For a custom layer: adds an operation that `compute` performs. ins[] are the numbers of its inputs; weights among
 * them come from kolo_plan_weights(). Where outs[i] is -1, it becomes the number of a new value of shapes[i]; other
 * elements are gradients from kolo_plan_gradient(). Inputs and outputs are canonical float32. Outputs are zeros before
 * `compute` writes them. */
kolo_status kolo_plan_custom(kolo_plan *plan, const kolo_layer_flow *flow,
                             void (*compute)(const kolo_custom_call *call), int in_count, const int *ins, int out_count,
                             int *outs, const kolo_shape *shapes);

#endif
