/* Messages between two ranks. They have a communicator of their own, so that they cannot be mixed up with those of
 * collectives, whatever their tags. See mpi_comm.h. */
#include "comm/mpi_comm.h"

#include "comm/mailbox.h"

static kolo_status check_length(size_t bytes)
{
    if (bytes <= KOLO_MPI_PIECE) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED, "wanted a message of at most %d bytes, got %zu: send it in several messages",
                     KOLO_MPI_PIECE, bytes);
}

kolo_status kolo_mpi_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    mpi_comm *me = (mpi_comm *)comm;
    MPI_Request request;
    KOLO_TRY(check_length(bytes));
    kolo_mpi_lock();
    kolo_status status = kolo_mpi_wait_one(me, MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, me->points, &request),
                                           &request, "MPI_Isend");
    kolo_mpi_unlock();
    return status;
}

static kolo_status look(mpi_comm *me, int from, int tag, bool *there, kolo_message *message)
{
    MPI_Status status;
    int found = 0, bytes = 0;
    KOLO_TRY(kolo_mpi_check(me,
                            MPI_Iprobe(from == KOLO_ANY_RANK ? MPI_ANY_SOURCE : from,
                                       tag == KOLO_ANY_TAG ? MPI_ANY_TAG : tag, me->points, &found, &status),
                            "MPI_Iprobe"));
    *there = found != 0;
    if (!found) return KOLO_OK;
    KOLO_TRY(kolo_mpi_check(me, MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count"));
    *message = (kolo_message){.from = status.MPI_SOURCE, .tag = status.MPI_TAG, .bytes = bytes};
    return KOLO_OK;
}

kolo_status kolo_mpi_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    kolo_mpi_lock();
    kolo_status status = look((mpi_comm *)comm, from, tag, there, message);
    kolo_mpi_unlock();
    return status;
}

/* The message is looked for first, because its size must be known before it is received. Only one thread of a rank
 * receives at a time, so no other one can receive it in between. */
static kolo_status receive(mpi_comm *me, void *data, size_t room, int from, int tag, kolo_message *message)
{
    bool there = false;
    for (int turn = 0; !there; turn++) {
        KOLO_TRY(look(me, from, tag, &there, message));
        if (!there) kolo_mpi_pause(me, turn);
    }
    if ((size_t)message->bytes > room) return kolo_message_too_long(message, room);
    MPI_Request request;
    return kolo_mpi_wait_one(me,
                             MPI_Irecv(data, (int)message->bytes, MPI_BYTE, message->from, message->tag, me->points,
                                       &request),
                             &request, "MPI_Irecv");
}

kolo_status kolo_mpi_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    kolo_mpi_lock();
    kolo_status status = receive((mpi_comm *)comm, data, room, from, tag, message);
    kolo_mpi_unlock();
    return status;
}
