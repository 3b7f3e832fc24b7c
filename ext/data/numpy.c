/* Data sets from NumPy's arrays, which become features, labels or targets. Read npy.h and arrays.h first. */
#include "data/npy.h"
#include "data/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool whole_numbers(const kolo_npy_array *array)
{
    return array->kind != 'f';
}

/* ------------------------------------------------------------------------------------------ features */

/* The shape of a sample: .shape, or the array's axes after the first. Images of bytes without a channel axis (Keras's
 * mnist.npz) get one. */
static kolo_status sample_shape(const char *name, const kolo_npy_array *array, const kolo_numpy_args *args,
                                kolo_shape *shape)
{
    int64_t elements = array->count / array->dim[0];
    *shape = (kolo_shape){0};
    if (args->shape[0]) {
        KOLO_TRY(kolo_check_shape(".shape", args->shape, shape));
        if (kolo_shape_count(*shape) != elements)
            return kolo_fail(KOLO_INVALID, "%s: wanted a .shape of %" PRId64 " elements, as a sample of %s has, got %s",
                             name, elements, kolo_npy_text(array), kolo_shape_text(*shape));
        return KOLO_OK;
    }
    if (elements > INT32_MAX || array->rank > 5)
        return kolo_fail(KOLO_UNSUPPORTED, "%s: wanted samples of at most 4 dimensions and %d elements, got %s", name,
                         INT32_MAX, kolo_npy_text(array));
    for (int axis = 1; axis < array->rank; axis++) shape->dim[shape->rank++] = (int)array->dim[axis];
    bool grey = array->rank == 3 && array->kind == 'u' && array->size == 1 && !args->tokens;
    if (array->rank == 1 || grey) shape->dim[shape->rank++] = 1;
    return KOLO_OK;
}

static kolo_status to_floats(const kolo_npy_array *array, double scale, float **floats)
{
    if (!(*floats = malloc((size_t)array->count * sizeof **floats)))
        return kolo_fail_memory((size_t)array->count * sizeof **floats, "an array of floats");
    for (int64_t i = 0; i < array->count; i++) (*floats)[i] = (float)(kolo_npy_number(array, i) * scale);
    return KOLO_OK;
}

static kolo_status to_integers(const char *name, const kolo_npy_array *array, int32_t **numbers)
{
    if (!(*numbers = malloc((size_t)array->count * sizeof **numbers)))
        return kolo_fail_memory((size_t)array->count * sizeof **numbers, "an array of numbers");
    for (int64_t i = 0; i < array->count; i++) {
        double number = kolo_npy_number(array, i);
        if (!(number >= 0 && number < INT32_MAX)) {
            free(*numbers), *numbers = NULL;
            return kolo_fail(KOLO_FORMAT, "%s: element %" PRId64 ": wanted a whole number of 0 to %d, got %g", name, i,
                             INT32_MAX - 1, number);
        }
        (*numbers)[i] = (int32_t)number;
    }
    return KOLO_OK;
}

static kolo_status take_features(const char *name, kolo_npy_array *array, const kolo_numpy_args *args,
                                 kolo_arrays *arrays)
{
    if (array->rank == 0 || array->dim[0] > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted an array of 1 to %d samples, got %s", name, KOLO_SAMPLES_MAX,
                         kolo_npy_text(array));
    KOLO_TRY(sample_shape(name, array, args, &arrays->shape));
    arrays->samples = array->dim[0];
    bool bytes = array->kind == 'u' && array->size == 1;
    double scale = args->scale != 0 ? args->scale : bytes ? 1.0 / 255 : 1;
    if (args->tokens) {
        if (!whole_numbers(array))
            return kolo_fail(KOLO_FORMAT, "%s: wanted whole numbers for .tokens, got %s", name, kolo_npy_text(array));
        return to_integers(name, array, &arrays->tokens);
    }
    bool there = bytes || (array->kind == 'f' && array->size == 4 && scale == 1);
    if (!there) return to_floats(array, scale, &arrays->floats);
    if (bytes) arrays->bytes = array->values, arrays->scale = (float)scale;
    else arrays->floats = array->values;
    array->values = NULL;
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ labels */

/* Real numbers are the targets of a regression; whole numbers are classes, one per sample or per position. */
static kolo_status take_labels(const char *name, kolo_npy_array *array, kolo_arrays *arrays)
{
    if (array->rank == 0 || array->dim[0] != arrays->samples)
        return kolo_fail(KOLO_FORMAT, "%s: wanted labels of %" PRId64 " samples, got %s", name, arrays->samples,
                         kolo_npy_text(array));
    int64_t each = array->count / array->dim[0];
    if (each > INT32_MAX || array->rank > 5)
        return kolo_fail(KOLO_UNSUPPORTED, "%s: wanted labels of at most 4 dimensions, got %s", name,
                         kolo_npy_text(array));
    if (whole_numbers(array)) {
        arrays->label_count = (int)each;
        return to_integers(name, array, &arrays->labels);
    }
    for (int axis = 1; axis < array->rank; axis++)
        arrays->target_shape.dim[arrays->target_shape.rank++] = (int)array->dim[axis];
    if (array->rank == 1) arrays->target_shape = (kolo_shape){1, {1}};
    return to_floats(array, 1, &arrays->targets);
}

/* ------------------------------------------------------------------------------------------ the calls */

/* Reads one array. `name`: a file if archive is NULL, else an array of the archive. */
static kolo_status read_one(const char *archive, const char *name, kolo_npy_array *array)
{
    return archive ? kolo_npz_read(archive, name, array) : kolo_npy_read(name, array);
}

kolo_status kolo_numpy_read(kolo_arrays *arrays, const kolo_numpy_args *args)
{
    kolo_npy_array array = {0};
    const char *archive = args->path, *features = args->features, *labels = args->labels;
    arrays->scale = 1;
    if (args->_ && (!archive || !*archive))
        return kolo_fail(KOLO_INVALID, "wanted the path of a .npz archive, got none");
    if (!features || !*features)
        return kolo_fail(KOLO_INVALID, "wanted the name of %s, got none", archive ? "an array" : "a .npy file");
    snprintf(arrays->source, sizeof arrays->source, "%s%s%s", archive ? archive : "", archive ? ": " : "", features);
    kolo_status status = read_one(archive, features, &array);
    if (status == KOLO_OK) status = take_features(features, &array, args, arrays);
    free(array.values), array = (kolo_npy_array){0};
    if (status == KOLO_OK && labels) status = read_one(archive, labels, &array);
    if (status == KOLO_OK && labels) status = take_labels(labels, &array, arrays);
    free(array.values);
    return status;
}

kolo_data *kolo_numpy_at(const kolo_numpy_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter(args->_ || args->path ? "kolo_npz" : "kolo_npy", here);
    return kolo_arrays_leave(scope, kolo_numpy_read(&arrays, args), &arrays);
}
