/* Checks a strategy's step() when it runs for the first time: what it leaves out would be a training that goes wrong
 * without a word. See strategy/strategy.h for the parts of a step. */
#include "core/crc32c.h"
#include "replica/trainer.h"

static uint32_t checksum_of(const kolo_replica *replica)
{
    return kolo_crc32c(replica->weights, (size_t)replica->trainer->model->weight_count * sizeof(float));
}

/* Weights that replicas share are changed by others, too. */
void kolo_replica_lend(kolo_replica *replica)
{
    if (replica->trainer->weight_placement != KOLO_WEIGHTS_COPIED) return;
    replica->lent = true;
    replica->lent_checksum = checksum_of(replica);
}

static kolo_status refuse(const kolo_replica *replica, const char *wanted)
{
    return kolo_fail(KOLO_INVALID, "strategy %s: step(): wanted a call of %s, got none in its first step",
                     kolo_model_strategy(replica->trainer->model)->name, wanted);
}

static kolo_status check_calls(const kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    const kolo_strategy_kind *kind = kolo_model_strategy(trainer->model);
    bool sums = replica->called & KOLO_CALLED_SUM, shares = trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    if (!(replica->called & KOLO_CALLED_COMPUTE)) return refuse(replica, "kolo_replica_compute()");
    if (kind->sums_every_step && !sums)
        return refuse(replica, "kolo_replica_allreduce() or _reduce(), as .sums_every_step says");
    if (kind->updates_every_step && !(replica->called & KOLO_CALLED_UPDATE))
        return refuse(replica, "kolo_replica_update(), as .updates_every_step says");
    if (shares && trainer->count > 1 && !sums)
        return refuse(replica, "kolo_replica_allreduce() or _reduce(), since replicas share the weights "
                               "(KOLO_WEIGHTS_SHARED)");
    if (!replica->lent || checksum_of(replica) == replica->lent_checksum) return KOLO_OK;
    return refuse(replica, "kolo_replica_pack() behind its change of the weights");
}

kolo_status kolo_replica_first_step(kolo_replica *replica, const kolo_batch *batch)
{
    replica->called = 0;
    replica->lent = false;
    KOLO_TRY(kolo_model_strategy(replica->trainer->model)->step(replica, batch));
    KOLO_TRY(check_calls(replica));
    replica->tried = true;
    return KOLO_OK;
}

/* A strategy may skip updates, so this is no failure. */
void kolo_warn_untrained(kolo_trainer *trainer)
{
    bool stepped = false, changed = trainer->warned_untrained;
    for (int i = 0; i < trainer->count; i++) {
        stepped = stepped || trainer->replicas[i].tried;
        changed = changed || (trainer->replicas[i].called & KOLO_CALLED_CHANGE);
    }
    if (!stepped || changed) return;
    trainer->warned_untrained = true;
    kolo_warn("strategy %s: step() called neither kolo_replica_update() nor kolo_replica_pack() so far, so nothing has "
              "been learnt",
              kolo_model_strategy(trainer->model)->name);
}
