/* Reading a part of a timeline: see timeline.h. */
#include "show/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "show/trace.h"

/* ---------------------------------------------------------------- rows and steps */

/* The row of a thread; NULL: it was not named. The names of a row are before its events. */
static kolo_chart_row *find_row(const kolo_chart *chart, int process, int thread)
{
    for (size_t i = chart->row_count; i-- > 0;)
        if (chart->rows[i].process == process && chart->rows[i].thread == thread) return &chart->rows[i];
    return NULL;
}

static kolo_status add_row(kolo_chart *chart, int process, int thread, const char *rank, const char *name)
{
    KOLO_TRY(kolo_make_room(&chart->rows, &chart->row_room, chart->row_count + 1, sizeof *chart->rows, "a timeline"));
    kolo_chart_row *row = &chart->rows[chart->row_count++];
    *row = (kolo_chart_row){.process = process, .thread = thread, .order = thread < 0 ? -1 : 0};
    snprintf(row->rank, sizeof row->rank, "%s", rank);
    snprintf(row->name, sizeof row->name, "%s", name);
    return KOLO_OK;
}

/* The name of a process comes before those of its threads. It is kept as a row without a thread. */
static kolo_status name_row(kolo_chart *chart, const json_t *event)
{
    int process = kolo_trace_whole(event, "pid", -1), thread = kolo_trace_whole(event, "tid", -1);
    const char *what = kolo_trace_text(event, "name"), *name = kolo_trace_text(json_object_get(event, "args"), "name");
    if (strcmp(what, "process_name") == 0) return add_row(chart, process, -1, name, "");
    kolo_chart_row *named = strcmp(what, "thread_sort_index") == 0 ? find_row(chart, process, thread) : NULL;
    if (named) named->order = kolo_trace_argument(event, "sort_index", 0);
    if (strcmp(what, "thread_name") != 0) return KOLO_OK;
    const kolo_chart_row *whole = find_row(chart, process, -1);
    return add_row(chart, process, thread, whole ? kolo_phrase("%s", whole->rank) : "", name);
}

static int compare_rows(const void *one, const void *other)
{
    const kolo_chart_row *a = one, *b = other;
    if (a->process != b->process) return a->process < b->process ? -1 : 1;
    if (a->order != b->order) return a->order < b->order ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

static bool is_step(const json_t *event)
{
    return kolo_trace_is_span(event) && kolo_trace_span(event) == KOLO_SPAN_STEP;
}

static kolo_status see_names_and_steps(const kolo_trace *trace, const json_t *event, void *state)
{
    (void)trace;
    kolo_chart *chart = state;
    if (!kolo_trace_is_span(event)) return name_row(chart, event);
    double begin = kolo_trace_number(event, "ts"), end = begin + kolo_trace_number(event, "dur");
    if (begin < chart->begin) chart->begin = begin;
    if (end > chart->end) chart->end = end;
    int step = is_step(event) ? kolo_trace_argument(event, "step", -1) : -1;
    if (step < 0) return KOLO_OK;
    if (chart->first < 0 || step < chart->first) chart->first = step;
    if (step > chart->last) chart->last = step;
    return KOLO_OK;
}

static kolo_status see_time_of_steps(const kolo_trace *trace, const json_t *event, void *state)
{
    (void)trace;
    kolo_chart *chart = state;
    int step = is_step(event) ? kolo_trace_argument(event, "step", -1) : -1;
    if (step < chart->first || step > chart->last) return KOLO_OK;
    double begin = kolo_trace_number(event, "ts"), end = begin + kolo_trace_number(event, "dur");
    if (begin < chart->begin) chart->begin = begin;
    if (end > chart->end) chart->end = end;
    return KOLO_OK;
}

/* Steps of the middle: at the beginning memory is touched for the first time, and kernels are chosen. */
static kolo_status choose_steps(kolo_trace *trace, int first, int steps, kolo_chart *chart)
{
    int all = chart->last - chart->first + 1;
    if (chart->first < 0 && first >= 0)
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted step %d, got none", trace->path, first);
    if (chart->first < 0) return KOLO_OK;
    if (first < 0) first = steps >= all ? chart->first : chart->first + (all - steps + 1) / 2;
    if (first < chart->first || first > chart->last)
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted a .step from %d to %d, got %d", trace->path, chart->first,
                         chart->last, first);
    chart->first = first;
    if (steps <= chart->last - first) chart->last = first + steps - 1;
    chart->begin = INFINITY;
    chart->end = -INFINITY;
    return kolo_trace_each(trace, see_time_of_steps, chart);
}

static kolo_status see_events(const kolo_trace *trace, const json_t *event, void *state)
{
    kolo_chart *chart = state;
    if (!kolo_trace_is_span(event) || kolo_trace_span(event) == KOLO_SPANS) return KOLO_OK;
    double begin = kolo_trace_number(event, "ts"), end = begin + kolo_trace_number(event, "dur");
    if (!(begin < chart->end && end > chart->begin)) return KOLO_OK;
    kolo_chart_row *row = find_row(chart, kolo_trace_whole(event, "pid", -1), kolo_trace_whole(event, "tid", -1));
    if (!row) return kolo_trace_wrong(trace, "an event of a thread without a name");
    KOLO_TRY(kolo_make_room(&chart->events, &chart->event_room, chart->event_count + 1, sizeof *chart->events,
                            "a timeline"));
    row->used = true;
    chart->events[chart->event_count++] =
        (kolo_chart_event){(int)(row - chart->rows), begin, end, kolo_trace_span(event)};
    return KOLO_OK;
}

static kolo_status read_all(kolo_trace *trace, int first, int steps, kolo_chart *chart)
{
    KOLO_TRY(kolo_trace_each(trace, see_names_and_steps, chart));
    if (!(chart->begin < chart->end)) return kolo_fail(KOLO_FORMAT, "%s: wanted events, got none", trace->path);
    qsort(chart->rows, chart->row_count, sizeof *chart->rows, compare_rows);
    KOLO_TRY(choose_steps(trace, first, steps, chart));
    return kolo_trace_each(trace, see_events, chart);
}

kolo_status kolo_chart_read(const char *path, int first, int steps, kolo_chart *chart)
{
    *chart = (kolo_chart){.begin = INFINITY, .end = -INFINITY, .first = -1, .last = -1};
    kolo_trace trace;
    KOLO_TRY(kolo_trace_open(path, &trace));
    kolo_status status = read_all(&trace, first, steps, chart);
    kolo_trace_close(&trace);
    return status;
}

void kolo_chart_close(kolo_chart *chart)
{
    free(chart->rows);
    free(chart->events);
    *chart = (kolo_chart){0};
}
