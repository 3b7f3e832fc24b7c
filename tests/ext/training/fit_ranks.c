/* A rank of test_fit_ranks.py. fit_ranks differ WHAT…: for each of them the last rank has another order, buffer,
 * learning rate, … than the others, and "WHAT: sentence" is printed. fit_ranks apart: no rank has kolo_distributed(),
 * and rank 1 trains nothing. fit_ranks penalty L2: each rank's own loss of a first step, and Σ w² before it. */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 640, FEATURES = 6, CLASSES = 3, TINY = 64, FOREVER = 100000000 };

static bool equal(const char *one, const char *other)
{
    return strcmp(one, other) == 0;
}

static bool is_other(const char *how, const char *what)
{
    return kolo_rank() == kolo_size() - 1 && equal(how, what);
}

/* Under "middle" 20 samples of 640 differ. */
static kolo_data *make_data(const char *how, int64_t samples)
{
    static float features[SAMPLES * FEATURES], targets[SAMPLES * CLASSES], weights[SAMPLES];
    static int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) features[i] = (float)sin(is_other(how, "data") ? 1.4 * i : 1.3 * i);
    for (int i = 100 * FEATURES; is_other(how, "middle") && i < 120 * FEATURES; i++) features[i] += 1;
    for (int i = 0; i < SAMPLES * CLASSES; i++) targets[i] = (float)sin(is_other(how, "targets") ? 2.9 * i : 2.1 * i);
    for (int s = 0; s < SAMPLES; s++) labels[s] = s * (is_other(how, "label") ? 4 : 5) % CLASSES;
    for (int s = 0; s < SAMPLES; s++) weights[s] = is_other(how, "weights") && s == 11 ? 3 : 1;
    if (equal(how, "targets") || equal(how, "huber"))
        return kolo_data_from_arrays(features, .targets = targets, .target_shape = {CLASSES}, .samples = samples,
                                     .shape = {FEATURES});
    return kolo_data_from_arrays(features, labels, .weights = weights, .samples = samples, .shape = {FEATURES},
                                 .classes = CLASSES);
}

static kolo_strategy strategy_of(const char *how)
{
    if (equal(how, "workers")) return kolo_easgd(.workers = is_other(how, "workers") ? 2 : 1);
    if (equal(how, "window")) return kolo_downpour(.window = is_other(how, "window") ? 2 : 5);
    if (equal(how, "momentum")) return kolo_async_eamsgd(.momentum = is_other(how, "momentum") ? 0.5 : 0.9);
    if (equal(how, "turns")) return kolo_downpour(.turns = is_other(how, "turns") ? "0 1 2 2" : "0 1 2");
    if (equal(how, "alone_workers")) return kolo_downpour();
    return kolo_one_device();
}

static kolo_loss loss_of(const char *how)
{
    if (equal(how, "huber")) return is_other(how, "huber") ? KOLO_HUBER(3) : KOLO_HUBER(0.1);
    if (equal(how, "targets")) return KOLO_MSE;
    if (is_other(how, "smoothing")) return KOLO_LABEL_SMOOTHING(KOLO_SPARSE_CROSSENTROPY, 0.3);
    return KOLO_SPARSE_CROSSENTROPY;
}

static kolo_model *make_model(const char *how, double l2)
{
    kolo_activation activation = is_other(how, "activation") ? KOLO_TANH : KOLO_RELU;
    kolo_model *model =
        kolo_sequential(kolo_input(FEATURES), kolo_dense(5, .activation = activation, .l2 = l2), kolo_dense(CLASSES));
    kolo_optimizer optimizer = kolo_sgd(.learning_rate = is_other(how, "rate")     ? 0.2
                                                         : is_other(how, "digits") ? 0.10000001
                                                                                   : 0.1);
    bool alone =
        is_other(how, "alone") || is_other(how, "alone_plain") || is_other(how, "alone_workers") || equal(how, "apart");
    kolo_compile(model, .strategy = strategy_of(how), .loss = loss_of(how),
                 .seed = equal(how, "weights_apart") ? (uint64_t)kolo_rank() + 1 : 3,
                 .metrics = {is_other(how, "metric") ? KOLO_CATEGORICAL_ACCURACY : KOLO_ACCURACY},
                 .optimizer = alone ? optimizer : kolo_distributed(optimizer));
    return model;
}

static double halve(int epoch, double rate)
{
    (void)epoch;
    return rate / 2;
}

static void set_own_rate(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)logs;
    if (epoch == 1) kolo_set_learning_rate(self->model, 0.025);
}

/* The callbacks of this rank. */
static void list_callbacks(const char *how, kolo_callback *callbacks)
{
    bool none = is_other(how, "broadcast") || equal(how, "weights_apart") || equal(how, "alone_plain") ||
                equal(how, "alone_workers") || equal(how, "set_rate");
    if (!none) *callbacks++ = kolo_broadcast_variables(0);
    if (is_other(how, "scheduler")) *callbacks++ = kolo_learning_rate_scheduler(halve);
    if (is_other(how, "own_callback")) *callbacks++ = (kolo_callback){.name = "own", .on_epoch_begin = set_own_rate};
    if (equal(how, "patience"))
        *callbacks++ = kolo_early_stopping(.monitor = "loss", .patience = is_other(how, "patience") ? 3 : 4);
    if (is_other(how, "watching")) *callbacks++ = kolo_terminate_on_nan();
}

static void differ(const char *how)
{
    int samples = equal(how, "middle") ? SAMPLES : TINY;
    bool alone = strncmp(how, "alone", 5) == 0;
    kolo_data *data = make_data(how, samples), *other = make_data(is_other(how, "validation") ? "data" : "", TINY);
    kolo_model *model = make_model(how, 0);
    kolo_fit_args args = {.model = model,
                          .data = is_other(how, "no_data") ? NULL : data,
                          .batch_size = 8,
                          .verbose = KOLO_NONE,
                          .epochs = alone ? FOREVER : 3,
                          .resume = is_other(how, "resume"),
                          .sharded = is_other(how, "sharded"),
                          .no_shuffle = is_other(how, "order"),
                          .shuffle_buffer = is_other(how, "buffer") ? 16 : 0,
                          .validation_data = equal(how, "validation") ? other : NULL,
                          .check_every = equal(how, "weights_apart") ? 2 : 0};
    list_callbacks(how, args.callbacks);
    if (is_other(how, "class_weight")) args.class_weight[2] = 100;
    if (is_other(how, "set_rate")) kolo_set_learning_rate(model, 0.01);
    const kolo_history *history = kolo_fit_at(&args, KOLO_HERE);
    printf("%s: %s\n", how, history ? "trained" : kolo_last_error().text);
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
    kolo_data_free(&other);
}

/* Ranks without kolo_distributed() have nothing to do with each other. */
static void train_apart(void)
{
    if (kolo_rank() == 1) return;
    for (int i = 0; i < 2; i++) differ("apart");
}

static double squares_of_kernel(kolo_model *model)
{
    kolo_weight kernel = kolo_weight_get(model, 0);
    double sum = 0;
    for (int64_t i = 0; i < kernel.count; i++) sum += (double)kernel.values[i] * (double)kernel.values[i];
    return sum;
}

static void tell_penalty(double l2)
{
    kolo_data *data = make_data("", TINY);
    kolo_model *model = make_model("", l2);
    double squares = squares_of_kernel(model);
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = TINY / kolo_size(), .no_shuffle = true, .verbose = KOLO_NONE);
    printf("%d %.9g %.9g\n", kolo_rank(), history ? history->epoch[0].loss : NAN, squares);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (equal(argv[1], "penalty")) tell_penalty(atof(argv[2]));
    else if (equal(argv[1], "apart")) train_apart();
    else
        for (int i = 2; i < argc; i++) differ(argv[i]);
    return kolo_finish();
}
