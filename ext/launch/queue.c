/* One ordered queue for two descriptors: see queue.h. */
#define _GNU_SOURCE 1 /* vasprintf */
#include "launch/queue.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUN = 32768 };

struct queue_run {
    struct queue_run *next;
    int fd;
    size_t start, end, capacity;
    char bytes[];
};

static struct queue_run *room_for(struct queue *queue, int fd, size_t length)
{
    struct queue_run *run = queue->last;
    if (run && run->fd == fd && run->capacity - run->end >= length) return run;
    size_t capacity = length > RUN ? length : RUN;
    run = malloc(sizeof *run + capacity);
    if (!run) return NULL;
    *run = (struct queue_run){.fd = fd, .capacity = capacity};
    if (queue->last) queue->last->next = run;
    else queue->first = run;
    queue->last = run;
    return run;
}

void queue_bytes(struct queue *queue, int fd, const char *bytes, size_t length)
{
    if (queue->closed || !length) return;
    struct queue_run *run = room_for(queue, fd, length);
    if (!run) return; /* if memory is out, only output is lost */
    memcpy(run->bytes + run->end, bytes, length);
    run->end += length;
    queue->waiting += length;
}

void queue_print(struct queue *queue, int fd, const char *format, ...)
{
    char text[1024], *longer = NULL;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= (int)sizeof text) length = vasprintf(&longer, format, again);
    if (length > 0) queue_bytes(queue, fd, longer ? longer : text, (size_t)length);
    free(longer);
    va_end(again);
    va_end(arguments);
}

int queue_wants(const struct queue *queue)
{
    return queue->first ? queue->first->fd : -1;
}

static void drop_first(struct queue *queue)
{
    struct queue_run *run = queue->first;
    queue->waiting -= run->end - run->start;
    queue->first = run->next;
    if (!queue->first) queue->last = NULL;
    free(run);
}

void queue_write(struct queue *queue)
{
    struct queue_run *run = queue->first;
    if (!run) return;
    size_t length = run->end - run->start;
    ssize_t written = write(run->fd, run->bytes + run->start, length < PIPE_BUF ? length : PIPE_BUF);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (written < 0) {
        queue->closed = true;
        queue->error = errno;
        queue_free(queue);
        return;
    }
    run->start += (size_t)written;
    queue->waiting -= (size_t)written;
    if (run->start == run->end) drop_first(queue);
}

void queue_free(struct queue *queue)
{
    while (queue->first) drop_first(queue);
}
