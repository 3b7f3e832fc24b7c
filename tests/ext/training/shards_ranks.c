/* For test_shards.py: a rank whose data are a shard of its own. Sample i of the whole set has the feature i / SAMPLES
 * at its first place. Prints which samples the rank has, what came of the fit, and a hash of the weights.
 *
 *   shards_ranks FORM [strategy=NAME] [root=N] [samples=N] [replay=FILE] [record=FILE] [workers=N] [steps=N]
 * [servers=N] [turns=WORKERS] [free=1: exchanges as they happen] [print=1: the samples, without a fit]
 *
 * FORM: "chief": rank `root` has the samples, and scatters them; "own": each rank makes its own, the same ones;
 * "whole": one rank with all samples in the order of the shards of three ranks; "view": the chief scatters a view that
 * has them twice; "other": each rank makes its own, but does not say so. */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE   4
#define SHARDS 3

static int words;
static char **word;

static const char *option(const char *name)
{
    size_t length = strlen(name);
    for (int i = 2; i < words; i++)
        if (strncmp(word[i], name, length) == 0 && word[i][length] == '=') return word[i] + length + 1;
    return NULL;
}

static int number(const char *name, int fallback)
{
    return option(name) ? atoi(option(name)) : fallback;
}

/* The samples `first`, first + step, …, or all in the order of the shards. */
static kolo_data *make(int first, int step, bool sorted)
{
    int all = number("samples", 72), count = 0;
    float *features = calloc((size_t)(all * SIDE * SIDE), sizeof *features),
          *weights = calloc((size_t)all, sizeof *weights);
    int32_t *labels = calloc((size_t)all, sizeof *labels);
    for (int i = first; i < all; i += step) {
        int sample = sorted ? (i % (all / SHARDS)) * SHARDS + i / (all / SHARDS) : i;
        for (int e = 1; e < SIDE * SIDE; e++)
            features[count * SIDE * SIDE + e] =
                (float)((sample * 31 + e * 17) % 23) / 23 + (e % 2 == sample % 2 ? 1 : 0);
        features[count * SIDE * SIDE] = (float)sample / (float)all;
        weights[count] = 1 + (float)(sample % 3);
        labels[count++] = sample % 2;
    }
    static const char *const names[] = {"even", "odd"};
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = count, .shape = {SIDE, SIDE, 1}, .classes = 2,
                                            .weights = weights, .class_names = names);
    free(features);
    free(labels);
    free(weights);
    return data;
}

static kolo_data *open_data(const char *form)
{
    int root = number("root", 0);
    if (strcmp(form, "whole") == 0) return make(0, 1, true);
    if (strcmp(form, "own") == 0) return make(kolo_rank(), kolo_size(), false);
    if (strcmp(form, "other") == 0) return make(kolo_rank(), 3, false);
    kolo_data *whole = kolo_rank() == root ? make(0, 1, false) : NULL;
    kolo_data *view = whole && strcmp(form, "view") == 0 ? kolo_data_concatenate(whole, whole) : NULL;
    kolo_data *shard = kolo_data_scatter(view ? view : whole, root);
    kolo_data_free(&view);
    kolo_data_free(&whole);
    return shard;
}

static void print_samples(kolo_data *data)
{
    kolo_data_info info = kolo_data_get_info(data);
    printf("samples");
    for (int64_t i = 0; i < info.samples; i++) {
        float features[SIDE * SIDE], weight;
        int32_t label;
        kolo_data_sample(data, i, .features = features, .labels = &label, .weight = &weight);
        int sample = (int)(features[0] * (float)number("samples", 72) + 0.5f);
        bool right =
            label == sample % 2 && weight == 1 + (float)(sample % 3) && strcmp(info.class_names[1], "odd") == 0;
        printf(" %d", right ? sample : -1);
    }
    puts("");
}

static kolo_strategy strategy_of(const char *name)
{
    kolo_strategy strategy = strcmp(name, "easgd") == 0      ? kolo_easgd()
                             : strcmp(name, "mirrored") == 0 ? kolo_mirrored()
                             : strcmp(name, "ps") == 0       ? kolo_parameter_server()
                                                             : kolo_downpour(.window = 2);
    if (strcmp(name, "mirrored") != 0) strategy.workers = number("workers", 1);
    strategy.replay = option("replay");
    strategy.record = option("record");
    strategy.turns = option("turns");
    strategy.servers = number("servers", 0);
    return strategy;
}

static uint64_t hash_of(kolo_model *model)
{
    uint64_t hash = 0xCBF29CE484222325u;
    kolo_weight weight;
    for (int i = 0; (weight = kolo_weight_get(model, i)).count > 0; i++)
        for (int64_t k = 0; k < weight.count; k++) {
            uint32_t bits;
            memcpy(&bits, &weight.values[k], sizeof bits);
            hash = (hash ^ bits) * 0x100000001B3u;
        }
    return hash;
}

static void train(kolo_data *data, bool sharded)
{
    kolo_model *model = kolo_sequential(kolo_input(SIDE, SIDE, 1), kolo_flatten(),
                                        kolo_dense(9, .activation = KOLO_RELU), kolo_dropout(0.3), kolo_dense(2));
    kolo_optimizer optimizer = kolo_adam(.learning_rate = 0.01);
    bool chief = kolo_rank() == number("root", 0);
    kolo_compile(model, .optimizer = kolo_size() > 1 ? kolo_distributed(optimizer) : optimizer,
                 .loss = KOLO_SPARSE_CROSSENTROPY,
                 .strategy = strategy_of(option("strategy") ? option("strategy") : ""), .seed = 5,
                 .deterministic = !option("record") && !option("free"));
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 2, .batch_size = 4, .micro_batch = 4, .no_shuffle = true, .verbose = KOLO_NONE,
                 .sharded = sharded, .steps_per_epoch = number("steps", 0),
                 .validation_data = sharded && chief ? data : NULL);
    if (history)
        printf("trained %d steps %lld images val %s hash %016llx\n", history->epoch[1].steps,
               (long long)history->epoch[1].images, history->epoch[1].val_loss > 0 ? "yes" : "no",
               (unsigned long long)hash_of(model));
    kolo_model_free(&model);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    words = argc;
    word = argv;
    const char *form = argc > 1 ? argv[1] : "own";
    kolo_data *data = open_data(form);
    if (data && number("print", 0)) print_samples(data);
    if (data && !number("print", 0)) train(data, strcmp(form, "whole") != 0 && strcmp(form, "other") != 0);
    kolo_data_free(&data);
    return kolo_finish();
}
