/* Data sets that are another seen differently: parts of it, and samples that a function changes on their way. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/runtime.h"
#include "data/view.h"

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

/* ------------------------------------------------------------------------------------------ a function */

typedef struct mapping {
    kolo_view view;
    kolo_map_function function;
    void *user;
} mapping;

static kolo_status check_going_on(const kolo_gather_call *call)
{
    if (call->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    return call->closing && __atomic_load_n(call->closing, __ATOMIC_RELAXED) ? KOLO_INTERRUPTED : KOLO_OK;
}

static kolo_status gather_mapped(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                 const kolo_gathered *to)
{
    const mapping *m = (const mapping *)data->view;
    int64_t elements = kolo_shape_count(data->shape);
    KOLO_TRY(kolo_data_gather(kolo_view_source(data), call, rows, 0, count, to));
    for (int i = 0; to->features && i < count; i++) {
        KOLO_TRY(check_going_on(call));
        kolo_status status = m->function(to->features + i * elements, elements, rows[i], m->user);
        if (status != KOLO_OK)
            return kolo_fail(status, "the function of kolo_data_map() failed for sample %d: %s", (int)rows[i],
                             kolo_status_name(status));
    }
    return KOLO_OK;
}

static const kolo_view_kind mapped = {.name = "mapped", .gather = gather_mapped};

kolo_data *kolo_data_map_at(kolo_data *data, kolo_map_function function, void *user, kolo_here here)
{
    kolo_data *made = NULL;
    if (!data) return NULL;
    kolo_scope scope = kolo_enter("kolo_data_map", here);
    kolo_status status = function ? kolo_view_open(&mapped, sizeof(mapping), data, &made)
                                  : kolo_fail(KOLO_INVALID, "wanted a function, got NULL");
    if (made) {
        mapping *m = kolo_view_of(made);
        m->function = function, m->user = user;
    }
    return kolo_view_leave(scope, status, made);
}
