/* kolo_map: samples whose features a function of the caller computes. Read view.h first. */
#include "runtime/runtime.h"
#include "data/view.h"

#include <string.h>

typedef struct mapping {
    kolo_view view;
    kolo_map_function function;
    void *context;
    int number; /* kolo_data.views of this view: two maps of one data set draw different numbers */
} mapping;

/* Called before each sample, since the function may be slow: fails if a stop was requested or the feed is closing. */
static kolo_status check_going_on(const kolo_gather_call *call)
{
    if (call->stoppable && kolo_stop_requested()) return KOLO_INTERRUPTED;
    return call->closing && __atomic_load_n(call->closing, __ATOMIC_RELAXED) ? KOLO_INTERRUPTED : KOLO_OK;
}

/* kolo_map_sample.random of sample `number` of the batch. */
static uint64_t draw(const mapping *m, const kolo_gather_call *call, int64_t number)
{
    if (!call->training) return 0;
    uint64_t key = kolo_random_key(call->seed, KOLO_RANDOM_MAP, (uint64_t)m->number);
    kolo_random_block block = kolo_philox(kolo_random_key(key, KOLO_RANDOM_MAP, call->step), 0, (uint64_t)number);
    return (uint64_t)block.word[0] << 32 | block.word[1];
}

static kolo_status map_sample(const kolo_data *data, const kolo_gather_call *call, int32_t row, float *scratch,
                              float *to)
{
    const mapping *m = (const mapping *)data->view;
    KOLO_TRY(check_going_on(call));
    KOLO_TRY(kolo_data_gather(kolo_view_source(data), call, &row, 0, 1, &(kolo_gathered){.features = scratch}));
    memset(to, 0, (size_t)kolo_shape_count(data->shape) * sizeof *to);
    kolo_map_sample sample = {.in = scratch,
                              .out = to,
                              .in_count = kolo_shape_count(kolo_view_source(data)->shape),
                              .out_count = kolo_shape_count(data->shape),
                              .number = row,
                              .training = call->training,
                              .random = draw(m, call, call->first_sample),
                              .context = m->context};
    kolo_status status = m->function(&sample);
    if (status == KOLO_OK) return KOLO_OK;
    return kolo_fail(status, "the function of kolo_map() failed for sample %d: %s", (int)row, kolo_status_name(status));
}

static kolo_status gather_mapped(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                 const kolo_gathered *to)
{
    return kolo_view_gather_each(data, call, rows, count, to, map_sample);
}

static const kolo_view_kind mapped = {.name = "mapped", .gather = gather_mapped};

static kolo_status open_mapping(const kolo_map_args *args, kolo_data **out)
{
    kolo_shape shape = args->data->shape;
    if (!args->function) return kolo_fail(KOLO_INVALID, "wanted a function, got NULL");
    if (args->shape[0]) KOLO_TRY(kolo_check_shape(".shape", args->shape, &shape));
    KOLO_TRY(kolo_view_open(&mapped, sizeof(mapping), args->data, out));
    mapping *m = kolo_view_of(*out);
    m->function = args->function, m->context = args->context;
    m->number = (*out)->views;
    (*out)->shape = shape;
    (*out)->has_tokens = args->tokens;
    (*out)->feature_names = NULL;
    return KOLO_OK;
}

kolo_data *kolo_map_at(const kolo_map_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_map", here);
    return kolo_view_leave(scope, open_mapping(args, &data), &data);
}
