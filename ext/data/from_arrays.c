/* Data sets from the caller's arrays, which are checked and copied. Read arrays.h first. */
#include "data/sources.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kolo_status kolo_check_shape(const char *option, const int size[4], kolo_shape *shape)
{
    int64_t elements = 1;
    *shape = (kolo_shape){0};
    for (int axis = 0; axis < 4; axis++) {
        bool ended = axis > 0 && size[axis - 1] == 0;
        if (size[axis] < 0 || (axis == 0 && size[axis] == 0) || (ended && size[axis] != 0))
            return kolo_fail(KOLO_INVALID, "wanted %s = {1 to 4 sizes of at least 1}, got {%d, %d, %d, %d}", option,
                             size[0], size[1], size[2], size[3]);
        if (size[axis] == 0) continue;
        if (__builtin_mul_overflow(elements, size[axis], &elements) || elements > INT32_MAX)
            return kolo_fail(KOLO_INVALID, "wanted samples of at most %d elements, got the shape {%d, %d, %d, %d}",
                             INT32_MAX, size[0], size[1], size[2], size[3]);
        shape->dim[shape->rank++] = size[axis];
    }
    return KOLO_OK;
}

static kolo_status check_labels(const int32_t *labels, int64_t count, int classes)
{
    for (int64_t i = 0; labels && i < count; i++) {
        if (labels[i] >= 0 && (classes == 0 || labels[i] < classes) && labels[i] < INT32_MAX) continue;
        if (classes)
            return kolo_fail(KOLO_INVALID, "label %" PRId64 ": wanted 0 to %d, got %d", i, classes - 1, labels[i]);
        return kolo_fail(KOLO_INVALID, "label %" PRId64 ": wanted 0 to %d, got %d", i, INT32_MAX - 1, labels[i]);
    }
    return KOLO_OK;
}

static kolo_status check_tokens(const int32_t *tokens, int64_t count)
{
    for (int64_t i = 0; tokens && i < count; i++)
        if (tokens[i] < 0) return kolo_fail(KOLO_INVALID, "token %" PRId64 ": wanted at least 0, got %d", i, tokens[i]);
    return KOLO_OK;
}

/* Checks targets and weights: one that is not finite would make the loss of the whole batch NaN or infinite. */
static kolo_status check_numbers(const char *what, const float *values, int64_t count, float least)
{
    for (int64_t i = 0; values && i < count; i++)
        if (!(isfinite(values[i]) && values[i] >= least))
            return kolo_fail(KOLO_INVALID, "%s %" PRId64 ": wanted a finite number%s, got %g", what, i,
                             least == 0 ? " of at least 0" : "", (double)values[i]);
    return KOLO_OK;
}

static kolo_status check(const kolo_data_from_arrays_args *args, kolo_arrays *arrays)
{
    if (!args->features && !args->tokens) return kolo_fail(KOLO_INVALID, "wanted an array of features, got NULL");
    if (args->features && args->tokens) return kolo_fail(KOLO_INVALID, "wanted features or .tokens, got both");
    if (args->samples < 1 || args->samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_INVALID, "wanted .samples of 1 to %d, got %" PRId64, KOLO_SAMPLES_MAX, args->samples);
    if (args->classes < 0) return kolo_fail(KOLO_INVALID, "wanted .classes of at least 1, got %d", args->classes);
    if (args->label_count < 0)
        return kolo_fail(KOLO_INVALID, "wanted .label_count of at least 1, got %d", args->label_count);
    if (args->class_names && args->classes == 0)
        return kolo_fail(KOLO_INVALID, "wanted .classes, the number of .class_names, got none");
    KOLO_TRY(kolo_check_shape(".shape", args->shape, &arrays->shape));
    arrays->target_shape = (kolo_shape){1, {1}};
    if (args->target_shape[0]) KOLO_TRY(kolo_check_shape(".target_shape", args->target_shape, &arrays->target_shape));
    arrays->samples = args->samples;
    arrays->label_count = args->label_count ? args->label_count : 1;
    arrays->classes = args->classes;
    KOLO_TRY(check_tokens(args->tokens, args->samples * kolo_shape_count(arrays->shape)));
    KOLO_TRY(check_numbers("target", args->targets, args->samples * kolo_shape_count(arrays->target_shape), -INFINITY));
    KOLO_TRY(check_numbers("weight", args->weights, args->samples, 0));
    return check_labels(args->labels, args->samples * arrays->label_count, args->classes);
}

/* The product cannot overflow: samples and `each` are below 2³¹, and an element has 4 bytes. */
static kolo_status copy_of(void **copy, const void *from, int64_t samples, int64_t each, const char *what)
{
    size_t bytes = (size_t)samples * (size_t)each * 4;
    if (!from) return KOLO_OK;
    if (!(*copy = malloc(bytes ? bytes : 1))) return kolo_fail_memory(bytes, what);
    memcpy(*copy, from, bytes);
    return KOLO_OK;
}

static kolo_status copy_all(const kolo_data_from_arrays_args *args, kolo_arrays *arrays)
{
    int64_t samples = arrays->samples, elements = kolo_shape_count(arrays->shape);
    KOLO_TRY(copy_of((void **)&arrays->floats, args->features, samples, elements, "the features"));
    KOLO_TRY(copy_of((void **)&arrays->tokens, args->tokens, samples, elements, "the tokens"));
    KOLO_TRY(copy_of((void **)&arrays->labels, args->labels, samples, arrays->label_count, "the labels"));
    KOLO_TRY(copy_of((void **)&arrays->targets, args->targets, samples, kolo_shape_count(arrays->target_shape),
                     "the targets"));
    KOLO_TRY(copy_of((void **)&arrays->weights, args->weights, samples, 1, "the weights"));
    if (args->class_names) KOLO_TRY(kolo_names_copy(args->class_names, args->classes, &arrays->class_names));
    if (args->feature_names) KOLO_TRY(kolo_names_copy(args->feature_names, (int)elements, &arrays->feature_names));
    snprintf(arrays->source, sizeof arrays->source, "arrays of the program");
    return KOLO_OK;
}

kolo_data *kolo_data_from_arrays_at(const kolo_data_from_arrays_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_data_from_arrays", here);
    kolo_status status = check(args, &arrays);
    if (status == KOLO_OK) status = copy_all(args, &arrays);
    return kolo_arrays_leave(scope, status, &arrays);
}
