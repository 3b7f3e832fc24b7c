/* Letters between ranks: see zmq_comm.h. */
#include "comm/zmq_comm.h"
#include "core/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mailbox.h"

/* ---------------------------------------------------------------- the lock */

static void lock(zmq_comm *me)
{
    atomic_fetch_add(&me->waiting, 1);
    pthread_mutex_lock(&me->lock);
    atomic_fetch_sub(&me->waiting, 1);
}

static void unlock(zmq_comm *me)
{
    pthread_mutex_unlock(&me->lock);
}

/* A mutex is not fair: a thread that waits for letters would take the lock again before others wake up. */
static void let_others_pass(zmq_comm *me)
{
    for (int i = 0; i < 1000 && atomic_load(&me->waiting) > 0; i++) sched_yield();
}

bool kolo_zmq_hears(zmq_comm *me, int rank)
{
    const peer *other = &me->peers[rank];
    lock(me);
    bool hears = rank != me->comm.rank && other->present && !other->left && !other->gone;
    unlock(me);
    return hears;
}

bool kolo_zmq_has_left(zmq_comm *me, int rank)
{
    lock(me);
    bool left = me->peers[rank].left;
    unlock(me);
    return left;
}

uint64_t kolo_zmq_life(zmq_comm *me, int rank)
{
    lock(me);
    uint64_t life = me->peers[rank].life;
    unlock(me);
    return life;
}

/* ---------------------------------------------------------------- sending */

static kolo_status fail_gone(const zmq_comm *me, int rank)
{
    return kolo_fail(KOLO_COMM, "rank %d (%s) is gone", rank, me->cluster.addresses[rank]);
}

static bool is_lower(const zmq_comm *me, int rank)
{
    return rank < me->comm.rank;
}

static kolo_status post(zmq_comm *me, int to, letter_head head, const void *data, size_t bytes)
{
    const peer *receiver = &me->peers[to];
    void *socket = is_lower(me, to) ? receiver->link : me->listener;
    zmq_msg_t message;
    if (receiver->gone) return fail_gone(me, to);
    if (zmq_msg_init_size(&message, sizeof head + bytes) != 0) return kolo_fail_memory(bytes, "a message");
    memcpy(zmq_msg_data(&message), &head, sizeof head);
    kolo_copy_bytes((char *)zmq_msg_data(&message) + sizeof head, data, bytes);
    bool named = is_lower(me, to) || zmq_send(socket, receiver->identity, IDENTITY, ZMQ_SNDMORE) >= 0;
    /* The number of letters that wait is not limited, so a send never has to wait, unless ZeroMQ gave the connection
     * up. */
    if (named && zmq_msg_send(&message, socket, ZMQ_DONTWAIT) >= 0) return KOLO_OK;
    int reason = zmq_errno();
    zmq_msg_close(&message);
    if (reason == EHOSTUNREACH) return fail_gone(me, to);
    if (reason == EAGAIN)
        return kolo_fail(KOLO_COMM,
                         "rank %d (%s) does not take this process's connection: all ranks need the same "
                         "KOLO_CLUSTER_KEY",
                         to, me->cluster.addresses[to]);
    return kolo_fail(KOLO_COMM, "cannot send to rank %d: %s", to, zmq_strerror(reason));
}

kolo_status kolo_zmq_post(zmq_comm *me, int to, letter_head head, const void *data, size_t bytes)
{
    lock(me);
    kolo_status status = post(me, to, head, data, bytes);
    unlock(me);
    return status;
}

/* ---------------------------------------------------------------- reading */

void kolo_zmq_free_letter(letter *freed)
{
    if (!freed) return;
    zmq_msg_close(&freed->message);
    free(freed);
}

/* The higher rank with that identity; -1: none. */
static int find_rank(const zmq_comm *me, const unsigned char *identity)
{
    for (int r = me->comm.rank + 1; r < me->comm.size; r++)
        if (me->peers[r].present && memcmp(me->peers[r].identity, identity, IDENTITY) == 0) return r;
    return -1;
}

/* Updates the sender's state by a letter. Returns whether the letter goes into the list. */
static bool note(zmq_comm *me, const letter *arrived)
{
    peer *from = &me->peers[arrived->from];
    switch ((letter_kind)arrived->head.kind) {
    case LETTER_LIFE: from->life++; return false;
    case LETTER_FAILED:
        if (arrived->head.tag >= 0 && arrived->head.tag < me->comm.size) from = &me->peers[arrived->head.tag];
        from->failed = true;
        return false;
    case LETTER_CALL:
        if (arrived->bytes != sizeof(kolo_collective)) return false;
        kolo_collective call;
        memcpy(&call, arrived->data, sizeof call);
        if (call.operation == KOLO_CALL_FINISH) from->left = true;
        return true;
    case LETTER_GAVE_UP:
        if (arrived->head.tag <= me->given_up) return false;
        me->given_up = arrived->head.tag;
        snprintf(me->why, sizeof me->why, "%.*s", (int)arrived->bytes, arrived->data);
        return false;
    case LETTER_WELCOME:
    case LETTER_REFUSED:
    case LETTER_DATA:
    case LETTER_MESSAGE: return true;
    case LETTER_HELLO: break;
    }
    return false;
}

/* Takes the message over. */
static kolo_status keep(zmq_comm *me, int from, letter_head head, zmq_msg_t *message)
{
    letter *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a message");
    made->head = head;
    made->from = from;
    zmq_msg_init(&made->message);
    zmq_msg_move(&made->message, message);
    made->data = (const char *)zmq_msg_data(&made->message) + sizeof head;
    made->bytes = zmq_msg_size(&made->message) - sizeof head;
    if (note(me, made)) {
        *me->end = made;
        me->end = &made->next;
    } else kolo_zmq_free_letter(made);
    return KOLO_OK;
}

/* The listener's messages come from higher ranks, from processes that greet, and from others, which are dropped. */
static kolo_status sort_in(zmq_comm *me, const unsigned char *identity, int from, zmq_msg_t *message)
{
    letter_head head;
    greeting greets;
    if (zmq_msg_size(message) < sizeof head) return KOLO_OK;
    memcpy(&head, zmq_msg_data(message), sizeof head);
    if (head.kind == LETTER_HELLO && identity && zmq_msg_size(message) == sizeof head + sizeof greets) {
        memcpy(&greets, (const char *)zmq_msg_data(message) + sizeof head, sizeof greets);
        kolo_zmq_answer(me, identity, zmq_msg_get(message, ZMQ_SRCFD), &greets);
        return KOLO_OK;
    }
    if (identity) from = find_rank(me, identity);
    return from >= 0 ? keep(me, from, head, message) : KOLO_OK;
}

/* Reads the remaining parts of a message. */
static void skip_rest(void *socket, zmq_msg_t *message)
{
    while (zmq_msg_more(message) && zmq_msg_recv(message, socket, ZMQ_DONTWAIT) >= 0) {}
}

/* Reads all messages of the connection to the lower rank `from`, or of the listener. */
static kolo_status read_socket(zmq_comm *me, void *socket, int from)
{
    kolo_status status = KOLO_OK;
    zmq_msg_t message;
    zmq_msg_init(&message);
    while (status == KOLO_OK) {
        unsigned char identity[IDENTITY + 1];
        int size = socket == me->listener ? zmq_recv(socket, identity, sizeof identity, ZMQ_DONTWAIT) : 0;
        if (size < 0 || zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) break;
        bool whole = !zmq_msg_more(&message) && (socket != me->listener || size == IDENTITY);
        skip_rest(socket, &message);
        if (whole) status = sort_in(me, socket == me->listener ? identity : NULL, from, &message);
    }
    zmq_msg_close(&message);
    return status;
}

/* Reads a monitor's reports of connections that are closed. from: the lower rank; -1: the listener's, whose reports
 * name the connection. */
static void read_monitor(zmq_comm *me, void *monitor, int from)
{
    uint8_t report[6], endpoint[KOLO_TASK_ADDRESS]; /* 16 bits: the event; 32 bits: the connection's descriptor */
    int32_t descriptor;
    while (zmq_recv(monitor, report, sizeof report, ZMQ_DONTWAIT) >= 0) {
        zmq_recv(monitor, endpoint, sizeof endpoint, 0);
        memcpy(&descriptor, report + 2, sizeof descriptor);
        if (from >= 0) me->peers[from].gone = me->peers[from].present;
        for (int r = me->comm.rank + 1; from < 0 && r < me->comm.size; r++)
            if (me->peers[r].present && me->peers[r].descriptor == descriptor) me->peers[r].gone = true;
    }
}

/* Reads the monitors first. Letters that a rank sent before its connection was closed are thus read, too. */
static kolo_status read_all(zmq_comm *me)
{
    read_monitor(me, me->monitor, -1);
    for (int r = 0; r < me->comm.rank; r++) read_monitor(me, me->peers[r].monitor, r);
    for (int r = 0; r < me->comm.rank; r++) KOLO_TRY(read_socket(me, me->peers[r].link, r));
    return read_socket(me, me->listener, -1);
}

kolo_status kolo_zmq_pump(zmq_comm *me, long milliseconds)
{
    let_others_pass(me);
    lock(me);
    kolo_status status = KOLO_OK;
    if (zmq_poll(me->items, me->item_count, milliseconds) < 0 && zmq_errno() != EINTR)
        status = kolo_fail(KOLO_COMM, "cannot wait for messages: %s", zmq_strerror(zmq_errno()));
    if (status == KOLO_OK) status = read_all(me);
    unlock(me);
    return status;
}

/* ---------------------------------------------------------------- taking letters */

/* The pointer to the oldest letter that fits; it points to NULL if there is none. With the lock held. */
static letter **look_for(zmq_comm *me, letter_kind kind, int from, int tag)
{
    letter **at = &me->first;
    for (; *at; at = &(*at)->next) {
        bool tagged = kolo_tag_is_any(tag) || kolo_tag_plain((*at)->head.tag) == kolo_tag_plain(tag);
        bool fits = (from == KOLO_ANY_RANK || (*at)->from == from) && tagged;
        if ((*at)->head.kind == (uint32_t)kind && fits) break;
    }
    return at;
}

letter *kolo_zmq_find(zmq_comm *me, letter_kind kind, int from, int tag)
{
    lock(me);
    letter **at = look_for(me, kind, from, tag), *taken = *at;
    if (taken) *at = taken->next;
    if (taken && !taken->next) me->end = at;
    unlock(me);
    return taken;
}

/* A rank that another rank has named as failed is reported first, because others may be gone because of it. */
static kolo_status check_peers(zmq_comm *me)
{
    int failed = -1, gone = -1;
    for (int r = me->comm.size - 1; r >= 0; r--) {
        const peer *other = &me->peers[r];
        if (other->failed && r != me->comm.rank) failed = r;
        if (other->gone && !other->left && r != me->comm.rank) gone = r;
    }
    if (failed < 0 && gone < 0) return KOLO_OK;
    me->culprit = failed >= 0 ? failed : gone;
    if (failed < 0) return fail_gone(me, gone);
    return kolo_fail(KOLO_COMM, "rank %d (%s) has failed or has not come, which ends the job", failed,
                     me->cluster.addresses[failed]);
}

kolo_status kolo_zmq_check_peers(zmq_comm *me)
{
    lock(me);
    kolo_status status = check_peers(me);
    unlock(me);
    return status;
}

kolo_status kolo_zmq_take_data(zmq_comm *me, int from, void *data, size_t bytes)
{
    kolo_stall stall = {.limit = me->stall_limit};
    letter *found = kolo_zmq_find(me, LETTER_DATA, from, KOLO_ANY_TAG);
    while (!found) {
        KOLO_TRY(kolo_zmq_pump(me, ZMQ_TURN));
        found = kolo_zmq_find(me, LETTER_DATA, from, KOLO_ANY_TAG);
        if (!found) KOLO_TRY(kolo_zmq_check_peers(me));
        if (!found && kolo_stall_passed(&stall, 0, kolo_zmq_life(me, from)))
            return kolo_fail(KOLO_COMM, "rank %d (%s) has sent nothing for %g s (KOLO_STALL_LIMIT)", from,
                             me->cluster.addresses[from], me->stall_limit);
    }
    kolo_status status = KOLO_OK;
    if (found->bytes == bytes) kolo_copy_bytes(data, found->data, bytes);
    else
        status = kolo_fail(KOLO_COMM, "rank %d sends %zu bytes where rank %d expects %zu", from, found->bytes,
                           me->comm.rank, bytes);
    kolo_zmq_free_letter(found);
    return status;
}

/* ---------------------------------------------------------------- messages between two ranks */

kolo_status kolo_zmq_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    return kolo_zmq_post((zmq_comm *)comm, to, (letter_head){LETTER_MESSAGE, tag}, data, bytes);
}

/* Whether there is such a message, and which; *own becomes its tag with the type. */
static bool describe(zmq_comm *me, int from, int tag, int *own, kolo_message *message)
{
    lock(me);
    const letter *found = *look_for(me, LETTER_MESSAGE, from, tag);
    if (found) {
        *own = found->head.tag;
        *message = (kolo_message){.from = found->from, .tag = kolo_tag_plain(*own), .bytes = (int64_t)found->bytes};
    }
    unlock(me);
    return found;
}

kolo_status kolo_zmq_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    zmq_comm *me = (zmq_comm *)comm;
    int own;
    KOLO_TRY(kolo_zmq_pump(me, 0));
    *there = describe(me, from, tag, &own, message);
    return KOLO_OK;
}

void kolo_zmq_give_up(kolo_comm *comm, int call, const char *why)
{
    zmq_comm *me = (zmq_comm *)comm;
    for (int r = 0; r < comm->size; r++)
        if (kolo_zmq_hears(me, r) &&
            kolo_zmq_post(me, r, (letter_head){LETTER_GAVE_UP, call}, why, strlen(why)) != KOLO_OK)
            kolo_failure_take();
}

/* In a learner's all-reduce: fails if another rank has given it up, or this one has waited longer than it may. */
static kolo_status check_watch(zmq_comm *me, double begun, int from, int tag)
{
    kolo_message_watch *watch = me->comm.watch;
    lock(me);
    watch->told = me->given_up == watch->call;
    if (watch->told) kolo_fail(KOLO_COMM, "%s", me->why);
    unlock(me);
    if (watch->told) return KOLO_COMM;
    if (watch->limit <= 0 || kolo_now() - begun <= watch->limit) return KOLO_OK;
    return kolo_message_late(me->comm.rank, watch->limit, from, tag);
}

/* Fails if this rank has waited too long for a message. Sending never waits. A rank at work, which will come to the
 * message later, may be another one than its sender, which waits for it in turn. */
static kolo_status check_wait(zmq_comm *me, kolo_stall *stall, double begun, int from, int tag)
{
    uint64_t life = 0;
    bool left = true;
    if (me->comm.watch) KOLO_TRY(check_watch(me, begun, from, tag));
    for (int r = 0; r < me->comm.size; r++) {
        if (r == me->comm.rank) continue;
        life += kolo_zmq_life(me, r);
        left = left && ((from != KOLO_ANY_RANK && r != from) || kolo_zmq_has_left(me, r));
    }
    if (left) return kolo_message_never(from);
    if (me->comm.watch || !kolo_stall_passed(stall, 0, life)) return KOLO_OK;
    if (from != KOLO_ANY_RANK) me->culprit = from;
    return kolo_message_stalled(me->comm.rank, stall->limit, from, tag);
}

kolo_status kolo_zmq_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    zmq_comm *me = (zmq_comm *)comm;
    kolo_stall stall = {.limit = me->stall_limit};
    double begun = kolo_now();
    int own;
    KOLO_TRY(kolo_zmq_pump(me, 0));
    while (!describe(me, from, tag, &own, message)) {
        KOLO_TRY(kolo_zmq_check_peers(me));
        KOLO_TRY(check_wait(me, &stall, begun, from, tag));
        KOLO_TRY(kolo_zmq_pump(me, ZMQ_TURN));
    }
    KOLO_TRY(kolo_message_check(message, own, tag, room));
    letter *found = kolo_zmq_find(me, LETTER_MESSAGE, from, tag);
    kolo_copy_bytes(data, found->data, found->bytes);
    kolo_zmq_free_letter(found);
    return KOLO_OK;
}
