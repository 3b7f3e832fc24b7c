/* Descriptions of convolutions for oneDNN: for conv2d.c, and for conv2d_transpose.c, which exchanges x and y. */
#ifndef KOLO_ONEDNN_CONVOLUTION_H
#define KOLO_ONEDNN_CONVOLUTION_H

#include "backend/onednn/onednn.h"

/* The operands, for which oneDNN chooses the layouts, and the geometry. */
typedef struct kolo_convolution {
    dnnl_memory_desc_t x, kernel, bias, y, dkernel;
    dnnl_memory_desc_t canonical_kernel; /* {height, width, channels / groups, filters} in memory */
    dnnl_dims_t stride, gap, before, after;
    dnnl_alg_kind_t algorithm; /* direct, unless winograd.c changes it */
    int rounds;                /* x and y hold 1/rounds of the microbatch's samples */
    bool training;
} kolo_convolution;

/* Shapes of one sample; kernel: {height, width, channels / groups, filters}. The bias is float32. */
kolo_status kolo_convolution_of(const kolo_plan *plan, const kolo_window *window, kolo_shape x, kolo_shape kernel,
                                kolo_shape y, dnnl_data_type_t x_type, dnnl_data_type_t y_type, kolo_convolution *c);

/* Make descriptors of primitives: forward, for the input gradient, for the weight gradient. The forward one is the hint
 * for the other two. */
kolo_status kolo_convolution_forward(const kolo_convolution *c, bool bias, bool relu, dnnl_primitive_desc_t *made);
kolo_status kolo_convolution_by_x(const kolo_convolution *c, dnnl_primitive_desc_t *made);
kolo_status kolo_convolution_by_kernel(const kolo_convolution *c, bool bias, dnnl_primitive_desc_t *made);

/* The same by Winograd's algorithm where that is faster: sets c->algorithm and c->rounds. Elsewhere *made becomes NULL,
 * and *c stays as it was. No ReLU can be fused, since this algorithm's ReLU turns NaN into 0 (kolo_attributes()). */
kolo_status kolo_winograd_forward(kolo_convolution *c, bool bias, dnnl_primitive_desc_t *made);
kolo_status kolo_winograd_by_x(kolo_convolution *c, dnnl_primitive_desc_t *made);
kolo_status kolo_winograd_by_kernel(kolo_convolution *c, bool bias, dnnl_primitive_desc_t *made);

/* The type in which a weight gradient is computed, given the width of y. Where y is one pixel wide and the type is
 * bfloat16, oneDNN 2.6 lets memory that it never wrote into the gradient; there it is computed in float32, from the
 * same numbers. */
dnnl_data_type_t kolo_convolution_gradient_type(const kolo_plan *plan, int width);

#endif
