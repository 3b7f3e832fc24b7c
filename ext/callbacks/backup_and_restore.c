/* Resumes an interrupted training, like Keras's BackupAndRestore, but at the exact step. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "callbacks/callbacks.h"
#include "saving/save.h"

typedef struct state {
    char path[PATH_MAX];
    int seen; /* batches since the last backup */
} state;

static kolo_status open_state(kolo_callback *self, state *s)
{
    const kolo_backup_and_restore_args *args = &self->backup_and_restore;
    if (!args->folder || !*args->folder) return kolo_fail(KOLO_INVALID, "wanted the name of a folder, got none");
    if (args->save_freq < 0) return kolo_fail(KOLO_INVALID, ".save_freq: wanted at least 1, got %d", args->save_freq);
    if (!self->model) return kolo_fail(KOLO_INVALID, "wanted its .model, got NULL");
    if (strlen(args->folder) + 32 > sizeof s->path) return kolo_fail(KOLO_INVALID, "wanted a shorter name of a folder");
    snprintf(s->path, sizeof s->path, "%s/backup.safetensors", args->folder);
    KOLO_TRY(kolo_make_folders(s->path));
    return access(s->path, F_OK) == 0 ? kolo_checkpoint_read(self->model, s->path) : KOLO_OK;
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    state *s = kolo_callback_open(self, sizeof *s);
    kolo_status status = s ? open_state(self, s) : KOLO_OK;
    kolo_callback_report(self, status);
    if (status != KOLO_OK) kolo_callback_close(self);
}

static void back_up(kolo_callback *self)
{
    state *s = self->state;
    s->seen = 0;
    if (kolo_callback_is_writer()) kolo_callback_report(self, kolo_checkpoint_write(self->model, s->path));
}

/* Backs up the beginning, too: a training that is killed before its next backup begins with the same seed and weights,
 * and the other callbacks find the position of their files at that moment. */
static void begin_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)epoch;
    (void)logs;
    if (s && access(s->path, F_OK) != 0) back_up(self);
}

static void end_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)batch;
    (void)logs;
    if (s && self->backup_and_restore.save_freq > 0 && ++s->seen >= self->backup_and_restore.save_freq) back_up(self);
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)epoch;
    (void)logs;
    if (self->state && self->backup_and_restore.save_freq == 0) back_up(self);
}

/* Backs up an interrupted training as it is. The backup of a completed one is removed unless .keep. */
static void end(kolo_callback *self, const kolo_logs *logs)
{
    state *s = self->state;
    (void)logs;
    if (!s) return;
    /* interrupted: stopped, on any rank, but not by kolo_stop_training() */
    bool interrupted = self->model->history.stopped && !self->model->stop_training;
    if (interrupted) back_up(self);
    else if (!self->backup_and_restore.keep && kolo_callback_is_writer()) unlink(s->path);
    kolo_callback_close(self);
}

kolo_callback kolo_backup_and_restore_of(kolo_backup_and_restore_args args)
{
    return (kolo_callback){.name = "backup_and_restore",
                           .on_train_begin = begin,
                           .on_epoch_begin = begin_epoch,
                           .on_train_batch_end = end_batch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = end,
                           .backup_and_restore = args,
                           .release = kolo_callback_close};
}
