/* Functions that Kolo's callbacks share: see callbacks.h. */
#include "callbacks/callbacks.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "saving/save.h"
#include "show/show.h"

void *kolo_callback_open(kolo_callback *self, size_t bytes)
{
    if (self->release) self->release(self);
    self->state = calloc(1, bytes);
    if (!self->state) kolo_callback_report(self, kolo_fail_memory(bytes, "a callback"));
    return self->state;
}

void kolo_callback_close(kolo_callback *self)
{
    free(self->state);
    self->state = NULL;
}

void kolo_callback_end(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    kolo_callback_close(self);
}

void kolo_callback_report(kolo_callback *self, kolo_status status)
{
    bool in_fit = self->model && self->model->fitting;
    if (status == KOLO_OK || (in_fit && self->model->callback_status != KOLO_OK)) return; /* the first counts */
    kolo_failure failure = kolo_failure_take();
    kolo_scope scope = {0};
    if (!in_fit) scope = kolo_enter(kolo_phrase("kolo_%s", self->name), (kolo_here){0});
    kolo_fail(status, "%s%s%s", in_fit ? "kolo_" : "", in_fit ? kolo_phrase("%s: ", self->name) : "", failure.text);
    if (in_fit) self->model->callback_status = status;
    else kolo_leave(scope, status);
}

bool kolo_callback_is_writer(void)
{
    return kolo_rank() == 0;
}

void kolo_callback_say(const kolo_callback *self, int verbose, const char *format, ...)
{
    if (verbose < 1 || !kolo_callback_is_writer()) return;
    if (self->model && self->model->progress) kolo_progress_break(self->model->progress);
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

/* ---------------------------------------------------------------- across a resume */

/* A long monitor, such as the path of a file, is cut and told apart by its checksum. */
static const char *key(const kolo_callback *self, const char *monitor, const char *what)
{
    size_t length = strlen(monitor);
    if (length > 28) monitor = kolo_phrase("%.19s-%08x", monitor, kolo_crc32c(monitor, length));
    return kolo_phrase("%.20s.%s.%.12s", self->name, monitor, what);
}

void kolo_callback_keep(kolo_callback *self, const char *monitor, const char *what, double value)
{
    if (self->model) kolo_numbers_set(&self->model->numbers, key(self, monitor, what), value);
}

static bool resumed(const kolo_callback *self)
{
    return self->model && self->model->fitting && self->model->resumed;
}

double kolo_callback_kept(const kolo_callback *self, const char *monitor, const char *what, double fallback)
{
    return resumed(self) ? kolo_numbers_get(&self->model->numbers, key(self, monitor, what), fallback) : fallback;
}

kolo_status kolo_callback_keep_weights(kolo_callback *self, const char *monitor)
{
    kolo_model *model = self->model;
    size_t bytes = (size_t)model->weight_count * sizeof(float);
    KOLO_TRY(kolo_weights_ready(model));
    float *weights = kolo_kept_add(&model->kept, key(self, monitor, "weights"), model->weight_count);
    if (!weights) return kolo_fail_memory(bytes, "the best weights");
    memcpy(weights, model->weights, bytes);
    return KOLO_OK;
}

bool kolo_callback_has_weights(const kolo_callback *self, const char *monitor)
{
    return resumed(self) && kolo_kept_find(&self->model->kept, key(self, monitor, "weights"));
}

kolo_status kolo_callback_take_weights(kolo_callback *self, const char *monitor)
{
    const float *weights = kolo_kept_find(&self->model->kept, key(self, monitor, "weights"));
    /* NULL: another hook may have loaded a checkpoint without them. */
    return weights ? kolo_weights_take(self->model, weights) : KOLO_OK;
}

/* ---------------------------------------------------------------- monitored numbers */

static int find(const kolo_logs *logs, const char *name)
{
    for (int i = 0; logs && i < logs->count; i++)
        if (strcmp(logs->names[i], name) == 0) return i;
    return -1;
}

bool kolo_logs_has(const kolo_logs *logs, const char *name)
{
    return find(logs, name) >= 0;
}

/* The default of .mode, by the number's name, with or without "val_". */
static bool larger_is_better(const char *name)
{
    static const char *const parts[] = {"acc",   "auc",   "precision",  "recall", "f1",
                                        "fbeta", "top_k", "per_second", "r2"};
    bool larger = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) larger = larger || strstr(name, parts[i]);
    return larger;
}

static const char *list_names(const kolo_logs *logs)
{
    const char *list = "";
    for (int i = 0; i < logs->count && i < 10; i++)
        list = kolo_phrase("%s%s\"%s\"", list, i ? ", " : "", logs->names[i]);
    return list;
}

kolo_status kolo_monitor_open(kolo_monitor *monitor, const char *name, kolo_mode mode, double min_delta,
                              const kolo_logs *logs)
{
    name = name ? name : "val_loss";
    bool larger = mode ? mode == KOLO_MAX : larger_is_better(name);
    *monitor = (kolo_monitor){.name = name, .larger = larger, .min_delta = fabs(min_delta), .best = NAN};
    if ((int)mode < 0 || mode > KOLO_MAX)
        return kolo_fail(KOLO_INVALID, ".mode: wanted KOLO_MIN or KOLO_MAX, got %d", (int)mode);
    if (!logs || logs->count == 0 || kolo_logs_has(logs, name)) return KOLO_OK;
    bool validation = strncmp(name, "val_", 4) == 0;
    return kolo_fail(KOLO_INVALID, ".monitor: wanted one of %s, got \"%.60s\"%s", list_names(logs), name,
                     validation ? " (kolo_fit() with .validation_data gives those with val_)" : "");
}

bool kolo_monitor_read(const kolo_monitor *monitor, const kolo_logs *logs, double *value)
{
    int i = find(logs, monitor->name);
    if (i >= 0) *value = logs->agreed[i];
    return i >= 0;
}

bool kolo_monitor_improves(const kolo_monitor *monitor, double value, double reference)
{
    if (isnan(value)) return false;
    if (isnan(reference)) return true;
    return monitor->larger ? value - monitor->min_delta > reference : value + monitor->min_delta < reference;
}
