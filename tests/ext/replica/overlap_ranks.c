/* A rank of test_overlap_ranks.py: overlap_ranks FIRST END. Trains random networks several times, with the gradient
 * summed over the ranks in small buckets beside the backward pass, in one piece after it, and in buckets of another
 * size in each step: the weights must have the same bits. KOLO_BACKEND=enqueued has second streams sum the buckets,
 * whose size does not change. Prints how many networks were trained, in how many buckets, or the numbers of those that
 * differ. overlap_ranks default: prints in how many buckets a network of 9 MB is summed if nobody chooses. */
#define _GNU_SOURCE /* Dl_info, in rig.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../backend/random_networks.h"
#include "../core/checksum.h"
#include "replica/overlap.h"

enum { SAMPLES = 100 };

/* How a network is trained, drawn by its number. */
typedef struct setting {
    int bucket_bytes, accumulate, batch, devices;
    kolo_precision precision;
} setting;

static setting setting_of(int number)
{
    dice d = {(uint64_t)number * 2654435761u + 99};
    for (int i = 0; i < 4; i++) roll(&d);
    static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_MIXED_FP16};
    setting made = {.bucket_bytes = roll_between(&d, 1, 3) * roll_between(&d, 1, 300),
                    .accumulate = roll_between(&d, 1, 3),
                    .batch = roll_between(&d, 3, 40),
                    .devices = roll_between(&d, 1, 3)};
    made.precision = precisions[roll_between(&d, 0, 3)];
    if (number % 4 == 1)
        made.batch = 15, made.devices = 1; /* the last batch leaves one of four ranks without samples */
    return made;
}

/* Each tenth network has statistics over the samples of all ranks, which are summed between the buckets. */
static kolo_model *make(int number, kolo_shape *shape, bool *tokens)
{
    if (number % 10 != 3) return draw((uint64_t)number, shape, tokens);
    *shape = (kolo_shape){3, {6, 5, 2}};
    *tokens = false;
    return kolo_sequential(kolo_input(6, 5, 2), kolo_conv2d(4, .kernel = {3, 3}), kolo_batch_norm(.synchronized = true),
                           kolo_conv2d(5, .kernel = {2, 2}), kolo_batch_norm(.synchronized = true), kolo_dropout(0.2),
                           kolo_flatten(), kolo_dense(classes));
}

/* After a step: as kolo_autotune_step() does it. */
static void change_size(kolo_callback *self, int batch, const kolo_logs *logs)
{
    static const int64_t sizes[] = {1, KOLO_NONE, 200, 700};
    kolo_trainer *trainer = self->model->trainer;
    (void)logs;
    rig_ok(kolo_overlap_reopen(trainer, sizes[batch % 4]));
    rig_ok(kolo_overlap_agree(trainer));
}

/* Returns the checksum of the weights that were learnt. *buckets: how many there were, 0 without overlap. */
static uint64_t train(int number, int64_t bucket_bytes, bool changes, int *buckets)
{
    setting s = setting_of(number);
    kolo_shape shape;
    bool tokens;
    kolo_model *model = make(number, &shape, &tokens);
    kolo_data *data = draw_data((uint64_t)number, SAMPLES, shape, tokens);
    bool uneven = number % 8 == 6; /* the odd ranks have a device more */
    int devices = uneven ? s.devices + kolo_rank() % 2 : s.devices;
    bool half = s.precision != KOLO_FLOAT32 && !getenv("KOLO_BACKEND"); /* not on every CPU can the faster backend */
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5, .precision = s.precision,
                        .backend = half ? "reference" : NULL,
                        .optimizer =
                            kolo_distributed(kolo_adam(.learning_rate = 1e-2, .accumulate_steps = s.accumulate),
                                             .bucket_bytes = bucket_bytes),
                        .strategy = devices > 1 || uneven ? kolo_mirrored(.devices = devices) : kolo_one_device()));
    assert_non_null(kolo_fit(model, data, .batch_size = s.batch * s.devices, .epochs = 2, .verbose = KOLO_NONE,
                             .callbacks = {kolo_broadcast_variables(0),
                                           {.name = "change", .on_train_batch_end = changes ? change_size : NULL}}));
    *buckets = kolo_overlap_buckets(model->trainer);
    kolo_timings timings = kolo_get_timings(model);
    bool updated = model->trainer->replicas[0].counters.updates > 0;
    if (updated && !(timings.communication > 0 && timings.exposed > 0)) printf("network %d has no times\n", number);
    uint64_t sum = checksum(model);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return sum;
}

static int print_default(void)
{
    kolo_model *model =
        kolo_sequential(kolo_input(8), kolo_dense(1024), kolo_dense(1024), kolo_dense(1024), kolo_dense(2));
    static float features[16 * 8];
    static const int32_t labels[16] = {1};
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = 16, .shape = {8}, .classes = 2);
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_distributed(kolo_sgd()), .seed = 1));
    assert_non_null(kolo_fit(model, data, .batch_size = 4, .verbose = KOLO_NONE));
    printf("%d buckets\n", kolo_overlap_buckets(model->trainer));
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (strcmp(argv[1], "default") == 0) return print_default();
    int first = atoi(argv[1]), end = atoi(argv[2]), all = 0, none;
    for (int n = first; n < end; n++) {
        int buckets, last;
        uint64_t beside = train(n, setting_of(n).bucket_bytes, false, &buckets),
                 after = train(n, KOLO_NONE, false, &none);
        if (beside != after || none != 0) printf("network %d differs\n", n);
        if (!getenv("KOLO_BACKEND") && train(n, setting_of(n).bucket_bytes, true, &last) != after)
            printf("network %d differs where the size changes\n", n);
        all += buckets;
    }
    printf("%d networks, %d buckets\n", end - first, all);
    return kolo_finish();
}
