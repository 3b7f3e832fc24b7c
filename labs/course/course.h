/* The plumbing that the notebooks of the course share: quick forms, predictions, statistics, commands. Checks, hints
 * and quizzes are in quiz.h, the learner's progress is in progress.h. A notebook's first cell has
 *
 *     #include "course/course.h"
 *
 * Everything prints on stdout, in sentences for the learner. Nothing here ends the process. */
#ifndef COURSE_COURSE_H
#define COURSE_COURSE_H

#include <kolo.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "quiz.h"

/* Is this the quick form, in which the tests run every notebook? It is if KOLO_LAB_QUICK is set. */
static inline bool course_quick(void)
{
    return getenv("KOLO_LAB_QUICK") != NULL;
}

static inline int course_pick(int full, int quick)
{
    return course_quick() ? quick : full;
}

/* Begins a lesson: makes the folder run/, in which programs write, and says what computes here. */
static inline void course_begin(const char *lesson)
{
    if (mkdir("run", 0777) != 0 && errno != EEXIST)
        printf("The folder run/ cannot be made here: %s. Programs that write there will fail.\n", strerror(errno));
    int devices = kolo_device_count(), most = kolo_hardware_count();
    kolo_device first = kolo_device_get(0);
    printf("Lesson %s. %d device%s: %s, %s.\n", lesson, devices, devices == 1 ? "" : "s", first.name,
           first.description);
    if (most < devices)
        printf("%d %s%s: at most %d of the devices compute at the same time.\n", most,
               first.name[0] == 'g' ? "GPU" : "core", most == 1 ? "" : "s", most);
    if (course_quick()) printf("Quick form (KOLO_LAB_QUICK): runs are cut short, and their numbers mean nothing.\n");
}

/* Prints a number with about three digits, but all before the point: 0.0123, 1.5, 486914. */
static inline void course_number(double value, const char *unit)
{
    printf(fabs(value) >= 100 ? "%.0f" : "%.3g", value);
    if (unit && *unit) printf(" %s", unit);
}

/* Says by which factor a prediction is too low or too high, or by how many percent if it is near; ratio: prediction
 * over result, above 0. */
static inline void course_factor(double ratio)
{
    double factor = ratio < 1 ? 1 / ratio : ratio;
    printf(": too %s, by ", ratio < 1 ? "low" : "high");
    if (factor < 1.1) printf("%.2g %%.\n", 100 * fabs(ratio - 1));
    else printf(factor >= 100 ? "a factor of %.0f.\n" : "a factor of %.2g.\n", factor);
}

/* Begins the line of a comparison. False if it ends there, because a guess or a result is missing. */
static inline bool course_comparable(const char *what, bool guessed, double result)
{
    printf("%s: ", what);
    if (!guessed) printf("type your guess in the cell above, run that cell, and run this one again.\n");
    else if (isnan(result)) printf("there is no result yet. Run the cells above first.\n");
    return guessed && !isnan(result);
}

/* Compares a prediction with the result of a measurement or calculation. `tolerance` is relative: 0.2 accepts 20 %
 * above or below the result, 0 only the result itself. With a guess of 0 or NaN nothing was predicted yet, and the
 * result is not shown; with a result of NaN nothing was measured. */
static inline void course_compare(const char *what, double guess, double result, double tolerance, const char *unit)
{
    if (!course_comparable(what, guess != 0 && !isnan(guess), result)) return;
    printf("your guess ");
    course_number(guess, unit);
    printf(", result ");
    course_number(result, unit);
    double ratio = guess / result;
    if (guess == result) printf(": right.\n");
    else if (fabs(guess - result) <= tolerance * fabs(result)) printf(": within %.0f %%.\n", 100 * tolerance);
    else if (result == 0 || ratio < 0) printf(": too %s.\n", guess < result ? "low" : "high");
    else course_factor(ratio);
}

/* Compares a predicted number that names a thing, such as an exit code or one of several ways, with the one that came:
 * no factor lies between names. `none` is what the guess was before it was typed: 0 or NAN; with NAN, 0 is a guess.
 * With a result of NaN nothing was measured. */
static inline void course_choice(const char *what, double guess, double result, double none)
{
    if (!course_comparable(what, guess != none && !isnan(guess), result)) return;
    printf("your guess %g, result %g: %s.\n", guess, result, guess == result ? "right" : "another one");
}

static inline int course_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median, mean, and standard deviation of the sample (with n - 1) of x[n]. NaN if there are too few values. */
static inline double course_median(const double *x, int n)
{
    double *sorted = n > 0 ? malloc((size_t)n * sizeof *x) : NULL;
    if (!sorted) return NAN;
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *x, course_order);
    double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    free(sorted);
    return median;
}

static inline double course_mean(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return n > 0 ? sum / n : NAN;
}

static inline double course_deviation(const double *x, int n)
{
    double mean = course_mean(x, n), squares = 0;
    for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(squares / (n - 1)) : NAN;
}

/* Reads the values with the name `key` ("val_accuracy", "images_per_second") of the first `max` epochs from a history
 * that a program's --history wrote. Returns their number, or -1 after libkolo's sentence about the file. */
static inline int course_epochs_read(const char *history_json, const char *key, double *out, int max)
{
    kolo_history *history = kolo_history_load(history_json);
    if (!history) return -1;
    int count = history->epochs < max ? history->epochs : max;
    for (int i = 0; i < count; i++) out[i] = kolo_history_get(history, i, key);
    kolo_history_free(&history);
    return count;
}

/* FNV-1a over the bytes of all weights: equal for equal bits. */
static inline uint64_t course_checksum(kolo_model *model)
{
    uint64_t sum = 14695981039346656037u;
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        const unsigned char *bytes = (const unsigned char *)weight.values;
        for (size_t i = 0; i < (size_t)weight.count * sizeof(float); i++) sum = (sum ^ bytes[i]) * 1099511628211u;
    }
    return sum;
}

/* Runs a command of the shell and returns its exit code, 128 + N if signal N ended it, -1 if it could not be started.
 * A failure is also said in one sentence. */
__attribute__((format(printf, 1, 2))) static inline int course_run(const char *format, ...)
{
    char command[8192];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(command, sizeof command, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= sizeof command) {
        printf("The command is longer than %zu bytes.\n", sizeof command - 1);
        return -1;
    }
    fflush(stdout);
    int status = system(command);
    int code = status == -1 ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code) printf("This command ended with exit code %d: %s\n", code, command);
    return code;
}

#endif
