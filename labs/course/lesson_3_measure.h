/* What lesson 3 measures and prints in tables. Included by lesson_3.h. */
#ifndef COURSE_LESSON_3_MEASURE_H
#define COURSE_LESSON_3_MEASURE_H

#include "course.h"

/* Number of devices under this CUDA_VISIBLE_DEVICES; the variable has its own value again afterwards. */
static inline int lesson_3_devices_under(const char *list)
{
    const char *now = getenv("CUDA_VISIBLE_DEVICES");
    char *kept = now ? strdup(now) : NULL;
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    int count = kolo_device_count();
    if (kept) setenv("CUDA_VISIBLE_DEVICES", kept, 1);
    else unsetenv("CUDA_VISIBLE_DEVICES");
    free(kept);
    return count;
}

/* The median images/s of the epochs after the first; NaN without a history. */
static inline double lesson_3_median_rate(const kolo_history *history)
{
    double rate[64];
    int count = 0;
    for (int e = 0; history && e < history->epochs && e < 64; e++) rate[count++] = history->epoch[e].images_per_second;
    return count > 1 ? course_median(rate + 1, count - 1) : count == 1 ? rate[0] : NAN;
}

/* The same of a file that --history wrote; NaN if there is none. */
static inline double lesson_3_rate_of(const char *path)
{
    if (access(path, R_OK) != 0) return NAN;
    kolo_history *history = kolo_history_load(path);
    double rate = lesson_3_median_rate(history);
    kolo_history_free(&history);
    return rate;
}

/* The history of section 8's run on so many ranks. Valid until the next call. */
static inline const char *lesson_3_path(int ranks)
{
    static char path[40];
    snprintf(path, sizeof path, "run/ranks-%d.json", ranks);
    return path;
}

static inline int lesson_3_different(const double *x, int n)
{
    int different = 0;
    for (int i = 0; i < n; i++) {
        bool first = true;
        for (int j = 0; j < i; j++) first &= x[j] != x[i];
        different += first;
    }
    return different;
}

/* Starts four ranks `runs` times (at most 20), shows the order in which their lines came, and counts the orders. */
static inline int lesson_3_orders(int runs)
{
    double order[20] = {0};
    for (int i = 0; i < runs && i < 20; i++) {
        FILE *lines = popen("kolorun -np 4 sh -c 'echo rank $OMPI_COMM_WORLD_RANK'", "r");
        char line[200], *rank;
        printf("run %d:", i + 1);
        while (lines && fgets(line, sizeof line, lines)) {
            if (!(rank = strstr(line, "rank "))) continue;
            printf(" %d", atoi(rank + 5));
            order[i] = order[i] * 10 + atoi(rank + 5);
        }
        printf("\n");
        if (lines) pclose(lines);
    }
    return lesson_3_different(order, runs);
}

/* Trains a small network for an epoch with `parts` accumulated batches of `size`, and once with batches of parts *
 * size, from the same weights. Returns the largest difference of a weight; NaN on failure. */
static inline double lesson_3_accumulation(kolo_data *data, int parts, int size)
{
    kolo_model *model[2];
    for (int i = 0; i < 2; i++) {
        model[i] = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
        kolo_compile(model[i], .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1,
                     .optimizer = kolo_adam(.accumulate_steps = i ? parts : 1));
        const kolo_history *history =
            kolo_fit(model[i], data, .no_shuffle = true, .verbose = 0, .batch_size = i ? size : parts * size);
        printf("%3d batches of %3d, %d for an update: loss %.6f\n", history ? history->epoch[0].steps : 0,
               i ? size : parts * size, i ? parts : 1, history ? history->epoch[0].loss : NAN);
    }
    double largest = 0;
    for (int w = 0; w < kolo_weight_count(model[0]); w++) {
        kolo_weight a = kolo_weight_get(model[0], w), b = kolo_weight_get(model[1], w);
        for (int64_t j = 0; j < a.count; j++) largest = fmax(largest, fabs((double)a.values[j] - (double)b.values[j]));
    }
    kolo_model_free(&model[0]);
    kolo_model_free(&model[1]);
    return largest;
}

/* Training seconds up to and with the first epoch whose test accuracy is at least `goal`; NaN if no epoch reached it.
 */
static inline double lesson_3_seconds_to(const kolo_history *history, double goal)
{
    double seconds = 0;
    for (int i = 0; history && i < history->epochs; i++) {
        seconds += history->epoch[i].seconds;
        if (history->epoch[i].val_accuracy >= goal) return seconds;
    }
    return NAN;
}

static inline void lesson_3_head(double goal)
{
    printf("                                 last epoch                     test  seconds     published, V100:\n");
    printf("               batch  updates    loss  accuracy  images    accuracy  to %.2f     loss, accuracy\n", goal);
}

/* A row of section 7's table. `batch` is that of all devices; `published` has its loss and its accuracy. */
static inline void lesson_3_row(const char *name, const kolo_history *history, int batch, double goal,
                                const char *published)
{
    if (!history) return;
    kolo_epoch last = history->epoch[history->epochs - 1];
    double seconds = lesson_3_seconds_to(history, goal);
    printf("%-14s %5d  %7d  %.4f    %.4f  %6lld      %.4f  ", name, batch, last.steps * history->epochs, last.loss,
           last.accuracy, (long long)last.images, last.val_accuracy);
    if (isnan(seconds)) printf("not reached  %s\n", published);
    else printf("%7.1f      %s\n", seconds, published);
}

/* Writes the test accuracies after each epoch to y, and to x the epochs (from 1), or the updates until then. At most 8
 * points; returns their number. x and y have room for 8. */
static inline int lesson_3_curve(const kolo_history *history, bool by_updates, double *x, double *y)
{
    int points = history ? history->epochs < 8 ? history->epochs : 8 : 0;
    for (int i = 0; i < 8; i++) x[i] = y[i] = NAN; /* gaps in a plot */
    for (int i = 0; i < points; i++) {
        x[i] = by_updates ? (i + 1.) * history->epoch[i].steps : i + 1.;
        y[i] = history->epoch[i].val_accuracy;
    }
    return points;
}

/* Says which of the two curves is ahead at the first and at the last common number of updates. */
static inline void lesson_3_say_ahead(const double *large, const double *small, int points)
{
    for (int i = 0; i < points; i += points > 1 ? points - 1 : 1) {
        if (isnan(large[i]) || isnan(small[i])) continue;
        printf("after %2d updates: the %s batch is ahead (%.4f against %.4f)\n", 3 * (i + 1),
               large[i] > small[i] ? "large" : "small", fmax(large[i], small[i]), fmin(large[i], small[i]));
    }
}

/* A row of section 8's table, with a sentence where the efficiency is above 100 %. */
static inline void lesson_3_efficiency(int ranks, double rate, double base, int cores)
{
    if (isnan(rate / base)) {
        printf("%5d  not measured yet: run the cells above first\n", ranks);
        return;
    }
    int ideal = ranks < cores ? ranks : cores;
    double efficiency = rate / base / ideal;
    printf("%5d  %8.0f  %8.2f  %10d  %9.0f%%%s\n", ranks, rate, rate / base, ideal, 100 * efficiency,
           efficiency > 1.02 ? "  above 100 %: other programs slowed the run of one rank" : "");
}

#endif
