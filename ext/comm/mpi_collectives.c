/* The collectives between ranks. Each begins with kolo_mpi_meet(), which compares the ranks' calls, so MPI's own
 * collectives are only called with arguments that fit one another. See mpi.c and mpi_comm.h. */
#include "comm/mpi_comm.h"

#include <stdlib.h>
#include <string.h>

/* Calls a collective: MPI_Xxx, or MPI_Ixxx where this thread must not spin. All ranks make the same choice, because a
 * call is asynchronous on all of them or on none. Both give every
 * rank the same bits, as comm.h demands: each of Open MPI's all-reduces either computes an element on one rank and
 * copies it (linear, binomial, ring, Rabenseifner), or adds the same pairs on both sides (recursive doubling). */
#define COLLECTIVE(me, blocking, nonblocking, ...)                                                                     \
    (kolo_mpi_sleeps(me) ? kolo_mpi_wait_one(me, nonblocking(__VA_ARGS__, &request), &request, #blocking)              \
                         : kolo_mpi_check(me, blocking(__VA_ARGS__), #blocking))

/* --- collectives --- */

/* The types and operations of MPI, by kolo_type and kolo_reduce_op. They are no constants in Open MPI. */
static MPI_Datatype type_of(kolo_type type)
{
    const MPI_Datatype types[] = {[KOLO_TYPE_FLOAT] = MPI_FLOAT,
                                  [KOLO_TYPE_DOUBLE] = MPI_DOUBLE,
                                  [KOLO_TYPE_INT32] = MPI_INT32_T,
                                  [KOLO_TYPE_INT64] = MPI_INT64_T};
    return types[type];
}

static MPI_Op operation_of(kolo_reduce_op reduction)
{
    const MPI_Op operations[] = {[KOLO_REDUCE_SUM] = MPI_SUM,
                                 [KOLO_REDUCE_MEAN] = MPI_SUM,
                                 [KOLO_REDUCE_MIN] = MPI_MIN,
                                 [KOLO_REDUCE_MAX] = MPI_MAX,
                                 [KOLO_REDUCE_PRODUCT] = MPI_PROD};
    return operations[reduction];
}

static kolo_status reduce_pieces(mpi_comm *me, MPI_Comm handle, char *values, int64_t count, kolo_type type,
                                 kolo_reduce_op reduction)
{
    int64_t width = (int64_t)kolo_type_bytes(type), most = KOLO_MPI_PIECE / width;
    MPI_Request request;
    for (int64_t at = 0; at < count; at += most) {
        int piece = (int)(count - at < most ? count - at : most);
        KOLO_TRY(COLLECTIVE(me, MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, values + at * width, piece, type_of(type),
                            operation_of(reduction), handle));
    }
    return KOLO_OK;
}

/* Over the ranks of `handle`: all of them, or the first ones of all hosts. */
static kolo_status reduce_over(mpi_comm *me, MPI_Comm handle, void *values, int64_t count, kolo_type type,
                               kolo_reduce_op reduction)
{
    kolo_mpi_lock();
    kolo_status status = reduce_pieces(me, handle, values, count, type, reduction);
    kolo_mpi_unlock();
    return status;
}

/* Host by host: the ranks of a host reduce in the memory that they share, its first rank with those of the other hosts,
 * and the others read the result. So the values of a host pass the network once, for any number of ranks there. */
static kolo_status reduce_by_hosts(mpi_comm *me, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    kolo_shared *host = &kolo_mpi_process.host;
    size_t bytes = (size_t)count * kolo_type_bytes(type);
    if (host->size > 1)
        KOLO_TRY(kolo_mpi_shared_result(me, host, kolo_shared_allreduce(host, values, count, type, reduction)));
    if (me->leaders != MPI_COMM_NULL) KOLO_TRY(reduce_over(me, me->leaders, values, count, type, reduction));
    if (host->size == 1) return KOLO_OK;
    return kolo_mpi_shared_result(me, host, kolo_shared_broadcast(host, values, bytes, 0));
}

kolo_status kolo_mpi_reduce_all(mpi_comm *me, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    if (me->by_hosts) return reduce_by_hosts(me, values, count, type, reduction);
    return reduce_over(me, me->handle, values, count, type, reduction);
}

static kolo_status mpi_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    mpi_comm *me = (mpi_comm *)comm;
    if (me->shared)
        return kolo_mpi_shared_result(me, me->shared,
                                      kolo_shared_allreduce(me->shared, values, count, type, reduction));
    kolo_collective call = kolo_call_allreduce(count, type, reduction);
    KOLO_TRY(kolo_mpi_meet(comm, &call));
    return kolo_mpi_reduce_all(me, values, count, type, reduction);
}

static kolo_status broadcast_pieces(mpi_comm *me, char *data, size_t bytes, int root)
{
    MPI_Request request;
    for (size_t at = 0; at < bytes; at += KOLO_MPI_PIECE) {
        int piece = (int)(bytes - at < KOLO_MPI_PIECE ? bytes - at : KOLO_MPI_PIECE);
        KOLO_TRY(COLLECTIVE(me, MPI_Bcast, MPI_Ibcast, data + at, piece, MPI_BYTE, root, me->handle));
    }
    return KOLO_OK;
}

static kolo_status mpi_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    mpi_comm *me = (mpi_comm *)comm;
    if (me->shared) return kolo_mpi_shared_result(me, me->shared, kolo_shared_broadcast(me->shared, data, bytes, root));
    kolo_collective call = kolo_call_broadcast(bytes, root);
    KOLO_TRY(kolo_mpi_meet(comm, &call));
    kolo_mpi_lock();
    kolo_status status = broadcast_pieces(me, data, bytes, root);
    kolo_mpi_unlock();
    return status;
}

/* The comparison of calls is a barrier. */
static kolo_status mpi_barrier(kolo_comm *comm)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_BARRIER, 0);
    return kolo_mpi_meet(comm, &call);
}

/* --- exchanges: messages between pairs of ranks, because MPI_Allgatherv and MPI_Alltoallv have offsets in int --- */

typedef struct exchange {
    mpi_comm *me;
    MPI_Request *requests;
    MPI_Status *statuses;
    int count, room;
} exchange;

static int pieces_of(const size_t *bytes, int size)
{
    size_t pieces = 0;
    for (int i = 0; i < size; i++) pieces += (bytes[i] + KOLO_MPI_PIECE - 1) / KOLO_MPI_PIECE;
    return (int)pieces;
}

static kolo_status exchange_open(exchange *x, mpi_comm *me, int room)
{
    size_t bytes = ((size_t)room + 1) * (sizeof *x->requests + sizeof *x->statuses);
    *x = (exchange){.me = me, .room = room};
    x->requests = malloc(((size_t)room + 1) * sizeof *x->requests);
    x->statuses = malloc(((size_t)room + 1) * sizeof *x->statuses);
    return x->requests && x->statuses ? KOLO_OK : kolo_fail_memory(bytes, "messages between ranks");
}

static void exchange_close(exchange *x)
{
    free(x->requests);
    free(x->statuses);
}

/* MPI keeps the order of messages between two ranks, so all pieces have the tag 0. */
static kolo_status send_part(exchange *x, const char *data, size_t bytes, int to)
{
    for (size_t at = 0; at < bytes; at += KOLO_MPI_PIECE) {
        int piece = (int)(bytes - at < KOLO_MPI_PIECE ? bytes - at : KOLO_MPI_PIECE);
        KOLO_TRY(kolo_mpi_check(x->me,
                                MPI_Isend(data + at, piece, MPI_BYTE, to, 0, x->me->handle, &x->requests[x->count++]),
                                "MPI_Isend"));
    }
    return KOLO_OK;
}

static kolo_status receive_part(exchange *x, char *data, size_t bytes, int from)
{
    for (size_t at = 0; at < bytes; at += KOLO_MPI_PIECE) {
        int piece = (int)(bytes - at < KOLO_MPI_PIECE ? bytes - at : KOLO_MPI_PIECE);
        KOLO_TRY(kolo_mpi_check(x->me,
                                MPI_Irecv(data + at, piece, MPI_BYTE, from, 0, x->me->handle, &x->requests[x->count++]),
                                "MPI_Irecv"));
    }
    return KOLO_OK;
}

/* A rank that has joined exchanges nothing. */
static bool takes_part(const mpi_comm *me, int rank)
{
    return me->joined_count == 0 || !me->joined[rank];
}

static kolo_status exchange_all(mpi_comm *me, const void *send, const size_t *send_bytes, const size_t *send_offsets,
                                void *receive, const size_t *receive_bytes, const size_t *receive_offsets)
{
    const kolo_comm *comm = &me->comm;
    int size = comm->size, rank = comm->rank;
    exchange x;
    kolo_status status;
    KOLO_GO(done, exchange_open(&x, me, pieces_of(send_bytes, size) + pieces_of(receive_bytes, size)));
    kolo_copy_bytes((char *)receive + receive_offsets[rank], (const char *)send + send_offsets[rank], send_bytes[rank]);
    for (int i = 1; i < size; i++) { /* each begins with its neighbour, so that not all begin with the same rank */
        int to = (rank + i) % size, from = (rank - i + size) % size;
        if (takes_part(me, from))
            KOLO_GO(done, receive_part(&x, (char *)receive + receive_offsets[from], receive_bytes[from], from));
        if (takes_part(me, to)) KOLO_GO(done, send_part(&x, (const char *)send + send_offsets[to], send_bytes[to], to));
    }
    status = kolo_mpi_wait_all(me, x.requests, x.statuses, x.count, "MPI_Waitall");
done:
    exchange_close(&x);
    return status;
}

static kolo_status exchange_parts(mpi_comm *me, const void *send, const size_t *send_bytes, const size_t *send_offsets,
                                  void *receive, const size_t *receive_bytes, const size_t *receive_offsets)
{
    kolo_mpi_lock();
    kolo_status status = exchange_all(me, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets);
    kolo_mpi_unlock();
    return status;
}

static kolo_status mpi_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                 const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                 const size_t *receive_offsets)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_ALLTOALLV, 0);
    KOLO_TRY(kolo_mpi_meet(comm, &call));
    return exchange_parts((mpi_comm *)comm, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets);
}

/* Sends the same part to all. */
static kolo_status gather_parts(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                const size_t *offsets)
{
    size_t size = (size_t)comm->size, *send_bytes = calloc(2 * size, sizeof *send_bytes);
    if (!send_bytes) return kolo_fail_memory(2 * size * sizeof *send_bytes, "messages between ranks");
    for (size_t i = 0; i < size; i++) send_bytes[i] = bytes[comm->rank];
    kolo_status status = exchange_parts((mpi_comm *)comm, data, send_bytes, send_bytes + size, all, bytes, offsets);
    free(send_bytes);
    return status;
}

static kolo_status mpi_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                  const size_t *offsets)
{
    kolo_collective call = kolo_call_allgatherv(bytes, comm->size);
    KOLO_TRY(kolo_mpi_meet(comm, &call));
    return gather_parts(comm, data, all, bytes, offsets);
}

/* Uses MPI_Allgather, which is faster for many ranks with few bytes, unless the bytes of all ranks exceed
 * KOLO_MPI_PIECE. */
kolo_status kolo_mpi_gather_all(mpi_comm *me, const void *data, size_t bytes, void *all)
{
    kolo_comm *comm = &me->comm;
    size_t size = (size_t)comm->size;
    MPI_Request request;
    if (bytes <= KOLO_MPI_PIECE / size) {
        kolo_copy_bytes((char *)all + (size_t)comm->rank * bytes, data, bytes);
        kolo_mpi_lock();
        kolo_status gathered = COLLECTIVE(me, MPI_Allgather, MPI_Iallgather, MPI_IN_PLACE, 0, MPI_BYTE, all, (int)bytes,
                                          MPI_BYTE, me->handle);
        kolo_mpi_unlock();
        return gathered;
    }
    size_t *parts = calloc(2 * size, sizeof *parts), *offsets = parts + size;
    if (!parts) return kolo_fail_memory(2 * size * sizeof *parts, "messages between ranks");
    for (size_t i = 0; i < size; i++) {
        parts[i] = bytes;
        offsets[i] = i * bytes;
    }
    kolo_status status = gather_parts(comm, data, all, parts, offsets);
    free(parts);
    return status;
}

static kolo_status mpi_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_ALLGATHER, (int64_t)bytes);
    KOLO_TRY(kolo_mpi_meet(comm, &call));
    return kolo_mpi_gather_all((mpi_comm *)comm, data, bytes, all);
}

/* --- the ranks --- */

static void mpi_abort(kolo_comm *comm)
{
    kolo_mpi_end_job(comm, 1);
}

static void mpi_lose(kolo_comm *comm)
{
    (void)comm;
    kolo_mpi_process.lost = true;
}

/* MPI frees a communicator together with all its ranks. */
static void mpi_close(kolo_comm *comm)
{
    mpi_comm *me = (mpi_comm *)comm;
    if (me->numbers) kolo_mpi_leave(me);
    if (!me->shared) kolo_mpi_close_meetings(me);
    if (!kolo_mpi_process.lost) kolo_mpi_free_late_messages(me);
    if (!kolo_mpi_process.lost && me->points != MPI_COMM_NULL) MPI_Comm_free(&me->points);
    if (!kolo_mpi_process.lost && me->leaders != MPI_COMM_NULL) MPI_Comm_free(&me->leaders);
    if (!kolo_mpi_process.lost) MPI_Comm_free(&me->handle);
    if (!me->numbers) kolo_mpi_process.open--;
    if (kolo_mpi_process.lost) return; /* a request of this rank may still wait in it (queue.h) */
    if (me->numbers) kolo_mpi_close_part(me);
    free(me);
}

const kolo_comm_kind kolo_mpi_kind = {
    .name = "mpi",
    .allreduce = mpi_allreduce,
    .broadcast = mpi_broadcast,
    .allgather = mpi_allgather,
    .allgatherv = mpi_allgatherv,
    .alltoallv = mpi_alltoallv,
    .barrier = mpi_barrier,
    .meet = kolo_mpi_meet,
    .send = kolo_mpi_send,
    .receive = kolo_mpi_receive,
    .probe = kolo_mpi_probe,
    .give_up = kolo_mpi_give_up,
    .split = kolo_mpi_split,
    .join = kolo_mpi_join,
    .abort = mpi_abort,
    .lose = mpi_lose,
    .close = mpi_close,
};
