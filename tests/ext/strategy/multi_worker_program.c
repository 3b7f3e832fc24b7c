/* For test_multi_worker.py: one worker of a job. It trains a small network with kolo_multi_worker_mirrored() and prints
 * a line: its rank, the number of ranks, the steps of an epoch, the loss, and a hash of the weights.
 *
 *   multi_worker_program [seed=N] [deterministic=1] [devices=N (of rank 0)] [more=N (of each next rank)] [batch=N]
 *                        [epochs=N] [step=MILLISECONDS] [leave=RANK] */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/checksum.h"

static int words;
static char **word;

static int number(const char *name, int fallback)
{
    size_t length = strlen(name);
    for (int i = 1; i < words; i++)
        if (strncmp(word[i], name, length) == 0 && word[i][length] == '=') return atoi(word[i] + length + 1);
    return fallback;
}

/* Waits in each step; rank `leave` ends its process without a word in its fourth. */
static void linger(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)self;
    (void)logs;
    usleep((useconds_t)number("step", 0) * 1000);
    if (batch == 3 && number("leave", -1) == kolo_rank()) _exit(7);
}

static void train(kolo_model *model, kolo_data *data)
{
    kolo_callback slow = {.name = "slow", .on_train_batch_end = linger};
    bool plain = number("step", 0) == 0 && number("leave", -1) < 0;
    const kolo_history *history =
        kolo_fit(model, data, .epochs = number("epochs", 2), .batch_size = number("batch", 24), .verbose = KOLO_NONE,
                 .callbacks = {plain ? (kolo_callback){0} : slow});
    if (!history) return;
    const kolo_epoch *last = &history->epoch[history->epochs - 1];
    printf("%d %d %d %.9g %016llx\n", kolo_rank(), kolo_size(), last->steps, last->loss,
           (unsigned long long)checksum(model));
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    words = argc;
    word = argv;
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 103);
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(12, .activation = KOLO_RELU),
                                        kolo_dropout(0.3), kolo_dense(10));
    kolo_compile(model, .optimizer = kolo_adam(.learning_rate = 0.01), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .strategy =
                     kolo_multi_worker_mirrored(.devices = number("devices", 1) + kolo_rank() * number("more", 0)),
                 .seed = number("seed", 0) ? (uint64_t)number("seed", 0) : KOLO_NEW_SEED,
                 .deterministic = number("deterministic", 0));
    train(model, data);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
