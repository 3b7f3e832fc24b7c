/* Numbers by name that belong to a training beside weights and slots: a loss's scale, how long a callback has waited.
 * A checkpoint holds them all, so whoever keeps such a number here goes on with it after a resume. */
#ifndef KOLO_MODEL_NUMBERS_H
#define KOLO_MODEL_NUMBERS_H

#include <kolo.h>

#define KOLO_NUMBERS_MAX 64

typedef struct kolo_numbers {
    int count;
    char names[KOLO_NUMBERS_MAX][64];
    double values[KOLO_NUMBERS_MAX];
} kolo_numbers;

/* The number of that name; the fallback where there is none. */
double kolo_numbers_get(const kolo_numbers *numbers, const char *name, double fallback);
/* Keeps it; false where there is no room for another. */
bool kolo_numbers_set(kolo_numbers *numbers, const char *name, double value);

#endif
