/* Writing data sets as TFRecord files of tf.train.Example. Read record.h and example.proto first. */
#include "core/utf8.h"
#include "data/data.h"
#include "data/example.pb-c.h"
#include "data/record.h"

#include <stdio.h>
#include <stdlib.h>

#define ENTRIES_MAX 5 /* features, label, height, width, depth */

/* The messages of an example, which point at each other, and the buffers for one sample. */
typedef struct example {
    Kolo__Example message;
    Kolo__Features features;
    Kolo__FeatureEntry entries[ENTRIES_MAX], *pointers[ENTRIES_MAX];
    Kolo__Feature values[ENTRIES_MAX];
    Kolo__BytesList bytes;
    Kolo__FloatList floats[ENTRIES_MAX];
    Kolo__Int64List integers[ENTRIES_MAX];
    ProtobufCBinaryData string;
    int64_t sizes[3], *tokens, *labels; /* of one sample */
    float *numbers, *targets;
    int32_t *gathered;
    uint8_t *packed;
    size_t room;
} example;

typedef struct writer {
    const kolo_data *data;
    const kolo_tfrecord_write_args *args;
    const char *features, *label;
    example e;
} writer;

/* ------------------------------------------------------------------------------------------ an example */

static Kolo__Feature *add_entry(example *e, const char *name)
{
    size_t i = e->features.n_feature++;
    kolo__feature_entry__init(&e->entries[i]);
    kolo__feature__init(&e->values[i]);
    e->entries[i].key = (char *)name; /* protobuf-c only reads it */
    e->entries[i].value = &e->values[i];
    e->pointers[i] = &e->entries[i];
    return &e->values[i];
}

static void add_floats(example *e, const char *name, const float *values, size_t count)
{
    Kolo__FloatList *list = &e->floats[e->features.n_feature];
    Kolo__Feature *feature = add_entry(e, name);
    kolo__float_list__init(list);
    list->value = (float *)values, list->n_value = count;
    feature->kind_case = KOLO__FEATURE__KIND_FLOAT_LIST, feature->float_list = list;
}

static void add_integers(example *e, const char *name, int64_t *values, size_t count)
{
    Kolo__Int64List *list = &e->integers[e->features.n_feature];
    Kolo__Feature *feature = add_entry(e, name);
    kolo__int64_list__init(list);
    list->value = values, list->n_value = count;
    feature->kind_case = KOLO__FEATURE__KIND_INT64_LIST, feature->int64_list = list;
}

static void add_bytes(example *e, const char *name, const uint8_t *bytes, size_t count)
{
    Kolo__Feature *feature = add_entry(e, name);
    e->string = (ProtobufCBinaryData){count, (uint8_t *)bytes};
    kolo__bytes_list__init(&e->bytes);
    e->bytes.value = &e->string, e->bytes.n_value = 1;
    feature->kind_case = KOLO__FEATURE__KIND_BYTES_LIST, feature->bytes_list = &e->bytes;
}

static void add_sizes(example *e, kolo_shape shape)
{
    static const char *const names[] = {"height", "width", "depth"};
    for (int axis = 0; axis < 3; axis++) {
        e->sizes[axis] = shape.dim[axis];
        add_integers(e, names[axis], &e->sizes[axis], 1);
    }
}

static void widen(const int32_t *from, int64_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = from[i];
}

/* Fills in the messages with a sample. Bytes are written unscaled; other features as a network would get them. */
static kolo_status fill(writer *w, int64_t sample)
{
    const kolo_data *data = w->data;
    example *e = &w->e;
    size_t elements = (size_t)kolo_shape_count(data->shape), labels = (size_t)data->label_count;
    size_t targets = (size_t)kolo_shape_count(data->target_shape), at = (size_t)sample;
    kolo_gathered to = {.labels = e->gathered};
    if (!data->bytes && !data->tokens) to.features = e->numbers;
    if (!data->has_labels && data->has_targets) to.targets = e->targets, to.outputs = (int64_t)targets;
    KOLO_TRY(kolo_data_gather(data, NULL, NULL, sample, 1, &to));
    e->features.n_feature = 0;
    if (data->bytes) add_bytes(e, w->features, data->bytes + at * elements, elements);
    if (data->shape.rank == 3) add_sizes(e, data->shape);
    if (data->has_tokens) {
        for (size_t i = 0; i < elements; i++)
            e->tokens[i] = data->tokens ? data->tokens[at * elements + i] : (int64_t)e->numbers[i];
        add_integers(e, w->features, e->tokens, elements);
    } else if (!data->bytes) add_floats(e, w->features, e->numbers, elements);
    if (data->has_labels) {
        widen(e->gathered, e->labels, labels);
        add_integers(e, w->label, e->labels, labels);
    } else if (data->has_targets) add_floats(e, w->label, e->targets, targets);
    return KOLO_OK;
}

static kolo_status write_sample(writer *w, kolo_record_file *file, int64_t sample)
{
    example *e = &w->e;
    KOLO_TRY(fill(w, sample));
    size_t size = kolo__example__get_packed_size(&e->message);
    if (size > e->room) {
        uint8_t *moved = realloc(e->packed, size);
        if (!moved) return kolo_fail_memory(size, "an example");
        e->packed = moved, e->room = size;
    }
    kolo__example__pack(&e->message, e->packed);
    return kolo_record_add(file, e->packed, size);
}

/* ------------------------------------------------------------------------------------------ files */

static kolo_status write_samples(writer *w, const char *path, bool gzip, int64_t first, int64_t beyond)
{
    kolo_record_file *file = malloc(sizeof *file);
    if (!file) return kolo_fail_memory(sizeof *file, "writing a file");
    kolo_status status = kolo_record_begin(file, path, gzip);
    if (status == KOLO_OK) {
        for (int64_t i = first; i < beyond && status == KOLO_OK; i++) status = write_sample(w, file, i);
        if (status == KOLO_OK) status = kolo_record_commit(file);
        else kolo_record_abandon(file);
    }
    free(file);
    return status;
}

/* Writes one file, or shards with TensorFlow's names: "train.tfrecord-00000-of-00004". */
static kolo_status write_shards(writer *w)
{
    const char *path = w->args->path;
    int64_t samples = w->data->samples, shards = w->args->shards ? w->args->shards : 1;
    bool gzip = w->args->gzip || kolo_ends_with(path, ".gz");
    for (int64_t i = 0; i < shards; i++) {
        char name[PATH_MAX];
        int length = shards == 1 ? snprintf(name, sizeof name, "%s", path)
                                 : snprintf(name, sizeof name, "%s-%05d-of-%05d", path, (int)i, (int)shards);
        if (length >= (int)sizeof name) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got one too long");
        KOLO_TRY(write_samples(w, name, gzip, samples * i / shards, samples * (i + 1) / shards));
    }
    return KOLO_OK;
}

static kolo_status check(const kolo_tfrecord_write_args *args)
{
    if (!args->path || !*args->path)
        return kolo_fail(KOLO_INVALID, "wanted the name of a file, got %s", args->path ? "an empty one" : "NULL");
    if (args->shards < 0 || args->shards > 99999 || args->shards > args->data->samples)
        return kolo_fail(KOLO_INVALID, "wanted .shards of 1 to the number of samples, at most 99999, got %d",
                         args->shards);
    return KOLO_OK;
}

static kolo_status write_all(const kolo_tfrecord_write_args *args)
{
    const kolo_data *data = args->data;
    KOLO_TRY(check(args));
    writer *w = calloc(1, sizeof *w);
    if (!w) return kolo_fail_memory(sizeof *w, "writing examples");
    w->data = data, w->args = args;
    w->features = args->features ? args->features : data->bytes ? "image_raw" : "features";
    w->label = args->label ? args->label : "label";
    kolo__example__init(&w->e.message);
    kolo__features__init(&w->e.features);
    w->e.message.features = &w->e.features;
    w->e.features.feature = w->e.pointers;
    w->e.tokens = malloc((size_t)kolo_shape_count(data->shape) * sizeof *w->e.tokens);
    w->e.numbers = malloc((size_t)kolo_shape_count(data->shape) * sizeof *w->e.numbers);
    w->e.targets = malloc((size_t)kolo_shape_count(data->target_shape) * sizeof *w->e.targets + 1);
    w->e.labels = malloc((size_t)data->label_count * sizeof *w->e.labels);
    w->e.gathered = malloc((size_t)data->label_count * sizeof *w->e.gathered);
    bool fine = w->e.tokens && w->e.numbers && w->e.targets && w->e.labels && w->e.gathered;
    kolo_status status = fine ? write_shards(w) : kolo_fail_memory(1 << 16, "writing examples");
    free(w->e.tokens), free(w->e.numbers), free(w->e.targets), free(w->e.labels), free(w->e.gathered);
    free(w->e.packed), free(w);
    return status;
}

kolo_status kolo_tfrecord_write_at(const kolo_tfrecord_write_args *args, kolo_here here)
{
    if (!args->data) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_tfrecord_write", here);
    return kolo_leave(scope, write_all(args));
}
