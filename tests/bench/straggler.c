/* What one slow worker costs another: the batches a second of worker 0 of two, with worker 1 as fast, and ten times
 * slower. See straggler.py.
 *
 *     straggler STRATEGY [SLOWNESS [BATCHES]]        default 10 and 300; prints both rates
 *
 * Each step sleeps besides its work, 10 ms or SLOWNESS times as long. So the cores are idle most of the time, and what
 * limits a worker are the others, not the machine.
 */
#include <kolo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <strategy/strategy.h>

enum { SLEEP = 10000, FEATURES = 28, CLASSES = 2, BATCH = 8 };

static const kolo_strategy_kind *const known[] = {
#define KIND(name) &kolo_##name##_kind,
    KOLO_STRATEGIES(KIND)
#undef KIND
};

static const kolo_strategy_kind *measured; /* whose step is lengthened */
static int slowness;                       /* of worker 1 */
static int steps;                          /* of worker 0 */
static double first, last;                 /* when its first step began, and its last one ended */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Only worker 0 writes what is measured. */
static kolo_status slow_step(kolo_replica *replica, const kolo_batch *batch)
{
    bool counts = kolo_worker_number(replica) == 0;
    if (counts && steps == 0) first = now();
    kolo_status status = measured->step(replica, batch);
    usleep((useconds_t)(SLEEP * (counts ? 1 : slowness)));
    if (counts) steps++;
    if (counts) last = now();
    return status;
}

static const kolo_strategy_kind *find(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i]->name, name) == 0 && kolo_strategy_has_workers(known[i])) return known[i];
    return NULL;
}

/* Batches a second of worker 0. */
static double rate(kolo_data *data, int batches)
{
    kolo_strategy_kind kind = *measured;
    kind.step = slow_step;
    steps = 0;
    kolo_model *model =
        kolo_sequential(kolo_input(FEATURES), kolo_dense(64, .activation = KOLO_RELU), kolo_dense(CLASSES));
    kolo_compile(model, .optimizer = kolo_adagrad(.learning_rate = 0.01), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1,
                 .strategy = kolo_strategy_of(&kind, .workers = 2));
    kolo_fit(model, data, .batch_size = BATCH, .steps_per_epoch = batches, .verbose = KOLO_NONE);
    kolo_model_free(&model);
    return steps / (last - first);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    int slower = argc > 2 ? atoi(argv[2]) : 10, batches = argc > 3 ? atoi(argv[3]) : 300;
    measured = argc > 1 ? find(argv[1]) : NULL;
    if (!measured || slower < 1 || batches < 1) {
        fprintf(stderr, "usage: straggler STRATEGY [SLOWNESS [BATCHES]], with a strategy of workers\n");
        return kolo_finish(), 2;
    }
    kolo_data *data = kolo_synthetic_table(KOLO_TRAIN);
    slowness = 1;
    double plain = rate(data, batches);
    slowness = slower;
    printf("%.2f %.2f\n", plain, rate(data, batches));
    kolo_data_free(&data);
    return kolo_finish();
}
