/* The checks of lesson 5's exercises: a bounded queue, and a parameter server with its workers. Included by lesson_5.h.
 */
#ifndef COURSE_LESSON_5_CHECKS_H
#define COURSE_LESSON_5_CHECKS_H

#include "course.h"
#include "messages.h"

#include <unistd.h>

/* ------------------------------------------------------------------------------- exercise 5.a: the queue */

#define QUEUE_CAPACITY 4

/* A queue of the numbers of batches. All zeros: an empty queue. */
typedef struct lesson_5_queue {
    int first, count;
    int batch[QUEUE_CAPACITY];
} lesson_5_queue;

/* put() adds a batch and returns true, or returns false if the queue is full. get() takes the oldest batch and returns
 * true, or returns false if the queue is empty. */
typedef bool (*lesson_5_put)(lesson_5_queue *queue, int batch);
typedef bool (*lesson_5_get)(lesson_5_queue *queue, int *batch);

/* The queue under test, with numbers behind it that a write beyond its end changes. */
typedef struct lesson_5_bench {
    lesson_5_queue queue;
    int behind[64];
} lesson_5_bench;

/* Was anything written behind the array? Then that is the mistake, and a sentence says so. */
static inline bool lesson_5_wrote_behind(const lesson_5_bench *bench)
{
    for (int i = 0; i < 64; i++) {
        if (bench->behind[i] == 0) continue;
        course_check("5.a", false,
                     "Something was written behind the end of batch[]. Its places are 0 to %d: the numbers "
                     "of places must wrap around.",
                     QUEUE_CAPACITY - 1);
        return true;
    }
    return false;
}

/* The mistake that made get() return `got` where `due` was due. */
static inline const char *lesson_5_order_mistake(int got, int due, int newest)
{
    if (got == newest && got != due)
        return "That is the newest batch: this is a stack, and its oldest batch waits for ever.";
    if (got == due - 1) return "It came before: get() must remove the batch that it returns.";
    if (got == 0) return "Nothing was put there: put() and get() disagree on the place of the batches.";
    return "Batches must come out in the order in which they went in.";
}

/* Puts batches into the empty queue until it is full, and one more. Is every answer right? */
static inline bool lesson_5_fill(lesson_5_put put, lesson_5_bench *bench)
{
    for (int i = 1; i <= QUEUE_CAPACITY; i++) {
        if (put(&bench->queue, i)) continue;
        return course_check("5.a", false, "Expected true from put() with %d of %d places taken, got false. %s", i - 1,
                            QUEUE_CAPACITY,
                            i == QUEUE_CAPACITY ? "The queue holds one batch too few."
                                                : "Is `count` right after each put() and get()?");
    }
    if (lesson_5_wrote_behind(bench)) return false;
    if (!put(&bench->queue, QUEUE_CAPACITY + 1)) return true;
    return course_check("5.a", false,
                        "Expected false from put() on a full queue, got true. It overwrites a batch on which "
                        "nobody has trained.");
}

/* Takes all batches from the full queue, and one more. Is every answer right? */
static inline bool lesson_5_empty(lesson_5_get get, lesson_5_bench *bench)
{
    for (int i = 1; i <= QUEUE_CAPACITY; i++) {
        int got = 0;
        if (!get(&bench->queue, &got))
            return course_check("5.a", false,
                                "Expected batch %d from get(), got false, with batches still in the queue.", i);
        if (got != i)
            return course_check("5.a", false, "Expected batch %d from get(), got %d. %s", i, got,
                                lesson_5_order_mistake(got, i, QUEUE_CAPACITY));
    }
    int none = 0;
    if (!get(&bench->queue, &none)) return true;
    return course_check("5.a", false,
                        "Expected false from get() on an empty queue, got true and batch %d. get() must look at "
                        "`count` first, and lower it.",
                        none);
}

/* Fills and empties the queue from several first places, then puts and gets in turn. */
static inline void lesson_5_check_queue(lesson_5_put put, lesson_5_get get)
{
    lesson_5_bench bench = {0};
    int got = 0;
    if (!put(&bench.queue, 1) && !get(&bench.queue, &got)) {
        course_check("5.a", false, "put() and get() are the skeleton: both return false.");
        return;
    }
    for (int shift = 0; shift < QUEUE_CAPACITY; shift++) {
        bench = (lesson_5_bench){0};
        for (int i = 0; i < shift; i++) put(&bench.queue, 100 + i), get(&bench.queue, &got);
        if (!lesson_5_fill(put, &bench) || lesson_5_wrote_behind(&bench) || !lesson_5_empty(get, &bench)) return;
    }
    for (int i = 1; i <= 20; i++) {
        bool both = put(&bench.queue, i) && get(&bench.queue, &got) && got == i;
        if (lesson_5_wrote_behind(&bench)) return;
        if (!both) {
            course_check("5.a", false,
                         "Expected batch %d after %d puts and gets in turn, got %d. Do the numbers of places "
                         "wrap around at %d?",
                         i, i, got, QUEUE_CAPACITY);
            return;
        }
    }
    course_check("5.a", true, "");
}

/* ------------------------------------------------------------------------------- exercise 5.b: the parameter server */

/* Rank 0 serves, the others work. `pushes`: how many gradients the server takes, or a worker sends. */
typedef void (*lesson_5_serve)(float *weights, int count, int pushes, float rate);
typedef void (*lesson_5_work)(float *weights, int count, int pushes);

enum { LESSON_5_RANKS = 3, LESSON_5_PUSHES = 3, LESSON_5_COUNT = 4, LESSON_5_MEET = 99 /* a tag */ };

/* What compute_gradient() computes, and what it saw. */
static struct {
    int calls; /* of compute_gradient() on this rank */
    float seen[LESSON_5_PUSHES]; /* this rank's own element of the weights at each call */
    bool in_vain; /* rank 1 waited for rank 2, which could not go on */
    kolo_data *data; /* NULL: the check's gradient; else that of `model` on these data */
    kolo_model *model;
} lesson_5_probe;

static int lesson_5_server_passes; /* 1 on all ranks if the last check of the server did */

/* Rank 1's first gradient is ready when rank 2 computes its last one: a server that waits for rank 1 first keeps both
 * waiting. */
static inline void lesson_5_meet(void)
{
    float word = 0;
    if (kolo_rank() == 2 && lesson_5_probe.calls == LESSON_5_PUSHES) kolo_send(&word, 1, .to = 1, .tag = LESSON_5_MEET);
    if (kolo_rank() != 1 || lesson_5_probe.calls != 1) return;
    for (int i = 0; i < 400 && !kolo_probe(2, .tag = LESSON_5_MEET); i++) usleep(10000);
    lesson_5_probe.in_vain = !kolo_probe(2, .tag = LESSON_5_MEET);
    if (!lesson_5_probe.in_vain) kolo_receive(&word, 1, .from = 2, .tag = LESSON_5_MEET);
}

/* 1 in the worker's own element, 0.5 in the last one, which all workers change, and 0 elsewhere. */
static inline void lesson_5_test_gradient(const float *weights, float *gradient, int count)
{
    for (int i = 0; i < count; i++) gradient[i] = i == kolo_rank() ? 1 : i == count - 1 ? 0.5f : 0;
    if (lesson_5_probe.calls < LESSON_5_PUSHES) lesson_5_probe.seen[lesson_5_probe.calls] = weights[kolo_rank()];
    lesson_5_probe.calls++;
    lesson_5_meet();
}

/* Copies the model's weights to `weights`, or from there if `back`. */
static inline void lesson_5_copy_weights(kolo_model *model, float *weights, bool back)
{
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight array = kolo_weight_get(model, w);
        size_t bytes = (size_t)array.count * sizeof(float);
        if (back) memcpy(array.values, weights, bytes);
        else memcpy(weights, array.values, bytes);
        weights += array.count;
    }
}

/* A worker calls it: writes the gradient at weights[count] to gradient[count]. */
static inline void compute_gradient(float *weights, float *gradient, int count)
{
    if (!lesson_5_probe.data) {
        lesson_5_test_gradient(weights, gradient, count);
        return;
    }
    kolo_data *batch = kolo_data_slice(lesson_5_probe.data, lesson_5_probe.calls++ % 16 * 32, 32);
    lesson_5_copy_weights(lesson_5_probe.model, weights, true);
    kolo_gradients(lesson_5_probe.model, batch, gradient);
    kolo_data_free(&batch);
}

/* What a rank found. */
typedef struct lesson_5_found {
    double calls, first, second, in_vain, left;
    double end; /* this rank's element of its weights */
} lesson_5_found;

/* A mistake in a worker's messages, or NULL. */
static inline const char *lesson_5_message_mistake(const lesson_5_found *worker, double rate)
{
    (void)rate;
    if (worker->calls != LESSON_5_PUSHES) return "A worker must compute `pushes` gradients.";
    if (worker->first != worker->second) return NULL;
    return "A worker computed its second gradient at old weights. The server answers each gradient's sender with the "
           "weights "
           "that contain the gradient, and the worker receives them.";
}

/* A mistake in the order of a worker's messages or in its steps, or NULL. */
static inline const char *lesson_5_step_mistake(const lesson_5_found *worker, double rate)
{
    double moved = worker->first - worker->second;
    if (worker->in_vain != 0)
        return "The server waits for one certain rank while another one sends. Take the message that comes: "
               "KOLO_ANY_RANK.";
    if (fabs(moved + rate) < 1e-5) return "The weights moved along the gradient, and the loss rises: step against it.";
    if (fabs(moved - rate) > 1e-5)
        return "The step is not rate times the gradient: is anything multiplied or divided besides?";
    return NULL;
}

/* The mistake that the server's numbers and the end of the run show, or NULL. */
static inline const char *lesson_5_server_mistake(const lesson_5_found found[LESSON_5_RANKS], const float *weights,
                                                  const double *due)
{
    for (int i = 1; i < LESSON_5_COUNT; i++)
        if (fabs(weights[i] - due[i]) > 1e-5) return "The server's weights lack updates of some workers.";
    for (int r = 0; r < LESSON_5_RANKS; r++)
        if (found[r].left > 0)
            return "Messages are left over. Each gradient has one answer, and each answer is received.";
    for (int r = 1; r < LESSON_5_RANKS; r++)
        if (fabs(found[r].end - due[r]) > 1e-5) return "A worker must end with the weights of its last answer.";
    return NULL;
}

static inline bool lesson_5_judge(const lesson_5_found found[LESSON_5_RANKS], const float *weights, double rate)
{
    double own = 10 - rate * LESSON_5_PUSHES, shared = 10 - rate * 0.5 * LESSON_5_PUSHES * (LESSON_5_RANKS - 1);
    double due[LESSON_5_COUNT] = {10, own, own, shared};
    if (found[1].calls + found[2].calls == 0)
        return course_check("5.b", false, "work() is the skeleton: no worker computed a gradient.");
    for (int i = 0; i < 2 * (LESSON_5_RANKS - 1); i++) { /* the messages of all workers first */
        int r = 1 + i % (LESSON_5_RANKS - 1);
        bool messages = i < LESSON_5_RANKS - 1;
        const char *mistake = (messages ? lesson_5_message_mistake : lesson_5_step_mistake)(&found[r], rate);
        if (mistake)
            return course_check("5.b", false, "Expected %g in a worker's weights at its second gradient, got %g. %s",
                                10 - rate, found[r].second, mistake);
    }
    const char *mistake = lesson_5_server_mistake(found, weights, due);
    return course_check("5.b", !mistake, "Expected the server's weights %g %g %g %g, got %g %g %g %g. %s", due[0],
                        due[1], due[2], due[3], weights[0], weights[1], weights[2], weights[3], mistake ? mistake : "");
}

/* A server and two workers, three gradients from each, a rate of 0.25, and weights that begin at 10. All ranks call it;
 * rank 0 prints. */
static inline void lesson_5_check_server(lesson_5_serve serve, lesson_5_work work)
{
    const float rate = 0.25f;
    float weights[LESSON_5_COUNT] = {10, 10, 10, 10};
    if (kolo_size() != LESSON_5_RANKS) {
        printf("This check wants %d ranks: %%ranks %d starts them.\n", LESSON_5_RANKS, LESSON_5_RANKS);
        return;
    }
    memset(&lesson_5_probe, 0, sizeof lesson_5_probe);
    if (kolo_rank() == 0) serve(weights, LESSON_5_COUNT, LESSON_5_PUSHES * (LESSON_5_RANKS - 1), rate);
    else work(weights, LESSON_5_COUNT, LESSON_5_PUSHES);
    lesson_5_found found[LESSON_5_RANKS], mine = {.calls = lesson_5_probe.calls,
                                                  .first = lesson_5_probe.seen[0],
                                                  .second = lesson_5_probe.seen[1],
                                                  .in_vain = lesson_5_probe.in_vain};
    mine.left = messages_drain(LESSON_5_MEET);
    mine.end = weights[kolo_rank()];
    kolo_allgather((const double *)&mine, sizeof mine / sizeof(double), (double *)found);
    if (kolo_rank() == 0) lesson_5_server_passes = lesson_5_judge(found, weights, rate);
    kolo_broadcast(&lesson_5_server_passes, 1, 0);
}

/* Trains a small network on drawn digits with the learner's server, each worker on images of its own. All ranks call
 * it; rank 0 prints the loss before and after. */
static inline void lesson_5_train_with(lesson_5_serve serve, lesson_5_work work, int pushes)
{
    if (!lesson_5_server_passes) {
        if (kolo_rank() == 0) printf("The server trains a network when its check has passed: run the check first.\n");
        return;
    }
    memset(&lesson_5_probe, 0, sizeof lesson_5_probe);
    kolo_data *all = kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 512 * kolo_size());
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_average_pool2d(2), kolo_flatten(), kolo_dense(10));
    kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);
    lesson_5_probe.data = kolo_data_slice(all, 512 * kolo_rank(), 512);
    lesson_5_probe.model = model;
    int count = (int)kolo_count_params(model);
    float *weights = calloc((size_t)count, sizeof *weights);
    lesson_5_copy_weights(model, weights, false);
    double before = kolo_evaluate(model, all).loss;
    if (kolo_rank() == 0) serve(weights, count, pushes * (kolo_size() - 1), 0.2f);
    else work(weights, count, pushes);
    lesson_5_copy_weights(model, weights, true);
    if (kolo_rank() == 0)
        printf("%d workers, %d gradients each: the loss was %.3f, and is %.3f\n", kolo_size() - 1, pushes, before,
               kolo_evaluate(model, all).loss);
    kolo_data_free(&lesson_5_probe.data);
    kolo_data_free(&all);
    kolo_model_free(&model);
    free(weights);
}

#endif
