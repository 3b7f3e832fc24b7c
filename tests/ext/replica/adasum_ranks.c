/* A rank of test_adasum.py: three steps of SGD with kolo_distributed(…, .op = KOLO_REDUCE_ADASUM), and the same steps
 * written out on this rank alone, from the gradients of all ranks' shards. Prints the largest difference of a weight,
 * the largest change, and a hash of the weights. adasum_ranks STRATEGY DEVICES [SENTENCE]; DEVICES: a digit for each
 * rank. */
#include <kolo.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/checksum.h"

enum { BATCH = 24, STEPS = 3, FEATURES = 7, CLASSES = 3, WEIGHTS_MAX = 200, RANKS_MAX = 8 };
#define RATE 0.5

static kolo_data *make_data(void)
{
    float features[BATCH * STEPS * FEATURES];
    int32_t labels[BATCH * STEPS];
    for (int i = 0; i < BATCH * STEPS * FEATURES; i++) features[i] = (float)sin(1.7 * i + 0.3 * (i % 5));
    for (int s = 0; s < BATCH * STEPS; s++) labels[s] = s * 7 % CLASSES;
    return kolo_data_from_arrays(features, labels, .samples = BATCH * STEPS, .shape = {FEATURES}, .classes = CLASSES);
}

static kolo_model *make_model(kolo_optimizer optimizer, kolo_strategy strategy)
{
    kolo_model *model =
        kolo_sequential(kolo_input(FEATURES), kolo_dense(9, .activation = KOLO_TANH), kolo_dense(CLASSES));
    kolo_compile(model, .optimizer = optimizer, .strategy = strategy, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5);
    return model;
}

/* The formula, for one array. The result replaces a. */
static void combine(float *a, const float *b, int64_t count)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < count; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    for (int64_t i = 0; i < count; i++)
        a[i] = (float)((1 - ab / (2 * aa)) * (double)a[i] + (1 - ab / (2 * bb)) * (double)b[i]);
}

/* Arrays one after the other, in the order of kolo_gradients(). */
static void combine_arrays(kolo_model *model, float *a, const float *b)
{
    int64_t at = 0;
    kolo_weight weight;
    for (int p = 0; (weight = kolo_weight_get(model, p)).count > 0; at += weight.count, p++)
        combine(a + at, b + at, weight.count);
}

/* The steps as one rank would make them: each rank's share of the batch is as many of its samples as it has devices. */
static void simulate(kolo_model *model, kolo_data *data, const char *devices)
{
    static float gradients[RANKS_MAX][WEIGHTS_MAX];
    int ranks = (int)strlen(devices), members = 0;
    for (int r = 0; r < ranks; r++) members += devices[r] - '0';
    for (int step = 0; step < STEPS; step++) {
        for (int r = 0, before = 0; r < ranks; before += devices[r++] - '0') {
            int first = BATCH * before / members, end = BATCH * (before + devices[r] - '0') / members;
            kolo_data *shard = kolo_data_slice(data, step * BATCH + first, end - first);
            kolo_gradients(model, shard, gradients[r]);
            kolo_data_free(&shard);
        }
        for (int distance = 1; distance < ranks; distance *= 2)
            for (int r = 0; r + distance < ranks; r += 2 * distance)
                combine_arrays(model, gradients[r], gradients[r + distance]);
        int64_t at = 0;
        kolo_weight weight;
        for (int p = 0; (weight = kolo_weight_get(model, p)).count > 0; p++)
            for (int64_t i = 0; i < weight.count; i++) weight.values[i] -= (float)RATE * gradients[0][at++];
    }
}

static void compare(kolo_model *model, kolo_model *other)
{
    kolo_model *start = make_model(kolo_sgd(), kolo_one_device());
    double difference = 0, change = 0;
    kolo_weight weight;
    for (int p = 0; (weight = kolo_weight_get(model, p)).count > 0; p++) {
        kolo_weight same = kolo_weight_get(other, p), before = kolo_weight_get(start, p);
        for (int64_t i = 0; i < weight.count; i++) {
            difference = fmax(difference, fabs((double)weight.values[i] - (double)same.values[i]));
            change = fmax(change, fabs((double)weight.values[i] - (double)before.values[i]));
        }
    }
    printf("%g %g %016llx\n", difference, change, (unsigned long long)checksum(model));
    kolo_model_free(&start);
}

static kolo_strategy strategy_of(const char *name, int devices)
{
    if (strcmp(name, "copies") == 0) return kolo_mirrored(.devices = devices, .synchronized_optimizer = true);
    if (strcmp(name, "central") == 0) return kolo_central_storage(.devices = devices);
    return kolo_mirrored(.devices = devices);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    const char *devices = argv[2];
    kolo_data *data = make_data();
    kolo_optimizer optimizer = kolo_distributed(kolo_sgd(.learning_rate = RATE), .op = KOLO_REDUCE_ADASUM);
    kolo_model *model = make_model(optimizer, strategy_of(argv[1], devices[kolo_rank()] - '0'));
    kolo_model *other = make_model(kolo_sgd(), kolo_one_device());
    simulate(other, data, devices);
    kolo_fit(model, data, .batch_size = BATCH / kolo_size(), .micro_batch = 1, .no_shuffle = true,
             .verbose = KOLO_NONE);
    compare(model, other);
    kolo_model_free(&model);
    kolo_model_free(&other);
    kolo_data_free(&data);
    return kolo_finish();
}
