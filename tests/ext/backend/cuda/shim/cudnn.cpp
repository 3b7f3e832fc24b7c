/* cuDNN's backend API: descriptors as tables of attributes, and graphs by loops. Read cudnn.h here first.
 *
 * Heuristics answer as cuDNN 9 does (../cudnn_plans_test.c holds them against it), and more strictly: the first engines
 * are not deterministic, or want the largest workspace, or turn out to serve nothing, or are slow, or would be compiled
 * first, or use tensor cores; who takes the first that comes is found out. */
#include "cudnn_graph.h"

#include <cstdarg>
#include <cstdio>
#include <set>

#include "trace.h"

namespace
{

/* Of which descriptor it is, of which type, how often; a minus: it may be left out. */
struct Known {
    cudnnBackendDescriptorType_t owner;
    cudnnBackendAttributeType_t type;
    int least, most;
};
const std::map<int, Known> known = {
    {CUDNN_ATTR_POINTWISE_MODE, {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_TYPE_POINTWISE_MODE, 1, 1}},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_TYPE_DATA_TYPE, 1, 1}},
    {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_TYPE_NAN_PROPOGATION, -1, 1}},
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, {WINDOW, CUDNN_TYPE_DATA_TYPE, 1, 1}},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, {WINDOW, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1}},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, {WINDOW, CUDNN_TYPE_INT64, 2, 2}},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {WINDOW, CUDNN_TYPE_INT64, 2, 2}},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {WINDOW, CUDNN_TYPE_INT64, 2, 2}},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {WINDOW, CUDNN_TYPE_INT64, 2, 2}},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {WINDOW, CUDNN_TYPE_INT64, 1, 1}},
    {CUDNN_ATTR_ENGINEHEUR_MODE, {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_TYPE_HEUR_MODE, 1, 1}},
    {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, ONE, 1, 1}},
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_TYPE_HANDLE, 1, 1}},
    {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, {FORWARD, CUDNN_TYPE_FLOAT, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, {FORWARD, CUDNN_TYPE_FLOAT, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, {FORWARD, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, {FORWARD, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, {FORWARD, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, {FORWARD, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, {DATA, CUDNN_TYPE_FLOAT, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, {DATA, CUDNN_TYPE_FLOAT, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, {DATA, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, {DATA, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, {DATA, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, {DATA, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, {FILTER, CUDNN_TYPE_FLOAT, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, {FILTER, CUDNN_TYPE_FLOAT, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, {FILTER, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, {FILTER, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, {FILTER, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, {FILTER, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, {POINTWISE, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, {POINTWISE, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, {POINTWISE, ONE, -1, 1}},
    {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, {POINTWISE, ONE, 1, 1}},
    {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_TYPE_HANDLE, 1, 1}},
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, ONE, 1, 16}},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {TENSOR, CUDNN_TYPE_INT64, 1, 1}},
    {CUDNN_ATTR_TENSOR_DATA_TYPE, {TENSOR, CUDNN_TYPE_DATA_TYPE, 1, 1}},
    {CUDNN_ATTR_TENSOR_DIMENSIONS, {TENSOR, CUDNN_TYPE_INT64, 4, 4}},
    {CUDNN_ATTR_TENSOR_STRIDES, {TENSOR, CUDNN_TYPE_INT64, 4, 4}},
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, {TENSOR, CUDNN_TYPE_INT64, 1, 1}},
    {CUDNN_ATTR_TENSOR_IS_VIRTUAL, {TENSOR, CUDNN_TYPE_BOOLEAN, -1, 1}},
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_TYPE_INT64, 1, 16}},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_TYPE_VOID_PTR, 1, 16}},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_TYPE_VOID_PTR, -1, 1}},
};

size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
    }
}

char why[256];

cudnnStatus_t refuse(cudnnStatus_t status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(why, sizeof why, format, values);
    va_end(values);
    return status;
}

cudnnStatus_t check_convolution(const Descriptor *d)
{
    Names names = names_of(d->type);
    Tensor x(d->of(names.x)), w(d->of(names.w)), y(d->of(names.y));
    Window window(d->of(names.window));
    if (d->get<float>(names.alpha) != 1 || d->get<float>(names.beta) != 0)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "alpha and beta");
    if (x.dim[0] != y.dim[0] || w.dim[0] != y.dim[1] || x.dim[1] % w.dim[1] != 0)
        return refuse(CUDNN_STATUS_BAD_PARAM, "channels that do not match");
    if (w.dim[0] % (x.dim[1] / w.dim[1]) != 0) return refuse(CUDNN_STATUS_BAD_PARAM, "groups");
    for (int i = 0; i < 2; i++) {
        int64_t reach = (w.dim[2 + i] - 1) * window.dilation[i] + 1;
        int64_t places = x.dim[2 + i] + window.before[i] + window.after[i] - reach;
        if (places < 0 || places / window.stride[i] + 1 != y.dim[2 + i])
            return refuse(CUDNN_STATUS_BAD_PARAM, "an image of %lld where the window gives another",
                          (long long)y.dim[2 + i]);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- finalizing ---- */

cudnnStatus_t check_tensor(const Descriptor *d)
{
    Tensor t(d);
    for (int i = 0; i < 4; i++)
        if (t.dim[i] < 1 || t.stride[i] < 1) return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor's dimensions");
    bool type = t.type == CUDNN_DATA_FLOAT || t.type == CUDNN_DATA_HALF || t.type == CUDNN_DATA_BFLOAT16;
    return type && t.id > 0 && t.alignment > 0 ? CUDNN_STATUS_SUCCESS : refuse(CUDNN_STATUS_BAD_PARAM, "a tensor");
}

cudnnStatus_t check_window(const Descriptor *d)
{
    Window w(d);
    for (int i = 0; i < 2; i++)
        if (w.before[i] < 0 || w.after[i] < 0 || w.stride[i] < 1 || w.dilation[i] < 1)
            return refuse(CUDNN_STATUS_BAD_PARAM, "a window");
    bool fine = d->get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
                d->get<int>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION &&
                d->get<int>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT;
    return fine ? CUDNN_STATUS_SUCCESS : refuse(CUDNN_STATUS_BAD_PARAM, "a window");
}

cudnnStatus_t check_pointwise(const Descriptor *d)
{
    int mode = d->of(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)->get<int>(CUDNN_ATTR_POINTWISE_MODE);
    bool two = d->has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    if (two != (mode == CUDNN_POINTWISE_ADD))
        return refuse(CUDNN_STATUS_BAD_PARAM, "how many a pointwise operation takes");
    Tensor x(d->of(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)), y(d->of(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    for (int i = 0; i < 4; i++)
        if (x.dim[i] != y.dim[i]) return refuse(CUDNN_STATUS_BAD_PARAM, "a pointwise operation's sizes");
    if (!two) return CUDNN_STATUS_SUCCESS;
    Tensor b(d->of(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    for (int i = 0; i < 4; i++)
        if (b.dim[i] != 1 && b.dim[i] != x.dim[i]) return refuse(CUDNN_STATUS_BAD_PARAM, "what is broadcast");
    return CUDNN_STATUS_SUCCESS;
}

/* What an operation reads and writes. */
void operands(const Descriptor *op, std::vector<const Descriptor *> *reads, const Descriptor **writes)
{
    if (op->type == POINTWISE) {
        reads->push_back(op->of(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
        if (op->has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
            reads->push_back(op->of(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
        *writes = op->of(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
        return;
    }
    Names names = names_of(op->type);
    int result = op->type == FORWARD ? names.y : op->type == DATA ? names.x : names.w;
    for (int name : {names.x, names.w, names.y})
        if (name != result) reads->push_back(op->of(name));
    *writes = op->of(result);
}

/* Numbers of tensors are their own; what is inside is written before it is read. */
cudnnStatus_t check_graph(const Descriptor *d)
{
    std::map<int64_t, const Descriptor *> seen;
    std::set<const Descriptor *> written;
    for (int64_t i = 0; i < d->attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).count; i++) {
        std::vector<const Descriptor *> all;
        const Descriptor *writes;
        operands(d->of(CUDNN_ATTR_OPERATIONGRAPH_OPS, i), &all, &writes);
        for (const Descriptor *read : all)
            if (Tensor(read).inside && !written.count(read))
                return refuse(CUDNN_STATUS_BAD_PARAM, "nobody wrote a tensor");
        written.insert(writes);
        all.push_back(writes);
        for (const Descriptor *one : all) {
            const Descriptor *&other = seen[Tensor(one).id];
            if (other && other != one) return refuse(CUDNN_STATUS_BAD_PARAM, "two tensors with one number");
            other = one;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check(const Descriptor *d)
{
    for (const auto &entry : known) {
        if (entry.second.owner != d->type) continue;
        if (!d->has(entry.first)) {
            if (entry.second.least < 0) continue;
            return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is missing", entry.first);
        }
        const Attribute &a = d->attributes.at(entry.first);
        for (int64_t i = 0; a.type == ONE && i < a.count; i++)
            if (!d->of(entry.first, i) || !d->of(entry.first, i)->finalized)
                return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d is not finalized", entry.first);
    }
    if (d->type == TENSOR) return check_tensor(d);
    if (d->type == WINDOW) return check_window(d);
    if (d->type == POINTWISE) return check_pointwise(d);
    if (d->type == FORWARD || d->type == DATA || d->type == FILTER) return check_convolution(d);
    if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) return check_graph(d);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- engines ---- */

/* WHOLE_MEMORY needs more than anybody has; BROKEN shows only when its plan is made. */
enum Engine { DICE, WHOLE_MEMORY, BROKEN, WINOGRAD, TENSOR_CORES, PLAIN, DIRECT, COMPILED, ENGINES };
const std::vector<int> notes_of[ENGINES] = {{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
                                            {},
                                            {},
                                            {CUDNN_NUMERICAL_NOTE_WINOGRAD},
                                            {CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
                                            {},
                                            {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP},
                                            {}};
const int64_t workspace_of[ENGINES] = {0, (int64_t)1 << 50, 0, 256, 131, 4099, 0, 0};

/* Who serves a graph: nobody, an engine that would be compiled, or those that are ready. */
enum Service { NOBODY, ONE_COMPILED, READY };

/* Channels last, factors of one type. A convolution alone gives no other; behind one, a bias of that type, with relu or
 * without, is ready for: not for relu alone, a bias of another type, or the way back. */
Service service_of(const Descriptor *graph)
{
    int64_t count = graph->attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).count;
    const Descriptor *first = graph->of(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (first->type == POINTWISE) return NOBODY;
    std::vector<const Descriptor *> reads;
    const Descriptor *writes;
    operands(first, &reads, &writes);
    Tensor a(reads[0]), b(reads[1]), result(writes);
    if (!a.channels_last() || !b.channels_last() || !result.channels_last() || a.type != b.type) return NOBODY;
    if (count == 1) return result.type == a.type ? READY : NOBODY;
    if (!result.inside || result.type != CUDNN_DATA_FLOAT) return NOBODY;
    const Descriptor *second = graph->of(CUDNN_ATTR_OPERATIONGRAPH_OPS, 1);
    if (first->type != FORWARD || !second->has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) return ONE_COMPILED;
    return Tensor(second->of(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)).type == a.type ? READY : ONE_COMPILED;
}

std::vector<int> engines_for(const Descriptor *heuristics)
{
    Service service = service_of(heuristics->of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    if (service == NOBODY) return {};
    if (service == ONE_COMPILED) return {COMPILED};
    if (heuristics->get<int>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK) return {DIRECT, PLAIN, COMPILED};
    return {DICE, WHOLE_MEMORY, BROKEN, DIRECT, COMPILED, TENSOR_CORES, WINOGRAD};
}

/* What an engine is said to do; how much of it there is. */
template <typename Note> int64_t tell(const std::vector<int> &notes, int64_t wanted, void *values)
{
    for (size_t i = 0; i < notes.size() && (int64_t)i < wanted; i++) ((Note *)values)[i] = (Note)notes[i];
    return (int64_t)notes.size();
}

/* What it moves and computes; each tensor once. */
kolo_shim_record record_of(const Computation &work)
{
    kolo_shim_record record;
    record.range = kolo_shim_range();
    record.what = "cudnn";
    for (const Step &step : work.steps) {
        const Tensor &last = step.type == POINTWISE ? step.tensors[1]
                             : step.type == FORWARD ? step.tensors[2]
                             : step.type == DATA    ? step.tensors[0]
                                                    : step.tensors[1];
        record.what += step.type == POINTWISE ? step.mode == CUDNN_POINTWISE_ADD ? " bias" : " relu"
                       : step.type == FORWARD ? " y"
                       : step.type == DATA    ? " dx"
                                              : " dkernel";
        for (const Tensor &t : step.tensors)
            if (!t.inside)
                (&t == &last ? record.written : record.read) += (uint64_t)t.span() * kolo_shim_size(t.element());
        if (step.type == POINTWISE) continue;
        const Tensor &w = step.tensors[1], &y = step.tensors[2];
        record.operations += 2 * (uint64_t)(y.span() * w.dim[1] * w.dim[2] * w.dim[3]);
    }
    return record;
}

} // namespace

struct cudnnContext {
    cudaStream_t stream = nullptr;
};

extern "C" {

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_BAD_PARAM     ? "CUDNN_STATUS_BAD_PARAM"
           : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                  : "an error of the shim's";
}
void cudnnGetLastErrorString(char *message, size_t most)
{
    snprintf(message, most, "%s", why);
}
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = new cudnnContext;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor)
{
    *descriptor = new Descriptor(type);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    delete (Descriptor *)descriptor;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    Descriptor *d = (Descriptor *)descriptor;
    auto entry = known.find(name);
    if (d->finalized || !values) return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is set too late", name);
    if (entry == known.end() || entry->second.owner != d->type || entry->second.type != type)
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is not of descriptor %d, or not of type %d", name, d->type,
                      type);
    if (count < 1 || count > entry->second.most || count < entry->second.least)
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d with %lld values", name, (long long)count);
    const unsigned char *bytes = (const unsigned char *)values;
    d->attributes[name] = {type, count, {bytes, bytes + (size_t)count * size_of(type)}};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    Descriptor *d = (Descriptor *)descriptor;
    if (d->finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "it is finalized");
    cudnnStatus_t status = check(d);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        Descriptor *configuration = d->of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        d->engine = configuration->engine;
        if (d->engine < 0 || d->engine == BROKEN)
            return refuse(CUDNN_STATUS_NOT_SUPPORTED, "this engine serves nothing");
        d->steps = configuration->steps;
    }
    d->finalized = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *values)
{
    Descriptor *d = (Descriptor *)descriptor;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->finalized && type == ONE) {
        std::vector<int> engines = engines_for(d);
        *count = (int64_t)engines.size();
        for (int64_t i = 0; values && i < wanted && i < *count; i++) {
            Descriptor *result = ((Descriptor **)values)[i];
            Descriptor *graph = d->of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
            if (result->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
                return refuse(CUDNN_STATUS_BAD_PARAM, "no place for it");
            result->engine = engines[(size_t)i];
            result->finalized = true;
            result->steps = std::make_shared<std::vector<Step>>();
            for (int64_t s = 0; s < graph->attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).count; s++)
                result->steps->push_back(step_of(graph->of(CUDNN_ATTR_OPERATIONGRAPH_OPS, s)));
        }
        if (values && *count > wanted) *count = wanted;
        return CUDNN_STATUS_SUCCESS;
    }
    bool of_plan = name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG && d->finalized;
    if ((of_plan || name == CUDNN_ATTR_ENGINECFG_ENGINE) && d->engine >= 0 && wanted == 1) {
        Descriptor *engine = *(Descriptor **)values;
        engine->engine = d->engine;
        engine->finalized = true;
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    bool of_engine = d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && d->engine >= 0;
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE && of_engine) {
        *count = tell<cudnnBackendNumericalNote_t>(notes_of[d->engine], wanted, values);
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE && type == CUDNN_TYPE_BEHAVIOR_NOTE && of_engine) {
        std::vector<int> habits;
        if (d->engine == COMPILED) habits.push_back(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
        *count = tell<cudnnBackendBehaviorNote_t>(habits, wanted, values);
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && d->finalized && type == CUDNN_TYPE_INT64) {
        *(int64_t *)values = workspace_of[d->engine];
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d cannot be asked for", name);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    Descriptor *p = (Descriptor *)plan, *v = (Descriptor *)pack;
    if (!p->finalized || !v->finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or its memory");
    Computation work;
    work.steps = *p->steps;
    work.tf32 = p->engine == TENSOR_CORES;
    int64_t count = v->attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count;
    if (v->attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count != count)
        return refuse(CUDNN_STATUS_BAD_PARAM, "as many numbers as addresses");
    for (int64_t i = 0; i < count; i++)
        work.memory[v->get<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i)] =
            v->get<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    for (const Step &step : work.steps)
        for (const Tensor &t : step.tensors) {
            if (t.inside) continue;
            auto found = work.memory.find(t.id);
            if (found == work.memory.end())
                return refuse(CUDNN_STATUS_BAD_PARAM, "tensor %lld has no memory", (long long)t.id);
            size_t bytes = (size_t)t.span() * kolo_shim_size(t.element());
            if ((uintptr_t)found->second % (size_t)t.alignment != 0 || !kolo_shim_on_device(found->second, bytes))
                return refuse(CUDNN_STATUS_EXECUTION_FAILED, "tensor %lld lies elsewhere", (long long)t.id);
        }
    int64_t needed = workspace_of[p->engine];
    void *workspace =
        v->has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) ? v->get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) : nullptr;
    if (needed > 0 && !kolo_shim_on_device(workspace, (size_t)needed))
        return refuse(CUDNN_STATUS_BAD_PARAM, "no workspace");
    if (kolo_shim_traces())
        return kolo_shim_give(handle->stream, kolo_shim_written_down(record_of(work), KOLO_SHIM_LIBRARY, work)),
               CUDNN_STATUS_SUCCESS;
    if (needed > 0) kolo_shim_give(handle->stream, [=] { memset(workspace, 0xFF, (size_t)needed); });
    kolo_shim_give(handle->stream, work);
    return CUDNN_STATUS_SUCCESS;
}
}
