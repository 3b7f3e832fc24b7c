/* Inside the shim: a stream, and who may touch it. */
#ifndef KOLO_SHIM_STREAMS_H
#define KOLO_SHIM_STREAMS_H

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cuda_runtime.h"

typedef std::function<void()> Work;

/* What is captured: work, or to wait until a branch of the capture has come so far. */
struct Node {
    Work work;
    size_t branch, at;
    const void *kernel = nullptr; /* that is launched, on that device, with so many bytes of dynamic shared memory */
    int device = 0;
    size_t shared = 0;
};

struct kolo_shim_stream {
    int device = 0; /* that was the thread's when it was made */
    std::deque<Work> waiting;
    size_t given = 0, done = 0; /* the last of those done may be running */
    bool running = false, capturing = false, invalid = false;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id captor;
    double clock = 0; /* seconds, in which only copies from device to device take time */
    /* In a capture, which began at `origin` and forks where another stream waits for an event of it: */
    kolo_shim_stream *origin = nullptr;
    size_t times = 0; /* that a capture began here */
    std::vector<kolo_shim_stream *> branches; /* the origin's: itself, and those */
    std::vector<Node> captured;
};
extern std::set<kolo_shim_stream *> streams, captures; /* all; those that capture */

/* The shim does one thing at a time. Work that waits for other threads lets go of it with changed.wait(whole). */
extern std::recursive_mutex whole;
extern std::condition_variable_any &changed; /* something of anybody's */
typedef std::lock_guard<std::recursive_mutex> Turn;

/* Keeps the error for cudaGetLastError(). */
cudaError_t fail(cudaError_t error);
cudaError_t give(cudaStream_t stream, Work work);
/* Whether a launch may have so much dynamic shared memory, as the kernel's limit on the device is now. */
bool may_share(int device, const void *kernel, size_t bytes);
/* Whether the thread may take or give back memory, or wait: not while it captures, as far as the modes go, and what is
 * captured is then lost. */
bool may_allocate();
/* nccl.cpp: ends the program if a sum waits for a thread of this process: the driver may make this call wait for it. */
void mind_sums(const char *call);
/* captures.cpp: events and graphs that there are; all of them go. */
int event_count();
int graph_count();
void forget_captured_graphs();

/* Everything up to the work with that number; with a Turn, and no other. */
void run_until(kolo_shim_stream *stream, size_t end);

extern double kolo_shim_latest; /* of any stream's clock */
/* A device's number in the machine, -1: there is none; the device that has all of that memory, -1: none. */
int kolo_shim_number(int device);
int kolo_shim_owner(const void *memory, size_t bytes);
/* What cudaGetLastError() then gives. */
cudaError_t kolo_shim_fail(cudaError_t error);

#endif
