/* kolo_cache computes features once and keeps them; kolo_prefetch has batches gathered ahead of the step. Read view.h
 * first. */
#include "data/feed.h"
#include "data/view.h"

#include <stdlib.h>
#include <string.h>

typedef enum cached { MISSING, BEING_STORED, STORED } cached;

/* The first thread that needs a sample computes it; if two threads compute it at once, one of them stores it. */
typedef struct cache {
    kolo_view view;
    float *features; /* [samples][elements] */
    uint8_t *states; /* [samples] of enum cached; STORED is written after the features */
} cache;

static kolo_status gather_sample(const kolo_data *data, const kolo_gather_call *call, int32_t row, float *to)
{
    cache *c = (cache *)data->storage;
    size_t elements = (size_t)kolo_shape_count(data->shape);
    float *kept = c->features + (size_t)row * elements;
    if (__atomic_load_n(&c->states[row], __ATOMIC_ACQUIRE) == STORED) {
        memcpy(to, kept, elements * sizeof *to);
        return KOLO_OK;
    }
    uint8_t missing = MISSING;
    KOLO_TRY(kolo_data_gather(kolo_view_source(data), call, &row, 0, 1, &(kolo_gathered){.features = to}));
    if (!__atomic_compare_exchange_n(&c->states[row], &missing, BEING_STORED, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return KOLO_OK;
    memcpy(kept, to, elements * sizeof *to);
    __atomic_store_n(&c->states[row], STORED, __ATOMIC_RELEASE);
    return KOLO_OK;
}

/* Samples are gathered as for scoring, without random numbers, since the features that are kept serve every call. */
static kolo_status gather_cached(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                 const kolo_gathered *to)
{
    int64_t elements = kolo_shape_count(data->shape);
    const kolo_gather_call scored = {.stoppable = call->stoppable, .closing = call->closing};
    kolo_gathered rest = *to;
    rest.features = NULL;
    for (int i = 0; to->features && i < count; i++)
        KOLO_TRY(gather_sample(data, &scored, rows[i], to->features + i * elements));
    return kolo_data_gather(kolo_view_source(data), &scored, rows, 0, count, &rest);
}

static void free_cache(kolo_view *view)
{
    free(((cache *)view)->features);
    free(((cache *)view)->states);
}

static const kolo_view_kind kept_in_memory = {
    .name = "cached", .keeps_features = true, .gather = gather_cached, .free = free_cache};

static kolo_status open_cache(const kolo_data *data, kolo_data **out)
{
    size_t bytes = (size_t)data->samples * (size_t)kolo_shape_count(data->shape) * sizeof(float);
    if (data->chance)
        return kolo_fail(KOLO_INVALID, "wanted samples that are always the same, got augmented ones: augment what is "
                                       "cached, kolo_augment(kolo_cache(data))");
    KOLO_TRY(kolo_view_open(&kept_in_memory, sizeof(cache), data, out));
    cache *c = kolo_view_of(*out);
    c->features = malloc(bytes);
    c->states = calloc((size_t)data->samples, 1);
    return c->features && c->states ? KOLO_OK : kolo_fail_memory(bytes, "the cached samples");
}

kolo_data *kolo_cache_at(kolo_data *data, kolo_here here)
{
    kolo_data *out = NULL;
    if (!data) return NULL;
    kolo_scope scope = kolo_enter("kolo_cache", here);
    return kolo_view_leave(scope, open_cache(data, &out), &out);
}

/* ------------------------------------------------------------------------------------------ prefetch */

kolo_data *kolo_prefetch_at(const kolo_prefetch_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_prefetch", here);
    kolo_status status = KOLO_OK;
    if (args->batches < 1) status = kolo_fail(KOLO_INVALID, "wanted at least 1 batch, got %d", args->batches);
    else if (args->threads < 0 || args->threads > KOLO_FEED_THREADS_MAX)
        status = kolo_fail(KOLO_INVALID, ".threads: wanted 1 to %d, got %d", KOLO_FEED_THREADS_MAX, args->threads);
    else status = kolo_data_part(&data, args->data, 0, args->data->samples);
    if (data) data->prefetch = args->batches, data->prefetch_threads = args->threads;
    return kolo_leave(scope, status) == KOLO_OK ? data : NULL;
}
