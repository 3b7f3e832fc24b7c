/* kolo_compile: checks how a model will be trained, and stores the settings in the model. */
#include "comm/own.h"
#include "losses/loss.h"
#include "model/model.h"
#include "optimizers/optimizer.h"
#include "core/random.h"
#include "runtime/runtime.h"
#include "core/written.h"
#include "replica/trainer.h"
#include "training/scores.h"

#include <math.h>
#include <stdlib.h>

/* The activation that the loss computes itself must be in the last layer, where it is left out. In an earlier layer,
 * for example before a flatten, it would be applied twice. */
static kolo_status check_last_activation(const kolo_model *model, const kolo_loss *loss)
{
    const kolo_layer_node *last = &model->layers[model->output];
    if (!loss->kind || !loss->kind->left_out) return KOLO_OK;
    for (const kolo_layer_node *node = last; node->from_count == 1; node = &model->layers[node->from[0]]) {
        const kolo_activation *activation = kolo_layer_option(&node->recipe, "activation");
        if (activation && *activation == loss->kind->left_out && node != last)
            return kolo_fail(KOLO_INVALID,
                             "wanted the activation that %s takes over in the last layer, got it in %s, with %s behind "
                             "it",
                             loss->kind->name, kolo_layer_text(node), kolo_layer_text(last));
        if (node->parameter_count > 0 || (activation && *activation > KOLO_LINEAR)) break;
    }
    return KOLO_OK;
}

static kolo_status check_precision(kolo_precision precision)
{
    if (precision == 0 || (precision >= KOLO_FLOAT32 && precision <= KOLO_TF32)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "precision: wanted KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_MIXED_FP16 or KOLO_TF32, got %d",
                     (int)precision);
}

/* How ranks combine their gradients. */
static kolo_status check_reduction(const kolo_compile_args *args)
{
    const kolo_optimizer *optimizer = &args->optimizer;
    const kolo_strategy_kind *kind = kolo_strategy_kind_of(&args->strategy);
    bool adasum = optimizer->reduction == KOLO_REDUCE_ADASUM;
    if (!optimizer->distributed || optimizer->reduction == KOLO_REDUCE_MEAN) return KOLO_OK;
    if (!adasum)
        return kolo_fail(KOLO_INVALID,
                         ".optimizer: .op of kolo_distributed(): wanted KOLO_REDUCE_MEAN or KOLO_REDUCE_ADASUM, got "
                         "another one, %d",
                         (int)optimizer->reduction);
    const char *beside = args->deterministic ? ".deterministic, which promises the same bits for any number of ranks"
                         : optimizer->common.accumulate_steps > 1 ? ".accumulate_steps"
                         : optimizer->comm                        ? ".comm, which sums"
                         : kolo_strategy_has_workers(kind)        ? "a strategy of workers, which exchange weights"
                                                                  : NULL;
    if (!beside) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED, ".optimizer: wanted KOLO_REDUCE_MEAN beside %s, got KOLO_REDUCE_ADASUM", beside);
}

static kolo_status check_compression(const kolo_compile_args *args, const kolo_backend *backend)
{
    const kolo_optimizer *optimizer = &args->optimizer;
    if (optimizer->compression == KOLO_COMPRESSION_NONE) return KOLO_OK;
    if ((int)optimizer->compression < 0 || optimizer->compression > KOLO_COMPRESSION_BF16)
        return kolo_fail(KOLO_INVALID,
                         ".optimizer: .compression of kolo_distributed(): wanted KOLO_COMPRESSION_NONE, _FP16 or "
                         "_BF16, "
                         "got another one, %d",
                         (int)optimizer->compression);
    bool workers = kolo_strategy_has_workers(kolo_strategy_kind_of(&args->strategy));
    const char *beside = args->deterministic ? ".deterministic, which promises the same bits for any number of ranks"
                         : optimizer->reduction == KOLO_REDUCE_ADASUM ? "KOLO_REDUCE_ADASUM"
                         : optimizer->comm                            ? ".comm, which sums floats"
                         : workers                                    ? "a strategy of workers, which exchange weights"
                         : backend->streams->steps_ahead > 0          ? "a device with a memory of its own"
                                                                      : NULL;
    if (!beside) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED, ".optimizer: wanted no .compression beside %s, got one", beside);
}

/* Makes all checks before kolo_compile() changes the model. */
static kolo_status check(const kolo_compile_args *args, kolo_optimizer *optimizer, kolo_metric_list *metrics,
                         const kolo_backend **backend)
{
    KOLO_TRY(kolo_check_environment());
    if (args->optimizer.kind) KOLO_TRY(kolo_optimizer_complete(&args->optimizer, optimizer));
    if (args->model->output < 0)
        return args->model->broken && kolo_failed()
                   ? KOLO_INVALID
                   : kolo_fail(KOLO_INVALID, "wanted a complete model, got one without its "
                                             "kolo_graph_output()");
    kolo_shape outputs = args->model->layers[args->model->output].out;
    KOLO_TRY(kolo_metric_list_make(&args->loss, args->metrics, outputs.dim[outputs.rank - 1], metrics));
    KOLO_TRY(check_last_activation(args->model, &args->loss));
    KOLO_TRY(check_precision(args->precision));
    KOLO_TRY(check_reduction(args));
    KOLO_TRY(kolo_backend_find(args->backend, args->precision ? args->precision : KOLO_FLOAT32, backend));
    return check_compression(args, *backend);
}

/* The name of the device that keeps the strategy's weights, or NULL if there is none. */
static const char *parameter_device(const kolo_strategy *strategy)
{
    bool asks = strategy->kind && strategy->kind->parameter_device;
    if (asks) return strategy->kind->parameter_device(strategy);
    return strategy->kind ? strategy->parameter_device : NULL;
}

/* Chooses the replica that updates weights on a parameter device: the one of place->replicas replicas that is on this
 * device, or else place->threads threads. */
static void place_updater(const kolo_strategy *strategy, kolo_deployment *place)
{
    const char *name = parameter_device(strategy);
    int device = name ? kolo_device_number(name) : KOLO_HOST, visible = kolo_device_count();
    place->updater = -1;
    place->threads = kolo_threads();
    if (device < 0) return;
    int named = 0;
    for (; named < KOLO_DEVICE_NAMES_MAX && strategy->device_names[named]; named++)
        if (kolo_device_number(strategy->device_names[named]) == device) place->updater = named;
    if (named == 0 && device < place->replicas) place->updater = device;
    place->threads = kolo_threads() / visible > 1 ? kolo_threads() / visible : 1;
}

/* Counts the strategy's replicas, and chooses the updater, by the devices that are visible now: other devices may be
 * visible when the model is trained. */
static kolo_status place(const kolo_model *model, const kolo_strategy *strategy, kolo_deployment *place)
{
    KOLO_TRY(kolo_model_check_devices(model));
    KOLO_TRY(kolo_replicas_under(model, strategy, &place->replicas));
    place->several = !kolo_strategy_kind_of(strategy)->one_replica;
    place_updater(strategy, place);
    return KOLO_OK;
}

/* Under several ranks each is one worker, unless it is told to have more. */
static void use_ranks_as_workers(kolo_strategy *strategy)
{
    bool has = kolo_strategy_has_workers(kolo_strategy_kind_of(strategy));
    if (has && !strategy->workers && !strategy->devices && !strategy->device_names[0]) strategy->workers = 1;
}

/* Refuses settings that a centre which the optimizer updates cannot have. */
static kolo_status check_center(const kolo_compile_args *args)
{
    const kolo_strategy_kind *kind = kolo_strategy_kind_of(&args->strategy);
    const kolo_optimizer *optimizer = &args->optimizer;
    if (!kind->updates_center) return KOLO_OK;
    if (args->precision == KOLO_MIXED_FP16)
        return kolo_fail(KOLO_UNSUPPORTED, "strategy %s: wanted a precision without loss scaling, got KOLO_MIXED_FP16",
                         kind->name);
    if (optimizer->common.accumulate_steps <= 1) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "strategy %s: .accumulate_steps: wanted 1, since each batch updates the centre, "
                     "got %d",
                     kind->name, optimizer->common.accumulate_steps);
}

/* Refuses settings that a learner's own all-reduce cannot be used with. */
static kolo_status check_own_comm(const kolo_compile_args *args)
{
    const kolo_own_comm *own = args->optimizer.comm;
    if (!own) return KOLO_OK;
    KOLO_TRY(kolo_own_comm_check(own));
    const char *name = kolo_own_comm_name(own);
    if (args->deterministic)
        return kolo_fail(KOLO_UNSUPPORTED,
                         "comm %s: wanted training that is not .deterministic, which adds the gradients of all "
                         "microbatches in one tree, without an all-reduce",
                         name);
    if (!kolo_strategy_has_workers(kolo_strategy_kind_of(&args->strategy))) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "comm %s: wanted a strategy with an all-reduce, got %s, whose workers exchange "
                     "weights with a centre",
                     name, kolo_strategy_kind_of(&args->strategy)->name);
}

/* Closes everything that a compiled model computes with. */
static void close_engines(kolo_model *model)
{
    kolo_trainer_close(&model->trainer);
    kolo_close_scorers(model);
}

/* Zeros that were written are kept as KOLO_NONE. */
static void keep_zeros(kolo_strategy *strategy)
{
    kolo_keep_zero_int(strategy->_, "initial_sync", &strategy->initial_sync);
    kolo_keep_zero(strategy->_, "rho", &strategy->rho);
    kolo_keep_zero(strategy->_, "learning_rate", &strategy->learning_rate);
    kolo_keep_zero(strategy->_, "momentum", &strategy->momentum);
}

static kolo_status keep_texts(kolo_model *model, kolo_strategy *strategy)
{
    for (int i = 0; i < KOLO_DEVICE_NAMES_MAX; i++) KOLO_TRY(kolo_model_keep_text(model, &strategy->device_names[i]));
    KOLO_TRY(kolo_model_keep_text(model, &strategy->turns));
    KOLO_TRY(kolo_model_keep_text(model, &strategy->replay));
    KOLO_TRY(kolo_model_keep_text(model, &strategy->record));
    return kolo_model_keep_text(model, &strategy->parameter_device);
}

static kolo_status check_buckets(const kolo_optimizer *optimizer)
{
    if (optimizer->bucket_bytes >= 0 || optimizer->bucket_bytes == KOLO_NONE) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "kolo_distributed: .bucket_bytes: wanted at least 1, or KOLO_NONE, got %lld",
                     (long long)optimizer->bucket_bytes);
}

static kolo_status compile(const kolo_compile_args *args)
{
    kolo_model *model = args->model;
    KOLO_TRY(kolo_model_check(model));
    KOLO_TRY(kolo_model_check_idle(model));
    const kolo_backend *backend;
    kolo_optimizer optimizer = {0};
    kolo_metric_list metrics;
    kolo_deployment where = {0};
    KOLO_TRY(check(args, &optimizer, &metrics, &backend));
    KOLO_TRY(check_buckets(&args->optimizer));
    kolo_strategy strategy = args->strategy;
    keep_zeros(&strategy);
    if (args->optimizer.distributed && kolo_size() > 1) use_ranks_as_workers(&strategy);
    KOLO_TRY(check_center(args));
    KOLO_TRY(check_own_comm(args));
    KOLO_TRY(place(model, &strategy, &where));
    close_engines(model);
    model->close_engines = close_engines;
    model->position = (kolo_position){0};
    model->numbers = (kolo_numbers){0};
    kolo_kept_clear(&model->kept);
    free(model->checkpoint);
    model->checkpoint = NULL;
    model->settings = *args;
    model->settings.optimizer = optimizer;
    model->settings.strategy = strategy;
    model->settings._ = model->settings.strategy._ = NULL; /* the caller may free them before the model */
    KOLO_TRY(keep_texts(model, &model->settings.strategy));
    free(model->place.on_ranks);
    model->place = where;
    model->metrics = metrics;
    if (!args->precision) model->settings.precision = KOLO_FLOAT32;
    model->backend = backend;
    bool seeded = args->seed != KOLO_NEW_SEED && (args->seed != 0 || kolo_written(args->_, "seed"));
    model->settings.seed = seeded ? args->seed : KOLO_NEW_SEED;
    model->seed = seeded ? args->seed : kolo_random_seed();
    if (optimizer.kind) model->learning_rate = model->compiled_rate = kolo_optimizer_rate(&optimizer, 0);
    if (!model->has_weights) kolo_model_draw_weights(model);
    model->compiled = true;
    return KOLO_OK;
}

kolo_status kolo_compile_at(const kolo_compile_args *args, kolo_here here)
{
    kolo_model_call call = kolo_model_enter(args->model, "kolo_compile", true, here);
    if (call.status == KOLO_OK) call.status = compile(args);
    return kolo_model_leave(&call);
}

kolo_status kolo_model_set_rate(kolo_model *model, double learning_rate)
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
    return kolo_leave(scope, kolo_model_set_rate(model, learning_rate));
}

double kolo_get_learning_rate(const kolo_model *model)
{
    return model ? model->learning_rate : 0;
}

bool kolo_training_stopped(const kolo_model *model)
{
    return model && model->stop_training;
}

void kolo_stop_training(kolo_model *model)
{
    if (model) model->stop_training = true;
}
