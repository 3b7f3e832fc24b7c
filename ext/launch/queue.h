/* A queue of bytes for stdout and stderr. It keeps their order, so that a line for stderr is never inside a line for
 * stdout if both are the same terminal. It never blocks: the main loop writes when the descriptor of the first bytes is
 * writable. */
#ifndef KOLO_LAUNCH_QUEUE_H
#define KOLO_LAUNCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct queue_run;

struct queue {
    struct queue_run *first, *last;
    size_t waiting; /* bytes in the queue */
    bool closed;    /* a write failed: all further bytes are dropped */
    int error;      /* errno of that write: EPIPE if nobody reads, ENOSPC on a full disk, … */
};

void queue_bytes(struct queue *queue, int fd, const char *bytes, size_t length);
void queue_print(struct queue *queue, int fd, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The descriptor of the first bytes, or -1 if the queue is empty. */
int queue_wants(const struct queue *queue);
/* Writes once, at most 4096 bytes: a pipe that is writable by poll() takes that many without blocking. */
void queue_write(struct queue *queue);
void queue_free(struct queue *queue);

#endif
