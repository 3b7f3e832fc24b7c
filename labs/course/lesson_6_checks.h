/* The checks of lesson 6's exercises: the elastic update, and a server that weighs commits by their staleness. Included
 * by lesson_6.h. */
#ifndef COURSE_LESSON_6_CHECKS_H
#define COURSE_LESSON_6_CHECKS_H

#include "course.h"
#include "messages.h"

/* ------------------------------------------------------------------------------- exercise 6.a: the elastic update */

/* worker[count] and centre[count] move towards each other by alpha times their difference. */
typedef void (*lesson_6_elastic)(float *worker, float *centre, int count, float alpha);

static inline bool lesson_6_near(double a, double b)
{
    return fabs(a - b) < 1e-5;
}

/* The mistake that turned a worker at 4 and a centre at 0 into x and c, with alpha = 0.25: 3 and 1 are right. */
static inline const char *lesson_6_elastic_mistake(double x, double c)
{
    if (lesson_6_near(x, 4) && lesson_6_near(c, 0)) return "Nothing has moved: elastic() is the skeleton.";
    if (lesson_6_near(x, 5))
        return "The worker moved away from the centre: its sign is wrong. dist-keras had this mistake.";
    if (lesson_6_near(c, -1)) return "The centre moved away from the worker: its sign is wrong.";
    if (lesson_6_near(x, 3) && lesson_6_near(c, 0.75))
        return "The centre used the worker's new weights: both take the difference from before the update.";
    if (lesson_6_near(x, 3.25) && lesson_6_near(c, 1))
        return "The worker used the centre's new weights: both take the difference from before the update.";
    if (lesson_6_near(x, 3) && lesson_6_near(c, 0)) return "The worker moved, the centre did not.";
    if (lesson_6_near(x, 4) && lesson_6_near(c, 1)) return "The centre moved, the worker did not.";
    if (lesson_6_near(x, c))
        return "Both are equal now: that is averaging, or DOWNPOUR. A spring pulls a part of the way.";
    if (lesson_6_near(x, 0) && lesson_6_near(c, 4)) return "They changed places: alpha is missing.";
    return "Both move by alpha times their difference.";
}

static inline void lesson_6_check_elastic(lesson_6_elastic elastic)
{
    float worker[3] = {4, -2, 10}, centre[3] = {0, 6, 10};
    const float worker_due[3] = {3, 0, 10}, centre_due[3] = {1, 4, 10};
    elastic(worker, centre, 3, 0.25f);
    if (!lesson_6_near(worker[0], 3) || !lesson_6_near(centre[0], 1)) {
        course_check("6.a", false,
                     "A worker at 4 and a centre at 0, with alpha 0.25: expected 3 and 1, got %g and %g. %s", worker[0],
                     centre[0], lesson_6_elastic_mistake(worker[0], centre[0]));
        return;
    }
    for (int i = 1; i < 3; i++) {
        if (lesson_6_near(worker[i], worker_due[i]) && lesson_6_near(centre[i], centre_due[i])) continue;
        course_check("6.a", false,
                     "Weight %d: expected %g and %g, got %g and %g. Every one of the `count` weights moves, "
                     "also where the worker is below the centre.",
                     i, worker_due[i], centre_due[i], worker[i], centre[i]);
        return;
    }
    course_check("6.a", true, "");
}

/* ------------------------------------------------------------------------------- exercise 6.b: DynSGD's server */

/* Rank 0 takes `commits` commits, of the ranks in order[], and answers each with the centre. */
typedef void (*lesson_6_serve)(float *centre, int count, const int *order, int commits);

enum { LESSON_6_RANKS = 3, LESSON_6_COMMITS = 7 };

/* The ranks of the check's commits in their order. The staleness of the commits is 0, 1, 0, 0, 3, 0, 2. */
static inline const int *lesson_6_order(void)
{
    static const int order[LESSON_6_COMMITS] = {1, 2, 2, 2, 1, 1, 2};
    return order;
}

/* The weight of commit i: 1 / (staleness + 1). */
static inline double lesson_6_weight(int i)
{
    static const double weights[LESSON_6_COMMITS] = {1, 1 / 2., 1, 1, 1 / 4., 1, 1 / 3.};
    return weights[i];
}

/* A worker's commit i has a 1 in element i alone: so the centre shows the weight of each. */
static inline void lesson_6_work(void)
{
    for (int i = 0; i < LESSON_6_COMMITS; i++) {
        if (lesson_6_order()[i] != kolo_rank()) continue;
        float delta[LESSON_6_COMMITS] = {0}, centre[LESSON_6_COMMITS];
        delta[i] = 1;
        kolo_send(delta, LESSON_6_COMMITS, .to = 0);
        kolo_receive(centre, LESSON_6_COMMITS, .from = 0);
    }
}

/* The weights that known mistakes give. */
typedef struct lesson_6_mistake {
    const char *name;
    double weights[LESSON_6_COMMITS];
} lesson_6_mistake;

static inline const char *lesson_6_serve_mistake(const float *got)
{
    static const lesson_6_mistake known[] = {
        {"The commits are not added to the centre: the loop is the skeleton.", {0}},
        {"Every commit has its full weight: that is DOWNPOUR. Is the staleness kept for each rank?",
         {1, 1, 1, 1, 1, 1, 1}},
        {"The staleness only grows: remember what a rank has pulled when it is answered.",
         {1, 1 / 2., 1 / 3., 1 / 4., 1 / 5., 1 / 6., 1 / 7.}},
        {"A worker's own last commit is counted as another's: the answer to commit i contains commit i.",
         {1, 1 / 2., 1 / 2., 1 / 2., 1 / 5., 1 / 2., 1 / 4.}},
        {"Every weight is 1 / (staleness + 2): a fresh commit has a staleness of 0, and the weight 1.",
         {1 / 2., 1 / 3., 1 / 2., 1 / 2., 1 / 5., 1 / 2., 1 / 4.}},
        {"Stale commits were dropped: 1 / (staleness + 1) of whole numbers is a whole number, 0. Divide by a float.",
         {1, 0, 1, 1, 0, 1, 0}},
        {"Stale commits have more weight: divide by staleness + 1.", {1, 2, 1, 1, 4, 1, 3}},
        {"The commits are subtracted: they are changes of weights, not gradients.",
         {-1, -1 / 2., -1, -1, -1 / 4., -1, -1 / 3.}},
    };
    for (size_t m = 0; m < sizeof known / sizeof *known; m++) {
        int same = 0;
        for (int i = 0; i < LESSON_6_COMMITS; i++) same += lesson_6_near(got[i], known[m].weights[i]);
        if (same == LESSON_6_COMMITS) return known[m].name;
    }
    for (int i = 0; i < LESSON_6_COMMITS; i++)
        if (!isfinite(got[i])) return "A fresh commit has a staleness of 0, and nothing can be divided by 0: add 1.";
    return "The weight of a commit is 1 / (s + 1), with s commits of others since its sender's last.";
}

/* All ranks call it; rank 0 prints. */
static inline void lesson_6_check_server(lesson_6_serve serve)
{
    float centre[LESSON_6_COMMITS] = {0};
    if (kolo_size() != LESSON_6_RANKS) {
        printf("This check wants %d ranks: %%ranks %d starts them.\n", LESSON_6_RANKS, LESSON_6_RANKS);
        return;
    }
    if (kolo_rank() == 0) serve(centre, LESSON_6_COMMITS, lesson_6_order(), LESSON_6_COMMITS);
    else lesson_6_work();
    messages_drain(MESSAGES_END);
    kolo_barrier();
    if (kolo_rank() != 0) return;
    bool right = true;
    for (int i = 0; i < LESSON_6_COMMITS; i++) {
        right = right && lesson_6_near(centre[i], lesson_6_weight(i));
        printf("commit %d of rank %d: expected the weight %.4f, got %.4f\n", i, lesson_6_order()[i], lesson_6_weight(i),
               centre[i]);
    }
    course_check("6.b", right, "%s", right ? "" : lesson_6_serve_mistake(centre));
}

#endif
