/* Measures how fast GPUs copy to each other, with and without peer access. See backend/meter.h.
 *
 * It does so like NVIDIA's p2pBandwidthLatencyTest: all copies are enqueued while the first stream is held, so that the
 * events time the copies and not their enqueuing. */
#include "backend/cuda/cuda.h"
#include "core/clock.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SMALL        16  /* bytes of a copy that measures the latency */
#define SMALL_COPIES 100 /* the number of those copies */
#define HOLD_SECONDS 0.2 /* the longest hold: if its queue is full, the driver blocks until the stream goes on */

struct kolo_pair {
    int device[2];
    size_t bytes;
    bool same, direct; /* both devices are the same one; peer access is turned on */
    bool ours[2];      /* this pair has turned on the access of device [side] to the other */
    bool foreign;      /* other code has turned on access in at least one direction, so it stays on */
    cudaStream_t stream[2];
    cudaEvent_t begin, end, joined; /* recorded on the first stream, the first, the second */
    void *source[2], *target[2];
    atomic_bool released;
};

/* ---- peer access ---- */

static kolo_status turn_on(kolo_pair *pair, int side)
{
    KOLO_CUDA(cudaSetDevice(pair->device[side]), "choosing it");
    cudaError_t error = cudaDeviceEnablePeerAccess(pair->device[!side], 0);
    if (error != cudaSuccess) cudaGetLastError();
    if (error == cudaErrorPeerAccessAlreadyEnabled) pair->foreign = true;
    else if (error != cudaSuccess) return kolo_cuda_fail(error, "turning on peer access");
    else pair->ours[side] = true;
    return KOLO_OK;
}

static void turn_off(kolo_pair *pair, int side)
{
    if (!pair->ours[side]) return;
    pair->ours[side] = false;
    cudaError_t error = cudaSetDevice(pair->device[side]);
    if (error == cudaSuccess) error = cudaDeviceDisablePeerAccess(pair->device[!side]);
    if (error != cudaSuccess) cudaGetLastError();
}

static kolo_status set_direct(kolo_pair *pair, bool direct)
{
    if (pair->same || pair->direct == direct) return KOLO_OK;
    pair->direct = direct;
    for (int side = 0; side < 2; side++) {
        if (!direct) turn_off(pair, side);
        else KOLO_TRY(turn_on(pair, side));
    }
    return KOLO_OK;
}

/* Turns peer access on and off again: only that shows whether other code has it on (pair->foreign). */
static kolo_status look_for_others(kolo_pair *pair)
{
    int reaches = 0;
    if (pair->same) return KOLO_OK;
    KOLO_CUDA(cudaDeviceCanAccessPeer(&reaches, pair->device[0], pair->device[1]), "asking for peer access");
    if (!reaches) return KOLO_OK;
    KOLO_TRY(set_direct(pair, true));
    return set_direct(pair, false);
}

/* ---- a pair ---- */

static void close_pair(kolo_pair **pair)
{
    kolo_pair *closed = *pair;
    *pair = NULL;
    if (!closed) return;
    for (int side = 0; side < 2; side++) {
        if (!closed->stream[side] || cudaSetDevice(closed->device[side]) != cudaSuccess) continue;
        cudaStreamSynchronize(closed->stream[side]);
        cudaStreamDestroy(closed->stream[side]);
        cudaFree(closed->source[side]);
        cudaFree(closed->target[side]);
    }
    set_direct(closed, false);
    cudaEvent_t const events[] = {closed->begin, closed->end, closed->joined};
    for (int i = 0; i < 3; i++)
        if (events[i]) cudaEventDestroy(events[i]);
    free(closed);
}

static kolo_status take_memory(const kolo_pair *pair, void **memory)
{
    size_t left = 0, total = 0;
    cudaError_t error = cudaMalloc(memory, pair->bytes);
    if (error == cudaSuccess) return KOLO_OK;
    if (error != cudaErrorMemoryAllocation) return kolo_cuda_fail(error, "taking memory");
    cudaGetLastError(); /* the device still works */
    cudaMemGetInfo(&left, &total);
    return kolo_fail(KOLO_MEMORY, "wanted four times %.3g GB of a device's memory, got %.3g GB free: lower .bytes",
                     (double)pair->bytes / 1e9, (double)left / 1e9);
}

static kolo_status take_side(kolo_pair *pair, int side)
{
    KOLO_CUDA(cudaSetDevice(pair->device[side]), "choosing it");
    KOLO_CUDA(cudaStreamCreateWithFlags(&pair->stream[side], cudaStreamNonBlocking), "opening a stream");
    KOLO_TRY(take_memory(pair, &pair->source[side]));
    KOLO_TRY(take_memory(pair, &pair->target[side]));
    KOLO_CUDA(cudaMemsetAsync(pair->source[side], 1, pair->bytes, pair->stream[side]), "clearing memory");
    KOLO_CUDA(cudaMemsetAsync(pair->target[side], 0, pair->bytes, pair->stream[side]), "clearing memory");
    KOLO_CUDA(cudaStreamSynchronize(pair->stream[side]), "clearing memory");
    return KOLO_OK;
}

static kolo_status take_all(kolo_pair *pair)
{
    KOLO_TRY(take_side(pair, 0));
    KOLO_CUDA(cudaEventCreateWithFlags(&pair->begin, cudaEventDefault), "making an event");
    KOLO_CUDA(cudaEventCreateWithFlags(&pair->end, cudaEventDefault), "making an event");
    KOLO_TRY(take_side(pair, 1));
    KOLO_CUDA(cudaEventCreateWithFlags(&pair->joined, cudaEventDisableTiming), "making an event");
    return look_for_others(pair);
}

static kolo_status open_pair(const kolo_side sides[2], int64_t bytes, kolo_pair **pair)
{
    kolo_pair *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "copies between two devices");
    for (int side = 0; side < 2; side++) made->device[side] = sides[side].device;
    made->same = made->device[0] == made->device[1];
    made->bytes = bytes > SMALL ? (size_t)bytes : SMALL;
    kolo_status status = take_all(made);
    if (status == KOLO_OK) *pair = made;
    else close_pair(&made);
    return status;
}

/* ---- copies ---- */

/* Runs on a thread of the driver. */
static void hold(void *argument)
{
    const struct timespec moment = {.tv_nsec = 10000};
    kolo_pair *pair = argument;
    double end = kolo_now() + HOLD_SECONDS;
    while (!atomic_load(&pair->released) && kolo_now() < end) nanosleep(&moment, NULL);
}

static cudaError_t copy_one(kolo_pair *pair, int from, size_t bytes)
{
    return cudaMemcpyPeerAsync(pair->target[!from], pair->device[!from], pair->source[from], pair->device[from], bytes,
                               pair->stream[from]);
}

/* The second stream starts when the first does, and the first ends after the second. */
static cudaError_t give_copies(kolo_pair *pair, const kolo_copies *copies, size_t bytes)
{
    cudaError_t error = cudaLaunchHostFunc(pair->stream[0], hold, pair);
    if (error == cudaSuccess) error = cudaEventRecord(pair->begin, pair->stream[0]);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(pair->stream[1], pair->begin, 0);
    for (int i = 0; i < copies->count && error == cudaSuccess; i++) {
        if (copies->there) error = copy_one(pair, 0, bytes);
        if (copies->back && error == cudaSuccess) error = copy_one(pair, 1, bytes);
    }
    if (error == cudaSuccess) error = cudaEventRecord(pair->joined, pair->stream[1]);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(pair->stream[0], pair->joined, 0);
    return error == cudaSuccess ? cudaEventRecord(pair->end, pair->stream[0]) : error;
}

static kolo_status run(kolo_pair *pair, const kolo_copies *copies, size_t bytes, double *seconds)
{
    float milliseconds = 0;
    *seconds = NAN;
    KOLO_TRY(set_direct(pair, copies->direct));
    if (pair->foreign && !copies->direct) return KOLO_OK; /* the driver would use the access that is on */
    KOLO_CUDA(cudaSetDevice(pair->device[0]), "choosing it");
    atomic_store(&pair->released, false);
    cudaError_t error = give_copies(pair, copies, bytes);
    atomic_store(&pair->released, true);
    cudaError_t waited = cudaStreamSynchronize(pair->stream[0]);
    if (error == cudaSuccess) error = waited;
    if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, pair->begin, pair->end);
    if (error != cudaSuccess) return kolo_cuda_fail(error, "copying to another device");
    *seconds = (double)milliseconds / 1e3;
    return KOLO_OK;
}

static kolo_status time_copies(kolo_pair *pair, const kolo_copies *copies, double *seconds)
{
    return run(pair, copies, pair->bytes, seconds);
}

static kolo_status latency(kolo_pair *pair, bool back, bool direct, double *seconds)
{
    kolo_copies copies = {.count = SMALL_COPIES, .there = !back, .back = back, .direct = direct};
    KOLO_TRY(run(pair, &copies, SMALL, seconds));
    *seconds /= SMALL_COPIES;
    return KOLO_OK;
}

const kolo_meter kolo_cuda_meter = {.open = open_pair, .time = time_copies, .latency = latency, .close = close_pair};
