/* NCCL among threads and processes of this machine: see nccl.h and nccl_members.h. A sum is work of every member's
 * stream; whoever comes to it first in a process has the others' streams there run up to theirs, as far as these have
 * been given it, and waits for members that have not. A process whose members are waited for elsewhere runs their
 * streams, too, though nobody waits for them here.
 *
 * KOLO_SHIM_NCCL_LOST=r: member r is lost at its first sum, and NCCL finds that out.
 * KOLO_SHIM_NCCL_LATE=1: a call says ncclInProgress, and another thread gives the sum to the stream some time later.
 * KOLO_SHIM_RANKS=1: threads stand for ranks, which wait for no other's driver (mind_sums()).
 * KOLO_SHIM_NCCL_DEAF=1: nobody finds out that a member gave up joining. That one's process has died never is: others
 * wait for it.
 */
#include "nccl.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>

#include "blocks.h"
#include "nccl_members.h"
#include "streams.h"

namespace
{

struct Sum { /* one, over all members; of these those of this process: */
    ncclDataType_t type = ncclFloat;
    size_t count = 0, arrived = 0;
    bool done = false, begun = false, lost = false; /* lost: a member of this process's left before it was done */
    std::map<int, const void *> from;
    std::map<int, void *> to;
    std::map<int, std::pair<kolo_shim_stream *, size_t>> given; /* where in whose stream */
    std::map<int, bool> here;
};

struct Group {
    std::shared_ptr<kolo_shim_members> all;
    std::map<int, ncclComm *> members; /* of this process */
    std::map<size_t, std::shared_ptr<Sum>> sums;
    size_t sums_done = 0;
    bool attended = false; /* by a thread that sees whether it is waited for */
    explicit Group(std::shared_ptr<kolo_shim_members> all) : all(std::move(all))
    {
    }
};
std::map<std::string, std::shared_ptr<Group>> groups;

struct Ending { /* of the process: what is static goes */
    bool now = false;
    ~Ending()
    {
        Turn turn(whole);
        now = true;
    }
} ending;

} // namespace

struct ncclComm {
    std::shared_ptr<Group> group;
    int rank;
    ncclResult_t state = ncclInProgress;
    std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
    std::shared_ptr<bool> launching = std::make_shared<bool>(false); /* a sum is not in its stream yet */
    size_t sums = 0;
};

namespace
{

/* Of those of this process, who are all here. */
void add_up(Group &group, Sum &sum, const bool &aborted)
{
    kolo_shim_sum part = {sum.type, sum.count, {}, {}, {}};
    for (auto &from : sum.from) {
        part.ranks.push_back(from.first);
        part.from.push_back(from.second);
        part.to.push_back(sum.to[from.first]);
    }
    sum.begun = true;
    if (group.all->add_up(part, [&] { return aborted || sum.lost; })) {
        sum.done = true;
        group.sums.erase(group.sums_done++);
    }
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
        if (!sum->begun && !sum->lost && sum->arrived == group->members.size()) add_up(*group, *sum, *aborted);
        else if (sum->begun || !bring_one(*sum)) changed.wait(whole);
    }
}

/* Of a process that has not all members, while it has any: it runs their streams where others wait for them. */
void attend(const std::shared_ptr<Group> &group)
{
    for (bool some = true; some; usleep(200)) {
        Turn turn(whole);
        some = !group->members.empty() && !ending.now;
        auto sum = group->sums.find(group->sums_done);
        if (!some || sum == group->sums.end() || sum->second->given.empty() || !group->all->is_waited_for()) continue;
        auto place = sum->second->given.begin()->second;
        run_until(place.first, place.second);
    }
}

/* As NCCL does where a communicator does not block: the caller is to wait until it is no longer in progress. */
ncclResult_t launch_late(ncclComm &comm, const std::function<void()> &launch)
{
    std::shared_ptr<bool> launching = comm.launching, aborted = comm.aborted;
    *launching = true;
    std::thread([=] {
        usleep(500);
        Turn turn(whole);
        if (!*aborted && !ending.now) launch();
        *launching = false;
        changed.notify_all();
    }).detach();
    return ncclInProgress;
}

/* What has become of it. */
void look(ncclComm *comm)
{
    Group &group = *comm->group;
    bool joining = comm->state == ncclInProgress;
    if (!joining && comm->state != ncclSuccess) return;
    if (group.all->broken()) comm->state = ncclRemoteError;
    else if (joining && group.all->all_in()) comm->state = group.all->same_devices() ? ncclInvalidUsage : ncclSuccess;
    if (!joining || comm->state != ncclSuccess || group.attended) return;
    group.attended = true;
    std::shared_ptr<Group> kept = comm->group;
    if ((int)group.members.size() < group.all->size()) std::thread([=] { attend(kept); }).detach();
}

} // namespace

void mind_sums(const char *call)
{
    if (getenv("KOLO_SHIM_RANKS")) return;
    for (auto &group : groups)
        for (auto &sum : group.second->sums)
            if (!sum.second->lost && !sum.second->from.empty() &&
                sum.second->from.size() < group.second->members.size())
                kolo_shim_refuse("%s while a sum waits for a thread of this process: on a device it may wait, too",
                                 call);
}

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    Turn turn(whole);
    std::shared_ptr<kolo_shim_members> all = kolo_shim_members::begin(id);
    if (!all) return ncclSystemError;
    groups[id->internal] = std::make_shared<Group>(all);
    return ncclSuccess;
}

/* Non-blocking alone. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    Turn turn(whole);
    *comm = nullptr;
    bool fine = config && config->size == sizeof *config && config->magic == 0xcafebeef && config->blocking == 0;
    if (!fine || size < 1 || rank < 0 || rank >= size) return ncclInvalidArgument;
    std::shared_ptr<Group> &group = groups[id.internal];
    if (!group) group = std::make_shared<Group>(kolo_shim_members::find(id));
    int device;
    struct cudaDeviceProp properties;
    cudaGetDevice(&device);
    if (!group->all) return ncclSystemError;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return ncclUnhandledCudaError;
    if (!group->all->enter(rank, size, properties.pciBusID)) return ncclInvalidUsage;
    *comm = group->members[rank] = new ncclComm{group, rank};
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    Turn turn(whole);
    if (!comm) return ncclInvalidArgument;
    look(comm);
    *error = *comm->launching && comm->state == ncclSuccess ? ncclInProgress : comm->state;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream)
{
    Turn turn(whole);
    size_t bytes = count * (type == ncclDouble ? sizeof(double) : sizeof(float));
    if (!comm || (type != ncclFloat && type != ncclDouble) || operation != ncclSum) return ncclInvalidArgument;
    if (comm->state != ncclSuccess || *comm->launching || stream->capturing) return ncclInvalidUsage;
    if (!kolo_shim_on_device(from, bytes) || !kolo_shim_on_device(to, bytes)) return ncclInvalidArgument;
    std::shared_ptr<Group> group = comm->group;
    const char *lost = getenv("KOLO_SHIM_NCCL_LOST");
    if (lost && atoi(lost) == comm->rank) {
        group->all->break_up();
        return ncclSystemError;
    }
    std::shared_ptr<Sum> &sum = group->sums[comm->sums++];
    if (!sum) sum = std::make_shared<Sum>();
    if (!sum->from.empty() && (sum->count != count || sum->type != type))
        kolo_shim_refuse("members sum %zu and %zu numbers, or of two types", sum->count, count);
    sum->count = count;
    sum->type = type;
    sum->from[comm->rank] = from;
    sum->to[comm->rank] = to;
    std::shared_ptr<Sum> part = sum;
    std::shared_ptr<bool> aborted = comm->aborted;
    int rank = comm->rank;
    auto launch = [=] {
        give(stream, [=] { take_part(group, part, rank, aborted); });
        part->given[rank] = {stream, stream->given};
        changed.notify_all();
    };
    if (getenv("KOLO_SHIM_NCCL_LATE")) return launch_late(*comm, launch);
    launch();
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
    std::shared_ptr<Group> group = comm->group;
    *comm->aborted = abort;
    while (*comm->launching && !abort) changed.wait(whole);
    look(comm);
    bool joining = abort && comm->state == ncclInProgress;
    if (joining && !getenv("KOLO_SHIM_NCCL_DEAF")) group->all->break_up(); /* the others see its connections end */
    group->all->leave(comm->rank);
    for (auto &sum : group->sums) {
        sum.second->given.erase(comm->rank);
        sum.second->lost = true;
    }
    group->members.erase(comm->rank);
    for (auto known = groups.begin(); group->members.empty() && known != groups.end();)
        known = known->second == group ? groups.erase(known) : std::next(known);
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
