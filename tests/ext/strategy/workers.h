/* What the tests of strategies of workers have in common: a small model, its data in batches, and three workers. */
#ifndef KOLO_TESTS_WORKERS_H
#define KOLO_TESTS_WORKERS_H

#include "ext/core/small.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "strategy/strategy.h"

#define WEIGHTS 1024
#define SAMPLES 90 /* 12 batches of 8: the last has 2 samples */
#define BATCH   8
#define BATCHES 12
#define WORKERS 3
#define EPOCHS  3

static const char *backend; /* NULL: the default */

/* Without dropout, whose masks depend on the number of the step, which differs in the simulation. */
static inline kolo_model *plain_model(kolo_optimizer optimizer, kolo_strategy strategy)
{
    kolo_model *model =
        kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                        kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                        kolo_flatten(), kolo_dense(12, .activation = KOLO_RELU), kolo_dense(SMALL_CLASSES));
    assert_int_equal(kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .metrics = {KOLO_ACCURACY}, .strategy = strategy, .deterministic = true,
                                  .backend = backend),
                     KOLO_OK);
    assert_true(kolo_count_params(model) <= WEIGHTS);
    return model;
}

static inline float *weights_of(kolo_model *model)
{
    return (float *)kolo_weight_get(model, 0).values;
}

static inline size_t bytes_of(const kolo_model *model)
{
    return (size_t)kolo_count_params(model) * sizeof(float);
}

#endif
