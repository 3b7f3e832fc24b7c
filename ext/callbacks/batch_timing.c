/* Measures the median times of batches and epochs, and the share of an epoch that passes between batches. */
#include <math.h>
#include <stdlib.h>

#include "callbacks/callbacks.h"
#include "core/grow.h"
#include "core/median.h"
#include "core/written.h"
#include "core/clock.h"

/* A growing list of times. */
typedef struct times {
    double *seconds;
    int count;
    size_t room;
} times;

typedef struct state {
    times batches, epochs, shares; /* shares: for each epoch, the fraction of its time that its batches took */
    double batch_began, epoch_began, train_began; /* kolo_now() */
    double in_batches; /* seconds of the current epoch's batches */
    int first_batches; /* number of batches in the first epoch */
} state;

static void release(kolo_callback *self)
{
    state *s = self->state;
    if (s) {
        free(s->batches.seconds);
        free(s->epochs.seconds);
        free(s->shares.seconds);
    }
    kolo_callback_close(self);
}

static kolo_status add(times *list, double seconds)
{
    KOLO_TRY(kolo_make_room(&list->seconds, &list->room, (size_t)list->count + 1, sizeof seconds, "times of batches"));
    list->seconds[list->count++] = seconds;
    return KOLO_OK;
}

/* The median of all times but the first `skipped`, or of all if there are no others; NaN if there are none. Sorts the
 * times. */
static double median(const times *list, int skipped)
{
    int from = list->count > skipped ? skipped : 0, count = list->count - from;
    return count > 0 ? kolo_median(list->seconds + from, (size_t)count) : NAN;
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    state *s = kolo_callback_open(self, sizeof *s);
    if (s) s->train_began = kolo_now();
}

static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)epoch;
    (void)logs;
    if (!s) return;
    s->epoch_began = kolo_now();
    s->in_batches = 0;
}

static void begin_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)batch;
    (void)logs;
    if (s) s->batch_began = kolo_now();
}

/* The times of the first epoch's batches include preparation: they do not count if there are more epochs. */
static void end_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)batch;
    (void)logs;
    if (!s) return;
    double seconds = kolo_now() - s->batch_began;
    s->in_batches += seconds;
    kolo_callback_report(self, add(&s->batches, seconds));
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)epoch;
    (void)logs;
    if (!s) return;
    double seconds = kolo_now() - s->epoch_began;
    bool first = s->epochs.count == 0;
    kolo_callback_report(self, add(&s->epochs, seconds));
    kolo_callback_report(self, add(&s->shares, s->in_batches / seconds));
    if (first) s->first_batches = s->batches.count;
}

static kolo_timing sum_up(const kolo_callback *self)
{
    state *s = self->state;
    kolo_timing timing = {.epochs = s->epochs.count, .total = kolo_now() - s->train_began, .first_epoch = NAN};
    if (timing.epochs > 0) timing.first_epoch = s->epochs.seconds[0];
    timing.total_without_first = timing.epochs > 0 ? timing.total - timing.first_epoch : NAN;
    timing.batch = median(&s->batches, s->first_batches);
    timing.epoch = median(&s->epochs, 1);
    timing.overhead = 1 - median(&s->shares, 1);
    return timing;
}

static void end(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    if (!self->state) return;
    kolo_timing timing = sum_up(self);
    int verbose = self->batch_timing.verbose == KOLO_NONE ? 0 : 1;
    if (self->batch_timing.result) *self->batch_timing.result = timing;
    kolo_callback_say(self, verbose,
                      "batch: %.3f ms (median)   epoch: %.3f s (median after the first)   first epoch: %.3f s\n",
                      timing.batch * 1e3, timing.epoch, timing.first_epoch);
    kolo_callback_say(self, verbose,
                      "between batches: %.1f %% of an epoch   %d epochs: %.3f s, %.3f s without the first\n",
                      timing.overhead * 100, timing.epochs, timing.total, timing.total_without_first);
    release(self);
}

kolo_callback kolo_batch_timing_of(kolo_batch_timing_args args)
{
    kolo_keep_zero_int(args._, "verbose", &args.verbose);
    return (kolo_callback){.name = "batch_timing",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_epoch_end = end_epoch,
                           .on_train_batch_begin = begin_batch,
                           .on_train_batch_end = end_batch,
                           .on_train_end = end,
                           .batch_timing = args,
                           .release = release};
}
