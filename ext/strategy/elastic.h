/* The numbers of elastic averaging (Zhang, Choromanska, LeCun 2015) with their defaults, those of dist-keras. */
#ifndef KOLO_STRATEGY_ELASTIC_H
#define KOLO_STRATEGY_ELASTIC_H

#include "strategy/strategy.h"

/* The value of an option: KOLO_NONE is a zero that was written, zero is the default. */
static inline double kolo_option_or(double value, double otherwise)
{
    return value == KOLO_NONE ? 0 : value == 0 ? otherwise : value;
}

static inline double kolo_elastic_rho(const kolo_strategy *strategy)
{
    return kolo_option_or(strategy->rho, 5);
}

/* α = η · ρ */
static inline double kolo_elastic_alpha(const kolo_strategy *strategy)
{
    return kolo_option_or(strategy->learning_rate, 0.1) * kolo_elastic_rho(strategy);
}

/* μ of EAMSGD */
static inline double kolo_momentum(const kolo_strategy *strategy)
{
    return kolo_option_or(strategy->momentum, 0.9);
}

/* Worker and centre move towards each other: d = α(x − c), x ← x − d, c ← c + d. */
static inline void kolo_elastic_exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    float alpha = (float)kolo_elastic_alpha(strategy);
    for (int64_t i = 0; i < mine->count; i++) {
        float difference = alpha * (mine->weights[i] - mine->center[i]);
        mine->weights[i] -= difference;
        mine->center[i] += difference;
    }
}

#endif
