/* Lesson 8: the checks of the exercises: when to stop (8.a), the accuracy of all ranks (8.b), the choice among trials
 * (8.c). Included by lesson_8.h. */
#ifndef COURSE_LESSON_8_CHECKS_H
#define COURSE_LESSON_8_CHECKS_H

#include "course.h"

/* ------------------------------------------------------------------------------------------ 8.a when to stop */

typedef bool lesson_8_stop(double used, double limit, double step, double save);

/* A training whose steps all take the same time. */
typedef struct lesson_8_training {
    double limit, step, save;
    int steps;    /* until the training ended */
    double saved; /* when the file was complete; INFINITY: the training never ended */
} lesson_8_training;

/* Asks the learner's function after each step. Ranks agree on a stop one step late. */
static inline lesson_8_training lesson_8_simulate(lesson_8_stop *stop, double limit, double step, double save)
{
    lesson_8_training t = {.limit = limit, .step = step, .save = save, .saved = INFINITY};
    bool agreed = false;
    for (t.steps = 1; t.steps < 10000; t.steps++) {
        double used = t.steps * step;
        if (agreed) {
            t.saved = used + save;
            return t;
        }
        agreed = stop(used, limit, step, save);
    }
    return t;
}

/* The steps that fit: at least two, since no stop comes before the first step's end. */
static inline int lesson_8_most(const lesson_8_training *t)
{
    return (int)floor((t->limit - t->save) / t->step + 1e-9);
}

static inline bool lesson_8_judge_stop(const lesson_8_training *t, const char *mistake)
{
    return course_check("8.a", false,
                        "%s With steps of %g s, %g s to save and a limit of %g s: expected %d steps, got %d; "
                        "the file was complete after %g s.",
                        mistake, t->step, t->save, t->limit, lesson_8_most(t), t->steps, t->saved);
}

static inline bool lesson_8_check_stop(lesson_8_stop *stop)
{
    /* the first has nothing to save, the second a short limit, the third a long time to save, the fourth long steps */
    lesson_8_training runs[] = {lesson_8_simulate(stop, 60, 4, 0), lesson_8_simulate(stop, 20, 3, 0),
                                lesson_8_simulate(stop, 60, 1, 8.5), lesson_8_simulate(stop, 60, 7, 2)};
    bool never = true, at_once = true;
    for (int i = 0; i < 4; i++) never = never && isinf(runs[i].saved), at_once = at_once && runs[i].steps == 2;
    if (never) return course_check("8.a", false, "Not done yet: stop_now() never says stop.");
    if (at_once)
        return lesson_8_judge_stop(&runs[0], "It stops after the first step. Is the comparison the right way round?");
    if (runs[0].saved <= runs[0].limit && runs[1].saved > runs[1].limit)
        return lesson_8_judge_stop(&runs[1], "The limit is not always 60 seconds: use the argument.");
    if (runs[0].saved > runs[0].limit + runs[0].step)
        return lesson_8_judge_stop(&runs[0], "It says stop when the time is already over.");
    if (runs[0].saved > runs[0].limit)
        return lesson_8_judge_stop(&runs[0], "A stop works one step late, and the next chance comes a step later: "
                                             "leave room for two.");
    if (runs[2].saved > runs[2].limit) return lesson_8_judge_stop(&runs[2], "The time to save is missing.");
    for (int i = 0; i < 4; i++) {
        if (runs[i].saved > runs[i].limit) return lesson_8_judge_stop(&runs[i], "The file comes too late.");
        if (runs[i].steps < lesson_8_most(&runs[i]))
            return lesson_8_judge_stop(&runs[i], "It stops too early: another step would have fitted.");
    }
    return course_check("8.a", true, " ");
}

/* ------------------------------------------------------------------------------------------ 8.b all ranks */

#define LESSON_8_RANKS 4

typedef double lesson_8_average(double correct, double count);

/* Whether the ranks have these numbers. A sum in float is as right as one in double. */
static inline bool lesson_8_is(const double *got, const double *wanted)
{
    for (int r = 0; r < LESSON_8_RANKS; r++)
        if (!(fabs(got[r] - wanted[r]) < 1e-6)) return false;
    return true;
}

/* The mistake that gives these results on the ranks, or NULL. */
static inline const char *lesson_8_average_mistake(const double *got, const double *correct, const double *count)
{
    double own[LESSON_8_RANKS], above[LESSON_8_RANKS], below[LESSON_8_RANKS], all = 0, images = 0, ratios = 0;
    double same[4][LESSON_8_RANKS];
    for (int r = 0; r < LESSON_8_RANKS; r++) all += correct[r], images += count[r], ratios += correct[r] / count[r];
    for (int r = 0; r < LESSON_8_RANKS; r++) {
        own[r] = correct[r] / count[r], above[r] = all / count[r], below[r] = correct[r] / images;
        same[0][r] = all / images, same[1][r] = ratios / LESSON_8_RANKS, same[2][r] = ratios;
        same[3][r] = all / images / LESSON_8_RANKS;
    }
    if (lesson_8_is(got, same[0])) return NULL;
    if (lesson_8_is(got, own)) return "Not done yet: each rank has the accuracy of its own images.";
    if (lesson_8_is(got, same[1])) return "That is the mean of the ranks' accuracies: 10 images weigh as much as 400.";
    if (lesson_8_is(got, same[2])) return "That is the sum of the ranks' accuracies; it can be above 1.";
    if (lesson_8_is(got, same[3]))
        return "It is divided by the number of ranks once too often: the sums hold all images.";
    if (lesson_8_is(got, above)) return "The right answers are summed over the ranks, the images are not.";
    if (lesson_8_is(got, below)) return "The images are summed over the ranks, the right answers are not.";
    if (fabs(got[0] - all / images) < 1e-6) return "Rank 0 has the accuracy of all, other ranks have not.";
    return "That is not the accuracy of all images.";
}

/* Calls the learner's function and gathers the results of all ranks. If only some ranks have made a call of their own
 * in it, that call meets the others' kolo_allgather(), and both fail: a further one brings the ranks together again.
 * True on every rank if no call failed. */
static inline bool lesson_8_ask(lesson_8_average *learners, double correct, double count, double all[LESSON_8_RANKS])
{
    double value = learners(correct, count), good = kolo_last_error().code == KOLO_OK;
    for (int tries = 0; tries < 8 && kolo_allgather(&value, 1, all) != KOLO_OK; tries++) good = 0;
    kolo_clear_error();
    return kolo_allreduce(&good, 1, .op = KOLO_REDUCE_MIN) == KOLO_OK && good == 1;
}

/* Checks the learner's function. A %%ranks cell of four ranks calls it on all of them. */
static inline void lesson_8_check_average(lesson_8_average *learners)
{
    const double correct[] = {9, 10, 3, 380}, count[] = {10, 20, 30, 400}, none[] = {9, 0, 3, 380},
                 empty[] = {10, 0, 30, 400};
    double first[LESSON_8_RANKS] = {0}, second[LESSON_8_RANKS] = {0};
    kolo_init(NULL, NULL);
    int rank = kolo_rank();
    if (kolo_size() != LESSON_8_RANKS) {
        if (rank == 0) printf("There are %d ranks here, and 4 are wanted: run the cell with %%ranks 4.\n", kolo_size());
        return;
    }
    bool came = lesson_8_ask(learners, correct[rank], count[rank], first) &&
                lesson_8_ask(learners, none[rank], empty[rank], second);
    if (rank != 0) return;
    const char *mistake = lesson_8_average_mistake(first, correct, count);
    if (!came)
        course_check("8.b", false, "The ranks did not make the same calls: every rank must come to every all-reduce.");
    else if (mistake)
        course_check("8.b", false, "%s Expected %.4f on every rank, got %.4f on rank 0 and %.4f on rank 3.", mistake,
                     402 / 460.0, first[0], first[3]);
    else
        course_check("8.b", fabs(second[0] - 392 / 440.0) < 1e-6,
                     "With a rank that has no image: expected %.4f, got %g. Divide after the sums, never before: 0/0 "
                     "is "
                     "not a number.",
                     392 / 440.0, second[0]);
}

/* ------------------------------------------------------------------------------------------ 8.c the choice */

#define LESSON_8_SEEDS 3

/* A setting that was tried with several seeds. Accuracies are from 0 to 1; NaN: the training diverged. */
typedef struct challenge_trial {
    int batch; /* of all ranks together */
    double learning_rate;
    double train[LESSON_8_SEEDS], validation[LESSON_8_SEEDS];
    double test; /* only the check fills it in */
    int updates; /* of the last seed */
} challenge_trial;

typedef int lesson_8_choice(const challenge_trial *trials, int count);

/* Eight trials, of which each mistake chooses another one. The right one is number 3. */
static const challenge_trial lesson_8_made_up[] = {
    {64, 1.0, {NAN, .1, .1}, {NAN, .1, .1}, .1, 9}, /* diverged */
    {64, .003, {.99, .99, .999}, {.96, .96, .96}, .96, 9}, /* learnt by heart */
    {128, .003, {.97, .97, .97}, {.90, .999, .91}, .92, 9}, /* one lucky seed */
    {128, .001, {.98, .98, .98}, {.975, .978, .976}, .970, 9},
    {256, .001, {.96, .96, .96}, {.95, .95, .95}, .999, 9}, /* the best test accuracy */
    {512, .001, {.97, .97, .97}, {.99, .94, .94}, .95, 9}, /* the best first seed */
    {4096, 1e-5, {.2, .2, .2}, {.15, .15, .15}, .15, 9}, /* the worst */
    {32, .001, {.97, .97, .97}, {.94, .94, .9799}, .95, 9}, /* the last, the best last seed */
};
#define LESSON_8_MADE_UP ((int)(sizeof lesson_8_made_up / sizeof *lesson_8_made_up))

static inline bool lesson_8_check_choice(lesson_8_choice *choose)
{
    static const char *const mistakes[LESSON_8_MADE_UP] = {
        "Trial 0 diverged: one of its accuracies is NaN, and no comparison with NaN is true. Skip such a trial.",
        "Trial 1 has the best training accuracy. It may have learnt its images by heart.",
        "Trial 2 has one lucky seed. Take the mean over the seeds.",
        NULL,
        "Trial 4 has the best test accuracy. The test images are for the score alone.",
        "Trial 5 is the best with its first seed alone. Take the mean over the seeds.",
        "Trial 6 is the worst. Is the comparison the right way round?",
        "Trial 7 is the last, and the best with its last seed alone. Take the mean over the seeds.",
    };
    int chosen = choose(lesson_8_made_up, LESSON_8_MADE_UP), one = choose(lesson_8_made_up + 1, 1);
    if (chosen == -1) return course_check("8.c", false, "Not done yet: choose() returns -1.");
    if (chosen < 0 || chosen >= LESSON_8_MADE_UP)
        return course_check("8.c", false, "Expected a number from 0 to 7, got %d: it is the place in the array.",
                            chosen);
    if (mistakes[chosen]) return course_check("8.c", false, "Expected trial 3, got %d. %s", chosen, mistakes[chosen]);
    return course_check("8.c", one == 0, "With a single trial expected 0, got %d: use `count`.", one);
}

#endif
