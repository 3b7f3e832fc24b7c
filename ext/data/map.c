/* Data sets that are another seen differently: parts of it, and samples that a function changes on their way. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "data/data.h"

kolo_data *kolo_data_take_at(kolo_data *data, int64_t samples, kolo_here here)
{
    return data ? kolo_data_slice_at(data, 0, samples, here) : NULL;
}

kolo_data *kolo_data_skip_at(kolo_data *data, int64_t samples, kolo_here here)
{
    return data ? kolo_data_slice_at(data, samples, data->samples - samples, here) : NULL;
}

static kolo_status split(kolo_data *data, double share, kolo_data *parts[2], kolo_here here)
{
    int64_t first = (int64_t)floor((double)data->samples * share + 0.5);
    if (!(share > 0 && share < 1) || first < 1 || first == data->samples)
        return kolo_fail(KOLO_INVALID, "wanted a share between 0 and 1 with samples on both sides, got %g of %" PRId64,
                         share, data->samples);
    parts[0] = kolo_data_slice_at(data, 0, first, here);
    parts[1] = kolo_data_slice_at(data, first, data->samples - first, here);
    if (parts[0] && parts[1]) return KOLO_OK;
    kolo_data_free(&parts[0]);
    kolo_data_free(&parts[1]);
    return KOLO_MEMORY;
}

kolo_status kolo_data_split_at(kolo_data *data, double share, kolo_data *parts[2], kolo_here here)
{
    parts[0] = parts[1] = NULL;
    if (!data) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_data_split", here);
    return kolo_leave(scope, split(data, share, parts, here));
}

static kolo_status map(kolo_data *mapped, kolo_map_function function, void *user)
{
    if (!function) return kolo_fail(KOLO_INVALID, "wanted a function, got NULL");
    if (mapped->map_count == KOLO_MAPS_MAX)
        return kolo_fail(KOLO_INVALID, "wanted at most %d functions one behind the other", KOLO_MAPS_MAX);
    mapped->maps[mapped->map_count++] = (kolo_map){function, user};
    return KOLO_OK;
}

kolo_data *kolo_data_map_at(kolo_data *data, kolo_map_function function, void *user, kolo_here here)
{
    if (!data) return NULL;
    kolo_scope scope = kolo_enter("kolo_data_map", here);
    kolo_data *mapped = kolo_data_slice_at(data, 0, data->samples, here);
    kolo_status status = mapped ? map(mapped, function, user) : KOLO_MEMORY;
    if (kolo_leave(scope, status) != KOLO_OK) kolo_data_free(&mapped);
    return mapped;
}

kolo_status kolo_data_run_maps(const kolo_data *data, int64_t sample, float *features)
{
    int64_t count = kolo_shape_count(data->shape);
    for (int m = 0; m < data->map_count; m++) {
        kolo_status status = data->maps[m].function(features, count, data->first + sample, data->maps[m].user);
        if (status != KOLO_OK)
            return kolo_fail(status, "the function of kolo_data_map() failed for sample %" PRId64 ": %s",
                             data->first + sample, kolo_status_name(status));
    }
    return KOLO_OK;
}
