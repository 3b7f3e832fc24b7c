/* Saves the model while it trains, like Keras's ModelCheckpoint. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "callbacks/callbacks.h"
#include "core/written.h"
#include "saving/save.h"

typedef struct state {
    kolo_monitor monitor;
    bool restored;
    int epoch;
    int seen, last_batch; /* batches since the last save; number of the last batch, -1: none yet */
} state;

/* ---------------------------------------------------------------- the path */

/* The text between braces: "epoch:02d", "val_loss:.2f", "accuracy". */
typedef struct field {
    char name[64], flags[16], type; /* type: 'd', 'f', 'e', 'g', or 0 */
} field;

/* Parses a field, whose text begins after the brace. Returns the character after its closing brace; NULL: the field
 * is not valid. */
static const char *read_field(const char *text, field *found)
{
    const char *end = strchr(text, '}'), *colon = memchr(text, ':', end ? (size_t)(end - text) : 0);
    size_t length = end ? (size_t)((colon ? colon : end) - text) : 0;
    *found = (field){0};
    if (length == 0 || length >= sizeof found->name) return NULL;
    memcpy(found->name, text, length);
    if (!colon) return end + 1;
    size_t digits = strspn(colon + 1, "0123456789.+ ");
    bool typed = colon[1 + digits] && strchr("dfeg", colon[1 + digits]) && colon + 2 + digits == end;
    if (digits >= sizeof found->flags || (!typed && colon + 1 + digits != end)) return NULL;
    memcpy(found->flags, colon + 1, digits);
    found->type = typed ? colon[1 + digits] : 0;
    return end + 1;
}

static kolo_status check_known(const field *one, bool by_batch, const kolo_logs *logs)
{
    if (strcmp(one->name, "epoch") == 0 || (by_batch && strcmp(one->name, "batch") == 0)) return KOLO_OK;
    if (!logs || logs->count == 0 || kolo_logs_has(logs, one->name)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "path: wanted {epoch}%s or a name of the logs between braces, got {%s}",
                     by_batch ? ", {batch}" : "", one->name);
}

static int print_field(char *to, size_t room, const field *one, double value)
{
    char format[32];
    bool whole = strcmp(one->name, "epoch") == 0 || strcmp(one->name, "batch") == 0 || one->type == 'd';
    if (whole && one->type != 'f') {
        snprintf(format, sizeof format, "%%%.15slld", one->flags);
        return snprintf(to, room, format, isfinite(value) ? (long long)value : 0);
    }
    snprintf(format, sizeof format, "%%%.15s%c", one->flags, one->type ? one->type : 'g');
    return snprintf(to, room, format, value);
}

static double field_value(const field *one, int epoch, int batch, const kolo_logs *logs)
{
    if (strcmp(one->name, "epoch") == 0) return epoch + 1;
    if (strcmp(one->name, "batch") == 0) return batch + 1;
    return kolo_logs_get(logs, one->name);
}

/* Fills in the fields of a path, like Python's str.format(). batch -1: at an epoch's end. target[PATH_MAX]; NULL:
 * only checks the path. */
static kolo_status fill_in(const char *path, int epoch, int batch, const kolo_logs *logs, char *target)
{
    size_t used = 0;
    for (const char *c = path; *c && used < PATH_MAX - 1;) {
        field one;
        if (*c != '{') {
            if (target) target[used++] = *c;
            c++;
            continue;
        }
        c = read_field(c + 1, &one);
        if (!c)
            return kolo_fail(KOLO_INVALID,
                             "path: wanted {epoch}, {epoch:02d}, {val_loss:.2f} and their like, got \"%.80s\"", path);
        KOLO_TRY(check_known(&one, batch >= 0, logs));
        if (target)
            used += (size_t)print_field(target + used, PATH_MAX - used, &one, field_value(&one, epoch, batch, logs));
    }
    if (used >= PATH_MAX - 1)
        return kolo_fail(KOLO_INVALID, "path: wanted at most %d characters, got more", PATH_MAX - 2);
    if (target) target[used] = 0;
    return KOLO_OK;
}

kolo_status kolo_make_folders(const char *path)
{
    char folder[PATH_MAX];
    if (strlen(path) >= sizeof folder) return kolo_fail(KOLO_INVALID, "%.60s…: wanted a shorter name", path);
    for (const char *slash = strchr(path + (*path == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return kolo_fail(KOLO_IO, "%s: wanted a folder that can be made, got: %s", folder, strerror(errno));
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- saving */

static bool by_batch(const kolo_callback *self)
{
    return self->model_checkpoint.save_freq > 0;
}

static kolo_status open_state(kolo_callback *self, state *s, const kolo_logs *logs)
{
    const kolo_model_checkpoint_args *args = &self->model_checkpoint;
    s->last_batch = -1;
    if (!args->path || !*args->path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got none");
    if (args->save_freq < 0) return kolo_fail(KOLO_INVALID, ".save_freq: wanted at least 1, got %d", args->save_freq);
    KOLO_TRY(fill_in(args->path, 0, by_batch(self) ? 0 : -1, logs, NULL));
    const kolo_logs nothing = {0};
    KOLO_TRY(kolo_monitor_open(&s->monitor, args->monitor, args->mode, 0, args->save_best_only ? logs : &nothing));
    s->monitor.best = args->initial_value_threshold ? kolo_given(args->initial_value_threshold, 0) : NAN;
    return KOLO_OK;
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    state *s = kolo_callback_open(self, sizeof *s);
    if (s) kolo_callback_report(self, open_state(self, s, logs));
}

static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)logs;
    if (!s) return;
    s->epoch = epoch;
    if (!s->restored) s->monitor.best = kolo_callback_kept(self, s->monitor.name, "best", s->monitor.best);
    s->restored = true;
}

/* Whether the model is to be saved now; prints the reason if .verbose. */
static bool is_wanted(kolo_callback *self, int epoch, const char *path, const kolo_logs *logs)
{
    const kolo_model_checkpoint_args *args = &self->model_checkpoint;
    state *s = self->state;
    double value, best = s->monitor.best;
    int verbose = args->verbose;
    if (!args->save_best_only || !kolo_monitor_read(&s->monitor, logs, &value)) {
        kolo_callback_say(self, verbose, "Epoch %d: saving model to %s\n", epoch + 1, path);
        return true;
    }
    bool better = kolo_monitor_improves(&s->monitor, value, best);
    const char *before = isnan(best) ? "None" : kolo_phrase("%.5f", best);
    if (better)
        kolo_callback_say(self, verbose, "Epoch %d: %s improved from %s to %.5f, saving model to %s\n", epoch + 1,
                          s->monitor.name, before, value, path);
    else kolo_callback_say(self, verbose, "Epoch %d: %s did not improve from %s\n", epoch + 1, s->monitor.name, before);
    if (better) s->monitor.best = value;
    kolo_callback_keep(self, s->monitor.name, "best", s->monitor.best);
    return better;
}

static kolo_status save(kolo_callback *self, int epoch, int batch, const kolo_logs *logs)
{
    char path[PATH_MAX];
    KOLO_TRY(fill_in(self->model_checkpoint.path, epoch, batch, logs, path));
    if (!is_wanted(self, epoch, path, logs) || !kolo_callback_is_writer()) return KOLO_OK;
    KOLO_TRY(kolo_model_check(self->model));
    KOLO_TRY(kolo_make_folders(path));
    if (!self->model_checkpoint.save_weights_only) return kolo_checkpoint_write(self->model, path);
    return kolo_weights_write(&(const kolo_save_args){.model = self->model, .path = path});
}

/* Counts batches across epochs, like Keras; true after every save_freq batches. */
static bool is_time(state *s, int batch, int save_freq)
{
    s->seen += batch <= s->last_batch || s->last_batch < 0 ? batch + 1 : batch - s->last_batch;
    s->last_batch = batch;
    if (s->seen < save_freq) return false;
    s->seen = 0;
    return true;
}

static void end_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    state *s = self->state;
    if (s && by_batch(self) && is_time(s, batch, self->model_checkpoint.save_freq))
        kolo_callback_report(self, save(self, s->epoch, batch, logs));
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    if (self->state && !by_batch(self)) kolo_callback_report(self, save(self, epoch, -1, logs));
}

kolo_callback kolo_model_checkpoint_of(kolo_model_checkpoint_args args)
{
    kolo_keep_zero(args._, "initial_value_threshold", &args.initial_value_threshold);
    return (kolo_callback){.name = "model_checkpoint",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_train_batch_end = end_batch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = kolo_callback_end,
                           .model_checkpoint = args,
                           .release = kolo_callback_close};
}
