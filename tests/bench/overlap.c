/* How much of the communication the backward pass hides: trains the lesson's CNN on the ranks that a launcher started,
 * in turns with buckets (kolo_distributed()) and with one all-reduce after the backward pass. run.py starts it:
 *
 *     KOLO_THREADS=1 build/bin/kolorun -np 2 build/bench/overlap BATCH [GIGABITS [BUCKET_BYTES]]
 *
 * GIGABITS simulates a link of that speed: each all-reduce also sleeps as long as a ring over such links would take.
 * Rank 0 prints one line of JSON: for both ways the images/s of all ranks (the best and the median of the rounds), and
 * the seconds of communication and of its exposed part in a step. These are of the quietest tenth of the steps, because
 * a rank whose core is busy with something else makes the other wait, which no overlap hides.
 */
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"

enum { ROUNDS = 5, STEPS = 10, SINGLE = 12, SAMPLES = ROUNDS * SINGLE };
#define LATENCY 20e-6 /* seconds of one message on the simulated link */

static struct {
    double bits; /* a second; 0: no simulated link */
    kolo_comm_kind kind;
    kolo_status (*allreduce)(kolo_comm *comm, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction);
} link_model;

/* A ring over n ranks takes 2(n-1) rounds, in each of which every rank sends an n-th of the bytes. */
static kolo_status slow_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                  kolo_reduce_op reduction)
{
    double rounds = 2.0 * (comm->size - 1), bytes = (double)count * (double)kolo_type_bytes(type) / comm->size;
    double seconds = rounds * (LATENCY + 8 * bytes / link_model.bits);
    kolo_status status = link_model.allreduce(comm, values, count, type, reduction);
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))},
              NULL);
    return status;
}

static void simulate_link(double bits)
{
    kolo_comm *ranks = kolo_world_comm();
    link_model.bits = bits;
    link_model.kind = *ranks->kind;
    link_model.allreduce = ranks->kind->allreduce;
    link_model.kind.allreduce = slow_allreduce;
    if (bits > 0) ranks->kind = &link_model.kind;
}

static kolo_model *make_cnn(int64_t bucket_bytes)
{
    kolo_model *model =
        kolo_sequential(kolo_input(28, 28, 1), kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
                        kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2),
                        kolo_dropout(0.25), kolo_flatten(), kolo_dense(128, .activation = KOLO_RELU), kolo_dropout(0.5),
                        kolo_dense(10));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(), .bucket_bytes = bucket_bytes),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);
    return model;
}

typedef struct way {
    kolo_model *model;
    double images[ROUNDS], communication[SAMPLES], exposed[SAMPLES];
    int samples;
} way;

static void run_round(way *w, kolo_data *data, int batch, int round)
{
    kolo_barrier();
    double began = kolo_now();
    kolo_fit(w->model, data, .batch_size = batch, .steps_per_epoch = STEPS, .verbose = KOLO_NONE);
    kolo_barrier();
    double seconds = kolo_now() - began;
    if (round < 0) return; /* warming up */
    w->images[round] = (double)batch * STEPS * kolo_size() / seconds;
    for (int i = 0; i < SINGLE; i++) {
        kolo_fit(w->model, data, .batch_size = batch, .steps_per_epoch = 1, .verbose = KOLO_NONE);
        kolo_timings timings = kolo_get_timings(w->model);
        w->communication[w->samples] = timings.communication;
        w->exposed[w->samples++] = timings.exposed;
    }
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static void print_way(const char *name, way *w)
{
    qsort(w->images, ROUNDS, sizeof *w->images, compare);
    qsort(w->communication, SAMPLES, sizeof *w->communication, compare);
    qsort(w->exposed, SAMPLES, sizeof *w->exposed, compare);
    printf("\"%s\": {\"images_per_second\": %.1f, \"median\": %.1f, \"communication\": %.6f, \"exposed\": %.6f}", name,
           w->images[ROUNDS - 1], w->images[ROUNDS / 2], w->communication[SAMPLES / 10], w->exposed[SAMPLES / 10]);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    int batch = argc > 1 ? atoi(argv[1]) : 32;
    double gigabits = argc > 2 ? atof(argv[2]) : 0;
    kolo_data *data = kolo_synthetic_digits(KOLO_TRAIN, .samples = batch * STEPS * kolo_size());
    way beside = {.model = make_cnn(argc > 3 ? atoll(argv[3]) : 0)}, after = {.model = make_cnn(KOLO_NONE)};
    simulate_link(1e9 * gigabits);
    for (int round = -1; round < ROUNDS; round++) {
        run_round(&beside, data, batch, round);
        run_round(&after, data, batch, round);
    }
    if (kolo_rank() == 0 && kolo_last_error().code == KOLO_OK) {
        printf("{\"ranks\": %d, \"batch\": %d, \"simulated_gigabits\": %g, ", kolo_size(), batch, gigabits);
        print_way("beside", &beside);
        printf(", ");
        print_way("after", &after);
        printf("}\n");
    }
    kolo_model_free(&beside.model);
    kolo_model_free(&after.model);
    kolo_data_free(&data);
    return kolo_finish();
}
