/* The published ways to train one model on several devices of a machine, side by side: the lesson's CNN under each,
 * and what each copies and waits for. Compared on virtual devices: the copies are made, the links are this machine's
 * memory.
 *
 *     parallelisers [BATCH [DEVICES [STEPS]]]        default 512, 8 and 8; the first epoch warms up, three are measured
 */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 28, CLASSES = 10, EPOCHS = 4 };

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

static kolo_model *lesson_cnn(void)
{
    return kolo_sequential(kolo_input(SIDE, SIDE, 1), kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
                           kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                           kolo_dropout(0.25), kolo_flatten(), kolo_dense(128, .activation = KOLO_RELU),
                           kolo_dropout(0.5), kolo_dense(CLASSES));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(const char *name, kolo_strategy strategy, kolo_data *data, int batch)
{
    kolo_model *model = lesson_cnn();
    kolo_compile(model, .optimizer = kolo_adam(.learning_rate = 1e-3), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .strategy = strategy, .seed = 1);
    const kolo_history *history = kolo_fit(model, data, .epochs = EPOCHS, .batch_size = batch, .verbose = KOLO_NONE);
    kolo_timings t = kolo_get_timings(model);
    if (history) {
        double rates[EPOCHS - 1], steps = (double)t.steps;
        for (int i = 1; i < EPOCHS; i++) rates[i - 1] = history->epoch[i].images_per_second;
        qsort(rates, EPOCHS - 1, sizeof *rates, by_size);
        printf("%-36s %9.0f %8.1f %8.1f %8.1f %8.1f %9.2f %9.2f %9.2f\n", name, rates[(EPOCHS - 1) / 2],
               1e3 * t.slicing / steps, 1e3 * t.waiting / steps, 1e3 * t.reduce / steps, 1e3 * t.update / steps,
               1e-6 * (double)t.sliced_bytes / steps, 1e-6 * (double)t.reduced_bytes / steps,
               1e-6 * (double)t.updated_bytes / steps);
    }
    kolo_model_free(&model);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    int batch = argc > 1 ? atoi(argv[1]) : 512, devices = argc > 2 ? atoi(argv[2]) : 8,
        steps = argc > 3 ? atoi(argv[3]) : 8;
    if (batch < 1 || devices < 1 || steps < 1) {
        fprintf(stderr, "usage: parallelisers [BATCH [DEVICES [STEPS]]]\n");
        return kolo_finish(), 2;
    }
    kolo_data *data = noise((int64_t)batch * steps);
    printf("batch %d on %d devices, %d threads; milliseconds and megabytes of a step\n", batch, devices,
           kolo_threads());
    printf("%-36s %9s %8s %8s %8s %8s %9s %9s %9s\n", "", "images/s", "slicing", "waiting", "reduce", "update",
           "sliced", "reduced", "updated");
    measure("one device", kolo_one_device(), data, batch);
    measure("kuza55 make_parallel", kolo_central_storage(.devices = devices, .slicing = KOLO_SLICE_ON_DEVICE), data,
            batch);
    measure("fchollet multi_gpu_model",
            kolo_central_storage(.devices = devices, .slicing = KOLO_SLICE_ON_DEVICE, .last_takes_remainder = true),
            data, batch);
    measure("avolkov1 make_parallel", kolo_central_storage(.devices = devices, .last_takes_remainder = true), data,
            batch);
    measure("avolkov1, weights on a device",
            kolo_mirrored(.devices = devices, .parameter_device = "cpu:0", .last_takes_remainder = true), data, batch);
    measure("tf_cnn_benchmarks parameter_server", kolo_central_storage(.devices = devices, .staging = true), data,
            batch);
    measure("tf_cnn_benchmarks replicated",
            kolo_mirrored(.devices = devices, .synchronized_optimizer = true, .staging = true), data, batch);
    measure("kolo_mirrored()", kolo_mirrored(.devices = devices), data, batch);
    kolo_data_free(&data);
    return kolo_finish();
}
