/* The display socket: cells and the programs they launch send MIME bundles here (KOLO_DISPLAY, KOLO_DISPLAY_TOKEN).
 * A frame is a uint32 byte count, little endian, and that many bytes of JSON: {"token", "kind": "display" | "update" |
 * "clear", "id", "wait", "data", "metadata"}. Each is answered by one byte: accepted or refused. Read first: output.h.
 */
#ifndef KERNEL_DISPLAY_H
#define KERNEL_DISPLAY_H

#include "output.h"

#include <poll.h>

enum { DISPLAY_ACCEPTED = 0x06, DISPLAY_REFUSED = 0x15, DISPLAY_LARGEST = 64 << 20, DISPLAY_CLIENTS = 32 };

typedef struct display_client {
    int socket;
    text frame;
} display_client;

typedef struct display {
    int listener;
    char *path, *token;
    display_client clients[DISPLAY_CLIENTS];
    size_t count;
} display;

bool display_open(display *d, const char *folder);
void display_close(display *d);

/* Adds what to poll; returns how many (at most DISPLAY_CLIENTS + 1). */
size_t display_watch(const display *d, struct pollfd *into);

/* Serves whoever is ready. `drain` is called before a message is published, so that prints come first. */
void display_serve(display *d, output *o, void (*drain)(void *closure), void *closure);

#endif
