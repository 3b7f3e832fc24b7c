/* Lesson 1's checks, hints and quiz. Included by lesson_1.h. Reading it before the exercises spoils them. */
#ifndef COURSE_LESSON_1_CHECKS_H
#define COURSE_LESSON_1_CHECKS_H

#include "course.h"

/* Equal within the rounding of a float, since a learner may calculate in float. */
static inline bool lesson_1_equal(double got, double wanted)
{
    return fabs(got - wanted) <= 1e-5 * fabs(wanted);
}

/* ---------------------------------------------------------------- 1.a: the time of a pipelined step */

typedef double (*lesson_1_pipeline)(const double *stage, int stages, int pieces);

typedef struct lesson_1_case {
    double stage[4];
    int stages, pieces;
} lesson_1_case;

static const lesson_1_case lesson_1_cases[] = {
    {{1, 1}, 2, 1}, {{1, 1}, 2, 8}, {{0.3, 1, 0.5}, 3, 4}, {{0.5, 0.2, 0.9, 0.4}, 4, 10}};
#define LESSON_1_CASES 4

/* Piece by piece: a device starts when the piece has arrived and the piece before it has left. */
static inline double lesson_1_simulated(const lesson_1_case *c)
{
    double left[4] = {0};
    for (int piece = 0; piece < c->pieces; piece++) {
        double arrived = 0;
        for (int i = 0; i < c->stages; i++) arrived = left[i] = fmax(arrived, left[i]) + c->stage[i] / c->pieces;
    }
    return left[c->stages - 1];
}

#define LESSON_1_PIPELINE_MISTAKES 12

/* What a solution with mistake `number` returns, and the mistake's name. */
static inline double lesson_1_pipeline_mistake(int number, const lesson_1_case *c, const char **name)
{
    double sum = 0, slowest = 0, n = c->pieces, first = c->stage[0], last = c->stage[c->stages - 1];
    for (int i = 0; i < c->stages; i++) sum += c->stage[i], slowest = fmax(slowest, c->stage[i]);
    const struct {
        double value;
        const char *name;
    } mistakes[LESSON_1_PIPELINE_MISTAKES] = {
        {0, "the function is not written yet"},
        {sum, "this is the time without a pipeline, in which one device works and all others wait"},
        {slowest, "this is the slowest device alone; the first piece has to pass the other devices, too"},
        {sum / n, "this is the time of the first piece alone"},
        {sum + (n - 1) * slowest, "each piece has only a part of the batch, so it takes a part of a device's seconds"},
        {(sum + n * slowest) / n, "one piece too many: the sum over all devices already contains the first piece"},
        {(sum + (n - 1) * last) / n, "the pieces leave at the pace of the slowest device, not of the last one"},
        {(sum + (n - 1) * first) / n, "the pieces leave at the pace of the slowest device, not of the first one"},
        {(n + c->stages - 1) / n * sum / c->stages, "this holds only if all devices take the same time"},
        {(n + c->stages - 1) / n * slowest,
         "not every device is as slow as the slowest one, and the first piece passes them all"},
        {(n + c->stages - 1) / n * sum, "the sum already contains every device: do not count the devices again"},
        {(n + c->stages - 1) * slowest,
         "each piece has only a part of the batch, so it takes a part of a device's seconds"},
    };
    *name = mistakes[number].name;
    return mistakes[number].value;
}

/* The mistake that explains all results, or NULL. */
static inline const char *lesson_1_pipeline_diagnosis(const double *got)
{
    for (int number = 0; number < LESSON_1_PIPELINE_MISTAKES; number++) {
        const char *name = NULL;
        bool all = true;
        for (int i = 0; i < LESSON_1_CASES; i++)
            all = all && lesson_1_equal(lesson_1_pipeline_mistake(number, &lesson_1_cases[i], &name), got[i]);
        if (all) return name;
    }
    return NULL;
}

static inline void lesson_1_check_pipeline(lesson_1_pipeline seconds)
{
    double got[LESSON_1_CASES];
    int wrong = -1;
    if (!course_ready()) return;
    for (int i = 0; i < LESSON_1_CASES; i++) {
        const lesson_1_case *c = &lesson_1_cases[i];
        got[i] = seconds(c->stage, c->stages, c->pieces);
        bool right = lesson_1_equal(got[i], lesson_1_simulated(c));
        if (!right && wrong < 0) wrong = i;
    }
    const lesson_1_case *c = &lesson_1_cases[wrong < 0 ? 0 : wrong];
    const char *mistake = lesson_1_pipeline_diagnosis(got);
    char needs[64];
    int used = 0;
    for (int i = 0; i < c->stages; i++)
        used += snprintf(needs + used, sizeof needs - (size_t)used, "%s%g", i ? ", " : "", c->stage[i]);
    course_check("1.a", wrong < 0, "%d devices that need %s s, %d piece%s: expected %.4g s, got %.4g s: %s.", c->stages,
                 needs, c->pieces, c->pieces == 1 ? "" : "s", lesson_1_simulated(c), got[wrong < 0 ? 0 : wrong],
                 mistake ? mistake : "follow one piece after the other on paper, or ask for a hint");
}

/* ---------------------------------------------------------------- 1.b: the gradient of a batch that ranks share */

typedef void (*lesson_1_average)(double *gradient, int count, int samples);

#define LESSON_1_WEIGHTS          3
#define LESSON_1_RANKS_MAX        64
#define LESSON_1_AVERAGE_MISTAKES 7

/* Rank r has r + 1 samples. The sum of its gradients for weight w, with whole numbers that no two ranks share. */
static inline double lesson_1_sum_of(int rank, int weight)
{
    return (rank + 1) * (10.0 * (rank + 2) * (rank + 3) + weight);
}

/* What rank r has for a weight after a solution with mistake `number`; -1: after a right one. */
static inline double lesson_1_average_mistake(int number, int ranks, int rank, int weight, const char **name)
{
    double sum = 0, of_means = 0, mine = lesson_1_sum_of(rank, weight), samples = ranks * (ranks + 1) / 2.0;
    for (int r = 0; r < ranks; r++) sum += lesson_1_sum_of(r, weight), of_means += lesson_1_sum_of(r, weight) / (r + 1);
    const struct {
        double value;
        const char *name;
    } mistakes[LESSON_1_AVERAGE_MISTAKES] = {
        {mine, "the gradients did not change; the function is not written yet"},
        {mine / (rank + 1), "each rank has the mean of its own samples; the ranks have exchanged nothing"},
        {sum, "this is the sum over all ranks; the number of samples is missing"},
        {of_means, "this is the sum of the ranks' means, not their mean"},
        {of_means / ranks, "this is the mean of the ranks' means; a rank with more samples must count more"},
        {sum / ranks, "the sum is divided by the number of ranks, not by the number of samples"},
        {sum / (rank + 1), "each rank divides by its own number of samples, so the ranks disagree"},
    };
    if (number < 0) return sum / samples;
    *name = mistakes[number].name;
    return mistakes[number].value;
}

/* Do all ranks have what a solution with this mistake gives? got[ranks][LESSON_1_WEIGHTS] */
static inline bool lesson_1_average_is(int number, int ranks, const double *got, const char **name)
{
    for (int i = 0; i < ranks * LESSON_1_WEIGHTS; i++) {
        double value = lesson_1_average_mistake(number, ranks, i / LESSON_1_WEIGHTS, i % LESSON_1_WEIGHTS, name);
        if (!lesson_1_equal(got[i], value)) return false;
    }
    return true;
}

/* All ranks call it in a %%ranks cell; rank 0 prints. */
static inline void lesson_1_check_average(lesson_1_average average)
{
    int ranks = kolo_size(), rank = kolo_rank();
    double same[LESSON_1_WEIGHTS] = {21, 21, 21}; /* the sum over seven samples of each rank */
    double gradient[LESSON_1_WEIGHTS], all[LESSON_1_RANKS_MAX][LESSON_1_WEIGHTS];
    if (ranks < 2 || ranks > LESSON_1_RANKS_MAX) {
        printf("Exercise 1.b wants 2 to %d ranks, got %d. Run the cells with %%ranks 4 and kolo_init() first.\n",
               LESSON_1_RANKS_MAX, ranks);
        return;
    }
    for (int w = 0; w < LESSON_1_WEIGHTS; w++) gradient[w] = lesson_1_sum_of(rank, w);
    kolo_clear_error();
    average(gradient, LESSON_1_WEIGHTS, rank + 1);
    if (kolo_last_error().code != KOLO_OK) return; /* it was printed; the other ranks' next call failed, too */
    average(same, LESSON_1_WEIGHTS, 7);
    bool general = lesson_1_equal(same[0], 3);
    if (kolo_allgather(gradient, LESSON_1_WEIGHTS, &all[0][0]) != KOLO_OK || rank != 0) return;
    const char *mistake = NULL;
    bool passed = lesson_1_average_is(-1, ranks, &all[0][0], &mistake), known = passed;
    for (int number = 0; number < LESSON_1_AVERAGE_MISTAKES && !known; number++)
        known = lesson_1_average_is(number, ranks, &all[0][0], &mistake);
    if (passed && !general) {
        course_check("1.b", false,
                     "Right if rank r has r + 1 samples, but wrong if each rank has 7 samples with the sum 21: "
                     "expected "
                     "3, got %.4g. Use `samples`.",
                     same[0]);
        return;
    }
    course_check("1.b", passed, "First weight: expected %.4g on every rank, got %.4g on rank 0 and %.4g on rank 1: %s.",
                 lesson_1_average_mistake(-1, ranks, 0, 0, NULL), all[0][0], all[1][0],
                 known ? mistake : "calculate with two ranks on paper, or ask for a hint");
}

/* ---------------------------------------------------------------- hints and quiz */

static const course_question lesson_1_quiz[COURSE_QUESTIONS] = {
    {"A network needs 24 GB for weights, gradients and Adam's state. Your GPUs have 16 GB each. What helps?",
     {"data parallelism over two GPUs", "model parallelism over two GPUs", "a smaller learning rate"},
     'b',
     "Under data parallelism each GPU holds the whole network."},
    {"Eight ranks train twice as many images per second as one rank, on two cores. What is the efficiency?",
     {"25 %, because eight ranks could be eight times as fast", "100 %, because two cores can do twice the work of one",
      "200 %"},
     'b',
     "The ideal is the number of ranks or the number of cores, whichever is smaller."},
    {"Why does the throughput rise with the batch at first?",
     {"each image takes fewer multiplications", "the learning rate grows",
      "the device is filled, and updates are rarer", "the network has fewer weights"},
     'c',
     "A step has a fixed cost, the update, and a small batch does not keep all units of a device busy."},
    {"A pipeline over four equal devices splits a batch into 12 pieces. Which part of the time is a device idle?",
     {"1/5", "1/4", "1/12", "none"},
     'a',
     "(D - 1) / (m + D - 1) = 3 / 15."},
    {"An epoch of 60,000 images has only whole batches of 4 x 8,192. How many images are trained?",
     {"60,000", "65,536", "57,344", "32,768"},
     'd',
     "Only one batch of 32,768 fits into 60,000."},
};

static inline void lesson_1_begin(void)
{
    course_begin("1");
    course_hints(
        "1.a", "Draw two devices and three pieces on paper: one row for each device, time to the right.",
        "When does the last device finish the first piece? After that, which device decides how often a piece leaves?",
        "The first piece passes every device in turn. Each further piece leaves one turn of the slowest device "
        "later. Remember that a piece is only a part of the batch.");
    course_hints("1.b", "Write down the mean for two ranks, one with 1 sample and one with 3 samples.",
                 "A mean is a sum divided by a number. Both are sums over all ranks.",
                 "kolo_allreduce(values, count) replaces values by their sums over all ranks. Which two things does "
                 "every "
                 "rank have to know the sum of?");
}

#endif
