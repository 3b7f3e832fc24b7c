/* Painting a row of a timeline: see timeline.h. */
#include "show/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 32 /* events within one another; deeper ones count for the one around them */

typedef struct painting {
    const kolo_chart *chart;
    int columns;
    double *times; /* [columns][KOLO_SPANS] of each span in each column */
    double at; /* up to here the row is painted */
    const kolo_chart_event *open[DEPTH]; /* that have begun and not ended */
    int depth;
} painting;

/* Adds the time from p->at to `until` to the columns that it touches. */
static void paint(painting *p, double until, kolo_timeline_span span)
{
    double scale = p->columns / (p->chart->end - p->chart->begin);
    double from = fmax(0, (p->at - p->chart->begin) * scale), to = fmin(p->columns, (until - p->chart->begin) * scale);
    for (int c = (int)from; c < p->columns && c < to; c++)
        p->times[(ptrdiff_t)c * KOLO_SPANS + span] += fmin(c + 1, to) - fmax(c, from);
    p->at = until;
}

/* Closes the events that end before `time`. */
static void close_until(painting *p, double time)
{
    while (p->depth > 0 && p->open[p->depth - 1]->end <= time) {
        const kolo_chart_event *last = p->open[--p->depth];
        if (last->end > p->at) paint(p, last->end, last->span);
    }
    if (p->depth > 0 && time > p->at) paint(p, time, p->open[p->depth - 1]->span);
}

static void add_event(painting *p, const kolo_chart_event *event)
{
    close_until(p, event->begin);
    if (p->depth == 0) p->at = event->begin;
    if (p->depth < DEPTH) p->open[p->depth++] = event;
}

/* The span with the most time, or KOLO_SPANS where there is more without any. */
static unsigned char longest(const double *times)
{
    int best = KOLO_SPANS;
    double most = 1;
    for (int s = 0; s < KOLO_SPANS; s++) most -= times[s];
    for (int s = 0; s < KOLO_SPANS; s++) {
        if (times[s] <= most || times[s] <= 0) continue;
        most = times[s];
        best = s;
    }
    return (unsigned char)best;
}

kolo_status kolo_chart_paint(const kolo_chart *chart, int row, int columns, unsigned char **spans)
{
    painting p = {.chart = chart, .columns = columns, .at = chart->begin};
    size_t bytes = (size_t)columns * KOLO_SPANS * sizeof *p.times;
    p.times = calloc(1, bytes);
    *spans = malloc((size_t)columns);
    if (!p.times || !*spans) {
        free(p.times);
        free(*spans);
        *spans = NULL;
        return kolo_fail_memory(bytes, "a timeline");
    }
    for (size_t i = 0; i < chart->event_count; i++)
        if (chart->events[i].row == row) add_event(&p, &chart->events[i]);
    close_until(&p, INFINITY);
    for (int c = 0; c < columns; c++) (*spans)[c] = longest(p.times + (ptrdiff_t)c * KOLO_SPANS);
    free(p.times);
    return KOLO_OK;
}
