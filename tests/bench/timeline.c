/* What a timeline costs: trains the lesson's CNN in turns with and without a recording, in one process. run.py starts
 * it:
 *
 *     build/bench/timeline BATCH [FILE]
 *
 * Prints one line of JSON: the median over pairs of neighbouring turns of the CPU seconds with a recording, divided by
 * those without one, and the 25th and 75th percentile; the same of the seconds that passed, which other programs on the
 * machine disturb more; and the images/s of either way by the CPU seconds. The turns of a pair change their order.
 */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "nets.h"

enum { PAIRS = 41, IMAGES = 2048 };

typedef struct turn {
    double cpu, seconds;
} turn;

static turn spent(void)
{
    struct rusage use;
    struct timespec now;
    getrusage(RUSAGE_SELF, &use);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (turn){(double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                      1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec),
                  (double)now.tv_sec + 1e-9 * (double)now.tv_nsec};
}

/* The recording begins before the turn, and its trace is written behind it: this is not the cost of a step. */
static turn train(kolo_model *model, kolo_data *data, int batch, const char *recorded)
{
    if (recorded) kolo_start_timeline(recorded);
    turn before = spent();
    kolo_fit(model, data, .batch_size = batch, .verbose = KOLO_NONE);
    turn after = spent();
    if (recorded) kolo_stop_timeline();
    return (turn){after.cpu - before.cpu, after.seconds - before.seconds};
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static void print_numbers(const char *name, double *values)
{
    qsort(values, PAIRS, sizeof *values, compare);
    printf("\"%s\": %.5f, \"%s_quartiles\": [%.5f, %.5f], ", name, values[PAIRS / 2], name, values[PAIRS / 4],
           values[3 * PAIRS / 4]);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    int batch = argc > 1 ? atoi(argv[1]) : 32;
    const char *file = argc > 2 ? argv[2] : "timeline_bench.json";
    const net *cnn = find_net("cnn");
    kolo_model *model = cnn->make();
    kolo_data *data = cnn->noise(IMAGES);
    double cpu[PAIRS], seconds[PAIRS], with[PAIRS], without[PAIRS];
    kolo_compile(model, .optimizer = cnn->optimizer(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);
    for (int i = 0; i < 2; i++) train(model, data, batch, i ? file : NULL); /* warming up */
    for (int i = 0; i < PAIRS; i++) {
        turn turns[2];
        for (int k = 0; k < 2; k++) turns[(i + k) % 2] = train(model, data, batch, (i + k) % 2 ? file : NULL);
        cpu[i] = turns[1].cpu / turns[0].cpu;
        seconds[i] = turns[1].seconds / turns[0].seconds;
        with[i] = IMAGES / turns[1].cpu;
        without[i] = IMAGES / turns[0].cpu;
    }
    remove(file);
    if (kolo_last_error().code == KOLO_OK) {
        printf("{");
        print_numbers("cpu", cpu);
        print_numbers("seconds", seconds);
        print_numbers("with", with);
        print_numbers("without", without);
        printf("\"batch\": %d}\n", batch);
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
