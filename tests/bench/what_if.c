/* What kolo_what_if() predicts, and what then happens: trains the lesson's CNN on the ranks that a launcher started, or
 * predicts that from recordings of one rank. run.py starts it:
 *
 *     KOLO_THREADS=1 build/bench/what_if train BATCH STEPS [TRACE]      BATCH samples a rank; TRACE records the steps
 *     build/bench/what_if predict TRACE OTHER BATCH CONTENTION          OTHER: recorded with another batch, or ""
 *
 * The first prints one line of JSON with the median seconds of a step, from the end of a batch to the end of the next
 * one. The second prints the modelled ones of 1, 2, 4 and 8 ranks.
 */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nets.h"

enum { STEPS_MAX = 1000, WARMING = 3 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double ends[STEPS_MAX];
static int ended;

static void note_end(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)self, (void)batch, (void)logs;
    if (ended < STEPS_MAX) ends[ended++] = now();
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static double median_step(void)
{
    double seconds[STEPS_MAX];
    int count = 0;
    for (int i = 1; i < ended; i++) seconds[count++] = ends[i] - ends[i - 1];
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    return count > 0 ? (seconds[count / 2] + seconds[(count - 1) / 2]) / 2 : 0;
}

static int train(int batch, int steps, const char *trace)
{
    const net *cnn = find_net("cnn");
    kolo_model *model = cnn->make();
    kolo_data *data = cnn->noise((int64_t)batch * steps * kolo_size());
    kolo_compile(model, .optimizer = kolo_distributed(cnn->optimizer()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);
    kolo_fit(model, data, .batch_size = batch, .steps_per_epoch = WARMING, .verbose = KOLO_NONE);
    if (trace) kolo_start_timeline(trace);
    kolo_fit(model, data, .batch_size = batch, .steps_per_epoch = steps, .verbose = KOLO_NONE,
             .callbacks = {{.name = "ends", .on_train_batch_end = note_end}});
    if (trace) kolo_stop_timeline();
    if (kolo_rank() == 0 && kolo_last_error().code == KOLO_OK)
        printf("{\"ranks\": %d, \"batch\": %d, \"seconds\": %.6f}\n", kolo_size(), batch, median_step());
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}

static int predict(char **words)
{
    kolo_answers answers = kolo_what_if(words[0], .other_trace = *words[1] ? words[1] : NULL, .batch = atoi(words[2]),
                                        .contention = atof(words[3]), .devices = {1, 2, 4, 8}, .quiet = true);
    if (answers.count > 0) {
        printf("{\"modelled_from\": \"%s\"", answers.links);
        for (int i = 0; i < answers.count; i++)
            printf(", \"%d\": %.6f", answers.answer[i].devices, answers.answer[i].seconds);
        printf("}\n");
    }
    return kolo_finish();
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (argc > 3 && strcmp(argv[1], "train") == 0)
        return train(atoi(argv[2]), atoi(argv[3]), argc > 4 ? argv[4] : NULL);
    if (argc > 5 && strcmp(argv[1], "predict") == 0) return predict(argv + 2);
    fprintf(stderr, "what_if: wanted train BATCH STEPS [TRACE] or predict TRACE OTHER BATCH CONTENTION\n");
    kolo_finish();
    return 2;
}
