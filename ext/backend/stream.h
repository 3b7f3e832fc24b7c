/* The stream: the part of the backend's seam that says where and when work runs. The engine uses each device through a
 * stream.
 *
 * Work that is enqueued on a stream runs in that order. A stream may be asynchronous. A call then returns before its
 * work is done, and any later call on the stream may report its failure; after a failure the stream may only be closed.
 * Numbers that change from step to step are read from a kolo_step_parameters in the stream's memory, so that a captured
 * step can be launched again.
 *
 * A stream has lanes. for_each() spreads microbatches over them, and each lane runs the work of its microbatch in
 * order. The host's stream has one lane per thread (host_stream.c). A GPU's stream has one lane (cuda/stream.c). The
 * stream of enqueued_stream.c has one lane, too. It defers the reference backend's work as a GPU would, for the
 * engine's tests.
 *
 * A stream belongs to one thread at a time. In a child of fork() every call fails, and close() frees nothing that the
 * parent still uses.
 */
#ifndef KOLO_BACKEND_STREAM_H
#define KOLO_BACKEND_STREAM_H

#include <semaphore.h>

#include "backend/step_parameters.h"
#include "comm/comm.h"
#include "core/error.h"

typedef struct kolo_stream kolo_stream;
typedef struct kolo_event kolo_event;
typedef struct kolo_captured_graph kolo_captured_graph;
struct kolo_backend;
struct kolo_plan;
struct kolo_call;
struct kolo_conversion;

/* The options of open(). */
typedef struct kolo_stream_place {
    const struct kolo_backend *backend; /* whose kernels it runs */
    int device;                         /* a GPU's number; the host ignores it */
    int threads;                        /* the host's number of lanes, at least 1 */
    sem_t *gate;                        /* counts the cores that several host streams share; NULL: no limit */
    bool concurrent;                    /* the host's for_each() returns early, so that streams of a thread overlap */
} kolo_stream_place;

typedef struct kolo_stream_kind {
    /* The number of enqueued steps that may be unfinished at a time, at most KOLO_STEPS_AHEAD. 0: every call returns
     * when its work is done, except on a concurrent stream. */
    int steps_ahead;

    kolo_status (*open)(const kolo_stream_place *place, kolo_stream **stream);
    void (*close)(kolo_stream **stream); /* takes NULL; waits for work that runs */

    /* Memory that kernels of this stream can use, aligned to 64 bytes or more. `what` names it in the sentence of a
     * failure. release() takes NULL, and frees the memory after the work that was enqueued before the call. */
    kolo_status (*allocate)(kolo_stream *stream, size_t bytes, const char *what, void **memory);
    void (*release)(kolo_stream *stream, void *memory);
    /* Memory of the host for fast copies; pinned if the device is a GPU. The kernels of take_step_parameters() and
     * copy_to_ring() use it in place. */
    kolo_status (*allocate_host)(kolo_stream *stream, size_t bytes, void **memory);
    void (*release_host)(kolo_stream *stream, void *memory);

    /* Makes the host's memory readable for kernels: *placed becomes `host` itself, or a copy in the stream's memory.
     * The caller passes NULL in *placed the first time, and the same *placed again when the host has changed the
     * contents. discard() frees the copy. */
    kolo_status (*import)(kolo_stream *stream, const void *host, size_t bytes, const char *what, void **placed);
    void (*discard)(kolo_stream *stream, const void *host, void *placed); /* takes NULL */

    /* Copies between any two memories. The caller keeps `from` unchanged until the stream has made the copy. */
    kolo_status (*copy)(kolo_stream *stream, void *to, const void *from, size_t bytes);
    kolo_status (*clear)(kolo_stream *stream, void *memory, size_t bytes); /* sets all bytes to zero */
    /* Calls work(argument) on the host, in the stream's order. work() must not use a stream. */
    kolo_status (*call)(kolo_stream *stream, void (*work)(void *argument), void *argument);

    /* Records an event behind all work enqueued so far. *event: NULL for a new event, or one to record again. */
    kolo_status (*record_event)(kolo_stream *stream, kolo_event **event);
    kolo_status (*synchronize_event)(kolo_stream *stream, kolo_event *event); /* the host waits for the event */
    kolo_status (*wait_event)(kolo_stream *stream, kolo_event *event); /* later work waits for any stream's event */
    void (*free_event)(kolo_stream *stream, kolo_event *event); /* takes NULL */
    /* record_time() is a record_event() whose event notes the time when the stream has come to it. Such an event is
     * recorded again by record_time() alone. elapsed() waits for both events, and gives the seconds between them. Both
     * are NULL where steps_ahead is 0. */
    kolo_status (*record_time)(kolo_stream *stream, kolo_event **event);
    kolo_status (*elapsed)(kolo_stream *stream, kolo_event *first, kolo_event *last, double *seconds);
    kolo_status (*synchronize)(kolo_stream *stream); /* the host waits for all work */

    /* Work that is enqueued between begin_capture() and end_capture() does not run. It becomes a graph, which can be
     * launched any number of times. All three are NULL where the stream's work cannot be captured. */
    kolo_status (*begin_capture)(kolo_stream *stream);
    kolo_status (*end_capture)(kolo_stream *stream, kolo_captured_graph **graph);
    kolo_status (*launch)(kolo_stream *stream, kolo_captured_graph *graph);
    void (*free_graph)(kolo_stream *stream, kolo_captured_graph *graph); /* takes NULL */

    int (*lanes)(const kolo_stream *stream);
    /* Calls body(argument, lane, number) for the numbers first … end-1, or from the last to the first if `backward`. A
     * lane makes one call at a time, and runs the work in the order in which the call enqueues it. The first failure
     * ends the loop. */
    kolo_status (*for_each)(kolo_stream *stream, int64_t first, int64_t end, bool backward,
                            kolo_status (*body)(void *argument, int lane, int64_t number), void *argument);
    /* Runs the kernel of operation `op`, which may be of another backend than the stream. Within for_each() it runs in
     * the order of its lane. It reads samples, seed, step and loss scale from call->step_parameters when it runs. */
    kolo_status (*run)(kolo_stream *stream, const struct kolo_backend *backend, const struct kolo_plan *plan, int op,
                       void *kernel, const struct kolo_call *call);

    /* Packs WEIGHTS values or unpacks GRADIENT values of the plan (backend.h). The caller may free the list at once.
     * Within for_each() it runs as run() does. */
    kolo_status (*convert)(kolo_stream *stream, const struct kolo_backend *backend, const struct kolo_plan *plan,
                           const struct kolo_conversion *list, int count);
    /* Adds one GRADIENT value, in the backend's layout, to another. Within for_each() it runs as run() does. */
    kolo_status (*add_gradient)(kolo_stream *stream, const struct kolo_backend *backend, const struct kolo_plan *plan,
                                int value, void *to, const void *from);

    /* Brings the numbers of a step to the stream. *to becomes the element behind number to->slot of `ring`, which has
     * KOLO_STEPS_AHEAD elements in memory of allocate_host(). The host keeps the element unchanged until the stream has
     * come so far. So a captured step takes another element each time that it is launched. scaling: NULL, or what the
     * numbers are completed with (step_parameters.h); *seen, in the stream's memory, becomes a copy of *scaling before
     * the step. */
    kolo_status (*take_step_parameters)(kolo_stream *stream, kolo_step_parameters *to, const kolo_step_parameters *ring,
                                        kolo_scaling *scaling, kolo_scaling *seen);
    /* Brings the results of a step to the host: copies `bytes` bytes, a multiple of 8, to element number
     * step_parameters->slot of an array in memory of allocate_host(), whose elements begin `stride` bytes apart. */
    kolo_status (*copy_to_ring)(kolo_stream *stream, void *ring, size_t stride,
                                const kolo_step_parameters *step_parameters, const void *from, size_t bytes);
    /* Writes samples first … first+microbatch-1 of the batch that *step_parameters names to `to`, and zeros behind the
     * batch's last sample. NULL: the engine gathers samples itself, from the data set, within for_each(). */
    kolo_status (*gather)(kolo_stream *stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                          int64_t first, int microbatch, const kolo_gathered *to);
    /* to[i] += from[i] */
    kolo_status (*add)(kolo_stream *stream, float *to, const float *from, int64_t count);
    /* sum[count] becomes the sum of `number` arrays of doubles, which begin `stride` bytes apart at `parts`. They are
     * added in that order. */
    kolo_status (*sum)(kolo_stream *stream, double *sum, const void *parts, size_t stride, int number, int64_t count);
    /* Whether all values are finite. The host waits for the answer. */
    kolo_status (*are_finite)(kolo_stream *stream, const float *values, int64_t count, bool *finite);

    /* Opens a comm over the members of `group` whose all-reduce takes memory of this stream and is enqueued on it. All
     * members call it and get the same answer. *comm is `group` itself where that can use the memory; otherwise it is a
     * new comm, which the caller closes before the group. If it cannot be opened, the call fails on all members with
     * the same sentence. NULL: the kind never has such a comm. */
    kolo_status (*open_comm)(kolo_stream *stream, kolo_comm *group, kolo_comm **comm);
    /* Opens a comm over the members of `comm`, which open_comm() has opened on another stream of this device. The sums
     * of the new one are enqueued on this stream. All sums of the two run in the order of their calls, which is the
     * same on all members. Either stream reports their failures. The caller closes the new comm before `comm`. NULL:
     * the kind never has such a comm. */
    kolo_status (*open_comm_beside)(kolo_stream *stream, kolo_comm *comm, kolo_comm **beside);
} kolo_stream_kind;

/* host_stream.c: lanes are threads, and a call returns when its work is done, unless the stream is concurrent. */
extern const kolo_stream_kind kolo_host_streams;
/* enqueued_stream.c: the host's arithmetic, deferred until the latest moment that the contract allows. */
extern const kolo_stream_kind kolo_enqueued_streams;

/* host_arrays.c: for_each() of a stream with one lane, which runs on the calling thread. */
kolo_status kolo_for_each_in_order(int64_t first, int64_t end, bool backward,
                                   kolo_status (*body)(void *argument, int lane, int64_t number), void *argument);
/* host_arrays.c: gather(), sum() and are_finite() on the host's arrays. */
void kolo_host_gather(const kolo_sources *from, const kolo_step_parameters *step_parameters, int64_t first,
                      int microbatch, const kolo_gathered *to);
void kolo_host_sum(double *sum, const void *parts, size_t stride, int number, int64_t count);
bool kolo_host_are_finite(const float *values, int64_t count);
/* Runs the kernel now, with samples, seed, step and loss scale from call->step_parameters. */
kolo_status kolo_host_run(const struct kolo_backend *backend, const struct kolo_plan *plan, int op, void *kernel,
                          const struct kolo_call *call);
kolo_status kolo_host_convert(const struct kolo_backend *backend, const struct kolo_plan *plan,
                              const struct kolo_conversion *list, int count);

#endif
