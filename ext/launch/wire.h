/* Frames between kolorun and the watcher of each rank, over a stream socket (Unix on one host, TCP between hosts).
 *
 * A frame is a kind (1 byte), a length (4 bytes, network byte order) and that many bytes, 64 KiB at most. Numbers in
 * frames are text, so that their layout need not be the same on all hosts. Neither side ever blocks: bytes that cannot
 * be sent yet are kept in `out`. */
#ifndef KOLO_LAUNCH_WIRE_H
#define KOLO_LAUNCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>

enum { WIRE_LARGEST = 65536 };

enum frame_kind {
    /* from a rank's watcher */
    FRAME_HELLO = 'h',   /* "token host rank pid local-rank": the first frame; pid is the program's */
    FRAME_OUT = 'o',     /* bytes of the program's stdout */
    FRAME_ERR = 'e',     /* bytes of the program's stderr */
    FRAME_STATE = 's',   /* "signal": the signal stopped the program; "0": the program continues */
    FRAME_TAKEN = 't',   /* the program's stdin has taken the last FRAME_IN */
    FRAME_ASKED = 'a',   /* the program was asked to end */
    FRAME_NO_EXEC = 'n', /* "errno": the program could not be started */
    FRAME_COMPUTED =
        'c', /* "milliseconds" that the program has computed; without a number, to the watcher: the question */
    FRAME_STOP = 'p', /* "signal": another program (SLURM) has sent this signal to the rank: the job must stop */
    FRAME_EXIT = 'x', /* "code signal asked date": its end (1: asked; clock_date()); the last frame */
    /* to a rank's watcher */
    FRAME_IN = 'i', /* bytes for the program's stdin; the next follows only after FRAME_TAKEN */
    FRAME_IN_END = 'z', /* no more stdin */
    FRAME_SIGNAL = 'k', /* "signal": send it to the program */
    FRAME_END = 'q', /* "signal milliseconds": send the signal to the program, and kill what is left after that time */
    FRAME_LEAVE = 'l', /* the answer to FRAME_EXIT: the watcher may end, so that mpirun sees the end of the rank */
};

struct frame {
    enum frame_kind kind;
    const char *bytes; /* valid until the next wire_fill() */
    size_t length;
};

struct bytes {
    char *data;
    size_t start, end, capacity; /* data[start..end) waits */
};

struct wire {
    int fd; /* non-blocking; -1 when closed */
    bool broken; /* a frame was malformed, too large or without memory: nothing is sent or read any more */
    int error; /* errno of the last read if it failed: ETIMEDOUT when the other host is gone */
    bool peer_closed; /* the other side receives no more; its frames can still be read */
    struct bytes in, out;
};

/* Queues a frame and sends as much as possible. Sets `broken` if memory is out. Does nothing if the other side is
 * gone. */
void wire_send(struct wire *wire, enum frame_kind kind, const void *bytes, size_t length);
/* The same with a short text as the payload. */
void wire_print(struct wire *wire, enum frame_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Sends what is queued as far as the socket takes it. */
void wire_flush(struct wire *wire);
/* Bytes still queued. */
size_t wire_queued(const struct wire *wire);
/* Receives bytes. False if the other side is gone; frames from before can still be taken. */
bool wire_fill(struct wire *wire);
/* Takes the next complete frame. False if there is none. A malformed frame sets `broken`. */
bool wire_next(struct wire *wire, struct frame *frame);
void wire_close(struct wire *wire);

/* Reads up to `count` decimal numbers from a frame's text; returns how many there were. */
int frame_numbers(const struct frame *frame, long *numbers, int count);

#endif
