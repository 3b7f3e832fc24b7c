/* Threads of several ranks as one group. The threads of a rank do each collective among themselves (inner), and inner
 * member 0 does it for all of them with the other ranks (outer). This is the hierarchical all-reduce of Horovod and
 * NCCL: each value passes the slow link between ranks only once, for any number of threads a rank.
 *
 * Members are numbered rank by rank, so the data of a rank's threads are contiguous in the result of allgather. Read
 * comm.h first.
 */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

typedef struct nested {
    kolo_comm comm;
    kolo_comm *inner, *outer;
    size_t *bytes, *offsets; /* [ranks] scratch for one call of outer */
    int first[]; /* [ranks + 1] the number of each rank's first member; last the number of all members */
} nested;

/* Whether this thread is inner member 0, which calls outer for all threads of its rank. */
static bool is_leader(const nested *group)
{
    return group->inner->rank == 0;
}

static kolo_status nested_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                    kolo_reduce_op reduction)
{
    nested *group = (nested *)comm;
    size_t bytes = (size_t)count * kolo_type_bytes(type);
    KOLO_TRY(group->inner->kind->allreduce(group->inner, values, count, type, reduction));
    if (is_leader(group)) KOLO_TRY(group->outer->kind->allreduce(group->outer, values, count, type, reduction));
    return group->inner->kind->broadcast(group->inner, values, bytes, 0);
}

/* The number of the members that are threads of a rank, and of this rank's first member. */
static int threads_of(const nested *group, int rank)
{
    return group->first[rank + 1] - group->first[rank];
}

static int first_here(const nested *group)
{
    return group->first[group->outer->rank];
}

static int rank_of(const nested *group, int member)
{
    int rank = 0;
    while (member >= group->first[rank + 1]) rank++;
    return rank;
}

/* Copies from the root to inner member 0 of its rank, then to the other ranks, then to their threads. */
static kolo_status nested_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    nested *group = (nested *)comm;
    int root_rank = rank_of(group, root), root_thread = root - group->first[root_rank];
    bool here = group->outer->rank == root_rank;
    if (here) KOLO_TRY(group->inner->kind->broadcast(group->inner, data, bytes, root_thread));
    if (is_leader(group)) KOLO_TRY(group->outer->kind->broadcast(group->outer, data, bytes, root_rank));
    return here ? KOLO_OK : group->inner->kind->broadcast(group->inner, data, bytes, 0);
}

/* The ranks have blocks of different sizes if they have different numbers of threads. */
static kolo_status nested_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    nested *group = (nested *)comm;
    for (int r = 0; r < group->outer->size; r++) {
        group->bytes[r] = (size_t)threads_of(group, r) * bytes;
        group->offsets[r] = (size_t)group->first[r] * bytes;
    }
    char *mine = (char *)all + group->offsets[group->outer->rank];
    KOLO_TRY(group->inner->kind->allgather(group->inner, data, bytes, mine));
    if (is_leader(group))
        KOLO_TRY(group->outer->kind->allgatherv(group->outer, mine, all, group->bytes, group->offsets));
    return group->inner->kind->broadcast(group->inner, all, (size_t)comm->size * bytes, 0);
}

static kolo_status nested_barrier(kolo_comm *comm)
{
    nested *group = (nested *)comm;
    KOLO_TRY(group->inner->kind->barrier(group->inner));
    if (is_leader(group)) KOLO_TRY(group->outer->kind->barrier(group->outer));
    return group->inner->kind->barrier(group->inner);
}

static kolo_status nested_meet(kolo_comm *comm, const kolo_collective *call)
{
    nested *group = (nested *)comm;
    KOLO_TRY(group->inner->kind->meet(group->inner, call));
    if (is_leader(group)) KOLO_TRY(group->outer->kind->meet(group->outer, call));
    return group->inner->kind->barrier(group->inner);
}

/* --- messages: only between threads of the same rank, because other threads than inner member 0 cannot call outer ---
 */

static kolo_status check_neighbour(const nested *group, int member)
{
    if (member >= 0 && rank_of(group, member) == group->outer->rank) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "replicas %d and %d are threads of different ranks, between which there are no messages; wanted "
                     "replica %d to %d",
                     group->comm.rank, member, first_here(group), first_here(group) + group->inner->size - 1);
}

static kolo_status nested_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    nested *group = (nested *)comm;
    KOLO_TRY(check_neighbour(group, to));
    return group->inner->kind->send(group->inner, data, bytes, to - first_here(group), tag);
}

static kolo_status nested_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    nested *group = (nested *)comm;
    KOLO_TRY(check_neighbour(group, from));
    KOLO_TRY(group->inner->kind->receive(group->inner, data, room, from - first_here(group), tag, message));
    message->from += first_here(group); /* the member's number in the whole group */
    return KOLO_OK;
}

static kolo_status nested_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    nested *group = (nested *)comm;
    KOLO_TRY(check_neighbour(group, from));
    KOLO_TRY(group->inner->kind->probe(group->inner, from - first_here(group), tag, there, message));
    if (*there) message->from += first_here(group);
    return KOLO_OK;
}

/* --- parts of different sizes: packed in the order of the members, so that a rank's parts are contiguous --- */

static size_t sum(const size_t *bytes, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++) total += bytes[i];
    return total;
}

/* offsets[count] of parts that follow one another. */
static void pack_offsets(const size_t *bytes, int count, size_t *offsets)
{
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        offsets[i] = offset;
        offset += bytes[i];
    }
}

static void copy_parts(char *to, const size_t *to_offsets, const char *from, const size_t *from_offsets,
                       const size_t *bytes, int count)
{
    for (int i = 0; i < count; i++) kolo_copy_bytes(to + to_offsets[i], from + from_offsets[i], bytes[i]);
}

/* Allocates zeroed memory for `count` elements of `bytes` each; not NULL for a count of zero. `pointer` is the address
 * of the pointer to set. */
static kolo_status allocate(void *pointer, size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    memcpy(pointer, &memory, sizeof memory);
    return memory ? KOLO_OK : kolo_fail_memory(count * bytes, "an exchange between replicas");
}

/* allgatherv into packed[…]: first inner, then outer, then a broadcast to the threads. */
static kolo_status gather_packed(nested *group, const void *data, char *packed, const size_t *bytes,
                                 const size_t *offsets)
{
    int ranks = group->outer->size, first = first_here(group);
    for (int r = 0; r < ranks; r++) group->bytes[r] = sum(bytes + group->first[r], threads_of(group, r));
    pack_offsets(group->bytes, ranks, group->offsets);
    KOLO_TRY(group->inner->kind->allgatherv(group->inner, data, packed, bytes + first, offsets + first));
    if (is_leader(group))
        KOLO_TRY(group->outer->kind->allgatherv(group->outer, packed + offsets[first], packed, group->bytes,
                                                group->offsets));
    return group->inner->kind->broadcast(group->inner, packed, sum(group->bytes, ranks), 0);
}

static kolo_status nested_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                     const size_t *offsets)
{
    nested *group = (nested *)comm;
    kolo_status status;
    size_t *packed_offsets = NULL;
    char *packed = NULL;
    KOLO_GO(done, allocate(&packed_offsets, (size_t)comm->size, sizeof *packed_offsets));
    pack_offsets(bytes, comm->size, packed_offsets);
    if (memcmp(packed_offsets, offsets, (size_t)comm->size * sizeof *offsets) == 0) { /* no need to copy */
        status = gather_packed(group, data, all, bytes, packed_offsets);
        goto done;
    }
    KOLO_GO(done, allocate(&packed, sum(bytes, comm->size), 1));
    KOLO_GO(done, gather_packed(group, data, packed, bytes, packed_offsets));
    copy_parts(all, offsets, packed, packed_offsets, bytes, comm->size);
done:
    free(packed);
    free(packed_offsets);
    return status;
}

/* --- alltoallv: the threads' parts are collected by inner member 0, exchanged between ranks, and given back --- */

/* The data of inner member 0. T is the number of threads a rank, N of members. Sender and receiver of a part both have
 * its size. */
typedef struct exchange {
    nested *group;
    size_t *sent, *wanted; /* [T][N] bytes that each thread of this rank sends to, and receives from, each member */
    size_t *send_bytes, *send_offsets, *receive_bytes, *receive_offsets; /* [N] scratch for one call of a comm */
    char *outgoing, *incoming; /* parts in the order [thread][destination], [thread][source] */
    char *out, *in;            /* parts in the order of the ranks, for the outer alltoallv */
} exchange;

/* The number of bytes of one thread's row for or from one rank. They are contiguous, because the parts in a row are in
 * the order of the members. */
static size_t to_rank(const exchange *x, const size_t *rows, int thread, int rank)
{
    const nested *group = x->group;
    return sum(rows + (size_t)thread * (size_t)group->comm.size + (size_t)group->first[rank], threads_of(group, rank));
}

/* Copies `outgoing` [thread][rank] to `out` [rank][thread], in blocks of the bytes that a thread sends to a rank. */
static void order_by_rank(exchange *x)
{
    int threads = x->group->inner->size, ranks = x->group->outer->size;
    char *to = x->out;
    for (int r = 0; r < ranks; r++) {
        const char *from = x->outgoing;
        char *begin = to;
        for (int t = 0; t < threads; t++) {
            size_t skip = sum(x->sent + (size_t)t * (size_t)x->group->comm.size, x->group->first[r]);
            size_t bytes = to_rank(x, x->sent, t, r);
            kolo_copy_bytes(to, from + skip, bytes);
            to += bytes;
            from += sum(x->sent + (size_t)t * (size_t)x->group->comm.size, x->group->comm.size);
        }
        x->send_bytes[r] = (size_t)(to - begin);
    }
}

/* Copies `in` [source member][thread] to `incoming` [thread][source member]. */
static void order_by_thread(exchange *x)
{
    int threads = x->group->inner->size, members = x->group->comm.size;
    char *to = x->incoming;
    for (int t = 0; t < threads; t++) {
        const char *from = x->in;
        for (int source = 0; source < members; source++) {
            for (int other = 0; other < threads; other++) {
                size_t bytes = x->wanted[(size_t)other * (size_t)members + (size_t)source];
                if (other == t) kolo_copy_bytes(to, from, bytes);
                if (other == t) to += bytes;
                from += bytes;
            }
        }
    }
}

static kolo_status exchange_between_ranks(exchange *x)
{
    nested *group = x->group;
    int threads = group->inner->size, ranks = group->outer->size;
    order_by_rank(x);
    for (int r = 0; r < ranks; r++) {
        x->receive_bytes[r] = 0;
        for (int t = 0; t < threads; t++) x->receive_bytes[r] += to_rank(x, x->wanted, t, r);
    }
    pack_offsets(x->send_bytes, ranks, x->send_offsets);
    pack_offsets(x->receive_bytes, ranks, x->receive_offsets);
    KOLO_TRY(group->outer->kind->alltoallv(group->outer, x->out, x->send_bytes, x->send_offsets, x->in,
                                           x->receive_bytes, x->receive_offsets));
    order_by_thread(x);
    return KOLO_OK;
}

/* Exchanges parts between the threads of a rank: outwards, each thread sends `mine` to inner member 0, which receives
 * `leaders`; otherwise inner member 0 sends `leaders`, and each thread receives `mine`. rows[T][N] are the sizes. */
static kolo_status exchange_with_leader(exchange *x, const size_t *rows, bool outwards, char *mine, char *leaders)
{
    int threads = x->group->inner->size, me = x->group->inner->rank, members = x->group->comm.size;
    size_t *one_bytes = outwards ? x->send_bytes : x->receive_bytes;
    size_t *all_bytes = outwards ? x->receive_bytes : x->send_bytes;
    for (int t = 0; t < threads; t++) {
        one_bytes[t] = t == 0 ? sum(rows + (size_t)me * (size_t)members, members) : 0;
        all_bytes[t] = me == 0 ? sum(rows + (size_t)t * (size_t)members, members) : 0;
    }
    pack_offsets(x->send_bytes, threads, x->send_offsets);
    pack_offsets(x->receive_bytes, threads, x->receive_offsets);
    return x->group->inner->kind->alltoallv(x->group->inner, outwards ? mine : leaders, x->send_bytes, x->send_offsets,
                                            outwards ? leaders : mine, x->receive_bytes, x->receive_offsets);
}

static kolo_status exchange_open(exchange *x, const size_t *send_bytes, const size_t *receive_bytes)
{
    kolo_comm *inner = x->group->inner;
    size_t members = (size_t)x->group->comm.size, threads = (size_t)inner->size, row = members * sizeof(size_t);
    KOLO_TRY(allocate(&x->sent, (2 * threads + 4) * members, sizeof(size_t)));
    x->wanted = x->sent + threads * members;
    x->send_bytes = x->wanted + threads * members;
    x->send_offsets = x->send_bytes + members;
    x->receive_bytes = x->send_offsets + members;
    x->receive_offsets = x->receive_bytes + members;
    KOLO_TRY(inner->kind->allgather(inner, send_bytes, row, x->sent));
    KOLO_TRY(inner->kind->allgather(inner, receive_bytes, row, x->wanted));
    if (!is_leader(x->group)) return KOLO_OK;
    size_t sent = sum(x->sent, (int)(threads * members)), wanted = sum(x->wanted, (int)(threads * members));
    KOLO_TRY(allocate(&x->outgoing, sent, 1));
    KOLO_TRY(allocate(&x->out, sent, 1));
    KOLO_TRY(allocate(&x->incoming, wanted, 1));
    return allocate(&x->in, wanted, 1);
}

static void exchange_close(exchange *x)
{
    free(x->sent);
    free(x->outgoing);
    free(x->out);
    free(x->incoming);
    free(x->in);
}

static kolo_status nested_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                    const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                    const size_t *receive_offsets)
{
    kolo_status status;
    exchange x = {.group = (nested *)comm};
    size_t *packed = NULL;
    char *out = NULL, *in = NULL;
    KOLO_GO(done, allocate(&packed, (size_t)comm->size, sizeof *packed));
    KOLO_GO(done, allocate(&out, sum(send_bytes, comm->size), 1));
    KOLO_GO(done, allocate(&in, sum(receive_bytes, comm->size), 1));
    KOLO_GO(done, exchange_open(&x, send_bytes, receive_bytes));
    pack_offsets(send_bytes, comm->size, packed);
    copy_parts(out, packed, send, send_offsets, send_bytes, comm->size);
    KOLO_GO(done, exchange_with_leader(&x, x.sent, true, out, x.outgoing));
    if (is_leader(x.group)) KOLO_GO(done, exchange_between_ranks(&x));
    KOLO_GO(done, exchange_with_leader(&x, x.wanted, false, in, x.incoming));
    pack_offsets(receive_bytes, comm->size, packed);
    copy_parts(receive, receive_offsets, in, packed, receive_bytes, comm->size);
done:
    exchange_close(&x);
    free(in);
    free(out);
    free(packed);
    return status;
}

/* --- the group --- */

static kolo_status nested_wait_for_threads(kolo_comm *comm)
{
    kolo_comm *inner = ((nested *)comm)->inner;
    return inner->kind->barrier(inner);
}

static void nested_abort_threads(kolo_comm *comm)
{
    kolo_comm *inner = ((nested *)comm)->inner;
    inner->kind->abort(inner);
}

/* Only inner member 0 may call outer. If another thread fails, it makes inner member 0 fail, which then aborts
 * outer. */
static void nested_abort(kolo_comm *comm)
{
    nested *group = (nested *)comm;
    nested_abort_threads(comm);
    if (is_leader(group)) group->outer->kind->abort(group->outer);
}

static bool aborted(const kolo_comm *comm)
{
    return comm->kind->aborted && comm->kind->aborted(comm);
}

static bool nested_aborted(const kolo_comm *comm)
{
    const nested *group = (const nested *)comm;
    return aborted(group->inner) || aborted(group->outer);
}

static void nested_close(kolo_comm *comm)
{
    free(((nested *)comm)->bytes);
    free(comm);
}

static const kolo_comm_kind nested_kind = {
    .name = "nested",
    .allreduce = nested_allreduce,
    .broadcast = nested_broadcast,
    .allgather = nested_allgather,
    .allgatherv = nested_allgatherv,
    .alltoallv = nested_alltoallv,
    .barrier = nested_barrier,
    .meet = nested_meet,
    .send = nested_send,
    .receive = nested_receive,
    .probe = nested_probe,
    .wait_for_threads = nested_wait_for_threads,
    .abort = nested_abort,
    .abort_threads = nested_abort_threads,
    .aborted = nested_aborted,
    .close = nested_close,
};

kolo_status kolo_comm_nested_open(kolo_comm *inner, kolo_comm *outer, const int *threads, kolo_comm **comm)
{
    size_t ranks = (size_t)outer->size, bytes = sizeof(nested) + (ranks + 1) * sizeof(int);
    nested *group = calloc(1, bytes);
    size_t *scratch = calloc(2 * ranks, sizeof *scratch);
    if (!group || !scratch) {
        free(group);
        free(scratch);
        return kolo_fail_memory(bytes, "a group of replicas");
    }
    for (int r = 0; r < outer->size; r++) group->first[r + 1] = group->first[r] + threads[r];
    group->comm = (kolo_comm){
        .kind = &nested_kind, .rank = group->first[outer->rank] + inner->rank, .size = group->first[outer->size]};
    group->inner = inner;
    group->outer = outer;
    group->bytes = scratch;
    group->offsets = scratch + ranks;
    /* While inner member 0 waits for other ranks, its threads wait for it. It must be the first to lose patience,
     * because it knows which rank is missing. */
    inner->patience = 2;
    *comm = &group->comm;
    return KOLO_OK;
}
