/* Streams of CUDA: their memory, work, events and captured graphs. backend/stream.h specifies each function. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/table.h"

struct kolo_event {
    cudaEvent_t event;
    int device; /* of the stream that recorded it */
};
struct kolo_captured_graph {
    cudaGraphExec_t graph;
};

/* ---- streams ---- */

bool kolo_cuda_opened_here(const kolo_stream *stream)
{
    return stream->process == getpid();
}

kolo_status kolo_cuda_enter(const kolo_stream *stream)
{
    if (!kolo_cuda_opened_here(stream))
        return kolo_fail(KOLO_UNSUPPORTED, "the device stayed with the process that was forked, and CUDA cannot be "
                                           "started in the child; wanted a program of its own");
    KOLO_CUDA(cudaSetDevice(stream->device), "choosing it");
    return KOLO_OK;
}

kolo_status kolo_cuda_take_failure(kolo_stream *stream)
{
    cudaError_t failed = stream->failed;
    stream->failed = cudaSuccess;
    KOLO_CUDA(failed, "adding gradients");
    return KOLO_OK;
}

/* For functions that free something: a failure is not reported. False in a child of fork(), which must not touch its
 * parent's objects. */
static bool can_enter(const kolo_stream *stream)
{
    bool can = kolo_cuda_opened_here(stream) && cudaSetDevice(stream->device) == cudaSuccess;
    if (!can) cudaGetLastError();
    return can;
}

static void close_stream(kolo_stream **stream)
{
    kolo_stream *closed = *stream;
    *stream = NULL;
    if (!closed) return;
    if (!kolo_cuda_opened_here(closed)) {
        free(closed);
        return;
    }
    cudaSetDevice(closed->device);
    if (closed->handle) cudaStreamSynchronize(closed->handle);
    kolo_cuda_close_blas(closed);
    kolo_cuda_close_dnn(closed);
    kolo_cuda_free(closed->tickets);
    if (closed->handle) cudaStreamDestroy(closed->handle);
    cudaGetLastError(); /* clears the errors of a lost device */
    free(closed);
}

static kolo_status open_stream(const kolo_stream_place *place, kolo_stream **stream)
{
    int device = place->device;
    kolo_stream *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a stream");
    made->device = device;
    made->process = getpid();
    cudaError_t error = cudaSetDevice(device);
    int major = 0, minor = 0;
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    made->capability = 10 * major + minor;
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&made->shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error == cudaSuccess) error = kolo_cuda_find_code();
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&made->handle, cudaStreamNonBlocking);
    size_t tickets = KOLO_TICKETS * sizeof *made->tickets;
    if (error == cudaSuccess) error = kolo_cuda_allocate((void **)&made->tickets, tickets);
    if (error == cudaSuccess) error = cudaMemsetAsync(made->tickets, 0, tickets, made->handle);
    if (error != cudaSuccess) {
        close_stream(&made);
        return kolo_cuda_fail(error, "beginning");
    }
    *stream = made;
    return KOLO_OK;
}

/* ---- memory ---- */

static kolo_status allocate(kolo_stream *stream, size_t bytes, const char *what, void **memory)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    cudaError_t error = kolo_cuda_allocate(memory, bytes);
    if (error == cudaSuccess) return KOLO_OK;
    if (error != cudaErrorMemoryAllocation) return kolo_cuda_fail(error, "taking memory");
    cudaGetLastError(); /* the device still works */
    size_t left = 0, total = 0;
    cudaMemGetInfo(&left, &total);
    return kolo_fail(KOLO_MEMORY, "%s: wanted %s of the device's memory, got %s free of %s" KOLO_CUDA_ADVICE, what,
                     kolo_bytes_text((double)bytes), kolo_bytes_text((double)left), kolo_bytes_text((double)total));
}

static void release(kolo_stream *stream, void *memory)
{
    if (!memory || !can_enter(stream)) return;
    cudaStreamSynchronize(stream->handle); /* running work may still read it */
    kolo_cuda_free(memory);
    cudaGetLastError();
}

static kolo_status allocate_host(kolo_stream *stream, size_t bytes, void **memory)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    cudaError_t error = cudaHostAlloc(memory, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaSuccess) return KOLO_OK;
    if (error != cudaErrorMemoryAllocation) return kolo_cuda_fail(error, "taking memory of the host");
    cudaGetLastError();
    return kolo_fail(KOLO_MEMORY,
                     "wanted %s of the host's memory that is never swapped out, got none: lower the .batch_size, or "
                     "raise the limit of locked memory",
                     kolo_bytes_text((double)bytes));
}

static void release_host(kolo_stream *stream, void *memory)
{
    if (!memory || !can_enter(stream)) return;
    cudaStreamSynchronize(stream->handle);
    cudaFreeHost(memory);
    cudaGetLastError();
}

/* ---- work ---- */

static kolo_status copy(kolo_stream *stream, void *to, const void *from, size_t bytes)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    if (bytes > 0) KOLO_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->handle), "copying");
    return KOLO_OK;
}

static kolo_status import(kolo_stream *stream, const void *host, size_t bytes, const char *what, void **placed)
{
    bool is_new = !*placed;
    if (is_new) KOLO_TRY(allocate(stream, bytes, what, placed));
    kolo_status status = copy(stream, *placed, host, bytes);
    if (status == KOLO_OK || !is_new) return status;
    release(stream, *placed); /* so that the caller need not discard it */
    *placed = NULL;
    return status;
}

static void discard(kolo_stream *stream, const void *host, void *placed)
{
    (void)host;
    release(stream, placed);
}

static kolo_status clear(kolo_stream *stream, void *memory, size_t bytes)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    if (bytes > 0) KOLO_CUDA(cudaMemsetAsync(memory, 0, bytes, stream->handle), "clearing memory");
    return KOLO_OK;
}

static kolo_status take_step_parameters(kolo_stream *stream, kolo_step_parameters *to, const kolo_step_parameters *ring,
                                        kolo_scaling *scaling, kolo_scaling *seen)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(kolo_cuda_take_step_parameters(stream->handle, to, ring, scaling, seen), "reading a step's numbers");
    return KOLO_OK;
}

static kolo_status copy_to_ring(kolo_stream *stream, void *ring, size_t stride,
                                const kolo_step_parameters *step_parameters, const void *from, size_t bytes)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(kolo_cuda_copy_to_ring(stream->handle, ring, stride, step_parameters, from, bytes), "writing totals");
    return KOLO_OK;
}

static kolo_status call(kolo_stream *stream, void (*work)(void *argument), void *argument)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(cudaLaunchHostFunc(stream->handle, work, argument), "a call of the host");
    return KOLO_OK;
}

static kolo_status make_event(unsigned flags, kolo_event **event)
{
    kolo_event *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "an event");
    cudaError_t error = cudaEventCreateWithFlags(&made->event, flags);
    if (error == cudaSuccess) {
        *event = made;
        return KOLO_OK;
    }
    free(made);
    return kolo_cuda_fail(error, "making an event");
}

/* An event that notes no time costs its stream less. */
static kolo_status record(kolo_stream *stream, unsigned flags, kolo_event **event)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    if (!*event) KOLO_TRY(make_event(flags, event));
    (*event)->device = stream->device;
    KOLO_CUDA(cudaEventRecord((*event)->event, stream->handle), "recording an event");
    return KOLO_OK;
}

static kolo_status record_event(kolo_stream *stream, kolo_event **event)
{
    return record(stream, cudaEventDisableTiming, event);
}

static kolo_status record_time(kolo_stream *stream, kolo_event **event)
{
    return record(stream, cudaEventDefault, event);
}

static kolo_status synchronize_event(kolo_stream *stream, kolo_event *event)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(cudaEventSynchronize(event->event), "the enqueued work");
    KOLO_TRY(kolo_cuda_take_failure(stream));
    return kolo_nccl_check(stream->group);
}

static kolo_status elapsed(kolo_stream *stream, kolo_event *first, kolo_event *last, double *seconds)
{
    static const char doing[] = "asking how long it took";
    float milliseconds = 0;
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(cudaEventSynchronize(first->event), doing);
    KOLO_CUDA(cudaEventSynchronize(last->event), doing);
    KOLO_CUDA(cudaEventElapsedTime(&milliseconds, first->event, last->event), doing);
    *seconds = 1e-3 * (double)milliseconds;
    return KOLO_OK;
}

/* A stream that waits for another device copies from its memory next. Without peer access the driver makes such copies
 * through the host's memory. Access that is on already is left as it is. */
static void reach(kolo_stream *stream, int other)
{
    int reaches = 0;
    if (other == stream->device || other > 63 || (stream->reached >> other & 1)) return;
    stream->reached |= (uint64_t)1 << other;
    if (cudaDeviceCanAccessPeer(&reaches, stream->device, other) == cudaSuccess && reaches)
        cudaDeviceEnablePeerAccess(other, 0);
    cudaGetLastError();
}

static kolo_status wait_event(kolo_stream *stream, kolo_event *event)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    reach(stream, event->device);
    KOLO_CUDA(cudaStreamWaitEvent(stream->handle, event->event, 0), "waiting for another stream");
    return KOLO_OK;
}

static void free_event(kolo_stream *stream, kolo_event *event)
{
    if (!event) return;
    if (can_enter(stream)) cudaEventDestroy(event->event);
    free(event);
}

static kolo_status finish(kolo_stream *stream)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(cudaStreamSynchronize(stream->handle), "the enqueued work");
    KOLO_TRY(kolo_cuda_take_failure(stream));
    return kolo_nccl_check(stream->group);
}

/* ---- captured graphs ---- */

static kolo_status begin_capture(kolo_stream *stream)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(cudaStreamBeginCapture(stream->handle, cudaStreamCaptureModeThreadLocal), "beginning to record");
    return KOLO_OK;
}

static kolo_status end_capture(kolo_stream *stream, kolo_captured_graph **captured_graph)
{
    cudaGraph_t graph = NULL;
    kolo_captured_graph *made = calloc(1, sizeof *made);
    cudaError_t error = cudaStreamEndCapture(stream->handle, &graph); /* also if `made` is NULL: the capture must end */
    if (!made) error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess) error = stream->failed; /* a launch failed, so the graph lacks it */
    stream->failed = cudaSuccess;
    if (error == cudaSuccess) error = cudaGraphInstantiate(&made->graph, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (error != cudaSuccess) {
        free(made);
        return kolo_cuda_fail(error, "capturing a step");
    }
    *captured_graph = made;
    return KOLO_OK;
}

static kolo_status launch(kolo_stream *stream, kolo_captured_graph *captured_graph)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(cudaGraphLaunch(captured_graph->graph, stream->handle), "a recorded step");
    return KOLO_OK;
}

static void free_graph(kolo_stream *stream, kolo_captured_graph *captured_graph)
{
    if (!captured_graph) return;
    if (can_enter(stream)) {
        cudaStreamSynchronize(stream->handle);
        cudaGraphExecDestroy(captured_graph->graph);
        cudaGetLastError();
    }
    free(captured_graph);
}

/* ---- arrays ---- */

static kolo_status gather(kolo_stream *stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                          int64_t first, int microbatch, const kolo_gathered *to)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(kolo_cuda_gather(stream->handle, from, step_parameters, first, microbatch, to), "gathering samples");
    return KOLO_OK;
}

static kolo_status add(kolo_stream *stream, float *to, const float *from, int64_t count)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(kolo_cuda_add_floats(stream->handle, to, from, count), "adding arrays");
    return KOLO_OK;
}

static kolo_status sum(kolo_stream *stream, double *to, const void *parts, size_t stride, int number, int64_t count)
{
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(kolo_cuda_sum_doubles(stream->handle, to, parts, stride, number, count), "adding parts");
    return KOLO_OK;
}

/* Counts in one of the stream's tickets, which is zero again afterwards. */
static kolo_status are_finite(kolo_stream *stream, const float *values, int64_t count, bool *finite)
{
    static const char doing[] = "looking for what is not finite";
    unsigned odd = 0;
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_CUDA(kolo_cuda_count_odd(stream->handle, values, count, stream->tickets), doing);
    KOLO_CUDA(cudaMemcpyAsync(&odd, stream->tickets, sizeof odd, cudaMemcpyDefault, stream->handle), doing);
    KOLO_CUDA(cudaMemsetAsync(stream->tickets, 0, sizeof odd, stream->handle), doing);
    KOLO_TRY(finish(stream));
    *finite = odd == 0;
    return KOLO_OK;
}

/* ---- kernels ---- */

static int lanes(const kolo_stream *stream)
{
    (void)stream;
    return 1;
}

static kolo_status for_each(kolo_stream *stream, int64_t first, int64_t end, bool backward,
                            kolo_status (*body)(void *argument, int lane, int64_t number), void *argument)
{
    (void)stream;
    return kolo_for_each_in_order(first, end, backward, body, argument);
}

static kolo_status run(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan, int op, void *kernel,
                       const kolo_call *made)
{
    (void)stream, (void)plan, (void)op;
    return backend->run(kernel, made);
}

static kolo_status convert(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan,
                           const kolo_conversion *list, int count)
{
    (void)stream, (void)backend;
    return count > 0 ? kolo_cuda_convert(plan, list, count) : KOLO_OK;
}

static kolo_status add_gradient(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan, int value,
                                void *to, const void *from)
{
    (void)stream, (void)backend;
    kolo_cuda_add_gradient(plan, value, to, from);
    return KOLO_OK;
}

const kolo_stream_kind kolo_cuda_streams = {
    .steps_ahead = KOLO_STEPS_AHEAD,
    .open = open_stream,
    .close = close_stream,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .import = import,
    .discard = discard,
    .copy = copy,
    .clear = clear,
    .take_step_parameters = take_step_parameters,
    .copy_to_ring = copy_to_ring,
    .call = call,
    .record_event = record_event,
    .synchronize_event = synchronize_event,
    .wait_event = wait_event,
    .free_event = free_event,
    .record_time = record_time,
    .elapsed = elapsed,
    .synchronize = finish,
    .begin_capture = begin_capture,
    .end_capture = end_capture,
    .launch = launch,
    .free_graph = free_graph,
    .lanes = lanes,
    .for_each = for_each,
    .run = run,
    .convert = convert,
    .add_gradient = add_gradient,
    .gather = gather,
    .add = add,
    .sum = sum,
    .are_finite = are_finite,
    .open_comm = kolo_nccl_open,
    .open_comm_beside = kolo_nccl_open_beside,
};

const kolo_update_kind kolo_cuda_updates = {.has_rule = kolo_cuda_has_rule,
                                            .expect = kolo_cuda_expect_updates,
                                            .forget = kolo_cuda_forget_updates,
                                            .update = kolo_cuda_update_weights,
                                            .packs = true,
                                            .penalty = kolo_cuda_penalty};
