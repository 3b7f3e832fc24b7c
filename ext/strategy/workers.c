/* For strategies of workers: counts them, and checks the options of their exchanges. */
#include <math.h>

#include "strategy/elastic.h"
#include "strategy/strategy.h"

static kolo_status wanted(const kolo_strategy *strategy, const char *option, const char *range, double got)
{
    return kolo_fail(KOLO_INVALID, "strategy %s: %s: wanted %s, got %g", strategy->kind->name, option, range, got);
}

static kolo_status check_numbers(const kolo_strategy *strategy)
{
    double rho = kolo_elastic_rho(strategy), alpha = kolo_elastic_alpha(strategy), momentum = kolo_momentum(strategy);
    if (strategy->window < 0) return wanted(strategy, ".window", "at least 1 batch", strategy->window);
    if (!(rho >= 0 && isfinite(rho))) return wanted(strategy, ".rho", "at least 0", rho);
    if (!(alpha >= 0 && alpha < 1)) return wanted(strategy, ".learning_rate · .rho", "at least 0 and below 1", alpha);
    if (!(momentum >= 0 && momentum < 1)) return wanted(strategy, ".momentum", "at least 0 and below 1", momentum);
    if (strategy->kind->ensemble && strategy->kind->window == 0 && strategy->window > 0)
        return wanted(strategy, ".window", "none, since its workers never exchange", strategy->window);
    if (strategy->kind->updates_center && strategy->window > 1)
        return wanted(strategy, ".window", "1, since every gradient goes to the centre", strategy->window);
    return KOLO_OK;
}

static kolo_status check_servers(const kolo_strategy *strategy)
{
    if (strategy->servers < 0) return wanted(strategy, ".servers", "at least 1", strategy->servers);
    if (strategy->servers > 1 && strategy->kind->exchange_all)
        return wanted(strategy, ".servers", "1, since workers do not exchange one at a time", strategy->servers);
    return KOLO_OK;
}

static kolo_status check_order(const kolo_strategy *strategy)
{
    if (strategy->turns && strategy->replay)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted .turns or .replay, got both", strategy->kind->name);
    if (!strategy->turns || strategy->kind->exchange) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "strategy %s: .turns: wanted none, since workers do not exchange one at a time, got \"%.40s\"",
                     strategy->kind->name, strategy->turns);
}

kolo_status kolo_strategy_workers(const kolo_strategy *strategy, int *count)
{
    const char *name = strategy->kind->name;
    if (strategy->workers < 0 || strategy->workers > KOLO_DEVICES_MAX)
        return kolo_fail(KOLO_INVALID, "strategy %s: .workers: wanted 1 to %d, got %d", name, KOLO_DEVICES_MAX,
                         strategy->workers);
    if (strategy->workers && strategy->devices)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted .workers or .devices, got %d and %d", name,
                         strategy->workers, strategy->devices);
    KOLO_TRY(check_numbers(strategy));
    KOLO_TRY(check_servers(strategy));
    KOLO_TRY(check_order(strategy));
    if (strategy->workers == 0) return kolo_strategy_devices(strategy, count);
    *count = strategy->workers;
    return KOLO_OK;
}
