/* Inside the shim: a stream, and who may touch it. */
#ifndef KOLO_SHIM_STREAMS_H
#define KOLO_SHIM_STREAMS_H

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_runtime.h"

typedef std::function<void()> Work;

struct kolo_shim_stream {
    int device = 0; /* that was the thread's when it was made */
    std::deque<Work> waiting;
    size_t given = 0, done = 0; /* the last of those done may be running */
    bool running = false, capturing = false, invalid = false;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id captor;
    std::vector<Work> captured;
    double clock = 0; /* seconds, in which only copies from device to device take time */
};

/* The shim does one thing at a time. Work that waits for other threads lets go of it with changed.wait(whole). */
extern std::recursive_mutex whole;
extern std::condition_variable_any changed; /* something of anybody's */
typedef std::lock_guard<std::recursive_mutex> Turn;

/* Everything up to the work with that number; with a Turn, and no other. */
void run_until(kolo_shim_stream *stream, size_t end);

extern double kolo_shim_latest; /* of any stream's clock */
/* A device's number in the machine, -1: there is none; the device that has all of that memory, -1: none. */
int kolo_shim_number(int device);
int kolo_shim_owner(const void *memory, size_t bytes);
/* What cudaGetLastError() then gives. */
cudaError_t kolo_shim_fail(cudaError_t error);

#endif
