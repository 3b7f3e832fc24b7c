/* Writes event files for TensorBoard: records in the format of TFRecord (data/record.h), each a tensorflow.Event
 * (tensorflow/core/util/event.proto):
 *
 *     message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
 *     message Summary { message Value { string tag = 1; float simple_value = 2; } repeated Value value = 1; }
 *
 * The tags are those of Keras's TensorBoard: epoch_loss in train/ and validation/, batch_loss in train/. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "callbacks/callbacks.h"
#include "core/crc32c.h"

typedef struct state {
    FILE *train, *validation; /* `validation` is opened with its first number */
    int64_t batches;          /* batches trained so far: the step of batch_loss */
} state;

static void release(kolo_callback *self)
{
    state *s = self->state;
    if (s && s->train) fclose(s->train);
    if (s && s->validation) fclose(s->validation);
    kolo_callback_close(self);
}

/* ---------------------------------------------------------------- messages */

/* A protocol buffer message. Tags are short, so it does not get full. */
typedef struct message {
    uint8_t bytes[1024];
    size_t size;
} message;

static void add_bytes(message *m, const void *bytes, size_t size)
{
    if (m->size + size > sizeof m->bytes) return;
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void add_varint(message *m, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        add_bytes(m, &byte, 1);
        value >>= 7;
    } while (value);
}

typedef enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire;

static void add_key(message *m, int field, wire type)
{
    add_varint(m, (uint64_t)field << 3 | (uint64_t)type);
}

static void add_block(message *m, int field, const void *bytes, size_t size)
{
    add_key(m, field, BYTES);
    add_varint(m, size);
    add_bytes(m, bytes, size);
}

static message begin_event(int64_t step)
{
    message event = {.size = 0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    add_key(&event, 1, FIXED64);
    add_bytes(&event, &seconds, sizeof seconds);
    add_key(&event, 2, VARINT);
    add_varint(&event, (uint64_t)step);
    return event;
}

static void write_event(FILE *file, const message *event)
{
    uint64_t length = event->size;
    uint32_t of_length = kolo_crc32c_masked(&length, sizeof length);
    uint32_t of_bytes = kolo_crc32c_masked(event->bytes, event->size);
    fwrite(&length, sizeof length, 1, file);
    fwrite(&of_length, sizeof of_length, 1, file);
    fwrite(event->bytes, 1, event->size, file);
    fwrite(&of_bytes, sizeof of_bytes, 1, file);
}

static void write_scalar(FILE *file, int64_t step, const char *tag, double number)
{
    message event = begin_event(step), summary = {.size = 0}, value = {.size = 0};
    float simple = (float)number;
    add_block(&value, 1, tag, strlen(tag));
    add_key(&value, 2, FIXED32);
    add_bytes(&value, &simple, sizeof simple);
    add_block(&summary, 1, value.bytes, value.size);
    add_block(&event, 5, summary.bytes, summary.size);
    write_event(file, &event);
}

/* ---------------------------------------------------------------- files */

static kolo_status open_file(const kolo_callback *self, const char *part, FILE **file)
{
    char path[PATH_MAX], host[65] = "localhost";
    const char *folder = self->tensorboard.folder ? self->tensorboard.folder : "logs", version[] = "brain.Event:2";
    gethostname(host, sizeof host - 1);
    int length = snprintf(path, sizeof path, "%s/%s/events.out.tfevents.%lld.%s.%ld.v2", folder, part,
                          (long long)time(NULL), host, (long)getpid());
    if (length >= (int)sizeof path) return kolo_fail(KOLO_INVALID, "wanted a shorter name of a folder");
    KOLO_TRY(kolo_make_folders(path));
    *file = fopen(path, "abe");
    if (!*file) return kolo_fail(KOLO_IO, "%s: wanted a file that can be written, got: %s", path, strerror(errno));
    message event = begin_event(0);
    add_block(&event, 3, version, sizeof version - 1);
    write_event(*file, &event);
    return KOLO_OK;
}

static kolo_status flush(FILE *file)
{
    return !file || fflush(file) == 0 ? KOLO_OK : kolo_fail(KOLO_IO, "writing events failed: %s", strerror(errno));
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    if (!kolo_callback_is_writer()) return;
    state *s = kolo_callback_open(self, sizeof *s);
    if (s && self->tensorboard.update_freq < 0)
        kolo_callback_report(self, kolo_fail(KOLO_INVALID, ".update_freq: wanted at least 1, got %d",
                                             self->tensorboard.update_freq));
    else if (s) kolo_callback_report(self, open_file(self, "train", &s->train));
}

static void end_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    state *s = self->state;
    int every = self->tensorboard.update_freq;
    (void)batch;
    if (!s || !s->train || !logs || every == 0) return;
    s->batches++;
    if (s->batches % every != 0) return;
    for (int i = 0; i < logs->count; i++)
        write_scalar(s->train, s->batches, kolo_phrase("batch_%s", logs->names[i]), logs->values[i]);
    kolo_callback_report(self, flush(s->train));
}

static kolo_status write_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    for (int i = 0; i < logs->count; i++) {
        bool validation = strncmp(logs->names[i], "val_", 4) == 0;
        if (validation && !s->validation) KOLO_TRY(open_file(self, "validation", &s->validation));
        const char *tag = kolo_phrase("epoch_%s", logs->names[i] + (validation ? 4 : 0));
        write_scalar(validation ? s->validation : s->train, epoch, tag, logs->values[i]);
    }
    KOLO_TRY(flush(s->train));
    return flush(s->validation);
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    if (s && s->train && logs) kolo_callback_report(self, write_epoch(self, epoch, logs));
}

static void end(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    release(self);
}

kolo_callback kolo_tensorboard_of(kolo_tensorboard_args args)
{
    return (kolo_callback){.name = "tensorboard",
                           .on_train_begin = begin,
                           .on_train_batch_end = end_batch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = end,
                           .tensorboard = args,
                           .release = release};
}
