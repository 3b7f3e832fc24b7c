/* An optimizer of a learner's own, which only the host can compute: its steps are SGD's. */
#ifndef KOLO_TEST_OWN_OPTIMIZER_H
#define KOLO_TEST_OWN_OPTIMIZER_H

#include "optimizers/optimizer.h"

static void descend(const kolo_update *update)
{
    for (int64_t i = 0; i < update->count; i++)
        update->weights[i] -= (float)(update->learning_rate * update->scale) * update->gradient[i];
}

static const kolo_optimizer_kind own_kind = {.name = "own", .learning_rate = 0.05, .update = descend};

#endif
