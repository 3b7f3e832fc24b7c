/* Reordering, slicing, repeating and concatenating data sets: kolo_shuffle, kolo_data_split, kolo_data_slice,
 * kolo_take, kolo_skip, kolo_repeat, kolo_data_concatenate, kolo_data_autoencoder. No samples are copied. Read view.h
 * first. */
#include "core/random.h"
#include "data/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------ shuffle */

typedef struct reordered {
    kolo_view view;
    int32_t *order; /* [samples], number of the source's sample at each position */
} reordered;

static kolo_status gather_reordered(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                    const kolo_gathered *to)
{
    const reordered *r = (const reordered *)data->view;
    int32_t others[KOLO_VIEW_ROWS];
    for (int i = 0; i < count; i++) others[i] = r->order[rows[i]];
    return kolo_data_gather(kolo_view_source(data), call, others, 0, count, to);
}

static void free_reordered(kolo_view *view)
{
    free(((reordered *)view)->order);
}

static const kolo_view_kind shuffled = {
    .name = "shuffled", .keeps_features = true, .gather = gather_reordered, .free = free_reordered};

static kolo_status shuffle(const kolo_data *data, int64_t buffer, uint64_t seed, kolo_data **out)
{
    size_t bytes = (size_t)data->samples * sizeof(int32_t);
    if (buffer < 0) return kolo_fail(KOLO_INVALID, ".buffer_size: wanted at least 1, got %" PRId64, buffer);
    KOLO_TRY(kolo_view_open(&shuffled, sizeof(reordered), data, out));
    reordered *r = kolo_view_of(*out);
    r->order = malloc(bytes);
    if (!r->order) return kolo_fail_memory(bytes, "the order of the samples");
    kolo_random_order(seed ? seed : 1, 0, data->samples, buffer, r->order);
    return KOLO_OK;
}

kolo_data *kolo_shuffle_at(const kolo_shuffle_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    if (!args->data) return NULL;
    kolo_scope scope = kolo_enter("kolo_shuffle", here);
    return kolo_view_leave(scope, shuffle(args->data, args->buffer_size, args->seed, &data), &data);
}

/* ------------------------------------------------------------------------------------------ parts */

static kolo_data *leave_with_part(const char *call, const kolo_data *data, int64_t first, int64_t samples,
                                  kolo_here here)
{
    kolo_data *part = NULL;
    kolo_scope scope = kolo_enter(call, here);
    return kolo_leave(scope, kolo_data_part(&part, data, first, samples)) == KOLO_OK ? part : NULL;
}

kolo_data *kolo_data_slice_at(kolo_data *data, int64_t first, int64_t samples, kolo_here here)
{
    return data ? leave_with_part("kolo_data_slice", data, first, samples, here) : NULL;
}

kolo_data *kolo_data_autoencoder_at(kolo_data *data, kolo_here here)
{
    kolo_data *same = data ? leave_with_part("kolo_data_autoencoder", data, 0, data->samples, here) : NULL;
    if (!same) return NULL;
    same->autoencoder = true;
    same->targets = NULL;
    same->has_targets = false;
    same->target_shape = same->shape;
    return same;
}

kolo_data *kolo_take_at(kolo_data *data, int64_t samples, kolo_here here)
{
    if (!data) return NULL;
    return leave_with_part("kolo_take", data, 0, samples < data->samples ? samples : data->samples, here);
}

kolo_data *kolo_skip_at(kolo_data *data, int64_t samples, kolo_here here)
{
    return data ? leave_with_part("kolo_skip", data, samples, data->samples - samples, here) : NULL;
}

static kolo_status cut(const kolo_data *whole, int64_t first, const kolo_data_split_args *args)
{
    KOLO_TRY(kolo_data_part(args->first, whole, 0, first));
    return kolo_data_part(args->second, whole, first, whole->samples - first);
}

static kolo_status split(const kolo_data_split_args *args)
{
    if (args->first) *args->first = NULL;
    if (args->second) *args->second = NULL;
    if (!args->first || !args->second)
        return kolo_fail(KOLO_INVALID, "wanted the addresses of two data sets, got NULL");
    if (!args->data) return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "wanted data, got NULL");
    int64_t samples = args->data->samples, first = 0;
    if (args->share > 0 && args->share < 1) first = (int64_t)floor((double)samples * args->share + 0.5);
    if (first < 1 || first >= samples)
        return kolo_fail(KOLO_INVALID,
                         "wanted a share between 0 and 1 with samples on both sides, got %g of %" PRId64 " samples",
                         args->share, samples);
    if (args->no_shuffle) return cut(args->data, first, args);
    kolo_data *whole = NULL;
    kolo_status status = shuffle(args->data, 0, args->seed, &whole);
    if (status == KOLO_OK) status = cut(whole, first, args);
    kolo_data_free(&whole);
    return status;
}

kolo_status kolo_data_split_at(const kolo_data_split_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_data_split", here);
    kolo_status status = split(args);
    if (status != KOLO_OK && args->first) kolo_data_free(args->first);
    if (status != KOLO_OK && args->second) kolo_data_free(args->second);
    return kolo_leave(scope, status);
}

/* ------------------------------------------------------------------------------------------ repeat */

static kolo_status gather_again(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                const kolo_gathered *to)
{
    const kolo_data *source = kolo_view_source(data);
    int32_t others[KOLO_VIEW_ROWS];
    for (int i = 0; i < count; i++) others[i] = (int32_t)(rows[i] % source->samples);
    return kolo_data_gather(source, call, others, 0, count, to);
}

static const kolo_view_kind repeated = {.name = "repeated", .keeps_features = true, .gather = gather_again};

kolo_data *kolo_repeat_at(kolo_data *data, int count, kolo_here here)
{
    kolo_data *out = NULL;
    if (!data) return NULL;
    kolo_scope scope = kolo_enter("kolo_repeat", here);
    kolo_status status;
    if (count < 1 || count > KOLO_SAMPLES_MAX / data->samples)
        status =
            kolo_fail(KOLO_INVALID, "wanted 1 to %" PRId64 " times, so that a data set has at most %d samples, got %d",
                      KOLO_SAMPLES_MAX / data->samples, KOLO_SAMPLES_MAX, count);
    else status = kolo_view_open(&repeated, sizeof(kolo_view), data, &out);
    if (out) out->samples = data->samples * count;
    return kolo_view_leave(scope, status, &out);
}

/* ------------------------------------------------------------------------------------------ concatenate */

/* Gathers run by run: a run is a sequence of rows from the same source. */
static kolo_status gather_either(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                 const kolo_gathered *to)
{
    const kolo_view *view = data->view;
    int64_t border = view->from[0].samples;
    kolo_gather_call part = *call;
    for (int at = 0, run; at < count; at += run) {
        int32_t others[KOLO_VIEW_ROWS];
        bool second = rows[at] >= border;
        for (run = 0; at + run < count && (rows[at + run] >= border) == second; run++)
            others[run] = (int32_t)(rows[at + run] - (second ? border : 0));
        kolo_gathered place = kolo_gathered_from(data, to, at);
        part.first_sample = call->first_sample + at;
        KOLO_TRY(kolo_data_gather(&view->from[second], &part, others, 0, run, &place));
    }
    return KOLO_OK;
}

static const kolo_view_kind concatenated = {.keeps_features = true, .gather = gather_either};

static bool same_names(const kolo_data *a, const kolo_data *b)
{
    if (!a->class_names || !b->class_names) return true;
    for (int i = 0; i < a->classes && i < b->classes; i++)
        if (strcmp(a->class_names[i], b->class_names[i]) != 0) return false;
    return true;
}

static kolo_status check_alike(const kolo_data *a, const kolo_data *b)
{
    bool a_targets = a->has_targets || a->autoencoder, b_targets = b->has_targets || b->autoencoder;
    if (!kolo_shape_equal(a->shape, b->shape))
        return kolo_fail(KOLO_INVALID, "wanted samples of one shape, got %s and %s", kolo_shape_text(a->shape),
                         kolo_shape_text(b->shape));
    if (a->has_tokens != b->has_tokens) return kolo_fail(KOLO_INVALID, "wanted words in both or none, got one of them");
    if (a->has_labels != b->has_labels || (a->has_labels && a->label_count != b->label_count))
        return kolo_fail(KOLO_INVALID, "wanted as many labels a sample in both, got %d and %d",
                         a->has_labels ? a->label_count : 0, b->has_labels ? b->label_count : 0);
    if (a_targets != b_targets || (a_targets && !kolo_shape_equal(a->target_shape, b->target_shape)))
        return kolo_fail(KOLO_INVALID, "wanted targets of one shape, got %s and %s",
                         a_targets ? kolo_shape_text(a->target_shape) : "none",
                         b_targets ? kolo_shape_text(b->target_shape) : "none");
    if (!same_names(a, b)) return kolo_fail(KOLO_INVALID, "wanted the same names of classes in both, got others");
    return a->samples + b->samples <= KOLO_SAMPLES_MAX
               ? KOLO_OK
               : kolo_fail(KOLO_INVALID, "wanted at most %d samples, got %" PRId64, KOLO_SAMPLES_MAX,
                           a->samples + b->samples);
}

static kolo_status concatenate(const kolo_data *a, const kolo_data *b, kolo_data **out)
{
    KOLO_TRY(check_alike(a, b));
    KOLO_TRY(kolo_view_open(&concatenated, sizeof(kolo_view), a, out));
    kolo_view *view = kolo_view_of(*out);
    kolo_data_retain(b);
    view->from[view->sources++] = *b;
    (*out)->samples = a->samples + b->samples;
    (*out)->chance = a->chance || b->chance;
    if (b->views >= (*out)->views) (*out)->views = b->views + 1;
    if (b->classes <= a->classes) return KOLO_OK;
    (*out)->classes = b->classes;
    (*out)->class_names = b->class_names;
    return KOLO_OK;
}

kolo_data *kolo_data_concatenate_at(kolo_data *first, kolo_data *second, kolo_here here)
{
    kolo_data *data = NULL;
    if (!first || !second) return NULL;
    kolo_scope scope = kolo_enter("kolo_data_concatenate", here);
    return kolo_view_leave(scope, concatenate(first, second, &data), &data);
}
