/* The part of the seam for arithmetic that says where and when work runs: a device is reached through a stream.
 *
 * Work that is enqueued on a stream runs in that order. A stream may be asynchronous: then a call returns before its
 * work is done, and a failure may show at any later call on the stream, which must then only be closed. What changes
 * from step to step is read from a kolo_step_parameters in the stream's memory, so that a captured step can be launched
 * again.
 *
 * A stream has lanes. for_each() spreads microbatches over them, and each lane runs the work of its microbatch in
 * order. The host's stream has a lane a thread (host_stream.c); a GPU's has one (cuda/stream.c), and so has the stream
 * that enqueues the reference backend's work as a GPU's does (enqueued_stream.c), with which the engine is tested.
 *
 * A stream belongs to one thread at a time. In a child of fork() every call fails, and close() leaves all to the
 * parent.
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

/* What a stream is opened for. */
typedef struct kolo_stream_place {
    const struct kolo_backend *backend; /* whose kernels it runs */
    int device;                         /* a GPU's number */
    int threads;                        /* of the host: how many lanes; at least 1 */
    sem_t *gate;                        /* of the host: cores that several streams share; NULL: no limit */
    bool concurrent;                    /* other streams of the same thread are to work side by side with it */
} kolo_stream_place;

typedef struct kolo_stream_kind {
    /* Steps whose results may still be on their way when the next is enqueued, at most KOLO_STEPS_AHEAD; 0: every call
     * returns when its work is done. */
    int steps_ahead;

    kolo_status (*open)(const kolo_stream_place *place, kolo_stream **stream);
    void (*close)(kolo_stream **stream); /* takes NULL; waits for what runs */

    /* Memory that kernels of this stream reach, aligned to 64 bytes or more; what: for the sentence when there is none.
     * release() takes NULL; the memory is given back when the stream has come so far. */
    kolo_status (*allocate)(kolo_stream *stream, size_t bytes, const char *what, void **memory);
    void (*release)(kolo_stream *stream, void *memory);
    /* Memory of the host that copies reach without a detour. */
    kolo_status (*allocate_host)(kolo_stream *stream, size_t bytes, void **memory);
    void (*release_host)(kolo_stream *stream, void *memory);

    /* Makes memory of the host reachable for kernels that only read it: *placed becomes `host` itself, or a copy in the
     * stream's memory. Called again with the same *placed when the host has changed it. discard() ends it. */
    kolo_status (*import)(kolo_stream *stream, const void *host, size_t bytes, const char *what, void **placed);
    void (*discard)(kolo_stream *stream, const void *host, void *placed); /* takes NULL */

    /* Between any two memories. `from` must stay as it is until the stream has come so far. */
    kolo_status (*copy)(kolo_stream *stream, void *to, const void *from, size_t bytes);
    kolo_status (*clear)(kolo_stream *stream, void *memory, size_t bytes); /* to zeros */
    /* Calls work(argument) on the host in the stream's order; it must not use a stream. */
    kolo_status (*call)(kolo_stream *stream, void (*work)(void *argument), void *argument);

    /* An event is recorded where the stream is now. *event: NULL, or one that is recorded again. */
    kolo_status (*record_event)(kolo_stream *stream, kolo_event **event);
    kolo_status (*synchronize_event)(kolo_stream *stream, kolo_event *event); /* the host waits for it */
    kolo_status (*wait_event)(kolo_stream *stream, kolo_event *event); /* the stream does; it may be another's event */
    void (*free_event)(kolo_stream *stream, kolo_event *event); /* takes NULL */
    kolo_status (*synchronize)(kolo_stream *stream); /* the host waits for all work */

    /* What is enqueued between the two does not run; it becomes a graph, which is launched any number of times. All
     * three NULL: the stream's work cannot be captured. */
    kolo_status (*begin_capture)(kolo_stream *stream);
    kolo_status (*end_capture)(kolo_stream *stream, kolo_captured_graph **graph);
    kolo_status (*launch)(kolo_stream *stream, kolo_captured_graph *graph);
    void (*free_graph)(kolo_stream *stream, kolo_captured_graph *graph); /* takes NULL */

    /* How many lanes it has, and the calls of body(argument, lane, number) for first … end-1; `backward`: the last
     * first. A lane makes one call at a time; work that a call enqueues runs in that call's order. The first failure
     * ends it. */
    int (*lanes)(const kolo_stream *stream);
    kolo_status (*for_each)(kolo_stream *stream, int64_t first, int64_t end, bool backward,
                            kolo_status (*body)(void *argument, int lane, int64_t number), void *argument);
    /* Runs an operation's kernel, whose backend may be another than the stream's. From within for_each(): in the order
     * of its lane. The call's samples, seed, step and loss scale are those of call->step_parameters when it runs. */
    kolo_status (*run)(kolo_stream *stream, const struct kolo_backend *backend, const struct kolo_plan *plan, int op,
                       void *kernel, const struct kolo_call *call);

    /* Packs WEIGHTS or unpacks GRADIENT values of the plan (backend.h); the list itself may go when it returns. */
    kolo_status (*convert)(kolo_stream *stream, const struct kolo_backend *backend, const struct kolo_plan *plan,
                           const struct kolo_conversion *list, int count);
    /* Adds one GRADIENT value, in the backend's layout, to another. From within for_each(): as run(). */
    kolo_status (*add_gradient)(kolo_stream *stream, const struct kolo_backend *backend, const struct kolo_plan *plan,
                                int value, void *to, const void *from);

    /* Samples first … first+microbatch-1 of the moment's batch into `to`; zeros behind the last. NULL: the engine
     * gathers them itself, within for_each(), straight from the data set. */
    kolo_status (*gather)(kolo_stream *stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                          int64_t first, int microbatch, const kolo_microbatch_arrays *to);
    /* to[i] += from[i]; of floats. */
    kolo_status (*add)(kolo_stream *stream, float *to, const float *from, int64_t count);
    /* sum[count] of doubles becomes the sum of parts 0 … number-1, which lie `stride` bytes apart, in that order. */
    kolo_status (*sum)(kolo_stream *stream, double *sum, const void *parts, size_t stride, int number, int64_t count);
    /* Whether all of so many floats are finite numbers; the host waits. */
    kolo_status (*are_finite)(kolo_stream *stream, const float *values, int64_t count, bool *finite);

    /* A comm over the members of `group` whose all-reduce takes memory of this stream and is enqueued on it. Every
     * member calls it and gets the same answer. *comm is `group` itself where that reaches the memory; else the caller
     * closes it before the group. Fails with one sentence on all members where it cannot be had. NULL: it never can. */
    kolo_status (*open_comm)(kolo_stream *stream, kolo_comm *group, kolo_comm **comm);
} kolo_stream_kind;

/* host_stream.c: every call returns when its work is done; lanes are threads. */
extern const kolo_stream_kind kolo_host_streams;
/* enqueued_stream.c: the host's arithmetic behind a stream that does as late as it may what it was given. */
extern const kolo_stream_kind kolo_enqueued_streams;

/* host_arrays.c. for_each() of a stream of one lane, which calls body() where it is called. */
kolo_status kolo_for_each_in_order(int64_t first, int64_t end, bool backward,
                                   kolo_status (*body)(void *argument, int lane, int64_t number), void *argument);
/* host_arrays.c: what the host's streams do with arrays. */
void kolo_host_gather(const kolo_sources *from, const kolo_step_parameters *step_parameters, int64_t first,
                      int microbatch, const kolo_microbatch_arrays *to);
void kolo_host_sum(double *sum, const void *parts, size_t stride, int number, int64_t count);
bool kolo_host_are_finite(const float *values, int64_t count);
/* Runs the kernel now. The call is completed by its moment. */
kolo_status kolo_host_run(const struct kolo_backend *backend, const struct kolo_plan *plan, int op, void *kernel,
                          const struct kolo_call *call);
kolo_status kolo_host_convert(const struct kolo_backend *backend, const struct kolo_plan *plan,
                              const struct kolo_conversion *list, int count);

#endif
