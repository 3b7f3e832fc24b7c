/* What holds for every kind of strategy: which options it has a use for, and which of its parts need others. */
#include "strategy/strategy.h"

/* ---------------------------------------------------------------- options without a use */

static kolo_status refuse(const kolo_strategy *strategy, const char *option, const char *wanted)
{
    if (!option) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "strategy %s: %s: wanted a strategy %s", strategy->kind->name, option, wanted);
}

static kolo_status check_no_workers(const kolo_strategy *strategy)
{
    const char *option = strategy->workers   ? ".workers"
                         : strategy->window  ? ".window"
                         : strategy->servers ? ".servers"
                         : strategy->turns   ? ".turns"
                         : strategy->replay  ? ".replay"
                         : strategy->record  ? ".record"
                                             : NULL;
    return refuse(strategy, option, "of workers, got another");
}

static kolo_status check_no_devices(const kolo_strategy *strategy)
{
    const char *option = strategy->parameter_device         ? ".parameter_device"
                         : strategy->slicing                ? ".slicing"
                         : strategy->last_takes_remainder   ? ".last_takes_remainder"
                         : strategy->initial_sync           ? ".initial_sync"
                         : strategy->synchronized_optimizer ? ".synchronized_optimizer"
                         : strategy->staging                ? ".staging"
                                                            : NULL;
    return refuse(strategy, option, "that divides each batch among devices, got one of workers");
}

static kolo_status check_numbers(const kolo_strategy *strategy)
{
    const char *option = strategy->rho && !strategy->kind->reads_rho             ? ".rho"
                         : strategy->learning_rate && !strategy->kind->reads_rho ? ".learning_rate"
                                                                                 : NULL;
    KOLO_TRY(refuse(strategy, option, "of elastic averaging, which reads it (.reads_rho of its kind), got another"));
    option = strategy->momentum && !strategy->kind->reads_momentum ? ".momentum" : NULL;
    return refuse(strategy, option, "that reads it (.reads_momentum of its kind), got another");
}

/* ---------------------------------------------------------------- parts of a kind */

static kolo_status check_kind(const kolo_strategy_kind *kind)
{
    const char *missing = !kind->name ? "name" : !kind->replicas ? "replicas" : !kind->step ? "step" : NULL;
    if (missing)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted a kolo_strategy_kind with a .%s, got NULL",
                         kind->name ? kind->name : "of your own", missing);
    const char *of_workers = kind->replicas == kolo_strategy_workers ? ".replicas = kolo_strategy_workers"
                             : kind->step == kolo_worker_step        ? ".step = kolo_worker_step"
                             : kind->window                          ? ".window"
                             : kind->ensemble                        ? ".ensemble"
                             : kind->has_memory                      ? ".has_memory"
                             : kind->writes_start                    ? ".writes_start"
                             : kind->updates_center                  ? ".updates_center"
                                                                     : NULL;
    if (of_workers && !kolo_strategy_has_workers(kind))
        return kolo_fail(KOLO_INVALID,
                         "strategy %s: wanted a kolo_strategy_kind with an .exchange or .exchange_all beside %s, got "
                         "neither",
                         kind->name, of_workers);
    if (kind->exchange && kind->exchange_all)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted .exchange or .exchange_all, got both", kind->name);
    return KOLO_OK;
}

kolo_status kolo_strategy_check(const kolo_strategy *strategy)
{
    const kolo_strategy_kind *kind = kolo_strategy_kind_of(strategy);
    KOLO_TRY(check_kind(kind));
    if (!strategy->kind) return KOLO_OK; /* the default, without options */
    KOLO_TRY(kolo_strategy_has_workers(kind) ? check_no_devices(strategy) : check_no_workers(strategy));
    return check_numbers(strategy);
}
