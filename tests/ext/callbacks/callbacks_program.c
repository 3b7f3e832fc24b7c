/* For test_callbacks.py: a fit with callbacks, on however many ranks.
 *   callbacks_program events FOLDER | stops | bad
 *   callbacks_program log FOLDER KILLS anew|append: kills itself at so many batches' ends, or between the log's row of
 *   epoch -KILLS and its backup; 0 comes to the end */
#include <kolo.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Wants to stop on the last rank alone, after its third epoch. */
static void stop_alone(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)logs;
    if (epoch == 2 && kolo_rank() == kolo_size() - 1) kolo_stop_training(self->model);
}

static void kill_at_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch;
    (void)logs;
    if (self->number[0] > 0 && --self->number[0] == 0) raise(SIGKILL);
}

static void kill_after_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)logs;
    if (-(epoch + 1) == (int)self->number[0]) raise(SIGKILL);
}

static const kolo_history *fit_with_log(kolo_model *model, kolo_data *data, char **words)
{
    char path[512];
    double kills = atoi(words[1]);
    snprintf(path, sizeof path, "%s/log.csv", words[0]);
    kolo_callback log = kolo_csv_logger(path, .append = strcmp(words[2], "append") == 0);
    kolo_callback backup = kolo_backup_and_restore(words[0], .save_freq = words[3] ? atoi(words[3]) : 4);
    kolo_callback killer = {.on_train_batch_end = kill_at_batch, .on_epoch_end = kill_after_epoch, .number = {kills}};
    return kolo_fit(model, data, .epochs = 5, .batch_size = 40, .verbose = 0, .callbacks = {log, killer, backup});
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 240);
    kolo_data *test = kolo_synthetic_digits(KOLO_TEST, .samples = 50);
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_sgd()), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .metrics = {KOLO_ACCURACY}, .seed = 3);
    kolo_callback callback = {0};
    if (strcmp(argv[1], "events") == 0) callback = kolo_tensorboard(argv[2], .update_freq = 2);
    if (strcmp(argv[1], "stops") == 0) callback = (kolo_callback){.on_epoch_end = stop_alone};
    if (strcmp(argv[1], "plateau") == 0)
        callback = kolo_reduce_lr_on_plateau(.monitor = "loss", .patience = 1, .min_delta = 9);
    const kolo_history *history =
        strcmp(argv[1], "log") == 0 ? fit_with_log(model, data, argv + 2)
                                    : kolo_fit(model, data, .epochs = 5, .batch_size = 240 / 6 / kolo_size(),
                                               .validation_data = test, .verbose = KOLO_NONE, .callbacks = {callback});
    if (history)
        printf("rank %d: %d epochs, rate %g, loss %.9g, val_loss %.9g\n", kolo_rank(), history->epochs,
               kolo_get_learning_rate(model), history->epoch[0].loss, history->epoch[0].val_loss);
    kolo_model_free(&model);
    kolo_data_free(&data);
    kolo_data_free(&test);
    return kolo_finish();
}
