#define _GNU_SOURCE
/* Shows layers, optimizers, schedules, strategies, losses, metrics and callbacks as the C expressions that make them:
 * see show/bundle.h. */
#include "comm/own.h"
#include "show/bundle.h"
#include "model/model.h"
#include "core/written.h"
#include "optimizers/optimizer.h"
#include "layers/layer.h"
#include "losses/formulas.h"
#include "show/display.h"
#include "strategy/strategy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct recipe {
    FILE *out;
    char *text;
    size_t size;
    int options; /* written so far */
} recipe;

static bool open_recipe(recipe *r)
{
    *r = (recipe){0};
    r->out = open_memstream(&r->text, &r->size);
    return r->out != NULL;
}

static bool begin(recipe *r, const char *name)
{
    bool open = open_recipe(r);
    if (open) fprintf(r->out, "kolo_%s(", name);
    return open;
}

static char *json_of(recipe *r, const char *end)
{
    char *json = NULL;
    fputs(end, r->out);
    fclose(r->out);
    kolo_mime form = {"text/plain", r->text, r->size, false};
    if (kolo_display_json(&form, 1, &json) != KOLO_OK) json = NULL;
    free(r->text);
    return json;
}

__attribute__((format(printf, 2, 3))) static void option(recipe *r, const char *format, ...)
{
    va_list arguments;
    if (r->options++) fputs(", ", r->out);
    va_start(arguments, format);
    vfprintf(r->out, format, arguments);
    va_end(arguments);
}

static const char *activation_name(int activation)
{
    const char *name = kolo_activation_name(activation);
    return name ? name : "KOLO_LINEAR";
}

/* Writes a number with as many digits as tell it from every other one. */
static const char *number_text(double number)
{
    const char *text = kolo_phrase("%g", number);
    for (int digits = 7; strtod(text, NULL) != number && digits <= 17; digits++)
        text = kolo_phrase("%.*g", digits, number);
    return number == KOLO_NONE ? "KOLO_NONE" : text;
}

/* Prints one element of an option's array. */
static void print_element(FILE *out, const kolo_field *field, const void *at)
{
    switch (field->type) {
    case KOLO_FIELD_INT:
        if (strcmp(field->name, "mode") == 0) fputs(*(const int *)at == KOLO_MAX ? "KOLO_MAX" : "KOLO_MIN", out);
        else if (*(const int *)at == KOLO_NONE) fputs("KOLO_NONE", out);
        else fprintf(out, "%d", *(const int *)at);
        break;
    case KOLO_FIELD_BOOL: fputs(*(const bool *)at ? "true" : "false", out); break;
    case KOLO_FIELD_DOUBLE: fputs(number_text(*(const double *)at), out); break;
    case KOLO_FIELD_STRING: fprintf(out, "\"%s\"", *(const char *const *)at); break;
    case KOLO_FIELD_ACTIVATION: fputs(activation_name(*(const kolo_activation *)at), out); break;
    case KOLO_FIELD_PADDING: fputs(*(const kolo_padding *)at == KOLO_SAME ? "KOLO_SAME" : "KOLO_VALID", out); break;
    }
}

/* The number of elements to write: zeros at the end of the array are left out. */
static int written(const kolo_field *field, const char *at)
{
    const kolo_field one = {.type = field->type, .count = 1};
    int count = field->count;
    while (count > 1 && !kolo_field_given(&one, at + (size_t)(count - 1) * kolo_field_size(field->type))) count--;
    return count;
}

static void add_field(recipe *r, const kolo_field *field, const char *at)
{
    size_t size = kolo_field_size(field->type);
    option(r, "%s%s%s", field->positional ? "" : ".", field->positional ? "" : field->name,
           field->positional ? "" : " = ");
    if (field->count > 1) fputs("{", r->out);
    for (int i = 0; i < written(field, at); i++) {
        if (i > 0) fputs(", ", r->out);
        print_element(r->out, field, at + (size_t)i * size);
    }
    if (field->count > 1) fputs("}", r->out);
}

char *kolo_layer_bundle(const kolo_layer *layer)
{
    recipe r;
    if (!begin(&r, layer->kind && layer->kind->name ? layer->kind->name : "layer")) return NULL;
    const kolo_field *field = layer->kind ? kolo_layer_fields(layer->kind) : NULL;
    for (; field && field->name; field++) {
        const char *at = (const char *)kolo_layer_arguments(layer) + field->offset;
        if (kolo_field_given(field, at) || kolo_written(layer->custom._, field->name)) add_field(&r, field, at);
    }
    return json_of(&r, ")");
}

static void add_given(recipe *r, const kolo_field *field, const void *arguments)
{
    for (; field && field->name; field++) {
        const char *at = (const char *)arguments + field->offset;
        if (kolo_field_given(field, at)) add_field(r, field, at);
    }
}

/* Adds the options of a recipe whose defaults are filled in, so that a 0 means 0. It writes options that are not 0, and
 * KOLO_NONE for a 0 that is not the default. */
static void add_options(recipe *r, const kolo_option *options, const void *arguments)
{
    for (; options && options->field.name; options++) {
        const char *at = (const char *)arguments + options->field.offset;
        if (kolo_field_given(&options->field, at)) add_field(r, &options->field, at);
        else if (options->fallback != 0) option(r, ".%s = KOLO_NONE", options->field.name);
    }
}

static void write_schedule(recipe *r, const kolo_schedule *schedule)
{
    int outer = r->options;
    r->options = 0;
    fprintf(r->out, "%skolo_%s(", schedule->warmup_steps > 0 ? "kolo_warmup(" : "", schedule->kind->name);
    if (schedule->kind == &kolo_one_cycle_kind && schedule->one_cycle.max_learning_rate > 0)
        option(r, ".max_learning_rate = %s", number_text(schedule->one_cycle.max_learning_rate));
    else if (schedule->kind != &kolo_piecewise_constant_kind && schedule->constant.initial_learning_rate > 0)
        option(r, ".initial_learning_rate = %s", number_text(schedule->constant.initial_learning_rate));
    add_options(r, schedule->kind->options, &schedule->constant);
    fputs(")", r->out);
    if (schedule->warmup_steps > 0) {
        fprintf(r->out, ", .steps = %d", schedule->warmup_steps);
        if (schedule->warmup_from > 0) fprintf(r->out, ", .from = %s", number_text(schedule->warmup_from));
        fputs(")", r->out);
    }
    r->options = outer;
}

static void write_optimizer(recipe *r, const kolo_optimizer *optimizer)
{
    const kolo_option *common = kolo_common_options; /* the first is the learning rate */
    if (optimizer->kind->weight_decay != 0 && optimizer->common.weight_decay == 0)
        option(r, ".weight_decay = KOLO_NONE");
    if (optimizer->common.schedule.kind) {
        option(r, ".schedule = ");
        write_schedule(r, &optimizer->common.schedule);
    } else add_field(r, &common->field, (const char *)&optimizer->common + common->field.offset);
    add_options(r, optimizer->kind->options, &optimizer->common);
    for (common++; common->field.name; common++) {
        const char *at = (const char *)&optimizer->common + common->field.offset;
        bool usual = common->field.type == KOLO_FIELD_INT && *(const int *)at == 1;
        if (kolo_field_given(&common->field, at) && !usual) add_field(r, &common->field, at);
    }
}

/* The options of kolo_distributed(), and the end of the text. */
static char *end_of_distributed(recipe *r, const kolo_optimizer *optimizer)
{
    const char *comm = optimizer->comm ? kolo_phrase(", .comm = &%s", kolo_own_comm_name(optimizer->comm)) : "";
    const char *op = optimizer->reduction == KOLO_REDUCE_ADASUM ? ", .op = KOLO_REDUCE_ADASUM" : "";
    const char *dense = optimizer->sparse_as_dense ? ", .sparse_as_dense = true" : "";
    static const char *const compressions[] = {"", ", .compression = KOLO_COMPRESSION_FP16",
                                               ", .compression = KOLO_COMPRESSION_BF16"};
    return json_of(r, kolo_phrase(")%s%s%s%s)", op, compressions[optimizer->compression], comm, dense));
}

char *kolo_optimizer_bundle(const kolo_optimizer *optimizer)
{
    recipe r;
    kolo_optimizer complete;
    const kolo_optimizer_kind *kind = optimizer->kind;
    const char *name = kind && kind->name ? kind->name : "optimizer";
    char *wrapped = NULL;
    if (optimizer->distributed && asprintf(&wrapped, "distributed(kolo_%s", name) < 0) return NULL;
    bool begun = begin(&r, wrapped ? wrapped : name);
    free(wrapped);
    if (!begun) return NULL;
    if (kind && kolo_optimizer_complete(optimizer, &complete) != KOLO_OK) {
        kolo_failure_take(); /* kolo_compile() will report it; here the options are shown as they were written */
        complete = *optimizer;
    }
    if (kind) write_optimizer(&r, &complete);
    return optimizer->distributed ? end_of_distributed(&r, optimizer) : json_of(&r, ")");
}

char *kolo_schedule_bundle(const kolo_schedule *schedule)
{
    recipe r;
    kolo_schedule complete;
    if (!schedule->kind || !open_recipe(&r)) return NULL;
    if (kolo_schedule_complete(schedule, 0, &complete) != KOLO_OK) {
        kolo_failure_take();
        complete = *schedule;
    }
    write_schedule(&r, &complete);
    return json_of(&r, "");
}

static void write_device_names(recipe *r, const kolo_strategy *strategy)
{
    char list[256] = "";
    size_t used = 0;
    for (int i = 0; i < KOLO_DEVICE_NAMES_MAX && strategy->device_names[i] && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%s\"", i ? ", " : "", strategy->device_names[i]);
    if (used > 0) option(r, ".device_names = {%s}", list);
}

static void write_mirroring(recipe *r, const kolo_strategy *strategy)
{
    write_device_names(r, strategy);
    if (strategy->parameter_device) option(r, ".parameter_device = \"%s\"", strategy->parameter_device);
    if (strategy->slicing == KOLO_SLICE_ON_DEVICE) option(r, ".slicing = KOLO_SLICE_ON_DEVICE");
    if (strategy->last_takes_remainder) option(r, ".last_takes_remainder = true");
    int initial_sync = strategy->initial_sync;
    kolo_keep_zero_int(strategy->_, "initial_sync", &initial_sync);
    if (initial_sync == KOLO_NONE) option(r, ".initial_sync = KOLO_NONE");
    if (strategy->synchronized_optimizer) option(r, ".synchronized_optimizer = true");
    if (strategy->staging) option(r, ".staging = true");
}

static void write_workers(recipe *r, const kolo_strategy *strategy)
{
    if (strategy->workers) option(r, ".workers = %d", strategy->workers);
    if (strategy->window) option(r, ".window = %d", strategy->window);
    if (strategy->servers) option(r, ".servers = %d", strategy->servers);
    if (strategy->rho != 0) option(r, ".rho = %s", number_text(strategy->rho));
    if (strategy->learning_rate != 0) option(r, ".learning_rate = %s", number_text(strategy->learning_rate));
    if (strategy->momentum != 0) option(r, ".momentum = %s", number_text(strategy->momentum));
    if (strategy->turns) option(r, ".turns = \"%s\"", strategy->turns);
    if (strategy->replay) option(r, ".replay = \"%s\"", strategy->replay);
    if (strategy->record) option(r, ".record = \"%s\"", strategy->record);
}

/* Without .devices it shows no number of devices, since that is chosen when a model is compiled. */
char *kolo_strategy_bundle(const kolo_strategy *strategy)
{
    recipe r;
    const kolo_strategy_kind *kind = kolo_strategy_kind_of(strategy);
    if (!begin(&r, kind->name ? kind->name : "strategy")) return NULL;
    if (!kind->one_replica && strategy->devices) option(&r, ".devices = %d", strategy->devices);
    write_mirroring(&r, strategy);
    write_workers(&r, strategy);
    return json_of(&r, ")");
}

/* ------------------------------------------------------------------------------------------ losses, metrics */

static char *word_bundle(const char *text)
{
    recipe r;
    if (!open_recipe(&r)) return NULL;
    fputs(text, r.out);
    return json_of(&r, "");
}

/* "the loss 'mine' with the number 3": of the learner's own. */
static char *own_bundle(const char *what, const char *name, double number)
{
    const char *with = number != 0 ? kolo_phrase(" with the number %s", number_text(number)) : "";
    return word_bundle(kolo_phrase("the %s '%s'%s", what, name ? name : "", with));
}

char *kolo_loss_bundle(const kolo_loss *loss)
{
    if (!loss->kind) return NULL;
    const char *name = kolo_loss_constant(loss->kind);
    if (!name) return own_bundle("loss", loss->kind->name, loss->number);
    if (loss->kind == &kolo_huber_kind)
        return word_bundle(kolo_phrase("%s(%s)", name, number_text(loss->number ? loss->number : 1)));
    if (!loss->smoothed) return word_bundle(name);
    return word_bundle(kolo_phrase("KOLO_LABEL_SMOOTHING(%s, %s)", name, number_text(loss->number)));
}

char *kolo_metric_bundle(const kolo_metric *metric)
{
    static const char *const averages[] = {"0", "KOLO_BINARY", "KOLO_MACRO", "KOLO_MICRO", "KOLO_WEIGHTED"};
    if (!metric->kind) return NULL;
    const char *name = kolo_metric_constant(metric->kind);
    bool averaged = metric->number >= 0 && metric->number <= KOLO_WEIGHTED;
    if (!name) return own_bundle("metric", metric->kind->name, metric->number);
    if (metric->kind == &kolo_top_k_kind) return word_bundle(kolo_phrase("%s(%s)", name, number_text(metric->number)));
    if (metric->kind != &kolo_precision_kind && metric->kind != &kolo_recall_kind && metric->kind != &kolo_f1_kind)
        return word_bundle(name);
    return word_bundle(kolo_phrase("%s(%s)", name, averages[averaged ? (int)metric->number : 0]));
}

/* ------------------------------------------------------------------------------------------ callbacks */

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

/* A custom callback: lists the hooks that it has. */
static void write_hooks(FILE *out, const kolo_callback *callback)
{
    const struct {
        const char *name;
        bool set;
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
        if (hooks[i].set) fprintf(out, "%s .%s", written++ ? "," : "", hooks[i].name);
    if (!written) fputs(" no hooks", out);
}

static void write_callback(recipe *r, const kolo_callback *callback)
{
    const char *name = callback->name ? callback->name : "";
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, name) != 0) i++;
    bool found = i < sizeof known / sizeof *known, ours = found || strcmp(name, "broadcast_variables") == 0;
    if (!ours) {
        write_hooks(r->out, callback);
        return;
    }
    fprintf(r->out, "kolo_%s(", name);
    if (!found) fprintf(r->out, "%d", (int)callback->number[0]);
    else if (known[i].fields == learning_rate_scheduler)
        fputs(callback->learning_rate_scheduler.schedule ? "…" : ".by_epoch = …", r->out);
    else add_given(r, known[i].fields, &callback->model_checkpoint);
    fputs(")", r->out);
}

char *kolo_callback_bundle(const kolo_callback *callback)
{
    recipe r;
    if (!open_recipe(&r)) return NULL;
    write_callback(&r, callback);
    return json_of(&r, "");
}
