/* Events and graphs, on the host. Read runtime.cpp first.
 *
 * A capture forks where another stream waits for an event of it, and must have joined again when it ends. What a branch
 * was given runs as late as its graph allows: when something waits for it.
 */
#include <algorithm>
#include <memory>

#include "streams.h"

struct kolo_shim_event {
    int device = 0;
    kolo_shim_stream *stream = nullptr;
    size_t at = 0;
    kolo_shim_stream *capture = nullptr; /* where that began of which it is a part, */
    size_t captures = 0;                 /* the stream's so manieth */
    bool timed = true;
    double clock = 0; /* the stream's */
};

typedef std::vector<std::vector<Node>> Branches; /* the first is the origin's */
struct kolo_shim_graph {
    std::shared_ptr<const Branches> branches;
};

namespace
{

std::set<kolo_shim_event *> events;
std::set<kolo_shim_graph *> graphs;

/* A graph as it runs. */
struct Run {
    std::shared_ptr<const Branches> branches;
    bool works;
    std::vector<size_t> done = std::vector<size_t>(branches->size(), 0);

    void until(size_t branch, size_t end)
    {
        while (done[branch] < end) {
            const Node &node = (*branches)[branch][done[branch]++];
            if (!node.work) until(node.branch, node.at);
            else if (works) node.work();
        }
    }
};

/* Whether the origin waits, in the end, for everything that its branches were given. */
bool has_joined(const std::shared_ptr<const Branches> &branches)
{
    Run run{branches, false};
    run.until(0, branches->front().size());
    for (size_t b = 0; b < branches->size(); b++)
        if (run.done[b] < (*branches)[b].size()) return false;
    return true;
}

/* Whether all launches are within what their kernels may have of shared memory now. */
bool is_within_limits(const Branches &branches)
{
    for (const std::vector<Node> &branch : branches)
        for (const Node &node : branch)
            if (node.kernel && !may_share(node.device, node.kernel, node.shared)) return false;
    return true;
}

bool is_live(const kolo_shim_event *event)
{
    return event->capture && event->capture->capturing && event->capture->times == event->captures;
}

size_t branch_of(const kolo_shim_stream *stream)
{
    const std::vector<kolo_shim_stream *> &branches = stream->origin->branches;
    size_t number = 0;
    while (branches[number] != stream) number++;
    return number;
}

void begin(kolo_shim_stream *stream, kolo_shim_stream *origin)
{
    stream->capturing = true;
    stream->invalid = false;
    stream->origin = origin;
    stream->captured.clear();
    origin->branches.push_back(stream);
    captures.insert(stream);
}

/* Branches and all. Whether it was all right so far. */
bool end(kolo_shim_stream *origin)
{
    bool valid = true;
    for (kolo_shim_stream *stream : origin->branches) {
        valid = valid && !stream->invalid;
        stream->capturing = false;
        stream->origin = nullptr;
        captures.erase(stream);
    }
    return valid;
}

cudaError_t wait_captured(kolo_shim_stream *stream, const kolo_shim_event *event)
{
    if (!is_live(event)) return fail(cudaErrorStreamCaptureIsolation);
    if (stream->capturing && stream->origin != event->capture) return fail(cudaErrorStreamCaptureMerge);
    if (!stream->capturing) {
        begin(stream, event->capture);
        stream->mode = event->capture->mode;
        stream->captor = event->capture->captor;
    }
    stream->captured.push_back({nullptr, branch_of(event->stream), event->at});
    return cudaSuccess;
}

} // namespace

int event_count()
{
    return (int)events.size();
}
int graph_count()
{
    return (int)graphs.size();
}
void forget_captured_graphs()
{
    for (kolo_shim_event *event : events) delete event;
    for (kolo_shim_graph *graph : graphs) delete graph;
    events.clear(), graphs.clear();
}

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    Turn turn(whole);
    *event = new kolo_shim_event;
    cudaGetDevice(&(*event)->device);
    (*event)->timed = !(flags & cudaEventDisableTiming);
    events.insert(*event);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    Turn turn(whole);
    events.erase(event);
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    Turn turn(whole);
    if (event->device != stream->device) return fail(cudaErrorInvalidResourceHandle);
    event->stream = stream;
    event->clock = stream->clock;
    event->at = stream->capturing ? stream->captured.size() : stream->given;
    event->capture = stream->capturing ? stream->origin : nullptr;
    event->captures = stream->capturing ? stream->origin->times : 0;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    Turn turn(whole);
    if (event->capture) return fail(cudaErrorCapturedEvent);
    if (!may_allocate()) return fail(cudaErrorStreamCaptureUnsupported);
    if (event->stream) run_until(event->stream, event->at);
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    Turn turn(whole);
    kolo_shim_stream *other = event->stream;
    size_t at = event->at;
    stream->clock = std::max(stream->clock, event->clock);
    if (!other || (other == stream && !event->capture)) return cudaSuccess;
    if (event->capture) return wait_captured(stream, event);
    if (stream->capturing) return fail(cudaErrorStreamCaptureIsolation);
    return give(stream, [=] {
        if (streams.count(other)) run_until(other, at); /* a stream that was destroyed has done its work */
    });
}
/* Of copies from device to device; nothing else is timed here. */
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t last)
{
    if (!first->timed || !last->timed || !first->stream || !last->stream) return fail(cudaErrorInvalidResourceHandle);
    *milliseconds = last->clock > first->clock ? (float)(1e3 * (last->clock - first->clock)) : 0.001f;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    Turn turn(whole);
    if (stream->capturing) return fail(cudaErrorStreamCaptureUnsupported);
    stream->branches.clear();
    begin(stream, stream);
    stream->times++;
    stream->mode = mode;
    stream->captor = std::this_thread::get_id();
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    Turn turn(whole);
    *graph = nullptr;
    if (!stream->capturing) return fail(cudaErrorStreamCaptureUnsupported);
    if (stream->origin != stream) return fail(cudaErrorStreamCaptureUnmatched);
    bool stranger = stream->mode != cudaStreamCaptureModeRelaxed && stream->captor != std::this_thread::get_id();
    if (!end(stream) || stranger) return fail(cudaErrorStreamCaptureInvalidated);
    auto branches = std::make_shared<Branches>();
    for (kolo_shim_stream *branch : stream->branches) branches->push_back(std::move(branch->captured));
    if (!has_joined(branches)) return fail(cudaErrorStreamCaptureUnjoined);
    *graph = new kolo_shim_graph{branches};
    graphs.insert(*graph);
    return cudaSuccess;
}
cudaError_t kolo_shim_end_capture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t fault = kolo_shim_fault("cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated, false);
    cudaError_t error = cudaStreamEndCapture(stream, graph);
    if (fault != cudaSuccess && error == cudaSuccess) cudaGraphDestroy(*graph);
    if (fault != cudaSuccess) *graph = nullptr;
    return fault != cudaSuccess ? fault : error;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    Turn turn(whole);
    mind_sums("cudaGraphInstantiate");
    if (!is_within_limits(*graph->branches)) return fail(cudaErrorInvalidValue);
    *executable = new kolo_shim_graph{graph->branches};
    graphs.insert(*executable);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    Turn turn(whole);
    if (stream->capturing) return fail(cudaErrorStreamCaptureUnsupported); /* it would be a part of the other */
    if (!is_within_limits(*executable->branches)) return fail(cudaErrorInvalidValue);
    auto run = std::make_shared<Run>(Run{executable->branches, true});
    for (size_t i = 1; i <= executable->branches->front().size(); i++) give(stream, [=] { run->until(0, i); });
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    Turn turn(whole);
    graphs.erase(graph);
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    return cudaGraphDestroy(executable);
}
}
