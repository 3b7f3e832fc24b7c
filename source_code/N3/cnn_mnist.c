/* The lesson's network on MNIST, on one device, on mirrored devices or on many ranks: the same program.
 *
 *   cnn_mnist                                     one device
 *   cnn_mnist --devices 8 --batch-size 4096       eight mirrored devices, 512 samples on each
 *   kolorun -np 8 cnn_mnist --batch-size 2048     eight ranks, 2048 samples on each
 *
 * The numbered comments are Horovod's five edits: what turns a program for one device into one for many ranks.
 */
#include <kolo.h>

/* For images of any size and any number of classes: MNIST's 28×28 and ten, or another set in its format. */
static kolo_model *lesson_cnn(kolo_data_info images)
{
    /* clang-format off */
    return kolo_sequential(
        kolo_input(images.shape[0], images.shape[1], images.shape[2]),
        kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
        kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU),
        kolo_max_pool2d(2, 2),
        kolo_dropout(0.25),
        kolo_flatten(),
        kolo_dense(128, .activation = KOLO_RELU),
        kolo_dropout(0.5),
        kolo_dense(images.classes));
    /* clang-format on */
}

static void save(const kolo_model *model, const kolo_history *history, const kolo_options *options)
{
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

int main(int argc, char **argv)
{
    kolo_options options = {.batch_size = 512, .epochs = 8, .learning_rate = 1e-3};
    kolo_init(&argc, &argv); /* 1 initialise: find the other ranks */
    kolo_parse_options(argc, argv, &options, "Trains the lesson's CNN on MNIST.");
    kolo_strategy strategy = kolo_options_strategy(&options);
    bool one_device = !strategy.kind || strategy.kind == &kolo_one_device_kind;
    if (one_device) kolo_pin_device(kolo_local_rank()); /* 2 pin: one device a rank */

    kolo_data *images = kolo_dataset(options.data, KOLO_TRAIN),
              *test = images ? kolo_dataset(options.data, KOLO_TEST) : NULL;
    kolo_model *model = test ? lesson_cnn(kolo_data_get_info(images)) : NULL;
    kolo_optimizer optimizer = kolo_adam(.learning_rate = options.learning_rate);
    optimizer = kolo_distributed(optimizer); /* 3 average gradients over the ranks */
    kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY},
                 .strategy = strategy, .precision = options.precision, .seed = options.seed,
                 .deterministic = options.deterministic);

    kolo_callback start_equal = kolo_broadcast_variables(0); /* 4 all ranks start with rank 0's weights */
    const kolo_history *history =
        kolo_fit(model, images, .epochs = options.epochs, .batch_size = options.batch_size,
                 .steps_per_epoch = options.steps_per_epoch, .drop_remainder = options.drop_remainder,
                 .validation_data = options.no_validation ? NULL : test,
                 .callbacks = {start_equal, kolo_metric_average(), kolo_throughput()});
    if (kolo_rank() == 0 && history) save(model, history, &options); /* 5 one rank saves */

    kolo_model_free(&model);
    kolo_data_free(&images);
    kolo_data_free(&test);
    return kolo_finish();
}
