/* The display socket: cells and the programs they launch send MIME bundles here (KOLO_DISPLAY, KOLO_DISPLAY_TOKEN).
 * A frame is a uint32 byte count, little endian, and that many bytes of JSON: {"token", "kind": "display" | "update" |
 * "clear", "id", "wait", "data", "metadata"}. Each is answered by one byte: accepted or refused. Read first: output.h.
 */
#ifndef KERNEL_DISPLAY_H
#define KERNEL_DISPLAY_H

#include "output.h"

/* CLIENTS: more may come; the one that has been silent longest makes room. LARGEST: bytes of a frame: a
 * Jupyter server drops a message that is over its 3 MB in 3 s by itself. */
enum { DISPLAY_ACCEPTED = 0x06, DISPLAY_REFUSED = 0x15, DISPLAY_LARGEST = 2900000, DISPLAY_CLIENTS = 256 };

typedef struct display_client {
    int socket;
    double heard; /* seconds_now() */
    text frame;
    bool held; /* the frame is whole, and waits until the server would not drop it */
} display_client;

typedef struct display {
    int listener, ready; /* ready: an epoll descriptor over all sockets */
    char *path, *token;
    display_client *clients;
    size_t count, capacity, held;
    names shown; /* the ids that this cell's outputs have */
} display;

bool display_open(display *d, const char *folder);
void display_close(display *d);

/* Adds the variables by which a cell's worker, and what it starts, find the display, libkolo (which need not be there)
 * and the folder of compiled cells. */
void display_tell(const display *d, const char *library, const char *folder, names *environment);

/* A cell begins. An update of an id that it has not shown yet, or has cleared away, is published as a display with that
 * id: otherwise it would be seen with an earlier cell only, or nowhere. JupyterLab then updates earlier outputs of the
 * id as well. */
void display_begin(display *d);

/* The descriptor to poll for reading: it is ready when display_serve has something to do. */
int display_watch(const display *d);

/* Drops what is held back and lets its sender go on, so that an interrupt need not wait for it. */
void display_drop_held(display *d);

/* Serves the clients that are ready. `drain` is called before a message is published, so that prints come first. */
void display_serve(display *d, output *o, void (*drain)(void *closure), void *closure);

#endif
