/* One rank of test_edges.py: calls at the edges of a job.
 * edge_ranks finish STRATEGY: kolo_finish() in a callback; edge_ranks fork: the calls of a forked child;
 * edge_ranks late: calls before kolo_init();
 * edge_ranks few SAMPLES BATCH DEVICES…: each rank mirrors over another number of devices; edge_ranks
 * alone */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES = 64, FEATURES = 6, CLASSES = 3 };

static kolo_data *make_data(int samples)
{
    static float features[SAMPLES * FEATURES];
    static int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) features[i] = (float)sin(1.3 * i);
    for (int s = 0; s < SAMPLES; s++) labels[s] = s * 5 % CLASSES;
    return kolo_data_from_arrays(features, labels, .samples = samples, .shape = {FEATURES}, .classes = CLASSES);
}

static int train(kolo_strategy strategy, int samples, int batch, kolo_callback callback)
{
    kolo_data *data = make_data(samples);
    kolo_model *model = kolo_sequential(kolo_input(FEATURES), kolo_dense(5), kolo_dense(CLASSES));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_sgd(.learning_rate = 0.1)), .strategy = strategy,
                 .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3);
    const kolo_history *history =
        kolo_fit(model, data, .batch_size = batch, .verbose = KOLO_NONE, .callbacks = {callback});
    printf("loss %g of %d epochs\n", history ? history->epoch[0].loss : NAN, history ? history->epochs : 0);
    fflush(stdout);
    kolo_barrier(); /* a failure, once kolo_finish() reports it, ends the other rank wherever that is */
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

static void finish_early(kolo_callback *self, int batch, const kolo_logs *logs)
{
    static bool called;
    (void)self, (void)batch, (void)logs;
    if (!called) printf("finished early with %d\n", kolo_finish());
    called = true;
}

static int finish(const char *name)
{
    const kolo_strategy strategies[] = {kolo_one_device(), kolo_mirrored(.devices = 2),
                                        kolo_downpour(.workers = 2, .turns = "0 1 2 3")};
    int which = strcmp(name, "mirrored") == 0 ? 1 : strcmp(name, "downpour") == 0 ? 2 : 0;
    return train(strategies[which], SAMPLES, 8, (kolo_callback){.name = "early", .on_train_batch_end = finish_early});
}

static void tell(const char *what)
{
    printf("%s: %s\n", what, kolo_last_error().text);
    kolo_clear_error();
}

static void call_all(kolo_handle open, kolo_process_set *set)
{
    float value = 1;
    kolo_allreduce(&value, 1);
    tell("allreduce");
    kolo_allreduce(&value, 1, .process_set = set);
    tell("set");
    kolo_send(&value, 1, 0);
    tell("send");
    kolo_receive(&value, 1, 0);
    tell("receive");
    kolo_synchronize(kolo_allreduce_async(&value, 1));
    tell("async");
    kolo_synchronize(open);
    tell("synchronize");
    kolo_process_set_free(&set);
    printf("finished with %d", kolo_finish());
    tell("");
    exit(0); /* which ends no job, either */
}

static int fork_one(void)
{
    float value = (float)kolo_rank(), other = 1;
    kolo_process_set *set = kolo_add_process_set(((const int[]){0, 1}), 2);
    kolo_handle open = kolo_allreduce_async(&other, 1);
    int ended = 0;
    fflush(stdout);
    pid_t child = kolo_rank() == 1 ? fork() : 0;
    if (kolo_rank() == 1 && child == 0) call_all(open, set);
    if (child > 0) waitpid(child, &ended, 0);
    bool fine = ended == 0 && kolo_synchronize(open) == KOLO_OK && other == 2;
    fine = fine && kolo_allreduce(&value, 1, .process_set = set) == KOLO_OK && value == 1;
    printf("%s\n", fine ? "parent is fine" : "parent is hurt");
    return kolo_finish();
}

static int late(int *argc, char ***argv)
{
    float value = 1;
    kolo_allreduce(&value, 1);
    tell("allreduce");
    kolo_join();
    tell("join");
    train(kolo_one_device(), SAMPLES, 8, (kolo_callback){0});
    tell("fit");
    kolo_init(argc, argv);
    kolo_allreduce(&value, 1);
    printf("sum %g, ended with %d\n", value, kolo_finish());
    kolo_barrier();
    tell("barrier");
    return 0;
}

int main(int argc, char **argv)
{
    float value = 1;
    if (argc > 1 && strcmp(argv[1], "late") == 0) return late(&argc, &argv);
    if (kolo_init(&argc, &argv) != KOLO_OK || argc < 2) return 3;
    if (strcmp(argv[1], "finish") == 0) return finish(argv[2]);
    if (strcmp(argv[1], "fork") == 0) return fork_one();
    if (strcmp(argv[1], "few") == 0)
        return train(kolo_mirrored(.devices = atoi(argv[4 + kolo_rank()])), atoi(argv[2]), atoi(argv[3]),
                     (kolo_callback){0});
    kolo_send(&value, 1, 0);
    return kolo_finish();
}
