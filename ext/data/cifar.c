/* CIFAR-10 and CIFAR-100 in their binary form: records of one label byte (CIFAR-100: a coarse and a fine one), then
 * 3072 bytes of a 32×32 image, all red, then all green, then all blue (A. Krizhevsky, "Learning multiple layers of
 * features from tiny images", 2009). The images are converted to channels last. Read reader.h and sources.h first. */
#include "data/cifar.h"
#include "data/dictionary.h"
#include "data/folder.h"
#include "data/reader.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE        32
#define PIXELS      (SIDE * SIDE)
#define IMAGE       (3 * PIXELS)
#define BATCHES_MAX 5

typedef struct cifar_kind {
    int classes, label_bytes; /* the last one is used */
    const char *train[BATCHES_MAX + 1], *test[2], *names;
} cifar_kind;

/* File names are patterns, which match .bin, .bin.gz and .bin.xz. The test batch may be a part of CIFAR's, such as
 * test_batch_first1000.bin. */
static const cifar_kind kinds[] = {
    {10,
     1,
     {"data_batch_1.bin*", "data_batch_2.bin*", "data_batch_3.bin*", "data_batch_4.bin*", "data_batch_5.bin*"},
     {"test_batch*.bin*"},
     "batches.meta.txt"},
    {100, 2, {"train.bin*"}, {"test.bin*"}, "fine_label_names.txt"},
};

/* One file. Each is read by a separate thread, since decompressing five of them takes seconds. */
typedef struct batch {
    char path[PATH_MAX];
    const cifar_kind *kind;
    uint8_t *bytes; /* contents of the file, decompressed */
    int64_t records;
    kolo_status status;
    kolo_failure failure;
} batch;

/* ------------------------------------------------------------------------------------------ one file */

static kolo_status check_labels(const batch *b, int record)
{
    for (int64_t i = 0; i < b->records; i++) {
        int label = b->bytes[i * record + b->kind->label_bytes - 1];
        if (label >= b->kind->classes)
            return kolo_fail(KOLO_FORMAT, "%s: record %" PRId64 ": wanted a label of 0 to %d, got %d", b->path, i,
                             b->kind->classes - 1, label);
    }
    return KOLO_OK;
}

static kolo_status read_records(batch *b, kolo_reader *file)
{
    int64_t size;
    int record = IMAGE + b->kind->label_bytes;
    KOLO_TRY(kolo_reader_take(file, (int64_t)KOLO_SAMPLES_MAX * record, &b->bytes, &size));
    KOLO_TRY(kolo_reader_finish(file, "the largest number of records"));
    if (size == 0 || size % record != 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted whole records of %d bytes, got %" PRId64 " bytes", b->path, record,
                         size);
    b->records = size / record;
    return check_labels(b, record);
}

static kolo_status read_batch(batch *b)
{
    kolo_reader *file;
    KOLO_TRY(kolo_reader_open(&file, b->path, "a file of CIFAR's records"));
    kolo_status status = read_records(b, file);
    kolo_reader_close(file);
    return status;
}

static void *read_in_thread(void *argument)
{
    batch *b = argument;
    b->status = read_batch(b);
    b->failure = kolo_failure_take();
    return NULL;
}

/* ------------------------------------------------------------------------------------------ all of them */

static kolo_status read_batches(batch *batches, int count)
{
    kolo_status status = KOLO_OK;
    int together = kolo_threads() < BATCHES_MAX ? kolo_threads() : BATCHES_MAX;
    for (int first = 0; first < count && status == KOLO_OK; first += together) {
        pthread_t threads[BATCHES_MAX];
        bool started[BATCHES_MAX] = {false};
        int some = count - first < together ? count - first : together;
        for (int i = 1; i < some; i++)
            started[i] = pthread_create(&threads[i], NULL, read_in_thread, &batches[first + i]) == 0;
        for (int i = 0; i < some; i++)
            if (started[i]) pthread_join(threads[i], NULL);
            else read_in_thread(&batches[first + i]);
        for (int i = 0; i < some && status == KOLO_OK; i++) {
            status = batches[first + i].status;
            if (status != KOLO_OK) kolo_failure_give(&batches[first + i].failure);
        }
    }
    return status;
}

static void channels_last(const uint8_t *from, uint8_t *to)
{
    for (int pixel = 0; pixel < PIXELS; pixel++)
        for (int channel = 0; channel < 3; channel++) to[3 * pixel + channel] = from[channel * PIXELS + pixel];
}

static kolo_status join(kolo_arrays *arrays, const batch *batches, int count)
{
    int64_t samples = 0, done = 0;
    const cifar_kind *kind = batches[0].kind;
    for (int i = 0; i < count; i++) samples += batches[i].records;
    if (samples > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted at most %d records, got %" PRId64, batches[0].path, KOLO_SAMPLES_MAX,
                         samples);
    arrays->bytes = malloc((size_t)samples * IMAGE);
    arrays->labels = malloc((size_t)samples * sizeof *arrays->labels);
    if (!arrays->bytes || !arrays->labels) return kolo_fail_memory((size_t)samples * (IMAGE + 4), "the images");
    for (int i = 0; i < count; i++)
        for (int64_t k = 0; k < batches[i].records; k++, done++) {
            const uint8_t *record = batches[i].bytes + k * (IMAGE + kind->label_bytes);
            arrays->labels[done] = record[kind->label_bytes - 1];
            channels_last(record + kind->label_bytes, arrays->bytes + done * IMAGE);
        }
    arrays->samples = samples;
    arrays->shape = (kolo_shape){3, {SIDE, SIDE, 3}};
    arrays->scale = 1.0f / 255.0f;
    arrays->label_count = 1;
    snprintf(arrays->source, sizeof arrays->source, "%.199s", batches[0].path);
    arrays->classes = kind->classes;
    return KOLO_OK;
}

/* Reads one name per line. Warns and sets no names if the file has another number of them than there are classes. */
static kolo_status read_names(kolo_arrays *arrays, const char *folder, const cifar_kind *kind)
{
    char path[PATH_MAX];
    uint8_t *text;
    int64_t size;
    kolo_dictionary names = {0};
    kolo_status status = KOLO_OK;
    if (!kolo_folder_find(path, folder, kind->names)) return KOLO_OK;
    KOLO_TRY(kolo_reader_whole(path, "a name for each class", &text, &size));
    for (char *line = (char *)text, *next; status == KOLO_OK && *line; line = next) {
        int32_t number;
        size_t length = strcspn(line, "\r\n");
        next = line + length + strspn(line + length, "\r\n");
        if (length) status = kolo_dictionary_add(&names, line, length, &number);
    }
    if (status == KOLO_OK && names.size == kind->classes)
        status = kolo_dictionary_names(&names, NULL, 0, NULL, kind->classes, &arrays->class_names);
    else if (status == KOLO_OK)
        kolo_warn("%s: wanted %d names of classes, got %d: they are left out", path, kind->classes, names.size);
    kolo_dictionary_free(&names);
    free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------ a folder of them */

static int find_batches(batch *batches, const char *folder, const cifar_kind *kind, kolo_split split)
{
    int found = 0;
    for (const char *const *name = split == KOLO_TEST ? kind->test : kind->train; *name; name++) {
        batches[found].kind = kind;
        found += kolo_folder_find(batches[found].path, folder, *name);
    }
    return found;
}

bool kolo_cifar_in(const char *folder)
{
    bool found = false;
    batch *batches = calloc(BATCHES_MAX + 1, sizeof *batches);
    for (int i = 0; batches && i < 4; i++)
        found |= find_batches(batches, folder, &kinds[i / 2], i % 2 ? KOLO_TEST : KOLO_TRAIN) > 0;
    free(batches);
    return found;
}

static kolo_status read_found(kolo_arrays *arrays, batch *batches, int count, const char *folder)
{
    KOLO_TRY(read_batches(batches, count));
    KOLO_TRY(join(arrays, batches, count));
    return read_names(arrays, folder, batches[0].kind);
}

kolo_status kolo_cifar_read(kolo_arrays *arrays, const char *folder, kolo_split split)
{
    int count = 0, wanted = 1;
    batch *batches = calloc(BATCHES_MAX + 1, sizeof *batches);
    if (!batches) return kolo_fail_memory((BATCHES_MAX + 1) * sizeof *batches, "a list of files");
    for (int i = 0; i < 2 && count == 0; i++) {
        count = find_batches(batches, folder, &kinds[i], split);
        wanted = i == 0 && split == KOLO_TRAIN ? BATCHES_MAX : 1;
    }
    kolo_status status;
    if (count == 0)
        status = kolo_fail(KOLO_NOT_FOUND, "%s: wanted files %s.bin, .gz or .xz in this folder, got none", folder,
                           split == KOLO_TEST ? "test_batch" : "data_batch_1 … 5");
    else status = read_found(arrays, batches, count, folder);
    if (status == KOLO_OK && count < wanted)
        kolo_warn("%s holds %d of CIFAR-10's %d training batches: training on those", folder, count, wanted);
    for (int i = 0; i < count; i++) free(batches[i].bytes);
    free(batches);
    return status;
}
