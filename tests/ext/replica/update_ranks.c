/* A rank of test_update_ranks.py: update_ranks fp32|fp16 BATCH ACCUMULATE. Trains twice; before the second time every
 * rank but the first has lost its way, and kolo_broadcast_variables() brings it back. Prints the weights of each rank,
 * as a checksum, and what the optimizer has counted. update_ranks optimizer|loss|precision: rank 1 was compiled with
 * another one, and each rank prints what kolo_fit() says. */
#include "../core/checksum.h"
#include "replica/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kolo_data *some_data(int samples)
{
    float *features = malloc((size_t)samples * 20 * sizeof *features);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    for (int i = 0; i < samples * 20; i++) features[i] = (float)(i * 7919 % 1000) / 1000 - 0.5f;
    for (int i = 0; i < samples; i++) labels[i] = i % 3;
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .shape = {20}, .classes = 3);
    free(features);
    free(labels);
    return data;
}

/* Everything that the optimizer keeps. */
static void spoil(kolo_replica *replica)
{
    kolo_model *model = replica->trainer->model;
    int slots = kolo_optimizer_slots(&model->settings.optimizer);
    for (int64_t i = 0; i < model->weight_count; i++) model->weights[i] += 1;
    for (int64_t i = 0; i < slots * model->weight_count; i++) replica->slots[i % slots][i / slots] += 3;
    for (int i = 0; replica->numbers && i < model->parameter_count; i++) replica->numbers[i] += 5;
    replica->counters = (kolo_counters){.steps = 99, .updates = 77, .loss_scale = 8, .sample_scale = 1, .good = 3};
    model->learning_rate = 9;
}

static bool differs(const char *what, const char *in)
{
    return kolo_rank() == 1 && strcmp(what, in) == 0;
}

static int differ(kolo_data *data, const char *what)
{
    kolo_model *model = kolo_sequential(kolo_input(20), kolo_dense(3));
    kolo_optimizer optimizer = differs(what, "optimizer") ? kolo_sgd() : kolo_adam();
    kolo_compile(model, .optimizer = kolo_distributed(optimizer), .seed = 4,
                 .loss = differs(what, "loss") ? KOLO_CATEGORICAL_CROSSENTROPY : KOLO_SPARSE_CROSSENTROPY,
                 .precision = differs(what, "precision") ? KOLO_MIXED_FP16 : KOLO_FLOAT32);
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = 8, .verbose = KOLO_NONE, .callbacks = {kolo_broadcast_variables(0)});
    printf("%s\n", history ? "trained" : kolo_last_error().text);
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    kolo_data *data = some_data(96);
    if (argc == 2) return differ(data, argv[1]);
    const kolo_optimizer optimizers[] = {
        kolo_novograd(.accumulate_steps = atoi(argv[3])),
        kolo_rmsprop(.centered = true, .momentum = 0.5, .accumulate_steps = atoi(argv[3]))};
    for (int o = 0; o < 2; o++) {
        kolo_model *model = kolo_sequential(kolo_input(20), kolo_dense(8, .activation = KOLO_RELU), kolo_dense(3));
        kolo_compile(model, .optimizer = kolo_distributed(optimizers[o]), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 4,
                     .precision = strcmp(argv[1], "fp16") == 0 ? KOLO_MIXED_FP16 : KOLO_FLOAT32, .deterministic = true);
        for (int fit = 0; fit < 2; fit++) {
            if (fit == 1 && kolo_rank() > 0) spoil(&model->trainer->replicas[0]);
            kolo_fit(model, data, .batch_size = atoi(argv[2]), .epochs = 2, .no_shuffle = true, .verbose = KOLO_NONE,
                     .callbacks = {kolo_broadcast_variables(0)});
        }
        const kolo_counters *counters = &model->trainer->replicas[0].counters;
        printf("%d %016llx %lld %lld %g %g\n", o, (unsigned long long)checksum(model), (long long)counters->steps,
               (long long)counters->updates, counters->loss_scale, model->learning_rate);
        kolo_model_free(&model);
    }
    kolo_data_free(&data);
    return kolo_finish();
}
