/* The seam for devices with memory of their own: what a backend adds that computes on them. Read backend.h first.
 *
 * A queue is one device at work for one replica: what it is given runs in that order, some time later, and the host
 * goes on. A step is recorded once and then replayed, so nothing in it may depend on the host: what changes from step
 * to step is a kolo_moment (moment.h) in the device's memory, copied there before each replay. Everything here that
 * takes a queue belongs to one thread at a time; memory is the device's unless a comment says host.
 *
 * Failures of the device may show at any later call on its queue; the queue is lost then, and must only be closed. In
 * a child of fork() every call on a queue fails, and closing it leaves all to the parent.
 */
#ifndef KOLO_BACKEND_ACCELERATOR_H
#define KOLO_BACKEND_ACCELERATOR_H

#include "backend/moment.h"
#include "comm/comm.h"
#include "core/error.h"
#include "topology/meter.h"

typedef struct kolo_queue kolo_queue;
typedef struct kolo_recording kolo_recording;
typedef struct kolo_mark kolo_mark;

/* An update: flat arrays of `count` elements, in `spans`. */
typedef struct kolo_update_job {
    const kolo_optimizer *optimizer; /* defaults filled in */
    const kolo_span *spans;        /* [span_count], on the host; they outlive the queue */
    int span_count;
    int64_t count;
    float *weights, *gradient, *slots[3], *numbers;
    const kolo_moment *moment;
    double clip_value, clip_norm, global_clip_norm; /* 0: none */
    double decay; /* .weight_decay of a rule that does not decay by itself; times the rate it is rule[0] · decay */
    kolo_scaling *scaling; /* which learns whether the gradient is finite: where it is not, nothing is updated. NULL:
                              the loss is not scaled */
    /* A program's plan, whose parameters the spans are, or NULL. Then its packed weights (NULL: there are none) are
     * those of the updated ones; and the gradient may be as leaves left it (NULL: it is in `gradient`, which else is
     * room). */
    const struct kolo_plan *plan;
    void *packed;
    const float *left;
} kolo_update_job;

typedef struct kolo_accelerator {
    /* Devices of this machine that the driver shows; 0 where there is no driver. Masks are not looked at. */
    int (*devices)(void);
    /* Name and memory of one; fails with a sentence. Takes no memory there itself. */
    kolo_status (*describe)(int device, char name[96], int64_t *memory_bytes, int64_t *free_bytes);
    /* Bytes of its memory that queues of this process hold. */
    int64_t (*held)(int device);
    /* Whether an entry of CUDA_VISIBLE_DEVICES that is no number, of that length, names it: "GPU-8932f937", "MIG-…". */
    bool (*is_called)(int device, const char *entry, size_t length);
    /* What is nearest to a device, and what connects two different ones, as far as the driver tells (all but .name).
     * Take no memory there. */
    void (*locate)(int device, kolo_spot *spot);
    void (*connect)(int device, int other, kolo_connection *connection);
    /* How fast its devices copy to each other. */
    const kolo_meter *meter;

    kolo_status (*open)(int device, kolo_queue **queue);
    void (*close)(kolo_queue **queue); /* takes NULL; waits for what runs */

    /* Memory, 256-byte aligned; what: for the sentence when there is none. */
    kolo_status (*allocate)(kolo_queue *queue, size_t bytes, const char *what, void **memory);
    void (*release)(kolo_queue *queue, void *memory); /* takes NULL; when the queue has come so far */
    /* The host's, which copies reach without a detour. */
    kolo_status (*allocate_host)(kolo_queue *queue, size_t bytes, void **memory);
    void (*release_host)(kolo_queue *queue, void *memory);

    kolo_status (*copy)(kolo_queue *queue, void *to, const void *from, size_t bytes); /* host or device, both ways */
    kolo_status (*clear)(kolo_queue *queue, void *memory, size_t bytes);
    /* work(argument) on the host, in the queue's order; it must not call the accelerator. */
    kolo_status (*call)(kolo_queue *queue, void (*work)(void *argument), void *argument);
    /* A mark is set where the queue is now; whoever waits for it waits till the queue has come there. */
    kolo_status (*set_mark)(kolo_queue *queue, kolo_mark **mark); /* *mark: NULL, or one to be used again */
    kolo_status (*wait_mark)(kolo_queue *queue, kolo_mark *mark); /* the host waits */
    kolo_status (*follow)(kolo_queue *queue, kolo_mark *mark); /* the queue does; the mark may be another's */
    void (*free_mark)(kolo_queue *queue, kolo_mark *mark); /* takes NULL */
    kolo_status (*finish)(kolo_queue *queue); /* the host waits for everything */

    /* What is given between record() and recorded() does not run, but makes a recording. */
    kolo_status (*record)(kolo_queue *queue);
    kolo_status (*recorded)(kolo_queue *queue, kolo_recording **recording);
    kolo_status (*replay)(kolo_queue *queue, kolo_recording *recording);
    void (*free_recording)(kolo_queue *queue, kolo_recording *recording); /* takes NULL */

    /* Samples first … first+leaf-1 of the moment's batch into `to`; zeros behind the last. */
    kolo_status (*gather)(kolo_queue *queue, const kolo_sources *from, const kolo_moment *moment, int64_t first,
                          int leaf, const kolo_leaf_arrays *to);
    /* to[i] += from[i]; of floats. */
    kolo_status (*add)(kolo_queue *queue, float *to, const float *from, int64_t count);
    /* sum[count] of doubles becomes the sum of parts 0 … parts-1, which lie `stride` bytes apart, in that order. */
    kolo_status (*sum)(kolo_queue *queue, double *sum, const void *parts, size_t stride, int number, int64_t count);
    /* Whether all of so many floats are numbers and not infinite; the host waits. */
    kolo_status (*are_finite)(kolo_queue *queue, const float *values, int64_t count, bool *finite);
    /* Whether it has the rule; one that it has not is computed on the host. */
    bool (*has_rule)(const kolo_optimizer *optimizer);
    /* Takes the memory that updates and penalties of the job's spans need: before these are given. */
    kolo_status (*expect_updates)(kolo_queue *queue, const kolo_update_job *job);
    kolo_status (*update)(kolo_queue *queue, const kolo_update_job *job);
    /* The moment, as it comes with a kolo_scaling, is filled in; *seen, on the device, becomes a copy of that. */
    kolo_status (*fill_moment)(kolo_queue *queue, kolo_moment *moment, kolo_scaling *scaling, kolo_scaling *seen);
    /* *to, on the device, becomes the penalty of the job's weights: Σ over its spans of l2 / 2 · Σ w². */
    kolo_status (*penalty)(kolo_queue *queue, const kolo_update_job *job, double *to);
    /* A group of queues, a member each, some of them perhaps in other processes: `group` is how the members speak
     * with one another on the host. Every member calls it; the same for the sum. Fails on all with one sentence where
     * it cannot be had, so that the host can sum instead. NULL: it never can. */
    kolo_status (*join)(kolo_queue *queue, kolo_comm *group, void **together);
    kolo_status (*allreduce)(kolo_queue *queue, void *together, void *values, int64_t count, kolo_type type);
    void (*leave)(void *together); /* takes NULL */
} kolo_accelerator;

#endif
