/* Reading a part of a timeline: see timeline.h. The file is read line by line, since it may have millions of events and
 * each is a line of its own. */
#include "show/timeline.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/utf8.h"

typedef struct reading {
    const char *path;
    FILE *file;
    int number; /* of the line */
    char line[4096]; /* an event has some hundred bytes */
    kolo_chart *chart;
} reading;

static kolo_status wrong(const reading *r, const char *got)
{
    return kolo_fail(KOLO_FORMAT, "%s, line %d: wanted a timeline as kolo_start_timeline() writes it, got %s", r->path,
                     r->number, got);
}

/* Reads the next line without its end; NULL: there is none. A longer one is cut, and no event then. */
static const char *next_line(reading *r)
{
    r->number++;
    if (!fgets(r->line, sizeof r->line, r->file)) return NULL;
    r->line[strcspn(r->line, "\n")] = 0;
    return r->line;
}

/* Reads the next event. *event is NULL at the end of the list. */
static kolo_status next_event(reading *r, json_t **event)
{
    const char *line = next_line(r);
    *event = NULL;
    if (!line) return wrong(r, "its end");
    if (line[0] == ']') return KOLO_OK;
    size_t length = strlen(line);
    *event = json_loadb(line, length > 0 && line[length - 1] == ',' ? length - 1 : length, 0, NULL);
    if (json_is_object(*event)) return KOLO_OK;
    json_decref(*event);
    *event = NULL;
    return wrong(r, "something else");
}

static kolo_status begin_events(reading *r)
{
    static const char ending[] = "\"traceEvents\":[";
    if (fseek(r->file, 0, SEEK_SET) != 0) return wrong(r, "a pipe");
    r->number = 0;
    const char *line = next_line(r);
    return line && kolo_ends_with(line, ending) ? KOLO_OK : wrong(r, "something else");
}

/* Calls see() for each event. */
static kolo_status for_each_event(reading *r, kolo_status (*see)(reading *r, const json_t *event))
{
    kolo_status status = begin_events(r);
    for (bool more = true; more && status == KOLO_OK;) {
        json_t *event = NULL;
        status = next_event(r, &event);
        more = event != NULL;
        if (more) status = see(r, event);
        json_decref(event);
    }
    return status;
}

/* ---------------------------------------------------------------- what an event says */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_span(const json_t *event)
{
    return strcmp(text_of(event, "ph"), "X") == 0;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    return json_is_number(number) ? json_number_value(number) : NAN;
}

static int whole_of(const json_t *object, const char *key, int otherwise)
{
    const json_t *number = json_object_get(object, key);
    json_int_t value = json_is_integer(number) ? json_integer_value(number) : otherwise;
    return value >= 0 && value <= INT_MAX ? (int)value : otherwise;
}

/* KOLO_SPANS: a category of another program. */
static kolo_timeline_span span_of(const json_t *event)
{
    const char *name = text_of(event, "cat");
    int span = 0;
    while (span < KOLO_SPANS && strcmp(name, kolo_timeline_spans[span]) != 0) span++;
    return (kolo_timeline_span)span;
}

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
    int process = whole_of(event, "pid", -1), thread = whole_of(event, "tid", -1);
    const char *what = text_of(event, "name"), *name = text_of(json_object_get(event, "args"), "name");
    if (strcmp(what, "process_name") == 0) return add_row(chart, process, -1, name, "");
    kolo_chart_row *named = strcmp(what, "thread_sort_index") == 0 ? find_row(chart, process, thread) : NULL;
    if (named) named->order = whole_of(json_object_get(event, "args"), "sort_index", 0);
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
    return is_span(event) && span_of(event) == KOLO_SPAN_STEP;
}

static kolo_status see_names_and_steps(reading *r, const json_t *event)
{
    kolo_chart *chart = r->chart;
    if (!is_span(event)) return name_row(chart, event);
    double begin = number_of(event, "ts"), end = begin + number_of(event, "dur");
    if (begin < chart->begin) chart->begin = begin;
    if (end > chart->end) chart->end = end;
    int step = is_step(event) ? whole_of(json_object_get(event, "args"), "step", -1) : -1;
    if (step < 0) return KOLO_OK;
    if (chart->first < 0 || step < chart->first) chart->first = step;
    if (step > chart->last) chart->last = step;
    return KOLO_OK;
}

static kolo_status see_time_of_steps(reading *r, const json_t *event)
{
    kolo_chart *chart = r->chart;
    int step = is_step(event) ? whole_of(json_object_get(event, "args"), "step", -1) : -1;
    if (step < chart->first || step > chart->last) return KOLO_OK;
    double begin = number_of(event, "ts"), end = begin + number_of(event, "dur");
    if (begin < chart->begin) chart->begin = begin;
    if (end > chart->end) chart->end = end;
    return KOLO_OK;
}

/* Steps of the middle: at the beginning memory is touched for the first time, and kernels are chosen. */
static kolo_status choose_steps(reading *r, int first, int steps)
{
    kolo_chart *chart = r->chart;
    int all = chart->last - chart->first + 1;
    if (chart->first < 0 && first >= 0)
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted step %d, got none", r->path, first);
    if (chart->first < 0) return KOLO_OK;
    if (first < 0) first = steps >= all ? chart->first : chart->first + (all - steps + 1) / 2;
    if (first < chart->first || first > chart->last)
        return kolo_fail(KOLO_NOT_FOUND, "%s: wanted a .step from %d to %d, got %d", r->path, chart->first, chart->last,
                         first);
    chart->first = first;
    if (steps <= chart->last - first) chart->last = first + steps - 1;
    chart->begin = INFINITY;
    chart->end = -INFINITY;
    return for_each_event(r, see_time_of_steps);
}

static kolo_status see_events(reading *r, const json_t *event)
{
    kolo_chart *chart = r->chart;
    if (!is_span(event) || span_of(event) == KOLO_SPANS) return KOLO_OK;
    double begin = number_of(event, "ts"), end = begin + number_of(event, "dur");
    if (!(begin < chart->end && end > chart->begin)) return KOLO_OK;
    kolo_chart_row *row = find_row(chart, whole_of(event, "pid", -1), whole_of(event, "tid", -1));
    if (!row) return wrong(r, "an event of a thread without a name");
    KOLO_TRY(kolo_make_room(&chart->events, &chart->event_room, chart->event_count + 1, sizeof *chart->events,
                            "a timeline"));
    row->used = true;
    chart->events[chart->event_count++] = (kolo_chart_event){(int)(row - chart->rows), begin, end, span_of(event)};
    return KOLO_OK;
}

static kolo_status read_all(reading *r, int first, int steps)
{
    KOLO_TRY(for_each_event(r, see_names_and_steps));
    if (!(r->chart->begin < r->chart->end)) return kolo_fail(KOLO_FORMAT, "%s: wanted events, got none", r->path);
    qsort(r->chart->rows, r->chart->row_count, sizeof *r->chart->rows, compare_rows);
    KOLO_TRY(choose_steps(r, first, steps));
    return for_each_event(r, see_events);
}

kolo_status kolo_chart_read(const char *path, int first, int steps, kolo_chart *chart)
{
    *chart = (kolo_chart){.begin = INFINITY, .end = -INFINITY, .first = -1, .last = -1};
    if (!path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    FILE *file = fopen(path, "re");
    if (!file)
        return kolo_fail(errno == ENOENT ? KOLO_NOT_FOUND : KOLO_IO, "%s: wanted a file to read, got: %s", path,
                         strerror(errno));
    reading r = {.path = path, .file = file, .chart = chart};
    kolo_status status = read_all(&r, first, steps);
    fclose(file);
    return status;
}

void kolo_chart_close(kolo_chart *chart)
{
    free(chart->rows);
    free(chart->events);
    *chart = (kolo_chart){0};
}
