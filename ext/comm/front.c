#include "comm/front.h"

static bool enter(kolo_comm *comm, kolo_front_call *call, kolo_status *status)
{
    kolo_front *front = (kolo_front *)comm;
    return !front->hooks->enter || front->hooks->enter(front, call, status);
}

static kolo_status leave(kolo_comm *comm, const kolo_front_call *call, kolo_status status)
{
    kolo_front *front = (kolo_front *)comm;
    return front->hooks->leave ? front->hooks->leave(front, call, status) : status;
}

static size_t sum_of(const size_t *bytes, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += bytes[i];
    return sum;
}

/* ---------------------------------------------------------------- collectives */

static kolo_status front_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                   kolo_reduce_op reduction)
{
    kolo_front_call call = {
        .kind = KOLO_FRONT_ALLREDUCE, .count = count, .bytes = (size_t)count * kolo_type_bytes(type)};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->allreduce(below, values, count, type, reduction));
}

static kolo_status front_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    kolo_front_call call = {.kind = KOLO_FRONT_BROADCAST, .count = (int64_t)bytes, .bytes = bytes};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->broadcast(below, data, bytes, root));
}

static kolo_status front_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    kolo_front_call call = {
        .kind = KOLO_FRONT_ALLGATHER, .count = (int64_t)bytes, .bytes = bytes, .gathered = bytes * (size_t)comm->size};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->allgather(below, data, bytes, all));
}

static kolo_status front_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                    const size_t *offsets)
{
    size_t own = bytes[comm->rank];
    kolo_front_call call = {
        .kind = KOLO_FRONT_ALLGATHERV, .count = (int64_t)own, .bytes = own, .gathered = sum_of(bytes, comm->size)};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->allgatherv(below, data, all, bytes, offsets));
}

static kolo_status front_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                   const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                   const size_t *receive_offsets)
{
    kolo_front_call call = {.kind = KOLO_FRONT_ALLTOALLV, .bytes = sum_of(send_bytes, comm->size)};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    status = below->kind->alltoallv(below, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets);
    return leave(comm, &call, status);
}

static kolo_status front_barrier(kolo_comm *comm)
{
    kolo_front_call call = {.kind = KOLO_FRONT_BARRIER};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->barrier(below));
}

static kolo_status front_meet(kolo_comm *comm, const kolo_collective *meeting)
{
    kolo_front_call call = {.kind = KOLO_FRONT_MEET, .meeting = meeting};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->meet(below, meeting));
}

static kolo_status front_join(kolo_comm *comm, int *last)
{
    kolo_front_call call = {.kind = KOLO_FRONT_JOIN};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->join(below, last));
}

static kolo_status front_wait_for_threads(kolo_comm *comm)
{
    kolo_front_call call = {.kind = KOLO_FRONT_THREADS};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->wait_for_threads(below));
}

static kolo_status front_split(kolo_comm *comm, int color, kolo_comm **part)
{
    kolo_front_call call = {.kind = KOLO_FRONT_SPLIT};
    kolo_comm *below = kolo_front_below(comm);
    kolo_status status;
    if (!enter(comm, &call, &status)) return status;
    return leave(comm, &call, below->kind->split(below, color, part));
}

/* ---------------------------------------------------------------- without hooks */

static kolo_status front_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    kolo_comm *below = kolo_front_watched(comm);
    return below->kind->send(below, data, bytes, to, tag);
}

static kolo_status front_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    kolo_comm *below = kolo_front_watched(comm);
    return below->kind->receive(below, data, room, from, tag, message);
}

static kolo_status front_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    kolo_comm *below = kolo_front_below(comm);
    return below->kind->probe(below, from, tag, there, message);
}

static void front_give_up(kolo_comm *comm, int call, const char *why)
{
    kolo_comm *below = kolo_front_below(comm);
    below->kind->give_up(below, call, why);
}

static void front_abort(kolo_comm *comm)
{
    kolo_comm *below = kolo_front_below(comm);
    below->kind->abort(below);
}

static void front_abort_threads(kolo_comm *comm)
{
    kolo_comm *below = kolo_front_below(comm);
    below->kind->abort_threads(below);
}

static bool front_aborted(const kolo_comm *comm)
{
    const kolo_comm *below = kolo_front_below(comm);
    return below->kind->aborted(below);
}

static void front_lose(kolo_comm *comm)
{
    kolo_comm *below = kolo_front_below(comm);
    below->kind->lose(below);
}

void kolo_front_open(kolo_front *front, kolo_comm *below, const kolo_front_hooks *hooks)
{
    const kolo_comm_kind *has = below->kind;
    front->kind = (kolo_comm_kind){.name = has->name,
                                   .allreduce = front_allreduce,
                                   .broadcast = front_broadcast,
                                   .allgather = front_allgather,
                                   .allgatherv = front_allgatherv,
                                   .alltoallv = front_alltoallv,
                                   .barrier = front_barrier,
                                   .meet = front_meet,
                                   .send = front_send,
                                   .receive = front_receive,
                                   .probe = front_probe,
                                   .split = has->split ? front_split : NULL,
                                   .join = has->join ? front_join : NULL,
                                   .wait_for_threads = has->wait_for_threads ? front_wait_for_threads : NULL,
                                   .give_up = has->give_up ? front_give_up : NULL,
                                   .abort = front_abort,
                                   .abort_threads = has->abort_threads ? front_abort_threads : NULL,
                                   .aborted = has->aborted ? front_aborted : NULL,
                                   .lose = has->lose ? front_lose : NULL};
    front->comm = (kolo_comm){
        .kind = &front->kind, .rank = below->rank, .size = below->size, .reads_in_place = below->reads_in_place};
    front->below = below;
    front->hooks = hooks;
}
