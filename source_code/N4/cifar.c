/* The course's network, or ResNet-20, on CIFAR-10, with each of the techniques that large batches were given as an
 * option: what lesson 4 takes apart one at a time.
 *
 *   cifar --batch-size 512                                          one device
 *   cifar --devices 8 --batch-size 4096 --optimizer lamb            eight mirrored devices, 512 samples on each
 *   kolorun -np 8 cifar --batch-size 512 --scale-learning-rate      eight ranks, 512 samples on each
 *   cifar --network resnet20                                        SGD, one cycle, augmented images
 */
#include <kolo.h>

#include <stdio.h>
#include <string.h>

typedef struct techniques {
    const char *network, *optimizer, *schedule;
    bool augment, no_augment, noise_scale;
    bool batch_norm, synchronized;
    int ghost_batch; /* 0: statistics over a device's share of the batch */
    bool scale_learning_rate;
    int warmup_epochs;
    double weight_decay, l2;
} techniques;

/* ------------------------------------------------------------------------------------------ networks */

static kolo_tensor norm(kolo_tensor x, const techniques *with, kolo_activation activation)
{
    if (with->batch_norm)
        return kolo_apply(kolo_batch_norm(.activation = activation, .ghost_batch = with->ghost_batch,
                                          .synchronized = with->synchronized, .momentum = 0.9),
                          x);
    return activation == KOLO_RELU ? kolo_apply(kolo_activate(KOLO_RELU), x) : x;
}

static kolo_tensor conv(kolo_tensor x, const techniques *with, int filters, int size, int stride,
                        kolo_activation activation)
{
    x = kolo_apply(kolo_conv2d(filters, .kernel = {size, size}, .stride = {stride, stride}, .padding = KOLO_SAME,
                               .no_bias = with->batch_norm, .l2 = with->l2),
                   x);
    return norm(x, with, activation);
}

/* He et al. 2016, figure 5, on the right: narrow, compute, widen; the shortcut is a convolution. */
static kolo_tensor bottleneck(kolo_tensor x, const techniques *with, int narrow, int wide, int stride)
{
    kolo_tensor y = conv(x, with, narrow, 1, stride, KOLO_RELU);
    y = conv(y, with, narrow, 3, 1, KOLO_RELU);
    y = conv(y, with, wide, 1, 1, KOLO_LINEAR);
    return kolo_apply(kolo_add(.activation = KOLO_RELU), y, conv(x, with, wide, 1, stride, KOLO_LINEAR));
}

/* The course's (OpenACC-Standard.org and NVIDIA, "Distributed Deep Learning", lesson 4): the beginning of ResNet-50. */
static kolo_tensor bootcamp(kolo_tensor x, const techniques *with)
{
    x = kolo_apply(kolo_zero_padding2d(3), x);
    x = kolo_apply(kolo_conv2d(64, .kernel = {7, 7}, .stride = {2, 2}, .l2 = with->l2), x);
    x = norm(x, with, KOLO_RELU);
    x = kolo_apply(kolo_max_pool2d(3, 3, .stride = {2, 2}), x);
    x = bottleneck(x, with, 64, 256, 1);
    x = bottleneck(x, with, 128, 512, 2);
    x = kolo_apply(kolo_average_pool2d(2), x);
    return kolo_apply(kolo_flatten(), x);
}

static kolo_tensor basic_block(kolo_tensor x, const techniques *with, int filters, int stride)
{
    kolo_tensor y = conv(x, with, filters, 3, stride, KOLO_RELU);
    y = conv(y, with, filters, 3, 1, KOLO_LINEAR);
    if (stride > 1) x = conv(x, with, filters, 1, stride, KOLO_LINEAR);
    return kolo_apply(kolo_add(.activation = KOLO_RELU), x, y);
}

/* He et al. 2016, section 4.2, n = 3: 20 layers with weights; shortcuts between sizes are convolutions. */
static kolo_tensor resnet20(kolo_tensor x, const techniques *with)
{
    x = conv(x, with, 16, 3, 1, KOLO_RELU);
    for (int stage = 0; stage < 3; stage++)
        for (int block = 0; block < 3; block++) x = basic_block(x, with, 16 << stage, stage > 0 && block == 0 ? 2 : 1);
    return kolo_apply(kolo_global_average_pool2d(), x);
}

static kolo_model *make_model(kolo_data_info images, const techniques *with)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, images.shape[0], images.shape[1], images.shape[2]);
    x = strcmp(with->network, "resnet20") == 0 ? resnet20(x, with) : bootcamp(x, with);
    kolo_graph_output(model, kolo_apply(kolo_dense(images.classes, .l2 = with->l2), x));
    return model;
}

/* ------------------------------------------------------------------------------------------ learning rate */

/* Updates of an epoch, as kolo_fit counts them. */
static int steps_of(int64_t samples, int64_t batch, const kolo_options *options)
{
    int64_t steps = options->drop_remainder ? samples / batch : (samples + batch - 1) / batch;
    if (options->steps_per_epoch > 0) steps = options->steps_per_epoch;
    return steps > 0 ? (int)steps : 1;
}

/* NULL kind: the same rate always. */
static kolo_schedule schedule_of(const techniques *with, double rate, int steps, int epochs)
{
    int warmup = steps * with->warmup_epochs, all = steps * epochs;
    if (strcmp(with->schedule, "one-cycle") == 0)
        return kolo_one_cycle(.max_learning_rate = rate, .total_steps = all > 1 ? all : 2);
    kolo_schedule schedule = {0};
    if (strcmp(with->schedule, "cosine") == 0)
        schedule = kolo_cosine_decay(.initial_learning_rate = rate, .decay_steps = all > warmup ? all - warmup : 1);
    else if (warmup > 0) schedule = kolo_constant(.initial_learning_rate = rate);
    return warmup > 0 ? kolo_warmup(schedule, .steps = warmup) : schedule;
}

/* Each optimizer's own default where no --learning-rate was given. */
static double default_rate(const techniques *with)
{
    const char *name = with->optimizer;
    if (strcmp(name, "sgd") == 0) return strcmp(with->schedule, "one-cycle") == 0 ? 0.2 : 0.1; /* there it is a peak */
    if (strcmp(name, "lars") == 0) return 0.5;
    if (strcmp(name, "lamb") == 0) return 0.01;
    return strcmp(name, "novograd") == 0 ? 0.01 : 1e-3;
}

/* LARS: a bias takes the rate as it is, so the rate is one that biases bear, and the coefficient that much larger. */
static kolo_optimizer optimizer_of(const techniques *with, double rate, kolo_schedule schedule)
{
    const char *name = with->optimizer;
    double decay = with->weight_decay;
    if (strcmp(name, "sgd") == 0)
        return kolo_sgd(.learning_rate = rate, .schedule = schedule, .weight_decay = decay, .momentum = 0.9,
                        .nesterov = true);
    if (strcmp(name, "lars") == 0)
        return kolo_lars(.learning_rate = rate, .schedule = schedule, .weight_decay = decay, .trust_coefficient = 0.02);
    if (strcmp(name, "lamb") == 0) return kolo_lamb(.learning_rate = rate, .schedule = schedule, .weight_decay = decay);
    if (strcmp(name, "novograd") == 0)
        return kolo_novograd(.learning_rate = rate, .schedule = schedule, .weight_decay = decay);
    return kolo_adam(.learning_rate = rate, .schedule = schedule, .weight_decay = decay);
}

/* ------------------------------------------------------------------------------------------ the program */

static kolo_data *read_images(const char *name, kolo_split split)
{
    return strcmp(name, "synthetic") == 0 ? kolo_synthetic_images(.split = split) : kolo_dataset(name, split);
}

/* Flipped and moved at random as He et al. 2016, section 4.2, did, where that is asked for. */
static kolo_data *training_images(const char *name, const techniques *with)
{
    kolo_data *images = read_images(name, KOLO_TRAIN);
    if (!with->augment || with->no_augment) return images;
    kolo_data *augmented = kolo_augment(images, .flip = true, .padding = 4);
    kolo_data_free(&images);
    return augmented;
}

/* Goes through the command line once to know the network, whose defaults hold, then again for all else. */
static void parse(int argc, char **argv, kolo_options *options, techniques *with)
{
    const kolo_program_option own[] = {
        {"network", "bootcamp|resnet20", "the course's, or He et al.'s; each with its defaults",
         .choice = &with->network},
        {"optimizer", "adam|sgd|lars|lamb|novograd", "which rule", .choice = &with->optimizer},
        {"schedule", "constant|cosine|one-cycle", "of the learning rate", .choice = &with->schedule},
        {"warmup-epochs", "N", "in which the learning rate rises from 0", .count = &with->warmup_epochs,
         .or_zero = true},
        {"scale-learning-rate", .flag = &with->scale_learning_rate,
         .help = "times ranks and devices (Goyal et al. 2017)"},
        {"batch-norm", .flag = &with->batch_norm,
         .help = "after each convolution, by each device's share of the batch"},
        {"ghost-batch", "N", "batch norm by so many samples (Hoffer et al. 2017)", .count = &with->ghost_batch},
        {"synchronized", .flag = &with->synchronized, .help = "batch norm by all samples of all devices and ranks"},
        {"augment", .flag = &with->augment, .help = "flip and crop images at random; resnet20 does"},
        {"no-augment", .flag = &with->no_augment, .help = "take the images as they are, with resnet20, too"},
        {"weight-decay", "X", "of the optimizer", .number = &with->weight_decay, .or_zero = true},
        {"l2", "X", "of the kernels, in the loss", .number = &with->l2, .or_zero = true},
        {"noise-scale", .flag = &with->noise_scale, .help = "print the gradient noise scale after each epoch"},
        {0},
    };
    const char *what = "Trains a network on CIFAR-10, with what large batches need as options.";
    kolo_options first = *options;
    first.own = own;
    kolo_parse_options(argc, argv, &first, what);
    if (strcmp(with->network, "resnet20") == 0) {
        options->batch_size = 128;
        options->epochs = 16;
        *with = (techniques){"resnet20", "sgd", "one-cycle", .augment = true, .batch_norm = true, .l2 = 2.5e-4};
    }
    options->own = own;
    kolo_parse_options(argc, argv, options, what);
    with->batch_norm |= with->ghost_batch > 0 || with->synchronized;
    if (options->learning_rate == 0) options->learning_rate = default_rate(with);
}

/* Some have a part of the test images alone: the first thousand can be compared everywhere. */
static void print_accuracy(kolo_model *model, kolo_data *test)
{
    int64_t samples = kolo_data_get_info(test).samples, some = samples < 1000 ? samples : 1000;
    kolo_data *first = kolo_data_slice(test, 0, some);
    printf("Accuracy: %.4f on the first %d test images", kolo_evaluate(model, first).accuracy, (int)some);
    if (some < samples) printf(", %.4f on all %d", kolo_evaluate(model, test).accuracy, (int)samples);
    printf("\n");
    kolo_data_free(&first);
}

static void save(const kolo_model *model, const kolo_history *history, const kolo_options *options)
{
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

int main(int argc, char **argv)
{
    kolo_options options = {.data = "cifar-10", .batch_size = 512, .epochs = 12};
    techniques with = {.network = "bootcamp", .optimizer = "adam", .schedule = "constant"};
    options.data_help = "cifar-10 or another folder of KOLO_DATA; a folder that holds CIFAR's batches or IDX files; "
                        "synthetic: pictures that Kolo draws";
    kolo_init(&argc, &argv);
    parse(argc, argv, &options, &with);
    kolo_strategy strategy = kolo_options_strategy(&options);
    if (!strategy.kind || strategy.kind == &kolo_one_device_kind) kolo_pin_device(kolo_local_rank());

    kolo_data *images = training_images(options.data, &with),
              *test = images ? read_images(options.data, KOLO_TEST) : NULL;
    kolo_data_info info = kolo_data_get_info(images);
    kolo_model *model = images && test ? make_model(info, &with) : NULL;
    int replicas = kolo_size() * (options.devices > 0 ? options.devices : 1);
    int steps = steps_of(info.samples, (int64_t)kolo_size() * options.batch_size, &options);
    double rate = options.learning_rate * (with.scale_learning_rate ? replicas : 1);
    kolo_optimizer optimizer = optimizer_of(&with, rate, schedule_of(&with, rate, steps, options.epochs));
    kolo_compile(model, .optimizer = kolo_distributed(optimizer), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .metrics = {KOLO_ACCURACY}, .strategy = strategy, .precision = options.precision, .seed = options.seed,
                 .deterministic = options.deterministic);

    kolo_callback noise = with.noise_scale ? kolo_gradient_noise_scale() : (kolo_callback){.name = "none"};
    const kolo_history *history =
        kolo_fit(model, images, .epochs = options.epochs, .batch_size = options.batch_size,
                 .steps_per_epoch = options.steps_per_epoch, .drop_remainder = options.drop_remainder,
                 .validation_data = options.no_validation ? NULL : test,
                 .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), kolo_throughput(), noise});
    if (kolo_rank() == 0 && history && !options.no_validation) print_accuracy(model, test);
    if (kolo_rank() == 0 && history) save(model, history, &options);

    kolo_model_free(&model);
    kolo_data_free(&images);
    kolo_data_free(&test);
    return kolo_finish();
}
