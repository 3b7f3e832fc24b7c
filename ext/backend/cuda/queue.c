/* Queues: a stream of a device, its memory, marks and recordings. See backend/accelerator.h for what each promises. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/table.h"

struct kolo_mark {
    cudaEvent_t event;
};
struct kolo_recording {
    cudaGraphExec_t graph;
};

/* ---- queues ---- */

bool kolo_cuda_is_mine(const kolo_queue *queue)
{
    return queue->process == getpid();
}

kolo_status kolo_cuda_enter(const kolo_queue *queue)
{
    if (!kolo_cuda_is_mine(queue))
        return kolo_fail(KOLO_UNSUPPORTED, "the device stayed with the process that was forked, and CUDA cannot be "
                                           "started in the child; wanted a program of its own");
    KOLO_CUDA(cudaSetDevice(queue->device), "choosing it");
    return KOLO_OK;
}

/* For what gives back: it tells nobody. A child of fork() must not touch what is its parent's. */
static bool can_enter(const kolo_queue *queue)
{
    bool can = kolo_cuda_is_mine(queue) && cudaSetDevice(queue->device) == cudaSuccess;
    if (!can) cudaGetLastError();
    return can;
}

static void close_queue(kolo_queue **queue)
{
    kolo_queue *closed = *queue;
    *queue = NULL;
    if (!closed) return;
    if (!kolo_cuda_is_mine(closed)) {
        free(closed);
        return;
    }
    cudaSetDevice(closed->device);
    if (closed->stream) cudaStreamSynchronize(closed->stream);
    kolo_cuda_free_tables(closed->tables);
    kolo_cuda_close_blas(closed);
    kolo_cuda_close_dnn(closed);
    kolo_cuda_free(closed->turns);
    if (closed->stream) cudaStreamDestroy(closed->stream);
    cudaGetLastError(); /* of a device that is lost */
    free(closed);
}

static kolo_status open_queue(int device, kolo_queue **queue)
{
    kolo_queue *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a queue");
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
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking);
    size_t turns = KOLO_TURNS * sizeof *made->turns;
    if (error == cudaSuccess) error = kolo_cuda_allocate((void **)&made->turns, turns);
    if (error == cudaSuccess) error = cudaMemsetAsync(made->turns, 0, turns, made->stream);
    if (error != cudaSuccess) {
        close_queue(&made);
        return kolo_cuda_fail(error, "beginning");
    }
    *queue = made;
    return KOLO_OK;
}

/* ---- memory ---- */

static kolo_status allocate(kolo_queue *queue, size_t bytes, const char *what, void **memory)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    cudaError_t error = kolo_cuda_allocate(memory, bytes);
    if (error == cudaSuccess) return KOLO_OK;
    if (error != cudaErrorMemoryAllocation) return kolo_cuda_fail(error, "taking memory");
    cudaGetLastError(); /* it is no failure of the device */
    size_t left = 0, total = 0;
    cudaMemGetInfo(&left, &total);
    return kolo_fail(KOLO_MEMORY, "%s: wanted %s of the device's memory, got %s free of %s" KOLO_CUDA_ADVICE, what,
                     kolo_bytes_text((double)bytes), kolo_bytes_text((double)left), kolo_bytes_text((double)total));
}

static void release(kolo_queue *queue, void *memory)
{
    if (!memory || !can_enter(queue)) return;
    cudaStreamSynchronize(queue->stream); /* what runs may still read it */
    kolo_cuda_free(memory);
    cudaGetLastError();
}

static kolo_status allocate_host(kolo_queue *queue, size_t bytes, void **memory)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    cudaError_t error = cudaHostAlloc(memory, bytes ? bytes : 1, cudaHostAllocPortable);
    if (error == cudaSuccess) return KOLO_OK;
    if (error != cudaErrorMemoryAllocation) return kolo_cuda_fail(error, "taking memory of the host");
    cudaGetLastError();
    return kolo_fail(KOLO_MEMORY,
                     "wanted %s of the host's memory that is never swapped out, got none: lower the .batch_size, or "
                     "raise the limit of locked memory",
                     kolo_bytes_text((double)bytes));
}

static void release_host(kolo_queue *queue, void *memory)
{
    if (!memory || !can_enter(queue)) return;
    cudaStreamSynchronize(queue->stream);
    cudaFreeHost(memory);
    cudaGetLastError();
}

/* ---- work ---- */

static kolo_status copy(kolo_queue *queue, void *to, const void *from, size_t bytes)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    if (bytes > 0) KOLO_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue->stream), "copying");
    return KOLO_OK;
}

static kolo_status clear(kolo_queue *queue, void *memory, size_t bytes)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    if (bytes > 0) KOLO_CUDA(cudaMemsetAsync(memory, 0, bytes, queue->stream), "clearing memory");
    return KOLO_OK;
}

static kolo_status call(kolo_queue *queue, void (*work)(void *argument), void *argument)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(cudaLaunchHostFunc(queue->stream, work, argument), "a call of the host");
    return KOLO_OK;
}

static kolo_status set_mark(kolo_queue *queue, kolo_mark **mark)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    if (!*mark) {
        kolo_mark *made = calloc(1, sizeof *made);
        if (!made) return kolo_fail_memory(sizeof *made, "a mark");
        cudaError_t error = cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming);
        if (error != cudaSuccess) {
            free(made);
            return kolo_cuda_fail(error, "making a mark");
        }
        *mark = made;
    }
    KOLO_CUDA(cudaEventRecord((*mark)->event, queue->stream), "setting a mark");
    return KOLO_OK;
}

static kolo_status wait_mark(kolo_queue *queue, kolo_mark *mark)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(cudaEventSynchronize(mark->event), "the work given");
    return kolo_nccl_check(queue->group);
}

static kolo_status follow(kolo_queue *queue, kolo_mark *mark)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(cudaStreamWaitEvent(queue->stream, mark->event, 0), "waiting for another queue");
    return KOLO_OK;
}

static void free_mark(kolo_queue *queue, kolo_mark *mark)
{
    if (!mark) return;
    if (can_enter(queue)) cudaEventDestroy(mark->event);
    free(mark);
}

static kolo_status finish(kolo_queue *queue)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(cudaStreamSynchronize(queue->stream), "the work given");
    return kolo_nccl_check(queue->group);
}

/* ---- recordings ---- */

static kolo_status record(kolo_queue *queue)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal), "beginning to record");
    return KOLO_OK;
}

static kolo_status recorded(kolo_queue *queue, kolo_recording **recording)
{
    cudaGraph_t graph = NULL;
    kolo_recording *made = calloc(1, sizeof *made);
    cudaError_t error = cudaStreamEndCapture(queue->stream, &graph); /* also when there is no memory */
    if (!made) error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess) error = cudaGraphInstantiate(&made->graph, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (error != cudaSuccess) {
        free(made);
        return kolo_cuda_fail(error, "recording a step");
    }
    *recording = made;
    return KOLO_OK;
}

static kolo_status replay(kolo_queue *queue, kolo_recording *recording)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(cudaGraphLaunch(recording->graph, queue->stream), "a recorded step");
    return KOLO_OK;
}

static void free_recording(kolo_queue *queue, kolo_recording *recording)
{
    if (!recording) return;
    if (can_enter(queue)) {
        cudaStreamSynchronize(queue->stream);
        cudaGraphExecDestroy(recording->graph);
        cudaGetLastError();
    }
    free(recording);
}

/* ---- arrays ---- */

static kolo_status gather(kolo_queue *queue, const kolo_sources *from, const kolo_moment *moment, int64_t first,
                          int leaf, const kolo_leaf_arrays *to)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(kolo_cuda_gather(queue->stream, from, moment, first, leaf, to), "gathering samples");
    return KOLO_OK;
}

static kolo_status add(kolo_queue *queue, float *to, const float *from, int64_t count)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(kolo_cuda_add_floats(queue->stream, to, from, count), "adding arrays");
    return KOLO_OK;
}

static kolo_status sum(kolo_queue *queue, double *to, const void *parts, size_t stride, int number, int64_t count)
{
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(kolo_cuda_sum_doubles(queue->stream, to, parts, stride, number, count), "adding parts");
    return KOLO_OK;
}

/* By one of the queue's turns, which is a zero again when it is done. */
static kolo_status are_finite(kolo_queue *queue, const float *values, int64_t count, bool *finite)
{
    static const char doing[] = "looking for what is not finite";
    unsigned odd = 0;
    KOLO_TRY(kolo_cuda_enter(queue));
    KOLO_CUDA(kolo_cuda_count_odd(queue->stream, values, count, queue->turns), doing);
    KOLO_CUDA(cudaMemcpyAsync(&odd, queue->turns, sizeof odd, cudaMemcpyDefault, queue->stream), doing);
    KOLO_CUDA(cudaMemsetAsync(queue->turns, 0, sizeof odd, queue->stream), doing);
    KOLO_TRY(finish(queue));
    *finite = odd == 0;
    return KOLO_OK;
}

const kolo_accelerator kolo_cuda_accelerator = {
    .devices = kolo_cuda_devices,
    .describe = kolo_cuda_describe,
    .is_called = kolo_cuda_is_called,
    .held = kolo_cuda_held,
    .locate = kolo_cuda_locate,
    .connect = kolo_cuda_connect,
    .meter = &kolo_cuda_meter,
    .open = open_queue,
    .close = close_queue,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .copy = copy,
    .clear = clear,
    .call = call,
    .set_mark = set_mark,
    .wait_mark = wait_mark,
    .follow = follow,
    .free_mark = free_mark,
    .finish = finish,
    .record = record,
    .recorded = recorded,
    .replay = replay,
    .free_recording = free_recording,
    .gather = gather,
    .add = add,
    .sum = sum,
    .are_finite = are_finite,
    .has_rule = kolo_cuda_has_rule,
    .expect_updates = kolo_cuda_expect_updates,
    .update = kolo_cuda_update_weights,
    .join = kolo_nccl_join,
    .allreduce = kolo_nccl_allreduce,
    .leave = kolo_nccl_leave,
    .fill_moment = kolo_cuda_fill,
    .penalty = kolo_cuda_penalty,
};
