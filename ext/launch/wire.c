/* Frames over a socket: see wire.h. */
#include "launch/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER = 5 };

/* Makes room for `more` bytes after `end`; moves the waiting bytes to the front first. */
static bool make_room(struct bytes *bytes, size_t more)
{
    if (bytes->start) {
        memmove(bytes->data, bytes->data + bytes->start, bytes->end - bytes->start);
        bytes->end -= bytes->start;
        bytes->start = 0;
    }
    if (bytes->capacity - bytes->end >= more) return true;
    size_t capacity = 2 * (bytes->end + more);
    char *data = realloc(bytes->data, capacity);
    if (!data) return false;
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

static void append(struct bytes *bytes, const void *more, size_t length)
{
    if (length) memcpy(bytes->data + bytes->end, more, length);
    bytes->end += length;
}

void wire_send(struct wire *wire, enum frame_kind kind, const void *bytes, size_t length)
{
    if (wire->broken || wire->peer_closed || wire->fd < 0) return;
    uint32_t size = htonl((uint32_t)length);
    if (length > WIRE_LARGEST || !make_room(&wire->out, HEADER + length)) {
        wire->broken = true;
        return;
    }
    append(&wire->out, &(char){(char)kind}, 1);
    append(&wire->out, &size, sizeof size);
    append(&wire->out, bytes, length);
    wire_flush(wire);
}

void wire_print(struct wire *wire, enum frame_kind kind, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof text) wire_send(wire, kind, text, (size_t)length);
    else wire->broken = true;
}

void wire_flush(struct wire *wire)
{
    while (!wire->broken && wire->fd >= 0 && wire_queued(wire)) {
        ssize_t sent = send(wire->fd, wire->out.data + wire->out.start, wire_queued(wire), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) wire->out.start += (size_t)sent;
        else if (errno == EAGAIN) return;
        else if (errno != EINTR) {
            wire->peer_closed = true;
            wire->out.start = wire->out.end = 0;
        }
    }
}

size_t wire_queued(const struct wire *wire)
{
    return wire->out.end - wire->out.start;
}

bool wire_fill(struct wire *wire)
{
    if (wire->fd < 0 || !make_room(&wire->in, WIRE_LARGEST)) return false;
    ssize_t got = recv(wire->fd, wire->in.data + wire->in.end, WIRE_LARGEST, MSG_DONTWAIT);
    if (got < 0) {
        bool again = errno == EAGAIN || errno == EINTR;
        if (!again) wire->error = errno;
        return again;
    }
    wire->in.end += (size_t)got;
    return got > 0;
}

bool wire_next(struct wire *wire, struct frame *frame)
{
    size_t waiting = wire->in.end - wire->in.start;
    if (wire->broken || waiting < HEADER) return false;
    const char *at = wire->in.data + wire->in.start;
    uint32_t size;
    memcpy(&size, at + 1, sizeof size);
    size = ntohl(size);
    if (size > WIRE_LARGEST) wire->broken = true;
    if (wire->broken || waiting - HEADER < size) return false;
    *frame = (struct frame){(enum frame_kind)at[0], at + HEADER, size};
    wire->in.start += HEADER + size;
    return true;
}

void wire_close(struct wire *wire)
{
    if (wire->fd >= 0) close(wire->fd);
    free(wire->in.data);
    free(wire->out.data);
    *wire = (struct wire){.fd = -1};
}

int frame_numbers(const struct frame *frame, long *numbers, int count)
{
    char text[128];
    if (frame->length >= sizeof text) return 0;
    memcpy(text, frame->bytes, frame->length);
    text[frame->length] = '\0';
    int read = 0;
    for (char *at = text, *end; read < count; read++, at = end) {
        numbers[read] = strtol(at, &end, 10);
        if (end == at) break;
    }
    return read;
}
