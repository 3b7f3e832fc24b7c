/* The seam for devices with memory of their own: what a backend adds that computes on them. Read backend.h first.
 *
 * A stream is one device at work for one replica: what it is given runs in that order, some time later, and the host
 * goes on. A step is captured once and then replayed, so nothing in it may depend on the host: what changes from step
 * to step is a kolo_step_parameters (step_parameters.h) in the device's memory, copied there before each replay.
 * Everything here that takes a stream belongs to one thread at a time; memory is the device's unless a comment says
 * host.
 *
 * Failures of the device may show at any later call on its stream; the stream is lost then, and must only be closed. In
 * a child of fork() every call on a stream fails, and closing it leaves all to the parent.
 */
#ifndef KOLO_BACKEND_ACCELERATOR_H
#define KOLO_BACKEND_ACCELERATOR_H

#include "backend/step_parameters.h"
#include "comm/comm.h"
#include "core/error.h"
#include "backend/meter.h"

typedef struct kolo_stream kolo_stream;
typedef struct kolo_captured_graph kolo_captured_graph;
typedef struct kolo_event kolo_event;

/* An update: flat arrays of `count` elements, in `spans`. */
typedef struct kolo_update_job {
    const kolo_optimizer *optimizer; /* defaults filled in */
    const kolo_span *spans;        /* [span_count], on the host; they outlive the stream */
    int span_count;
    int64_t count;
    float *weights, *gradient, *slots[3], *numbers;
    const kolo_step_parameters *step_parameters;
    double clip_value, clip_norm, global_clip_norm; /* 0: none */
    double decay; /* .weight_decay of a rule that does not decay by itself; times the rate it is rule[0] · decay */
    kolo_scaling *scaling; /* which learns whether the gradient is finite: where it is not, nothing is updated. NULL:
                              the loss is not scaled */
    /* A program's plan, whose parameters the spans are, or NULL. Then its packed weights (NULL: there are none) are
     * those of the updated ones; and the gradient may be as microbatches left it (NULL: it is in `gradient`, which else
     * is room). */
    const struct kolo_plan *plan;
    void *packed;
    const float *left;
} kolo_update_job;

typedef struct kolo_accelerator {
    /* Devices of this machine that the driver shows; 0 where there is no driver. Masks are not looked at. */
    int (*devices)(void);
    /* Name and memory of one; fails with a sentence. Takes no memory there itself. */
    kolo_status (*describe)(int device, char name[96], int64_t *memory_bytes, int64_t *free_bytes);
    /* Bytes of its memory that streams of this process hold. */
    int64_t (*held)(int device);
    /* Whether an entry of CUDA_VISIBLE_DEVICES that is no number, of that length, names it: "GPU-8932f937", "MIG-…". */
    bool (*is_called)(int device, const char *entry, size_t length);
    /* What is nearest to a device, and what connects two different ones, as far as the driver tells (all but .name).
     * Take no memory there. */
    void (*locate)(int device, kolo_spot *spot);
    void (*connect)(int device, int other, kolo_connection *connection);
    /* How fast its devices copy to each other. */
    const kolo_meter *meter;

    kolo_status (*open)(int device, kolo_stream **stream);
    void (*close)(kolo_stream **stream); /* takes NULL; waits for what runs */

    /* Memory, 256-byte aligned; what: for the sentence when there is none. */
    kolo_status (*allocate)(kolo_stream *stream, size_t bytes, const char *what, void **memory);
    void (*release)(kolo_stream *stream, void *memory); /* takes NULL; when the stream has come so far */
    /* The host's, which copies reach without a detour. */
    kolo_status (*allocate_host)(kolo_stream *stream, size_t bytes, void **memory);
    void (*release_host)(kolo_stream *stream, void *memory);

    kolo_status (*copy)(kolo_stream *stream, void *to, const void *from, size_t bytes); /* host or device, both ways */
    kolo_status (*clear)(kolo_stream *stream, void *memory, size_t bytes);
    /* work(argument) on the host, in the stream's order; it must not call the accelerator. */
    kolo_status (*call)(kolo_stream *stream, void (*work)(void *argument), void *argument);
    /* A event is set where the stream is now; whoever waits for it waits till the stream has come there. */
    kolo_status (*record_event)(kolo_stream *stream, kolo_event **event); /* *event: NULL, or one to be used again */
    kolo_status (*synchronize_event)(kolo_stream *stream, kolo_event *event); /* the host waits */
    kolo_status (*wait_event)(kolo_stream *stream, kolo_event *event); /* the stream does; the event may be another's */
    void (*free_event)(kolo_stream *stream, kolo_event *event); /* takes NULL */
    kolo_status (*finish)(kolo_stream *stream); /* the host waits for everything */

    /* What is given between begin_capture() and end_capture() does not run, but makes a captured graph. */
    kolo_status (*begin_capture)(kolo_stream *stream);
    kolo_status (*end_capture)(kolo_stream *stream, kolo_captured_graph **captured_graph);
    kolo_status (*launch)(kolo_stream *stream, kolo_captured_graph *captured_graph);
    void (*free_captured_graph)(kolo_stream *stream, kolo_captured_graph *captured_graph); /* takes NULL */

    /* Samples first … first+microbatch-1 of the step parameters' batch into `to`; zeros behind the last. */
    kolo_status (*gather)(kolo_stream *stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                          int64_t first, int microbatch, const kolo_microbatch_arrays *to);
    /* to[i] += from[i]; of floats. */
    kolo_status (*add)(kolo_stream *stream, float *to, const float *from, int64_t count);
    /* sum[count] of doubles becomes the sum of parts 0 … parts-1, which lie `stride` bytes apart, in that order. */
    kolo_status (*sum)(kolo_stream *stream, double *sum, const void *parts, size_t stride, int number, int64_t count);
    /* Whether all of so many floats are numbers and not infinite; the host waits. */
    kolo_status (*are_finite)(kolo_stream *stream, const float *values, int64_t count, bool *finite);
    /* Whether it has the rule; one that it has not is computed on the host. */
    bool (*has_rule)(const kolo_optimizer *optimizer);
    /* Takes the memory that updates and penalties of the job's spans need: before these are given. */
    kolo_status (*expect_updates)(kolo_stream *stream, const kolo_update_job *job);
    kolo_status (*update)(kolo_stream *stream, const kolo_update_job *job);
    /* The step parameters, as it comes with a kolo_scaling, is filled in; *seen, on the device, becomes a copy of that.
     */
    kolo_status (*fill_step_parameters)(kolo_stream *stream, kolo_step_parameters *step_parameters,
                                        kolo_scaling *scaling, kolo_scaling *seen);
    /* *to, on the device, becomes the penalty of the job's weights: Σ over its spans of l2 / 2 · Σ w². */
    kolo_status (*penalty)(kolo_stream *stream, const kolo_update_job *job, double *to);
    /* A group of streams, a member each, some of them perhaps in other processes: `group` is how the members speak
     * with one another on the host. Every member calls it; the same for the sum. Fails on all with one sentence where
     * it cannot be had, so that the host can sum instead. NULL: it never can. */
    kolo_status (*join)(kolo_stream *stream, kolo_comm *group, void **together);
    kolo_status (*allreduce)(kolo_stream *stream, void *together, void *values, int64_t count, kolo_type type);
    void (*leave)(void *together); /* takes NULL */
} kolo_accelerator;

#endif
