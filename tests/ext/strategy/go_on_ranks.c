/* For test_workers_go_on.py: workers over ranks train for three epochs, without a pause and with one after the first,
 * from whose checkpoint another model goes on. Prints a hash of the weights of both.
 *
 *   go_on_ranks FILE STRATEGY WORKERS SERVERS [LOADS: the rank that loads the checkpoint alone] */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int workers, servers;
static const char *name;

static kolo_model *make(void)
{
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(9, .activation = KOLO_RELU),
                                        kolo_dropout(0.3), kolo_dense(10));
    kolo_strategy strategy = strcmp(name, "dynsgd") == 0   ? kolo_dynsgd(.window = 2)
                             : strcmp(name, "eamsgd") == 0 ? kolo_async_eamsgd(.window = 2)
                             : strcmp(name, "ps") == 0     ? kolo_parameter_server()
                             : strcmp(name, "easgd") == 0  ? kolo_easgd()
                                                           : kolo_downpour(.window = 2);
    kolo_optimizer optimizer = kolo_adam(.learning_rate = 0.01);
    strategy.workers = workers;
    strategy.servers = servers;
    kolo_compile(model, .optimizer = kolo_size() > 1 ? kolo_distributed(optimizer) : optimizer,
                 .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = strategy, .seed = 5, .deterministic = true);
    return model;
}

static void fit(kolo_model *model, kolo_data *data, int epochs, bool resume)
{
    kolo_fit(model, data, .epochs = epochs, .resume = resume, .batch_size = 10, .verbose = KOLO_NONE);
}

static unsigned long long hash_of(kolo_model *model)
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

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (argc < 5) return 2;
    name = argv[2];
    workers = atoi(argv[3]);
    servers = atoi(argv[4]);
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = 123);
    kolo_model *whole = make(), *first = make(), *second = make();
    fit(whole, data, 3, false);
    fit(first, data, 1, false);
    kolo_checkpoint_save(first, argv[1]);
    kolo_barrier();
    if (argc < 6 || atoi(argv[5]) == kolo_rank()) kolo_checkpoint_load(second, argv[1]);
    fit(second, data, 3, true);
    fit(first, data, 3, true);
    printf("%llx %llx %llx\n", hash_of(whole), hash_of(first), hash_of(second));
    kolo_model_free(&whole);
    kolo_model_free(&first);
    kolo_model_free(&second);
    kolo_data_free(&data);
    return kolo_finish();
}
