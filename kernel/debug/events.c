/* lldb-dap's events, and which of them the front end hears of: a step that leads out of the learner's code goes on by
 * itself. See state.h. */
#define _GNU_SOURCE
#include "debug/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void publish_event(debugger *d, const char *name, json_t *body)
{
    json_t *event = json_pack("{s:s, s:s, s:I, s:o}", "type", "event", "event", name, "seq", ++d->sequence, "body",
                              body ? body : json_object());
    char *dump = event ? json_dumps(event, JSON_COMPACT) : NULL;
    if (dump) d->s->front.publish(d->s->front.self, "debug_event", dump);
    free(dump);
    json_decref(event);
}

char *lldb_command(debugger *d, const char *command, json_int_t frame)
{
    char *escaped = format_text("\001%s", command);
    json_t *arguments = json_pack("{s:s, s:s}", "expression", escaped, "context", "repl");
    if (frame >= 0) json_object_set_new(arguments, "frameId", json_integer(frame));
    json_t *response = adapter_ask(d->adapter, "evaluate", arguments, PATIENCE);
    const char *said = json_string_value(json_object_get(json_object_get(response, "body"), "result"));
    char *copy = copy_of(said ? said : "");
    json_decref(response);
    free(escaped);
    return copy;
}

static void delete_step_in(debugger *d)
{
    if (!d->step_in) return;
    char *command = format_text("breakpoint delete %lld", (long long)d->step_in);
    free(lldb_command(d, command, -1));
    free(command);
    d->step_in = 0;
}

const cell_place *place_of_frame(const debugger *d, const json_t *frame)
{
    const char *path = json_string_value(json_object_get(json_object_get(frame, "source"), "path"));
    const char *slash = path ? strrchr(path, '/') : NULL;
    return path ? place_named(&d->places, slash ? slash + 1 : path) : NULL;
}

bool whole_cell(const json_t *frame)
{
    const char *name = json_string_value(json_object_get(frame, "name"));
    return name && !strncmp(name, "In_", 3) && name[3 + strspn(name + 3, "0123456789")] == 0;
}

static json_t *frames_of(debugger *d, json_int_t thread, int most)
{
    json_t *arguments = json_pack("{s:I, s:i, s:i}", "threadId", thread, "startFrame", 0, "levels", most);
    json_t *response = adapter_ask(d->adapter, "stackTrace", arguments, PATIENCE);
    json_t *frames = json_incref(json_object_get(json_object_get(response, "body"), "stackFrames"));
    json_decref(response);
    return frames;
}

/* A step that was cut short by a stop would otherwise stop once more, where it meant to, after a "continue". */
static void forget_step(debugger *d, json_int_t thread)
{
    json_t *frames = frames_of(d, thread, 1), *frame = json_object_get(json_array_get(frames, 0), "id");
    if (frame) free(lldb_command(d, "thread plan discard 1", json_integer_value(frame)));
    json_decref(frames);
}

/* How far the stop is from the learner's code: 0: in it; 1: below it; 2: there is none on this thread. */
static int distance(debugger *d, json_int_t thread)
{
    json_t *frames = frames_of(d, thread, 40), *frame;
    size_t i;
    int found = 2;
    json_array_foreach(frames, i, frame)
    {
        if (found == 2 && (place_of_frame(d, frame) || whole_cell(frame))) found = i ? 1 : 0;
    }
    json_decref(frames);
    return found;
}

static bool hit(const json_t *body, json_int_t breakpoint)
{
    size_t i;
    json_t *id;
    json_array_foreach(json_object_get(body, "hitBreakpointIds"), i, id)
    {
        if (breakpoint && json_integer_value(id) == breakpoint) return true;
    }
    return false;
}

static void go_on(debugger *d, const char *how, json_int_t thread)
{
    json_decref(adapter_ask(d->adapter, how, json_pack("{s:I}", "threadId", thread), PATIENCE));
}

/* The front end does not hear of the stop, and the worker goes on. */
static bool passed_over(debugger *d, json_int_t thread, bool step)
{
    if (d->passing) {
        go_on(d, "continue", thread);
        return true;
    }
    int far = step ? distance(d, thread) : 0;
    if (far == 0) return false;
    go_on(d, far == 1 && d->steps_out++ < 64 ? "stepOut" : "continue", thread);
    return true;
}

static void show_stop(debugger *d, json_int_t thread, const char *reason, const char *description)
{
    d->stopped = true;
    d->thread = thread;
    publish_event(d, "stopped",
                  json_pack("{s:s, s:s, s:I, s:b, s:b}", "reason", reason, "description",
                            description ? description : reason, "threadId", thread, "allThreadsStopped", 1,
                            "preserveFocusHint", 0));
}

static void take_stop(debugger *d, const json_t *body)
{
    json_int_t thread = json_integer_value(json_object_get(body, "threadId"));
    const char *reason = json_string_value(json_object_get(body, "reason"));
    const char *description = json_string_value(json_object_get(body, "description"));
    bool stepped_in = hit(body, d->step_in);
    bool halted = description && strstr(description, "SIGSTOP");
    bool paused = d->pausing && halted;
    delete_step_in(d);
    if (stepped_in) reason = "step";
    if (paused) reason = "pause";
    if (!reason) reason = "pause";
    d->pausing = false;
    bool step = !strcmp(reason, "step");
    if (d->thread && (stepped_in || !step)) forget_step(d, d->thread);
    if (halted && !paused && !d->running) go_on(d, "continue", thread); /* a freeze that came too late */
    else if (!passed_over(d, thread, step)) show_stop(d, thread, reason, paused || stepped_in ? reason : description);
}

static void take_continuation(debugger *d)
{
    if (!d->stopped) return;
    d->stopped = false;
    publish_event(d, "continued", json_pack("{s:I, s:b}", "threadId", d->thread, "allThreadsContinued", 1));
}

/* Waits for the lock, unless the thread that holds it closes the adapter. */
static bool locked(debugger *d, const adapter *from)
{
    while (pthread_mutex_trylock(&d->lock)) {
        if (adapter_gone(from)) return false;
        usleep(1000);
    }
    if (d->adapter == from) return true;
    pthread_mutex_unlock(&d->lock);
    return false;
}

void take_event(void *self, adapter *from, json_t *event)
{
    debugger *d = self;
    const char *name = json_string_value(json_object_get(event, "event"));
    if (!name || !locked(d, from)) return;
    if (!strcmp(name, "stopped")) take_stop(d, json_object_get(event, "body"));
    if (!strcmp(name, "continued") || !strcmp(name, "exited")) take_continuation(d);
    pthread_mutex_unlock(&d->lock);
}
