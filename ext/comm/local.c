/* Threads of one process as a group. They share their memory, so a collective copies bytes directly and only needs to
 * synchronise.
 *
 * Every collective has the same three parts. gather_calls(): each member publishes the arguments of its call, waits
 * until all members have, and compares their calls. Then the members work on each other's buffers, but never two on the
 * same bytes. release_calls() waits until all members are done, because a member that returns gives its buffers back to
 * its caller.
 *
 * Read comm.h, call.h and barrier.h first.
 */
#include "comm/barrier.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "comm/call.h"
#include "comm/mailbox.h"
#include "comm/sum.h"
#include "core/timeline.h"

/* The arguments of a member's call that need not be the same on every member. */
typedef struct part {
    const void *data;              /* the bytes that the other members read */
    const size_t *bytes, *offsets; /* sizes and places of the parts of `data` */
} part;

typedef struct local_group local_group;

/* Each member has separate cache lines, because the members write their calls at the same time. */
typedef struct member {
    _Alignas(KOLO_CACHE_LINE) kolo_comm comm;
    local_group *group;
    kolo_collective call;
    part part;
    _Atomic uint64_t calls; /* that this member has begun; set after `call` */
    kolo_yielding yielding;
} member;

struct local_group {
    kolo_futex_barrier barrier;
    int size;
    _Atomic int open; /* members that are not closed; the last one frees the group */
    double stall_limit; /* seconds; 0: none */
    void **buffers;     /* [size] the members' values of an allreduce */
    kolo_mailboxes *mailboxes;
    member members[];
};

/* --- synchronisation --- */

static kolo_calls calls_of(const local_group *group)
{
    return (kolo_calls){
        .first = &group->members[0].call, .stride = sizeof(member), .size = group->size, .who = "replica"};
}

/* A thread that works beside one that computes sleeps at once. */
static kolo_barrier_watch make_watch(member *me)
{
    return (kolo_barrier_watch){.yielding = kolo_call_is_in_background() ? NULL : &me->yielding};
}

/* No code of a caller runs between the two barriers of a collective, so every member reaches the second one, also in an
 * aborted group. Leaving it early would free buffers that other members still read. */
static void release_calls(member *me)
{
    kolo_barrier_watch watch = make_watch(me);
    kolo_barrier_watched_wait(&me->group->barrier, me->group->size, true, &watch);
}

/* A member's wait for the others. */
typedef struct waiting {
    const member *me;
    kolo_stall stall;
} waiting;

static int count_arrived(const local_group *group, uint64_t calls, bool *came)
{
    int count = 0;
    for (int i = 0; i < group->size; i++) {
        bool here = atomic_load(&group->members[i].calls) >= calls;
        if (came) came[i] = here;
        count += here;
    }
    return count;
}

static bool has_stalled(void *argument)
{
    waiting *wait = argument;
    int came = count_arrived(wait->me->group, atomic_load(&wait->me->calls), NULL);
    return kolo_stall_passed(&wait->stall, came, kolo_life_shown()) && came < wait->me->group->size;
}

/* Ends the waits of all members. The first member that calls it says why. */
static kolo_status say_who_is_missing(member *me, double seconds)
{
    local_group *group = me->group;
    bool *came = calloc((size_t)group->size, sizeof *came), first = !kolo_barrier_abort(&group->barrier);
    kolo_mailboxes_abort(group->mailboxes);
    if (came) count_arrived(group, atomic_load(&me->calls), came);
    kolo_calls calls = calls_of(group);
    kolo_status status =
        first && came ? kolo_calls_stalled(&calls, came, seconds) : kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    free(came);
    return status;
}

static kolo_barrier_result wait_for_members(member *me, waiting *wait)
{
    kolo_barrier_watch watch = make_watch(me);
    watch.every = kolo_stall_turn(&wait->stall);
    if (wait->stall.limit > 0) watch.look = has_stalled;
    watch.argument = wait;
    int64_t begun = me->group->size > 1 ? kolo_timeline_begin() : 0;
    kolo_barrier_result result = kolo_barrier_watched_wait(&me->group->barrier, me->group->size, false, &watch);
    kolo_timeline_end(begun, KOLO_SPAN_WAIT, "replicas");
    return result;
}

/* Every member compares the same calls in the same order, so all fail or none does, and no member is left waiting. */
static kolo_status gather_calls(member *me, kolo_collective call, part mine)
{
    double patience = me->comm.patience > 0 ? me->comm.patience : 1;
    waiting wait = {.me = me, .stall.limit = me->group->stall_limit * patience};
    me->call = call;
    me->part = mine;
    atomic_fetch_add(&me->calls, 1);
    kolo_barrier_result result = wait_for_members(me, &wait);
    if (result == KOLO_BARRIER_LEFT) return say_who_is_missing(me, wait.stall.limit);
    if (result == KOLO_BARRIER_OFF) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    kolo_calls calls = calls_of(me->group);
    kolo_status status = kolo_calls_compare(&calls);
    if (status != KOLO_OK) release_calls(me);
    return status;
}

/* --- allreduce --- */

/* Reduce-scatter and all-gather in one pass: only member r reads slice r of all buffers, and it writes the sum to all
 * of them. Each member reads and writes `count` elements in all, for any number of members. Each element is summed by
 * only one member, so all members have the same bits. */
static kolo_status local_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                   kolo_reduce_op reduction)
{
    member *me = (member *)comm;
    me->group->buffers[comm->rank] = values;
    KOLO_TRY(gather_calls(me, kolo_call_allreduce(count, type, reduction), (part){0}));
    int64_t begin = kolo_slice_begin(count, type, comm->rank, comm->size);
    int64_t end = kolo_slice_begin(count, type, comm->rank + 1, comm->size);
    void **buffers = me->group->buffers;
    if (comm->size > 1) kolo_reduce_slice(type, reduction, buffers, comm->size, buffers, comm->size, begin, end);
    release_calls(me);
    return KOLO_OK;
}

/* --- copies --- */

static kolo_status local_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, kolo_call_broadcast(bytes, root), (part){.data = data}));
    kolo_copy_bytes(data, me->group->members[root].part.data, bytes);
    release_calls(me);
    return KOLO_OK;
}

static kolo_status local_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, kolo_call_make(KOLO_CALL_ALLGATHER, (int64_t)bytes), (part){.data = data}));
    for (int m = 0; m < comm->size; m++)
        kolo_copy_bytes((char *)all + (size_t)m * bytes, me->group->members[m].part.data, bytes);
    release_calls(me);
    return KOLO_OK;
}

static kolo_status local_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                    const size_t *offsets)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, kolo_call_allgatherv(bytes, comm->size), (part){.data = data}));
    for (int m = 0; m < comm->size; m++)
        kolo_copy_bytes((char *)all + offsets[m], me->group->members[m].part.data, bytes[m]);
    release_calls(me);
    return KOLO_OK;
}

static kolo_status local_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                   const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                   const size_t *receive_offsets)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, kolo_call_make(KOLO_CALL_ALLTOALLV, 0),
                          (part){.data = send, .bytes = send_bytes, .offsets = send_offsets}));
    kolo_status status = KOLO_OK;
    for (int m = 0; m < comm->size && status == KOLO_OK; m++) {
        const part *from = &me->group->members[m].part;
        if (from->bytes[comm->rank] == receive_bytes[m])
            kolo_copy_bytes((char *)receive + receive_offsets[m], (const char *)from->data + from->offsets[comm->rank],
                            receive_bytes[m]);
        else
            status = kolo_fail(KOLO_COMM, "alltoallv: replica %d sends %zu bytes where replica %d expects %zu", m,
                               from->bytes[comm->rank], comm->rank, receive_bytes[m]);
    }
    release_calls(me);
    return status;
}

/* The second barrier only protects the calls that gather_calls() compares. */
static kolo_status local_meet(kolo_comm *comm, const kolo_collective *call)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, *call, (part){0}));
    release_calls(me);
    return KOLO_OK;
}

static kolo_status local_barrier(kolo_comm *comm)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_BARRIER, 0);
    return local_meet(comm, &call);
}

/* --- messages --- */

static kolo_status local_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    return kolo_mailboxes_send(((member *)comm)->group->mailboxes, comm->rank, data, bytes, to, tag);
}

static kolo_status local_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    return kolo_mailboxes_receive(((member *)comm)->group->mailboxes, comm->rank, data, room, from, tag, message);
}

static kolo_status local_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    *there = kolo_mailboxes_probe(((member *)comm)->group->mailboxes, comm->rank, from, tag, message);
    return KOLO_OK;
}

/* --- the group --- */

static void local_abort(kolo_comm *comm)
{
    kolo_barrier_abort(&((member *)comm)->group->barrier);
    kolo_mailboxes_abort(((member *)comm)->group->mailboxes);
}

static bool local_aborted(const kolo_comm *comm)
{
    return kolo_barrier_aborted(&((const member *)comm)->group->barrier);
}

static void local_close(kolo_comm *comm)
{
    local_group *group = ((member *)comm)->group;
    if (atomic_fetch_sub(&group->open, 1) > 1) return;
    kolo_mailboxes_close(group->mailboxes);
    free(group);
}

static const kolo_comm_kind local_kind = {
    .name = "local",
    .allreduce = local_allreduce,
    .broadcast = local_broadcast,
    .allgather = local_allgather,
    .allgatherv = local_allgatherv,
    .alltoallv = local_alltoallv,
    .barrier = local_barrier,
    .meet = local_meet,
    .send = local_send,
    .receive = local_receive,
    .probe = local_probe,
    .wait_for_threads = local_barrier,
    .abort = local_abort,
    .abort_threads = local_abort,
    .aborted = local_aborted,
    .close = local_close,
};

kolo_status kolo_comm_local_open(int size, kolo_comm **members)
{
    if (size < 1) return kolo_fail(KOLO_INVALID, "a group of replicas needs at least 1 member, got %d", size);
    size_t lines = ((size_t)size * sizeof(void *) + KOLO_CACHE_LINE - 1) / KOLO_CACHE_LINE;
    size_t bytes = sizeof(local_group) + (size_t)size * sizeof(member) + lines * KOLO_CACHE_LINE;
    local_group *group = aligned_alloc(KOLO_CACHE_LINE, bytes);
    if (!group) return kolo_fail_memory(bytes, "a group of replicas");
    memset(group, 0, bytes);
    group->size = size;
    group->stall_limit = kolo_stall_limit();
    kolo_status status = kolo_mailboxes_open(size, &group->mailboxes);
    if (status != KOLO_OK) {
        free(group);
        return status;
    }
    group->buffers = (void **)(group->members + size);
    atomic_init(&group->open, size);
    for (int i = 0; i < size; i++) {
        group->members[i].comm = (kolo_comm){.kind = &local_kind, .rank = i, .size = size};
        group->members[i].group = group;
        members[i] = &group->members[i].comm;
    }
    return KOLO_OK;
}
