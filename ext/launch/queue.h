/* Bytes on their way to stdout and stderr, in one order: a line for stderr never lands inside a line for stdout when
 * both are the same terminal. Nothing blocks: the loop writes when the descriptor in front is writable. */
#ifndef KOLO_LAUNCH_QUEUE_H
#define KOLO_LAUNCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct queue_run;

struct queue {
    struct queue_run *first, *last;
    size_t waiting; /* bytes */
    bool closed;    /* nothing can be written any more: what comes is dropped */
    int error;      /* why: EPIPE when nobody reads, ENOSPC on a full disk, … */
};

void queue_bytes(struct queue *queue, int fd, const char *bytes, size_t length);
void queue_print(struct queue *queue, int fd, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The descriptor that should be writable next, or -1 when nothing waits. */
int queue_wants(const struct queue *queue);
/* Writes once, at most 4096 bytes: a pipe that poll() calls writable takes as much without blocking. */
void queue_write(struct queue *queue);
void queue_free(struct queue *queue);

#endif
