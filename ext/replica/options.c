/* The options of a strategy, for its step(): see strategy/strategy.h. */
#include "replica/trainer.h"

const kolo_strategy *kolo_replica_strategy(const kolo_replica *replica)
{
    return &replica->trainer->model->settings.strategy;
}
