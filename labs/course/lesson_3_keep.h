/* Numbers that a launched program of lesson 3 keeps for the notebook: a small file in run/ for each. */
#ifndef COURSE_LESSON_3_KEEP_H
#define COURSE_LESSON_3_KEEP_H

#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* In the program, on one rank. */
static inline void lesson_3_keep(const char *name, double value)
{
    char path[80];
    snprintf(path, sizeof path, "run/kept-%s", name);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "%.17g\n", value);
    fclose(file);
}

/* In the notebook. NaN: no program has kept such a number yet. */
static inline double lesson_3_kept(const char *name)
{
    char path[80];
    double value = NAN;
    snprintf(path, sizeof path, "run/kept-%s", name);
    FILE *file = fopen(path, "r");
    if (!file) return NAN;
    if (fscanf(file, "%lf", &value) != 1) value = NAN;
    fclose(file);
    return value;
}

/* 1,000 digits that Kolo draws, the same on every rank. */
static inline kolo_data *lesson_3_digits(void)
{
    return kolo_synthetic_digits(.split = KOLO_TRAIN, .samples = 1000);
}

/* The Euclidean distance between this rank's weights and those of rank 0. All ranks call it. NaN without memory. */
static inline double lesson_3_distance(kolo_model *model)
{
    double squares = 0;
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight mine = kolo_weight_get(model, w);
        float *zero = malloc((size_t)mine.count * sizeof *zero);
        if (!zero) return NAN;
        for (int64_t i = 0; i < mine.count; i++) zero[i] = mine.values[i];
        kolo_broadcast(zero, mine.count, 0);
        for (int64_t i = 0; i < mine.count; i++) squares += pow((double)mine.values[i] - (double)zero[i], 2);
        free(zero);
    }
    return sqrt(squares);
}

#endif
