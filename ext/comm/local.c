/* Threads of one process as a group. They share their memory, so a collective copies bytes directly and only needs to
 * synchronise.
 *
 * Every collective has the same three parts. gather_calls(): each member publishes the arguments of its call and waits
 * until all members have. Then the members work on each other's buffers, but never two on the same bytes.
 * release_calls() waits until all members are done, because a member that returns gives its buffers back to its caller.
 *
 * Read comm.h and barrier.h first.
 */
#include "comm/barrier.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "comm/sum.h"

typedef enum operation { ALLREDUCE, BROADCAST, ALLGATHER, ALLGATHERV, ALLTOALLV, BARRIER } operation;
static const char *const operation_names[] = {"allreduce",  "broadcast", "allgather",
                                              "allgatherv", "alltoallv", "barrier"};
static const char *const type_names[] = {[KOLO_TYPE_FLOAT] = "floats", [KOLO_TYPE_DOUBLE] = "doubles"};

/* The arguments of a member's call. All except the pointers must be the same on every member. */
typedef struct call {
    operation operation;
    kolo_type type;
    int root;
    int64_t count; /* elements of an allreduce, bytes of other operations */
    const void *data;              /* the bytes that the other members read */
    const size_t *bytes, *offsets; /* sizes and places of the parts of `data` */
} call;

typedef struct local_group local_group;

/* Each member has separate cache lines, because the members write their calls at the same time. */
typedef struct member {
    _Alignas(KOLO_CACHE_LINE) kolo_comm comm;
    local_group *group;
    call call;
} member;

struct local_group {
    kolo_futex_barrier barrier;
    int size;
    _Atomic int open; /* members that are not closed; the last one frees the group */
    void **buffers;   /* [size] the members' values of an allreduce */
    member members[];
};

/* --- synchronisation --- */

/* "allreduce of 12 floats", "broadcast of 96 bytes from member 2" */
static const char *call_text(const call *of)
{
    const char *name = operation_names[of->operation];
    switch (of->operation) {
    case ALLREDUCE: return kolo_phrase("%s of %lld %s", name, (long long)of->count, type_names[of->type]);
    case BROADCAST: return kolo_phrase("%s of %lld bytes from member %d", name, (long long)of->count, of->root);
    case ALLGATHER: return kolo_phrase("%s of %lld bytes", name, (long long)of->count);
    default: return name;
    }
}

/* Checks that all members made the same call. Every member compares the same calls in the same order, so all fail or
 * none does, and no member is left waiting. */
static kolo_status compare_calls(const local_group *group)
{
    const call *first = &group->members[0].call;
    for (int i = 1; i < group->size; i++) {
        const call *other = &group->members[i].call;
        if (other->operation != first->operation || other->count != first->count || other->type != first->type ||
            other->root != first->root)
            return kolo_fail(KOLO_COMM,
                             "replicas must call the same collectives in the same order: replica 0 called "
                             "%s, replica %d %s",
                             call_text(first), i, call_text(other));
    }
    return KOLO_OK;
}

/* No code of a caller runs between the two barriers of a collective, so every member reaches the second one, also in an
 * aborted group. Leaving it early would free buffers that other members still read. */
static void release_calls(member *me)
{
    kolo_barrier_wait(&me->group->barrier, me->group->size, true);
}

static kolo_status gather_calls(member *me, call mine)
{
    me->call = mine;
    if (!kolo_barrier_wait(&me->group->barrier, me->group->size, false))
        return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    kolo_status status = compare_calls(me->group);
    if (status != KOLO_OK) release_calls(me);
    return status;
}

/* --- allreduce --- */

/* Reduce-scatter and all-gather in one pass: only member r reads slice r of all buffers, and it writes the sum to all
 * of them. Each member reads and writes `count` elements in all, for any number of members. Each element is summed by
 * only one member, so all members have the same bits. */
static kolo_status local_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type)
{
    member *me = (member *)comm;
    me->group->buffers[comm->rank] = values;
    KOLO_TRY(gather_calls(me, (call){.operation = ALLREDUCE, .type = type, .count = count}));
    int64_t begin = kolo_slice_begin(count, type, comm->rank, comm->size);
    int64_t end = kolo_slice_begin(count, type, comm->rank + 1, comm->size);
    void **buffers = me->group->buffers;
    if (comm->size > 1) kolo_sum_slice(type, buffers, comm->size, buffers, comm->size, begin, end);
    release_calls(me);
    return KOLO_OK;
}

/* --- copies --- */

static kolo_status local_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, (call){.operation = BROADCAST, .count = (int64_t)bytes, .root = root, .data = data}));
    kolo_copy_bytes(data, me->group->members[root].call.data, bytes);
    release_calls(me);
    return KOLO_OK;
}

static kolo_status local_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, (call){.operation = ALLGATHER, .count = (int64_t)bytes, .data = data}));
    for (int m = 0; m < comm->size; m++)
        kolo_copy_bytes((char *)all + (size_t)m * bytes, me->group->members[m].call.data, bytes);
    release_calls(me);
    return KOLO_OK;
}

/* Every member copies the parts of all members, and fails if a part has another size than it expects. */
static kolo_status local_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                    const size_t *offsets)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, (call){.operation = ALLGATHERV, .data = data, .bytes = bytes}));
    kolo_status status = KOLO_OK;
    for (int m = 0; m < comm->size && status == KOLO_OK; m++) {
        const call *from = &me->group->members[m].call;
        if (from->bytes[m] == bytes[m]) kolo_copy_bytes((char *)all + offsets[m], from->data, bytes[m]);
        else
            status = kolo_fail(KOLO_COMM, "allgatherv: replica %d has %zu bytes where replica %d expects %zu", m,
                               from->bytes[m], comm->rank, bytes[m]);
    }
    release_calls(me);
    return status;
}

static kolo_status local_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                   const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                   const size_t *receive_offsets)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me,
                          (call){.operation = ALLTOALLV, .data = send, .bytes = send_bytes, .offsets = send_offsets}));
    kolo_status status = KOLO_OK;
    for (int m = 0; m < comm->size && status == KOLO_OK; m++) {
        const call *from = &me->group->members[m].call;
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

/* The second barrier only protects the calls that compare_calls() reads. */
static kolo_status local_barrier(kolo_comm *comm)
{
    member *me = (member *)comm;
    KOLO_TRY(gather_calls(me, (call){.operation = BARRIER}));
    release_calls(me);
    return KOLO_OK;
}

/* --- the group --- */

static void local_abort(kolo_comm *comm)
{
    kolo_barrier_abort(&((member *)comm)->group->barrier);
}

static bool local_aborted(const kolo_comm *comm)
{
    return kolo_barrier_aborted(&((const member *)comm)->group->barrier);
}

static void local_close(kolo_comm *comm)
{
    local_group *group = ((member *)comm)->group;
    if (atomic_fetch_sub(&group->open, 1) == 1) free(group);
}

static const kolo_comm_kind local_kind = {
    .name = "local",
    .allreduce = local_allreduce,
    .broadcast = local_broadcast,
    .allgather = local_allgather,
    .allgatherv = local_allgatherv,
    .alltoallv = local_alltoallv,
    .barrier = local_barrier,
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
    group->buffers = (void **)(group->members + size);
    atomic_init(&group->open, size);
    for (int i = 0; i < size; i++) {
        group->members[i].comm = (kolo_comm){&local_kind, i, size};
        group->members[i].group = group;
        members[i] = &group->members[i].comm;
    }
    return KOLO_OK;
}
