/* The interface of the plugin libkolo_curl.so, which fetches bytes and computes checksums. It is loaded when the
 * first file is fetched. */
#ifndef KOLO_FETCH_H
#define KOLO_FETCH_H

#include "core/error.h"

#define KOLO_SHA256_TEXT 65 /* 64 hexadecimal digits and a 0 */

/* The receiver of fetched bytes. A failure of begin() or add() ends the transfer with its status. */
typedef struct kolo_fetch_sink {
    /* Called before the first byte. `from`: where the response begins, at the requested byte, or at 0 if the server
     * sends the whole file; `total`: where it ends, -1: unknown. */
    kolo_status (*begin)(struct kolo_fetch_sink *sink, int64_t from, int64_t total);
    kolo_status (*add)(struct kolo_fetch_sink *sink, const void *bytes, size_t size);
    bool (*stopped)(struct kolo_fetch_sink *sink); /* called several times a second; true ends the transfer */
} kolo_fetch_sink;

/* The result of a transfer. */
typedef struct kolo_fetch_result {
    kolo_status status; /* of the sink's functions; or KOLO_IO, KOLO_NOT_FOUND, … */
    bool again; /* the transfer was interrupted: resuming it may succeed */
    char why[300]; /* the reason, as the end of a sentence; "": the sink has reported the failure */
} kolo_fetch_result;

typedef struct kolo_fetcher {
    /* Fetches url from byte `from` on. Fails after `patience` seconds without a byte. Any thread. */
    kolo_fetch_result (*get)(const char *url, int64_t from, int patience, kolo_fetch_sink *sink);
    /* SHA-256 (FIPS 180-4), added up piece by piece. sum_begin() returns NULL if there is no memory. */
    void *(*sum_begin)(void);
    void (*sum_add)(void *sum, const void *bytes, size_t size);
    void (*sum_end)(void *sum, char text[KOLO_SHA256_TEXT]); /* frees the sum; text may be NULL */
} kolo_fetcher;

#endif
