/* Convolutions by cuDNN: see conv_graph.h. graph.c calls cuDNN. */
#include "backend/cuda/conv_graph.h"

#include <stdlib.h>
#include <string.h>

enum { X = 1, KERNEL, Y, BIAS };

struct kolo_conv_graph {
    kolo_conv_spec spec;
    cudnnHandle_t handle;          /* the stream's */
    cudnnBackendDescriptor_t plan; /* NULL: cuDNN has none */
    size_t scratch;
    kolo_conv_graph *next;
};

static kolo_status failed(cudnnStatus_t error, const char *doing)
{
    char text[256] = "";
    cudnnGetLastErrorString(text, sizeof text);
    return kolo_fail(KOLO_INTERNAL, "%s on the device failed: cuDNN says %s%s%s; KOLO_CUDNN=0 does without it", doing,
                     cudnnGetErrorString(error), *text ? ", " : "", text);
}

/* ---- the stream's ---- */

static kolo_status handle_of(kolo_stream *stream, cudnnHandle_t *handle)
{
    cudnnStatus_t error = CUDNN_STATUS_SUCCESS;
    if (!stream->dnn) error = cudnnCreate(&stream->dnn);
    if (error == CUDNN_STATUS_SUCCESS) error = cudnnSetStream(stream->dnn, stream->handle);
    *handle = stream->dnn;
    return error == CUDNN_STATUS_SUCCESS ? KOLO_OK : failed(error, "opening cuDNN");
}

void kolo_cuda_close_dnn(kolo_stream *stream)
{
    while (stream->graphs) {
        kolo_conv_graph *first = stream->graphs;
        stream->graphs = first->next;
        if (first->plan) cudnnBackendDestroyDescriptor(first->plan);
        free(first);
    }
    if (stream->dnn) cudnnDestroy(stream->dnn);
    stream->dnn = NULL;
}

static bool is_zero(const char *variable)
{
    const char *given = getenv(variable);
    return given && strcmp(given, "0") == 0;
}

/* ---- making ---- */

static cudnnDataType_t type_of(kolo_element element)
{
    if (element == KOLO_ELEMENT_BFLOAT16) return CUDNN_DATA_BFLOAT16;
    return element == KOLO_ELEMENT_HALF ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* A tensor in NHWC order: channels are the fastest axis. */
static kolo_graph_tensor tensor(int64_t id, cudnnDataType_t type, int n, int c, int h, int w)
{
    int64_t pixel = c, row = pixel * w;
    return (kolo_graph_tensor){id, type, {n, c, h, w}, {row * h, 1, row, pixel}};
}

/* The same tensor as an intermediate result: virtual, and in float32. */
static kolo_graph_tensor inside(kolo_graph_tensor result)
{
    result.id = 0;
    result.type = CUDNN_DATA_FLOAT;
    return result;
}

static void add_convolution(kolo_graph *graph, const kolo_conv_spec *spec, cudnnBackendDescriptor_t x,
                            cudnnBackendDescriptor_t kernel, cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t window = kolo_graph_add_window(graph, &spec->conv, spec->after);
    if (spec->result == KOLO_CONV_Y)
        kolo_graph_add_convolution(graph, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                   (const kolo_graph_edge[4]){
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, kernel},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window}},
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
    else if (spec->result == KOLO_CONV_X)
        kolo_graph_add_convolution(graph, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                   (const kolo_graph_edge[4]){
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, kernel},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, window}},
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
    else
        kolo_graph_add_convolution(graph, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                   (const kolo_graph_edge[4]){
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, kernel},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, y},
                                       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, window}},
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
}

void kolo_conv_graph_describe(kolo_graph *graph, const kolo_conv_spec *spec)
{
    const kolo_conv *c = &spec->conv;
    cudnnDataType_t type = type_of(spec->element);
    kolo_graph_tensor all[] = {tensor(Y, type, c->microbatch, c->filters, c->out_height, c->out_width),
                               tensor(X, type, c->microbatch, c->channels, c->height, c->width),
                               tensor(KERNEL, type, c->filters, c->channels / c->groups, c->kernel[0], c->kernel[1])};
    kolo_graph_tensor result = all[spec->result];
    cudnnBackendDescriptor_t made[3];
    if (spec->bias || spec->relu) all[spec->result] = inside(result);
    for (int i = 0; i < 3; i++) made[i] = kolo_graph_add_tensor(graph, &all[i]);
    add_convolution(graph, spec, made[KOLO_CONV_X], made[KOLO_CONV_KERNEL], made[KOLO_CONV_Y]);
    cudnnBackendDescriptor_t last = made[spec->result];
    if (spec->bias) {
        kolo_graph_tensor bias = tensor(BIAS, type, 1, (int)result.dim[1], 1, 1),
                          sum = spec->relu ? inside(result) : result;
        cudnnBackendDescriptor_t of_bias = kolo_graph_add_tensor(graph, &bias),
                                 of_sum = kolo_graph_add_tensor(graph, &sum);
        kolo_graph_add_pointwise(graph, last, of_bias, of_sum);
        last = of_sum;
    }
    if (spec->relu) kolo_graph_add_pointwise(graph, last, NULL, kolo_graph_add_tensor(graph, &result));
}

/* Some engines reorder x and y. Allows twice the bytes of both, and 64 MiB for the rest. */
static int64_t most_scratch(const kolo_conv_spec *spec)
{
    const kolo_conv *c = &spec->conv;
    int64_t x = (int64_t)c->height * c->width * c->channels, y = (int64_t)c->out_height * c->out_width * c->filters;
    return ((int64_t)64 << 20) + 2 * c->microbatch * (x + y) * (int64_t)kolo_element_bytes(spec->element);
}

kolo_graph_rules kolo_conv_graph_rules(const kolo_conv_spec *spec)
{
    bool wide = spec->element == KOLO_ELEMENT_FLOAT, rounds = !wide || spec->tf32; /* Winograd amplifies the error */
    return (kolo_graph_rules){
        .tensor_cores = rounds, .winograd = !rounds && !is_zero("KOLO_WINOGRAD"), .most_scratch = most_scratch(spec)};
}

static kolo_status make(kolo_stream *stream, const kolo_conv_spec *spec, kolo_conv_graph *made)
{
    kolo_graph graph = {0};
    kolo_graph_rules rules = kolo_conv_graph_rules(spec);
    made->spec = *spec;
    KOLO_TRY(handle_of(stream, &made->handle));
    graph.handle = made->handle;
    kolo_conv_graph_describe(&graph, spec);
    made->plan = kolo_graph_plan(&graph, &rules, &made->scratch);
    kolo_graph_free(&graph);
    return KOLO_OK; /* if cuDNN rejects the graph, made->plan is NULL */
}

kolo_status kolo_conv_graph_find(kolo_stream *stream, const kolo_conv_spec *spec, const kolo_conv_graph **found,
                                 size_t *scratch)
{
    *found = NULL;
    *scratch = 0;
    if (is_zero("KOLO_CUDNN")) return KOLO_OK;
    kolo_conv_graph *graph = stream->graphs;
    while (graph && memcmp(&graph->spec, spec, sizeof *spec) != 0) graph = graph->next;
    if (!graph) {
        graph = calloc(1, sizeof *graph);
        if (!graph) return kolo_fail_memory(sizeof *graph, "a convolution");
        kolo_status status = make(stream, spec, graph);
        if (status != KOLO_OK) {
            free(graph);
            return status;
        }
        graph->next = stream->graphs;
        stream->graphs = graph;
    }
    if (!graph->plan) return KOLO_OK;
    *found = graph;
    *scratch = graph->scratch;
    return KOLO_OK;
}

/* ---- running ---- */

kolo_status kolo_conv_graph_run(const kolo_conv_graph *graph, const void *x, const void *kernel, const void *y,
                                const void *bias, void *scratch)
{
    static const int64_t ids[] = {X, KERNEL, Y, BIAS};
    const void *memory[] = {x, kernel, y, bias};
    cudnnStatus_t error = kolo_graph_run(graph->handle, graph->plan, graph->spec.bias ? 4 : 3, ids,
                                         (void *const *)(uintptr_t)memory, scratch);
    return error == CUDNN_STATUS_SUCCESS ? KOLO_OK : failed(error, "a convolution");
}
