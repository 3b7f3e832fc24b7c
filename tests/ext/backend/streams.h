/* Streams of the host keep the contract of backend/stream.h, whatever their kind: those that do their work at once,
 * those with a thread of their own, and those that enqueue it. alarm() ends a test that hangs. */
#ifndef KOLO_TESTS_STREAMS_H
#define KOLO_TESTS_STREAMS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"

#define MINUTES 2
#define LANES   3
#define MOST    64

typedef struct kind {
    const char *name;
    const kolo_stream_kind *streams;
    bool concurrent, late;
} kind;

static const kind kinds[] = {
    {"host", &kolo_host_streams, false, false},
    {"host concurrent", &kolo_host_streams, true, false},
    {"enqueued", &kolo_enqueued_streams, false, true},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static inline kolo_stream *open_stream(const kind *k)
{
    kolo_stream *stream = NULL;
    const kolo_stream_place place = {.backend = &kolo_reference_backend, .threads = LANES, .concurrent = k->concurrent};
    print_message("a stream: %s\n", k->name);
    assert_int_equal(k->streams->open(&place, &stream), KOLO_OK);
    return stream;
}

#define DO(call) assert_int_equal((call), KOLO_OK)

static inline void pause_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static inline kolo_status increase_slowly(void *argument, int lane, int64_t number)
{
    (void)lane, (void)number;
    atomic_int *value = argument;
    int before = atomic_load(value);
    pause_a_moment();
    atomic_store(value, before + 1); /* an increase that came in between is lost */
    return KOLO_OK;
}

#endif
