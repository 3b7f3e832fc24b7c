/* Writes a row of all logs after each epoch, like Keras's CSVLogger. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "callbacks/callbacks.h"

typedef struct state {
    FILE *file;
    bool begun;  /* the file was cut to the rows before this training */
    bool header; /* the header is still to be written */
    int count;   /* number of columns; 0: not known yet */
    char columns[KOLO_LOGS_MAX][64];
} state;

static void release(kolo_callback *self)
{
    state *s = self->state;
    if (s && s->file) fclose(s->file);
    kolo_callback_close(self);
}

static kolo_status cannot(const kolo_callback *self)
{
    return kolo_fail(errno == ENOENT || errno == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO,
                     "%s: wanted a file that can be written, got: %s", self->csv_logger.path, strerror(errno));
}

static kolo_status open_file(kolo_callback *self, state *s)
{
    const kolo_csv_logger_args *args = &self->csv_logger;
    if (!args->path || !*args->path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got none");
    s->file = fopen(args->path, "ae");
    return s->file ? KOLO_OK : cannot(self);
}

/* The bytes of the file that are kept. For a resumed training these are the ones that the file had at the checkpoint,
 * since rows that were written later will be written again. */
static off_t bytes_kept(const kolo_callback *self, off_t size)
{
    double then = kolo_callback_kept(self, self->csv_logger.path, "bytes", -1);
    if (then >= 0) return then < (double)size ? (off_t)then : size;
    return self->csv_logger.append ? size : 0;
}

static void keep_size(kolo_callback *self, off_t size)
{
    kolo_callback_keep(self, self->csv_logger.path, "bytes", (double)size);
}

/* Cuts the file when the first epoch begins: only then is it known whether the training resumes from a backup. Only a
 * regular file can be cut. */
static void begin_file(kolo_callback *self, state *s)
{
    struct stat info;
    if (s->begun) return;
    s->begun = true;
    if (fstat(fileno(s->file), &info) != 0 || !S_ISREG(info.st_mode)) {
        s->header = true;
        return;
    }
    off_t kept = bytes_kept(self, info.st_size);
    if (ftruncate(fileno(s->file), kept) != 0) kolo_callback_report(self, cannot(self));
    s->header = kept == 0;
    keep_size(self, kept);
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    if (!kolo_callback_is_writer()) return;
    state *s = kolo_callback_open(self, sizeof *s);
    if (s) kolo_callback_report(self, open_file(self, s));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The first row fixes the columns; names that appear later are left out. */
static void choose_columns(state *s, const kolo_logs *logs)
{
    for (int i = 0; i < logs->count; i++) snprintf(s->columns[i], sizeof s->columns[i], "%s", logs->names[i]);
    s->count = logs->count;
    qsort(s->columns, (size_t)s->count, sizeof *s->columns, by_name);
}

/* Prints a number with the fewest digits, 15 to 17, that restore it exactly. */
static void print_number(FILE *file, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(isnan(value) ? "nan" : text, file);
}

static void print_row(state *s, const char *separator, int epoch, const kolo_logs *logs)
{
    fprintf(s->file, "%d", epoch);
    for (int i = 0; i < s->count; i++) {
        fputs(separator, s->file);
        if (kolo_logs_has(logs, s->columns[i])) print_number(s->file, kolo_logs_get(logs, s->columns[i]));
        else fputs("NA", s->file);
    }
    fputc('\n', s->file);
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    const char *separator = self->csv_logger.separator ? self->csv_logger.separator : ",";
    struct stat info;
    if (!s || !s->file || !logs) return;
    begin_file(self, s);
    if (!s->count) choose_columns(s, logs);
    if (s->header) fputs("epoch", s->file);
    for (int i = 0; s->header && i < s->count; i++) fprintf(s->file, "%s%s", separator, s->columns[i]);
    if (s->header) fputc('\n', s->file);
    s->header = false;
    print_row(s, separator, epoch, logs);
    if (fflush(s->file) != 0) kolo_callback_report(self, cannot(self));
    else if (fstat(fileno(s->file), &info) == 0) keep_size(self, info.st_size);
}

static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)epoch;
    (void)logs;
    if (s && s->file) begin_file(self, s);
}

static void end(kolo_callback *self, const kolo_logs *logs)
{
    state *s = self->state;
    (void)logs;
    if (s && s->file) begin_file(self, s);
    release(self);
}

kolo_callback kolo_csv_logger_of(kolo_csv_logger_args args)
{
    return (kolo_callback){.name = "csv_logger",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = end,
                           .csv_logger = args,
                           .release = release};
}
