/* A rank of test_fit_ranks.py. fit_ranks order|buffer|rate|activation|data|label|broadcast|workers: the last rank has
 * another order, buffer, learning rate, … than the others, and the sentence is printed. fit_ranks penalty L2: each
 * rank's own loss of a first step, and Σ w² before it. */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 64, FEATURES = 6, CLASSES = 3 };

static bool is_other(const char *how, const char *what)
{
    return kolo_rank() == kolo_size() - 1 && strcmp(how, what) == 0;
}

static kolo_data *make_data(const char *how)
{
    float features[SAMPLES * FEATURES];
    int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) features[i] = (float)sin(is_other(how, "data") ? 1.4 * i : 1.3 * i);
    for (int s = 0; s < SAMPLES; s++) labels[s] = s * (is_other(how, "label") ? 4 : 5) % CLASSES;
    return kolo_data_from_arrays(features, labels, .samples = SAMPLES, .shape = {FEATURES}, .classes = CLASSES);
}

static kolo_model *make_model(const char *how, double l2)
{
    kolo_activation activation = is_other(how, "activation") ? KOLO_TANH : KOLO_RELU;
    kolo_model *model =
        kolo_sequential(kolo_input(FEATURES), kolo_dense(5, .activation = activation, .l2 = l2), kolo_dense(CLASSES));
    kolo_strategy workers = kolo_easgd(.workers = is_other(how, "workers") ? 2 : 1);
    kolo_compile(model, .strategy = strcmp(how, "workers") == 0 ? workers : kolo_one_device(),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                 .optimizer = kolo_distributed(kolo_sgd(.learning_rate = is_other(how, "rate") ? 0.2 : 0.1)));
    return model;
}

static void differ(kolo_model *model, kolo_data *data, const char *how)
{
    kolo_callback broadcast = kolo_broadcast_variables(0), none = {0};
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = 8, .verbose = KOLO_NONE, .no_shuffle = is_other(how, "order"),
                 .shuffle_buffer = is_other(how, "buffer") ? 16 : 0,
                 .callbacks = {is_other(how, "broadcast") ? none : broadcast});
    printf("%s\n", history ? "trained" : kolo_last_error().text);
    kolo_clear_error();
}

static double squares_of_kernel(kolo_model *model)
{
    kolo_weight kernel = kolo_weight_get(model, 0);
    double sum = 0;
    for (int64_t i = 0; i < kernel.count; i++) sum += (double)kernel.values[i] * (double)kernel.values[i];
    return sum;
}

static void tell_penalty(kolo_model *model, kolo_data *data)
{
    double squares = squares_of_kernel(model);
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = SAMPLES / kolo_size(), .no_shuffle = true, .verbose = KOLO_NONE);
    printf("%d %.9g %.9g\n", kolo_rank(), history ? history->epoch[0].loss : NAN, squares);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    bool penalty = strcmp(argv[1], "penalty") == 0;
    kolo_data *data = make_data(argv[1]);
    kolo_model *model = make_model(argv[1], penalty ? atof(argv[2]) : 0);
    if (penalty) tell_penalty(model, data);
    else differ(model, data, argv[1]);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
