/* A rank of test_compression.py: trains with and without .compression. compression_ranks fp16|bf16 DEVICES BUCKET
 * prints the largest difference of a weight, the largest change, the bytes that were reduced with and without, and a
 * hash of the weights. compression_ranks refused prints what is refused beside it. */
#include <kolo.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/checksum.h"

enum { SAMPLES = 96, BATCH = 24, FEATURES = 7, CLASSES = 3 };

static kolo_data *make_data(void)
{
    float features[SAMPLES * FEATURES];
    int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) features[i] = (float)sin(1.7 * i + 0.3 * (i % 5));
    for (int s = 0; s < SAMPLES; s++) labels[s] = s * 7 % CLASSES;
    return kolo_data_from_arrays(features, labels, .samples = SAMPLES, .shape = {FEATURES}, .classes = CLASSES);
}

static kolo_model *train(kolo_data *data, kolo_optimizer optimizer, int devices)
{
    kolo_model *model = kolo_sequential(kolo_input(FEATURES), kolo_dense(40, .activation = KOLO_TANH),
                                        kolo_dense(40, .activation = KOLO_TANH), kolo_dense(CLASSES));
    kolo_compile(model, .optimizer = optimizer, .strategy = kolo_mirrored(.devices = devices),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5);
    kolo_fit(model, data, .epochs = 3, .batch_size = BATCH / kolo_size(), .no_shuffle = true, .verbose = KOLO_NONE);
    return model;
}

static void compare(kolo_model *model, kolo_model *other, kolo_model *start)
{
    double difference = 0, change = 0;
    kolo_weight weight;
    for (int p = 0; (weight = kolo_weight_get(model, p)).count > 0; p++) {
        kolo_weight same = kolo_weight_get(other, p), before = kolo_weight_get(start, p);
        for (int64_t i = 0; i < weight.count; i++) {
            difference = fmax(difference, fabs((double)weight.values[i] - (double)same.values[i]));
            change = fmax(change, fabs((double)weight.values[i] - (double)before.values[i]));
        }
    }
    printf("%g %g %lld %lld %016llx\n", difference, change, (long long)kolo_get_timings(model).reduced_bytes,
           (long long)kolo_get_timings(other).reduced_bytes, (unsigned long long)checksum(model));
}

static void refuse(const char *what, kolo_optimizer optimizer, bool deterministic, kolo_strategy strategy)
{
    kolo_model *model = kolo_sequential(kolo_input(FEATURES), kolo_dense(CLASSES));
    kolo_compile(model, .optimizer = optimizer, .strategy = strategy, .deterministic = deterministic,
                 .loss = KOLO_SPARSE_CROSSENTROPY);
    printf("%s: %s\n", what, kolo_last_error().text);
    kolo_clear_error();
    kolo_model_free(&model);
}

static void refuse_all(void)
{
    kolo_optimizer half = kolo_distributed(kolo_sgd(), .compression = KOLO_COMPRESSION_FP16);
    refuse("deterministic", half, true, kolo_one_device());
    refuse("workers", half, false, kolo_downpour());
    refuse("adasum", kolo_distributed(kolo_sgd(), .compression = KOLO_COMPRESSION_BF16, .op = KOLO_REDUCE_ADASUM),
           false, kolo_one_device());
    refuse("unknown", kolo_distributed(kolo_sgd(), .compression = (kolo_compression)7), false, kolo_one_device());
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (strcmp(argv[1], "refused") == 0) {
        refuse_all();
        return kolo_finish();
    }
    int devices = atoi(argv[2]);
    long bucket = strtol(argv[3], NULL, 10);
    kolo_data *data = make_data();
    kolo_compression how = strcmp(argv[1], "fp16") == 0 ? KOLO_COMPRESSION_FP16 : KOLO_COMPRESSION_BF16;
    kolo_optimizer plain = kolo_sgd(.learning_rate = 0.3);
    kolo_model *model =
        train(data, kolo_distributed(plain, .compression = how, .bucket_bytes = bucket ? bucket : KOLO_NONE), devices);
    kolo_model *other = train(data, kolo_distributed(plain, .bucket_bytes = bucket ? bucket : KOLO_NONE), devices);
    kolo_model *start = train(data, kolo_distributed(kolo_sgd(.learning_rate = 1e-30)), 1);
    compare(model, other, start);
    kolo_model_free(&model);
    kolo_model_free(&other);
    kolo_model_free(&start);
    kolo_data_free(&data);
    return kolo_finish();
}
