/* Data sets in memory: made from arrays, sliced, looked at, gathered into batches. Read data.h first. */
#include "data/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void storage_free(kolo_storage *storage)
{
    free(storage->features);
    free(storage->labels);
    free(storage->targets);
    free(storage->weights);
    free(storage);
}

/* Slices may be freed by whoever worked with them, so the count is atomic. */
static void storage_release(kolo_storage *storage)
{
    if (storage && __atomic_sub_fetch(&storage->users, 1, __ATOMIC_ACQ_REL) == 0) storage->free(storage);
}

kolo_status kolo_data_own(kolo_data **out, uint8_t *bytes, float *floats, int32_t *labels, int64_t samples,
                          kolo_shape shape, int classes)
{
    kolo_data *data = calloc(1, sizeof *data);
    kolo_storage *storage = calloc(1, sizeof *storage);
    if (!data || !storage) {
        free(data), free(storage), free(bytes), free(floats), free(labels);
        return kolo_fail_memory(sizeof *data + sizeof *storage, "a data set");
    }
    int32_t largest = -1;
    for (int64_t i = 0; labels && i < samples; i++) largest = labels[i] > largest ? labels[i] : largest;
    *storage = (kolo_storage){
        .users = 1, .features = bytes ? (void *)bytes : (void *)floats, .labels = labels, .free = storage_free};
    *data = (kolo_data){.storage = storage,
                        .bytes = bytes,
                        .floats = floats,
                        .scale = bytes ? 1.0f / 255.0f : 1.0f,
                        .labels = labels,
                        .label_count = 1,
                        .samples = samples,
                        .shape = shape,
                        .classes = classes ? classes : largest + 1};
    *out = data;
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ from arrays */

static kolo_status check_shape(const int size[4], kolo_shape *shape)
{
    int64_t elements = 1;
    *shape = (kolo_shape){0};
    for (int axis = 0; axis < 4; axis++) {
        bool ended = axis > 0 && size[axis - 1] == 0;
        if (size[axis] < 0 || (axis == 0 && size[axis] == 0) || (ended && size[axis] != 0))
            return kolo_fail(KOLO_INVALID, "wanted .shape = {1 to 4 sizes of at least 1}, got {%d, %d, %d, %d}",
                             size[0], size[1], size[2], size[3]);
        if (size[axis] == 0) continue;
        if (__builtin_mul_overflow(elements, size[axis], &elements) || elements > INT32_MAX)
            return kolo_fail(KOLO_INVALID, "wanted samples of at most %d elements, got the shape {%d, %d, %d, %d}",
                             INT32_MAX, size[0], size[1], size[2], size[3]);
        shape->dim[shape->rank++] = size[axis];
    }
    return KOLO_OK;
}

static kolo_status check_labels(const int32_t *labels, int64_t samples, int classes)
{
    for (int64_t i = 0; labels && i < samples; i++) {
        if (labels[i] >= 0 && (classes == 0 || labels[i] < classes) && labels[i] < INT32_MAX) continue;
        if (classes)
            return kolo_fail(KOLO_INVALID, "label %" PRId64 ": wanted 0 to %d, got %d", i, classes - 1, labels[i]);
        return kolo_fail(KOLO_INVALID, "label %" PRId64 ": wanted 0 to %d, got %d", i, INT32_MAX - 1, labels[i]);
    }
    return KOLO_OK;
}

static kolo_status check_arrays(const kolo_data_from_arrays_args *args, kolo_shape *shape)
{
    if (!args->features) return kolo_fail(KOLO_INVALID, "wanted an array of features, got NULL");
    if (args->samples < 1 || args->samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .samples of 1 to %d, got %" PRId64, KOLO_SAMPLES_MAX, args->samples);
    if (args->classes < 0) return kolo_fail(KOLO_INVALID, "wanted .classes of at least 1, got %d", args->classes);
    KOLO_TRY(check_shape(args->shape, shape));
    return check_labels(args->labels, args->samples, args->classes);
}

static kolo_status copy_of(void **copy, const void *from, size_t bytes, const char *what)
{
    if (!(*copy = malloc(bytes))) return kolo_fail_memory(bytes, what);
    memcpy(*copy, from, bytes);
    return KOLO_OK;
}

static kolo_status from_arrays(kolo_data **out, const kolo_data_from_arrays_args *args)
{
    kolo_shape shape;
    KOLO_TRY(check_arrays(args, &shape));
    void *features, *labels = NULL;
    size_t samples = (size_t)args->samples; /* samples and elements are below 2³¹: no product here overflows */
    KOLO_TRY(copy_of(&features, args->features, samples * (size_t)kolo_shape_count(shape) * sizeof(float),
                     "the features"));
    if (args->labels && copy_of(&labels, args->labels, samples * sizeof(int32_t), "the labels") != KOLO_OK) {
        free(features);
        return KOLO_MEMORY;
    }
    KOLO_TRY(kolo_data_own(out, NULL, features, labels, args->samples, shape, args->classes));
    snprintf((*out)->source, sizeof(*out)->source, "arrays of the program");
    return KOLO_OK;
}

kolo_data *kolo_data_from_arrays_at(const kolo_data_from_arrays_args *args, kolo_here here)
{
    kolo_data *data = NULL;
    kolo_scope scope = kolo_enter("kolo_data_from_arrays", here);
    return kolo_leave(scope, from_arrays(&data, args)) == KOLO_OK ? data : NULL;
}

/* ------------------------------------------------------------------------------------------ slices */

static kolo_status slice(kolo_data **out, const kolo_data *data, int64_t first, int64_t samples)
{
    if (first < 0 || samples < 1 || first >= data->samples || samples > data->samples - first)
        return kolo_fail(KOLO_INVALID, "wanted samples within 0 to %" PRId64 ", got %" PRId64 " from %" PRId64 " on",
                         data->samples - 1, samples, first);
    kolo_data *part = malloc(sizeof *part);
    if (!part) return kolo_fail_memory(sizeof *part, "a slice");
    int64_t skipped = first * kolo_shape_count(data->shape);
    *part = *data;
    part->samples = samples;
    if (data->bytes) part->bytes += skipped;
    if (data->floats) part->floats += skipped;
    if (data->labels) part->labels += first * data->label_count;
    if (data->targets) part->targets += first * kolo_shape_count(data->target_shape);
    if (data->weights) part->weights += first;
    __atomic_add_fetch(&part->storage->users, 1, __ATOMIC_RELAXED);
    *out = part;
    return KOLO_OK;
}

kolo_data *kolo_data_slice_at(kolo_data *data, int64_t first, int64_t samples, kolo_here here)
{
    kolo_data *part = NULL;
    if (!data) return NULL;
    kolo_scope scope = kolo_enter("kolo_data_slice", here);
    return kolo_leave(scope, slice(&part, data, first, samples)) == KOLO_OK ? part : NULL;
}

void kolo_data_free(kolo_data **data)
{
    if (!data || !*data) return;
    storage_release((*data)->storage);
    free(*data);
    *data = NULL;
}

/* ------------------------------------------------------------------------------------------ reading */

kolo_data_info kolo_data_get_info(const kolo_data *data)
{
    if (!data) return (kolo_data_info){0};
    kolo_data_info info = {.samples = data->samples,
                           .rank = data->shape.rank,
                           .classes = data->classes,
                           .synthetic = data->synthetic,
                           .source = data->source};
    memcpy(info.shape, data->shape.dim, sizeof(int) * (size_t)data->shape.rank);
    return info;
}

kolo_status kolo_data_sample_at(const kolo_data *data, int64_t index, float *features, int *label, kolo_here here)
{
    if (!data) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_data_sample", here);
    kolo_status status = KOLO_OK;
    if (index < 0 || index >= data->samples)
        status = kolo_fail(KOLO_INVALID, "wanted a sample of 0 to %" PRId64 ", got %" PRId64, data->samples - 1, index);
    else kolo_data_gather(data, NULL, index, 1, &(kolo_gathered){.features = features});
    if (status == KOLO_OK && label) *label = data->labels ? data->labels[index * data->label_count] : -1;
    return kolo_leave(scope, status);
}

/* Blocks of a constant size: the compiler turns those into vector instructions at -O2 already. */
static void scale_bytes(const uint8_t *restrict bytes, float scale, int64_t count, float *restrict features)
{
    enum { block = 32 };
    int64_t done = 0;
    for (; done + block <= count; done += block)
        for (int i = 0; i < block; i++) features[done + i] = (float)bytes[done + i] * scale;
    for (; done < count; done++) features[done] = (float)bytes[done] * scale;
}

static void gather_targets(const kolo_data *data, int64_t sample, int place, const kolo_gathered *to)
{
    size_t labels = (size_t)data->label_count, numbers = (size_t)kolo_shape_count(data->target_shape);
    int32_t *label = to->labels ? to->labels + (size_t)place * labels : NULL;
    float *target = to->targets ? to->targets + (size_t)place * numbers : NULL;
    for (size_t i = 0; label && i < labels; i++)
        label[i] = data->labels ? data->labels[(size_t)sample * labels + i] : -1;
    for (size_t i = 0; target && i < numbers; i++)
        target[i] = data->targets ? data->targets[(size_t)sample * numbers + i] : 0;
    if (to->weights) to->weights[place] = data->weights ? data->weights[sample] : 1;
}

void kolo_data_gather(const kolo_data *data, const int32_t *index, int64_t first, int count, const kolo_gathered *to)
{
    int64_t elements = kolo_shape_count(data->shape);
    for (int i = 0; i < count; i++) {
        int64_t sample = index ? index[i] : first + i;
        float *features = to->features ? to->features + i * elements : NULL;
        if (features && data->bytes) scale_bytes(data->bytes + sample * elements, data->scale, elements, features);
        if (features && data->floats)
            memcpy(features, data->floats + sample * elements, sizeof(float) * (size_t)elements);
        gather_targets(data, sample, i, to);
    }
}
