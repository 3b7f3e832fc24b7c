/* Saving: weights as safetensors, the history as JSON.
 *
 * safetensors (huggingface.co/docs/safetensors): eight bytes, little-endian, say how long the header is; the header is
 * JSON, padded with spaces; then the arrays lie one after the other. {"name": {"dtype": "F32", "shape": [3, 3, 1, 32],
 * "data_offsets": [begin, end]}, …, "__metadata__": {…}}. Equal weights give equal files, byte for byte. */
#include "core/file.h"
#include "core/model.h"
#include "core/shape.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX 100000000 /* safetensors' own limit */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are written as they lie in memory");

static kolo_shape weight_shape(const kolo_weight *weight)
{
    kolo_shape shape = {.rank = weight->rank};
    memcpy(shape.dim, weight->shape, sizeof shape.dim);
    return shape;
}

/* ------------------------------------------------------------------------------------------ writing */

static json_t *describe(const kolo_weight *weight, int64_t begin)
{
    json_t *shape = json_array();
    for (int axis = 0; axis < weight->rank; axis++) json_array_append_new(shape, json_integer(weight->shape[axis]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + 4 * weight->count));
}

static kolo_status make_header(kolo_model *model, json_t **out)
{
    int64_t begin = 0;
    if (!model->drawn) return kolo_fail(KOLO_INVALID, "wanted a compiled model, got one that has no weights yet");
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "kolo");
    *out = header;
    for (int i = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        if (json_object_get(header, weight.name))
            return kolo_fail(KOLO_INVALID, "wanted weights of different names, got two called \"%s\"", weight.name);
        if (json_object_set_new(header, weight.name, describe(&weight, begin)) != 0)
            return kolo_fail(KOLO_INVALID, "the name of weight %d cannot be written: wanted UTF-8, got \"%s\"", i,
                             weight.name);
        begin += 4 * weight.count;
    }
    return KOLO_OK;
}

static kolo_status write_weights(kolo_file *file, kolo_model *model, const char *text)
{
    size_t length = strlen(text), padding = (8 - length % 8) % 8;
    uint64_t announced = length + padding;
    KOLO_TRY(kolo_file_add(file, &announced, sizeof announced));
    KOLO_TRY(kolo_file_add(file, text, length));
    KOLO_TRY(kolo_file_add(file, "       ", padding));
    for (int i = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        KOLO_TRY(kolo_file_add(file, weight.values, sizeof(float) * (size_t)weight.count));
    }
    return KOLO_OK;
}

static kolo_status save(kolo_model *model, const char *path)
{
    kolo_file file = {.fd = -1};
    kolo_status status;
    json_t *header = NULL;
    char *text = NULL;
    KOLO_GO(done, make_header(model, &header));
    text = json_dumps(header, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) KOLO_GO(done, kolo_fail_memory(1 << 12, "a file's header"));
    KOLO_GO(done, kolo_file_begin(&file, path));
    KOLO_GO(done, write_weights(&file, model, text));
    status = kolo_file_commit(&file);
done:
    kolo_file_abandon(&file);
    free(text);
    json_decref(header);
    return status;
}

kolo_status kolo_save_at(const kolo_model *model, const char *path, kolo_here here)
{
    if (!model) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_save", here);
    return kolo_leave(scope, save((kolo_model *)model, path)); /* its weights are read only */
}

/* ------------------------------------------------------------------------------------------ reading */

/* A safetensors file, its header parsed and its size known. */
typedef struct source {
    const char *path;
    int fd;
    json_t *header;
    int64_t data, size; /* where the arrays begin; their bytes */
} source;

static kolo_status read_at(const source *from, int64_t offset, void *target, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(from->fd, (char *)target + done, size - done, offset + (int64_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return kolo_fail(KOLO_IO, "%s: reading it failed: %s", from->path, strerror(errno));
        if (got == 0) return kolo_fail(KOLO_FORMAT, "%s: the file became shorter while it was read", from->path);
        done += (size_t)got;
    }
    return KOLO_OK;
}

static kolo_status open_source(source *from)
{
    struct stat info;
    from->fd = open(from->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (from->fd < 0) {
        kolo_status code = errno == ENOENT || errno == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO;
        return kolo_fail(code, "%s: wanted a file to read, got: %s", from->path, strerror(errno));
    }
    if (fstat(from->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return kolo_fail(KOLO_FORMAT, "%s: wanted a safetensors file, got a folder or a device", from->path);
    from->size = info.st_size;
    return KOLO_OK;
}

static kolo_status parse_header(source *from, size_t length)
{
    json_error_t error;
    char *text = malloc(length);
    if (!text) return kolo_fail_memory(length, "a file's header");
    kolo_status status = read_at(from, 8, text, length);
    if (status == KOLO_OK) {
        from->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
        if (!from->header)
            status = kolo_fail(KOLO_FORMAT, "%s: wanted a safetensors header in JSON, got: %s", from->path, error.text);
        else if (!json_is_object(from->header))
            status = kolo_fail(KOLO_FORMAT, "%s: wanted a safetensors header that is a JSON object, got something else",
                               from->path);
    }
    free(text);
    return status;
}

static kolo_status read_header(source *from)
{
    uint64_t length;
    if (from->size < 8)
        return kolo_fail(KOLO_FORMAT, "%s: not a safetensors file: wanted at least 8 bytes, got %" PRId64, from->path,
                         from->size);
    KOLO_TRY(read_at(from, 0, &length, sizeof length));
    if (length < 2 || length > HEADER_MAX || (int64_t)length > from->size - 8)
        return kolo_fail(KOLO_FORMAT,
                         "%s: not a safetensors file, or truncated: its header is said to take %" PRIu64
                         " bytes, and the file has %" PRId64,
                         from->path, length, from->size);
    KOLO_TRY(parse_header(from, length));
    from->data = 8 + (int64_t)length;
    from->size -= from->data;
    return KOLO_OK;
}

static kolo_status check_type(const source *from, const kolo_weight *weight, const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *sizes = json_object_get(entry, "shape");
    if (!type || !json_is_array(sizes))
        return kolo_fail(KOLO_FORMAT, "%s: \"%s\": wanted a dtype and a shape, got neither or one", from->path,
                         weight->name);
    if (strcmp(type, "F32") != 0)
        return kolo_fail(KOLO_FORMAT, "%s: \"%s\": wanted dtype F32, got %.20s", from->path, weight->name, type);
    kolo_shape shape = {.rank = json_array_size(sizes) <= 4 ? (int)json_array_size(sizes) : 0};
    for (int axis = 0; axis < shape.rank; axis++) {
        json_int_t size = json_integer_value(json_array_get(sizes, (size_t)axis));
        shape.dim[axis] = size >= 0 && size <= INT32_MAX ? (int)size : -1;
    }
    if (!kolo_shape_equal(shape, weight_shape(weight)))
        return kolo_fail(KOLO_FORMAT, "%s: \"%s\": wanted the shape %s, got %s", from->path, weight->name,
                         kolo_shape_text(weight_shape(weight)), kolo_shape_text(shape));
    return KOLO_OK;
}

/* One array of the model against the file; *begin is where its values lie. */
static kolo_status check_weight(const source *from, const kolo_weight *weight, int64_t *begin)
{
    const json_t *entry = json_object_get(from->header, weight->name);
    if (!entry)
        return kolo_fail(KOLO_FORMAT, "%s: wanted an array \"%s\", got none of that name", from->path, weight->name);
    KOLO_TRY(check_type(from, weight, entry));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    if (!json_is_integer(first) || !json_is_integer(second) || json_array_size(offsets) != 2)
        return kolo_fail(KOLO_FORMAT, "%s: \"%s\": wanted two data_offsets, got something else", from->path,
                         weight->name);
    json_int_t low = json_integer_value(first), high = json_integer_value(second);
    if (low < 0 || high > from->size || low > high || high - low != 4 * weight->count)
        return kolo_fail(KOLO_FORMAT,
                         "%s: \"%s\": wanted %" PRId64 " bytes within the file's %" PRId64
                         ", got data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT "]",
                         from->path, weight->name, 4 * weight->count, from->size, low, high);
    *begin = low;
    return KOLO_OK;
}

static bool has_weight(kolo_model *model, const char *name)
{
    bool found = false;
    for (int i = 0; i < kolo_weight_count(model) && !found; i++)
        found = strcmp(kolo_weight_get(model, i).name, name) == 0;
    return found;
}

/* Arrays that the model does not have: the file is another model's. */
static kolo_status check_no_others(const source *from, kolo_model *model)
{
    const char *name;
    json_t *entry;
    json_object_foreach(from->header, name, entry)
    {
        if (strcmp(name, "__metadata__") != 0 && !has_weight(model, name))
            return kolo_fail(KOLO_FORMAT, "%s: wanted the arrays of this model, got \"%.80s\" too", from->path, name);
    }
    return KOLO_OK;
}

/* Every value into `values`, in the model's order, before one of the model's is touched. */
static kolo_status read_weights(const source *from, kolo_model *model, float *values)
{
    int64_t done = 0, begin;
    for (int i = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        KOLO_TRY(check_weight(from, &weight, &begin));
        KOLO_TRY(read_at(from, from->data + begin, values + done, sizeof(float) * (size_t)weight.count));
        done += weight.count;
    }
    return KOLO_OK;
}

static kolo_status check_sizes(const source *from, kolo_model *model)
{
    KOLO_TRY(check_no_others(from, model));
    int64_t begin, bytes = 0;
    for (int i = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        KOLO_TRY(check_weight(from, &weight, &begin));
        bytes += 4 * weight.count;
    }
    if (bytes != from->size)
        return kolo_fail(KOLO_FORMAT, "%s: wanted %" PRId64 " bytes of arrays, got %" PRId64, from->path, bytes,
                         from->size);
    return KOLO_OK;
}

static void take_weights(kolo_model *model, const float *values)
{
    for (int i = 0; i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        memcpy(weight.values, values, sizeof(float) * (size_t)weight.count);
        values += weight.count;
    }
    model->drawn = true; /* a first kolo_compile() must not draw others */
}

static kolo_status load(kolo_model *model, const char *path)
{
    source from = {.path = path, .fd = -1};
    float *values = NULL;
    kolo_status status;
    if (!path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    KOLO_GO(done, open_source(&from));
    KOLO_GO(done, read_header(&from));
    KOLO_GO(done, check_sizes(&from, model));
    values = malloc(from.size ? (size_t)from.size : 1);
    if (!values) KOLO_GO(done, kolo_fail_memory((size_t)from.size, "the weights of a file"));
    KOLO_GO(done, read_weights(&from, model, values));
    take_weights(model, values);
done:
    free(values);
    json_decref(from.header);
    if (from.fd >= 0) close(from.fd);
    return status;
}

kolo_status kolo_load_at(kolo_model *model, const char *path, kolo_here here)
{
    if (!model) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_load", here);
    return kolo_leave(scope, load(model, path));
}
