/* Section 10d of kolo.h: what if? A recorded training step, replayed on another machine. Included by kolo.h: read that
 * and kolo_link_model.h first.
 *
 * Every answer is modelled: it is calculated from a recording and from the speed of links, and what the program shows of
 * it must say so. The recording is a timeline (kolo_start_timeline() in kolo_tools.h) of synchronous training with one
 * device a rank; of several ranks rank 0's part is taken. From it come the time until the end of the backward pass, the
 * time of the update behind it, the samples of a step, the bytes of each layer's gradient, and when in the backward pass
 * that gradient is complete. What a rank waited for others, or summed with them, is left out. Of the steps the first
 * tenth is left out, too: memory is touched for the first time there. Every time is a median over the others. */
#ifndef KOLO_WHAT_IF_H
#define KOLO_WHAT_IF_H

#include "kolo.h"

#define KOLO_WHAT_IF_MAX 16

typedef struct kolo_what_if_args {
    const char *_;
    const char *trace; /* the recording */
    kolo_guard *guard;
    int devices[KOLO_WHAT_IF_MAX]; /* the questions: so many devices, each at least 1, ended by 0; default 1, 2, 4, 8 */

    /* The links. Default: the ranks share the memory of the recorded host. */
    const kolo_link_model *model;  /* a machine that is open */
    const char *machine, *network; /* or kolo_link_model_open() opens this one for the call */
    int hosts;                     /* of it; default: as many as the most devices need */
    const char *link;              /* .link of kolo_link_model_open(): one link of the machine with another speed */
    kolo_algorithm algorithm;      /* of the sums, with a machine */
    /* Without a machine: GB/s at which one core adds and writes gradients that ranks share. Default: as a recording of
     * several ranks says; of one rank: measured during the call, by all-reduces of two threads. */
    double memory;

    /* The training */
    int batch;                /* samples a device in a step; default: the recorded ones */
    const char *other_trace;  /* the same training with another batch, for the time of a batch that was not recorded */
    double bucket_bytes;      /* of gradients that are summed together, at least 1; default KOLO_BUCKET_BYTES */
    int overlap;              /* 1: buckets are summed beside the backward pass; KOLO_NONE: all gradients are summed behind
                                 it. Default: beside it, except where ranks and their threads outnumber the host's cores,
                                 as training does it */
    kolo_compression compression; /* of the gradients that are sent: FP16 and BF16 halve their bytes. The time of packing
                                     them is not modelled */
    double compute;           /* × the time of the forward and backward pass, for another precision or device: measure it.
                                 Default 1: nothing is assumed */

    /* The host that ranks share; not for a machine, whose devices compute each for itself */
    int cores;         /* default: the recorded ones */
    /* × the time of computing where ranks use all cores: they share caches, memory and power. Measure it by so many runs
     * side by side. Below 1 where other programs use the cores, too, of which more ranks win a larger part. Default 1:
     * nothing is assumed */
    double contention;
    bool same_pace;    /* every device keeps the median pace, so that no step waits for the slowest device */

    /* The way to an accuracy */
    double noise_scale; /* B_noise, in samples, above 0: from kolo_gradient_noise_scale(). Default: no answer */
    double steps;       /* that one device needs with the recorded batch, for an answer in seconds */

    bool quiet;        /* shows nothing; default: rank 0 prints a table and draws a chart */
    const char *file;  /* the chart is also written to this file: .svg or .png */
    int width, height; /* of one chart, pixels; default 370 × 300 */
} kolo_what_if_args;

/* One answer; all of it modelled. */
typedef struct kolo_answer {
    int devices;
    double seconds;       /* of a step */
    double samples;       /* a second, of all devices together */
    double communication; /* seconds of all sums of a step */
    double exposed;       /* the part of them that the backward pass does not hide */
    double waiting;       /* seconds of a step in which the others wait for the slowest device */
    double efficiency;    /* seconds on one device / seconds, for the same batch a device */
    /* To the same accuracy, beside one device with the recorded batch; NaN without a noise scale: */
    double more_steps; /* steps / its steps */
    double more_time;  /* time / its time: below 1 is faster */
    double accuracy_seconds; /* the time; NaN without .steps */
} kolo_answer;

typedef struct kolo_answers {
    int count; /* 0 on failure */
    kolo_answer answer[KOLO_WHAT_IF_MAX];
    double recorded;    /* seconds of a step in the recording, without what it waited for others */
    int recorded_batch; /* samples of a device in a step there */
    char links[192]; /* what the sums are modelled from: "4 x dgx-1v, ib-edr", or "the memory of a host at 11.5 GB/s, measured
                        on this one" (given, as recorded) */
} kolo_answers;

/* Answers for N devices of b samples each, t(b) being the time until the end of the backward pass, u that of the update:
 *
 *     seconds = f · (c · t(b) + u) + waiting + exposed
 *
 *   t(b): linear between two recordings of different batches, and beyond them; with one, proportional to b. u does not
 *     depend on b.
 *   f = max(1, N · threads / cores) · contention, where the ranks share a host; else 1. Ranks that outnumber the cores take
 *     turns. The contention counts where N > 1 and N · threads ≥ cores. What the recording had of it itself is divided out.
 *   waiting: the median of the slowest of N times t, whose distribution is the recorded one, minus the median of one; of
 *     ranks that share a host as many as its cores run at once. The times are taken for independent.
 *   exposed: sums follow each other; each begins when its last gradient is complete. Buckets are whole layers here, in the
 *     order in which their gradients are complete. In microbatches the tail of the backward pass is that of the last one,
 *     and does not depend on b. Where a host has no core to spare, a sum takes its time from computing: nothing is hidden.
 *   A sum of S bytes takes kolo_link_model_time() on a machine. In a host's memory each rank copies, adds and copies back
 *     f · S · (1 + 2 (N−1)/N) / memory seconds. kolo_simulate_links() can check the former in a real job.
 *
 * The way to an accuracy is that of McCandlish et al. 2018 ("An empirical model of large-batch training", section 2.2):
 * B samples in a step need steps in proportion to 1 + B_noise / B, for well-tuned learning rates.
 *
 * Fails if a file is no timeline, or lacks steps, backward events, samples or gradients: one of a GPU, of workers, of
 * several devices in one process, or of an older version. Two recordings must have the same gradients. Any thread; every
 * rank that calls it has the answers. */
#define kolo_what_if(...) kolo_what_if_at(&(const kolo_what_if_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_answers kolo_what_if_at(const kolo_what_if_args *args, kolo_here here);

#endif
