/* Four published ways to train one model on the devices of a machine, side by side: Keras's small CNN on CIFAR-10 under
 * each of them, with what each way copies and waits for, and the speed-ups that were published.
 *
 *   parallelisers                                 two devices, 256 images a step, 4 steps an epoch
 *   parallelisers --devices 4 --batch-size 1024   four devices
 *   parallelisers --data synthetic                images that Kolo draws
 *   parallelisers --deterministic                 all ways then learn the same weights, to the bit
 *
 * The first epoch warms up; the speed is the median of the others. Virtual devices of a CPU share its cores and its
 * memory: the copies and the waiting are real, but no slow link is between them. --save and --history are those of the
 * last way.
 */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 0, EPOCHS_MOST = 64 };

typedef struct way {
    const char *name;
    kolo_strategy strategy;
    const char *published[2]; /* the speed-ups of two GPUs over one, on the two machines of the report; "": none */
} way;

/* What a way gave. */
typedef struct measured {
    double images_per_second;
    kolo_timings timings;
    double difference; /* the largest of any weight from the first way's */
} measured;

/* ------------------------------------------------------------------------------------------ the ways */

/* In the terms of kolo_training.h, which says where each comes from. The speed-ups are of InceptionV3, computed from
 * the images/s that rossumai/keras-multi-gpu reports with the weights on the CPU (2017). */
enum { WAYS = 6 };
static void list_ways(int devices, way ways[WAYS])
{
    way list[] = {
        {"one device", kolo_one_device(), {"1.00", "1.00"}},
        {"kuza55 make_parallel",
         kolo_central_storage(.devices = devices, .slicing = KOLO_SLICE_ON_DEVICE),
         {"1.68", "1.25"}},
        {"fchollet multi_gpu_model",
         kolo_central_storage(.devices = devices, .slicing = KOLO_SLICE_ON_DEVICE, .last_takes_remainder = true),
         {"", ""}},
        {"avolkov1 make_parallel",
         kolo_central_storage(.devices = devices, .last_takes_remainder = true),
         {"1.72", "1.22"}},
        {"tf_cnn_benchmarks", kolo_central_storage(.devices = devices, .staging = true), {"2.01", "1.51"}},
        {"kolo_mirrored()", kolo_mirrored(.devices = devices), {"", ""}},
    };
    memcpy(ways, list, sizeof list);
}

/* ------------------------------------------------------------------------------------------ the network */

static kolo_data *read_images(const char *name)
{
    return strcmp(name, "synthetic") == 0 ? kolo_synthetic_images(KOLO_TRAIN) : kolo_dataset(name, KOLO_TRAIN);
}

static kolo_model *cifar_network(kolo_data_info images)
{
    /* clang-format off */
    return kolo_sequential(
        kolo_input(images.shape[0], images.shape[1], images.shape[2]),
        kolo_conv2d(32, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU),
        kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
        kolo_max_pool2d(2, 2),
        kolo_dropout(0.25),
        kolo_conv2d(64, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU),
        kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU),
        kolo_max_pool2d(2, 2),
        kolo_dropout(0.25),
        kolo_flatten(),
        kolo_dense(512, .activation = KOLO_RELU),
        kolo_dropout(0.5),
        kolo_dense(images.classes));
    /* clang-format on */
}

/* ------------------------------------------------------------------------------------------ one way */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over the epochs after the first. */
static double speed(const kolo_history *history)
{
    double rates[EPOCHS_MOST];
    int count = history->epochs - 1 < EPOCHS_MOST ? history->epochs - 1 : EPOCHS_MOST;
    for (int i = 0; i < count; i++) rates[i] = history->epoch[i + 1].images_per_second;
    qsort(rates, (size_t)count, sizeof *rates, by_size);
    return count % 2 ? rates[count / 2] : (rates[count / 2 - 1] + rates[count / 2]) / 2;
}

/* Compares the weights with `first`, which the first way fills. */
static double difference(kolo_model *model, float **first)
{
    double largest = 0;
    int64_t count = kolo_count_params(model), at = 0;
    bool fill = !*first;
    if (fill) *first = malloc((size_t)count * sizeof **first);
    for (int i = 0; *first && i < kolo_weight_count(model); i++) {
        kolo_weight weight = kolo_weight_get(model, i);
        for (int64_t k = 0; k < weight.count; k++, at++) {
            if (fill) (*first)[at] = weight.values[k];
            largest = fmax(largest, fabs((double)weight.values[k] - (double)(*first)[at]));
        }
    }
    return largest;
}

static bool measure(const way *w, kolo_data *images, const kolo_options *options, bool last, float **first,
                    measured *got)
{
    kolo_model *model = cifar_network(kolo_data_get_info(images));
    kolo_compile(model, .optimizer = kolo_rmsprop(.learning_rate = options->learning_rate),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = w->strategy, .precision = options->precision,
                 .seed = options->seed, .deterministic = options->deterministic);
    const kolo_history *history = kolo_fit(model, images, .epochs = options->epochs, .batch_size = options->batch_size,
                                           .steps_per_epoch = options->steps_per_epoch,
                                           .drop_remainder = options->drop_remainder, .verbose = KOLO_NONE);
    if (history) *got = (measured){speed(history), kolo_get_timings(model), difference(model, first)};
    if (history && last && options->save) kolo_save(model, options->save);
    if (history && last && options->history) kolo_history_save(history, options->history);
    kolo_model_free(&model);
    return history;
}

/* ------------------------------------------------------------------------------------------ the table */

static void print_head(const kolo_options *options, int devices)
{
    printf("batches of %d images on %d devices, %d threads; waiting in milliseconds a step, copies in MB a step\n",
           options->batch_size, devices, kolo_threads());
    printf("published: speed-up of 2 GPUs, InceptionV3; A: two M60 in Azure, B: two GTX 1070 on PCIe x1 risers\n");
    printf("%-26s %9s %8s %8s %8s %8s %8s %11s %11s\n", "", "images/s", "speed-up", "waiting", "sliced", "reduced",
           "updated", "published A", "published B");
}

static void print_row(const way *w, const measured *got, double one_device)
{
    double steps = (double)got->timings.steps;
    printf("%-26s %9.0f %8.2f %8.2f %8.2f %8.2f %8.2f %11s %11s\n", w->name, got->images_per_second,
           got->images_per_second / one_device, 1e3 * got->timings.waiting / steps,
           1e-6 * (double)got->timings.sliced_bytes / steps, 1e-6 * (double)got->timings.reduced_bytes / steps,
           1e-6 * (double)got->timings.updated_bytes / steps, *w->published[0] ? w->published[0] : "-",
           *w->published[1] ? w->published[1] : "-");
    fflush(stdout);
}

static void compare(kolo_data *images, const kolo_options *options)
{
    way ways[WAYS];
    measured got[WAYS];
    float *first = NULL;
    double largest = 0;
    int devices = options->devices > 0 ? options->devices : 2;
    list_ways(devices, ways);
    print_head(options, devices);
    for (int i = 0; i < WAYS; i++) {
        if (!measure(&ways[i], images, options, i == WAYS - 1, &first, &got[i])) break;
        print_row(&ways[i], &got[i], got[FIRST].images_per_second);
        largest = fmax(largest, got[i].difference);
        if (i == WAYS - 1) printf("largest difference of a weight from one device's: %.2g\n", largest);
    }
    free(first);
}

static int refuse(const char *what)
{
    if (kolo_rank() == 0) fprintf(stderr, "parallelisers: %s\n", what);
    kolo_finish();
    return 2;
}

int main(int argc, char **argv)
{
    kolo_options options = {
        .data = "cifar-10", .batch_size = 256, .epochs = 3, .steps_per_epoch = 4, .learning_rate = 1e-4, .seed = 1};
    options.data_help =
        "cifar-10; a folder with its files or with images in MNIST's format; or synthetic: drawn images";
    kolo_init(&argc, &argv);
    kolo_parse_options(argc, argv, &options, "Compares four published ways to train on several devices.");
    if (kolo_size() > 1) return refuse("wanted one process, whose devices it compares, got several ranks");
    if (options.strategy) return refuse("--strategy: wanted none, since it compares several, got one");
    if (options.epochs < 2) return refuse("--epochs: wanted at least 2, since the first one warms up, got 1");

    kolo_data *images = read_images(options.data);
    if (images) compare(images, &options);
    kolo_data_free(&images);
    return kolo_finish();
}
