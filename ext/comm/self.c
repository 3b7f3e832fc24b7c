/* A group of one member, for programs that were not launched as several ranks. Tests compare the other comms with it.
 * Read comm.h first. */
#include "comm/comm.h"

static kolo_status self_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                  kolo_reduce_op reduction)
{
    (void)comm, (void)values, (void)count, (void)type, (void)reduction;
    return KOLO_OK;
}

static kolo_status self_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    (void)comm, (void)data, (void)bytes, (void)root;
    return KOLO_OK;
}

static kolo_status self_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    (void)comm;
    kolo_copy_bytes(all, data, bytes);
    return KOLO_OK;
}

static kolo_status self_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                   const size_t *offsets)
{
    (void)comm;
    kolo_copy_bytes((char *)all + offsets[0], data, bytes[0]);
    return KOLO_OK;
}

static kolo_status self_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                  const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                  const size_t *receive_offsets)
{
    (void)comm;
    if (send_bytes[0] != receive_bytes[0])
        return kolo_fail(KOLO_INTERNAL, "alltoallv: member 0 sends itself %zu bytes but expects %zu", send_bytes[0],
                         receive_bytes[0]);
    kolo_copy_bytes((char *)receive + receive_offsets[0], (const char *)send + send_offsets[0], send_bytes[0]);
    return KOLO_OK;
}

static kolo_status self_barrier(kolo_comm *comm)
{
    (void)comm;
    return KOLO_OK;
}

static kolo_status self_meet(kolo_comm *comm, const kolo_collective *call)
{
    (void)comm, (void)call;
    return KOLO_OK;
}

/* A message to oneself would need a queue, which this comm does not have. */
static kolo_status self_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    (void)comm, (void)data, (void)bytes, (void)to, (void)tag;
    return kolo_fail(KOLO_INVALID, "there is no other rank to send to: the job has 1 rank");
}

static kolo_status self_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    (void)comm, (void)data, (void)room, (void)from, (void)tag, (void)message;
    return kolo_fail(KOLO_INVALID, "there is no other rank to receive from: the job has 1 rank");
}

static kolo_status self_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    (void)comm, (void)from, (void)tag, (void)message;
    *there = false;
    return KOLO_OK;
}

static kolo_status self_split(kolo_comm *comm, int color, kolo_comm **part)
{
    *part = color < 0 ? NULL : comm;
    return KOLO_OK;
}

static kolo_status self_join(kolo_comm *comm, int *last)
{
    *last = comm->rank;
    return KOLO_OK;
}

/* Nothing to do: no other member waits. */
static void self_abort(kolo_comm *comm)
{
    (void)comm;
}

static void self_close(kolo_comm *comm)
{
    (void)comm;
}

static const kolo_comm_kind self_kind = {
    .name = "self",
    .allreduce = self_allreduce,
    .broadcast = self_broadcast,
    .allgather = self_allgather,
    .allgatherv = self_allgatherv,
    .alltoallv = self_alltoallv,
    .barrier = self_barrier,
    .meet = self_meet,
    .send = self_send,
    .receive = self_receive,
    .probe = self_probe,
    .split = self_split,
    .join = self_join,
    .abort = self_abort,
    .close = self_close,
};

kolo_comm *kolo_comm_self(void)
{
    static kolo_comm self = {.kind = &self_kind, .size = 1}; /* never written to */
    return &self;
}
