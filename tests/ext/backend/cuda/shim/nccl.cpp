/* NCCL among threads: see nccl.h here. A sum is work of every member's stream; whoever comes to it first has the others'
 * streams run up to theirs, as far as these have been given it, and waits for members that have not.
 *
 * KOLO_SHIM_NCCL_LOST=r: member r is lost at its first sum, and NCCL finds that out.
 */
#include "nccl.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "blocks.h"
#include "streams.h"

namespace {

struct Sum { /* one, over all members */
    size_t count = 0, arrived = 0;
    ncclDataType_t type = ncclFloat;
    bool done = false;
    std::map<int, const void *> from;
    std::map<int, void *> to;
    std::map<int, std::pair<kolo_shim_stream *, size_t>> given; /* where in whose stream */
    std::map<int, bool> here;
};

struct Group {
    int size = 0;
    bool broken = false; /* a member left before all were in */
    std::map<int, ncclComm *> members;
    std::map<size_t, std::shared_ptr<Sum>> sums;
};
std::map<int, std::shared_ptr<Group>> groups;
int ids;

} // namespace

struct ncclComm {
    std::shared_ptr<Group> group;
    int rank, device;
    ncclResult_t state = ncclInProgress;
    std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
    size_t sums = 0;
};

namespace {

void tell_all(Group &group, ncclResult_t state)
{
    for (auto &member : group.members) member.second->state = state;
    changed.notify_all();
}

/* The order is the members'. */
template <typename T> void add_numbers(Sum &sum)
{
    std::vector<T> total(sum.count, 0);
    for (auto &from : sum.from)
        for (size_t i = 0; i < sum.count; i++) total[i] += ((const T *)from.second)[i];
    for (auto &to : sum.to) {
        kolo_shim_came(to.second, nullptr, sum.count * sizeof(T));
        memcpy(to.second, total.data(), sum.count * sizeof(T));
    }
}

void add_up(Sum &sum)
{
    sum.type == ncclDouble ? add_numbers<double>(sum) : add_numbers<float>(sum);
    sum.done = true;
    changed.notify_all();
}

/* Whether one of the others, whom nobody runs, could be brought here. */
bool bring_one(Sum &sum)
{
    for (auto &place : sum.given) {
        kolo_shim_stream *stream = place.second.first;
        if (sum.here[place.first] || stream->running) continue;
        run_until(stream, place.second.second - 1);
        sum.here[place.first] = true;
        sum.arrived++;
        return true;
    }
    return false;
}

void take_part(const std::shared_ptr<Group> &group, const std::shared_ptr<Sum> &sum, int rank,
               const std::shared_ptr<bool> &aborted)
{
    if (!sum->here[rank]) sum->arrived++;
    sum->here[rank] = true;
    while (!sum->done && !*aborted) {
        if (sum->arrived == (size_t)group->size) add_up(*sum);
        else if (!bring_one(*sum)) changed.wait(whole);
    }
}

bool same_devices(const Group &group)
{
    for (auto &a : group.members)
        for (auto &b : group.members)
            if (a.first < b.first && a.second->device == b.second->device) return true;
    return false;
}

} // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    Turn turn(whole);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%d", ++ids);
    groups[ids] = std::make_shared<Group>();
    return ncclSuccess;
}

/* Non-blocking alone. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    Turn turn(whole);
    auto found = groups.find(atoi(id.internal));
    *comm = nullptr;
    bool fine = config && config->size == sizeof *config && config->magic == 0xcafebeef && config->blocking == 0;
    if (!fine || found == groups.end() || size < 1 || rank < 0 || rank >= size) return ncclInvalidArgument;
    Group &group = *found->second;
    if ((group.size && group.size != size) || group.members.count(rank)) return ncclInvalidUsage;
    int device;
    struct cudaDeviceProp properties;
    cudaGetDevice(&device);
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return ncclUnhandledCudaError;
    group.size = size;
    *comm = group.members[rank] = new ncclComm{found->second, rank, properties.pciBusID};
    if (group.broken) tell_all(group, ncclRemoteError);
    else if ((int)group.members.size() == size) tell_all(group, same_devices(group) ? ncclInvalidUsage : ncclSuccess);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    Turn turn(whole);
    if (!comm) return ncclInvalidArgument;
    *error = comm->state;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream)
{
    Turn turn(whole);
    size_t bytes = count * (type == ncclDouble ? sizeof(double) : sizeof(float));
    if (!comm || (type != ncclFloat && type != ncclDouble) || operation != ncclSum) return ncclInvalidArgument;
    if (comm->state != ncclSuccess || stream->capturing) return ncclInvalidUsage;
    if (!kolo_shim_on_device(from, bytes) || !kolo_shim_on_device(to, bytes))
        return ncclInvalidArgument;
    std::shared_ptr<Group> group = comm->group;
    const char *lost = getenv("KOLO_SHIM_NCCL_LOST");
    if (lost && atoi(lost) == comm->rank) {
        tell_all(*group, ncclRemoteError);
        return ncclSystemError;
    }
    std::shared_ptr<Sum> &sum = group->sums[comm->sums++];
    if (!sum) sum = std::make_shared<Sum>();
    if (!sum->from.empty() && (sum->count != count || sum->type != type)) {
        fprintf(stderr, "shim: members sum %zu and %zu numbers, or of two types\n", sum->count, count);
        abort();
    }
    sum->count = count;
    sum->type = type;
    sum->from[comm->rank] = from;
    sum->to[comm->rank] = to;
    std::shared_ptr<Sum> part = sum;
    std::shared_ptr<bool> aborted = comm->aborted;
    int rank = comm->rank;
    give(stream, [=] { take_part(group, part, rank, aborted); });
    part->given[rank] = {stream, stream->given};
    changed.notify_all();
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t end(ncclComm_t comm, bool abort)
{
    Turn turn(whole);
    if (!comm) return ncclInvalidArgument;
    *comm->aborted = abort;
    comm->group->members.erase(comm->rank);
    if (abort && comm->state != ncclSuccess) comm->group->broken = true; /* the others see its connections end */
    if (comm->group->broken) tell_all(*comm->group, ncclRemoteError);
    for (auto &sum : comm->group->sums)
        if (!sum.second->done) sum.second->given.erase(comm->rank);
    changed.notify_all();
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return end(comm, false);
}
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return end(comm, true);
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "NCCL operation in progress";
    }
}
const char *ncclGetLastError(ncclComm_t)
{
    return "";
}
}
