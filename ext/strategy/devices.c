/* For strategies of several devices: counts the devices that their options choose. */
#include "runtime/runtime.h"
#include "strategy/strategy.h"

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

kolo_status kolo_strategy_devices(const kolo_strategy *strategy, int *count)
{
    int visible = kolo_visible_devices(), named;
    KOLO_TRY(check_options(strategy));
    KOLO_TRY(count_names(strategy, &named));
    if (named && strategy->devices && strategy->devices != named)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted .devices or .device_names, got %d and %d names",
                         strategy->kind->name, strategy->devices, named);
    int wanted = named ? named : strategy->devices, most = visible ? visible : 1; /* 0 devices: the host computes */
    if (wanted < 0 || wanted > most)
        return kolo_fail(KOLO_INVALID, "strategy %s: wanted 1 to %d devices (%s sets how many there are), got %d",
                         strategy->kind->name, most, kolo_device_variable(), wanted);
    *count = wanted ? wanted : most;
    return KOLO_OK;
}
