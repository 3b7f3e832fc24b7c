/* The order in which asynchronous workers exchanged, as .record wrote it, and how stale each exchange was. For lessons
 * 5 and 6. */
#ifndef COURSE_STALENESS_H
#define COURSE_STALENESS_H

#include "course.h"

#include <jansson.h>

enum { ORDER_WORKERS_MOST = 256 };

/* worker[i] made exchange i, after stale[i] exchanges of others since its own last one. Allocated; see order_free(). */
typedef struct recorded_order {
    int count, workers;
    int *worker, *stale;
} recorded_order;

static inline void order_free(recorded_order *order)
{
    free(order->worker);
    free(order->stale);
    *order = (recorded_order){0};
}

/* All workers begin an epoch with weights of the same age, so the staleness counts within an epoch. */
static inline void order_add_epoch(recorded_order *order, json_t *epoch)
{
    int last[ORDER_WORKERS_MOST];
    for (int w = 0; w < ORDER_WORKERS_MOST; w++) last[w] = order->count;
    size_t i;
    json_t *exchange;
    json_array_foreach(epoch, i, exchange)
    {
        int w = (int)json_integer_value(json_array_get(exchange, 0));
        if (w < 0 || w >= ORDER_WORKERS_MOST) continue;
        order->worker[order->count] = w;
        order->stale[order->count] = order->count - last[w];
        last[w] = ++order->count;
    }
}

/* Reads the order. If that fails, .count is 0, and a sentence says so. */
static inline recorded_order order_read(const char *path)
{
    recorded_order order = {0};
    json_t *all = json_load_file(path, 0, NULL), *epochs = json_object_get(all, "epochs"), *epoch;
    size_t i, most = 0;
    json_array_foreach(epochs, i, epoch) most += json_array_size(epoch);
    order.worker = malloc((most + 1) * sizeof(int));
    order.stale = malloc((most + 1) * sizeof(int));
    if (most == 0) printf("%s holds no exchanges. Run the cell that records it first.\n", path);
    json_array_foreach(epochs, i, epoch)
    {
        if (order.worker && order.stale) order_add_epoch(&order, epoch);
    }
    order.workers = (int)json_integer_value(json_object_get(all, "workers"));
    json_decref(all);
    return order;
}

/* The number of exchanges of one worker, or of all if `worker` is -1, and the mean and the median of their staleness.
 */
static inline int order_of(const recorded_order *order, int worker, double *mean, double *median)
{
    double *stale = malloc((size_t)(order->count + 1) * sizeof *stale);
    int count = 0;
    for (int i = 0; stale && i < order->count; i++)
        if (worker < 0 || order->worker[i] == worker) stale[count++] = order->stale[i];
    *mean = course_mean(stale, count);
    *median = course_median(stale, count);
    free(stale);
    return count;
}

/* Prints each worker's exchanges and their median staleness. Returns the share of the last worker's, in percent. */
static inline double order_shares(const recorded_order *order)
{
    double share = NAN;
    for (int w = 0; w < order->workers && order->count; w++) {
        double mean, median;
        int updates = order_of(order, w, &mean, &median);
        share = 100. * updates / order->count;
        printf("worker %d: %5d updates, %4.1f %% of all; median staleness %.0f\n", w, updates, share, median);
    }
    return share;
}

/* Draws how many exchanges had which staleness, apart for the last worker, which is the slow one. */
static inline void order_histogram(const char *title, const recorded_order *order)
{
    static const int from[] = {0, 1, 2, 3, 4, 6, 8, 16, 32, 64};
    static const char *const names[] = {"0", "1", "2", "3", "4-5", "6-7", "8-15", "16-31", "32-63", "64+"};
    enum { BINS = sizeof from / sizeof *from };
    double fast[BINS] = {0}, slow[BINS] = {0};
    for (int i = 0; i < order->count; i++) {
        int bin = 0;
        while (bin < BINS - 1 && order->stale[i] >= from[bin + 1]) bin++;
        (order->worker[i] == order->workers - 1 ? slow : fast)[bin]++;
    }
    kolo_plot(title, .x_label = "staleness (updates by others)", .y_label = "updates", .y_from_zero = true,
              .labels = names,
              .series = {{"the other workers", NULL, fast, BINS}, {"the slow worker", NULL, slow, BINS}});
}

#endif
