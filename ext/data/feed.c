/* Feeds: see feed.h. */
#include "data/feed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/runtime.h"
#include "core/signals.h"
#include "core/timeline.h"
#include "data/batch.h"
#include "data/view.h"

#define STRETCH     64       /* samples that are gathered between two checks for the end of the feed */
#define LOOK_AROUND 50000000 /* nanoseconds of waiting between two checks for a requested stop */

typedef struct slot {
    kolo_staged staged;
    int number; /* of the batch in the slot, or -1 */
    bool ready; /* the batch is complete */
    int left;   /* takers that have not released the batch yet */
} slot;

struct kolo_feed {
    kolo_feed_args args;
    slot *slots; /* [capacity]; batch n is in slot n mod capacity */
    pthread_t *threads;
    int running; /* number of threads that were started */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const kolo_epoch_plan *plan; /* NULL: no threads run, each batch is gathered when it is taken */
    int next;                    /* number of the next batch to gather */
    int named; /* threads that have their number in the timeline */
    bool closing;
    kolo_failure failure;
    int64_t bytes; /* kolo_feed_bytes() */
};

/* ---------------------------------------------------------------- plans */

kolo_batch kolo_epoch_batch(const kolo_epoch_plan *plan, int number)
{
    int64_t first = number * plan->batch, left = plan->samples - first;
    return (kolo_batch){.order = plan->order ? plan->order + first : NULL,
                        .first = first,
                        .samples = left < plan->batch ? left : plan->batch,
                        .microbatch = plan->microbatch,
                        .step = plan->first_step + (uint64_t)number,
                        .seed = plan->seed,
                        .number = number};
}

/* ---------------------------------------------------------------- rows */

static void copy_rows(void *to, const void *from, int64_t at, int count, size_t row)
{
    if (to && from) memcpy(to, (const char *)from + (size_t)at * row, (size_t)count * row);
}

void kolo_staged_copy(const kolo_staged *staged, const kolo_data *data, int64_t at, int count, const kolo_gathered *to)
{
    const kolo_gathered *from = &staged->arrays;
    int64_t row = at - staged->first;
    copy_rows(to->features, from->features, row, count, (size_t)kolo_shape_count(data->shape) * sizeof(float));
    copy_rows(to->labels, from->labels, row, count, (size_t)data->label_count * sizeof(int32_t));
    copy_rows(to->targets, from->targets, row, count, (size_t)to->outputs * sizeof(float));
    copy_rows(to->weights, from->weights, row, count, sizeof(float));
}

size_t kolo_gathered_bytes(const kolo_data *data, const kolo_gathered *wanted)
{
    size_t bytes = wanted->features ? (size_t)kolo_shape_count(data->shape) * sizeof(float) : 0;
    if (wanted->labels) bytes += (size_t)data->label_count * sizeof(int32_t);
    if (wanted->targets) bytes += (size_t)wanted->outputs * sizeof(float);
    return bytes + (wanted->weights ? sizeof(float) : 0);
}

static kolo_status fill(const kolo_feed *feed, const kolo_batch *batch, const kolo_staged *source, kolo_staged *staged)
{
    feed->args.part(feed->args.whose, batch, staged);
    kolo_gather_call call = {.training = true,
                             .seed = batch->seed,
                             .step = batch->step,
                             .stoppable = feed->args.stoppable,
                             .closing = &feed->closing};
    for (int64_t at = 0; at < staged->samples && !__atomic_load_n(&feed->closing, __ATOMIC_RELAXED); at += STRETCH) {
        int count = staged->samples - at < STRETCH ? (int)(staged->samples - at) : STRETCH;
        int64_t first = staged->first + at;
        kolo_gathered rows = kolo_gathered_from(feed->args.data, &staged->arrays, at);
        if (source) kolo_staged_copy(source, feed->args.data, first, count, &rows);
        else {
            call.first_sample = first;
            KOLO_TRY(kolo_data_gather(feed->args.data, &call, batch->order ? batch->order + first : NULL,
                                      batch->first + first, count, &rows));
        }
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- producing */

/* Waits until the slot of the next batch is free, and returns it. NULL: no batch is left, or the feed is closing. The
 * caller holds the lock. */
static slot *wait_for_room(kolo_feed *feed)
{
    while (!feed->closing && feed->next < feed->plan->steps) {
        slot *next = &feed->slots[feed->next % feed->args.capacity];
        if (next->number < 0) return next;
        pthread_cond_wait(&feed->changed, &feed->lock);
    }
    return NULL;
}

static void finish(kolo_feed *feed, slot *filled, kolo_status status)
{
    kolo_failure failure = kolo_failure_take();
    feed->bytes += filled->staged.samples * (int64_t)kolo_gathered_bytes(feed->args.data, &filled->staged.arrays);
    filled->ready = true;
    filled->left = feed->args.takers;
    if (status != KOLO_OK && feed->failure.code == KOLO_OK) {
        feed->failure = failure;
        feed->failure.code = status;
        feed->next = feed->plan->steps; /* no thread gathers another batch */
    }
    pthread_cond_broadcast(&feed->changed);
}

static void *produce(void *argument)
{
    kolo_feed *feed = argument;
    pthread_mutex_lock(&feed->lock);
    int number = feed->named++;
    for (slot *free; (free = wait_for_room(feed)) != NULL;) {
        kolo_batch batch = kolo_epoch_batch(feed->plan, feed->next);
        free->number = feed->next++;
        free->ready = false;
        pthread_mutex_unlock(&feed->lock);
        kolo_timeline_enter("input", number, 0, (int64_t)batch.step);
        int64_t begun = kolo_timeline_begin();
        kolo_status status = fill(feed, &batch, NULL, &free->staged);
        kolo_timeline_end(begun, KOLO_SPAN_INPUT, "batch");
        pthread_mutex_lock(&feed->lock);
        finish(feed, free, status);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

static void forget_batches(kolo_feed *feed)
{
    for (int i = 0; i < feed->args.capacity; i++) feed->slots[i].number = -1;
    feed->failure = (kolo_failure){0};
}

kolo_status kolo_feed_begin(kolo_feed *feed, const kolo_epoch_plan *plan, int number)
{
    sigset_t before;
    forget_batches(feed);
    if (feed->args.threads == 0) return KOLO_OK;
    feed->plan = plan;
    feed->next = number;
    feed->named = 0;
    int failed = 0;
    kolo_hold_signals(&before);
    while (feed->running < feed->args.threads && !failed) {
        failed = pthread_create(&feed->threads[feed->running], NULL, produce, feed);
        feed->running += !failed;
    }
    kolo_release_signals(&before);
    if (feed->running > 0) return KOLO_OK;
    feed->plan = NULL;
    return kolo_fail(KOLO_MEMORY, "cannot start a thread that feeds: the system allows no more");
}

void kolo_feed_end(kolo_feed *feed)
{
    if (!feed) return;
    pthread_mutex_lock(&feed->lock);
    __atomic_store_n(&feed->closing, true, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    while (feed->running > 0) pthread_join(feed->threads[--feed->running], NULL);
    feed->closing = false;
    feed->plan = NULL;
    forget_batches(feed);
}

/* ---------------------------------------------------------------- taking */

static kolo_status fill_now(kolo_feed *feed, const kolo_batch *batch, const kolo_staged *source,
                            const kolo_staged **staged)
{
    slot *only = &feed->slots[0];
    kolo_status status = fill(feed, batch, source, &only->staged);
    feed->bytes += only->staged.samples * (int64_t)kolo_gathered_bytes(feed->args.data, &only->staged.arrays);
    *staged = &only->staged;
    return status;
}

/* Waits until something changed, but not longer than LOOK_AROUND. The caller holds the lock. */
static void wait_a_moment(kolo_feed *feed)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_AROUND;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&feed->changed, &feed->lock, &until);
}

kolo_status kolo_feed_take(kolo_feed *feed, const kolo_batch *batch, const kolo_staged *source,
                           const kolo_staged **staged)
{
    kolo_status status = KOLO_OK;
    if (!feed->plan) return fill_now(feed, batch, source, staged);
    slot *wanted = &feed->slots[batch->number % feed->args.capacity];
    pthread_mutex_lock(&feed->lock);
    while (!(wanted->number == batch->number && wanted->ready) && status == KOLO_OK) {
        if (feed->failure.code != KOLO_OK) status = feed->failure.code;
        else if (feed->args.stoppable && kolo_stop_requested()) status = KOLO_INTERRUPTED;
        else wait_a_moment(feed);
    }
    if (feed->failure.code != KOLO_OK) {
        status = feed->failure.code;
        kolo_failure_give(&feed->failure);
    }
    pthread_mutex_unlock(&feed->lock);
    *staged = &wanted->staged;
    return status;
}

void kolo_feed_release(kolo_feed *feed, const kolo_staged *staged)
{
    if (!feed->plan) return;
    pthread_mutex_lock(&feed->lock);
    for (int i = 0; i < feed->args.capacity; i++) {
        slot *taken = &feed->slots[i];
        if (&taken->staged != staged || --taken->left > 0) continue;
        taken->number = -1;
        pthread_cond_broadcast(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
}

int64_t kolo_feed_bytes(kolo_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    int64_t bytes = feed->bytes;
    pthread_mutex_unlock(&feed->lock);
    return bytes;
}

/* ---------------------------------------------------------------- open and close */

static bool open_slot(const kolo_feed_args *args, slot *opened)
{
    size_t room = (size_t)args->room, elements = (size_t)kolo_shape_count(args->data->shape);
    kolo_gathered *arrays = &opened->staged.arrays;
    arrays->outputs = args->outputs;
    arrays->features = malloc(room * elements * sizeof(float));
    if (args->labels) arrays->labels = malloc(room * (size_t)args->data->label_count * sizeof(int32_t));
    if (args->targets) arrays->targets = malloc(room * (size_t)args->outputs * sizeof(float));
    if (args->weights) arrays->weights = malloc(room * sizeof(float));
    return arrays->features && (!args->labels || arrays->labels) && (!args->targets || arrays->targets) &&
           (!args->weights || arrays->weights);
}

static void close_slot(const slot *closed)
{
    const kolo_gathered *arrays = &closed->staged.arrays;
    free(arrays->features);
    free(arrays->labels);
    free(arrays->targets);
    free(arrays->weights);
}

kolo_status kolo_feed_open(const kolo_feed_args *args, kolo_feed **feed)
{
    kolo_feed *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a feed");
    made->args = *args;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->slots = calloc((size_t)args->capacity, sizeof *made->slots);
    made->threads = calloc((size_t)args->threads + 1, sizeof *made->threads);
    bool fine = made->slots && made->threads;
    for (int i = 0; fine && i < args->capacity; i++) fine = open_slot(args, &made->slots[i]);
    if (!fine) {
        kolo_feed_close(&made);
        size_t bytes = (size_t)args->capacity * (size_t)args->room * (size_t)kolo_shape_count(args->data->shape);
        return kolo_fail_memory(bytes * sizeof(float), "a feed");
    }
    forget_batches(made);
    *feed = made;
    return KOLO_OK;
}

void kolo_feed_close(kolo_feed **feed)
{
    kolo_feed *closed = *feed;
    *feed = NULL;
    if (!closed) return;
    if (closed->slots && closed->threads) kolo_feed_end(closed);
    for (int i = 0; closed->slots && i < closed->args.capacity; i++) close_slot(&closed->slots[i]);
    free(closed->slots);
    free(closed->threads);
    pthread_mutex_destroy(&closed->lock);
    pthread_cond_destroy(&closed->changed);
    free(closed);
}
