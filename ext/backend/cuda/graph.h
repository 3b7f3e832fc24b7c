/* Graphs of cuDNN: descriptors of tensors and operations on them, the plan that cuDNN makes of them, running it. Graphs
 * are small, a convolution and what goes with it; what fails is remembered, and everything after it does nothing.
 * https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html lists the attributes. */
#ifndef KOLO_CUDA_GRAPH_H
#define KOLO_CUDA_GRAPH_H

#include "backend/cuda/cuda.h"

#include <cudnn.h>
#if CUDNN_MAJOR < 9
#error "Kolo wants cuDNN 9: CUDNN_HOME names its folder, where another stands in the usual places"
#endif

#define KOLO_GRAPH_TENSORS 4 /* most that a graph has in memory */

typedef struct kolo_graph {
    cudnnHandle_t handle; /* the device's for which it is, else NULL */
    cudnnBackendDescriptor_t device; /* else properties of one that need not be there */
    cudnnBackendDescriptor_t made[24], operations[4];
    int made_count, operation_count;
    cudnnStatus_t status; /* of what failed */
} kolo_graph;

/* Batch, channels, height and width; of filters: outputs, inputs, height and width. */
typedef struct kolo_graph_tensor {
    int64_t id; /* > 0: in memory, and which; 0: from one operation to the next */
    cudnnDataType_t type;
    int64_t dim[4], stride[4];
} kolo_graph_tensor;

cudnnBackendDescriptor_t kolo_graph_add_tensor(kolo_graph *graph, const kolo_graph_tensor *tensor);
/* before, after: zeros around {top, left}, {bottom, right}. Sums are float32. */
cudnnBackendDescriptor_t kolo_graph_add_window(kolo_graph *graph, const kolo_conv *conv, const int after[2]);
/* An operation: its type, what its attributes are, each an attribute and a descriptor. */
typedef struct kolo_graph_edge {
    cudnnBackendAttributeName_t name;
    cudnnBackendDescriptor_t value;
} kolo_graph_edge;
void kolo_graph_add_convolution(kolo_graph *graph, cudnnBackendDescriptorType_t type, const kolo_graph_edge edges[4],
                                cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta);
/* y = x + b, or with b NULL y = relu(x), which keeps NaN. */
void kolo_graph_add_pointwise(kolo_graph *graph, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                              cudnnBackendDescriptor_t y);

/* Which engines may serve: all are deterministic, come with cuDNN rather than being compiled (by NVRTC, for seconds),
 * and are no last resort. */
typedef struct kolo_graph_rules {
    bool tensor_cores; /* which round factors of float32 to TF32 */
    bool winograd;
    int64_t most_scratch;
} kolo_graph_rules;

/* The first plan that can be had by cuDNN's own order of speed; NULL where there is none. */
cudnnBackendDescriptor_t kolo_graph_plan(kolo_graph *graph, const kolo_graph_rules *rules, size_t *scratch);
/* Frees all descriptors. The plan stays: cudnnBackendDestroyDescriptor(). */
void kolo_graph_free(kolo_graph *graph);
cudnnStatus_t kolo_graph_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int count, const int64_t *ids,
                             void *const *memory, void *scratch);

#endif
