/* Who fetches bytes and who sums them up: libkolo_curl.so, loaded when the first file is fetched. */
#ifndef KOLO_FETCH_H
#define KOLO_FETCH_H

#include "core/error.h"

#define KOLO_SHA256_TEXT 65 /* 64 hexadecimal digits and a 0 */

/* Where fetched bytes go. Functions that fail end the transfer with their status. */
typedef struct kolo_fetch_sink {
    /* Before the first byte: the answer begins at `from`, which is what was asked for, or 0 where the server gives the
     * whole; its end is at `total` (-1: unknown). */
    kolo_status (*begin)(struct kolo_fetch_sink *sink, int64_t from, int64_t total);
    kolo_status (*add)(struct kolo_fetch_sink *sink, const void *bytes, size_t size);
    bool (*stopped)(struct kolo_fetch_sink *sink); /* asked several times a second: whether to give up */
} kolo_fetch_sink;

/* What became of a transfer. */
typedef struct kolo_fetch_result {
    kolo_status status; /* of the sink's functions, or KOLO_IO, KOLO_NOT_FOUND, … with a sentence's end in `why` */
    bool again; /* it broke off: going on from where it stopped may succeed */
    char why[300];
} kolo_fetch_result;

typedef struct kolo_fetcher {
    /* Fetches url from byte `from` on; `patience` seconds without a byte end it. Any thread. */
    kolo_fetch_result (*get)(const char *url, int64_t from, int patience, kolo_fetch_sink *sink);
    /* SHA-256 (FIPS 180-4), a piece after the other; NULL where there is no memory. */
    void *(*sum_begin)(void);
    void (*sum_add)(void *sum, const void *bytes, size_t size);
    void (*sum_end)(void *sum, char text[KOLO_SHA256_TEXT]); /* frees it; text may be NULL */
} kolo_fetcher;

#endif
