/* The lesson's network on MNIST, fed from TFRecord files, which is how large sets of images are kept.
 *
 *   mnist_tfrecord                                      writes the files to a temporary folder, and trains from them
 *   mnist_tfrecord --records FOLDER                     keeps them there; the next run finds them
 *   mnist_tfrecord --devices 2 --per-device             two mirrored devices; batch and learning rate times two
 *   mnist_tfrecord --feed queue --queue-capacity 8      threads gather batches ahead of the training
 *   kolorun -np 2 mnist_tfrecord --records FOLDER       two ranks; the first of them writes
 */
#include <kolo.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 1024 };

typedef struct records {
    const char *folder; /* NULL: a temporary one */
    int shards;         /* files that the training images are spread over */
    char temporary[PATH];
} records;

/* ------------------------------------------------------------------------------------------ the files */

static const char *part_name(kolo_split split)
{
    return split == KOLO_TRAIN ? "train.tfrecord" : "test.tfrecord";
}

/* File i of a part, named as TensorFlow names them; test images are few and stay in one. */
static void file_name(char path[PATH], const records *r, kolo_split split, const char *i)
{
    const char *part = part_name(split);
    if (split == KOLO_TEST || r->shards == 1) snprintf(path, PATH, "%s/%s", r->folder, part);
    else snprintf(path, PATH, "%s/%s-%s-of-%05d", r->folder, part, i, r->shards);
}

/* Each file appears whole or not at all, so that all of them are whole where all are there. */
static bool is_written(const records *r, kolo_split split)
{
    char path[PATH], number[16];
    for (int i = 0; i < (split == KOLO_TEST ? 1 : r->shards); i++) {
        snprintf(number, sizeof number, "%05d", i);
        file_name(path, r, split, number);
        if (access(path, R_OK) != 0) return false;
    }
    return true;
}

static kolo_status write_part(const records *r, kolo_split split, const char *source)
{
    char path[PATH];
    if (is_written(r, split)) return KOLO_OK;
    snprintf(path, sizeof path, "%s/%s", r->folder, part_name(split));
    kolo_data *images = kolo_dataset(source, split);
    kolo_status status = images ? kolo_tfrecord_write(images, path, .shards = split == KOLO_TRAIN ? r->shards : 1)
                                : kolo_last_error().code;
    file_name(path, r, split, "*");
    if (status == KOLO_OK && !*r->temporary) printf("wrote %s\n", path);
    kolo_data_free(&images);
    return status;
}

/* The folder that was asked for, made where it is not there, or a temporary one. */
static kolo_status open_folder(records *r)
{
    bool given = r->folder;
    const char *parent = getenv("TMPDIR");
    if (!given) {
        snprintf(r->temporary, sizeof r->temporary, "%s/mnist_tfrecord-XXXXXX", parent ? parent : P_tmpdir);
        r->folder = mkdtemp(r->temporary) ? r->temporary : NULL;
    }
    if (given ? mkdir(r->folder, 0777) == 0 || errno == EEXIST : r->folder != NULL) return KOLO_OK;
    fprintf(stderr, "mnist_tfrecord: --records: wanted a folder that can be made, got \"%s\": %s\n",
            given ? r->folder : r->temporary, strerror(errno));
    return KOLO_IO;
}

/* A folder that is given belongs to all ranks, and rank 0 fills it while the others wait to hear how that went; a
 * temporary one is each rank's own. */
static kolo_status write_records(records *r, const char *source)
{
    kolo_status status = KOLO_OK;
    bool shared = r->folder;
    if (!shared || kolo_rank() == 0) {
        status = open_folder(r);
        if (status == KOLO_OK) status = write_part(r, KOLO_TRAIN, source);
        if (status == KOLO_OK) status = write_part(r, KOLO_TEST, source);
    }
    float outcome = (float)status;
    if (shared && kolo_broadcast(&outcome, 1, 0) != KOLO_OK) return KOLO_INTERNAL;
    return (kolo_status)outcome;
}

static kolo_data *read_records(const records *r, kolo_split split)
{
    char path[PATH];
    file_name(path, r, split, "*");
    return kolo_tfrecord(path);
}

static void remove_temporary(const records *r)
{
    char path[PATH], number[16];
    if (!*r->temporary || r->folder != r->temporary) return;
    for (int i = 0; i <= r->shards; i++) {
        snprintf(number, sizeof number, "%05d", i);
        file_name(path, r, i < r->shards ? KOLO_TRAIN : KOLO_TEST, number);
        unlink(path);
    }
    rmdir(r->folder);
}

/* Both parts, or neither. Data is read whole, so that a temporary folder can go before training begins. */
static bool read_parts(records *r, const char *source, kolo_data **train, kolo_data **test)
{
    kolo_status status = write_records(r, source);
    *train = status == KOLO_OK ? read_records(r, KOLO_TRAIN) : NULL;
    *test = *train ? read_records(r, KOLO_TEST) : NULL;
    remove_temporary(r);
    return *test;
}

/* ------------------------------------------------------------------------------------------ the program */

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

/* --per-device: what was given is meant for one device. A rank's batch is its own already (Horovod's rule), while the
 * learning rate is that of the whole step: Goyal et al. 2017, "Accurate, large minibatch SGD". */
static void scale_by_devices(kolo_options *options)
{
    int devices = options->devices > 0 ? options->devices : 1;
    if (options->batch_size <= INT32_MAX / devices) options->batch_size *= devices;
    options->learning_rate *= devices * kolo_size();
}

/* How samples come to the step. */
typedef struct feeding {
    const char *feed;
    int queue_capacity, feed_threads;
} feeding;

static kolo_feed_kind feed_of(const feeding *f)
{
    if (strcmp(f->feed, "queue") == 0) return KOLO_FEED_QUEUE;
    return strcmp(f->feed, "staged") == 0 ? KOLO_FEED_STAGED : KOLO_FEED_SYNCHRONOUS;
}

static kolo_options read_options(int argc, char **argv, records *r, feeding *f)
{
    bool per_device = false;
    const kolo_program_option own[] = {
        {"records", "FOLDER",
         "of TFRecord files: those that it lacks are written from --data, the others used as they are "
         "(default: a temporary one)",
         .text = &r->folder},
        {"shards", "N", "files that the training images are spread over", .count = &r->shards},
        {"feed", "synchronous|queue|staged",
         "whether batches are gathered by who computes, by threads that fill a "
         "queue, or by one thread that is a batch ahead",
         .choice = &f->feed},
        {"queue-capacity", "N", "batches that --feed queue holds (default: 4)", .count = &f->queue_capacity},
        {"feed-threads", "N", "threads that fill it (default: 2)", .count = &f->feed_threads},
        {"per-device", NULL, "--batch-size and --learning-rate are those of one device: times the devices",
         .flag = &per_device},
        {0}};
    kolo_options options = {.batch_size = 128, .epochs = 5, .learning_rate = 2e-3, .own = own};
    kolo_parse_options(argc, argv, &options, "Trains the lesson's CNN on MNIST from TFRecord files.");
    if (per_device) scale_by_devices(&options);
    return options;
}

static void save(const kolo_model *model, const kolo_history *history, const kolo_options *options)
{
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

int main(int argc, char **argv)
{
    records r = {.shards = 4};
    feeding f = {"synchronous", 0, 0};
    kolo_init(&argc, &argv);
    kolo_options options = read_options(argc, argv, &r, &f);
    kolo_strategy strategy = kolo_options_strategy(&options);
    bool one_device = !strategy.kind || strategy.kind == &kolo_one_device_kind;
    if (one_device) kolo_pin_device(kolo_local_rank());

    kolo_data *images, *test;
    if (!read_parts(&r, options.data, &images, &test)) return kolo_finish() || true;
    kolo_model *model = lesson_cnn(kolo_data_get_info(images));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_rmsprop(.learning_rate = options.learning_rate)),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .strategy = strategy,
                 .precision = options.precision, .seed = options.seed, .deterministic = options.deterministic);
    const kolo_history *history =
        kolo_fit(model, images, .epochs = options.epochs, .batch_size = options.batch_size,
                 .steps_per_epoch = options.steps_per_epoch, .drop_remainder = options.drop_remainder,
                 .feed = feed_of(&f), .queue_capacity = f.queue_capacity, .feed_threads = f.feed_threads,
                 .validation_data = options.no_validation ? NULL : test,
                 .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), kolo_throughput()});
    if (kolo_rank() == 0 && history) save(model, history, &options);

    kolo_model_free(&model);
    kolo_data_free(&images);
    kolo_data_free(&test);
    return kolo_finish();
}
