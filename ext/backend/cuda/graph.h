/* Graphs of cuDNN's backend API: descriptors of tensors and operations, the plan that cuDNN makes of them, and its run.
 * A graph is small: a convolution with its bias and ReLU. After a failure, which .status keeps, later calls on the
 * graph do nothing. https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html lists the
 * attributes. */
#ifndef KOLO_CUDA_GRAPH_H
#define KOLO_CUDA_GRAPH_H

#include "backend/cuda/cuda.h"

#include <cudnn.h>
#if CUDNN_MAJOR < 9
#error "Kolo wants cuDNN 9: CUDNN_HOME names its folder, where another stands in the usual places"
#endif

typedef struct kolo_graph {
    cudnnHandle_t handle; /* of the device that the graph is for; or NULL, with .device */
    cudnnBackendDescriptor_t device; /* or the properties of a device, which need not be present; else NULL */
    cudnnBackendDescriptor_t made[24], operations[4];
    int made_count, operation_count;
    cudnnStatus_t status; /* the first failure, or CUDNN_STATUS_SUCCESS */
} kolo_graph;

/* The axes are batch, channels, height and width; those of a kernel: filters, channels, height and width. */
typedef struct kolo_graph_tensor {
    int64_t id; /* > 0: its number in kolo_graph_run(); 0: virtual, an operation's result for the next one */
    cudnnDataType_t type;
    int64_t dim[4], stride[4];
} kolo_graph_tensor;

cudnnBackendDescriptor_t kolo_graph_add_tensor(kolo_graph *graph, const kolo_graph_tensor *tensor);
/* conv->before, after: zeros at {top, left} and {bottom, right}. Sums are float32. */
cudnnBackendDescriptor_t kolo_graph_add_window(kolo_graph *graph, const kolo_conv *conv, const int after[2]);
/* Adds an operation. Its edges are attributes, and the descriptors that they are set to. alpha and beta are the
 * attributes of its scale factors, which become 1 and 0. */
typedef struct kolo_graph_edge {
    cudnnBackendAttributeName_t name;
    cudnnBackendDescriptor_t value;
} kolo_graph_edge;
void kolo_graph_add_convolution(kolo_graph *graph, cudnnBackendDescriptorType_t type, const kolo_graph_edge edges[4],
                                cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta);
/* y = x + b, or y = relu(x), which keeps NaN, if b is NULL. */
void kolo_graph_add_pointwise(kolo_graph *graph, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                              cudnnBackendDescriptor_t y);

/* The engines that may be used. All of them are deterministic and precompiled in cuDNN (NVRTC would take seconds to
 * compile one), and none is one of the slow direct engines. */
typedef struct kolo_graph_rules {
    bool tensor_cores; /* allows engines that round operands of float32 to TF32 */
    bool winograd;
    int64_t most_scratch;
} kolo_graph_rules;

/* The first plan that the rules allow, in cuDNN's own order of speed; NULL: there is none. *scratch: its workspace's
 * bytes. */
cudnnBackendDescriptor_t kolo_graph_plan(kolo_graph *graph, const kolo_graph_rules *rules, size_t *scratch);
/* Frees all descriptors but the plan, which the caller destroys (cudnnBackendDestroyDescriptor()). */
void kolo_graph_free(kolo_graph *graph);
cudnnStatus_t kolo_graph_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int count, const int64_t *ids,
                             void *const *memory, void *scratch);

#endif
