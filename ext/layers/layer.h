/* What a layer is: one file here for each. Read core/plan.h first.
 *
 * build() checks the options against the input's shape and declares the output's shape and the weights; forward() and
 * backward() write the layer's operations into a plan. The arithmetic itself is the backend's. A layer of one's own is
 * a kolo_layer_kind that writes such operations.
 */
#ifndef KOLO_LAYER_H
#define KOLO_LAYER_H

#include "core/plan.h"

typedef enum kolo_initializer { KOLO_INIT_ZEROS, KOLO_INIT_GLOROT_UNIFORM } kolo_initializer;

/* One array of weights. Glorot-uniform (Glorot and Bengio 2010) draws from ±√(6 / (fan_in + fan_out)). */
typedef struct kolo_parameter {
    char name[64]; /* "conv2d_1.kernel" */
    kolo_shape shape;
    kolo_initializer initializer;
    int fan_in, fan_out;
    int64_t offset; /* in the model's flat array of weights, in elements */
} kolo_parameter;

#define KOLO_LAYER_PARAMETERS 4

/* A layer in its model. */
typedef struct kolo_layer_node {
    kolo_layer recipe;
    char name[48]; /* "conv2d_1": the option's, or the kind's with a number */
    int number;    /* place in the model, the input is 0 */
    kolo_shape in, out;
    int parameters[KOLO_LAYER_PARAMETERS]; /* numbers in the model, in the order declared; -1: none */
    int parameter_count;
} kolo_layer_node;

/* What build() may do: set node->out, and declare weights. */
typedef struct kolo_model_builder kolo_model_builder;
kolo_status kolo_declare_parameter(kolo_model_builder *builder, kolo_layer_node *node, const char *suffix,
                                   kolo_shape shape, kolo_initializer initializer, int fan_in, int fan_out);

/* A layer's values in a plan: forward() reads x and sets y and whatever backward() will need in saved[]; backward()
 * reads dy and sets dx, or leaves it -1 when need_dx is false (nothing before it has weights). */
typedef struct kolo_layer_flow {
    const kolo_layer_node *node;
    int x, y, dy, dx;
    bool need_dx;
    bool to_logits; /* leave a last softmax out, forward and backward: the loss works from logits */
    int saved[4];
} kolo_layer_flow;

struct kolo_layer_kind {
    const char *name; /* "conv2d": in messages, summaries, and names of weights */
    const char *(*given_name)(const kolo_layer *recipe); /* the .name option; may be NULL */
    kolo_status (*build)(kolo_model_builder *builder, kolo_layer_node *node);
    kolo_status (*forward)(kolo_plan *plan, kolo_layer_flow *flow);
    kolo_status (*backward)(kolo_plan *plan, kolo_layer_flow *flow);
};

#endif
