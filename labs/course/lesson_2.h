/* What lessons 2.1 and 2.2 share: comparing a prediction with a number that was not measured here, and naming mistakes.
 * Included by lesson_2_1.h and lesson_2_2.h. */
#ifndef COURSE_LESSON_2_H
#define COURSE_LESSON_2_H

#include "course.h"

/* course_compare() for a number of another origin than a measurement: "published", "modelled", "answer". Before there
 * is a guess it does not show the number, and for NaN it prints nothing. */
static inline void lesson_compare(const char *what, double guess, double value, double tolerance, const char *unit,
                                  const char *origin)
{
    double ratio = guess / value;
    if (isnan(value)) return; /* its caller has said why */
    if (guess == 0 || isnan(guess)) {
        printf("%s: type your guess in the cell above, run that cell, and run this one again.\n", what);
        return;
    }
    printf("%s: your guess ", what), course_number(guess, unit);
    printf(", %s ", origin), course_number(value, unit);
    if (guess == value) printf(": right.\n");
    else if (fabs(guess - value) <= tolerance * fabs(value)) printf(": close enough.\n");
    else if (ratio < 0) printf(": too low.\n");
    else course_factor(ratio);
}

/* A mistake that gives exactly these results in the cases of a check, and the sentence that names it. */
typedef struct lesson_mistake {
    const char *sentence;
    double result[16];
} lesson_mistake;

/* Equal within rounding. */
static inline bool lesson_equal(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

/* The sentence of the first mistake that gives got[cases]; `otherwise` if there is none. */
static inline const char *lesson_name_mistake(const lesson_mistake *mistakes, int count, const double *got, int cases,
                                              const char *otherwise)
{
    for (int m = 0; m < count; m++) {
        int same = 0;
        for (int i = 0; i < cases; i++) same += lesson_equal(got[i], mistakes[m].result[i]);
        if (same == cases) return mistakes[m].sentence;
    }
    return otherwise;
}

#endif
