/* For test_restarts.py: a fit that is backed up every two batches.
 *   restart_program FOLDER KILLS: the last rank kills itself at its batch number KILLS, in a start whose mark is not
 * yet in FOLDER; 0: it does not. Says how many batches this start has trained, and the weights' last loss. */
#include <kolo.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int batches;

static void kill_once(kolo_callback *self, int batch, const kolo_logs *logs)
{
    char mark[4096];
    (void)batch;
    (void)logs;
    if (++batches != (int)self->number[0] || kolo_rank() != kolo_size() - 1) return;
    snprintf(mark, sizeof mark, "%s/killed", (const char *)self->user);
    if (open(mark, O_CREAT | O_EXCL, 0600) >= 0) raise(SIGKILL);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 240);
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_sgd()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3);
    kolo_callback killer = {.on_train_batch_end = kill_once, .number = {atoi(argv[2])}, .user = argv[1]};
    kolo_callback backup = kolo_backup_and_restore(argv[1], .save_freq = 2);
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 5, .batch_size = 20, .verbose = KOLO_NONE, .callbacks = {backup, killer});
    if (history && kolo_rank() == 0)
        printf("%d batches, loss %.9g\n", batches, history->epoch[history->epochs - 1].loss);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
