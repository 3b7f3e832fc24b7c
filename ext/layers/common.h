/* What several layers share: checks of options and shapes, windows, activations, weighted sums. Read layers/layer.h
 * first. */
#ifndef KOLO_LAYER_COMMON_H
#define KOLO_LAYER_COMMON_H

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

/* Where windows of that size and stride lie on the input, and the output's height and width into out[2]. A stride of
 * {0, 0} is `default_stride`. what: "kernel", "pool window". */
kolo_status kolo_window_make(const kolo_layer_node *node, const char *what, const int size[2], const int stride[2],
                             const int default_stride[2], kolo_padding padding, kolo_window *window, int out[2]);

/* For kolo_plan_value() and its like: keeps the number of a new value, or fails as it did. */
kolo_status kolo_added(int *number, int value);

/* An activation as an operation of its own: *y from x, and *dx from dy (and of x and y what its derivative takes). */
kolo_status kolo_activation_forward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int x,
                                    int *y);
kolo_status kolo_activation_backward(kolo_plan *plan, const kolo_layer_node *node, kolo_activation activation, int dy,
                                     int y, int x, int *dx);

/* The operations of a layer y = activation(x ∘ kernel + bias): convolution and dense differ in the kind of op, its
 * window, and the kernel's shape, which ends with the number of biases. saved[0]: y before an activation of its own. */
kolo_status kolo_weighted_forward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                  kolo_activation activation);
kolo_status kolo_weighted_backward(kolo_plan *plan, kolo_layer_flow *flow, kolo_op op, kolo_shape kernel,
                                   kolo_activation activation);

#endif
