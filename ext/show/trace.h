/* Reads a timeline (core/timeline_file.h) event by event. The file is read line by line, since it may have millions of
 * events and each is a line of its own. */
#ifndef KOLO_SHOW_TRACE_H
#define KOLO_SHOW_TRACE_H

#include <jansson.h>
#include <stdio.h>

#include "core/error.h"
#include "core/timeline_file.h"

typedef struct kolo_trace {
    const char *path;
    FILE *file;
    int number;      /* of the line */
    char line[4096]; /* an event has some hundred bytes */
} kolo_trace;

/* Fails with a sentence if there is no such file. The path must stay valid. */
kolo_status kolo_trace_open(const char *path, kolo_trace *trace);
void kolo_trace_close(kolo_trace *trace);
/* Calls see() for each event, from the first one on; it may be called again. Fails where the file is no timeline, or
 * ends before its last event. */
kolo_status kolo_trace_each(kolo_trace *trace,
                            kolo_status (*see)(const kolo_trace *trace, const json_t *event, void *state), void *state);
/* Fails: "trace.json, line 7: wanted a timeline as kolo_start_timeline() writes it, got …". */
kolo_status kolo_trace_wrong(const kolo_trace *trace, const char *got);

/* What an object says: "", NaN or `otherwise` if it lacks the key, or has another type there. A whole number is 0 to
 * INT_MAX. */
const char *kolo_trace_text(const json_t *object, const char *key);
double kolo_trace_number(const json_t *object, const char *key);
int kolo_trace_whole(const json_t *object, const char *key, int otherwise);
/* The same of an event's arguments. */
int kolo_trace_argument(const json_t *event, const char *key, int otherwise);

/* Whether the event has a duration; else it names something. */
bool kolo_trace_is_span(const json_t *event);
/* KOLO_SPANS: a category of another program. */
kolo_timeline_span kolo_trace_span(const json_t *event);

#endif
