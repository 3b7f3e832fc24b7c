/* Data sets from TFRecord files of tf.train.Example. The first example decides which features there are; every other
 * one must be like it. Read record.h and example.proto first. */
#include "data/example.pb-c.h"
#include "data/record.h"
#include "data/sources.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS_MAX INT32_MAX

/* A feature that is read, with the kind and the number of values that the first example has. */
typedef struct column {
    char *name;
    Kolo__Feature__KindCase kind;
    size_t count; /* number of values; of bytes the length of the string */
} column;

typedef struct set {
    const kolo_tfrecord_args *args;
    kolo_arrays *arrays;
    const char *path; /* the current file, for errors */
    int64_t number;   /* of the current record in it, from 0 */
    column columns[KOLO_TFRECORD_NAMES_MAX], label;
    int count;       /* columns; 0 before the first example */
    int64_t elements, room; /* elements of a sample; samples that memory is allocated for */
} set;

static kolo_status wrong(const set *s, const char *feature, const char *wanted, const char *got)
{
    return kolo_fail(KOLO_FORMAT, "%s: record %" PRId64 ": feature \"%.80s\": wanted %s, got %s", s->path, s->number,
                     feature, wanted, got);
}

/* ------------------------------------------------------------------------------------------ features */

static const Kolo__Feature *find(const Kolo__Example *example, const char *name)
{
    const Kolo__Features *features = example->features;
    for (size_t i = 0; features && i < features->n_feature; i++)
        if (features->feature[i]->key && strcmp(features->feature[i]->key, name) == 0)
            return features->feature[i]->value;
    return NULL;
}

static const char *kind_name(Kolo__Feature__KindCase kind)
{
    switch (kind) {
    case KOLO__FEATURE__KIND_BYTES_LIST: return "bytes";
    case KOLO__FEATURE__KIND_FLOAT_LIST: return "floats";
    case KOLO__FEATURE__KIND_INT64_LIST: return "whole numbers";
    default: return "nothing";
    }
}

/* Number of values of a feature. Bytes must be a single string, whose length it is; 0 otherwise. */
static size_t values_in(const Kolo__Feature *feature)
{
    switch (feature ? feature->kind_case : KOLO__FEATURE__KIND__NOT_SET) {
    case KOLO__FEATURE__KIND_BYTES_LIST:
        return feature->bytes_list->n_value == 1 ? feature->bytes_list->value[0].len : 0;
    case KOLO__FEATURE__KIND_FLOAT_LIST: return feature->float_list->n_value;
    case KOLO__FEATURE__KIND_INT64_LIST: return feature->int64_list->n_value;
    default: return 0;
    }
}

/* Whether a feature's name, without a prefix such as "image/", is `what`. */
static bool is_called(const char *name, const char *what)
{
    const char *slash = strrchr(name, '/');
    return strcmp(slash ? slash + 1 : name, what) == 0;
}

static const char *const sizes[] = {"height", "width", "depth", "channels"};

/* The value of a feature called `what` that is a single whole number; -1 if there is none. */
static int64_t size_in(const Kolo__Example *example, const char *what)
{
    for (size_t i = 0; example->features && i < example->features->n_feature; i++) {
        const Kolo__FeatureEntry *entry = example->features->feature[i];
        bool number = entry->value && entry->value->kind_case == KOLO__FEATURE__KIND_INT64_LIST &&
                      entry->value->int64_list->n_value == 1;
        if (entry->key && is_called(entry->key, what) && number) return entry->value->int64_list->value[0];
    }
    return -1;
}

/* ------------------------------------------------------------------------------------------ the first example */

static kolo_status add_column(set *s, const Kolo__Example *example, const char *name)
{
    const Kolo__Feature *feature = find(example, name);
    size_t count = values_in(feature);
    if (s->count == KOLO_TFRECORD_NAMES_MAX)
        return kolo_fail(KOLO_UNSUPPORTED,
                         "%s: wanted at most %d features, got more: name those to be read in"
                         " .features",
                         s->path, KOLO_TFRECORD_NAMES_MAX);
    if (!feature) return wrong(s, name, "it in every example", "none");
    if (count == 0) return wrong(s, name, "values (of bytes one string)", kind_name(feature->kind_case));
    column *c = &s->columns[s->count];
    if (!(c->name = strdup(name))) return kolo_fail_memory(strlen(name), "the name of a feature");
    c->kind = feature->kind_case, c->count = count;
    s->count++;
    s->elements += (int64_t)(count < ELEMENTS_MAX ? count : ELEMENTS_MAX);
    if (s->elements > ELEMENTS_MAX) return wrong(s, name, "samples of fewer than 2³¹ elements", "more");
    return KOLO_OK;
}

static bool is_size(const char *name)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (is_called(name, sizes[i])) return true;
    return false;
}

static int by_key(const void *left, const void *right)
{
    const char *a = (*(Kolo__FeatureEntry *const *)left)->key, *b = (*(Kolo__FeatureEntry *const *)right)->key;
    return strcmp(a ? a : "", b ? b : "");
}

/* The value of "depth" or "channels"; -1 if there is neither. */
static int64_t depth_in(const Kolo__Example *example)
{
    int64_t depth = size_in(example, "depth");
    return depth < 0 ? size_in(example, "channels") : depth;
}

/* {height, width, depth} by the features of these names, if their product is `elements`; else rank 0. */
static kolo_shape picture_of(const Kolo__Example *example, int64_t elements)
{
    int64_t height = size_in(example, "height"), width = size_in(example, "width"), depth = depth_in(example);
    if (height < 1 || width < 1 || height > elements || width > elements / height) return (kolo_shape){0};
    if (depth < 0) depth = elements / (height * width);
    if (depth < 1 || depth > elements || height * width * depth != elements) return (kolo_shape){0};
    return (kolo_shape){3, {(int)height, (int)width, (int)depth}};
}

/* Whether some feature is a picture of the sizes that other features give. If not, "height" is an ordinary feature. */
static bool has_picture(const Kolo__Example *example)
{
    for (size_t i = 0; example->features && i < example->features->n_feature; i++) {
        size_t count = values_in(example->features->feature[i]->value);
        if (count > 1 && count < ELEMENTS_MAX && picture_of(example, (int64_t)count).rank) return true;
    }
    return false;
}

/* Chooses the features if .features names none: the only feature of bytes, or else all features of numbers, in the
 * order of their names; without the label and the sizes of a picture. */
static kolo_status choose_columns(set *s, Kolo__Example *example)
{
    Kolo__Features *features = example->features;
    size_t count = features ? features->n_feature : 0, strings = 0;
    bool picture = has_picture(example);
    if (count) qsort(features->feature, count, sizeof *features->feature, by_key);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++) {
            const Kolo__FeatureEntry *entry = features->feature[i];
            if (!entry->key || !values_in(entry->value) || (picture && is_size(entry->key))) continue;
            if (s->label.name && strcmp(entry->key, s->label.name) == 0) continue;
            bool string = entry->value->kind_case == KOLO__FEATURE__KIND_BYTES_LIST;
            if (pass == 0) strings += string;
            else if (string == (strings == 1)) KOLO_TRY(add_column(s, example, entry->key));
        }
    if (s->count) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT,
                     "%s: record %" PRId64 ": wanted a feature of bytes, or of numbers, got %zu of bytes"
                     " and none of numbers: name those to be read in .features",
                     s->path, s->number, strings);
}

static kolo_status find_label(set *s, const Kolo__Example *example)
{
    const char *name = s->args->label;
    if (s->args->no_label) return KOLO_OK;
    for (size_t i = 0; !name && example->features && i < example->features->n_feature; i++) {
        const char *key = example->features->feature[i]->key;
        if (key && is_called(key, "label")) name = key;
    }
    if (!name) return KOLO_OK;
    const Kolo__Feature *feature = find(example, name);
    size_t count = values_in(feature);
    if (!feature) return wrong(s, name, "it in every example, since .label says so", "none");
    if (count == 0 || count > ELEMENTS_MAX || feature->kind_case == KOLO__FEATURE__KIND_BYTES_LIST)
        return wrong(s, name, "a label of numbers", kind_name(feature->kind_case));
    if (!(s->label.name = strdup(name))) return kolo_fail_memory(strlen(name), "the name of a feature");
    s->label.kind = feature->kind_case, s->label.count = count;
    bool real = feature->kind_case == KOLO__FEATURE__KIND_FLOAT_LIST;
    if (real) s->arrays->target_shape = (kolo_shape){1, {(int)count}};
    s->arrays->label_count = real ? 1 : (int)count;
    return KOLO_OK;
}

static const char *picture_format(const Kolo__Feature *feature)
{
    const ProtobufCBinaryData *bytes = &feature->bytes_list->value[0];
    if (bytes->len > 3 && memcmp(bytes->data, "\xff\xd8\xff", 3) == 0) return "a JPEG picture";
    return bytes->len > 4 && memcmp(bytes->data, "\x89PNG", 4) == 0 ? "a PNG picture" : NULL;
}

/* Sets the shape of a sample: .shape; or {height, width, depth}, if there is a single feature of so many values; else
 * one axis. Fails if a feature of bytes does not have the size that its height and width give. */
static kolo_status choose_shape(set *s, const Kolo__Example *example)
{
    kolo_shape *shape = &s->arrays->shape, picture = picture_of(example, s->elements);
    int64_t height = size_in(example, "height"), width = size_in(example, "width"), depth = depth_in(example);
    bool bytes = s->columns[0].kind == KOLO__FEATURE__KIND_BYTES_LIST;
    const char *format = bytes ? picture_format(find(example, s->columns[0].name)) : NULL;
    *shape = (kolo_shape){1, {(int)s->elements}};
    if (s->args->shape[0]) KOLO_TRY(kolo_check_shape(".shape", s->args->shape, shape));
    else if (picture.rank && s->count == 1 && s->elements > 1) *shape = picture;
    else if (bytes && height > 0 && width > 0 && height < ELEMENTS_MAX && width < ELEMENTS_MAX)
        *shape = (kolo_shape){3, {(int)height, (int)width, depth > 0 && depth < ELEMENTS_MAX ? (int)depth : 1}};
    int64_t wanted = 1;
    for (int axis = 0; axis < shape->rank; axis++)
        if (__builtin_mul_overflow(wanted, shape->dim[axis], &wanted)) wanted = INT64_MAX;
    if (wanted == s->elements && !(format && shape->rank == 1)) return KOLO_OK;
    if (format) return wrong(s, s->columns[0].name, "raw pixels", format);
    return wrong(s, s->columns[0].name, kolo_phrase("the %" PRId64 " values of %s", wanted, kolo_shape_text(*shape)),
                 kolo_phrase("%" PRId64, s->elements));
}

static kolo_status look_at_first(set *s, Kolo__Example *example)
{
    KOLO_TRY(find_label(s, example));
    for (int i = 0; i < KOLO_TFRECORD_NAMES_MAX && s->args->features[i]; i++)
        KOLO_TRY(add_column(s, example, s->args->features[i]));
    if (s->count == 0) KOLO_TRY(choose_columns(s, example));
    bool bytes = s->columns[0].kind == KOLO__FEATURE__KIND_BYTES_LIST;
    for (int i = 0; i < s->count; i++) {
        if (s->columns[i].kind == KOLO__FEATURE__KIND_BYTES_LIST && s->count > 1)
            return wrong(s, s->columns[i].name, "bytes as the only feature", "others beside it");
        if (s->columns[i].kind != KOLO__FEATURE__KIND_INT64_LIST && s->args->tokens)
            return wrong(s, s->columns[i].name, "whole numbers, for .tokens", kind_name(s->columns[i].kind));
    }
    s->arrays->scale = (float)(s->args->scale != 0 ? s->args->scale : bytes ? 1.0 / 255 : 1);
    return choose_shape(s, example);
}

/* ------------------------------------------------------------------------------------------ every example */

static kolo_status grow(void **block, bool wanted, int64_t room, int64_t each)
{
    size_t bytes;
    if (!wanted) return KOLO_OK;
    void *moved = __builtin_mul_overflow((size_t)room, (size_t)each, &bytes) ? NULL : realloc(*block, bytes);
    if (!moved) return kolo_fail_memory((size_t)room * (size_t)each, "the examples");
    *block = moved;
    return KOLO_OK;
}

static kolo_status make_room(set *s, int64_t room)
{
    kolo_arrays *a = s->arrays;
    bool bytes = s->columns[0].kind == KOLO__FEATURE__KIND_BYTES_LIST, real = a->target_shape.rank > 0;
    KOLO_TRY(grow((void **)&a->bytes, bytes, room, s->elements));
    KOLO_TRY(grow((void **)&a->tokens, s->args->tokens, room, s->elements * (int64_t)sizeof(int32_t)));
    KOLO_TRY(grow((void **)&a->floats, !bytes && !s->args->tokens, room, s->elements * (int64_t)sizeof(float)));
    KOLO_TRY(grow((void **)&a->labels, s->label.name && !real, room, a->label_count * (int64_t)sizeof(int32_t)));
    KOLO_TRY(grow((void **)&a->targets, real, room, (int64_t)(s->label.count * sizeof(float))));
    s->room = room;
    return KOLO_OK;
}

/* Finds a feature; fails unless it has the kind and the number of values that the first example has. */
static kolo_status alike(const set *s, const Kolo__Example *example, const column *c, const Kolo__Feature **feature)
{
    *feature = find(example, c->name);
    if (!*feature || (*feature)->kind_case != c->kind)
        return wrong(s, c->name, kind_name(c->kind), kind_name(*feature ? (*feature)->kind_case : 0));
    if (values_in(*feature) != c->count)
        return wrong(s, c->name, kolo_phrase("%zu values, as the first example has", c->count),
                     kolo_phrase("%zu", values_in(*feature)));
    return KOLO_OK;
}

static kolo_status whole(const set *s, const column *c, const Kolo__Feature *feature, int32_t *target)
{
    int64_t most = c == &s->label && s->args->classes ? s->args->classes - 1 : INT32_MAX - 1;
    for (size_t i = 0; i < c->count; i++) {
        int64_t value = feature->int64_list->value[i];
        if (value < 0 || value > most)
            return wrong(s, c->name, kolo_phrase("0 to %" PRId64, most), kolo_phrase("%" PRId64, value));
        target[i] = (int32_t)value;
    }
    return KOLO_OK;
}

static kolo_status take_column(set *s, const Kolo__Example *example, const column *c, int64_t at)
{
    const Kolo__Feature *feature;
    float scale = s->arrays->scale;
    KOLO_TRY(alike(s, example, c, &feature));
    if (s->arrays->bytes) memcpy(s->arrays->bytes + at, feature->bytes_list->value[0].data, c->count);
    if (s->arrays->tokens) return whole(s, c, feature, s->arrays->tokens + at);
    for (size_t i = 0; s->arrays->floats && i < c->count; i++)
        s->arrays->floats[at + (int64_t)i] =
            scale * (c->kind == KOLO__FEATURE__KIND_FLOAT_LIST ? feature->float_list->value[i]
                                                               : (float)feature->int64_list->value[i]);
    return KOLO_OK;
}

static kolo_status take_label(set *s, const Kolo__Example *example)
{
    const Kolo__Feature *feature;
    int64_t at = s->arrays->samples * (int64_t)s->label.count;
    if (!s->label.name) return KOLO_OK;
    KOLO_TRY(alike(s, example, &s->label, &feature));
    if (s->arrays->labels) return whole(s, &s->label, feature, s->arrays->labels + at);
    memcpy(s->arrays->targets + at, feature->float_list->value, s->label.count * sizeof(float));
    return KOLO_OK;
}

static kolo_status check_sizes(const set *s, const Kolo__Example *example)
{
    const kolo_shape *shape = &s->arrays->shape;
    for (int axis = 0; axis < 2 && shape->rank == 3 && !s->args->shape[0]; axis++) {
        int64_t size = size_in(example, sizes[axis]);
        if (size != shape->dim[axis])
            return wrong(s, sizes[axis], kolo_phrase("%d, as the first example has", shape->dim[axis]),
                         kolo_phrase("%" PRId64, size));
    }
    return KOLO_OK;
}

static kolo_status take_example(set *s, Kolo__Example *example)
{
    int64_t at = s->arrays->samples * s->elements;
    if (s->count == 0) {
        KOLO_TRY(look_at_first(s, example));
        at = 0;
    }
    if (s->arrays->samples == KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted at most %d examples, got more", s->path, KOLO_SAMPLES_MAX);
    if (s->arrays->samples == s->room) KOLO_TRY(make_room(s, s->room ? s->room * 2 : 16));
    KOLO_TRY(check_sizes(s, example));
    for (int i = 0; i < s->count; i++) {
        KOLO_TRY(take_column(s, example, &s->columns[i], at));
        at += (int64_t)s->columns[i].count;
    }
    KOLO_TRY(take_label(s, example));
    s->arrays->samples++;
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ files */

static kolo_status read_records(set *s, kolo_reader *file, kolo_record *record)
{
    for (bool ended;;) {
        KOLO_TRY(kolo_record_next(file, record, &ended));
        if (ended) return KOLO_OK;
        s->number = record->number;
        Kolo__Example *example = kolo__example__unpack(NULL, (size_t)record->size, record->bytes);
        if (!example)
            return kolo_fail(KOLO_FORMAT,
                             "%s: record %" PRId64 ": wanted a tf.train.Example, got %" PRId64 " other bytes", s->path,
                             s->number, record->size);
        kolo_status status = take_example(s, example);
        kolo__example__free_unpacked(example, NULL);
        KOLO_TRY(status);
    }
}

static kolo_status read_file(set *s, const char *path)
{
    kolo_reader *file;
    kolo_record record = {.number = -1};
    s->path = path;
    KOLO_TRY(kolo_reader_open(&file, path, "a TFRecord file"));
    kolo_status status = read_records(s, file, &record);
    kolo_reader_close(file);
    free(record.bytes);
    return status;
}

/* Reads one file, or those that match a pattern, in the order of their names. A path that exists is not a pattern,
 * even with a '*' in it. */
static kolo_status read_files(set *s, const char *path)
{
    glob_t found;
    FILE *itself = fopen(path, "rb");
    if (itself) fclose(itself);
    if (itself || !strpbrk(path, "*?[")) return read_file(s, path);
    kolo_status status = KOLO_OK;
    int result = glob(path, 0, NULL, &found);
    if (result == GLOB_NOSPACE) return kolo_fail_memory(1 << 16, "the names of files");
    if (result != 0) return kolo_fail(KOLO_NOT_FOUND, "%s: wanted files that match this pattern, got none", path);
    for (size_t i = 0; i < found.gl_pathc && status == KOLO_OK; i++) status = read_file(s, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

/* Gives back the memory beyond `samples` samples, since memory is doubled as it fills. */
static void trim(void *block_pointer, int64_t samples, int64_t each)
{
    void **block = block_pointer;
    size_t bytes = (size_t)(samples * each);
    void *moved = *block && bytes ? realloc(*block, bytes) : NULL;
    if (moved) *block = moved;
}

kolo_status kolo_tfrecord_read(kolo_arrays *arrays, const kolo_tfrecord_args *args)
{
    arrays->classes = args->classes;
    if (!args->path || !*args->path)
        return kolo_fail(KOLO_INVALID, "wanted the name of a TFRecord file, got %s",
                         args->path ? "an empty one" : "NULL");
    if (args->classes < 0) return kolo_fail(KOLO_INVALID, "wanted .classes of at least 1, got %d", args->classes);
    set *s = calloc(1, sizeof *s);
    if (!s) return kolo_fail_memory(sizeof *s, "reading examples");
    s->args = args, s->arrays = arrays;
    kolo_status status = read_files(s, args->path);
    if (status == KOLO_OK && arrays->samples == 0)
        status = kolo_fail(KOLO_FORMAT, "%s: wanted examples, got none", args->path);
    if (status == KOLO_OK) {
        trim(&arrays->bytes, arrays->samples, s->elements);
        trim(&arrays->floats, arrays->samples, s->elements * (int64_t)sizeof(float));
        snprintf(arrays->source, sizeof arrays->source, "%s", args->path);
    }
    for (int i = 0; i < s->count; i++) free(s->columns[i].name);
    free(s->label.name);
    free(s);
    return status;
}

kolo_data *kolo_tfrecord_at(const kolo_tfrecord_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_tfrecord", here);
    return kolo_arrays_leave(scope, kolo_tfrecord_read(&arrays, args), &arrays);
}
