/* Messages between threads: see mailbox.h. */
#include "comm/mailbox.h"

#include <pthread.h>
#include <stdlib.h>

#include "comm/call.h"

typedef struct letter {
    struct letter *next;
    kolo_message message;
    char data[];
} letter;

/* The messages that one member has not received yet, oldest first. */
typedef struct queue {
    letter *first, **end;
} queue;

struct kolo_mailboxes {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t came;  /* a message or an abort */
    bool aborted;
    int size;
    queue queues[];
};

kolo_status kolo_message_check(const kolo_message *message, int tag, int wanted, size_t room)
{
    kolo_type sent = kolo_tag_type(tag), type = kolo_tag_type(wanted);
    bool free = sent == type || sent == KOLO_TYPE_BYTE || type == KOLO_TYPE_BYTE || message->bytes == 0;
    if (!free)
        return kolo_fail(KOLO_INVALID, "wanted a message of %s, got one of %s from rank %d with tag %d",
                         kolo_type_name(type), kolo_type_name(sent), message->from, message->tag);
    if ((size_t)message->bytes <= room) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a message of at most %zu bytes, got %lld bytes from %d with tag %d", room,
                     (long long)message->bytes, message->from, message->tag);
}

static kolo_status late(int rank, double seconds, const char *limit, int from, int tag)
{
    const char *who = from == KOLO_ANY_RANK ? "any rank" : kolo_phrase("rank %d", from);
    const char *which = kolo_tag_is_any(tag) ? "any tag" : kolo_phrase("tag %d", kolo_tag_plain(tag));
    return kolo_fail(KOLO_COMM, "rank %d has waited %g s%s for a message from %s with %s", rank, seconds, limit, who,
                     which);
}

kolo_status kolo_message_late(int rank, double seconds, int from, int tag)
{
    return late(rank, seconds, "", from, tag);
}

kolo_status kolo_message_stalled(int rank, double seconds, int from, int tag)
{
    return late(rank, seconds, " (KOLO_STALL_LIMIT)", from, tag);
}

kolo_status kolo_message_never(int from)
{
    const char *who = from == KOLO_ANY_RANK ? "every other rank" : kolo_phrase("rank %d", from);
    return kolo_fail(KOLO_COMM, "%s has finished (kolo_finish) without sending this message", who);
}

/* Whether a message is one that the receiver asks for. */
static bool fits(const kolo_message *message, int from, int tag)
{
    return (from == KOLO_ANY_RANK || message->from == from) && (tag == KOLO_ANY_TAG || message->tag == tag);
}

kolo_status kolo_mailboxes_open(int size, kolo_mailboxes **boxes)
{
    size_t bytes = sizeof(kolo_mailboxes) + (size_t)size * sizeof(queue);
    kolo_mailboxes *made = calloc(1, bytes);
    if (!made) return kolo_fail_memory(bytes, "messages between replicas");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->came, NULL);
    made->size = size;
    for (int i = 0; i < size; i++) made->queues[i].end = &made->queues[i].first;
    *boxes = made;
    return KOLO_OK;
}

void kolo_mailboxes_close(kolo_mailboxes *boxes)
{
    for (int i = 0; boxes && i < boxes->size; i++) {
        for (letter *at = boxes->queues[i].first, *next; at; at = next) {
            next = at->next;
            free(at);
        }
    }
    if (boxes) pthread_cond_destroy(&boxes->came);
    if (boxes) pthread_mutex_destroy(&boxes->lock);
    free(boxes);
}

void kolo_mailboxes_abort(kolo_mailboxes *boxes)
{
    pthread_mutex_lock(&boxes->lock);
    boxes->aborted = true;
    pthread_cond_broadcast(&boxes->came);
    pthread_mutex_unlock(&boxes->lock);
}

kolo_status kolo_mailboxes_send(kolo_mailboxes *boxes, int from, const void *data, size_t bytes, int to, int tag)
{
    letter *made = malloc(sizeof *made + bytes);
    if (!made) return kolo_fail_memory(bytes, "a message");
    made->next = NULL;
    made->message = (kolo_message){.from = from, .tag = tag, .bytes = (int64_t)bytes};
    kolo_copy_bytes(made->data, data, bytes);
    pthread_mutex_lock(&boxes->lock);
    bool aborted = boxes->aborted;
    if (!aborted) {
        *boxes->queues[to].end = made;
        boxes->queues[to].end = &made->next;
        pthread_cond_broadcast(&boxes->came);
    }
    pthread_mutex_unlock(&boxes->lock);
    if (!aborted) return KOLO_OK;
    free(made);
    return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
}

/* The pointer to the oldest message that fits; it points to NULL if there is none. The caller holds the lock. */
static letter **find(kolo_mailboxes *boxes, int me, int from, int tag)
{
    letter **at = &boxes->queues[me].first;
    while (*at && !fits(&(*at)->message, from, tag)) at = &(*at)->next;
    return at;
}

static letter *take_out(queue *from, letter **at)
{
    letter *taken = *at;
    *at = taken->next;
    if (!taken->next) from->end = at;
    return taken;
}

kolo_status kolo_mailboxes_receive(kolo_mailboxes *boxes, int me, void *data, size_t room, int from, int tag,
                                   kolo_message *message)
{
    pthread_mutex_lock(&boxes->lock);
    letter **at = find(boxes, me, from, tag), *taken = NULL;
    while (!*at && !boxes->aborted) {
        pthread_cond_wait(&boxes->came, &boxes->lock);
        at = find(boxes, me, from, tag);
    }
    bool there = *at != NULL, fits = there && (size_t)(*at)->message.bytes <= room;
    if (there) *message = (*at)->message;
    if (fits) taken = take_out(&boxes->queues[me], at);
    pthread_mutex_unlock(&boxes->lock);
    if (!there) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
    if (!fits) return kolo_message_check(message, tag, tag, room);
    kolo_copy_bytes(data, taken->data, (size_t)message->bytes);
    free(taken);
    return KOLO_OK;
}

bool kolo_mailboxes_probe(kolo_mailboxes *boxes, int me, int from, int tag, kolo_message *message)
{
    pthread_mutex_lock(&boxes->lock);
    const letter *found = *find(boxes, me, from, tag);
    if (found) *message = found->message;
    pthread_mutex_unlock(&boxes->lock);
    return found != NULL;
}
