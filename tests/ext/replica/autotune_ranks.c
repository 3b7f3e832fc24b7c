/* A rank of test_autotune.py, in one of these ways.
 *
 * train FITS STEPS [ACCUMULATE [DEVICES]]: trains a network of 2 MB in so many calls of kolo_fit(), of STEPS steps
 * each. Prints the checksum of its weights, the numbers of buckets in which the gradients of its steps were summed, in
 * the order of their first step, and the last one.
 *
 * decide BUCKETS: the seconds of the steps are made up. Rank 0's are fewest with so many buckets, those of the other
 * ranks with any other number. Prints the number that was chosen.
 *
 * Any other word: trains in a way in which there is nothing to tune, or too few steps ("plain"). */
#define _GNU_SOURCE /* Dl_info, in rig.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../core/checksum.h"
#include "../backend/rig.h"
#include "replica/autotune.h"
#include "replica/overlap.h"

enum { SAMPLES = 96, WIDTH = 256 };

static int seen[8], seen_count;

static void note_buckets(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch, (void)logs;
    int now = kolo_overlap_buckets(self->model->trainer);
    for (int i = 0; i < seen_count; i++)
        if (seen[i] == now) return;
    if (seen_count < 8) seen[seen_count++] = now;
}

/* Eight layers of 256 KiB. */
static kolo_model *make(void)
{
    return kolo_sequential(kolo_input(WIDTH), kolo_dense(WIDTH, .activation = KOLO_RELU), kolo_dense(WIDTH),
                           kolo_dense(WIDTH, .activation = KOLO_RELU), kolo_dense(WIDTH), kolo_dropout(0.1),
                           kolo_dense(WIDTH, .activation = KOLO_RELU), kolo_dense(WIDTH), kolo_dense(WIDTH),
                           kolo_dense(WIDTH), kolo_dense(4));
}

static kolo_data *draw_samples(void)
{
    static float features[SAMPLES * WIDTH];
    static int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * WIDTH; i++) features[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % 4;
    return kolo_data_from_arrays(features, labels, .samples = SAMPLES, .shape = {WIDTH}, .classes = 4);
}

static kolo_optimizer adam(int accumulate)
{
    return kolo_distributed(kolo_adam(.learning_rate = 1e-3, .accumulate_steps = accumulate));
}

static int train(int fits, int steps, int accumulate, int devices)
{
    kolo_model *model = make();
    kolo_data *data = draw_samples();
    kolo_callback watch = {.name = "watch", .on_train_batch_end = note_buckets};
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = adam(accumulate), .seed = 3,
                        .strategy = kolo_mirrored(.devices = devices)));
    for (int i = 0; i < fits; i++)
        assert_non_null(kolo_fit(model, data, .batch_size = 12, .epochs = steps / 2, .steps_per_epoch = 2,
                                 .verbose = KOLO_NONE, .callbacks = {watch}));
    printf("%016llx seen", (unsigned long long)checksum(model));
    for (int i = 0; i < seen_count; i++) printf(" %d", seen[i]);
    printf(" last %d\n", kolo_overlap_buckets(model->trainer));
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

static int decide(int wanted)
{
    kolo_model *model = make();
    kolo_data *data = draw_samples();
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = adam(1), .seed = 3));
    assert_non_null(kolo_fit(model, data, .batch_size = 12, .steps_per_epoch = 1, .verbose = KOLO_NONE));
    kolo_trainer *trainer = model->trainer;
    for (int i = 0; i < 100; i++) {
        bool fast = (kolo_overlap_buckets(trainer) == wanted) == (kolo_rank() == 0);
        double seconds = i % 7 == 0 ? 9 : fast ? 1 : 2; /* the 9: each turn has an outlier, which no median is */
        rig_ok(kolo_autotune_step(trainer, seconds));
    }
    printf("%d\n", kolo_overlap_buckets(trainer));
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

/* Two calls: what there is to say is said once. */
static int fit(kolo_model *model, kolo_optimizer optimizer, kolo_strategy strategy, bool deterministic)
{
    kolo_data *data = draw_samples();
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = optimizer, .strategy = strategy,
                        .seed = 3, .deterministic = deterministic));
    for (int i = 0; i < 2; i++) kolo_fit(model, data, .batch_size = 12, .steps_per_epoch = 2, .verbose = KOLO_NONE);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    const char *way = argv[1];
    kolo_strategy plain = kolo_one_device();
    if (strcmp(way, "train") == 0)
        return train(atoi(argv[2]), atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 1, argc > 5 ? atoi(argv[5]) : 1);
    if (strcmp(way, "decide") == 0) return decide(atoi(argv[2]));
    if (strcmp(way, "deterministic") == 0) return fit(make(), adam(1), plain, true);
    if (strcmp(way, "chosen") == 0)
        return fit(make(), kolo_distributed(kolo_sgd(), .bucket_bytes = 1000), plain, false);
    if (strcmp(way, "adasum") == 0)
        return fit(make(), kolo_distributed(kolo_sgd(), .op = KOLO_REDUCE_ADASUM), plain, false);
    if (strcmp(way, "alone") == 0) return fit(make(), kolo_sgd(), plain, false);
    if (strcmp(way, "workers") == 0) return fit(make(), kolo_sgd(), kolo_downpour(), false);
    if (strcmp(way, "differ") == 0) setenv("KOLO_AUTOTUNE", kolo_rank() == 0 ? "1" : "0", 1);
    if (strcmp(way, "small") == 0) return fit(kolo_sequential(kolo_input(WIDTH), kolo_dense(4)), adam(1), plain, false);
    return fit(make(), adam(1), plain, false); /* "plain" */
}
