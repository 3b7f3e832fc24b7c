/* NumPy's .npy files: a magic number, a version, a header written as a Python dict, then the elements
 * (numpy/lib/format.py, versions 1 to 3). Read npy.h first. */
#include "data/npy.h"
#include "data/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "\x93NUMPY"

typedef struct header {
    char order; /* '<', '>', '|' or '=' */
    bool fortran;
    bool has_descr, has_order, has_shape;
} header;

/* ------------------------------------------------------------------------------------------ the dict */

/* The part of the header's text that is still to be read. */
typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_spaces(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

static bool take(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
    c->at += length;
    return true;
}

/* Takes 'text' or "text", of fewer than `room` characters. */
static bool take_string(cursor *c, char *text, size_t room)
{
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    const char *close = memchr(c->at + 1, *c->at, (size_t)(c->end - c->at - 1));
    if (!close || (size_t)(close - c->at) > room) return false;
    size_t length = (size_t)(close - c->at - 1);
    memcpy(text, c->at + 1, length);
    text[length] = 0;
    c->at = close + 1;
    return true;
}

/* Takes a dimension; false if there is none, or it exceeds int64_t. */
static bool take_number(cursor *c, int64_t *number)
{
    skip_spaces(c);
    const char *first = c->at;
    for (*number = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, *c->at - '0', number))
            return false;
    }
    bool some = c->at > first;
    if (some) take(c, "L"); /* Python 2 wrote 3L */
    return some;
}

static bool take_shape(cursor *c, kolo_npy_array *array)
{
    if (!take(c, "(")) return false;
    while (!take(c, ")")) {
        if (array->rank == KOLO_NPY_RANK_MAX || !take_number(c, &array->dim[array->rank])) return false;
        array->rank++;
        if (!take(c, ",")) return take(c, ")");
    }
    return true;
}

static bool take_type(cursor *c, header *head, kolo_npy_array *array)
{
    char text[8];
    if (!take_string(c, text, sizeof text) || strlen(text) != 3 || !strchr("<>|=", text[0])) return false;
    head->order = text[0];
    array->kind = text[1];
    array->size = text[2] - '0';
    bool known = strchr("uif", array->kind) && strchr("1248", text[2]) && !(array->kind == 'f' && array->size == 1);
    return known || (array->kind == 'b' && array->size == 1);
}

/* Parses the dict; fails with a sentence about its first fault. */
static kolo_status parse_dict(const char *name, cursor c, header *head, kolo_npy_array *array)
{
    char key[32];
    if (!take(&c, "{")) return kolo_fail(KOLO_FORMAT, "%s: damaged NPY header: wanted a dict", name);
    while (!take(&c, "}")) {
        if (!take_string(&c, key, sizeof key) || !take(&c, ":"))
            return kolo_fail(KOLO_FORMAT, "%s: damaged NPY header: wanted 'descr', 'fortran_order' and 'shape'", name);
        if (strcmp(key, "descr") == 0 && !head->has_descr) {
            skip_spaces(&c);
            const char *type = c.at;
            if (!take_type(&c, head, array))
                return kolo_fail(KOLO_FORMAT, "%s: wanted elements u1 to u8, i1 to i8, f2, f4, f8 or b1, got %.*s",
                                 name, (int)(strcspn(type, ",}") < 40 ? strcspn(type, ",}") : 40), type);
            head->has_descr = true;
        } else if (strcmp(key, "fortran_order") == 0 && !head->has_order) {
            head->fortran = take(&c, "True");
            if (!head->fortran && !take(&c, "False"))
                return kolo_fail(KOLO_FORMAT, "%s: damaged NPY header: wanted fortran_order True or False", name);
            head->has_order = true;
        } else if (strcmp(key, "shape") == 0 && !head->has_shape) {
            if (!take_shape(&c, array))
                return kolo_fail(KOLO_FORMAT, "%s: damaged NPY header: wanted a shape of at most %d dimensions", name,
                                 KOLO_NPY_RANK_MAX);
            head->has_shape = true;
        } else return kolo_fail(KOLO_FORMAT, "%s: damaged NPY header: a key '%s' too many", name, key);
        if (!take(&c, ",") && !(c.at < c.end && *c.at == '}'))
            return kolo_fail(KOLO_FORMAT, "%s: damaged NPY header: wanted a ',' or a '}'", name);
    }
    if (head->has_descr && head->has_order && head->has_shape) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: damaged NPY header: wanted 'descr', 'fortran_order' and 'shape'", name);
}

/* ------------------------------------------------------------------------------------------ the elements */

static void swap_bytes(uint8_t *values, int64_t count, int size)
{
    for (int64_t i = 0; i < count; i++, values += size)
        for (int a = 0, b = size - 1; a < b; a++, b--) {
            uint8_t held = values[a];
            values[a] = values[b], values[b] = held;
        }
}

/* Converts from Fortran order, in which the first axis is the fastest. Runs through the elements in C order; `from`
 * is the position of the current one in Fortran order. */
static kolo_status to_c_order(kolo_npy_array *array)
{
    size_t size = (size_t)array->size;
    uint8_t *turned = malloc((size_t)array->count * size);
    if (!turned) return kolo_fail_memory((size_t)array->count * size, "an array in C order");
    int64_t stride[KOLO_NPY_RANK_MAX], place[KOLO_NPY_RANK_MAX] = {0}, from = 0;
    for (int axis = 0; axis < array->rank; axis++) stride[axis] = axis ? stride[axis - 1] * array->dim[axis - 1] : 1;
    for (int64_t i = 0; i < array->count; i++) {
        memcpy(turned + (size_t)i * size, (uint8_t *)array->values + (size_t)from * size, size);
        for (int axis = array->rank - 1; axis >= 0; axis--) {
            from += stride[axis];
            if (++place[axis] < array->dim[axis]) break;
            from -= stride[axis] * place[axis];
            place[axis] = 0;
        }
    }
    free(array->values);
    array->values = turned;
    return KOLO_OK;
}

static kolo_status check_size(const char *name, int64_t size, kolo_npy_array *array)
{
    int64_t bytes;
    array->count = 1;
    for (int axis = 0; axis < array->rank; axis++)
        if (__builtin_mul_overflow(array->count, array->dim[axis], &array->count))
            return kolo_fail(KOLO_FORMAT, "%s: wanted a shape that memory can hold, got %s", name,
                             kolo_npy_text(array));
    if (__builtin_mul_overflow(array->count, array->size, &bytes) || bytes > size)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: wanted %s, got %" PRId64 " bytes of elements", name,
                         kolo_npy_text(array), size);
    if (bytes < size)
        return kolo_fail(KOLO_FORMAT, "%s: wanted %s, which is %" PRId64 " bytes, got %" PRId64, name,
                         kolo_npy_text(array), bytes, size);
    if (array->count == 0) return kolo_fail(KOLO_FORMAT, "%s: wanted elements, got none", name);
    return KOLO_OK;
}

/* Checks magic number and version. Sets *text to the dict, and *start to the offset of the elements. */
static kolo_status find_header(const char *name, const uint8_t *bytes, int64_t size, cursor *text, int64_t *start)
{
    if (size < 10 || memcmp(bytes, MAGIC, 6) != 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted a NumPy file (.npy), got something else", name);
    if (bytes[6] < 1 || bytes[6] > 3)
        return kolo_fail(KOLO_FORMAT, "%s: wanted an NPY file of version 1 to 3, got %d", name, bytes[6]);
    int64_t first = bytes[6] == 1 ? 10 : 12, length = bytes[8] | bytes[9] << 8;
    if (first == 12 && size >= 12) length |= (int64_t)bytes[10] << 16 | (int64_t)bytes[11] << 24;
    if (size < first || length > size - first)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: its header wanted %" PRId64 " bytes, got %" PRId64, name, length,
                         size < first ? 0 : size - first);
    *text = (cursor){(const char *)bytes + first, (const char *)bytes + first + length};
    *start = first + length;
    return KOLO_OK;
}

static kolo_status parse(const char *name, const uint8_t *bytes, int64_t size, header *head, kolo_npy_array *array,
                         int64_t *start)
{
    cursor text;
    KOLO_TRY(find_header(name, bytes, size, &text, start));
    KOLO_TRY(parse_dict(name, text, head, array));
    return check_size(name, size - *start, array);
}

kolo_status kolo_npy_parse(const char *name, uint8_t *bytes, int64_t size, kolo_npy_array *array)
{
    header head = {0};
    int64_t start = 0;
    *array = (kolo_npy_array){0};
    kolo_status status = parse(name, bytes, size, &head, array, &start);
    if (status != KOLO_OK) {
        free(bytes);
        return status;
    }
    memmove(bytes, bytes + start, (size_t)(size - start));
    array->values = bytes;
    if (array->kind == 'b')
        for (int64_t i = 0; i < array->count; i++) bytes[i] = bytes[i] != 0;
    if (strchr("<>", head.order) && head.order != KOLO_NPY_ORDER) swap_bytes(bytes, array->count, array->size);
    if (head.fortran && array->rank > 1) status = to_c_order(array);
    if (status != KOLO_OK) free(array->values), array->values = NULL;
    return status;
}

kolo_status kolo_npy_read(const char *path, kolo_npy_array *array)
{
    uint8_t *bytes;
    int64_t size;
    *array = (kolo_npy_array){0};
    KOLO_TRY(kolo_reader_whole(path, "a NumPy file (.npy)", &bytes, &size));
    return kolo_npy_parse(path, bytes, size, array);
}

/* ------------------------------------------------------------------------------------------ numbers */

/* Converts IEEE 754's binary16, since not all compilers have a type for it. */
static double half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return fraction ? __builtin_nan("") : sign * __builtin_inf();
    if (exponent == 0) return sign * fraction * 0x1p-24;
    return sign * (1024 + fraction) * (exponent >= 25 ? (double)(1 << (exponent - 25)) : 1.0 / (1 << (25 - exponent)));
}

#define AS(type) ((double)((const type *)array->values)[i])
double kolo_npy_number(const kolo_npy_array *array, int64_t i)
{
    switch (array->kind << 4 | array->size) {
    case 'b' << 4 | 1:
    case 'u' << 4 | 1: return AS(uint8_t);
    case 'u' << 4 | 2: return AS(uint16_t);
    case 'u' << 4 | 4: return AS(uint32_t);
    case 'u' << 4 | 8: return AS(uint64_t);
    case 'i' << 4 | 1: return AS(int8_t);
    case 'i' << 4 | 2: return AS(int16_t);
    case 'i' << 4 | 4: return AS(int32_t);
    case 'i' << 4 | 8: return AS(int64_t);
    case 'f' << 4 | 2: return half(((const uint16_t *)array->values)[i]);
    case 'f' << 4 | 4: return AS(float);
    default: return AS(double);
    }
}
#undef AS

const char *kolo_npy_text(const kolo_npy_array *array)
{
    const char *kind = array->kind == 'u' ? "uint" : array->kind == 'i' ? "int" : "float", *text = "";
    for (int axis = 0; axis < array->rank; axis++)
        text = kolo_phrase("%s%s%" PRId64, text, axis ? ", " : "", array->dim[axis]);
    if (array->kind == 'b') return kolo_phrase("bool {%s}", text);
    return kolo_phrase("%s%d {%s}", kind, 8 * array->size, text);
}
