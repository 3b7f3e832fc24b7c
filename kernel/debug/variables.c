/* Frames, scopes, variables and expressions, while a cell is stopped and between cells. The worker stands still
 * meanwhile. See state.h. */
#define _GNU_SOURCE
#include "debug/expression.h"
#include "debug/state.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* References of our own, beyond lldb-dap's: a frame's number is added. */
static const json_int_t locals_of = (json_int_t)1 << 44, globals_of = (json_int_t)2 << 44;
static const json_int_t no_frame = -1;

/* A front end that has evaluated something looks at frames again only when they are new: their numbers for it count
 * the evaluations above lldb-dap's own 32 bits. */
static json_int_t shown_frame(const debugger *d, json_int_t frame)
{
    return frame + ((json_int_t)(d->evaluations & 0x7ff) << 32);
}

static json_int_t own_frame(json_int_t shown)
{
    return shown & 0xffffffff;
}

enum { DEEPEST_FRAME = 200, MOST_CHILDREN = 500, MOST_GLOBALS = 300, LONGEST_VALUE = 240 };

/* lldb evaluates nothing without a frame; any will do between cells. */
static json_int_t some_frame(debugger *d)
{
    json_t *arguments =
        json_pack("{s:i, s:i, s:i}", "threadId", (int)d->s->worker.process, "startFrame", 0, "levels", 1);
    json_t *response = adapter_ask(d->adapter, "stackTrace", arguments, PATIENCE);
    json_t *frames = json_object_get(json_object_get(response, "body"), "stackFrames");
    json_int_t frame = json_integer_value(json_object_get(json_array_get(frames, 0), "id"));
    json_decref(response);
    return frame;
}

/* Stops a worker in which nothing runs, so that it can be looked at. NULL, or why it cannot be. */
static const char *hold_still(debugger *d, bool *held)
{
    *held = false;
    if (!d->adapter || adapter_gone(d->adapter)) return "the debugger is not attached";
    if (d->stopped) return NULL;
    if (d->running) return "the cell is running";
    *held = adapter_freeze(d->adapter);
    if (*held) d->still = some_frame(d);
    return *held ? NULL : "the process of the cells does not stop";
}

static void let_go(debugger *d, bool held)
{
    if (held) adapter_thaw(d->adapter);
}

/* "f", or "In[3]" for the code of a cell outside of functions. */
static json_t *rewritten_frame(debugger *d, json_t *frame, const cell_place *place)
{
    json_t *copy = json_copy(frame);
    const char *name = json_string_value(json_object_get(frame, "name"));
    if (whole_cell(frame)) {
        json_object_set_new(copy, "name", json_string(place->name));
        char *number = format_text("%lld", (long long)json_integer_value(json_object_get(frame, "id")));
        json_object_set_new(d->whole_cells, number, json_true());
        free(number);
    } else if (name && strchr(name, '$')) {
        json_object_set_new(copy, "name", json_stringn(name, strcspn(name, "$")));
    }
    json_int_t number = json_integer_value(json_object_get(frame, "id"));
    json_object_set_new(copy, "id", json_integer(shown_frame(d, number)));
    json_object_set_new(copy, "source", json_pack("{s:s, s:s}", "name", place->name, "path", place->path));
    return copy;
}

/* The learner's frames: down to the cell, without the C library's and the kernel's. */
static json_t *own_frames(debugger *d, const json_t *frames)
{
    json_t *own = json_array(), *frame;
    size_t i;
    json_object_clear(d->whole_cells);
    json_array_foreach(frames, i, frame)
    {
        const cell_place *place = place_of_frame(d, frame);
        if (place) json_array_append_new(own, rewritten_frame(d, frame, place));
        if (whole_cell(frame)) break;
    }
    return own;
}

json_t *answer_stack_trace(debugger *d, const json_t *request)
{
    if (!d->stopped) return refused(d, request, "the cell is not stopped");
    json_t *arguments = json_pack("{s:I, s:i, s:i}", "threadId", d->thread, "startFrame", 0, "levels", DEEPEST_FRAME);
    json_t *thread = json_object_get(json_object_get(request, "arguments"), "threadId");
    if (json_integer_value(thread) > 1) json_object_set(arguments, "threadId", thread);
    json_t *answer = forwarded(d, request, arguments), *body = json_object_get(answer, "body");
    if (!json_is_array(json_object_get(body, "stackFrames"))) return answer;
    json_t *own = own_frames(d, json_object_get(body, "stackFrames"));
    json_object_set_new(body, "totalFrames", json_integer((json_int_t)json_array_size(own)));
    json_object_set_new(body, "stackFrames", own);
    return answer;
}

static bool is_whole_cell(const debugger *d, json_int_t frame)
{
    char *number = format_text("%lld", (long long)frame);
    bool whole = json_object_get(d->whole_cells, number) != NULL;
    free(number);
    return whole;
}

json_t *answer_scopes(debugger *d, const json_t *request)
{
    json_int_t frame = own_frame(json_integer_value(json_object_get(json_object_get(request, "arguments"), "frameId")));
    json_t *locals = json_pack("{s:s, s:s, s:I, s:b}", "name", "Locals", "presentationHint", "locals",
                               "variablesReference", locals_of + frame, "expensive", 0);
    json_t *globals =
        json_pack("{s:s, s:I, s:b}", "name", "Globals", "variablesReference", globals_of + frame, "expensive", 0);
    return accepted(d, request, json_pack("{s:[oo]}", "scopes", locals, globals));
}

/* lldb writes a function's address as "0x7f… (cell-1.so`by$1)": "0x7f… (by)". */
static char *tidy_address(const char *value)
{
    const char *open = strstr(value, " (cell-"), *tick = open ? strchr(open, '`') : NULL;
    if (!tick) return copy_of(value);
    return format_text("%.*s (%.*s)", (int)(open - value), value, (int)strcspn(tick + 1, "$)+ "), tick + 1);
}

static void tidy_string(json_t *variable, const char *key, char *plain)
{
    json_object_set_new(variable, key, json_string(plain));
    free(plain);
}

/* A type without a name, as C++ calls it or as the kernel does. */
static const char *unnamed(const char *type)
{
    static const char *const kinds[] = {"struct", "union", "enum"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *ours = format_text("%s unnamed_", kinds[i]), *theirs = format_text("(unnamed %s", kinds[i]);
        bool is = !strncmp(type, ours, strlen(ours)) || strstr(type, theirs);
        free(ours);
        free(theirs);
        if (is) return kinds[i];
    }
    return NULL;
}

/* Without lldb's own additions, and without our names. */
static void tidy_variable(const debugger *d, json_t *variable)
{
    json_object_del(variable, "$__lldb_extensions");
    const char *type = json_string_value(json_object_get(variable, "type"));
    const char *name = json_string_value(json_object_get(variable, "name"));
    const char *value = json_string_value(json_object_get(variable, "value"));
    if (type && strchr(type, '$')) tidy_string(variable, "type", plain_words(d->s->symbols, type));
    type = json_string_value(json_object_get(variable, "type"));
    if (type && unnamed(type)) tidy_string(variable, "type", copy_of(unnamed(type)));
    if (name && !strncmp(name, "*$", 2)) tidy_string(variable, "name", copy_of("*"));
    if (value && strchr(value, '`')) tidy_string(variable, "value", tidy_address(value));
}

/* lldb's own locals of a frame. */
static json_t *plain_locals(debugger *d, json_int_t frame)
{
    json_t *scopes = adapter_ask(d->adapter, "scopes", json_pack("{s:I}", "frameId", frame), PATIENCE), *scope;
    json_int_t reference = 0;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(scopes, "body"), "scopes"), i, scope)
    {
        const char *name = json_string_value(json_object_get(scope, "name"));
        if (name && !strcmp(name, "Locals"))
            reference = json_integer_value(json_object_get(scope, "variablesReference"));
    }
    json_decref(scopes);
    json_t *response =
        reference ? adapter_ask(d->adapter, "variables", json_pack("{s:I}", "variablesReference", reference), PATIENCE)
                  : NULL;
    json_t *list = json_array(), *one;
    json_array_foreach(json_object_get(json_object_get(response, "body"), "variables"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        tidy_variable(d, one);
        if (name && strncmp(name, "kolo_", 5)) json_array_append(list, one);
    }
    json_decref(response);
    return list;
}

/* "(int) $3 = 7" is 7; white space becomes single, and a long value ends in "…". */
static char *tidy_value(const char *said)
{
    const char *at = said, *sign = *at == '(' ? strstr(at, ") $") : NULL;
    const char *equals = sign ? strstr(sign, " = ") : NULL;
    bool numbered = equals && sign + 3 + strspn(sign + 3, "0123456789") == equals;
    return copy_of(numbered ? equals + 3 : at);
}

static char *one_line(const char *value)
{
    text line = {0};
    bool blank = false;
    for (const char *p = value; *p; p++) {
        bool white = isspace((unsigned char)*p);
        if (white && !blank) text_add_bytes(&line, " ", 1);
        if (!white) text_add_bytes(&line, p, 1);
        blank = white;
    }
    size_t end = LONGEST_VALUE;
    bool long_one = line.size > end;
    while (long_one && end && ((unsigned char)line.data[end] & 0xc0) == 0x80) end--;
    char *copy = long_one ? format_text("%.*s…", (int)end, line.data) : copy_of(line.data ? line.data : "");
    text_free(&line);
    return copy;
}

static json_t *evaluated(debugger *d, const char *expression, json_int_t frame, const char *context)
{
    json_t *arguments = json_pack("{s:s, s:s, s:I}", "expression", expression, "context", context, "frameId",
                                  frame == no_frame ? d->still : frame);
    return adapter_ask(d->adapter, "evaluate", arguments, PATIENCE);
}

typedef struct globals {
    debugger *d;
    json_int_t frame;
    json_t *list;
} globals;

/* Between cells the answer is looked into later, when the worker has moved on and back: only results in lldb's own
 * numbered variables live that long. */
static void add_global(entity *e, void *closure)
{
    globals *g = closure;
    char *expression = variable_for_lldb(e);
    if (!expression || json_array_size(g->list) >= MOST_GLOBALS || adapter_gone(g->d->adapter)) {
        free(expression);
        return;
    }
    json_t *response = evaluated(g->d, expression, g->frame, "watch"), *body = json_object_get(response, "body");
    json_int_t reference = json_integer_value(json_object_get(body, "variablesReference"));
    const char *said = json_string_value(json_object_get(body, "result"));
    if (reference && !g->d->stopped) {
        json_t *lasting = evaluated(g->d, expression, g->frame, "repl");
        reference = json_integer_value(json_object_get(json_object_get(lasting, "body"), "variablesReference"));
        json_decref(lasting);
    }
    char *value = one_line(said ? said : "(its type is not known to the debugger: run its cell again)");
    json_t *variable = json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", e->name, "value", value, "type", e->type,
                                 "evaluateName", e->name, "variablesReference", reference);
    tidy_variable(g->d, variable);
    json_array_append_new(g->list, variable);
    json_decref(response);
    free(value);
    free(expression);
}

static void add_globals(debugger *d, json_int_t frame, json_t *list)
{
    globals g = {d, frame, list};
    symbols_each(d->s->symbols, add_global, &g);
}

static json_t *children(debugger *d, const json_t *request)
{
    const json_t *asked = json_object_get(request, "arguments");
    json_t *arguments = json_deep_copy(asked);
    bool bounded = json_integer_value(json_object_get(asked, "count")) > 0;
    if (!bounded) json_object_set_new(arguments, "count", json_integer(MOST_CHILDREN));
    json_t *answer = forwarded(d, request, arguments);
    json_t *list = json_object_get(json_object_get(answer, "body"), "variables"), *one;
    size_t i;
    json_array_foreach(list, i, one) tidy_variable(d, one);
    if (!bounded && json_array_size(list) >= MOST_CHILDREN) {
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:i}", "name", "…", "value", "and so on", "variablesReference", 0));
    }
    return answer;
}

json_t *answer_variables(debugger *d, const json_t *request)
{
    json_int_t reference =
        json_integer_value(json_object_get(json_object_get(request, "arguments"), "variablesReference"));
    bool held;
    const char *problem = hold_still(d, &held);
    if (problem) return refused(d, request, problem);
    json_t *answer = NULL;
    if (reference < locals_of) {
        answer = children(d, request);
    } else {
        json_int_t frame = reference - (reference >= globals_of ? globals_of : locals_of);
        json_t *list = reference >= globals_of ? json_array() : plain_locals(d, frame);
        if (reference >= globals_of || is_whole_cell(d, frame)) add_globals(d, frame, list);
        answer = accepted(d, request, json_pack("{s:o}", "variables", list));
    }
    let_go(d, held);
    return answer;
}

json_t *answer_inspect_variables(debugger *d, const json_t *request)
{
    bool held = false;
    if (!d->fresh && d->on && !hold_still(d, &held)) {
        json_decref(d->inspected);
        d->inspected = json_array();
        add_globals(d, no_frame, d->inspected);
        d->fresh = !d->running;
        let_go(d, held);
    }
    return accepted(d, request,
                    json_pack("{s:o}", "variables", d->inspected ? json_incref(d->inspected) : json_array()));
}

/* lldb's words, without its numbering and our stubs' names. */
static char *tidy_error(const debugger *d, const char *said)
{
    char *words = plain_words(d->s->symbols, said ? said : "the debugger does not answer");
    const char *at = words;
    if (!strncmp(at, "error: ", 7)) at += 7;
    const char *end = strstr(at, "<user expression") == at ? strstr(at, ": ") : NULL;
    if (end) at = end + 2;
    text plain = {0};
    for (const char *p = at; *p && *p != '\n'; p++) {
        if (*p == '$' && isdigit((unsigned char)p[1])) p += strspn(p + 1, "0123456789");
        else text_add_bytes(&plain, p, 1);
    }
    free(words);
    return text_take(&plain);
}

/* The session's names are replaced but for what the frame's locals hide. */
static char *in_lldb_terms(debugger *d, const char *expression, json_int_t frame)
{
    names hidden = {0};
    json_t *locals = frame != no_frame ? plain_locals(d, frame) : NULL, *one;
    size_t i;
    json_array_foreach(locals, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        names_add_bytes(&hidden, name, strcspn(name, " "));
    }
    char *rewritten = expression_for_lldb(d->s->symbols, expression, &hidden);
    names_free(&hidden);
    json_decref(locals);
    return rewritten;
}

static json_t *evaluate(debugger *d, const json_t *request, const char *expression)
{
    bool held;
    const char *problem = hold_still(d, &held);
    if (problem) return refused(d, request, problem);
    const json_t *given = json_object_get(json_object_get(request, "arguments"), "frameId");
    json_int_t frame = d->stopped && json_is_integer(given) ? own_frame(json_integer_value(given)) : no_frame;
    char *rewritten = in_lldb_terms(d, expression, frame);
    json_t *response = evaluated(d, rewritten, frame, "repl"), *body = json_object_get(response, "body");
    let_go(d, held);
    d->evaluations++;
    free(rewritten);
    json_t *answer;
    const char *said = json_string_value(json_object_get(body, "result"));
    if (json_is_true(json_object_get(response, "success")) && said) {
        char *value = tidy_value(said);
        json_t *copy = json_deep_copy(body);
        tidy_variable(d, copy);
        json_object_set_new(copy, "result", json_string(value));
        answer = accepted(d, request, copy);
        free(value);
    } else {
        char *why = tidy_error(d, json_string_value(json_object_get(response, "message")));
        answer = refused(d, request, why);
        free(why);
    }
    json_decref(response);
    return answer;
}

json_t *answer_evaluate(debugger *d, const json_t *request)
{
    const char *expression = json_string_value(json_object_get(json_object_get(request, "arguments"), "expression"));
    if (!expression) return refused(d, request, "evaluate wants an expression");
    return evaluate(d, request, expression);
}

json_t *answer_rich_inspect(debugger *d, const json_t *request)
{
    const char *name = json_string_value(json_object_get(json_object_get(request, "arguments"), "variableName"));
    if (!name) return refused(d, request, "richInspectVariables wants a variable's name");
    json_t *answer = evaluate(d, request, name);
    json_t *shown = json_object_get(json_object_get(answer, "body"), "result");
    if (shown)
        json_object_set_new(answer, "body", json_pack("{s:{s:O}, s:{}}", "data", "text/plain", shown, "metadata"));
    else json_object_set_new(answer, "body", json_pack("{s:{}, s:{}}", "data", "metadata"));
    return answer;
}
