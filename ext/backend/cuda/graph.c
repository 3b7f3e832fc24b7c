/* Graphs of cuDNN's backend API: see graph.h. */
#include "backend/cuda/graph.h"

#define RESULTS 100

/* ---- descriptors ---- */

static cudnnBackendDescriptor_t create(kolo_graph *graph, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    int most = (int)(sizeof graph->made / sizeof *graph->made);
    if (graph->status == CUDNN_STATUS_SUCCESS && graph->made_count == most) graph->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (graph->status == CUDNN_STATUS_SUCCESS) graph->status = cudnnBackendCreateDescriptor(type, &made);
    if (graph->status == CUDNN_STATUS_SUCCESS) graph->made[graph->made_count++] = made;
    return made;
}

static void set(kolo_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (graph->status == CUDNN_STATUS_SUCCESS)
        graph->status = cudnnBackendSetAttribute(descriptor, name, type, count, values);
}

static void set_descriptor(kolo_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set(graph, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(kolo_graph *graph, cudnnBackendDescriptor_t descriptor)
{
    if (graph->status == CUDNN_STATUS_SUCCESS) graph->status = cudnnBackendFinalize(descriptor);
}

void kolo_graph_free(kolo_graph *graph)
{
    while (graph->made_count > 0) cudnnBackendDestroyDescriptor(graph->made[--graph->made_count]);
    graph->operation_count = 0;
}

/* ---- tensors and operations ---- */

cudnnBackendDescriptor_t kolo_graph_add_tensor(kolo_graph *graph, const kolo_graph_tensor *tensor)
{
    static const int64_t alignment = 16;
    bool inside = tensor->id == 0;
    int64_t id = inside ? 1000 + graph->made_count : tensor->id;
    cudnnBackendDescriptor_t made = create(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(graph, made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor->type);
    set(graph, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, tensor->dim);
    set(graph, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor->stride);
    set(graph, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(graph, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(graph, made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside);
    finish(graph, made);
    return made;
}

static void set_pair(kolo_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     const int pair[2])
{
    set(graph, descriptor, name, CUDNN_TYPE_INT64, 2, (const int64_t[2]){pair[0], pair[1]});
}

cudnnBackendDescriptor_t kolo_graph_add_window(kolo_graph *graph, const kolo_conv *conv, const int after[2])
{
    static const int64_t axes = 2;
    static const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    static const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t made = create(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(graph, made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    set(graph, made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(graph, made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_pair(graph, made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, conv->before);
    set_pair(graph, made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, after);
    set_pair(graph, made, CUDNN_ATTR_CONVOLUTION_DILATIONS, conv->dilation);
    set_pair(graph, made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, conv->stride);
    finish(graph, made);
    return made;
}

static void add_operation(kolo_graph *graph, cudnnBackendDescriptor_t made)
{
    finish(graph, made);
    if (graph->status == CUDNN_STATUS_SUCCESS) graph->operations[graph->operation_count++] = made;
}

void kolo_graph_add_convolution(kolo_graph *graph, cudnnBackendDescriptorType_t type, const kolo_graph_edge edges[4],
                                cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta)
{
    static const float one = 1, zero = 0;
    cudnnBackendDescriptor_t made = create(graph, type);
    for (int i = 0; i < 4; i++) set_descriptor(graph, made, edges[i].name, edges[i].value);
    set(graph, made, alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(graph, made, beta, CUDNN_TYPE_FLOAT, 1, &zero);
    add_operation(graph, made);
}

void kolo_graph_add_pointwise(kolo_graph *graph, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                              cudnnBackendDescriptor_t y)
{
    static const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    static const cudnnNanPropagation_t keeps = CUDNN_PROPAGATE_NAN; /* otherwise older engines lose NaN */
    cudnnPointwiseMode_t mode = b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    cudnnBackendDescriptor_t what = create(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(graph, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(graph, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(graph, what, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &keeps);
    finish(graph, what);
    cudnnBackendDescriptor_t made = create(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(graph, made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    set_descriptor(graph, made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set_descriptor(graph, made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_descriptor(graph, made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_operation(graph, made);
}

/* ---- plans ---- */

static cudnnBackendDescriptor_t whole_graph(kolo_graph *graph)
{
    cudnnBackendDescriptor_t made = create(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->operation_count,
        graph->operations);
    if (graph->handle) set(graph, made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &graph->handle);
    finish(graph, made);
    return made;
}

/* Asks cuDNN's heuristics for engine configurations, fastest first. Returns their number; the caller destroys them. */
static int ask(kolo_graph *graph, cudnnBackendDescriptor_t whole, cudnnBackendHeurMode_t mode,
               cudnnBackendDescriptor_t results[RESULTS])
{
    int made = 0;
    int64_t count = 0;
    kolo_graph asked = {.device = graph->device, .status = graph->status};
    cudnnBackendDescriptor_t heuristics = create(&asked, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(&asked, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
    set(&asked, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (asked.device) set_descriptor(&asked, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, asked.device);
    finish(&asked, heuristics);
    while (asked.status == CUDNN_STATUS_SUCCESS && made < RESULTS) {
        asked.status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &results[made]);
        made += asked.status == CUDNN_STATUS_SUCCESS;
    }
    if (asked.status != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &count,
                                 results) != CUDNN_STATUS_SUCCESS)
        count = 0;
    while (made > count) cudnnBackendDestroyDescriptor(results[--made]);
    kolo_graph_free(&asked);
    return made;
}

static bool is_allowed(cudnnBackendNumericalNote_t note, const kolo_graph_rules *rules)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: /* these, up to here, are not deterministic or not accurate enough */
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: return false; /* the direct engines: complete, but slow */
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4: return rules->winograd;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return rules->tensor_cores;
    default: return true;
    }
}

/* Whether the engine's notes on numerics are allowed, and it is precompiled: compiling one takes seconds. */
static bool obeys(cudnnBackendDescriptor_t configuration, const kolo_graph_rules *rules)
{
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t habits[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t count = 0, habit_count = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) return false;
    bool allowed =
        cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                 CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &habit_count, habits) == CUDNN_STATUS_SUCCESS &&
        count <= CUDNN_NUMERICAL_NOTE_TYPE_COUNT && habit_count <= CUDNN_BEHAVIOR_NOTE_TYPE_COUNT;
    for (int64_t i = 0; allowed && i < count; i++) allowed = is_allowed(notes[i], rules);
    for (int64_t i = 0; allowed && i < habit_count; i++) allowed = habits[i] != CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    cudnnBackendDestroyDescriptor(engine);
    return allowed;
}

/* Makes a plan. NULL: cuDNN cannot make one with this engine, or it needs too much scratch memory. */
static cudnnBackendDescriptor_t plan_of(const kolo_graph *graph, cudnnBackendDescriptor_t configuration,
                                        const kolo_graph_rules *rules, size_t *scratch)
{
    int64_t needed = 0, count = 0;
    kolo_graph tried = {.handle = graph->handle, .device = graph->device};
    cudnnBackendDescriptor_t plan = create(&tried, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (tried.handle) set(&tried, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &tried.handle);
    set_descriptor(&tried, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (tried.device) set_descriptor(&tried, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, tried.device);
    finish(&tried, plan);
    if (tried.status == CUDNN_STATUS_SUCCESS)
        tried.status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                &count, &needed);
    *scratch = (size_t)needed;
    if (tried.status == CUDNN_STATUS_SUCCESS && needed <= rules->most_scratch) return plan;
    kolo_graph_free(&tried);
    return NULL;
}

cudnnBackendDescriptor_t kolo_graph_plan(kolo_graph *graph, const kolo_graph_rules *rules, size_t *scratch)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t whole = whole_graph(graph), results[RESULTS], plan = NULL;
    for (int m = 0; m < 2 && !plan && graph->status == CUDNN_STATUS_SUCCESS; m++) {
        int count = ask(graph, whole, modes[m], results);
        for (int i = 0; i < count && !plan; i++)
            if (obeys(results[i], rules)) plan = plan_of(graph, results[i], rules, scratch);
        while (count > 0) cudnnBackendDestroyDescriptor(results[--count]);
    }
    return plan;
}

/* ---- running ---- */

cudnnStatus_t kolo_graph_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int count, const int64_t *ids,
                             void *const *memory, void *scratch)
{
    kolo_graph run = {.handle = handle};
    cudnnBackendDescriptor_t pack = create(&run, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&run, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    set(&run, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, memory);
    set(&run, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
    finish(&run, pack);
    if (run.status == CUDNN_STATUS_SUCCESS) run.status = cudnnBackendExecute(handle, plan, pack);
    kolo_graph_free(&run);
    return run.status;
}
