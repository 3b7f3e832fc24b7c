/* A rank of test_timeline.py: trains a small network. Arguments, in any order: deterministic, mirrored (over two
 * devices), queue (a feed in threads), workers (DOWNPOUR), calls=FILE (records by calls in the program), fail (the last
 * rank ends with a failure), save=FILE. */
#include <kolo.h>
#include <stdlib.h>
#include <string.h>

static bool has(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0) return true;
    return false;
}

static const char *value(int argc, char **argv, const char *key)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], key, strlen(key)) == 0) return argv[i] + strlen(key);
    return NULL;
}

static kolo_strategy strategy_of(int argc, char **argv)
{
    if (has(argc, argv, "workers")) return kolo_downpour(.devices = 1, .window = 2);
    return has(argc, argv, "mirrored") ? kolo_mirrored(.devices = 2) : (kolo_strategy){0};
}

static void train(int argc, char **argv)
{
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 2048),
              *test = kolo_synthetic_digits(KOLO_TEST, .samples = 64);
    kolo_model *model =
        kolo_sequential(kolo_input(28, 28, 1), kolo_conv2d(4, .kernel = {3, 3}, .activation = KOLO_RELU),
                        kolo_max_pool2d(4, 4), kolo_flatten(), kolo_dense(32, .activation = KOLO_RELU),
                        kolo_dense(10, .name = "the \"last\" one"));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(), .bucket_bytes = 4096),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = strategy_of(argc, argv), .seed = 1,
                 .deterministic = has(argc, argv, "deterministic"));
    kolo_fit(model, data, .batch_size = 32, .epochs = 1, .steps_per_epoch = 8,
             .micro_batch = has(argc, argv, "mirrored") ? 8 : 0, .validation_data = test,
             .feed = has(argc, argv, "queue") ? KOLO_FEED_QUEUE : KOLO_FEED_SYNCHRONOUS, .verbose = KOLO_NONE,
             .callbacks = {kolo_broadcast_variables(0)});
    const char *path = value(argc, argv, "save=");
    if (path && kolo_rank() == 0) kolo_save(model, path);
    kolo_model_free(&model);
    kolo_data_free(&data);
    kolo_data_free(&test);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (!has(argc, argv, "mirrored")) kolo_pin_device(0);
    const char *path = value(argc, argv, "calls=");
    if (path) kolo_start_timeline(path);
    train(argc, argv);
    if (path) kolo_stop_timeline();
    if (has(argc, argv, "fail") && kolo_rank() == kolo_size() - 1) kolo_idx("nowhere", "nowhere");
    return kolo_finish();
}
