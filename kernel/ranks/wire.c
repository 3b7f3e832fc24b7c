#include "ranks/wire.h"
#include "cells/text.h"

#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static bool send_part(void *socket, const void *bytes, size_t size, bool more)
{
    return zmq_send(socket, bytes ? bytes : "", size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

void rank_name(char name[RANK_NAME], const char *token, int rank)
{
    snprintf(name, RANK_NAME, "%.40s:%d", token, rank);
}

bool rank_message_send(void *socket, const char *to, const message *head, const void *payload, size_t size,
                       const void *object, size_t object_size)
{
    message stamped = *head;
    stamped.version = PROTOCOL_VERSION;
    stamped.length = (uint32_t)size;
    if (size > UINT32_MAX) return false;
    if (to && !send_part(socket, to, strlen(to), true)) return false;
    return send_part(socket, &stamped, sizeof stamped, true) && send_part(socket, payload, size, object != NULL) &&
           (!object || send_part(socket, object, object_size, false));
}

/* One part, NUL-terminated; `more` says whether another follows. NULL when nothing waits. */
static char *take_part(void *socket, size_t *size, bool *more)
{
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&part);
        return NULL;
    }
    *size = zmq_msg_size(&part);
    *more = zmq_msg_more(&part) != 0;
    char *copy = copy_of_bytes(zmq_msg_data(&part), *size);
    zmq_msg_close(&part);
    return copy;
}

/* Why these parts are no message; NULL: they are one. */
static const char *problem_of(char *const *parts, const size_t *sizes, size_t count, message *head)
{
    if (count < 2 || sizes[0] < offsetof(message, kind)) return "a message was cut";
    memcpy(head, parts[0], sizes[0] < sizeof *head ? sizes[0] : sizeof *head);
    if (head->version != PROTOCOL_VERSION || sizes[0] != sizeof *head)
        return "its kolo-rank is of another version than the kernel: every host needs the same Kolo";
    return head->length != sizes[1] ? "a message was cut" : NULL;
}

bool rank_message_take(void *socket, char *from, rank_message *into)
{
    char *parts[4] = {0};
    size_t sizes[4] = {0}, count = 0, first = from ? 1 : 0;
    bool more = true;
    *into = (rank_message){0};
    while (more) {
        size_t size;
        char *part = take_part(socket, &size, &more);
        if (!part) break;
        if (count < 4) {
            parts[count] = part;
            sizes[count++] = size;
        } else {
            free(part);
        }
    }
    bool any = count > first;
    if (any) into->problem = problem_of(parts + first, sizes + first, count - first, &into->head);
    if (any && !into->problem) {
        *into =
            (rank_message){into->head, parts[first + 1], sizes[first + 1], parts[first + 2], sizes[first + 2], NULL};
        parts[first + 1] = parts[first + 2] = NULL;
    }
    if (any && from) snprintf(from, RANK_NAME, "%s", parts[0]);
    for (size_t i = 0; i < 4; i++) free(parts[i]);
    return any;
}

void rank_message_free(rank_message *l)
{
    free(l->payload);
    free(l->object);
    *l = (rank_message){0};
}

const char *rank_message_second(const rank_message *l)
{
    size_t first = l->size ? strlen(l->payload) + 1 : 0;
    return first < l->size ? l->payload + first : "";
}
