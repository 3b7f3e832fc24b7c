/* The small convolutional network of Keras's examples on CIFAR-10, on one device, on mirrored devices or on many ranks.
 *
 *   cifar10                                       one device
 *   cifar10 --devices 2 --batch-size 256          two mirrored devices, 128 images on each
 *   kolorun -np 2 cifar10                         two ranks, 128 images on each
 *   cifar10 --devices 2 --per-device              batch and learning rate times the devices: 256 and 2e-4
 *   cifar10 --devices 2 --parameter-device host   the weights in one place, as most data-parallel programs had them
 *   cifar10 --augment                             images flipped and shifted by chance
 *   cifar10 --feed queue                          threads gather batches ahead, into a queue on the host
 *   cifar10 --devices 2 --feed device-queue       the same, into a queue of each device, of its shares of the batches
 *   cifar10 --checkpoint run.safetensors          saves after each epoch; started again, it goes on from there
 */
#include <kolo.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cifar10_network.h"

typedef struct own_options {
    const char *checkpoint, *parameter_device, *slicing, *feed;
    int queue_capacity, feed_threads;
    bool augment, per_device, log_placement, staging, synchronized_optimizer;
} own_options;

/* --per-device: what was given is meant for one device. A rank's batch is its own already (Horovod's rule), while the
 * learning rate is that of the whole step: Goyal et al. 2017, "Accurate, large minibatch SGD". */
static void scale_by_devices(kolo_options *options)
{
    int devices = options->devices > 0 ? options->devices : 1;
    if (options->batch_size <= INT32_MAX / devices) options->batch_size *= devices;
    options->learning_rate *= devices * kolo_size();
}

/* Goes on from a checkpoint, where rank 0 finds one: all ranks must do the same. */
static kolo_status resume(kolo_model *model, const char *checkpoint, bool *goes_on)
{
    float there = checkpoint && access(checkpoint, F_OK) == 0;
    kolo_status status = checkpoint ? kolo_broadcast(&there, 1, 0) : KOLO_OK;
    *goes_on = there != 0;
    return status == KOLO_OK && *goes_on ? kolo_checkpoint_load(model, checkpoint) : status;
}

/* The queue is where the samples wait: on the host (as tfqueue examples have it), or on each device, by .staging (as
 * those whose images wait in a variable there). The synchronous feed has none; on a GPU it keeps all images there. */
static bool on_device(const own_options *own)
{
    return strcmp(own->feed, "device-queue") == 0;
}

static kolo_feed_kind feed_kind(const own_options *own)
{
    if (strcmp(own->feed, "staged") == 0) return KOLO_FEED_STAGED;
    return strcmp(own->feed, "queue") == 0 || on_device(own) ? KOLO_FEED_QUEUE : KOLO_FEED_SYNCHRONOUS;
}

static const kolo_history *train(kolo_model *model, kolo_data *images, kolo_data *test, const kolo_options *options,
                                 const own_options *own)
{
    bool goes_on;
    kolo_callback checkpoint = {0};
    if (!model || resume(model, own->checkpoint, &goes_on) != KOLO_OK) return NULL;
    if (own->checkpoint) checkpoint = kolo_model_checkpoint(own->checkpoint);
    return kolo_fit(model, images, .epochs = options->epochs, .batch_size = options->batch_size,
                    .steps_per_epoch = options->steps_per_epoch, .drop_remainder = options->drop_remainder,
                    .feed = feed_kind(own), .queue_capacity = own->queue_capacity, .feed_threads = own->feed_threads,
                    .resume = goes_on, .validation_data = options->no_validation ? NULL : test,
                    .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), kolo_throughput(), checkpoint});
}

static void save(const kolo_model *model, const kolo_history *history, const kolo_options *options)
{
    kolo_timings t = kolo_get_timings(model);
    if (t.steps > 0) printf("Copied for a step: %.3f MB\n", 1e-6 * (double)t.sliced_bytes / (double)t.steps);
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

/* What the published ways to spread a training over devices differ in: kolo_training.h names them. */
static kolo_strategy spread(const kolo_options *options, const own_options *own)
{
    kolo_strategy strategy = kolo_options_strategy(options);
    if (own->parameter_device) strategy.parameter_device = own->parameter_device;
    if (strcmp(own->slicing, "device") == 0) strategy.slicing = KOLO_SLICE_ON_DEVICE; /* workers slice nothing */
    strategy.staging = own->staging || on_device(own);
    strategy.synchronized_optimizer = own->synchronized_optimizer;
    return strategy;
}

static kolo_options read_options(int argc, char **argv, own_options *own)
{
    const kolo_program_option table[] = {
        {"checkpoint", "FILE", "save the training there after each epoch, and go on from it if it is there",
         .text = &own->checkpoint, .written = true},
        {"augment", NULL, "flip and shift images by chance", .flag = &own->augment},
        {"per-device", NULL, "--batch-size and --learning-rate are those of one device: times the devices",
         .flag = &own->per_device},
        {"parameter-device", "DEVICE", "where the weights are kept: host or cpu:0 (default: on each device)",
         .text = &own->parameter_device, .device = true},
        {"slicing", "host|device", "where each device's share of a batch is cut from it", .choice = &own->slicing},
        {"feed", "synchronous|queue|staged|device-queue",
         "where batches wait: nowhere; in a queue of the process; one is a batch ahead; in a queue of each device",
         .choice = &own->feed},
        {"queue-capacity", "N", "batches that a queue holds (default: 4)", .count = &own->queue_capacity},
        {"feed-threads", "N", "threads that fill a queue (default: 2)", .count = &own->feed_threads},
        {"staging", NULL, "copy the next batch to the devices while they compute", .flag = &own->staging},
        {"synchronized-optimizer", NULL, "every device makes the whole update", .flag = &own->synchronized_optimizer},
        {"log-placement", NULL, "print which layer is on which device", .flag = &own->log_placement},
        {0}};
    kolo_options options = {.data = "cifar-10", .batch_size = 128, .epochs = 200, .learning_rate = 1e-4, .own = table};
    options.data_help =
        "cifar-10; a folder with its files or with images in MNIST's format; or synthetic: drawn images";
    kolo_parse_options(argc, argv, &options, "Trains Keras's small CNN on CIFAR-10.");
    if (own->per_device) scale_by_devices(&options);
    return options;
}

int main(int argc, char **argv)
{
    own_options own = {.slicing = "host", .feed = "synchronous"};
    kolo_init(&argc, &argv);
    kolo_options options = read_options(argc, argv, &own);
    kolo_strategy strategy = spread(&options, &own);
    bool one_device = !strategy.kind || strategy.kind == &kolo_one_device_kind;
    if (one_device) kolo_pin_device(kolo_local_rank());

    kolo_data *images = read_images(options.data, KOLO_TRAIN),
              *test = images ? read_images(options.data, KOLO_TEST) : NULL;
    if (own.augment && test) images = augmented(images);
    kolo_model *model = test && images ? cifar_network(kolo_data_get_info(images)) : NULL;
    kolo_compile(model, .optimizer = kolo_distributed(kolo_rmsprop(.learning_rate = options.learning_rate)),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .strategy = strategy,
                 .precision = options.precision, .seed = options.seed, .deterministic = options.deterministic);
    if (own.log_placement && kolo_rank() == 0) kolo_placement(model);
    const kolo_history *history = train(model, images, test, &options, &own);
    if (kolo_rank() == 0 && history) save(model, history, &options);

    kolo_model_free(&model);
    kolo_data_free(&images);
    kolo_data_free(&test);
    return kolo_finish();
}
