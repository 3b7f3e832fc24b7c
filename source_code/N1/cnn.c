/* The introduction's network for images, and three ways to spread its training over devices.
 *
 *   cnn                               one device with all cores
 *   cnn --parallel data               two devices: each has the whole network and half of the batch
 *   cnn --parallel model              two devices: convolutions on one, dense layers on the other; both at work at once
 *   cnn --parallel model --micro-batch 256    the same, one device after the other: each waits for the other
 *   cnn --parallel hybrid             four devices: two networks, each on two devices, and half of the batch for each
 *   kolorun -np 2 cnn --batch-size 128        two ranks, 128 samples on each; with --parallel, within each rank
 *
 * With --deterministic all of them learn the same, to the bit.
 */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parallelism {
    const char *name; /* data, model, hybrid; NULL: as --devices and --strategy say */
    int micro_batch;  /* 0: as Kolo chooses it */
} parallelism;

static bool is_split(const parallelism *parallel)
{
    return parallel->name && strcmp(parallel->name, "data") != 0;
}

/* `second` is where the dense layers are, with nine tenths of the weights; the convolutions have most of the work. */
static kolo_model *make_cnn(kolo_data_info images, const char *second)
{
    /* clang-format off */
    return kolo_sequential(
        kolo_input(images.shape[0], images.shape[1], images.shape[2]),
        kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
        kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU),
        kolo_max_pool2d(2, 2, .device = second),
        kolo_dropout(0.25, .device = second),
        kolo_flatten(.device = second),
        kolo_dense(128, .activation = KOLO_RELU, .device = second),
        kolo_dropout(0.5, .device = second),
        kolo_dense(images.classes, .device = second));
    /* clang-format on */
}

static _Noreturn void refuse(const char *option, const char *wanted, const parallelism *parallel)
{
    if (kolo_rank() == 0) fprintf(stderr, "cnn: %s: wanted %s with --parallel %s\n", option, wanted, parallel->name);
    kolo_finish();
    exit(2);
}

/* --devices counts all of them, those of a split network too: two for data or model, four for hybrid. */
static kolo_strategy choose_strategy(kolo_options *options, const parallelism *parallel)
{
    if (!parallel->name) return kolo_options_strategy(options);
    if (options->strategy) refuse("--strategy", "none", parallel);
    if (strcmp(parallel->name, "model") == 0) {
        if (options->devices != 0 && options->devices != 2) refuse("--devices", "2", parallel);
        return (kolo_strategy){0};
    }
    if (options->devices == 0) options->devices = is_split(parallel) ? 4 : 2;
    if (is_split(parallel) && options->devices % 2 != 0) refuse("--devices", "an even number", parallel);
    return kolo_mirrored(.devices = options->devices);
}

static void save(const kolo_model *model, const kolo_history *history, const kolo_options *options)
{
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

static const kolo_history *train(kolo_model *model, kolo_data *images, kolo_data *test, kolo_strategy strategy,
                                 const kolo_options *options, const parallelism *parallel)
{
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(.learning_rate = options->learning_rate)),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .strategy = strategy,
                 .precision = options->precision, .seed = options->seed, .deterministic = options->deterministic);
    return kolo_fit(model, images, .epochs = options->epochs, .batch_size = options->batch_size,
                    .steps_per_epoch = options->steps_per_epoch, .drop_remainder = options->drop_remainder,
                    .micro_batch = parallel->micro_batch, .validation_data = options->no_validation ? NULL : test,
                    .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), kolo_throughput()});
}

int main(int argc, char **argv)
{
    parallelism parallel = {0};
    const kolo_program_option own[] = {
        {"parallel", "data|model|hybrid", "how devices share the work: two, or --devices; hybrid: four",
         .choice = &parallel.name},
        {"micro-batch", "N", "samples in the network together; the whole batch: no pipeline",
         .count = &parallel.micro_batch},
        {0},
    };
    kolo_options options = {.batch_size = 256, .epochs = 4, .learning_rate = 1e-3, .own = own};
    kolo_init(&argc, &argv);
    kolo_parse_options(argc, argv, &options, "Trains the introduction's CNN on images, and prints images/s.");
    kolo_strategy strategy = choose_strategy(&options, &parallel);
    bool one_device = !strategy.kind || strategy.kind == &kolo_one_device_kind;
    if (one_device && !is_split(&parallel)) kolo_pin_device(kolo_local_rank());

    kolo_data *images = kolo_dataset(options.data, KOLO_TRAIN),
              *test = images ? kolo_dataset(options.data, KOLO_TEST) : NULL;
    kolo_model *model = test ? make_cnn(kolo_data_get_info(images), is_split(&parallel) ? "cpu:1" : NULL) : NULL;
    const kolo_history *history = train(model, images, test, strategy, &options, &parallel);
    if (kolo_rank() == 0 && history) save(model, history, &options);

    kolo_model_free(&model);
    kolo_data_free(&images);
    kolo_data_free(&test);
    return kolo_finish();
}
