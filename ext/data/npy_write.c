/* Writing data sets as NumPy's .npy files, version 1. Read npy.h first. */
#include "core/file.h"
#include "data/data.h"
#include "data/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64 /* of the elements in the file, in bytes: the header is padded with spaces */

/* Writes magic number, version and dict to `header`, and returns their size. */
static size_t make_header(char header[4 * ALIGNMENT], const char *type, int64_t samples, kolo_shape shape)
{
    char dict[200], sizes[80] = "";
    for (int axis = 0; axis < shape.rank; axis++) {
        size_t length = strlen(sizes);
        snprintf(sizes + length, sizeof sizes - length, "%s%d", axis ? ", " : " ", shape.dim[axis]);
    }
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ",%s), }", type, samples,
             sizes);
    size_t size = (10 + strlen(dict) + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, length = size - 10;
    memset(header, ' ', size);
    memcpy(header, "\x93NUMPY\x01", 7);
    header[7] = 0, header[8] = (char)(length & 255), header[9] = (char)(length >> 8);
    memcpy(header + 10, dict, strlen(dict));
    header[size - 1] = '\n';
    return size;
}

static kolo_status write_array(const char *path, const char *kind, int element, const void *values, int64_t samples,
                               kolo_shape shape)
{
    char header[4 * ALIGNMENT], type[8];
    kolo_file file;
    snprintf(type, sizeof type, "%c%s", element == 1 ? '|' : KOLO_NPY_ORDER, kind);
    size_t size = make_header(header, type, samples, shape);
    KOLO_TRY(kolo_file_begin(&file, path));
    kolo_status status = kolo_file_add(&file, header, size);
    if (status == KOLO_OK)
        status = kolo_file_add(&file, values, (size_t)samples * (size_t)kolo_shape_count(shape) * (size_t)element);
    if (status == KOLO_OK) return kolo_file_commit(&file);
    kolo_file_abandon(&file);
    return status;
}

/* Writes the features, labels or targets of a view, whichever member of `to` is not NULL. shape: of one sample. */
static kolo_status write_view(const kolo_data *data, const char *path, const char *kind, kolo_gathered to,
                              kolo_shape shape)
{
    int64_t all = data->samples * kolo_shape_count(shape);
    float *values = malloc((size_t)all * sizeof *values);
    if (!values) return kolo_fail_memory((size_t)all * sizeof *values, "what is written");
    if (to.features) to.features = values;
    if (to.labels) to.labels = (int32_t *)values;
    if (to.targets) to.targets = values;
    kolo_status status = kolo_data_gather(data, NULL, NULL, 0, (int)data->samples, &to);
    for (int64_t i = 0; status == KOLO_OK && to.features && *kind == 'i' && i < all; i++) {
        int32_t word = (int32_t)values[i];
        memcpy(&values[i], &word, sizeof word);
    }
    if (status == KOLO_OK) status = write_array(path, kind, 4, values, data->samples, shape);
    free(values);
    return status;
}

static kolo_status write_features(const kolo_data *data, const char *path)
{
    float some;
    if (data->view)
        return write_view(data, path, data->has_tokens ? "i4" : "f4", (kolo_gathered){.features = &some}, data->shape);
    if (data->bytes) return write_array(path, "u1", 1, data->bytes, data->samples, data->shape);
    if (data->tokens) return write_array(path, "i4", 4, data->tokens, data->samples, data->shape);
    return write_array(path, "f4", 4, data->floats, data->samples, data->shape);
}

static kolo_status write_labels(const kolo_data *data, const char *path)
{
    kolo_shape positions = {data->label_count > 1, {data->label_count}}, single = {0};
    int32_t number;
    float some;
    if (data->has_labels && data->view)
        return write_view(data, path, "i4", (kolo_gathered){.labels = &number}, positions);
    if (data->has_labels) return write_array(path, "i4", 4, data->labels, data->samples, positions);
    if (!data->has_targets) return kolo_fail(KOLO_INVALID, "wanted data with labels or targets to write to %s", path);
    int64_t count = kolo_shape_count(data->target_shape);
    kolo_shape shape = count == 1 ? single : data->target_shape;
    if (data->view) return write_view(data, path, "f4", (kolo_gathered){.targets = &some, .outputs = count}, shape);
    return write_array(path, "f4", 4, data->targets, data->samples, shape);
}

kolo_status kolo_npy_write_at(const kolo_data *data, const char *features, const char *labels, kolo_here here)
{
    if (!data) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_npy_write", here);
    kolo_status status = KOLO_OK;
    if (!features && !labels) status = kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    if (status == KOLO_OK && features) status = write_features(data, features);
    if (status == KOLO_OK && labels) status = write_labels(data, labels);
    return kolo_leave(scope, status);
}
