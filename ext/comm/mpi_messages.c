/* Messages between two ranks. They have a communicator of their own, so that they cannot be mixed up with those of
 * collectives, whatever their tags. See mpi_comm.h. */
#include "comm/mpi_comm.h"

#include <stdlib.h>

#include "comm/mailbox.h"
#include "core/clock.h"

static kolo_status check_length(size_t bytes)
{
    if (bytes <= KOLO_MPI_PIECE) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED, "wanted a message of at most %d bytes, got %zu: send it in several messages",
                     KOLO_MPI_PIECE, bytes);
}

/* ---------------------------------------------------------------- messages that are watched */

/* Fails if this rank has waited longer than its watch allows: to send a message, or to receive one. */
static kolo_status check_watch(const mpi_comm *me, double begun, bool sends, int partner, int tag)
{
    const kolo_message_watch *watch = me->comm.watch;
    if (!watch || watch->limit <= 0 || kolo_now() - begun <= watch->limit) return KOLO_OK;
    if (!sends) return kolo_message_late(me->comm.rank, watch->limit, partner, tag);
    return kolo_fail(KOLO_COMM, "rank %d has waited %g s for rank %d to receive a message with tag %d", me->comm.rank,
                     watch->limit, partner, tag);
}

/* MPI cannot cancel a message that was sent. So the copy of one that nobody has received yet is kept. */
struct mpi_late_message {
    mpi_late_message *next;
    MPI_Request request;
    char data[];
};

void kolo_mpi_free_late_messages(mpi_comm *me)
{
    for (mpi_late_message **at = &me->late, *message; (message = *at);) {
        int done = 0;
        if (MPI_Test(&message->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        free(message);
    }
}

static kolo_status wait_watched(const mpi_comm *me, MPI_Request *request, int to, int tag)
{
    double begun = kolo_now();
    for (int turn = 0, done = 0;; turn++) {
        KOLO_TRY(kolo_mpi_check(me, MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
        if (done) return KOLO_OK;
        if (turn % 64 == 63) KOLO_TRY(check_watch(me, begun, true, to, tag));
        kolo_mpi_pause(me, turn);
    }
}

static kolo_status send_copy(mpi_comm *me, const void *data, size_t bytes, int to, int tag)
{
    kolo_mpi_free_late_messages(me);
    mpi_late_message *message = malloc(sizeof *message + bytes);
    if (!message) return kolo_fail_memory(bytes, "a message");
    kolo_copy_bytes(message->data, data, bytes);
    kolo_status status =
        kolo_mpi_check(me, MPI_Isend(message->data, (int)bytes, MPI_BYTE, to, tag, me->points, &message->request),
                       "MPI_Isend");
    if (status != KOLO_OK) {
        free(message);
        return status;
    }
    status = wait_watched(me, &message->request, to, tag);
    message->next = me->late;
    me->late = message;
    if (status == KOLO_OK) kolo_mpi_free_late_messages(me); /* its request is done */
    return status;
}

/* ---------------------------------------------------------------- send, receive, probe */

static kolo_status send(mpi_comm *me, const void *data, size_t bytes, int to, int tag)
{
    MPI_Request request;
    int result = MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, me->points, &request);
    if (!me->comm.watch) return kolo_mpi_wait_one(me, result, &request, "MPI_Isend");
    KOLO_TRY(kolo_mpi_check(me, result, "MPI_Isend"));
    return wait_watched(me, &request, to, tag);
}

kolo_status kolo_mpi_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    mpi_comm *me = (mpi_comm *)comm;
    KOLO_TRY(check_length(bytes));
    kolo_mpi_lock();
    kolo_status status;
    if (comm->watch && comm->watch->copies) status = send_copy(me, data, bytes, to, tag);
    else status = send(me, data, bytes, to, tag);
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
    double begun = me->comm.watch ? kolo_now() : 0;
    for (int turn = 0; !there; turn++) {
        KOLO_TRY(look(me, from, tag, &there, message));
        if (turn % 64 == 63) KOLO_TRY(check_watch(me, begun, false, from, tag));
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
