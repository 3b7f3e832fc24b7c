/* What an optimizer is: a rule for one element of the weights, over flat arrays. */
#ifndef KOLO_CORE_OPTIMIZER_H
#define KOLO_CORE_OPTIMIZER_H

#include "core/error.h"

typedef struct kolo_update {
    const kolo_optimizer *optimizer;
    double learning_rate;
    int64_t step;      /* 1 at the first update */
    float *weights;    /* [count] */
    float *gradient;   /* [count], summed over samples */
    double scale;      /* gradient · scale is the mean gradient */
    float *slots[2];   /* [count] each: momenta and the like, zero at the start */
    int64_t count;
} kolo_update;

struct kolo_optimizer_kind {
    const char *name;
    int slots; /* arrays of state it keeps for each weight */
    double (*learning_rate)(const kolo_optimizer *optimizer); /* as configured, default filled in */
    kolo_status (*check)(const kolo_optimizer *optimizer);    /* options in range */
    void (*update)(const kolo_update *update);                /* any part of the arrays, in any thread */
};

#endif
