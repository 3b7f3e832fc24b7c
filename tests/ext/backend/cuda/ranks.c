/* A rank of tests/ext/backend/cuda/test_nccl.py, on GPUs:
 *
 *   ranks train CASE …    trains each case, and prints of each its weights as a checksum, its loss and its counters
 *   ranks die STEP HOW    in that step of a training the last rank ends, or what it needs fails: HOW is kill, exit,
 *                         lost, or a call of the shim's with the number of times that it goes well
 *   ranks die_beside …    the same, where a second stream sums the gradient in buckets
 *   ranks join            in each call of a joining the last rank fails once
 */
#include "device.h"

#include "ext/core/checksum.h"
#include "ext/core/small.h"

#include "runtime/runtime.h"
#include "data/data.h"
#include "replica/overlap.h"

#include <signal.h>
#include <unistd.h>

typedef struct ranks_case {
    const char *name;
    kolo_precision precision;
    int devices; /* of each rank, mirrored; 0: one, not mirrored */
    int accumulate;
    int bucket_bytes; /* 0: more than there are, so that gradients are summed after the backward pass */
    bool synchronized, deterministic, spoilt; /* one sample is no number */
    bool unpinned;
    bool own_optimizer, own_strategy, by_hand; /* kolo_train_on_batch() */
    bool validated; /* the loss is that of samples that are not learnt */
} ranks_case;

static const ranks_case cases[] = {
    {"fp32", .precision = KOLO_FLOAT32},
    {"bf16", .precision = KOLO_MIXED_BF16},
    {"synchronized", .synchronized = true},
    {"deterministic", .deterministic = true, .synchronized = true},
    {"accumulate", .accumulate = 2},
    {"fp16", .precision = KOLO_MIXED_FP16},
    {"spoilt", .precision = KOLO_MIXED_FP16, .spoilt = true},
    {"mirrored", .devices = 2, .synchronized = true},
    {"own_optimizer", .own_optimizer = true},
    {"own_strategy", .own_strategy = true},
    {"by_hand", .by_hand = true},
    {"unpinned", .unpinned = true},
    {"validated", .validated = true},
    {"buckets", .precision = KOLO_FLOAT32, .bucket_bytes = 64},
    {"accumulate_buckets", .accumulate = 2, .bucket_bytes = 64},
    {"fp16_buckets", .precision = KOLO_MIXED_FP16, .bucket_bytes = 64},
    {"two", .devices = 2},
    {"two_buckets", .devices = 2, .bucket_bytes = 64},
};

/* A rule that no device has. */
static void plain_rule(const kolo_update *update)
{
    for (int64_t i = 0; i < update->count; i++)
        update->weights[i] -= (float)(update->learning_rate * update->scale * update->gradient[i]);
}

static const kolo_optimizer_kind plain_kind = {.name = "plain", .learning_rate = 0.05, .update = plain_rule};

static kolo_status one_replica(const kolo_strategy *strategy, int *count)
{
    (void)strategy;
    *count = 1;
    return KOLO_OK;
}

/* Each learns by its own samples; then all take the mean of their weights. */
static kolo_status average_weights(kolo_replica *replica, const kolo_batch *batch)
{
    kolo_comm *group = kolo_replica_comm(replica);
    int64_t count = kolo_replica_count(replica);
    KOLO_TRY(kolo_replica_compute(replica, batch));
    KOLO_TRY(kolo_replica_update(replica));
    float *weights = kolo_replica_weights(replica);
    KOLO_TRY(group->kind->allreduce(group, weights, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    for (int64_t i = 0; i < count; i++) weights[i] /= (float)group->size;
    return kolo_replica_pack(replica);
}

static const kolo_strategy_kind averaging = {.name = "averaging", .replicas = one_replica, .step = average_weights};

static kolo_model *model_of(bool synchronized)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_conv2d(4, .kernel = {3, 3}, .no_bias = true),
                           kolo_batch_norm(.synchronized = synchronized), kolo_activate(KOLO_RELU),
                           kolo_max_pool2d(2, 2), kolo_flatten(), kolo_dense(SMALL_CLASSES));
}

/* So many for all ranks together: as many steps for any number of them. */
static kolo_data *data_of(bool spoilt)
{
    enum { SAMPLES = 64, ELEMENTS = SMALL_SIDE * SMALL_SIDE };
    static float features[SAMPLES][ELEMENTS];
    static int32_t labels[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        labels[s] = s * 7 % SMALL_CLASSES;
        for (int e = 0; e < ELEMENTS; e++)
            features[s][e] = (float)((s * ELEMENTS + e) * 7919 % 1000) / 1000 - 0.5f + (e % SMALL_CLASSES == labels[s]);
    }
    if (spoilt) features[40][3] = NAN;
    return kolo_data_from_arrays(&features[0][0], labels, .samples = SAMPLES, .shape = {SMALL_SIDE, SMALL_SIDE, 1},
                                 .classes = SMALL_CLASSES);
}

static double norm_of(const kolo_model *model)
{
    double sum = 0;
    for (int64_t i = 0; i < model->weight_count; i++) sum += (double)model->weights[i] * model->weights[i];
    return sqrt(sum);
}

static kolo_strategy strategy_of(const ranks_case *c)
{
    if (c->devices > 0) return kolo_mirrored(.devices = c->devices);
    if (!c->unpinned) kolo_pin_device(kolo_local_rank());
    return c->own_strategy ? kolo_strategy_of(&averaging) : (kolo_strategy){0};
}

static kolo_optimizer optimizer_of(const ranks_case *c)
{
    if (c->own_optimizer) return (kolo_optimizer){.kind = &plain_kind};
    return kolo_sgd(.learning_rate = 0.05, .momentum = 0.9, .accumulate_steps = c->accumulate ? c->accumulate : 1);
}

/* The last loss. */
static double fit(const ranks_case *c, kolo_model *model, kolo_data *data)
{
    double loss = NAN;
    for (int step = 0; step < 8 && c->by_hand; step++) loss = kolo_train_on_batch(model, data, step % 4 * 16, 16).loss;
    if (c->by_hand) return loss;
    const kolo_history *history = kolo_fit(model, data, .batch_size = 16 / kolo_size(), .epochs = 2, .no_shuffle = true,
                                           .verbose = KOLO_NONE, .validation_data = c->validated ? data : NULL,
                                           .callbacks = {kolo_broadcast_variables(0), kolo_metric_average()});
    if (!history || c->own_strategy) return 0; /* which sums no losses */
    return kolo_history_get(history, 1, c->validated ? "val_loss" : "loss");
}

static void train(const ranks_case *c)
{
    kolo_data *data = data_of(c->spoilt);
    kolo_model *model = model_of(c->synchronized);
    kolo_set_visible_devices(NULL); /* a case before may have pinned one */
    kolo_compile(model, .optimizer = kolo_distributed(optimizer_of(c), .bucket_bytes = c->bucket_bytes),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY},
                 .seed = 4 + (uint64_t)(c->by_hand ? 0 : kolo_rank()), .precision = c->precision,
                 .strategy = strategy_of(c), .deterministic = c->deterministic);
    kolo_clear_error();
    double loss = fit(c, model, data);
    if (kolo_last_error().code == KOLO_OK && c->bucket_bytes > 0 && kolo_overlap_buckets(model->trainer) < 2)
        printf("no buckets\n");
    if (kolo_last_error().code == KOLO_OK) {
        const kolo_counters *counters = &model->trainer->replicas[0].counters;
        printf("%s %016llx %.9g %.9g %lld %lld %g\n", c->name, (unsigned long long)checksum(model), norm_of(model),
               loss, (long long)counters->steps, (long long)counters->updates, counters->loss_scale);
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static int train_all(int count, char **names)
{
    for (int i = 0; i < count; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            if (strcmp(names[i], cases[c].name) == 0) train(&cases[c]);
    return kolo_finish();
}

/* ---- a rank that ends ---- */

static struct {
    int step;
    const char *how;
    int times;
} death;

static bool is_last(void)
{
    return kolo_rank() == kolo_size() - 1;
}

static void *shim_function(const char *name)
{
    void *library = dlopen("libkolo_cuda.so", RTLD_NOLOAD | RTLD_NOW), *found = library ? dlsym(library, name) : NULL;
    if (!found) fprintf(stderr, "there is no %s\n", name);
    return found;
}

static void fail_from_now_on(long number, bool for_good)
{
    void (*fail_at)(long, bool);
    *(void **)&fail_at = shim_function("kolo_shim_fail");
    if (fail_at) fail_at(number, for_good);
}

static void end_in_step(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)self, (void)logs;
    if (batch == 0 && kolo_rank() == 0) printf("training\n");
    fflush(stdout);
    if (batch != death.step || !is_last()) return;
    if (strcmp(death.how, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(death.how, "exit") == 0) exit(0);
    if (strcmp(death.how, "lost") == 0) fail_from_now_on(1, true);
    if (death.times > 0) fail_from_now_on(death.times, false);
}

static int die(int step, const char *how, bool beside)
{
    death.step = step;
    death.how = how;
    death.times = atoi(how);
    kolo_data *data = data_of(false);
    kolo_model *model = model_of(!beside);
    kolo_pin_device(kolo_local_rank());
    kolo_compile(model, .optimizer = kolo_distributed(kolo_sgd(), .bucket_bytes = beside ? 64 : 0),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 4);
    kolo_fit(model, data, .batch_size = 1, .epochs = 1000, .verbose = KOLO_NONE,
             .callbacks = {(kolo_callback){.name = "death", .on_train_batch_begin = end_in_step}});
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

/* ---- joining ---- */

/* What became of it, the same on all ranks, or this program ends. */
static kolo_status join_once(kolo_comm *ranks, int failing, long number, bool *came)
{
    const char *(*failed)(void);
    *(void **)&failed = shim_function("kolo_shim_failed");
    kolo_stream *own;
    kolo_comm *together = NULL;
    float *there, value = (float)kolo_rank();
    rig_ok(device_open_stream(kolo_local_rank(), &own));
    rig_ok(streams->allocate(own, sizeof value, "a test", (void **)&there));
    rig_ok(streams->copy(own, there, &value, sizeof value));
    fail_from_now_on(ranks->rank == failing ? number : 0, false);
    kolo_status status = streams->open_comm(own, ranks, &together), others = status;
    *came = *failed();
    fail_from_now_on(0, false);
    kolo_failure failure = kolo_failure_take();
    if (status == KOLO_OK) {
        rig_ok(together->kind->allreduce(together, there, 1, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
        rig_ok(streams->copy(own, &value, there, sizeof value));
        rig_ok(streams->synchronize(own));
        assert_true(value == (float)(ranks->size * (ranks->size - 1) / 2));
    } else if (ranks->rank == 0) printf("%s\n", failure.text);
    rig_ok(ranks->kind->broadcast(ranks, &others, sizeof others, 0));
    assert_int_equal(status, others);
    if (together) together->kind->close(together);
    streams->release(own, there);
    streams->close(&own);
    return status;
}

/* Till it is joined before that call comes. */
static int join(int failing)
{
    kolo_comm *ranks = kolo_world_comm();
    if (!device_open()) return 1;
    streams->close(&stream);
    int tries = 0, failed = 0;
    for (bool came = true; came; tries++) {
        failed += join_once(ranks, failing, tries + 1, &came) != KOLO_OK;
        rig_ok(ranks->kind->broadcast(ranks, &came, sizeof came, failing));
    }
    if (ranks->rank == 0) printf("joined %d times, failed %d times\n", tries, failed);
    return kolo_finish();
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (argc > 2 && strcmp(argv[1], "train") == 0) return train_all(argc - 2, argv + 2);
    if (argc == 4 && strcmp(argv[1], "die") == 0) return die(atoi(argv[2]), argv[3], false);
    if (argc == 4 && strcmp(argv[1], "die_beside") == 0) return die(atoi(argv[2]), argv[3], true);
    if (argc == 3 && strcmp(argv[1], "join") == 0) return join(atoi(argv[2]));
    fprintf(stderr, "wanted train CASE …, die STEP HOW, die_beside STEP HOW or join RANK\n");
    return 2;
}
