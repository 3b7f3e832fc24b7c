/* Named numbers that belong to a training besides weights and slots, such as the epochs that a callback has waited. A
 * checkpoint holds them, so a resumed training has them again. */
#ifndef KOLO_MODEL_NUMBERS_H
#define KOLO_MODEL_NUMBERS_H

#include <kolo.h>

#define KOLO_NUMBERS_MAX 64

typedef struct kolo_numbers {
    int count;
    char names[KOLO_NUMBERS_MAX][64];
    double values[KOLO_NUMBERS_MAX];
} kolo_numbers;

/* The number of that name, or `fallback` if there is none. */
double kolo_numbers_get(const kolo_numbers *numbers, const char *name, double fallback);
/* Sets the number of that name. Returns false if there is no room for another name. */
bool kolo_numbers_set(kolo_numbers *numbers, const char *name, double value);

#endif
