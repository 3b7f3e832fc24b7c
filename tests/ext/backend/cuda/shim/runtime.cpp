/* The calls of CUDA's runtime, on the host. Read cuda_runtime.h here first.
 *
 * What a stream is given waits until somebody waits for it: a call that lends its arguments for too short a time, or
 * reads a result too early, then shows. With KOLO_SHIM_FENCES=1 kernels and libraries reach their own device's memory
 * alone, and crash elsewhere. There are KOLO_SHIM_DEVICES devices (1), which share a memory of
 * KOLO_SHIM_MEMORY bytes; memory begins as bytes of 0xFF, which no float survives.
 */
#include "cuda_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <unistd.h>

#include "blocks.h"
#include "memory.h"
#include "trace.h"

double kolo_shim_latest;
std::recursive_mutex whole;
std::condition_variable_any &changed = *new std::condition_variable_any; /* some may wait when the process ends */
std::set<kolo_shim_stream *> streams, captures;

namespace
{

std::map<char *, size_t> pinned;
std::map<std::pair<int, const void *>, size_t>
    shared_most; /* of kernels that asked for more than they may have without */
size_t in_use, most_in_use;
thread_local int device;
thread_local cudaError_t last = cudaSuccess;
thread_local bool called_by_stream;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

size_t number(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

/* Devices by their numbers in the machine, as the driver found them when it started: KOLO_SHIM_DEVICES of them, and of
 * those the ones that CUDA_VISIBLE_DEVICES lists. */
const std::vector<int> &shown()
{
    static const std::vector<int> devices = [] {
        std::vector<int> found;
        int there = (int)number("KOLO_SHIM_DEVICES", 1);
        const char *mask = getenv("CUDA_VISIBLE_DEVICES");
        for (int i = 0; !mask && i < there; i++) found.push_back(i);
        while (mask && *mask) {
            char *end;
            long entry = strtol(mask, &end, 10);
            if (end == mask || (*end && *end != ',') || entry < 0 || entry >= there) break;
            found.push_back((int)entry);
            mask = end + (*end == ',');
        }
        return found;
    }();
    return devices;
}

bool is_pinned(const void *memory)
{
    auto after = pinned.upper_bound((char *)memory);
    if (after == pinned.begin()) return false;
    --after;
    return (char *)memory < after->first + after->second;
}

bool has_fences()
{
    static const bool has = number("KOLO_SHIM_FENCES", 0) != 0;
    return has;
}

/* A device's own work. */
Work fenced(int own, Work work)
{
    if (!has_fences()) return work;
    return [=] {
        kolo_shim_fence_memory(own, true);
        work();
        kolo_shim_fence_memory(own, false);
    };
}

} // namespace

cudaError_t fail(cudaError_t error)
{
    last = error;
    return error;
}

bool may_allocate()
{
    bool may = true;
    for (kolo_shim_stream *stream : captures) {
        bool own = stream->captor == std::this_thread::get_id();
        bool prohibited =
            own ? stream->mode != cudaStreamCaptureModeRelaxed : stream->mode == cudaStreamCaptureModeGlobal;
        if (thread_mode == cudaStreamCaptureModeRelaxed || !prohibited) continue;
        if (!own && thread_mode == cudaStreamCaptureModeThreadLocal) continue;
        stream->invalid = true;
        may = false;
    }
    return may;
}

bool may_share(int device, const void *kernel, size_t bytes)
{
    auto asked = shared_most.find({device, kernel});
    return bytes <= (asked != shared_most.end() ? asked->second : (size_t)48 << 10);
}

cudaError_t give(cudaStream_t stream, Work work)
{
    if (stream->capturing) {
        stream->captured.push_back({std::move(work), 0, 0});
        return cudaSuccess;
    }
    stream->waiting.push_back(std::move(work));
    stream->given++;
    return cudaSuccess;
}

namespace
{

cudaError_t give_copy(cudaStream_t stream, const char *what, size_t read, size_t written, Work work)
{
    if (!kolo_shim_traces()) return give(stream, std::move(work));
    kolo_shim_record record;
    record.range = kolo_shim_range();
    record.what = what;
    record.read = read;
    record.written = written;
    return give(stream, kolo_shim_written_down(record, KOLO_SHIM_COPY, std::move(work)));
}

} // namespace

void run_until(kolo_shim_stream *stream, size_t end)
{
    kolo_shim_open_memory();
    while (stream->done - stream->running < end && !(stream->waiting.empty() && !stream->running)) {
        if (stream->running) { /* by another thread, which waits for others */
            changed.wait(whole);
            continue;
        }
        Work work = std::move(stream->waiting.front());
        stream->waiting.pop_front();
        stream->done++;
        stream->running = true;
        work();
        stream->running = false;
        changed.notify_all();
    }
    kolo_shim_close_memory();
}

cudaError_t kolo_shim_give(cudaStream_t stream, Work work)
{
    Turn turn(whole);
    return give(stream, fenced(stream->device, std::move(work)));
}

cudaError_t kolo_shim_fail(cudaError_t error)
{
    return fail(error);
}

int kolo_shim_number(int wanted)
{
    return wanted >= 0 && wanted < (int)shown().size() ? shown()[(size_t)wanted] : -1;
}

int kolo_shim_owner(const void *memory, size_t bytes)
{
    Turn turn(whole);
    return kolo_shim_in_memory(memory, bytes) ? kolo_shim_memory_owner(memory) : -1;
}

bool kolo_shim_on_device(const void *memory, size_t bytes)
{
    Turn turn(whole);
    return kolo_shim_in_memory(memory, bytes);
}

namespace
{

/* Compute capability, 10 · major + minor. */
int capability()
{
    return (int)number("KOLO_SHIM_CAPABILITY", 90);
}

/* A captured launch keeps what its graph checks again when it is instantiated and launched. */
cudaError_t give_launch(cudaStream_t stream, const void *kernel, size_t shared, Work work)
{
    cudaError_t error = give(stream, std::move(work));
    if (error != cudaSuccess || !stream->capturing) return error;
    Node &node = stream->captured.back();
    node.kernel = kernel;
    node.device = device;
    node.shared = shared;
    return cudaSuccess;
}

cudaError_t launch(cudaStream_t stream, const void *kernel, dim3 blocks, dim3 threads, size_t shared,
                   kolo_shim_body body)
{
    if (!kolo_shim_can_run(blocks, threads)) return cudaErrorInvalidConfiguration;
    if (!may_share(device, kernel, shared)) return cudaErrorInvalidValue;
    if (stream->device != device) return cudaErrorInvalidResourceHandle;
    Work work = fenced(device, [=] { kolo_shim_run_blocks(kernel, blocks, threads, shared, body); });
    if (!kolo_shim_traces()) return give_launch(stream, kernel, shared, work);
    kolo_shim_record record;
    record.range = kolo_shim_range();
    record.what = kolo_shim_kernel_name(kernel);
    record.blocks = blocks;
    record.threads = threads;
    record.shared = shared;
    return give_launch(stream, kernel, shared, kolo_shim_written_down(record, KOLO_SHIM_KERNEL, work));
}

} // namespace

/* Of CUDA's table of technical specifications. */
size_t kolo_shim_shared_limit()
{
    switch (capability()) {
    case 70: return 96 << 10;
    case 75: return 64 << 10;
    case 80:
    case 87: return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121: return 99 << 10;
    default: return 227 << 10;
    }
}

/* Fails with what calls before it have left, too, as cudaGetLastError() behind a launch does. */
cudaError_t kolo_shim_launch(cudaStream_t stream, const void *kernel, dim3 blocks, dim3 threads, size_t shared,
                             kolo_shim_body body)
{
    cudaError_t fault = kolo_shim_fault("a launch", cudaErrorInvalidValue, false);
    Turn turn(whole);
    if (fault == cudaSuccess) fault = launch(stream, kernel, blocks, threads, shared, std::move(body));
    cudaError_t left = cudaGetLastError();
    return fault != cudaSuccess ? fault : left;
}

/* ---- what fails on purpose, and what is left ---- */

static struct {
    long calls, wanted; /* 0: none */
    long waits;
    std::map<std::string, long> by_name;
    bool for_good, dead;
    std::string failed;
    std::set<int> entered; /* devices */
    pid_t process; /* that the driver was started in */
} faults;

void kolo_shim_fail(long number, bool for_good)
{
    Turn turn(whole);
    faults.calls = 0;
    faults.wanted = number;
    faults.for_good = for_good;
    faults.dead = false;
    faults.failed.clear();
    faults.entered.clear();
    last = cudaSuccess;
}
long kolo_shim_calls(void)
{
    Turn turn(whole);
    return faults.calls;
}
const char *kolo_shim_failed(void)
{
    Turn turn(whole);
    return faults.failed.c_str();
}

long kolo_shim_calls_of(const char *call)
{
    Turn turn(whole);
    return faults.by_name[call];
}

long kolo_shim_waits(void)
{
    Turn turn(whole);
    return faults.waits;
}

cudaError_t kolo_shim_fault(const char *call, cudaError_t error, bool gives_back)
{
    Turn turn(whole);
    if (!faults.process) faults.process = getpid();
    if (faults.process != getpid()) return fail(cudaErrorInitializationError);
    if (called_by_stream) return fail(cudaErrorNotPermitted);
    if (faults.dead) return fail(cudaErrorIllegalAddress);
    faults.by_name[call]++;
    faults.waits += strcmp(call, "cudaStreamSynchronize") == 0 || strcmp(call, "cudaEventSynchronize") == 0;
    if (gives_back || ++faults.calls != faults.wanted) return cudaSuccess;
    faults.failed = call;
    faults.dead = faults.for_good;
    return fail(faults.dead ? cudaErrorIllegalAddress : error);
}

kolo_shim_census kolo_shim_count(void)
{
    Turn turn(whole);
    kolo_shim_census census = {in_use, 0, (int)streams.size(), event_count(), graph_count(), most_in_use};
    for (auto &block : pinned) census.host_bytes += block.second;
    most_in_use = in_use;
    return census;
}

void kolo_shim_forget(void)
{
    Turn turn(whole);
    kolo_shim_forget_memory();
    for (auto &block : pinned) {
        kolo_shim_unwatch(block.first);
        free(block.first);
    }
    for (kolo_shim_stream *stream : streams) delete stream;
    forget_captured_graphs();
    pinned.clear(), streams.clear(), captures.clear();
    in_use = 0;
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    if (number("KOLO_SHIM_OLD_DRIVER", 0)) return fail(cudaErrorInsufficientDriver);
    *count = (int)shown().size();
    return *count ? cudaSuccess : fail(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int wanted)
{
    if (wanted < 0 || wanted >= (int)shown().size()) return fail(cudaErrorInvalidDevice);
    device = wanted;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *current)
{
    *current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int wanted)
{
    if (wanted < 0 || wanted >= (int)shown().size()) return fail(cudaErrorInvalidDevice);
    int number_there = shown()[(size_t)wanted];
    *properties = cudaDeviceProp{};
    snprintf(properties->name, sizeof properties->name, "simulated device %d", number_there);
    for (int i = 0; i < 16; i++) properties->uuid.bytes[i] = (char)(0xA0 + i + 16 * number_there);
    properties->totalGlobalMem = number("KOLO_SHIM_MEMORY", (size_t)4 << 30);
    properties->multiProcessorCount = 4;
    properties->major = capability() / 10;
    properties->minor = capability() % 10;
    properties->pciBusID = number_there;
    return cudaSuccess;
}
/* KOLO_SHIM_CAPABILITY: 10 · major + minor */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int)
{
    if (attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin) *value = (int)kolo_shim_shared_limit();
    else *value = attribute == cudaDevAttrComputeCapabilityMajor ? capability() / 10 : capability() % 10;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    Turn turn(whole);
    *total = number("KOLO_SHIM_MEMORY", (size_t)4 << 30);
    *left = *total > in_use ? *total - in_use : 0;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    Turn turn(whole);
    mind_sums("cudaMalloc");
    if (!may_allocate()) return fail(cudaErrorStreamCaptureUnsupported);
    size_t left, total, rounded = (bytes + 255) / 256 * 256;
    cudaMemGetInfo(&left, &total);
    *memory = rounded <= left ? kolo_shim_take_memory(bytes, device) : nullptr;
    if (!*memory) return fail(cudaErrorMemoryAllocation);
    in_use += rounded;
    if (in_use > most_in_use) most_in_use = in_use;
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory)
{
    Turn turn(whole);
    if (!memory) return cudaSuccess;
    if (!may_allocate()) return fail(cudaErrorStreamCaptureUnsupported);
    size_t rounded = kolo_shim_free_memory(memory);
    if (!rounded) return fail(cudaErrorInvalidValue);
    in_use -= rounded;
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned)
{
    Turn turn(whole);
    mind_sums("cudaHostAlloc");
    if (!may_allocate()) return fail(cudaErrorStreamCaptureUnsupported);
    *memory = malloc(bytes ? bytes : 1);
    if (!*memory) return fail(cudaErrorMemoryAllocation);
    memset(*memory, 0xFF, bytes);
    pinned[(char *)*memory] = bytes ? bytes : 1;
    kolo_shim_watch((char *)*memory, bytes ? bytes : 1); /* kernels may use it, too, and the host writes there unseen */
    kolo_shim_came(*memory, nullptr, bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory)
{
    Turn turn(whole);
    if (!memory) return cudaSuccess;
    if (!may_allocate()) return fail(cudaErrorStreamCaptureUnsupported);
    if (!pinned.erase((char *)memory)) return fail(cudaErrorInvalidValue);
    kolo_shim_unwatch((char *)memory);
    free(memory);
    return cudaSuccess;
}

/* Pageable memory is read before the call returns, and written before it does. CUDA promises that of small sources
 * alone: with KOLO_SHIM_LATE_COPIES=1 pageable memory is read when the stream comes to the copy. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind, cudaStream_t stream)
{
    Turn turn(whole);
    bool from_device = kolo_shim_in_memory(from, 1), to_device = kolo_shim_in_memory(to, 1);
    if ((from_device && !kolo_shim_in_memory(from, bytes)) || (to_device && !kolo_shim_in_memory(to, bytes)))
        return fail(cudaErrorInvalidValue);
    bool reads_host = !from_device && !is_pinned(from), writes_host = !to_device && !is_pinned(to);
    if (stream->capturing && (reads_host || writes_host)) return fail(cudaErrorStreamCaptureUnsupported);
    if (reads_host && !number("KOLO_SHIM_LATE_COPIES", 0)) {
        std::vector<char> copy((const char *)from, (const char *)from + bytes);
        give_copy(stream, "copy from the host", 0, bytes, [=] {
            kolo_shim_came(to, copy.data(), bytes);
            memcpy(to, copy.data(), bytes);
        });
    } else {
        const char *what = !from_device ? "copy from the host" : to_device ? "copy" : "copy to the host";
        give_copy(stream, what, from_device ? bytes : 0, to_device ? bytes : 0, [=] {
            kolo_shim_came(to, from, bytes);
            memmove(to, from, bytes);
        });
    }
    if (writes_host) run_until(stream, stream->given);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    Turn turn(whole);
    if (!kolo_shim_in_memory(memory, bytes)) return fail(cudaErrorInvalidValue);
    return give_copy(stream, "clear", 0, bytes, [=] {
        kolo_shim_came(memory, nullptr, bytes);
        memset(memory, value, bytes);
    });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    Turn turn(whole);
    *stream = new kolo_shim_stream;
    (*stream)->device = device;
    streams.insert(*stream);
    (*stream)->clock = kolo_shim_latest;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    Turn turn(whole);
    run_until(stream, stream->given);
    captures.erase(stream);
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    Turn turn(whole);
    if (stream->capturing) stream->invalid = true;
    if (stream->capturing || !may_allocate()) return fail(cudaErrorStreamCaptureUnsupported);
    run_until(stream, stream->given);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void *argument)
{
    Turn turn(whole);
    return give(stream, [=] {
        called_by_stream = true;
        work(argument);
        called_by_stream = false;
    });
}

cudaError_t kolo_shim_set_device(int device)
{
    Turn turn(whole);
    bool again = !faults.entered.insert(device).second;
    cudaError_t fault = kolo_shim_fault("cudaSetDevice", cudaErrorDevicesUnavailable, again);
    return fault != cudaSuccess ? fault : cudaSetDevice(device);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    std::swap(*mode, thread_mode);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute, int value)
{
    Turn turn(whole);
    if (value < 0 || value > (int)kolo_shim_shared_limit()) return fail(cudaErrorInvalidValue);
    shared_most[{device, kernel}] = (size_t)value;
    return cudaSuccess;
}
/* Nobody knows a kernel's static shared memory before it runs (checks.cpp). */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    Turn turn(whole);
    auto asked = shared_most.find({device, kernel});
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->maxDynamicSharedSizeBytes = asked != shared_most.end() ? (int)asked->second : 48 << 10;
    return number("KOLO_SHIM_WITHOUT_CODE", 0) ? fail(cudaErrorNoKernelImageForDevice) : cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}
const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError: return "cudaErrorInitializationError";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: return "an error of the shim's";
    }
}
const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : error ? "not what CUDA would take" : "no error";
}
}
