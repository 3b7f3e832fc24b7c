/* Reading a timeline: see trace.h. */
#include "show/trace.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/utf8.h"

kolo_status kolo_trace_wrong(const kolo_trace *trace, const char *got)
{
    return kolo_fail(KOLO_FORMAT, "%s, line %d: wanted a timeline as kolo_start_timeline() writes it, got %s",
                     trace->path, trace->number, got);
}

kolo_status kolo_trace_open(const char *path, kolo_trace *trace)
{
    *trace = (kolo_trace){.path = path};
    if (!path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    trace->file = fopen(path, "re");
    if (trace->file) return KOLO_OK;
    return kolo_fail(errno == ENOENT ? KOLO_NOT_FOUND : KOLO_IO, "%s: wanted a file to read, got: %s", path,
                     strerror(errno));
}

void kolo_trace_close(kolo_trace *trace)
{
    if (trace->file) fclose(trace->file);
    trace->file = NULL;
}

/* Reads the next line without its end; NULL: there is none. A longer one is cut, and no event then. */
static const char *next_line(kolo_trace *trace)
{
    trace->number++;
    if (!fgets(trace->line, sizeof trace->line, trace->file)) return NULL;
    trace->line[strcspn(trace->line, "\n")] = 0;
    return trace->line;
}

/* Reads the next event. *event is NULL at the end of the list. */
static kolo_status next_event(kolo_trace *trace, json_t **event)
{
    const char *line = next_line(trace);
    *event = NULL;
    if (!line) return kolo_trace_wrong(trace, "its end");
    if (line[0] == ']') return KOLO_OK;
    size_t length = strlen(line);
    *event = json_loadb(line, length > 0 && line[length - 1] == ',' ? length - 1 : length, 0, NULL);
    if (json_is_object(*event)) return KOLO_OK;
    json_decref(*event);
    *event = NULL;
    return kolo_trace_wrong(trace, "something else");
}

static kolo_status begin_events(kolo_trace *trace)
{
    static const char ending[] = "\"traceEvents\":[";
    if (fseek(trace->file, 0, SEEK_SET) != 0) return kolo_trace_wrong(trace, "a pipe");
    trace->number = 0;
    const char *line = next_line(trace);
    return line && kolo_ends_with(line, ending) ? KOLO_OK : kolo_trace_wrong(trace, "something else");
}

kolo_status kolo_trace_each(kolo_trace *trace,
                            kolo_status (*see)(const kolo_trace *trace, const json_t *event, void *state), void *state)
{
    kolo_status status = begin_events(trace);
    for (bool more = true; more && status == KOLO_OK;) {
        json_t *event = NULL;
        status = next_event(trace, &event);
        more = event != NULL;
        if (more) status = see(trace, event, state);
        json_decref(event);
    }
    return status;
}

const char *kolo_trace_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double kolo_trace_number(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    return json_is_number(number) ? json_number_value(number) : NAN;
}

int kolo_trace_whole(const json_t *object, const char *key, int otherwise)
{
    const json_t *number = json_object_get(object, key);
    json_int_t value = json_is_integer(number) ? json_integer_value(number) : otherwise;
    return value >= 0 && value <= INT_MAX ? (int)value : otherwise;
}

int kolo_trace_argument(const json_t *event, const char *key, int otherwise)
{
    return kolo_trace_whole(json_object_get(event, "args"), key, otherwise);
}

bool kolo_trace_is_span(const json_t *event)
{
    return strcmp(kolo_trace_text(event, "ph"), "X") == 0;
}

kolo_timeline_span kolo_trace_span(const json_t *event)
{
    const char *name = kolo_trace_text(event, "cat");
    int span = 0;
    while (span < KOLO_SPANS && strcmp(name, kolo_timeline_spans[span]) != 0) span++;
    return (kolo_timeline_span)span;
}
