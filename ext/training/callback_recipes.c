/* Shows a callback as the C expression that makes it: see show/bundle.h. */
#define _GNU_SOURCE
#include "model/model.h"
#include "show/bundle.h"
#include "show/display.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODE(kind_)  {"mode", KOLO_FIELD_INT, offsetof(kolo_##kind_##_args, mode), 1, false}
#define INT(k_, m_)  KOLO_FIELD(KOLO_FIELD_INT, k_, m_)
#define REAL(k_, m_) KOLO_FIELD(KOLO_FIELD_DOUBLE, k_, m_)
#define TEXT(k_, m_) KOLO_FIELD(KOLO_FIELD_STRING, k_, m_)
#define FLAG(k_, m_) KOLO_FIELD(KOLO_FIELD_BOOL, k_, m_)

static const kolo_field model_checkpoint[] = {KOLO_POSITIONAL(KOLO_FIELD_STRING, model_checkpoint, path),
                                              TEXT(model_checkpoint, monitor),
                                              MODE(model_checkpoint),
                                              FLAG(model_checkpoint, save_best_only),
                                              FLAG(model_checkpoint, save_weights_only),
                                              INT(model_checkpoint, save_freq),
                                              REAL(model_checkpoint, initial_value_threshold),
                                              {0}};
static const kolo_field early_stopping[] = {
    TEXT(early_stopping, monitor),         REAL(early_stopping, min_delta),
    INT(early_stopping, patience),         MODE(early_stopping),
    REAL(early_stopping, baseline),        FLAG(early_stopping, restore_best_weights),
    INT(early_stopping, start_from_epoch), {0}};
static const kolo_field reduce_lr_on_plateau[] = {
    TEXT(reduce_lr_on_plateau, monitor),   REAL(reduce_lr_on_plateau, factor),
    INT(reduce_lr_on_plateau, patience),   MODE(reduce_lr_on_plateau),
    REAL(reduce_lr_on_plateau, min_delta), INT(reduce_lr_on_plateau, cooldown),
    REAL(reduce_lr_on_plateau, min_lr),    {0}};
static const kolo_field learning_rate_scheduler[] = {{0}};
static const kolo_field learning_rate_warmup[] = {KOLO_POSITIONAL(KOLO_FIELD_DOUBLE, learning_rate_warmup, initial_lr),
                                                  INT(learning_rate_warmup, warmup_epochs),
                                                  INT(learning_rate_warmup, steps_per_epoch),
                                                  INT(learning_rate_warmup, size),
                                                  {0}};
static const kolo_field csv_logger[] = {
    KOLO_POSITIONAL(KOLO_FIELD_STRING, csv_logger, path), TEXT(csv_logger, separator), FLAG(csv_logger, append), {0}};
static const kolo_field tensorboard[] = {
    KOLO_POSITIONAL(KOLO_FIELD_STRING, tensorboard, folder), INT(tensorboard, update_freq), {0}};
static const kolo_field backup_and_restore[] = {KOLO_POSITIONAL(KOLO_FIELD_STRING, backup_and_restore, folder),
                                                INT(backup_and_restore, save_freq),
                                                FLAG(backup_and_restore, keep),
                                                {0}};
static const kolo_field gradient_noise_scale[] = {INT(gradient_noise_scale, small_batch),
                                                  INT(gradient_noise_scale, big_batch),
                                                  INT(gradient_noise_scale, every),
                                                  REAL(gradient_noise_scale, smoothing),
                                                  {0}};
static const kolo_field none[] = {{0}};

static const struct known {
    const char *name;
    const kolo_field *fields;
} known[] = {{"model_checkpoint", model_checkpoint},
             {"early_stopping", early_stopping},
             {"reduce_lr_on_plateau", reduce_lr_on_plateau},
             {"learning_rate_scheduler", learning_rate_scheduler},
             {"learning_rate_warmup", learning_rate_warmup},
             {"csv_logger", csv_logger},
             {"tensorboard", tensorboard},
             {"backup_and_restore", backup_and_restore},
             {"gradient_noise_scale", gradient_noise_scale},
             {"batch_timing", none},
             {"terminate_on_nan", none},
             {"metric_average", none},
             {"throughput", none}};

static void write_value(FILE *out, const kolo_field *field, const void *at)
{
    double number = 0;
    if (field->type == KOLO_FIELD_DOUBLE) number = *(const double *)at;
    if (field->type == KOLO_FIELD_INT) number = *(const int *)at;
    if (field->type == KOLO_FIELD_STRING) fprintf(out, "\"%s\"", *(const char *const *)at);
    else if (field->type == KOLO_FIELD_BOOL) fputs("true", out);
    else if (strcmp(field->name, "mode") == 0) fputs(number == KOLO_MAX ? "KOLO_MAX" : "KOLO_MIN", out);
    else if (number == KOLO_NONE) fputs("KOLO_NONE", out);
    else fprintf(out, "%g", number);
}

static void write_options(FILE *out, const kolo_field *fields, const void *arguments)
{
    int written = 0;
    for (const kolo_field *field = fields; field->name; field++) {
        const char *at = (const char *)arguments + field->offset;
        if (!kolo_field_given(field, at)) continue;
        if (written++) fputs(", ", out);
        if (!field->positional) fprintf(out, ".%s = ", field->name);
        write_value(out, field, at);
    }
}

/* A custom callback: lists the hooks that it has. */
static void write_hooks(FILE *out, const kolo_callback *callback)
{
    const struct {
        const char *name;
        bool there;
    } hooks[] = {{"on_train_begin", callback->on_train_begin},
                 {"on_train_end", callback->on_train_end},
                 {"on_epoch_begin", callback->on_epoch_begin},
                 {"on_epoch_end", callback->on_epoch_end},
                 {"on_train_batch_begin", callback->on_train_batch_begin},
                 {"on_train_batch_end", callback->on_train_batch_end},
                 {"on_test_begin", callback->on_test_begin},
                 {"on_test_end", callback->on_test_end}};
    fprintf(out, "a callback%s%s%s with", callback->name ? " '" : "", callback->name ? callback->name : "",
            callback->name ? "'" : "");
    int written = 0;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        if (hooks[i].there) fprintf(out, "%s .%s", written++ ? "," : "", hooks[i].name);
    if (!written) fputs(" no hooks", out);
}

static void write_callback(FILE *out, const kolo_callback *callback)
{
    const char *name = callback->name ? callback->name : "";
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, name) != 0) i++;
    bool found = i < sizeof known / sizeof *known, ours = found || strcmp(name, "broadcast_variables") == 0;
    if (!ours) {
        write_hooks(out, callback);
        return;
    }
    fprintf(out, "kolo_%s(", name);
    if (!found) fprintf(out, "%d", (int)callback->number[0]);
    else if (known[i].fields == learning_rate_scheduler)
        fputs(callback->learning_rate_scheduler.schedule ? "…" : ".by_epoch = …", out);
    else write_options(out, known[i].fields, &callback->model_checkpoint);
    fputs(")", out);
}

char *kolo_callback_bundle(const kolo_callback *callback)
{
    char *text = NULL, *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    write_callback(out, callback);
    fclose(out);
    kolo_mime form = {"text/plain", text, size, false};
    if (kolo_display_json(&form, 1, &json) != KOLO_OK) json = NULL;
    free(text);
    return json;
}
