/* The events of a timeline that a replay needs: see events.h. */
#include "whatif/events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"

/* The first process is rank 0, and the names of a row are before its events. */
static void see_name(const json_t *event, kolo_recorded_events *events)
{
    const char *what = kolo_trace_text(event, "name");
    const json_t *arguments = json_object_get(event, "args");
    const char *name = kolo_trace_text(arguments, "name");
    bool process = strcmp(what, "process_name") == 0, thread = strcmp(what, "thread_name") == 0;
    int number = kolo_trace_whole(event, "pid", -1);
    events->ranks += process;
    if (process && events->process < 0) {
        events->process = number;
        events->cores = kolo_trace_whole(arguments, "cores", 0);
        events->threads = kolo_trace_whole(arguments, "threads", 0);
    }
    if (!thread || number != events->process || strncmp(name, "device ", 7) != 0 || strchr(name, ',')) return;
    if (events->devices++ == 0) events->main_row = kolo_trace_whole(event, "tid", -1);
}

/* The names are few, and the same ones come in the same order step by step. */
static kolo_status find_name(kolo_recorded_events *events, const char *name, int *found)
{
    for (size_t i = 0; i < events->name_count; i++) {
        if (strncmp(events->names[i], name, sizeof *events->names - 1) != 0) continue;
        *found = (int)i;
        return KOLO_OK;
    }
    KOLO_TRY(kolo_make_room(&events->names, &events->name_room, events->name_count + 1, sizeof *events->names,
                            "a timeline"));
    snprintf(events->names[events->name_count], sizeof *events->names, "%s", name);
    *found = (int)events->name_count++;
    return KOLO_OK;
}

static bool is_wanted(kolo_timeline_span span)
{
    return span == KOLO_SPAN_STEP || span == KOLO_SPAN_BACKWARD || span == KOLO_SPAN_WAIT || span == KOLO_SPAN_REDUCE ||
           span == KOLO_SPAN_COLLECTIVE;
}

static kolo_status see(const kolo_trace *trace, const json_t *json, void *state)
{
    kolo_recorded_events *events = state;
    if (!kolo_trace_is_span(json)) see_name(json, events);
    kolo_timeline_span span = kolo_trace_span(json);
    if (!kolo_trace_is_span(json) || kolo_trace_whole(json, "pid", -1) != events->process) return KOLO_OK;
    events->enqueues = events->enqueues || span == KOLO_SPAN_ENQUEUE;
    if (!is_wanted(span)) return KOLO_OK;
    bool step = span == KOLO_SPAN_STEP;
    double begin = kolo_trace_number(json, "ts") / 1e6, seconds = kolo_trace_number(json, "dur") / 1e6;
    if (!isfinite(begin) || !(seconds >= 0 && seconds < 1e9)) return kolo_trace_wrong(trace, "an event without a time");
    kolo_recorded_event event = {.begin = begin,
                                 .end = begin + seconds,
                                 .thread = kolo_trace_whole(json, "tid", -1),
                                 .span = span,
                                 .step = kolo_trace_argument(json, "step", -1),
                                 .number = kolo_trace_argument(json, step ? "samples" : "microbatch", -1)};
    double bytes = kolo_trace_number(json_object_get(json, "args"), "bytes");
    event.bytes = bytes > 0 && bytes < 1e15 ? bytes : 0;
    KOLO_TRY(find_name(events, kolo_trace_text(json, "name"), &event.name));
    KOLO_TRY(kolo_make_room(&events->event, &events->room, events->count + 1, sizeof event, "a timeline"));
    events->event[events->count++] = event;
    return KOLO_OK;
}

kolo_status kolo_recorded_events_read(const char *path, kolo_recorded_events *events)
{
    *events = (kolo_recorded_events){.process = -1, .main_row = -1};
    kolo_trace trace;
    KOLO_TRY(kolo_trace_open(path, &trace));
    kolo_status status = kolo_trace_each(&trace, see, events);
    kolo_trace_close(&trace);
    return status;
}

void kolo_recorded_events_close(kolo_recorded_events *events)
{
    free(events->event);
    free(events->names);
    *events = (kolo_recorded_events){0};
}
