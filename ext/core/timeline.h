/* The recorder of the timeline: where each thread spends its time. See kolo_start_timeline() in kolo_tools.h.
 *
 * Code that takes part calls kolo_timeline_begin() before a piece of work and kolo_timeline_end() behind it. Without a
 * recording each call is one branch on kolo_timeline_on. During one it reads the clock, and the thread writes 80 bytes
 * into a row of its own, without a lock: rows are in a mapped file (timeline_file.h), so they survive the process. A
 * thread allocates its row at its first event in a place.
 *
 * Any thread may call kolo_timeline_begin(), kolo_timeline_end() and the functions about places at any time. */
#ifndef KOLO_CORE_TIMELINE_H
#define KOLO_CORE_TIMELINE_H

#include "core/error.h"
#include "core/timeline_file.h"

#include <stdatomic.h>

extern atomic_bool kolo_timeline_on;

static inline bool kolo_timeline_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&kolo_timeline_on, memory_order_relaxed), false);
}

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t kolo_timeline_now(void);
/* The time; 0 without a recording. */
static inline int64_t kolo_timeline_begin(void)
{
    return kolo_timeline_is_on() ? kolo_timeline_now() : 0;
}

/* Records an event with both of its times. number, bytes: see kolo_timeline_event. */
void kolo_timeline_record(int64_t begun, int64_t ended, kolo_timeline_span span, const char *name, int64_t number,
                          int64_t bytes);
/* Records the event that began at `begun`; nothing if that is 0. */
static inline void kolo_timeline_end_with(int64_t begun, kolo_timeline_span span, const char *name, int64_t number,
                                          int64_t bytes)
{
    if (begun != 0) kolo_timeline_record(begun, kolo_timeline_now(), span, name, number, bytes);
}
static inline void kolo_timeline_end(int64_t begun, kolo_timeline_span span, const char *name)
{
    kolo_timeline_end_with(begun, span, name, -1, 0);
}

/* The row of a thread's events, and their step. A thread may be in one place after the other: the thread of main() is
 * also that of device 0. */
typedef struct kolo_timeline_place {
    const char *kind; /* "device"; NULL: nothing is recorded */
    int number; /* of the device; -1: none */
    int lane; /* of the device; 0: the first one, which is not named */
    int64_t step; /* -1: none */
} kolo_timeline_place;
kolo_timeline_place kolo_timeline_move(kolo_timeline_place place);
/* Enters a place, and returns the one before for kolo_timeline_leave(). */
static inline kolo_timeline_place kolo_timeline_enter(const char *kind, int number, int lane, int64_t step)
{
    kolo_timeline_place nowhere = {0};
    return kolo_timeline_is_on() ? kolo_timeline_move((kolo_timeline_place){kind, number, lane, step}) : nowhere;
}
/* Sets the step of this thread's place. */
void kolo_timeline_set_step(int64_t step);
static inline void kolo_timeline_leave(kolo_timeline_place before)
{
    if (before.kind) kolo_timeline_move(before);
}

/* The functions below are for one thread at a time. */

/* Makes a new file, whose rows, zero and clock are still empty: see kolo_timeline_file(). */
kolo_status kolo_timeline_open(const char *file, int rank, int size);
/* Begins the recording. */
void kolo_timeline_go(void);
/* Ends the recording when no thread writes any more. The file remains, and so does its header, until
 * kolo_timeline_close(). */
void kolo_timeline_halt(void);
/* The header in the file; NULL: none is open. */
kolo_timeline_header *kolo_timeline_file(void);
int kolo_timeline_descriptor(void);
void kolo_timeline_close(void);

#endif
