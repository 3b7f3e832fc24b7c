/* Functions that several layers share: checks of options and shapes, windows, activations, weighted sums. Read
 * layers/layer.h first. */
#ifndef KOLO_LAYER_COMMON_H
#define KOLO_LAYER_COMMON_H

#include "core/written.h"
#include "layers/layer.h"

/* The largest size that an option may have. A sample or an array of weights has at most INT_MAX elements. */
#define KOLO_SIZE_MAX 1048576

/* Fails unless value is in 1 … KOLO_SIZE_MAX: "filters: wanted 1 … 1048576, got 0". */
kolo_status kolo_check_size(const char *option, int value);
kolo_status kolo_check_activation(kolo_activation activation);
kolo_status kolo_check_l2(double l2); /* fails unless it is finite and at least 0 */
/* Fails if the shape has more than INT_MAX elements: "its output {…} is too large, …". */
kolo_status kolo_check_elements(const char *what, kolo_shape shape);
/* Fails unless the input is {height, width, channels}. */
kolo_status kolo_check_image(const kolo_layer_node *node);

/* The options of windows in a recipe, heights first. */
typedef struct kolo_window_spec {
    const char *what; /* "kernel", "pool window" */
    int size[2];
    int stride[2]; /* {0, 0}: default_stride */
    int default_stride[2];
    int dilation[2]; /* {0, 0}: {1, 1} */
    kolo_padding padding;
} kolo_window_spec;

/* Checks the options, and sets *window with its padding, and out[2], the output's height and width. */
kolo_status kolo_window_make(const kolo_layer_node *node, const kolo_window_spec *spec, kolo_window *window,
                             int out[2]);
/* Checks that the input is an image, and the options. Sets *window, its defaults filled in, without padding. */
kolo_status kolo_window_check(const kolo_layer_node *node, const kolo_window_spec *spec, kolo_window *window);

/* forward() and backward() of a layer that only gives its input another shape: views of the same memory. */
kolo_status kolo_view_forward(kolo_plan *plan, kolo_layer_flow *flow);
kolo_status kolo_view_backward(kolo_plan *plan, kolo_layer_flow *flow);

/* For kolo_plan_value() and similar functions: sets *number to the new value's number. If that is -1, it fails. */
kolo_status kolo_added(int *number, int value);

/* Adds an operation of the layer, whose first output is a new value of that shape. *made becomes the value's number. */
kolo_status kolo_simple_op(kolo_plan *plan, const kolo_layer_node *node, kolo_op op, kolo_shape shape, int *made);

/* Add an activation as a separate operation: *y from x; *dx from dy and either y or x, as the derivative needs. The new
 * value *y or *dx has the shape of the layer's output, node->out, and so must x, y and dy. */
kolo_status kolo_activation_forward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int x,
                                    int *y);
kolo_status kolo_activation_backward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int dy,
                                     int y, int x, int *dx);

/* The options that all layers with a kernel have. kolo_declare_weighted() checks them and the shapes, and declares the
 * kernel and, unless .no_bias, a bias of the size of y's last axis. */
typedef struct kolo_weighted {
    kolo_activation activation;
    bool no_bias;
    double l2;
} kolo_weighted;
kolo_status kolo_declare_weighted(kolo_model_builder *builder, kolo_layer_node *node, kolo_shape kernel, int64_t fan_in,
                                  int64_t fan_out, const kolo_weighted *weighted);

/* Add the operations of a layer y = activation(x ∘ kernel + bias). Convolutions and dense layers differ in the kind of
 * `op`, its window, and the kernel's shape. There is a bias for each element of the last axis of y. saved[0]: the
 * output of `op`, the input of a separate activation. */
kolo_status kolo_weighted_forward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                  kolo_activation activation);
kolo_status kolo_weighted_backward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                   kolo_activation activation);

#endif
