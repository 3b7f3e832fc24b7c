/* How fast the lesson's CNN trains: whole epochs of kolo_fit with shuffling, dropout, accuracy and Adam, on pictures of
 * noise, so that reading data plays no part. The peers in peers/ train the same network on the same kind of data.
 *
 *     cnn_bench BATCH fp32|bf16 STEPS EPOCHS              kolorun -np 8 cnn_bench 128 fp32 5 2
 *
 * BATCH is a rank's. Rank 0 prints one line of JSON: when the first step was done (seconds since 1970), for each epoch
 * its seconds, images, and CPU seconds of rank 0, and rank 0's peak memory in bytes. run.py reads it.
 */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { SIDE = 28, CLASSES = 10, EPOCHS_MAX = 64 };

typedef struct record {
    double first_step_at;
    double cpu_seconds[EPOCHS_MAX], cpu_begin;
} record;

static double cpu_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static long peak_bytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss * 1024; /* Linux counts kilobytes */
}

/* ---- Hooks ---- */

static void on_batch_end(kolo_callback *self, int batch, const kolo_logs *logs)
{
    record *seen = self->user;
    struct timespec now;
    (void)batch, (void)logs;
    if (seen->first_step_at > 0) return;
    clock_gettime(CLOCK_REALTIME, &now);
    seen->first_step_at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void on_epoch_begin(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)epoch, (void)logs;
    ((record *)self->user)->cpu_begin = cpu_seconds();
}

static void on_epoch_end(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    record *seen = self->user;
    (void)logs;
    seen->cpu_seconds[epoch] = cpu_seconds() - seen->cpu_begin;
}

/* ---- The training ---- */

/* The same on every rank: each reads its share of the common order. */
static kolo_data *noise(int64_t samples)
{
    float *pixels = malloc((size_t)samples * SIDE * SIDE * sizeof *pixels);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    kolo_data *data = NULL;
    srand(1);
    for (int64_t i = 0; pixels && i < samples * SIDE * SIDE; i++) pixels[i] = (float)rand() / (float)RAND_MAX;
    for (int64_t i = 0; labels && i < samples; i++) labels[i] = rand() % CLASSES;
    if (pixels && labels)
        data = kolo_data_from_arrays(pixels, labels, .samples = samples, .shape = {SIDE, SIDE, 1}, .classes = CLASSES);
    free(pixels);
    free(labels);
    return data;
}

static kolo_model *lesson_cnn(kolo_precision precision)
{
    kolo_model *model =
        kolo_sequential(kolo_input(SIDE, SIDE, 1), kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
                        kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                        kolo_dropout(0.25), kolo_flatten(), kolo_dense(128, .activation = KOLO_RELU), kolo_dropout(0.5),
                        kolo_dense(CLASSES));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(.learning_rate = 1e-3)),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .precision = precision, .seed = 1);
    return model;
}

static void print_json(const kolo_history *history, const record *seen)
{
    printf("{\"first_step_at\": %.6f, \"peak_bytes\": %ld, \"epochs\": [", seen->first_step_at, peak_bytes());
    for (int i = 0; i < history->epochs; i++)
        printf("%s{\"seconds\": %.6f, \"images\": %lld, \"cpu_seconds\": %.6f}", i ? ", " : "",
               history->epoch[i].seconds, (long long)history->epoch[i].images, seen->cpu_seconds[i]);
    printf("]}\n");
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    int batch = argc == 5 ? atoi(argv[1]) : 0, steps = argc == 5 ? atoi(argv[3]) : 0,
        epochs = argc == 5 ? atoi(argv[4]) : 0;
    if (batch < 1 || steps < 1 || epochs < 1 || epochs > EPOCHS_MAX) {
        fprintf(stderr, "usage: cnn_bench BATCH fp32|bf16 STEPS EPOCHS\n");
        return kolo_finish(), 2;
    }
    record seen = {0};
    kolo_callback watch = {.name = "watch",
                           .on_train_batch_end = on_batch_end,
                           .on_epoch_begin = on_epoch_begin,
                           .on_epoch_end = on_epoch_end,
                           .user = &seen};
    kolo_data *data = noise((int64_t)batch * steps * kolo_size());
    kolo_model *model = lesson_cnn(strcmp(argv[2], "bf16") == 0 ? KOLO_MIXED_BF16 : KOLO_FLOAT32);
    const kolo_history *history = kolo_fit(model, data, .epochs = epochs, .batch_size = batch, .verbose = KOLO_NONE,
                                           .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), watch});
    if (history && kolo_rank() == 0) print_json(history, &seen);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
