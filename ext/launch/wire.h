/* Frames between kolorun and the watcher of each rank, over a stream socket (Unix on this host, TCP from others).
 *
 * A frame is a kind (1 byte), a length (4 bytes, network order) and that many bytes, 64 KiB at most. Numbers inside
 * frames are text, so that hosts need not agree on their layout. Neither side ever blocks: what cannot be sent yet
 * waits in `out`. */
#ifndef KOLO_LAUNCH_WIRE_H
#define KOLO_LAUNCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>

enum { WIRE_LARGEST = 65536 };

enum frame_kind {
    /* from a rank's watcher */
    FRAME_HELLO = 'h',   /* "token host rank pid": the first frame; pid is the program's */
    FRAME_OUT = 'o',     /* bytes of the program's stdout */
    FRAME_ERR = 'e',     /* bytes of the program's stderr */
    FRAME_STATE = 's',   /* "signal": the program was stopped by it; "0": it goes on */
    FRAME_TAKEN = 't',   /* the program's stdin has taken the last FRAME_IN */
    FRAME_ASKED = 'a',   /* the program has been told to end */
    FRAME_NO_EXEC = 'n', /* "errno": the program could not be started */
    FRAME_EXIT = 'x', /* "code signal asked": how the program ended; asked: it had been told to end; the last frame */
    /* to a rank's watcher */
    FRAME_IN = 'i', /* bytes for the program's stdin; the next follows only after FRAME_TAKEN */
    FRAME_IN_END = 'z', /* no more stdin */
    FRAME_SIGNAL = 'k', /* "signal": pass it on to the program */
    FRAME_END = 'q', /* "signal milliseconds": pass that signal on, and kill what is left after that time */
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
    bool broken;
    bool unheard; /* the other side takes nothing any more; what it has said can still be read */
    struct bytes in, out;
};

/* Queues a frame and sends what it can. Without memory it sets `broken`; to a side that is gone it
 * sends nothing. */
void wire_send(struct wire *wire, enum frame_kind kind, const void *bytes, size_t length);
/* The same with a short text as the payload. */
void wire_print(struct wire *wire, enum frame_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Sends what is queued as far as the socket takes it. */
void wire_flush(struct wire *wire);
/* Bytes still queued. */
size_t wire_queued(const struct wire *wire);
/* Reads what has arrived. False once the other side has gone (frames that came before can still be taken). */
bool wire_fill(struct wire *wire);
/* Takes the next whole frame. False when there is none; a malformed frame sets `broken`. */
bool wire_next(struct wire *wire, struct frame *frame);
void wire_close(struct wire *wire);

/* Reads up to `count` decimal numbers from a frame's text; returns how many there were. */
int frame_numbers(const struct frame *frame, long *numbers, int count);

#endif
