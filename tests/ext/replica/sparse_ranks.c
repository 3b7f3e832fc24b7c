/* One rank of test_sparse_gradients.py: trains a model with embeddings, and prints for each rank
 *     hash-of-weights largest-difference-from-the-dense-sum bytes dense-bytes
 * sparse_ranks WORDS WIDTH SAMPLES [mirrored] [accumulate] [deterministic] [time]. */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/checksum.h"

enum { LENGTH = 6, STEPS = 4 };

typedef struct options {
    int words, width, samples; /* samples of a step and rank */
    bool mirrored, accumulate, deterministic, time;
} options;

static kolo_data *make_data(const options *o)
{
    int samples = o->samples * kolo_size() * STEPS;
    float *tokens = malloc((size_t)(samples * LENGTH) * sizeof *tokens);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    for (int i = 0; i < samples * LENGTH; i++) tokens[i] = (float)((uint32_t)i * 2654435761u % (uint32_t)o->words);
    for (int i = 0; i < samples; i++) labels[i] = i % 3;
    kolo_data *data = kolo_data_from_arrays(tokens, labels, .samples = samples, .shape = {LENGTH}, .classes = 3);
    free(tokens);
    free(labels);
    return data;
}

typedef struct outcome {
    kolo_model *model;
    kolo_timings timings;
} outcome;

static outcome train(const options *o, kolo_data *data, bool dense)
{
    outcome out = {.model = kolo_sequential(kolo_input(LENGTH), kolo_embedding(o->words, o->width), kolo_flatten(),
                                            kolo_dense(3))};
    kolo_compile(out.model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 7, .deterministic = o->deterministic,
                 .strategy =
                     o->mirrored ? kolo_mirrored(.devices = 2, .synchronized_optimizer = true) : (kolo_strategy){0},
                 .optimizer = kolo_distributed(kolo_sgd(.learning_rate = 0.1, .momentum = 0.9,
                                                        .accumulate_steps = o->accumulate ? 2 : 1),
                                               .sparse_as_dense = dense));
    kolo_fit(out.model, data, .epochs = o->time ? 5 : 1, .batch_size = o->samples, .verbose = 0, .check_every = 1);
    out.timings = kolo_get_timings(out.model);
    return out;
}

static double difference(kolo_model *one, kolo_model *other)
{
    double most = 0;
    for (int w = 0; w < 3; w++) {
        kolo_weight a = kolo_weight_get(one, w), b = kolo_weight_get(other, w);
        for (int64_t i = 0; i < a.count; i++) most = fmax(most, fabs((double)a.values[i] - (double)b.values[i]));
    }
    return most;
}

int main(int argc, char **argv)
{
    if (kolo_init(&argc, &argv) != KOLO_OK || argc < 4) return 3;
    options o = {.words = (int)strtol(argv[1], NULL, 10),
                 .width = (int)strtol(argv[2], NULL, 10),
                 .samples = (int)strtol(argv[3], NULL, 10)};
    for (int i = 4; i < argc; i++) {
        o.mirrored |= strcmp(argv[i], "mirrored") == 0;
        o.accumulate |= strcmp(argv[i], "accumulate") == 0;
        o.deterministic |= strcmp(argv[i], "deterministic") == 0;
        o.time |= strcmp(argv[i], "time") == 0;
    }
    kolo_data *data = make_data(&o);
    outcome sparse = train(&o, data, false), dense = train(&o, data, true);
    printf("%016llx %g %lld %lld\n", (unsigned long long)checksum(sparse.model), difference(sparse.model, dense.model),
           (long long)sparse.timings.reduced_bytes, (long long)dense.timings.reduced_bytes);
    if (o.time && kolo_rank() == 0)
        printf("reduce: %.3f ms by rows, %.3f ms whole, a step\n",
               sparse.timings.reduce / (double)sparse.timings.steps * 1e3,
               dense.timings.reduce / (double)dense.timings.steps * 1e3);
    kolo_model_free(&sparse.model);
    kolo_model_free(&dense.model);
    kolo_data_free(&data);
    return kolo_finish();
}
