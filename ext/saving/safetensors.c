/* Files of named arrays: see safetensors.h. */
#include "saving/safetensors.h"
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX 100000000 /* safetensors' own limit */
#define METADATA   "__metadata__"
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie in memory");

/* ------------------------------------------------------------------------------------------ writing */

static json_t *describe(const kolo_array *array, int64_t begin)
{
    json_t *shape = json_array();
    for (int axis = 0; axis < array->shape.rank; axis++)
        json_array_append_new(shape, json_integer(array->shape.dim[axis]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)begin + 4 * (json_int_t)kolo_shape_count(array->shape));
}

static kolo_status make_header(const kolo_array *arrays, int count, json_t *metadata, json_t **out)
{
    int64_t begin = 0;
    json_t *header = json_pack("{s:O}", METADATA, metadata);
    *out = header;
    for (int i = 0; i < count; i++) {
        const char *name = arrays[i].name;
        if (json_object_get(header, name))
            return kolo_fail(KOLO_INVALID, "wanted weights of different names, got two called \"%s\"", name);
        if (json_object_set_new(header, name, describe(&arrays[i], begin)) != 0)
            return kolo_fail(KOLO_INVALID, "the name of weight %d cannot be written: wanted UTF-8, got \"%s\"", i,
                             name);
        begin += 4 * kolo_shape_count(arrays[i].shape);
    }
    return KOLO_OK;
}

static kolo_status write_all(kolo_file *file, const char *header, const kolo_array *arrays, int count)
{
    size_t length = strlen(header), padding = (8 - length % 8) % 8;
    uint64_t announced = length + padding;
    KOLO_TRY(kolo_file_add(file, &announced, sizeof announced));
    KOLO_TRY(kolo_file_add(file, header, length));
    KOLO_TRY(kolo_file_add(file, "       ", padding));
    for (int i = 0; i < count; i++)
        KOLO_TRY(kolo_file_add(file, arrays[i].values, sizeof(float) * (size_t)kolo_shape_count(arrays[i].shape)));
    return KOLO_OK;
}

kolo_status kolo_safetensors_write(const char *path, const kolo_array *arrays, int count, json_t *metadata)
{
    kolo_file file = {.fd = -1};
    kolo_status status;
    json_t *header = NULL;
    char *text = NULL;
    KOLO_GO(done, make_header(arrays, count, metadata, &header));
    text = json_dumps(header, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) KOLO_GO(done, kolo_fail_memory(1 << 12, "a file's header"));
    KOLO_GO(done, kolo_file_begin(&file, path));
    KOLO_GO(done, write_all(&file, text, arrays, count));
    status = kolo_file_commit(&file);
done:
    kolo_file_abandon(&file);
    free(text);
    json_decref(header);
    return status;
}

/* ------------------------------------------------------------------------------------------ the header */

static kolo_status read_at(const kolo_safetensors *from, int64_t offset, void *target, size_t size)
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

static kolo_status open_file(kolo_safetensors *from)
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

static kolo_status parse_header(kolo_safetensors *from, size_t length)
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

static kolo_status read_header(kolo_safetensors *from)
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

/* ------------------------------------------------------------------------------------------ its entries */

typedef struct extent {
    json_int_t begin, end;
} extent;

static const char *type_of(const json_t *entry)
{
    return json_string_value(json_object_get(entry, "dtype"));
}

/* Bytes of an element of a type that can be converted to float32; 0 for other types. */
static int element_bytes(const char *type)
{
    if (strcmp(type, "F32") == 0) return 4;
    if (strcmp(type, "F64") == 0) return 8;
    return strcmp(type, "F16") == 0 || strcmp(type, "BF16") == 0 ? 2 : 0;
}

/* The number of elements; -1 if a size is not a whole number of at least 0, or the product is too large for a file. */
static int64_t count_elements(const json_t *sizes)
{
    int64_t count = 1;
    for (size_t axis = 0; axis < json_array_size(sizes); axis++) {
        const json_t *size = json_array_get(sizes, axis);
        json_int_t value = json_is_integer(size) ? json_integer_value(size) : -1;
        if (value < 0 || (value > 0 && count > INT64_MAX / 16 / value)) return -1;
        count *= value;
    }
    return count;
}

static kolo_status check_extent(const kolo_safetensors *from, const char *name, const json_t *entry, extent *found)
{
    const json_t *offsets = json_object_get(entry, "data_offsets"), *sizes = json_object_get(entry, "shape");
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    int64_t elements = count_elements(sizes), bytes = element_bytes(type_of(entry));
    if (!json_is_integer(first) || !json_is_integer(second) || json_array_size(offsets) != 2)
        return kolo_fail(KOLO_FORMAT, "%s: \"%.80s\": wanted two data_offsets, got something else", from->path, name);
    if (elements < 0)
        return kolo_fail(KOLO_FORMAT, "%s: \"%.80s\": wanted a shape of sizes of at least 0, got another", from->path,
                         name);
    json_int_t begin = json_integer_value(first), end = json_integer_value(second);
    bool inside = begin >= 0 && begin <= end && end <= from->size;
    *found = (extent){begin, end};
    if (inside && (!bytes || end - begin == bytes * elements)) return KOLO_OK;
    bool truncated = begin >= 0 && begin <= end && (!bytes || end - begin == bytes * elements);
    return kolo_fail(KOLO_FORMAT,
                     "%s: %s\"%.80s\": wanted %" PRId64 " bytes within the file's %" PRId64
                     " of arrays, got data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT "]",
                     from->path, truncated ? "truncated: " : "", name,
                     bytes ? bytes * elements : (int64_t)(end - begin), from->size, begin, end);
}

static int earlier_first(const void *a, const void *b)
{
    const extent *left = a, *right = b;
    if (left->begin != right->begin) return left->begin < right->begin ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

/* Checks that the arrays fill the file, as the format requires: without gaps, overlaps or bytes after them. */
static kolo_status check_cover(const kolo_safetensors *from, extent *extents, size_t count)
{
    int64_t end = 0;
    qsort(extents, count, sizeof *extents, earlier_first);
    for (size_t i = 0; i < count; i++) {
        if (extents[i].begin != end)
            return kolo_fail(KOLO_FORMAT,
                             "%s: wanted an array that begins at byte %" PRId64 " of the data, got %" PRId64,
                             from->path, end, (int64_t)extents[i].begin);
        end = extents[i].end;
    }
    if (end == from->size) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted %" PRId64 " bytes of arrays, got %" PRId64, from->path, end, from->size);
}

static kolo_status check_entries(const kolo_safetensors *from, extent *extents, size_t *count)
{
    const char *name;
    json_t *entry;
    json_object_foreach(from->header, name, entry)
    {
        if (strcmp(name, METADATA) == 0) continue;
        if (!type_of(entry) || !json_is_array(json_object_get(entry, "shape")))
            return kolo_fail(KOLO_FORMAT, "%s: \"%.80s\": wanted a dtype and a shape, got neither or one", from->path,
                             name);
        KOLO_TRY(check_extent(from, name, entry, &extents[(*count)++]));
    }
    return KOLO_OK;
}

static kolo_status check_header(const kolo_safetensors *from)
{
    size_t count = 0, bytes = (json_object_size(from->header) + 1) * sizeof(extent);
    extent *extents = malloc(bytes);
    if (!extents) return kolo_fail_memory(bytes, "a file's header");
    kolo_status status = check_entries(from, extents, &count);
    if (status == KOLO_OK) status = check_cover(from, extents, count);
    free(extents);
    return status;
}

kolo_status kolo_safetensors_open(kolo_safetensors *from, const char *path)
{
    *from = (kolo_safetensors){.path = path, .fd = -1};
    if (!path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    kolo_status status = open_file(from);
    if (status == KOLO_OK) status = read_header(from);
    if (status == KOLO_OK) status = check_header(from);
    if (status != KOLO_OK) kolo_safetensors_close(from);
    return status;
}

void kolo_safetensors_close(kolo_safetensors *from)
{
    json_decref(from->header);
    from->header = NULL;
    if (from->fd >= 0) close(from->fd);
    from->fd = -1;
}

/* ------------------------------------------------------------------------------------------ reading */

const char *kolo_safetensors_text(const kolo_safetensors *from, const char *key)
{
    return json_string_value(json_object_get(json_object_get(from->header, METADATA), key));
}

static const json_t *entry_of(const kolo_safetensors *from, const char *name)
{
    return strcmp(name, METADATA) == 0 ? NULL : json_object_get(from->header, name);
}

bool kolo_safetensors_has(const kolo_safetensors *from, const char *name)
{
    return entry_of(from, name) != NULL;
}

bool kolo_safetensors_fits(const kolo_safetensors *from, const char *name, kolo_shape shape)
{
    const json_t *sizes = json_object_get(entry_of(from, name), "shape");
    bool fits = json_array_size(sizes) == (size_t)shape.rank;
    for (int axis = 0; axis < shape.rank; axis++)
        fits = fits && json_integer_value(json_array_get(sizes, (size_t)axis)) == shape.dim[axis];
    return fits;
}

const char *kolo_safetensors_shape(const kolo_safetensors *from, const char *name)
{
    const json_t *sizes = json_object_get(entry_of(from, name), "shape");
    const char *text = "{";
    for (size_t axis = 0; axis < json_array_size(sizes) && axis < 8; axis++)
        text = kolo_phrase("%s%s%" JSON_INTEGER_FORMAT, text, axis ? ", " : "",
                           json_integer_value(json_array_get(sizes, axis)));
    return kolo_phrase("%s}", text);
}

/* IEEE 754 binary16: a sign, 5 bits of exponent (bias 15), 10 of fraction. */
static float from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff, bits;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_bfloat(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void convert(const char *type, const void *raw, int64_t count, float *values)
{
    const uint16_t *halves = raw;
    const double *doubles = raw;
    bool half = strcmp(type, "F16") == 0, bfloat = strcmp(type, "BF16") == 0;
    for (int64_t i = 0; i < count; i++)
        values[i] = half ? from_half(halves[i]) : bfloat ? from_bfloat(halves[i]) : (float)doubles[i];
}

static kolo_status read_converted(const kolo_safetensors *from, const char *type, int64_t begin, int64_t count,
                                  float *values)
{
    size_t bytes = (size_t)(count * element_bytes(type));
    void *raw = calloc(1, bytes ? bytes : 1);
    if (!raw) return kolo_fail_memory(bytes, "an array of a file");
    kolo_status status = read_at(from, begin, raw, bytes);
    if (status == KOLO_OK) convert(type, raw, count, values);
    free(raw);
    return status;
}

kolo_status kolo_safetensors_read(const kolo_safetensors *from, const char *name, kolo_shape shape, float *values)
{
    const json_t *entry = entry_of(from, name);
    if (!entry) return kolo_fail(KOLO_FORMAT, "%s: wanted an array \"%s\", got none of that name", from->path, name);
    const char *type = type_of(entry);
    if (!element_bytes(type))
        return kolo_fail(KOLO_FORMAT, "%s: \"%s\": wanted dtype F32, F16, BF16 or F64, got %.20s", from->path, name,
                         type);
    if (!kolo_safetensors_fits(from, name, shape))
        return kolo_fail(KOLO_FORMAT, "%s: \"%s\": wanted the shape %s, got %s", from->path, name,
                         kolo_shape_text(shape), kolo_safetensors_shape(from, name));
    int64_t begin = from->data + json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    int64_t count = kolo_shape_count(shape);
    if (strcmp(type, "F32") != 0) return read_converted(from, type, begin, count, values);
    return read_at(from, begin, values, sizeof(float) * (size_t)count);
}
