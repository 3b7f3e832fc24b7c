/* What a strategy's step may ask about the options that it was given: see strategy/strategy.h. */
#include "replica/trainer.h"

const kolo_strategy *kolo_replica_strategy(const kolo_replica *replica)
{
    return &replica->trainer->model->settings.strategy;
}
