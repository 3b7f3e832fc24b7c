/* Sums through the host: see staged_comm.h. */
#include "backend/staged_comm.h"

#include <stdlib.h>

typedef struct staged_comm {
    kolo_comm base;
    const kolo_stream_kind *streams;
    kolo_stream *stream;
    kolo_comm *group;
    void *host; /* [room] bytes, pinned */
    size_t room;
} staged_comm;

static kolo_status make_room(staged_comm *comm, size_t bytes)
{
    if (bytes <= comm->room) return KOLO_OK;
    comm->streams->release_host(comm->stream, comm->host);
    comm->host = NULL;
    comm->room = 0;
    KOLO_TRY(comm->streams->allocate_host(comm->stream, bytes, &comm->host));
    comm->room = bytes;
    return KOLO_OK;
}

/* The copy back is only enqueued. The next call's copy to `host` is behind it on the same stream. */
static kolo_status allreduce(kolo_comm *base, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    staged_comm *comm = (staged_comm *)base;
    size_t bytes = (size_t)count * kolo_type_bytes(type);
    KOLO_TRY(make_room(comm, bytes));
    KOLO_TRY(comm->streams->copy(comm->stream, comm->host, values, bytes));
    KOLO_TRY(comm->streams->synchronize(comm->stream));
    KOLO_TRY(comm->group->kind->allreduce(comm->group, comm->host, count, type, reduction));
    return comm->streams->copy(comm->stream, values, comm->host, bytes);
}

static void close_comm(kolo_comm *base)
{
    staged_comm *comm = (staged_comm *)base;
    comm->streams->release_host(comm->stream, comm->host);
    free(comm);
}

static const kolo_comm_kind staged_kind = {.name = "staged", .allreduce = allreduce, .close = close_comm};

kolo_status kolo_staged_comm_open(const kolo_stream_kind *streams, kolo_stream *stream, kolo_comm *group,
                                  kolo_comm **comm)
{
    staged_comm *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a group of devices");
    *made = (staged_comm){.base = {.kind = &staged_kind, .rank = group->rank, .size = group->size},
                          .streams = streams,
                          .stream = stream,
                          .group = group};
    *comm = &made->base;
    return KOLO_OK;
}

kolo_status kolo_comm_open_beside(const kolo_stream_kind *streams, kolo_stream *stream, kolo_comm *comm,
                                  kolo_comm **beside)
{
    if (comm->kind != &staged_kind) return streams->open_comm_beside(stream, comm, beside);
    return kolo_staged_comm_open(streams, stream, ((const staged_comm *)comm)->group, beside);
}
