/* Completes the options of optimizers and schedules by their tables: fills in defaults and checks ranges. See
 * optimizers/optimizer.h. */
#include "optimizers/optimizer.h"

#include <math.h>
#include <string.h>

#include "core/written.h"

const kolo_option kolo_common_options[] = {
    KOLO_NUMBER(common, learning_rate, 0, 0, INFINITY), /* complete_common() has the fallbacks of the first two */
    KOLO_NUMBER(common, weight_decay, 0, 0, INFINITY),  KOLO_NUMBER(common, clip_value, 0, 0, INFINITY),
    KOLO_NUMBER(common, clip_norm, 0, 0, INFINITY),     KOLO_NUMBER(common, global_clip_norm, 0, 0, INFINITY),
    KOLO_COUNT(common, accumulate_steps, 1, 1),         KOLO_OPTIONS_END,
};

/* ---------------------------------------------------------------- one option */

static double get(const kolo_field *field, const void *at)
{
    return field->type == KOLO_FIELD_INT ? *(const int *)at : *(const double *)at;
}

static void set(const kolo_field *field, void *at, double value)
{
    if (field->type == KOLO_FIELD_INT) *(int *)at = (int)value;
    else *(double *)at = value;
}

static const char *range_text(const kolo_option *option)
{
    const char *article = strchr("aeio", option->field.name[0]) ? "an" : "a";
    if (!isfinite(option->most))
        return kolo_phrase("%s .%s of at least %g", article, option->field.name, option->least);
    return kolo_phrase("%s .%s from %g to %s%g", article, option->field.name, option->least,
                       option->closed ? "" : "below ", option->most);
}

/* Fills in the option's default where its value is 0 and `text`, the arguments as they were written, does not name it.
 */
static kolo_status complete_option(const char *recipe, const char *text, const kolo_option *option, double fallback,
                                   void *arguments)
{
    void *at = (char *)arguments + option->field.offset;
    if (option->field.count > 1 && option->field.type == KOLO_FIELD_DOUBLE)
        kolo_keep_zeros(text, option->field.name, at, option->field.count);
    if (option->field.type == KOLO_FIELD_BOOL || option->field.count > 1) return KOLO_OK;
    double value = get(&option->field, at);
    if (value == 0 && !kolo_written(text, option->field.name)) value = fallback;
    if (value == KOLO_NONE) value = 0;
    bool fine =
        isfinite(value) && value >= option->least && (option->closed ? value <= option->most : value < option->most);
    if (!fine) return kolo_fail(KOLO_INVALID, "%s: wanted %s, got %g", recipe, range_text(option), value);
    set(&option->field, at, value);
    return KOLO_OK;
}

static kolo_status complete_options(const char *recipe, const char *text, const kolo_option *options, void *arguments)
{
    for (; options && options->field.name; options++)
        KOLO_TRY(complete_option(recipe, text, options, options->fallback, arguments));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- optimizers */

static kolo_status complete_common(kolo_optimizer *optimizer)
{
    const kolo_optimizer_kind *kind = optimizer->kind;
    const double fallbacks[] = {kind->learning_rate, kind->weight_decay};
    for (size_t i = 0; kolo_common_options[i].field.name; i++) {
        const kolo_option *option = &kolo_common_options[i];
        double fallback = i < sizeof fallbacks / sizeof *fallbacks ? fallbacks[i] : option->fallback;
        KOLO_TRY(complete_option(kind->name, optimizer->common._, option, fallback, &optimizer->common));
    }
    const kolo_common_args *common = &optimizer->common;
    int clips = (common->clip_value > 0) + (common->clip_norm > 0) + (common->global_clip_norm > 0);
    if (clips <= 1) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted one of .clip_value, .clip_norm and .global_clip_norm, got %d of them",
                     kind->name, clips);
}

kolo_status kolo_optimizer_complete(const kolo_optimizer *given, kolo_optimizer *complete)
{
    const kolo_optimizer_kind *kind = given->kind;
    *complete = *given;
    if (!kind->update || !(kind->learning_rate > 0))
        return kolo_fail(KOLO_INVALID, "%s: wanted a kolo_optimizer_kind with .update and .learning_rate, got none",
                         kind->name ? kind->name : "an optimizer of your own");
    KOLO_TRY(complete_common(complete));
    KOLO_TRY(complete_options(kind->name, given->common._, kind->options, &complete->common));
    complete->common._ = NULL; /* the caller may free the text */
    if (kind->check) KOLO_TRY(kind->check(complete));
    KOLO_TRY(kolo_optimizer_try(complete));
    if (!given->common.schedule.kind) return KOLO_OK;
    kolo_schedule *schedule = &complete->common.schedule;
    return kolo_schedule_complete(&given->common.schedule, complete->common.learning_rate, schedule);
}

int kolo_optimizer_slots(const kolo_optimizer *optimizer)
{
    const kolo_optimizer_kind *kind = optimizer->kind;
    double rule[KOLO_RULE_NUMBERS];
    if (kind->rule) return kolo_rule_slots(kolo_rule_numbers(optimizer, 0, 1, rule));
    return kind->slot_count ? kind->slot_count(optimizer) : kind->slots;
}

/* ---------------------------------------------------------------- schedules */

kolo_status kolo_schedule_complete(const kolo_schedule *given, double learning_rate, kolo_schedule *complete)
{
    static const kolo_option initial = KOLO_NUMBER(constant, initial_learning_rate, 0, 0, INFINITY),
                             highest = KOLO_NUMBER(one_cycle, max_learning_rate, 0, 0, INFINITY);
    static const kolo_option from = {{"from", KOLO_FIELD_DOUBLE, 0, 1, false}, 0, 0, INFINITY, false};
    const kolo_schedule_kind *kind = given->kind;
    kolo_schedule made = *given;
    if (!kind) return kolo_fail(KOLO_INVALID, "wanted a schedule, got none");
    if (made.warmup_steps < 0) return kolo_fail(KOLO_INVALID, "kolo_warmup: wanted .steps of at least 1");
    if (made.warmup_steps > 0) KOLO_TRY(complete_option("kolo_warmup", NULL, &from, 0, &made.warmup_from));
    const kolo_option *first = kind == &kolo_one_cycle_kind ? &highest : &initial;
    KOLO_TRY(complete_option(kind->name, given->constant._, first, learning_rate, &made.constant));
    KOLO_TRY(complete_options(kind->name, given->constant._, kind->options, &made.constant));
    made.constant._ = NULL;
    if (kind->check) KOLO_TRY(kind->check(&made));
    *complete = made;
    return KOLO_OK;
}

static double schedule_rate(const kolo_schedule *schedule, double step)
{
    double left = schedule->warmup_steps - step;
    if (left <= 0) return schedule->kind->rate(schedule, -left);
    double share = step / schedule->warmup_steps;
    return schedule->warmup_from + share * (schedule->kind->rate(schedule, 0) - schedule->warmup_from);
}

double kolo_optimizer_rate(const kolo_optimizer *optimizer, int64_t step)
{
    const kolo_common_args *common = &optimizer->common;
    return common->schedule.kind ? schedule_rate(&common->schedule, (double)step) : common->learning_rate;
}

static kolo_status find_rate(const kolo_schedule *schedule, double learning_rate, int64_t step, double *rate)
{
    kolo_schedule complete;
    if (!(learning_rate >= 0 && isfinite(learning_rate)))
        return kolo_fail(KOLO_INVALID, "wanted a learning rate of at least 0, got %g", learning_rate);
    if (step < 0) return kolo_fail(KOLO_INVALID, "wanted a step of at least 0, got %lld", (long long)step);
    KOLO_TRY(kolo_schedule_complete(schedule, learning_rate, &complete));
    *rate = schedule_rate(&complete, (double)step);
    return KOLO_OK;
}

double kolo_schedule_rate_at(kolo_schedule schedule, double learning_rate, int64_t step, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_schedule_rate", here);
    double rate = NAN;
    kolo_leave(scope, find_rate(&schedule, learning_rate, step, &rate));
    return rate;
}

kolo_optimizer kolo_distributed_at(const kolo_distributed_args *args)
{
    kolo_optimizer optimizer = args->optimizer;
    bool given = args->op != KOLO_REDUCE_SUM || kolo_written(args->_, "op");
    optimizer.distributed = true;
    optimizer.bucket_bytes = args->bucket_bytes;
    optimizer.compression = args->compression;
    optimizer.comm = args->comm;
    optimizer.sparse_as_dense = args->sparse_as_dense;
    optimizer.reduction = given ? args->op : KOLO_REDUCE_MEAN;
    return optimizer;
}
