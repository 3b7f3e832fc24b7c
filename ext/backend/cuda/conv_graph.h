/* Convolutions by cuDNN, where it has an engine for one: NHWC, filters {filters, kernel, channels of a group} (KRSC),
 * bias and relu in the same kernel. Plans take a while to make, so a stream keeps them for others like them. */
#ifndef KOLO_CUDA_CONV_GRAPH_H
#define KOLO_CUDA_CONV_GRAPH_H

#include "backend/cuda/graph.h"

typedef enum kolo_conv_result { KOLO_CONV_Y, KOLO_CONV_X, KOLO_CONV_KERNEL } kolo_conv_result;

/* Wishes are compared byte by byte: begin with zeros. */
typedef struct kolo_conv_spec {
    kolo_conv conv;
    int after[2];         /* zeros below and to the right */
    int result;           /* kolo_conv_result: which of x, the kernel and y is written */
    kolo_element element; /* of all but biases: those are of the result's */
    int bias, relu;       /* of Y and X */
    int tf32;
} kolo_conv_spec;

typedef struct kolo_conv_graph kolo_conv_graph;

/* *found: the stream's, until it is closed; NULL where cuDNN has none, or KOLO_CUDNN=0 in the environment turned it
 * off. *scratch: bytes that it needs while it runs. */
kolo_status kolo_conv_graph_find(kolo_stream *stream, const kolo_conv_spec *spec, const kolo_conv_graph **found,
                                 size_t *scratch);
/* All 16-byte aligned. */
kolo_status kolo_conv_graph_run(const kolo_conv_graph *graph, const void *x, const void *kernel, const void *y,
                                const void *bias, void *scratch);

/* The graph of a spec, and which engines may serve it. */
void kolo_conv_graph_describe(kolo_graph *graph, const kolo_conv_spec *spec);
kolo_graph_rules kolo_conv_graph_rules(const kolo_conv_spec *spec);

#endif
