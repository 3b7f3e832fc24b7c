/* How much of the communication the backward pass hides: trains the lesson's CNN on the ranks that a launcher started,
 * in turns with buckets (kolo_distributed()) and with one all-reduce after the backward pass. run.py starts it:
 *
 *     KOLO_THREADS=1 build/bin/kolorun -np 2 build/bench/overlap BATCH [GIGABITS [BUCKET_BYTES]]
 *
 * GIGABITS, 1 or 10, simulates Ethernet of that speed between hosts of one rank each: every collective also waits as
 * long as the link model says (kolo_simulate_links()). Rank 0 prints one line of JSON: for both ways the images/s of
 * all ranks (the best and the median of the rounds), and the seconds of communication and of its exposed part in a
 * step. These are of the quietest tenth of the steps, because a rank whose core is busy with something else makes the
 * other wait, which no overlap hides.
 */
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"

enum { ROUNDS = 5, STEPS = 10, SINGLE = 12, SAMPLES = ROUNDS * SINGLE };

/* Each rank is a GPU of a host of its own. The links are modelled, and each all-reduce waits for them. */
static kolo_link_model *simulate_link(double gigabits)
{
    char network[32];
    if (gigabits == 0) return NULL;
    snprintf(network, sizeof network, "ethernet-%g", gigabits);
    kolo_link_model *model = kolo_link_model_open("pcie-4", .devices = "0", .hosts = kolo_size(), .network = network);
    if (model) kolo_simulate_links(model, .algorithm = KOLO_ALGORITHM_RING, .wait = true);
    return model;
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
    kolo_link_model *links = simulate_link(gigabits);
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
    kolo_simulate_links(NULL);
    kolo_link_model_free(&links);
    return kolo_finish();
}
