/* Showing things under a notebook's cell, inside the library: kolo.h's calls and bundles of several MIME types.
 *
 * The kernel listens on a Unix stream socket, KOLO_DISPLAY, and lends a token, KOLO_DISPLAY_TOKEN; both reach launched
 * programs by the environment. A frame is a 32-bit little-endian length and that many bytes of JSON:
 *   {"token": "…", "kind": "display" | "update" | "clear", "id": "…", "wait": false,
 *    "data": {"image/png": "<base64>", "text/plain": "…"}, "metadata": {}}
 * and is answered by one byte, 0x06 accepted or 0x15 refused. An update whose id the cell has not shown yet shows it.
 * Without KOLO_DISPLAY, or when nobody answers in time, the text/plain part is printed. */
#ifndef KOLO_SHOW_DISPLAY_H
#define KOLO_SHOW_DISPLAY_H

#include "core/error.h"

/* One form of what is shown: text for text/…, …+xml, …+json; bytes otherwise, unless they are base64 already. */
typedef struct kolo_mime {
    const char *type;
    const void *data;
    size_t size;
    bool encoded;
} kolo_mime;

/* The same thing in several forms; the notebook shows the richest it can. id NULL: nothing to update later. */
kolo_status kolo_display_bundle(const char *id, const kolo_mime *forms, int count);

/* The forms as one JSON object by MIME type, from malloc. */
kolo_status kolo_display_json(const kolo_mime *forms, int count, char **json);

/* display_socket.c: whether a notebook is listening, as far as the environment says. */
bool kolo_display_expected(void);
/* Sends one frame's JSON and waits for the answer, five seconds at most. False: it was not shown. Any thread. */
bool kolo_display_send(const char *json, size_t size);
const char *kolo_display_token(void);

#endif
