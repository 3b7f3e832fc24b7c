/* The plumbing of lesson 5: measurements, tables, the staleness of a recorded order, hints and the quiz. The checks of
 * its exercises are in lesson_5_checks.h. */
#ifndef COURSE_LESSON_5_H
#define COURSE_LESSON_5_H

#include "course.h"

#include <jansson.h>
#include <unistd.h>

#include "lesson_5_checks.h"
#include "staleness.h"

/* ------------------------------------------------------------------------------- 1 where the batch is cut */

/* Keras's small CNN for CIFAR-10, as in source_code/N5/cifar10.c: 1.25 million weights. */
static inline kolo_model *lesson_5_cifar_network(void)
{
    return kolo_sequential(kolo_input(32, 32, 3),
                           kolo_conv2d(32, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU),
                           kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                           kolo_dropout(0.25),
                           kolo_conv2d(64, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU),
                           kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                           kolo_dropout(0.25), kolo_flatten(), kolo_dense(512, .activation = KOLO_RELU),
                           kolo_dropout(0.5), kolo_dense(10));
}

/* What a way to spread a training over devices gave. */
typedef struct lesson_5_way {
    double images_per_second; /* the median of the epochs after the first */
    double megabytes;         /* copied a step to give the devices their samples */
    double moved;             /* megabytes a step of gradients and weights */
    uint64_t checksum;        /* of the trained weights; 0: the training failed */
} lesson_5_way;

static inline double lesson_5_median_rate(const kolo_history *history)
{
    double rates[64];
    int count = 0;
    for (int e = history->epochs > 1; e < history->epochs && count < 64; e++)
        rates[count++] = history->epoch[e].images_per_second;
    return course_median(rates, count);
}

/* Trains from the same seed in deterministic mode, and prints a row. With a `name` of NULL it prints nothing. */
static inline lesson_5_way lesson_5_measure(const char *name, kolo_data *images, int batch, kolo_strategy strategy)
{
    lesson_5_way way = {NAN, NAN, NAN, 0};
    kolo_model *model = lesson_5_cifar_network();
    kolo_compile(model, .optimizer = kolo_rmsprop(.learning_rate = 1e-4), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .strategy = strategy, .seed = 1, .deterministic = true);
    const kolo_history *history = kolo_fit(model, images, .epochs = course_pick(4, 2), .batch_size = batch,
                                           .steps_per_epoch = course_pick(4, 1), .verbose = KOLO_NONE);
    if (history) {
        kolo_timings t = kolo_get_timings(model);
        way = (lesson_5_way){lesson_5_median_rate(history), 1e-6 * (double)t.sliced_bytes / (double)t.steps,
                             1e-6 * (double)(t.reduced_bytes + t.updated_bytes) / (double)t.steps,
                             course_checksum(model)};
        if (name)
            printf("%-30s %8.0f %10.2f %10.2f   %016llx\n", name, way.images_per_second, way.megabytes, way.moved,
                   (unsigned long long)way.checksum);
    }
    kolo_model_free(&model);
    return way;
}

static inline void lesson_5_head(void)
{
    printf("%-30s %8s %10s %10s   %s\n", "", "images/s", "MB sliced", "MB moved", "checksum of the weights");
}

/* Says whether all ways learnt the same weights. */
static inline void lesson_5_same(const lesson_5_way *ways, int count)
{
    int same = 0;
    for (int i = 0; i < count; i++) same += ways[i].checksum && ways[i].checksum == ways[0].checksum;
    if (same == count) printf("All %d ways learnt the same weights, to the bit.\n", count);
    else printf("%d of %d ways have the checksum of the first: the others learnt other weights.\n", same, count);
}

/* The largest speed-up in the table that `parallelisers` has written to a file: the second number of the rows whose
 * names stand in the first 28 columns. NaN, after a sentence: there is no such row. */
static inline double lesson_5_fastest(const char *path)
{
    char line[300];
    double rate, speed_up, fastest = NAN;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strlen(line) < 28 || sscanf(line + 28, "%lf %lf", &rate, &speed_up) != 2) continue;
        if (strncmp(line, "one device", 10)) fastest = fmax(fastest, speed_up);
    }
    if (file) fclose(file);
    if (isnan(fastest)) printf("%s has no table. Run the cell that writes it first.\n", path);
    return fastest;
}

/* ------------------------------------------------------------------------------- 2 feeds */

/* A CNN for MNIST that is small enough to train here beside a slow feed. */
static inline kolo_model *lesson_5_digits_network(void)
{
    return kolo_sequential(kolo_input(28, 28, 1), kolo_conv2d(16, .kernel = {3, 3}, .activation = KOLO_RELU),
                           kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                           kolo_flatten(), kolo_dense(64, .activation = KOLO_RELU), kolo_dense(10));
}

static inline bool lesson_5_is(json_t *event, const char *key, const char *value)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text && strcmp(text, value) == 0;
}

enum { LESSON_5_THREADS = 256 };

/* The threads in whose rows a timeline has a forward pass: the devices' own. */
typedef struct lesson_5_computing {
    int count;
    json_int_t thread[LESSON_5_THREADS];
} lesson_5_computing;

static inline bool lesson_5_computes(const lesson_5_computing *computing, json_t *event)
{
    json_int_t thread = json_integer_value(json_object_get(event, "tid"));
    for (int i = 0; i < computing->count; i++)
        if (computing->thread[i] == thread) return true;
    return false;
}

static inline void lesson_5_note_thread(lesson_5_computing *computing, json_t *event)
{
    if (!lesson_5_is(event, "cat", "forward") || lesson_5_computes(computing, event)) return;
    if (computing->count < LESSON_5_THREADS)
        computing->thread[computing->count++] = json_integer_value(json_object_get(event, "tid"));
}

/* Seconds that the devices' threads spent in events of a category, from a timeline's trace; NAN if it cannot be read.
 * A device's threads are those that compute, so the input of other threads does not count. */
static inline double lesson_5_seconds_in(const char *trace, const char *category)
{
    json_t *all = json_load_file(trace, 0, NULL),
           *events = json_is_array(all) ? all : json_object_get(all, "traceEvents");
    double seconds = events ? 0 : NAN;
    lesson_5_computing computing = {0};
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) lesson_5_note_thread(&computing, event);
    json_array_foreach(events, i, event)
    {
        if (lesson_5_is(event, "cat", category) && lesson_5_computes(&computing, event))
            seconds += 1e-6 * json_number_value(json_object_get(event, "dur"));
    }
    json_decref(all);
    return seconds;
}

/* Prints and returns the part of the devices' steps, in percent, in which they gather samples or wait for them. */
static inline double lesson_5_bubbles(const char *name, const char *trace)
{
    double input = lesson_5_seconds_in(trace, "input"), step = lesson_5_seconds_in(trace, "step");
    double share = step > 0 ? 100 * input / step : NAN;
    if (isnan(share)) printf("%s: there are no steps in %s. Run the cell that records it first.\n", name, trace);
    else printf("%-18s %3.0f %% of the devices' time is input\n", name, share);
    return share;
}

/* Says how much of the slow input's time a queue hides, given the milliseconds of a step. */
static inline void lesson_5_hidden(double plain, double synchronous, double queue)
{
    double cost = synchronous - plain, hidden = synchronous - queue;
    if (!(cost > 0))
        printf("The slow input cost nothing that can be measured here: run the cells again on a quiet machine.\n");
    else if (hidden <= 0) printf("The slow input costs %.1f ms a step, and the queue hides nothing of it.\n", cost);
    else
        printf("The slow input costs %.1f ms a step; the queue hides %.0f %% of that.\n", cost,
               fmin(100, 100 * hidden / cost));
}

/* ------------------------------------------------------------------------------- 3 one slow worker */

enum { LESSON_5_EPOCHS = 16 };

/* A training's losses after each epoch, against the seconds and the updates until then. Empty if it failed or was
 * stopped. */
typedef struct lesson_5_curve {
    int count;
    double seconds[LESSON_5_EPOCHS], updates[LESSON_5_EPOCHS], loss[LESSON_5_EPOCHS];
} lesson_5_curve;

static inline lesson_5_curve lesson_5_curve_of(const kolo_history *history)
{
    lesson_5_curve curve = {0};
    double seconds = 0, updates = 0;
    bool whole = history && !history->stopped; /* else its seconds would look like those of a fast training */
    for (int e = 0; whole && e < history->epochs && e < LESSON_5_EPOCHS; e++) {
        curve.seconds[e] = seconds += history->epoch[e].seconds;
        curve.updates[e] = updates += history->epoch[e].steps;
        curve.loss[e] = history->epoch[e].loss;
        curve.count = e + 1;
    }
    return curve;
}

static inline void lesson_5_curve_row(const char *name, const lesson_5_curve *c)
{
    if (c->count == 0) printf("%-34s failed or was stopped: run this cell again\n", name);
    else
        printf("%-34s %6.2f s %6.0f updates   loss %.3f\n", name, c->seconds[c->count - 1], c->updates[c->count - 1],
               c->loss[c->count - 1]);
}

static inline double lesson_5_total(const lesson_5_curve *c)
{
    return c->count ? c->seconds[c->count - 1] : NAN;
}

/* ------------------------------------------------------------------------------- the quiz */

static const course_question lesson_5_questions[COURSE_QUESTIONS] = {
    {"Eight devices, slicing on the device. How much of the batch is copied to the devices?",
     {"the batch once", "the batch eight times", "an eighth of the batch"},
     'b',
     "Each device is sent the whole batch and cuts its own slice from it."},
    {"In deterministic mode the weights are kept on the host instead of on every device. What changes?",
     {"the weights that are learnt", "the loss of each step", "what is copied, and so the speed"},
     'c',
     "The place of the weights decides what moves. It does not decide what is computed."},
    {"Gathering a batch takes one thread 30 ms, computing takes 20 ms. Two threads with cores of their own fill a "
     "queue. About how long is a step?",
     {"50 ms", "30 ms", "20 ms", "10 ms"},
     'c',
     "Two threads deliver a batch every 15 ms, so the device never waits: max(30 / 2, 20) = 20 ms."},
    {"One of four workers is five times as slow. Which training still makes more than three workers' worth of updates?",
     {"synchronous", "asynchronous", "both"},
     'b',
     "A synchronous step lasts as long as its slowest worker's."},
    {"What is the staleness of a gradient?",
     {"the seconds that it took to compute", "the updates that others made since its weights were read",
      "the number of workers", "the epochs since the worker began"},
     'b',
     "It counts how far the weights moved on between the pull and the push."},
};

/* Registers the hints, and begins. The notebook's first cell calls it. */
static inline void lesson_5_begin(void)
{
    course_hints("5.a", "Two numbers describe the queue: where its oldest batch is, and how many batches it holds.",
                 "The next free place is `count` places behind `first`. Both walk round the array like the hand of a "
                 "clock.",
                 "Look at the operator % with QUEUE_CAPACITY. Of the two numbers, put() changes only `count`; "
                 "get() changes both.");
    course_hints(
        "5.b", "Draw the messages of one update: which rank sends what to whom, and who waits?",
        "The server does not know which worker comes next. kolo_receive() can take a message from any rank; its "
        ".message then names the sender.",
        "The server receives a gradient, takes a step against it, and sends the weights to the gradient's sender. "
        "The worker has the other end of the same two messages.");
    course_begin("5");
}

#endif
