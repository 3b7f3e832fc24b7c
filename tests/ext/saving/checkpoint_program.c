/* For test_checkpoint.py: trains a small network with dropout on drawn digits, in one go or in pieces.
 *
 *   checkpoint_program [OPTION=VALUE …]
 *     feed=N (a kolo_feed_kind)  optimizer=sgd|adam|novograd|rmsprop  accumulate=N  devices=N (of rank 0)  more=N (of
 * each next rank)  epochs=N  initial=N  load=FILE  save=FILE weights=FILE  stop=STEPS  partial=FILE history=FILE
 * distributed=0|1  deterministic=0|1  samples=N stop: ends the training after so many steps in all, whose state goes to
 * the file partial. */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int words;
static char **word;

static const char *text(const char *name, const char *fallback)
{
    size_t length = strlen(name);
    for (int i = 1; i < words; i++)
        if (strncmp(word[i], name, length) == 0 && word[i][length] == '=') return word[i] + length + 1;
    return fallback;
}

static int number(const char *name, int fallback)
{
    const char *value = text(name, NULL);
    return value ? atoi(value) : fallback;
}

static void stop_in_time(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch;
    (void)logs;
    if (--self->number[0] != 0) return; /* ranks stop together, a step later */
    kolo_checkpoint_save(self->model, text("partial", NULL));
    kolo_stop_training(self->model);
}

static kolo_optimizer optimizer(void)
{
    const char *name = text("optimizer", "adam");
    kolo_optimizer chosen = kolo_adam(.clip_norm = 1);
    if (strcmp(name, "sgd") == 0) chosen = kolo_sgd(.learning_rate = 0.05, .momentum = 0.9, .nesterov = true);
    if (strcmp(name, "novograd") == 0) chosen = kolo_novograd();
    if (strcmp(name, "rmsprop") == 0) chosen = kolo_rmsprop(.momentum = 0.9, .centered = true);
    chosen.common.accumulate_steps = number("accumulate", 0);
    return number("distributed", 0) ? kolo_distributed(chosen) : chosen;
}

static void train(kolo_model *model, kolo_data *data, kolo_data *test)
{
    kolo_callback stop = {.name = "stop", .on_train_batch_end = stop_in_time, .number = {number("stop", 0)}};
    const char *load = text("load", NULL);
    if (load) kolo_checkpoint_load(model, load);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = number("epochs", 2), .batch_size = number("batch", 60), .validation_data = test,
                 .resume = load != NULL, .verbose = KOLO_NONE, .feed = (kolo_feed_kind)number("feed", 0),
                 .callbacks = {kolo_metric_average(), stop.number[0] > 0 ? stop : (kolo_callback){0}});
    if (history && kolo_rank() == 0 && text("history", NULL)) kolo_history_save(history, text("history", NULL));
    if (history && text("save", NULL)) kolo_checkpoint_save(model, text("save", NULL));
    if (history && kolo_rank() == 0 && text("weights", NULL)) kolo_save(model, text("weights", NULL));
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    words = argc;
    word = argv;
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = number("samples", 311));
    kolo_data *test = kolo_synthetic_digits(KOLO_TEST, .samples = 50);
    kolo_model *model =
        kolo_sequential(kolo_input(28, 28, 1),
                        kolo_conv2d(4, .kernel = {5, 5}, .stride = {3, 3}, .activation = KOLO_RELU), kolo_dropout(0.2),
                        kolo_flatten(), kolo_dense(12, .activation = KOLO_RELU), kolo_dropout(0.4), kolo_dense(10));
    kolo_compile(model, .optimizer = optimizer(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY},
                 .strategy = kolo_mirrored(.devices = number("devices", 1) + kolo_rank() * number("more", 0)),
                 .seed = (uint64_t)number("seed", 3), .deterministic = number("deterministic", 1));
    train(model, data, test);
    kolo_model_free(&model);
    kolo_data_free(&data);
    kolo_data_free(&test);
    return kolo_finish();
}
