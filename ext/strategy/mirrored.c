/* Mirrored: synchronous data parallelism in one process; and central storage, the same with the weights in one place.
 *
 * A step deals the batch out, sums the gradients of all devices, updates, and gives every device the new weights. What
 * differs is where the sum is made and who updates:
 *
 *   nothing given: devices share a memory. Their microbatches' gradients are added up in one tree as they come, each
 * device updates a shard of the weights, and all read them where they are. Where there are fewer cores than devices,
 * the cores take microbatches of all devices as they become free, so that no device waits for its turn.
 *   .synchronized_optimizer: an all-reduce; then every device makes the same update of weights of its own, so that
 *     copies stay equal without ever being compared.
 *   .parameter_device: all gradients go there, one update is made there, all devices read the weights from there.
 */
#include "runtime/runtime.h"
#include "training/trainer.h"

static const char *parameter_device(const kolo_strategy *strategy)
{
    bool central = strategy->kind == &kolo_central_storage_kind;
    return central && !strategy->parameter_device ? "host" : strategy->parameter_device;
}

/* ---------------------------------------------------------------- devices */

static kolo_status count_names(const kolo_strategy *strategy, int *count)
{
    int numbers[KOLO_DEVICE_NAMES_MAX];
    for (*count = 0; *count < KOLO_DEVICE_NAMES_MAX && strategy->device_names[*count]; ++*count) {
        const char *name = strategy->device_names[*count];
        numbers[*count] = kolo_device_number(name);
        if (numbers[*count] < 0)
            return kolo_fail(KOLO_NOT_FOUND, "strategy %s: .device_names: wanted \"%s:0\" to \"%s:%d\", got \"%.40s\"",
                             strategy->kind->name, kolo_device_word(), kolo_device_word(), kolo_device_count() - 1,
                             name);
        for (int i = 0; i < *count; i++)
            if (numbers[i] == numbers[*count])
                return kolo_fail(KOLO_INVALID, "strategy %s: .device_names: wanted each device once, got \"%s\" twice",
                                 strategy->kind->name, name);
    }
    return KOLO_OK;
}

static kolo_status check_options(const kolo_strategy *strategy)
{
    if (strategy->slicing < 0 || strategy->slicing > KOLO_SLICE_ON_DEVICE)
        return kolo_fail(KOLO_INVALID,
                         "strategy %s: .slicing: wanted KOLO_SLICE_ON_HOST or KOLO_SLICE_ON_DEVICE, got %d",
                         strategy->kind->name, (int)strategy->slicing);
    if (strategy->initial_sync == 0 || strategy->initial_sync == 1 || strategy->initial_sync == KOLO_NONE)
        return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "strategy %s: .initial_sync: wanted true or false, got %d", strategy->kind->name,
                     strategy->initial_sync);
}

static kolo_status replicas(const kolo_strategy *strategy, int *count)
{
    int visible = kolo_visible_devices(), named;
    KOLO_TRY(check_options(strategy));
    KOLO_TRY(count_names(strategy, &named));
    if (named && strategy->devices && strategy->devices != named)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted .devices or .device_names, got %d and %d names",
                         strategy->kind->name, strategy->devices, named);
    int wanted = named ? named : strategy->devices, most = visible ? visible : 1; /* none: the host computes */
    if (wanted < 0 || wanted > most)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted 1 to %d devices (%s sets how many there are), got %d",
                         strategy->kind->name, most, kolo_device_variable(), wanted);
    *count = wanted ? wanted : most;
    return KOLO_OK;
}

kolo_status kolo_strategy_updater(const kolo_strategy *strategy, kolo_deployment *place)
{
    const char *name = strategy->kind ? parameter_device(strategy) : NULL;
    int device = name ? kolo_device_number(name) : KOLO_HOST, visible = kolo_device_count();
    *place = (kolo_deployment){.replicas = place->replicas, .updater = -1, .threads = kolo_threads()};
    if (device < 0) return KOLO_OK;
    int named = 0;
    for (; named < KOLO_DEVICE_NAMES_MAX && strategy->device_names[named]; named++)
        if (kolo_device_number(strategy->device_names[named]) == device) place->updater = named;
    if (named == 0 && device < place->replicas) place->updater = device;
    place->threads = kolo_threads() / visible > 1 ? kolo_threads() / visible : 1;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- steps */

static kolo_weight_placement weight_placement(const kolo_strategy *strategy)
{
    if (parameter_device(strategy)) return KOLO_WEIGHTS_CENTRAL;
    bool copies = strategy->synchronized_optimizer || strategy->initial_sync == KOLO_NONE;
    return copies ? KOLO_WEIGHTS_COPIED : KOLO_WEIGHTS_SHARED;
}

static kolo_status step(kolo_replica *replica, const kolo_batch *batch)
{
    KOLO_TRY(kolo_replica_compute(replica, batch));
    bool all = replica->trainer->model->settings.strategy.synchronized_optimizer;
    KOLO_TRY(all ? kolo_replica_allreduce(replica) : kolo_replica_reduce(replica));
    return kolo_replica_update(replica);
}

const kolo_strategy_kind kolo_mirrored_kind = {
    .name = "mirrored", .replicas = replicas, .step = step, .weight_placement = weight_placement};
const kolo_strategy_kind kolo_central_storage_kind = {
    .name = "central_storage", .replicas = replicas, .step = step, .weight_placement = weight_placement};
