/* Sums over GPUs by NCCL, as a comm for memory of a stream. See comm/comm.h and backend/stream.h.
 *
 * The members first agree on the host, over their kolo_comm: whether NCCL can be used at all (it cannot for two members
 * on one GPU), the id of the group, and whether all members have joined. Communicators are non-blocking, and each has a
 * thread that watches it. If NCCL finds an error, or a member has aborted the host's comm, the thread aborts the
 * communicator, which ends kernels that would otherwise wait for ever. Calls that wait for the stream then fail.
 */
#include "backend/cuda/cuda.h"
#include "comm/call.h"
#include "comm/comm.h"
#include "core/clock.h"
#include "core/signals.h"

#include <inttypes.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEETING_SECONDS 120   /* the most time for all members to join */
#define MEETING_EVERY   0.05  /* seconds between two exchanges of the joining members' states */
#define LEAVING_SECONDS 10    /* the most time for enqueued sums to finish when a communicator is closed */
#define WATCHING_EVERY  20000 /* microseconds between two checks by the watcher */
#define SPINNING        50e-6 /* seconds of polling without a pause: the shortest sleep takes longer than most calls */

struct kolo_nccl_group {
    kolo_comm base;
    kolo_stream *stream;
    kolo_comm *members;
    pthread_mutex_t lock; /* guards the members from comm to closing */
    ncclComm_t comm; /* NULL after it was aborted */
    char why[200]; /* the reason for it */
    bool closing;
    pthread_t watcher;
    bool watched;
};

/* The same group, whose sums run on another stream of the device. One communicator serves both streams: NCCL runs its
 * sums in the order of their calls. Two communicators of one device could wait for each other's kernels. */
typedef struct group_beside {
    kolo_comm base;
    kolo_nccl_group *group;
    kolo_stream *stream;
} group_beside;

static kolo_status fail(const char *doing, ncclResult_t result, ncclComm_t comm)
{
    const char *more = ncclGetLastError(comm);
    return kolo_fail(KOLO_COMM, "NCCL: %s failed: %s%s%s", doing, ncclGetErrorString(result), more && *more ? ": " : "",
                     more ? more : "");
}

static bool called_off(const kolo_comm *members)
{
    return members->kind->aborted && members->kind->aborted(members);
}

/* ---------------------------------------------------------------- agreeing on the host */

typedef struct standing {
    kolo_failure failure;
    bool waits;
} standing;

/* Exchanges the status of all members. If any has failed, all fail, with the sentence of the first in rank order.
 * *waits: whether this member still waits; on return, whether any member does. */
static kolo_status agree_waiting(kolo_comm *members, kolo_status mine, bool *waits)
{
    standing own = {.waits = *waits};
    if (mine != KOLO_OK) own.failure = kolo_failure_take();
    standing *all = calloc((size_t)members->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)members->size * sizeof *all, "a group of GPUs");
    kolo_status status = members->kind->allgather(members, &own, sizeof own, all);
    *waits = false;
    for (int i = 0; i < members->size && status == KOLO_OK; i++) {
        *waits = *waits || all[i].waits;
        status = all[i].failure.code;
        if (status != KOLO_OK) kolo_failure_give(&all[i].failure);
    }
    free(all);
    return status;
}

static kolo_status agree(kolo_comm *members, kolo_status mine)
{
    return agree_waiting(members, mine, &(bool){false});
}

/* The identity of a device for NCCL: the machine and the PCI address. */
typedef struct place {
    char machine[48];
    int domain, bus, device;
} place;

static kolo_status find_place(const kolo_stream *stream, place *own)
{
    struct cudaDeviceProp properties;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(own->machine, sizeof own->machine, file)) own->machine[0] = '\0';
    if (file) fclose(file);
    KOLO_CUDA(cudaGetDeviceProperties(&properties, stream->device), "asking what it is");
    own->domain = properties.pciDomainID;
    own->bus = properties.pciBusID;
    own->device = properties.pciDeviceID;
    return KOLO_OK;
}

static kolo_status compare_places(const place *all, int count)
{
    bool enough = count <= kolo_cuda_devices();
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (memcmp(&all[i], &all[j], sizeof *all) == 0)
                return kolo_fail(KOLO_UNSUPPORTED,
                                 "replicas %d and %d compute on the same GPU, which NCCL does not serve%s", j, i,
                                 enough ? ": kolo_pin_device(kolo_local_rank()) gives each rank another" : "");
    return KOLO_OK;
}

static kolo_status check_places(const kolo_stream *stream, kolo_comm *members)
{
    place own = {.domain = 0};
    KOLO_TRY(agree(members, find_place(stream, &own)));
    place *all = calloc((size_t)members->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)members->size * sizeof *all, "a group of GPUs");
    kolo_status status = members->kind->allgather(members, &own, sizeof own, all);
    if (status == KOLO_OK) status = compare_places(all, members->size); /* the same on every member */
    free(all);
    return status;
}

static kolo_status share_id(kolo_comm *members, ncclUniqueId *id)
{
    kolo_status status = KOLO_OK;
    if (members->rank == 0) {
        ncclResult_t result = ncclGetUniqueId(id);
        if (result != ncclSuccess) status = fail("naming a group", result, NULL);
    }
    KOLO_TRY(agree(members, status));
    return members->kind->broadcast(members, id, sizeof *id, 0);
}

/* ---------------------------------------------------------------- the communicator */

/* Waits until the communicator has finished the call that returned *result, at most `seconds`. After that time *result
 * is still ncclInProgress. */
static kolo_status settle(const kolo_comm *members, ncclComm_t comm, ncclResult_t *result, const char *doing,
                          double seconds)
{
    for (double until = kolo_now() + seconds; *result == ncclInProgress && kolo_now() < until;) {
        ncclResult_t state = ncclInProgress;
        *result = ncclCommGetAsyncError(comm, &state);
        if (*result == ncclSuccess) *result = state;
        if (*result != ncclInProgress) break;
        if (called_off(members)) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
        usleep(100);
    }
    return *result == ncclSuccess || *result == ncclInProgress ? KOLO_OK : fail(doing, *result, comm);
}

static const char joining[] = "joining a group";

/* NCCL may not report a failed member to the others, so members exchange their states every MEETING_EVERY seconds. */
static kolo_status meet(kolo_comm *members, ncclComm_t comm, ncclResult_t result)
{
    double until = kolo_now() + MEETING_SECONDS;
    kolo_status status = KOLO_OK;
    for (bool waits = true; status == KOLO_OK && waits;) {
        status = settle(members, comm, &result, joining, MEETING_EVERY);
        waits = result == ncclInProgress;
        if (status == KOLO_OK && waits && kolo_now() > until)
            status = kolo_fail(KOLO_COMM, "NCCL: %s took more than %d seconds", joining, MEETING_SECONDS);
        status = agree_waiting(members, status, &waits);
    }
    return status;
}

static kolo_status open_comm(kolo_comm *members, const ncclUniqueId *id, ncclComm_t *comm)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    sigset_t before;
    kolo_hold_signals(&before); /* so that NCCL's threads do not receive them */
    ncclResult_t result = ncclCommInitRankConfig(comm, members->size, *id, members->rank, &config);
    kolo_release_signals(&before);
    bool begun = result == ncclSuccess || result == ncclInProgress;
    /* Without this exchange, members that have begun would wait for one that could not. */
    kolo_status status = agree(members, begun ? KOLO_OK : fail(joining, result, *comm));
    if (status == KOLO_OK) status = meet(members, *comm, result);
    if (status != KOLO_OK && *comm) ncclCommAbort(*comm);
    if (status != KOLO_OK) *comm = NULL;
    return status;
}

/* The caller holds the lock. Aborting the communicator ends those of its kernels that wait for other members; their
 * sums are invalid. NCCL does not report it to the other members, whose kernels would wait for this one's, so
 * abort_threads() does. */
static void lose(kolo_nccl_group *group, const char *why)
{
    const kolo_comm_kind *members = group->members->kind;
    if (members->abort_threads) members->abort_threads(group->members);
    snprintf(group->why, sizeof group->why, "%s", why);
    ncclCommAbort(group->comm);
    group->comm = NULL;
}

static void look_after(kolo_nccl_group *group)
{
    ncclResult_t state = ncclSuccess, asked = ncclCommGetAsyncError(group->comm, &state);
    if (asked != ncclSuccess) state = asked;
    if (called_off(group->members)) lose(group, KOLO_COMM_CALLED_OFF);
    else if (state != ncclSuccess && state != ncclInProgress)
        lose(group, kolo_phrase("NCCL lost a member of the group: %s", ncclGetErrorString(state)));
}

static void *watch(void *argument)
{
    kolo_nccl_group *group = argument;
    cudaSetDevice(group->stream->device); /* NCCL's calls below report a device that is lost */
    for (bool closing = false; !closing;) {
        usleep(WATCHING_EVERY);
        pthread_mutex_lock(&group->lock);
        closing = group->closing;
        if (!closing && group->comm) look_after(group);
        pthread_mutex_unlock(&group->lock);
    }
    return NULL;
}

static bool start_watcher(kolo_nccl_group *group)
{
    sigset_t before;
    kolo_hold_signals(&before);
    int failed = pthread_create(&group->watcher, NULL, watch, group);
    kolo_release_signals(&before);
    return failed == 0;
}

/* ---------------------------------------------------------------- the comm */

static kolo_status join(kolo_nccl_group *group)
{
    ncclUniqueId id;
    KOLO_TRY(check_places(group->stream, group->members));
    KOLO_TRY(share_id(group->members, &id));
    KOLO_TRY(open_comm(group->members, &id, &group->comm));
    group->watched = start_watcher(group);
    kolo_status status = KOLO_OK;
    if (!group->watched) status = kolo_fail(KOLO_MEMORY, "wanted a thread that watches NCCL, got none");
    return agree(group->members, status);
}

static void close_group(kolo_comm *comm);
static kolo_status allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction);

static const kolo_comm_kind nccl_kind = {.name = "nccl", .allreduce = allreduce, .close = close_group};

kolo_status kolo_nccl_open(kolo_stream *stream, kolo_comm *members, kolo_comm **comm)
{
    kolo_status entered = kolo_cuda_enter(stream);
    kolo_nccl_group *group = calloc(1, sizeof *group);
    if (!group && entered == KOLO_OK) entered = kolo_fail_memory(sizeof *group, "a group of GPUs");
    kolo_status status = agree(members, entered);
    if (status != KOLO_OK || !group) {
        free(group);
        return status;
    }
    *group = (kolo_nccl_group){.base = {.kind = &nccl_kind, .rank = members->rank, .size = members->size},
                               .stream = stream,
                               .members = members,
                               .lock = PTHREAD_MUTEX_INITIALIZER};
    status = join(group);
    if (status != KOLO_OK) {
        close_group(&group->base);
        return status;
    }
    stream->group = group;
    *comm = &group->base;
    return KOLO_OK;
}

/* Whether the watcher has aborted the communicator. */
static bool is_lost(kolo_nccl_group *group)
{
    pthread_mutex_lock(&group->lock);
    bool lost = !group->comm;
    pthread_mutex_unlock(&group->lock);
    return lost;
}

kolo_status kolo_nccl_check(kolo_nccl_group *group)
{
    return group && is_lost(group) ? kolo_fail(KOLO_COMM, "%s", group->why) : KOLO_OK;
}

/* NCCL begins a sum on a thread of its own, within microseconds; the first of a group waits for all members there. It
 * is polled, with the lock released between the polls, so that the watcher can abort it. */
static kolo_status begin(kolo_nccl_group *group, kolo_stream *stream, void *values, int64_t count, kolo_type type,
                         kolo_reduce_op reduction)
{
    static const ncclDataType_t types[] = {[KOLO_TYPE_FLOAT] = ncclFloat, [KOLO_TYPE_DOUBLE] = ncclDouble};
    static const ncclRedOp_t operations[] = {[KOLO_REDUCE_SUM] = ncclSum, [KOLO_REDUCE_MEAN] = ncclSum};
    ncclResult_t result = ncclInProgress;
    double spins_until = kolo_now() + SPINNING;
    for (bool given = false; result == ncclInProgress; given = true) {
        if (given && kolo_now() > spins_until) usleep(20);
        pthread_mutex_lock(&group->lock);
        ncclComm_t comm = group->comm;
        if (comm && !given)
            result =
                ncclAllReduce(values, values, (size_t)count, types[type], operations[reduction], comm, stream->handle);
        else if (comm && ncclCommGetAsyncError(comm, &result) != ncclSuccess) result = ncclInternalError;
        if (comm && result != ncclSuccess && result != ncclInProgress)
            lose(group, kolo_phrase("NCCL: a sum over the group failed: %s", ncclGetErrorString(result)));
        pthread_mutex_unlock(&group->lock);
        KOLO_TRY(kolo_nccl_check(group));
    }
    return KOLO_OK;
}

static kolo_status wait_for_threads(const kolo_nccl_group *group)
{
    const kolo_comm_kind *members = group->members->kind;
    return members->wait_for_threads ? members->wait_for_threads(group->members) : KOLO_OK;
}

/* NCCL does not compare the members' calls: it would wait for ever, or sum arrays of different calls. So the
 * members do it on the host first.
 *
 * While a device waits in a sum for another one of this process, the driver may make calls for that one wait, too: to
 * load code, to take memory, to instantiate a graph. If the thread that makes them still has to begin its part of the
 * sum, both wait for ever (github.com/NVIDIA/nccl/issues/623). So the threads of a process begin a sum together: the
 * comparison is where they meet. */
static kolo_status sum(kolo_nccl_group *group, kolo_stream *stream, void *values, int64_t count, kolo_type type,
                       kolo_reduce_op reduction)
{
    kolo_collective call = kolo_call_allreduce(count, type, reduction);
    KOLO_TRY(kolo_cuda_enter(stream));
    KOLO_TRY(kolo_nccl_check(group));
    if (type > KOLO_TYPE_DOUBLE || reduction > KOLO_REDUCE_MEAN)
        return kolo_fail(KOLO_UNSUPPORTED, "between GPUs there are only sums of floats and doubles");
    if (group->base.size > 1) KOLO_TRY(group->members->kind->meet(group->members, &call));
    if (count == 0) return KOLO_OK;
    KOLO_TRY(begin(group, stream, values, count, type, reduction));
    return wait_for_threads(group);
}

static kolo_status allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    kolo_nccl_group *group = (kolo_nccl_group *)comm;
    return sum(group, group->stream, values, count, type, reduction);
}

static kolo_status allreduce_beside(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                    kolo_reduce_op reduction)
{
    group_beside *beside = (group_beside *)comm;
    return sum(beside->group, beside->stream, values, count, type, reduction);
}

/* Finalizes the communicator if possible, since sums that are enqueued must still reach the other members. */
static void close_comm(kolo_nccl_group *group)
{
    ncclResult_t result = ncclCommFinalize(group->comm);
    kolo_status status = settle(group->members, group->comm, &result, "leaving a group", LEAVING_SECONDS);
    if (status == KOLO_OK && result == ncclSuccess) ncclCommDestroy(group->comm);
    else ncclCommAbort(group->comm);
    if (status != KOLO_OK) kolo_failure_take();
}

static void close_group(kolo_comm *comm)
{
    kolo_nccl_group *group = (kolo_nccl_group *)comm;
    if (!kolo_cuda_opened_here(group->stream)) { /* a child of fork() has no watcher thread */
        free(group);
        return;
    }
    if (kolo_cuda_enter(group->stream) == KOLO_OK && group->watched && !is_lost(group))
        cudaStreamSynchronize(group->stream->handle); /* if a member is missing, the watcher ends this wait */
    pthread_mutex_lock(&group->lock);
    group->closing = true;
    pthread_mutex_unlock(&group->lock);
    if (group->watched) pthread_join(group->watcher, NULL);
    if (group->comm) close_comm(group);
    if (group->stream->group == group) group->stream->group = NULL;
    pthread_mutex_destroy(&group->lock);
    free(group);
}

/* If a member is missing, the group's watcher ends the wait for the stream. */
static void close_beside(kolo_comm *comm)
{
    group_beside *beside = (group_beside *)comm;
    kolo_stream *stream = beside->stream;
    bool can_wait = kolo_cuda_opened_here(stream) && kolo_cuda_enter(stream) == KOLO_OK;
    if (can_wait && !is_lost(beside->group)) cudaStreamSynchronize(stream->handle);
    if (stream->group == beside->group) stream->group = NULL;
    free(beside);
}

static const kolo_comm_kind beside_kind = {.name = "nccl", .allreduce = allreduce_beside, .close = close_beside};

kolo_status kolo_nccl_open_beside(kolo_stream *stream, kolo_comm *comm, kolo_comm **beside)
{
    kolo_nccl_group *group = (kolo_nccl_group *)comm;
    group_beside *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a group of GPUs");
    *made = (group_beside){
        .base = {.kind = &beside_kind, .rank = comm->rank, .size = comm->size}, .group = group, .stream = stream};
    stream->group = group;
    *beside = &made->base;
    return KOLO_OK;
}
