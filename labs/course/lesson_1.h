/* Lesson 1's plumbing, checks, hints and quiz. Reading it before the exercises spoils them. */
#ifndef COURSE_LESSON_1_H
#define COURSE_LESSON_1_H

#include "course.h"

/* ---------------------------------------------------------------- measuring */

/* Trains three epochs of `samples` samples, and returns the samples per second: the median of the epochs after the
 * first, which also starts threads and reserves memory. NaN after a failure. */
static inline double lesson_1_throughput(kolo_model *model, kolo_data *data, int batch, int samples)
{
    int steps = samples > batch ? samples / batch : 1;
    const kolo_history *history =
        kolo_fit(model, data, .epochs = 3, .batch_size = batch, .steps_per_epoch = steps, .verbose = KOLO_NONE);
    if (!history || history->epochs < 3) return NAN;
    return course_median((double[]){history->epoch[1].images_per_second, history->epoch[2].images_per_second}, 2);
}

/* Runs a command that ends in the program cnn and its options, for five epochs of four steps. Prints and returns the
 * median rate of the epochs after the first; ± is the standard deviation of these epochs. NaN after a failure. */
__attribute__((format(printf, 1, 2))) static inline double lesson_1_run(const char *format, ...)
{
    char command[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(command, sizeof command, format, values);
    va_end(values);
    double rate[5];
    remove("run/rate.json");
    int code =
        course_run("%s --epochs %d --steps-per-epoch %d --no-validation --history run/rate.json >run/rate.txt 2>&1",
                   command, course_pick(5, 2), course_pick(4, 1));
    if (code) course_run("cat run/rate.txt");
    int epochs = code ? 0 : course_epochs_read("run/rate.json", "images_per_second", rate, 5);
    printf("%-70s %7.0f", command, course_median(rate + 1, epochs - 1));
    if (epochs > 2) printf(" ± %.0f", course_deviation(rate + 1, epochs - 1));
    printf(" images/s\n");
    fflush(stdout);
    return course_median(rate + 1, epochs - 1);
}

/* How many times as fast as one n devices or ranks can be here. */
static inline int lesson_1_ideal(int n)
{
    int most = kolo_hardware_count();
    return n < most ? n : most;
}

/* A table of the rates with 1, 2, 4 … devices or ranks. */
static inline void lesson_1_table(const char *what, const double *rate, int count)
{
    if (!(rate[0] > 0)) {
        printf("%s: there are no rates yet. Run the cells above first.\n", what);
        return;
    }
    printf("%-14s images/s  speed-up  ideal here  efficiency\n", what);
    for (int i = 0; i < count; i++) {
        int ideal = lesson_1_ideal(1 << i);
        double speed_up = rate[i] / rate[0];
        printf("%14d %8.0f  %8.2f  %10d  %9.0f%%\n", 1 << i, rate[i], speed_up, ideal, 100 * speed_up / ideal);
    }
}

/* ---------------------------------------------------------------- where the work is */

/* Seconds of a step that the layers from `first` to before `end` took, from a file that kolo_profile() wrote. */
static inline double lesson_1_profiled(const char *file, size_t first, size_t end)
{
    json_t *profile = json_load_file(file, 0, NULL), *layers = json_object_get(profile, "layers"), *layer;
    double seconds = layers ? 0 : NAN;
    size_t i;
    json_array_foreach(layers, i, layer) if (i >= first && i < end) seconds +=
        json_real_value(json_object_get(layer, "forward")) + json_real_value(json_object_get(layer, "backward"));
    json_decref(profile);
    return seconds;
}

typedef struct lesson_1_span {
    double start, end;
} lesson_1_span;

static inline int lesson_1_earlier(const void *a, const void *b)
{
    return course_order(&((const lesson_1_span *)a)->start, &((const lesson_1_span *)b)->start);
}

static inline bool lesson_1_is(const json_t *event, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(event, key));
    return value && strcmp(value, text) == 0;
}

static inline lesson_1_span lesson_1_span_of(const json_t *event)
{
    double start = json_number_value(json_object_get(event, "ts"));
    return (lesson_1_span){start, start + json_number_value(json_object_get(event, "dur"))};
}

/* Is it an event of the thread with that name, in which the thread computes? */
static inline bool lesson_1_computes(const json_t *events, const json_t *event, const char *thread)
{
    if (!lesson_1_is(event, "ph", "X") || lesson_1_is(event, "cat", "step") || lesson_1_is(event, "cat", "wait"))
        return false;
    json_int_t number = json_integer_value(json_object_get(event, "tid"));
    size_t i;
    json_t *other;
    json_array_foreach(events, i, other)
    {
        if (!lesson_1_is(other, "name", "thread_name")) continue;
        if (json_integer_value(json_object_get(other, "tid")) != number) continue;
        return lesson_1_is(json_object_get(other, "args"), "name", thread);
    }
    return false;
}

/* How long the spans cover `within`, in its unit; they may overlap. Sorts them. */
static inline double lesson_1_covered(lesson_1_span *spans, size_t count, lesson_1_span within)
{
    double covered = 0, reached = within.start;
    qsort(spans, count, sizeof *spans, lesson_1_earlier);
    for (size_t i = 0; i < count; i++) {
        double start = fmax(spans[i].start, reached), end = fmin(spans[i].end, within.end);
        if (end > start) covered += end - start;
        reached = fmax(reached, end);
    }
    return covered;
}

/* From the first step of the trace's second half to the end of its last; `steps` becomes their number. */
static inline lesson_1_span lesson_1_second_half(const json_t *events, int *steps)
{
    lesson_1_span spans[256], half = {0};
    int count = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) if (count < 256 && lesson_1_is(event, "cat", "step") &&
                                             lesson_1_is(event, "ph", "X")) spans[count++] = lesson_1_span_of(event);
    qsort(spans, (size_t)count, sizeof *spans, lesson_1_earlier);
    *steps = count - count / 2;
    if (count > 0) half = (lesson_1_span){spans[count / 2].start, spans[count - 1].end};
    return half;
}

/* One row for each of two devices, in ms a step: what the profile of one device says that its layers take, and what the
 * trace of the pipeline says. */
static inline void lesson_1_compare_pipeline(const char *trace, const double *profiled)
{
    json_t *all = json_load_file(trace, 0, NULL), *event;
    const json_t *events = json_is_array(all) ? all : json_object_get(all, "traceEvents");
    int steps;
    lesson_1_span half = lesson_1_second_half(events, &steps),
                  *spans = calloc(json_array_size(events) + 1, sizeof *spans);
    printf("ms a step    its layers in the profile   in the pipeline: computing   waiting\n");
    for (int device = 0; device < 2 && spans && half.end > 0; device++) {
        char thread[16];
        snprintf(thread, sizeof thread, "device %d", device);
        size_t count = 0, i;
        json_array_foreach(events, i, event) if (lesson_1_computes(events, event, thread)) spans[count++] =
            lesson_1_span_of(event);
        double busy = lesson_1_covered(spans, count, half) / 1e3 / steps, step = (half.end - half.start) / 1e3 / steps;
        printf("%-12s %25.1f %28.1f %9.1f\n", thread, 1e3 * profiled[device], busy, step - busy);
    }
    free(spans);
    json_decref(all);
}

#include "lesson_1_checks.h"

#endif
