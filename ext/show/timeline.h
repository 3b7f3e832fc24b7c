/* A part of a timeline (core/timeline_file.h) as a chart: read, then painted column by column, so that a picture of any
 * number of events has a limited size. See kolo_show_timeline() in kolo_tools.h. */
#ifndef KOLO_SHOW_TIMELINE_H
#define KOLO_SHOW_TIMELINE_H

#include "core/error.h"
#include "core/timeline_file.h"

/* A thread of a rank. */
typedef struct kolo_chart_row {
    int process, thread; /* their numbers in the file */
    char rank[96]; /* "rank 0 (host)" */
    char name[64]; /* "device 0" */
    int order; /* within the rank */
    bool used; /* has an event within the chart */
} kolo_chart_row;

typedef struct kolo_chart_event {
    int row;
    double begin, end; /* microseconds */
    kolo_timeline_span span;
} kolo_chart_event;

typedef struct kolo_chart {
    kolo_chart_row *rows;
    kolo_chart_event *events; /* those that overlap begin … end, in the file's order: a longer one before those in it */
    size_t row_count, row_room, event_count, event_room;
    double begin, end; /* microseconds */
    int first, last; /* the steps; -1: the file has none, and the chart is of its whole time */
} kolo_chart;

/* timeline_read.c. Reads `steps` steps from number `first` on; first < 0: the steps in the middle. The chart is closed
 * on failure, too. */
kolo_status kolo_chart_read(const char *path, int first, int steps, kolo_chart *chart);
void kolo_chart_close(kolo_chart *chart);

/* The colour of nothing, KOLO_SPANS, and those of the spans. The caller frees spans[columns]: at each of so many
 * columns of a row, the span in which it spends the most time. An event counts where no other one is within it. */
kolo_status kolo_chart_paint(const kolo_chart *chart, int row, int columns, unsigned char **spans);

#endif
