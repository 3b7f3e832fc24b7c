/* The front end's requests, one function each. See state.h; Jupyter's additions to the Debug Adapter Protocol are in
 * jupyter_client's documentation, "Debug request". */
#define _GNU_SOURCE
#include "debug/state.h"

#include <stdlib.h>
#include <string.h>

static json_t *initialize(debugger *d, const json_t *request)
{
    if (!debug_available())
        return refused(d, request, "there is no lldb-dap-19 on this machine: the Debian package lldb-19 has it");
    d->on = true;
    return accepted(d, request,
                    json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:[]}", "supportsConfigurationDoneRequest", 1,
                              "supportsConditionalBreakpoints", 1, "supportsHitConditionalBreakpoints", 1,
                              "supportsLogPoints", 1, "supportsEvaluateForHovers", 1, "supportTerminateDebuggee", 0,
                              "exceptionBreakpointFilters"));
}

/* At once when no cell runs; else before the next. */
static void prepare_earlier_cells(debugger *d)
{
    if (pthread_mutex_trylock(&d->s->busy)) return;
    compiler_for_debugging(&d->s->compiler, true);
    note_earlier_cells(d);
    d->recompiled = true;
    if (worker_is_up(&d->s->worker)) compile_again(d->s);
    pthread_mutex_unlock(&d->s->busy);
}

/* The process id is known once the supervisor's word has been heard, which it is while somebody asks the worker. */
static void hear_of_worker(debugger *d)
{
    if (d->s->worker.process > 0 || pthread_mutex_trylock(&d->s->busy)) return;
    if (worker_is_up(&d->s->worker)) worker_ask(&d->s->worker, MESSAGE_RESOLVE, "", 0);
    pthread_mutex_unlock(&d->s->busy);
}

static json_t *begin(debugger *d, const json_t *request)
{
    d->on = true;
    d->recompiled = false;
    hear_of_worker(d);
    free(d->problem);
    d->problem = attach(d);
    if (d->problem) return refused(d, request, d->problem);
    prepare_earlier_cells(d);
    publish_event(d, "initialized", NULL);
    return accepted(d, request, NULL);
}

static json_t *end(debugger *d, const json_t *request)
{
    if (d->stopped)
        publish_event(d, "continued", json_pack("{s:I, s:b}", "threadId", d->thread, "allThreadsContinued", 1));
    detach(d);
    d->on = d->fresh = false;
    json_object_clear(d->places.breakpoints);
    publish_event(d, "terminated", NULL);
    return accepted(d, request, NULL);
}

static json_t *debug_info(debugger *d, const json_t *request)
{
    json_t *list = json_array(), *lines, *stopped = json_array();
    const char *path;
    json_object_foreach(d->places.breakpoints, path, lines)
    {
        json_array_append_new(list, json_pack("{s:s, s:O}", "source", path, "breakpoints", lines));
    }
    if (d->stopped) json_array_append_new(stopped, json_integer(d->thread));
    return accepted(d, request,
                    json_pack("{s:b, s:s, s:I, s:s, s:s, s:o, s:o, s:b, s:[], s:b}", "isStarted", d->on, "hashMethod",
                              "Murmur2", "hashSeed", (json_int_t)HASH_SEED, "tmpFilePrefix", d->places.prefix,
                              "tmpFileSuffix", PLACES_SUFFIX, "breakpoints", list, "stoppedThreads", stopped,
                              "richRendering", 1, "exceptionPaths", "copyToGlobals", 0));
}

static const char *argument(const json_t *request, const char *name)
{
    return json_string_value(json_object_get(json_object_get(request, "arguments"), name));
}

static json_t *dump_cell(debugger *d, const json_t *request)
{
    const char *code = argument(request, "code");
    if (!code) return refused(d, request, "dumpCell wants the cell's code");
    return accepted(d, request, json_pack("{s:s}", "sourcePath", places_add(&d->places, NULL, code)->path));
}

static const char *source_path(const json_t *request)
{
    const json_t *arguments = json_object_get(request, "arguments");
    return json_string_value(json_object_get(json_object_get(arguments, "source"), "path"));
}

static json_t *source_text(debugger *d, const json_t *request)
{
    const char *path = source_path(request);
    const cell_place *place = path ? place_at(&d->places, path) : NULL;
    char *file = path && !place ? read_whole_file(path) : NULL;
    json_t *content = place || file ? json_string(place ? place->code : file) : NULL;
    free(file);
    if (!content) return refused(d, request, "its source is not here");
    return accepted(d, request, json_pack("{s:o, s:s}", "content", content, "mimeType", "text/x-csrc"));
}

/* lldb moves a breakpoint to the next line that has code; for a cell that has not run it stays where it was put. */
static json_t *settled(const json_t *asked, const json_t *response, const char *path)
{
    json_t *list = json_array(), *one;
    const json_t *placed = json_object_get(json_object_get(response, "body"), "breakpoints");
    size_t i;
    json_array_foreach(asked, i, one)
    {
        const json_t *there = json_array_get(placed, i);
        bool moved =
            json_is_true(json_object_get(there, "verified")) && json_is_integer(json_object_get(there, "line"));
        json_t *line = json_object_get(moved ? there : one, "line");
        json_array_append_new(list, json_pack("{s:i, s:b, s:O, s:{s:s}}", "id", (int)i + 1, "verified", 1, "line", line,
                                              "source", "path", path));
    }
    return list;
}

static json_t *put_breakpoints(debugger *d, const json_t *request)
{
    const char *path = source_path(request);
    const json_t *asked = json_object_get(json_object_get(request, "arguments"), "breakpoints");
    if (!path || !json_is_array(asked)) return refused(d, request, "setBreakpoints wants a source's path and a list");
    json_object_set_new(d->places.breakpoints, path, json_deep_copy(asked));
    json_t *response = set_breakpoints(d, path), *list = settled(asked, response, path);
    json_decref(response);
    if (json_array_size(list)) json_object_set(d->places.breakpoints, path, list);
    else json_object_del(d->places.breakpoints, path);
    return accepted(d, request, json_pack("{s:o}", "breakpoints", list));
}

static void add_function(entity *e, void *closure)
{
    text *command = closure;
    if (e->kind == ENTITY_FUNCTION && e->link && e->defined) text_addf(command, " -n %s", e->name);
}

/* A call goes through a stub, which lldb would step over: the step is one over the line, and every function of the
 * session's stops it. Its callbacks are stepped into as well. */
static json_t *step_in(debugger *d, const json_t *request)
{
    text command = {0};
    text_add(&command, "breakpoint set");
    size_t bare = command.size;
    symbols_each(d->s->symbols, add_function, &command);
    if (command.size > bare && d->adapter) {
        char *said = lldb_command(d, command.data, -1);
        const char *number = strstr(said, "Breakpoint ");
        d->step_in = number ? strtoll(number + strlen("Breakpoint "), NULL, 10) : 0;
        free(said);
    }
    text_free(&command);
    json_t *next = json_pack("{s:s, s:O}", "command", "next", "seq", json_object_get(request, "seq"));
    json_t *answer = forwarded(d, next, json_pack("{s:I}", "threadId", d->thread));
    json_object_set(answer, "command", json_object_get(request, "command"));
    json_decref(next);
    return answer;
}

static json_t *move(debugger *d, const json_t *request)
{
    const char *command = json_string_value(json_object_get(request, "command"));
    if (!d->stopped) return refused(d, request, "the cell is not stopped");
    d->steps_out = 0;
    if (!strcmp(command, "stepIn")) return step_in(d, request);
    return forwarded(d, request, json_pack("{s:I}", "threadId", d->thread));
}

static json_t *pause_cell(debugger *d, const json_t *request)
{
    if (!d->running) return refused(d, request, "no cell is running");
    d->pausing = true;
    return forwarded(d, request, json_pack("{s:I}", "threadId", d->thread));
}

static json_t *done(debugger *d, const json_t *request)
{
    return accepted(d, request, json_pack("{s:[]}", "breakpoints"));
}

static json_t *modules(debugger *d, const json_t *request)
{
    return accepted(d, request, json_pack("{s:[], s:i}", "modules", "totalModules", 0));
}

static json_t *copy_to_globals(debugger *d, const json_t *request)
{
    return refused(d, request, "C's variables have fixed types: declare one in a cell and assign to it");
}

static json_t *other(debugger *d, const json_t *request)
{
    return forwarded(d, request, json_deep_copy(json_object_get(request, "arguments")));
}

json_t *debug_answer(debugger *d, const json_t *request)
{
    static const struct {
        const char *command;
        json_t *(*answer)(debugger *d, const json_t *request);
        bool always; /* also while the debugger is off */
    } table[] = {
        {"initialize", initialize, true},
        {"attach", begin, true},
        {"launch", begin, true},
        {"debugInfo", debug_info, true},
        {"disconnect", end, true},
        {"terminate", end, true},
        {"dumpCell", dump_cell, true},
        {"source", source_text, true},
        {"modules", modules, true},
        {"copyToGlobals", copy_to_globals, true},
        {"configurationDone", done, true},
        {"setExceptionBreakpoints", done, true},
        {"inspectVariables", answer_inspect_variables, true},
        {"setBreakpoints", put_breakpoints, false},
        {"stackTrace", answer_stack_trace, false},
        {"scopes", answer_scopes, false},
        {"variables", answer_variables, false},
        {"evaluate", answer_evaluate, false},
        {"richInspectVariables", answer_rich_inspect, false},
        {"pause", pause_cell, false},
        {"continue", move, false},
        {"next", move, false},
        {"stepIn", move, false},
        {"stepOut", move, false},
        {NULL, other, false},
    };
    const char *command = json_string_value(json_object_get(request, "command"));
    size_t i = 0;
    while (table[i].command && (!command || strcmp(table[i].command, command))) i++;
    pthread_mutex_lock(&d->lock);
    json_t *answer = !command                   ? refused(d, request, "a debug request names its command")
                     : table[i].always || d->on ? table[i].answer(d, request)
                                                : refused(d, request, "the debugger is off");
    pthread_mutex_unlock(&d->lock);
    return answer;
}
