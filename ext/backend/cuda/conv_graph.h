/* Convolutions by cuDNN, where it has an engine. Images are NHWC; kernels are {filters, height, width, channels of a
 * group} (KRSC); bias and ReLU are part of the graph. Plans take a while to make, so a stream keeps each of them for
 * all convolutions with the same spec. */
#ifndef KOLO_CUDA_CONV_GRAPH_H
#define KOLO_CUDA_CONV_GRAPH_H

#include "backend/cuda/graph.h"

typedef enum kolo_conv_result { KOLO_CONV_Y, KOLO_CONV_X, KOLO_CONV_KERNEL } kolo_conv_result;

/* Specs are compared byte by byte: clear the struct before filling it in. */
typedef struct kolo_conv_spec {
    kolo_conv conv;
    int after[2];         /* zeros below and to the right */
    int result;           /* kolo_conv_result: which of x, the kernel and y is written */
    kolo_element element; /* of x, y, the kernel and the bias */
    int bias, relu;       /* whether there is one; both only with KOLO_CONV_Y and KOLO_CONV_X */
    int tf32;
} kolo_conv_spec;

typedef struct kolo_conv_graph kolo_conv_graph;

/* Finds the graph of a spec, or makes it. *found belongs to the stream, and is valid until that is closed. It is NULL
 * if cuDNN has no engine, or if KOLO_CUDNN=0 in the environment turns cuDNN off. *scratch: bytes of workspace for a
 * run. */
kolo_status kolo_conv_graph_find(kolo_stream *stream, const kolo_conv_spec *spec, const kolo_conv_graph **found,
                                 size_t *scratch);
/* Writes the array of spec.result, and reads the others. All pointers are 16-byte aligned. */
kolo_status kolo_conv_graph_run(const kolo_conv_graph *graph, const void *x, const void *kernel, const void *y,
                                const void *bias, void *scratch);

/* Adds the tensors and operations of a spec to `graph`; the rules that its engines must obey. */
void kolo_conv_graph_describe(kolo_graph *graph, const kolo_conv_spec *spec);
kolo_graph_rules kolo_conv_graph_rules(const kolo_conv_spec *spec);

#endif
