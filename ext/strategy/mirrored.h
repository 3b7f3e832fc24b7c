/* The step of synchronous training, and where its weights are kept: mirrored.c explains both. */
#ifndef KOLO_STRATEGY_MIRRORED_H
#define KOLO_STRATEGY_MIRRORED_H

#include "strategy/strategy.h"

kolo_status kolo_mirrored_step(kolo_replica *replica, const kolo_batch *batch);
kolo_weight_placement kolo_mirrored_placement(const kolo_strategy *strategy);

#endif
