/* kolo_compile: how a model will be trained, checked and written down. */
#include "core/loss.h"
#include "core/model.h"
#include "core/optimizer.h"
#include "core/random.h"
#include "core/runtime.h"
#include "core/trainer.h"

#include <math.h>

/* What every metric keeps must find its place. */
static kolo_status check_metrics(const kolo_model *model, const kolo_metric *metrics)
{
    kolo_shape outputs = model->layers[model->output].out;
    int sums = kolo_metric_offset(metrics, KOLO_METRICS_MAX, outputs.dim[outputs.rank - 1]);
    if (sums <= KOLO_METRIC_SUMS_MAX) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "metrics: wanted at most %d sums over the samples, got %d", KOLO_METRIC_SUMS_MAX,
                     sums);
}

static kolo_status check_precision(kolo_precision precision)
{
    if (precision == 0 || precision == KOLO_FLOAT32 || precision == KOLO_MIXED_BF16) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "precision: wanted KOLO_FLOAT32 or KOLO_MIXED_BF16, got %d", (int)precision);
}

/* Everything that can be wrong is found before anything is changed. */
static kolo_status check(const kolo_compile_args *args, kolo_optimizer *optimizer, const kolo_backend **backend)
{
    KOLO_TRY(kolo_check_environment());
    if (args->optimizer.kind) KOLO_TRY(kolo_optimizer_complete(&args->optimizer, optimizer));
    if (args->model->output < 0)
        return args->model->broken ? KOLO_INVALID
                                   : kolo_fail(KOLO_INVALID, "wanted a complete model, got one without its "
                                                             "kolo_graph_output()");
    KOLO_TRY(check_metrics(args->model, args->metrics));
    KOLO_TRY(check_precision(args->precision));
    const kolo_strategy *strategy = &args->strategy;
    const kolo_strategy_kind *kind = strategy->kind ? strategy->kind : &kolo_one_device_kind;
    int replicas;
    KOLO_TRY(kind->replicas(strategy, &replicas));
    return kolo_backend_find(args->backend, args->precision ? args->precision : KOLO_FLOAT32, backend);
}

static kolo_status compile(const kolo_compile_args *args)
{
    kolo_model *model = args->model;
    KOLO_TRY(kolo_model_check(model));
    KOLO_TRY(kolo_model_check_idle(model));
    const kolo_backend *backend;
    kolo_optimizer optimizer = {0};
    KOLO_TRY(check(args, &optimizer, &backend));
    kolo_trainer_close(&model->trainer);
    model->settings = *args;
    model->settings.optimizer = optimizer;
    if (!args->precision) model->settings.precision = KOLO_FLOAT32;
    model->backend = backend;
    model->seed = args->seed ? args->seed : kolo_random_seed();
    if (optimizer.kind) model->learning_rate = kolo_optimizer_rate(&optimizer, 0);
    if (!model->drawn) kolo_model_draw_weights(model);
    model->compiled = true;
    return KOLO_OK;
}

kolo_status kolo_compile_at(const kolo_compile_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_compile", here);
    return kolo_leave(scope, compile(args));
}

static kolo_status set_learning_rate(kolo_model *model, double learning_rate)
{
    KOLO_TRY(kolo_model_check_compiled(model, "a learning rate is set"));
    const kolo_schedule_kind *schedule = model->settings.optimizer.common.schedule.kind;
    if (schedule)
        return kolo_fail(KOLO_INVALID,
                         "wanted an optimizer without a .schedule, which sets the learning rate itself, got "
                         "one with kolo_%s()",
                         schedule->name);
    if (!(learning_rate >= 0 && isfinite(learning_rate)))
        return kolo_fail(KOLO_INVALID, "wanted a learning rate of at least 0, got %g", learning_rate);
    model->learning_rate = learning_rate;
    return KOLO_OK;
}

kolo_status kolo_set_learning_rate_at(kolo_model *model, double learning_rate, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_set_learning_rate", here);
    return kolo_leave(scope, set_learning_rate(model, learning_rate));
}

double kolo_get_learning_rate(const kolo_model *model)
{
    return model ? model->learning_rate : 0;
}

void kolo_stop_training(kolo_model *model)
{
    if (model) model->stop_training = true;
}
