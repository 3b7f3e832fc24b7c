/* CUDA's calls for copies from device to device, and how long these take. Read machine.h here first. */
#include <algorithm>
#include <map>
#include <set>

#include "machine.h"
#include "streams.h"

namespace
{

std::set<std::pair<int, int>> peers; /* the first has turned on its access to the second */
std::map<int, double> memory_clock;  /* when a device's memory has done what it was asked */

} // namespace

extern "C" {

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int from, int to)
{
    int a = kolo_shim_number(from), b = kolo_shim_number(to);
    if (a < 0 || b < 0 || a == b) return kolo_shim_fail(cudaErrorInvalidDevice);
    *value = attribute == cudaDevP2PAttrAccessSupported && reaches(a, b);
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int from, int to)
{
    return cudaDeviceGetP2PAttribute(can, cudaDevP2PAttrAccessSupported, from, to);
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    Turn turn(whole);
    int can = 0, device;
    cudaGetDevice(&device);
    cudaError_t error = flags ? cudaErrorInvalidValue : cudaDeviceCanAccessPeer(&can, device, peer);
    if (error == cudaSuccess && !can) error = cudaErrorPeerAccessUnsupported;
    if (error == cudaSuccess && !peers.insert({device, peer}).second) error = cudaErrorPeerAccessAlreadyEnabled;
    return error == cudaSuccess ? error : kolo_shim_fail(error);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    Turn turn(whole);
    int device;
    cudaGetDevice(&device);
    return peers.erase({device, peer}) ? cudaSuccess : kolo_shim_fail(cudaErrorPeerAccessNotEnabled);
}

/* A device's memory does one copy within it at a time; between two, whoever has access does it. */
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    Turn turn(whole);
    if (kolo_shim_owner(to, bytes) != to_device || kolo_shim_owner(from, bytes) != from_device || to_device < 0)
        return kolo_shim_fail(cudaErrorInvalidValue);
    bool direct = peers.count({to_device, from_device}) || peers.count({from_device, to_device});
    double seconds = copying(kolo_shim_number(from_device), kolo_shim_number(to_device), direct, bytes);
    double &memory = memory_clock[from_device];
    if (from_device == to_device) stream->clock = memory = std::max(stream->clock, memory) + seconds;
    else stream->clock += seconds;
    kolo_shim_latest = std::max(kolo_shim_latest, stream->clock);
    return kolo_shim_give(stream, [=] { memmove(to, from, bytes); });
}
}
