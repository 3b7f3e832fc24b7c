/* Output under a notebook's cell, inside the library: for the calls of kolo_tools.h, and bundles of several MIME
 * types.
 *
 * The kernel listens on a Unix stream socket, KOLO_DISPLAY, and sets a token, KOLO_DISPLAY_TOKEN; launched programs
 * get both from the environment. A frame is a 32-bit little-endian length and that many bytes of JSON:
 *   {"token": "…", "kind": "display" | "update" | "clear", "id": "…", "wait": false,
 *    "data": {"image/png": "<base64>", "text/plain": "…"}, "metadata": {}}
 * and is answered by one byte, 0x06 accepted or 0x15 refused. An update whose id the cell has not shown yet is shown
 * like a display. Without KOLO_DISPLAY, or if no answer comes in time, the text/plain part is printed. */
#ifndef KOLO_SHOW_DISPLAY_H
#define KOLO_SHOW_DISPLAY_H

#include "core/error.h"

/* The content in one MIME type: text for text/…, …+xml and …+json; for other types bytes, or, if `encoded`, base64. */
typedef struct kolo_mime {
    const char *type;
    const void *data;
    size_t size;
    bool encoded;
} kolo_mime;

/* Shows content in several forms, of which the notebook chooses the richest. id: replaces what was shown with this
 * id; NULL: adds new output. */
kolo_status kolo_display_bundle(const char *id, const kolo_mime *forms, int count);

/* Writes the forms as one JSON object with a member for each MIME type; *json is from malloc. */
kolo_status kolo_display_json(const kolo_mime *forms, int count, char **json);

/* display_socket.c: whether KOLO_DISPLAY is set, so that a notebook should be listening. */
bool kolo_display_expected(void);
/* Sends one frame's JSON and waits for the answer, five seconds at most. False: it was not accepted. Any thread. */
bool kolo_display_send(const char *json, size_t size);
const char *kolo_display_token(void);

#endif
