/* What several layers share: checks of options and shapes, windows, activations, weighted sums. Read layers/layer.h
 * first. */
#ifndef KOLO_LAYER_COMMON_H
#define KOLO_LAYER_COMMON_H

#include "core/written.h"
#include "layers/layer.h"

/* The largest size that an option may ask for; a sample or an array of weights has at most INT_MAX elements. */
#define KOLO_SIZE_MAX 1048576

/* value is in 1 … KOLO_SIZE_MAX, else "filters: wanted 1 … 1048576, got 0". */
kolo_status kolo_check_size(const char *option, int value);
kolo_status kolo_check_activation(kolo_activation activation);
kolo_status kolo_check_l2(double l2); /* at least 0 */
/* At most INT_MAX elements, else "its output {…} has too many elements, …". */
kolo_status kolo_check_elements(const char *what, kolo_shape shape);
/* The input is {height, width, channels}. */
kolo_status kolo_check_image(const kolo_layer_node *node);

/* Windows as a recipe asks for them, heights first. */
typedef struct kolo_window_spec {
    const char *what; /* "kernel", "pool window" */
    int size[2];
    int stride[2]; /* {0, 0}: default_stride */
    int default_stride[2];
    int dilation[2]; /* {0, 0}: {1, 1} */
    kolo_padding padding;
} kolo_window_spec;

/* Where such windows lie on the input, and the output's height and width into out[2]. */
kolo_status kolo_window_make(const kolo_layer_node *node, const kolo_window_spec *spec, kolo_window *window,
                             int out[2]);
/* The checks alone: of an image, and of sizes, strides, dilation, padding, which are filled in. */
kolo_status kolo_window_check(const kolo_layer_node *node, const kolo_window_spec *spec, kolo_window *window);
/* The rows (axis 0) or columns (axis 1) that a window covers. */
int64_t kolo_window_reach(const kolo_window *window, int axis);

/* For kolo_plan_value() and its like: keeps the number of a new value, or fails as it did. */
kolo_status kolo_added(int *number, int value);

/* An operation of the layer's whose first output is a new value of that shape, whose number becomes *made. */
kolo_status kolo_simple_op(kolo_plan *plan, const kolo_layer_node *node, kolo_op op, kolo_shape shape, int *made);

/* An activation as an operation of its own: *y from x, and *dx from dy (and of x and y what its derivative takes). */
kolo_status kolo_activation_forward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int x,
                                    int *y);
kolo_status kolo_activation_backward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int dy,
                                     int y, int x, int *dx);

/* Checks of what layers with weights take besides, and of the shapes; then their kernel and bias {last axis of y}. */
typedef struct kolo_weighted {
    kolo_activation activation;
    bool no_bias;
    double l2;
} kolo_weighted;
kolo_status kolo_declare_weighted(kolo_model_builder *builder, kolo_layer_node *node, kolo_shape kernel, int64_t fan_in,
                                  int64_t fan_out, const kolo_weighted *weighted);

/* The operations of a layer y = activation(x ∘ kernel + bias): convolution and dense differ in the kind of op, its
 * window, and the kernel's shape; there is a bias for each element of the last axis of y. saved[0]: y before an
 * activation of its own. */
kolo_status kolo_weighted_forward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                  kolo_activation activation);
kolo_status kolo_weighted_backward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                   kolo_activation activation);

#endif
