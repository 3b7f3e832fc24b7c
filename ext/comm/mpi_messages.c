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

/* ---------------------------------------------------------------- waiting */

#define GRACE 0.2 /* seconds in which the last messages of a rank that has left arrive; until others see a wait */

/* A wait for another rank to send or to receive a message. Most messages are there at once, so the rest is filled in at
 * the first look. */
typedef struct waiting {
    bool sends;
    int partner; /* or KOLO_ANY_RANK */
    int tag;
    size_t bytes; /* that are sent */
    double begun, left; /* left: when the partner was seen to have left; 0: it is there */
    kolo_stall stall;
    bool shown; /* ranks that share memory see in which call this one waits */
} waiting;

static void begin_wait(const mpi_comm *me, waiting *wait)
{
    if (wait->begun > 0) return;
    wait->begun = kolo_now();
    wait->stall.limit = me->stall_limit;
    /* Two ranks that wait for each other notice it at the same time: the lower one speaks, and ends the job. */
    if (me->stall_limit > 0 && wait->partner >= 0 && wait->partner < me->comm.rank) wait->stall.limit += 1;
}

static void show_wait(const mpi_comm *me, waiting *wait)
{
    if (wait->shown || !me->shared || kolo_now() - wait->begun < GRACE) return;
    kolo_collective call = kolo_call_make(wait->sends ? KOLO_CALL_SEND : KOLO_CALL_RECEIVE, (int64_t)wait->bytes);
    call.root = wait->partner;
    wait->shown = kolo_shared_show_wait(me->shared, &call);
}

static void end_wait(const mpi_comm *me, const waiting *wait)
{
    if (wait->shown) kolo_shared_hide_wait(me->shared);
}

/* In a learner's all-reduce: fails if another rank has given it up, or this one has waited longer than it may. */
static kolo_status check_watch(mpi_comm *me, const waiting *wait)
{
    kolo_message_watch *watch = me->comm.watch;
    watch->told = me->given_up == watch->call;
    if (watch->told) return kolo_fail(KOLO_COMM, "%s", me->why);
    if (watch->limit <= 0 || kolo_now() - wait->begun <= watch->limit) return KOLO_OK;
    if (!wait->sends) return kolo_message_late(me->comm.rank, watch->limit, wait->partner, wait->tag);
    return kolo_fail(KOLO_COMM, "rank %d has waited %g s for rank %d to receive a message with tag %d", me->comm.rank,
                     watch->limit, wait->partner, kolo_tag_plain(wait->tag));
}

/* Fails if the other rank makes no more calls. */
static kolo_status check_left(mpi_comm *me, waiting *wait)
{
    if (!kolo_mpi_has_left(me, wait->partner)) return KOLO_OK;
    double now = kolo_now();
    if (wait->left == 0) wait->left = now;
    if (now - wait->left < GRACE) return KOLO_OK;
    if (!wait->sends) return kolo_message_never(wait->partner);
    return kolo_fail(KOLO_COMM, "rank %d has finished (kolo_finish) without receiving this message of %lld bytes",
                     wait->partner, (long long)wait->bytes);
}

static kolo_status fail_stalled(const mpi_comm *me, const waiting *wait)
{
    int partner = wait->partner;
    if (!wait->sends) kolo_message_stalled(me->comm.rank, me->stall_limit, partner, wait->tag);
    else
        kolo_fail(KOLO_COMM,
                  "rank %d has waited %g s (KOLO_STALL_LIMIT) for rank %d to receive a message of %lld bytes with tag "
                  "%d",
                  me->comm.rank, me->stall_limit, partner, (long long)wait->bytes, kolo_tag_plain(wait->tag));
    if (!me->shared || partner < 0) return KOLO_COMM;
    kolo_failure failure = kolo_failure_take();
    return kolo_fail(KOLO_COMM, "%s%s", failure.text, kolo_shared_wait_text(me->shared, partner));
}

/* Looks now and then whether this wait may go on. A rank at work, which will come to the message later, may be another
 * one than the partner, which waits for it in turn. */
static kolo_status check_wait(mpi_comm *me, waiting *wait, int turn)
{
    if (turn % 64 != 63) return KOLO_OK;
    begin_wait(me, wait);
    KOLO_TRY(kolo_mpi_take_notes(me));
    if (me->comm.watch) KOLO_TRY(check_watch(me, wait));
    show_wait(me, wait);
    KOLO_TRY(check_left(me, wait));
    if (me->comm.watch || !kolo_stall_passed(&wait->stall, 0, kolo_mpi_life_of_others(me))) return KOLO_OK;
    return kolo_mpi_end_after(me, fail_stalled(me, wait));
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

static kolo_status wait_until_sent(mpi_comm *me, MPI_Request *request, size_t bytes, int to, int tag)
{
    waiting wait = {.sends = true, .partner = to, .tag = tag, .bytes = bytes};
    kolo_status status = KOLO_OK;
    for (int turn = 0, done = 0;; turn++) {
        status = kolo_mpi_check(me, MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (status == KOLO_OK && !done) status = check_wait(me, &wait, turn);
        if (done || status != KOLO_OK) break;
        kolo_mpi_pause(me, turn);
    }
    end_wait(me, &wait);
    return status;
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
    status = wait_until_sent(me, &message->request, bytes, to, tag);
    message->next = me->late;
    me->late = message;
    if (status == KOLO_OK) kolo_mpi_free_late_messages(me); /* its request is done */
    return status;
}

/* ---------------------------------------------------------------- send, receive, probe */

static kolo_status send(mpi_comm *me, const void *data, size_t bytes, int to, int tag)
{
    MPI_Request request;
    KOLO_TRY(kolo_mpi_check(me, MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, me->points, &request), "MPI_Isend"));
    return wait_until_sent(me, &request, bytes, to, tag);
}

/* Whether a send that fails leaves its message to MPI, while the program goes on and may free the data. */
static bool keeps_copies(const mpi_comm *me)
{
    return me->comm.watch ? me->comm.watch->copies : kolo_in_notebook() && me->stall_limit > 0;
}

/* A rank that has left will not receive. A small message to it would be taken as sent. */
static kolo_status check_receiver(mpi_comm *me, int to)
{
    if (!me->shared) KOLO_TRY(kolo_mpi_take_notes(me));
    if (!kolo_mpi_has_left(me, to)) return KOLO_OK;
    return kolo_fail(KOLO_COMM, "rank %d has finished (kolo_finish), and receives no more messages", to);
}

kolo_status kolo_mpi_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    mpi_comm *me = (mpi_comm *)comm;
    KOLO_TRY(check_length(bytes));
    kolo_mpi_lock();
    kolo_status status = check_receiver(me, to);
    if (status == KOLO_OK) status = (keeps_copies(me) ? send_copy : send)(me, data, bytes, to, tag);
    kolo_mpi_unlock();
    return status;
}

/* Looks for a message with that MPI tag; *own becomes the tag that it has. */
static kolo_status look_at(mpi_comm *me, int from, int tag, bool *there, int *own, kolo_message *message)
{
    MPI_Status status;
    int found = 0, bytes = 0;
    KOLO_TRY(kolo_mpi_check(me,
                            MPI_Iprobe(from == KOLO_ANY_RANK ? MPI_ANY_SOURCE : from, tag, me->points, &found, &status),
                            "MPI_Iprobe"));
    *there = found != 0;
    if (!found) return KOLO_OK;
    KOLO_TRY(kolo_mpi_check(me, MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count"));
    *own = status.MPI_TAG;
    *message = (kolo_message){.from = status.MPI_SOURCE, .tag = kolo_tag_plain(*own), .bytes = bytes};
    return KOLO_OK;
}

/* Looks for a message with that tag and any type. The oldest message is nearly always the one; if it has another tag,
 * each type is looked for. */
static kolo_status look(mpi_comm *me, int from, int tag, bool *there, int *own, kolo_message *message)
{
    KOLO_TRY(look_at(me, from, MPI_ANY_TAG, there, own, message));
    if (!*there || kolo_tag_is_any(tag) || message->tag == kolo_tag_plain(tag)) return KOLO_OK;
    *there = false;
    for (int i = 0; i < KOLO_TAG_TYPES && !*there; i++) {
        kolo_type type = (kolo_type)(((int)kolo_tag_type(tag) + i) % KOLO_TAG_TYPES);
        KOLO_TRY(look_at(me, from, kolo_tag_of(kolo_tag_plain(tag), type), there, own, message));
    }
    return KOLO_OK;
}

kolo_status kolo_mpi_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    int own;
    kolo_mpi_lock();
    kolo_status status = look((mpi_comm *)comm, from, tag, there, &own, message);
    kolo_mpi_unlock();
    return status;
}

static kolo_status wait_for_message(mpi_comm *me, int from, int tag, int *own, kolo_message *message)
{
    waiting wait = {.partner = from, .tag = tag};
    kolo_status status = KOLO_OK;
    bool there = false;
    for (int turn = 0; !there && status == KOLO_OK; turn++) {
        status = look(me, from, tag, &there, own, message);
        if (status == KOLO_OK && !there) status = check_wait(me, &wait, turn);
        if (status == KOLO_OK && !there) kolo_mpi_pause(me, turn);
    }
    end_wait(me, &wait);
    return status;
}

/* The message is looked for first, because its size and its type must be known before it is received. Only one thread
 * of a rank receives at a time, so no other one can receive it in between. */
static kolo_status receive(mpi_comm *me, void *data, size_t room, int from, int tag, kolo_message *message)
{
    int own;
    MPI_Request request;
    KOLO_TRY(wait_for_message(me, from, tag, &own, message));
    KOLO_TRY(kolo_message_check(message, own, tag, room));
    return kolo_mpi_wait_one(me,
                             MPI_Irecv(data, (int)message->bytes, MPI_BYTE, message->from, own, me->points, &request),
                             &request, "MPI_Irecv");
}

kolo_status kolo_mpi_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    kolo_mpi_lock();
    kolo_status status = receive((mpi_comm *)comm, data, room, from, tag, message);
    kolo_mpi_unlock();
    return status;
}
