/* One piece of C, from source to its result: split, parse, name, compile, load, commit, run. A piece that fails before
 * it is loaded leaves no trace. Read first: session.h, cells/unit.h, cells/symbols.h. */
#define _GNU_SOURCE
#include "session.h"
#include "cells/conditionals.h"
#include "cells/dependents.h"
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct build {
    session *s;
    draft draft;
    value_form form;
    value_facts value;
    text assembly;   /* stubs and storage */
    text bindings;   /* slot, definition, … as MESSAGE_LOAD has them */
    link_name *links;
    size_t link_count, link_capacity;
    names owned;     /* strings that `links` points to */
    names dropped;   /* keys of variables that go when the cell is committed */
    unsigned mark;
} build;

static void build_free(build *b)
{
    draft_free(&b->draft);
    text_free(&b->assembly);
    text_free(&b->bindings);
    free(b->links);
    names_free(&b->owned);
    names_free(&b->dropped);
}

static unit parse(build *b, value_form form)
{
    unit u = unit_of(&b->draft, b->s->symbols, form, NULL);
    analyser_parse(&b->s->analyser, u.source.data, u.source.size);
    b->mark = u.mark;
    if (getenv("KOLO_KERNEL_TRACE")) fprintf(stderr, "----\n%s\n----\n", u.source.data);
    return u;
}

/* The number of elements that initialisers give to `[]`. True when there was one to find. */
static bool size_open_arrays(build *b)
{
    bool any = false;
    for (size_t i = 0; i < b->draft.count; i++) {
        draft_item *item = &b->draft.items[i];
        if (!item->open_array) continue;
        CXType type = clang_getCanonicalType(clang_getCursorType(analyser_cursor(&b->s->analyser, item->init_offset)));
        long long count = clang_getArraySize(type);
        item->open_size = count > 0 ? (size_t)count : 0;
        any |= count > 0;
    }
    return any;
}

static void take_types(build *b)
{
    for (size_t i = 0; i < b->draft.count; i++) {
        draft_item *item = &b->draft.items[i];
        entity *e = item->what;
        type_facts facts;
        if (!e->name || e->kind == ENTITY_MACRO || !analyser_type(&b->s->analyser, item->offset, &facts)) continue;
        free(e->type);
        e->type = facts.spelling;
        e->size = facts.size;
        e->align = facts.align;
        e->layout = facts.layout;
        e->written = facts.writable;
        if (e->kind != ENTITY_VARIABLE || !facts.writable) continue;
        free(e->declaration);
        e->declaration = format_text("extern __typeof__(%s) %s;\n", e->type, e->name);
    }
}

static value_form form_of(const value_facts *value, const char **shower)
{
    CXType plain = clang_getCanonicalType(value->type);
    *shower = shower_of(plain);
    if (*shower) return VALUE_OBJECT;
    switch (plain.kind) {
    case CXType_Invalid:
    case CXType_Void: return VALUE_NONE;
    case CXType_ConstantArray: return VALUE_ARRAY;
    case CXType_VariableArray: return VALUE_RUNTIME_ARRAY;
    case CXType_IncompleteArray: return VALUE_OPEN_ARRAY;
    default: break;
    }
    if (value->bit_field) return VALUE_BITS;
    long long size = clang_Type_getSizeOf(plain);
    if (plain.kind != CXType_Record) return VALUE_PLAIN;
    return size < 0 ? VALUE_NONE : size > 65536 ? VALUE_LARGE : VALUE_PLAIN;
}

/* Does the cell compile together with this earlier function? */
static bool fits(build *b, entity *function, char **why)
{
    draft *d = &b->draft;
    d->again[0] = function;
    d->again_count = 1;
    unit u = parse(b, VALUE_PROBE);
    diagnosis found = diagnose(&b->s->analyser, d->name, source_line_of, b->s, b->s->symbols);
    *why = found.first_error ? copy_of(found.first_error) : NULL;
    diagnosis_free(&found);
    text_free(&u.source);
    return !*why;
}

/* Takes along the earlier functions that this cell's macros and types change; names those that no longer fit. */
static void take_dependents(build *b)
{
    draft *d = &b->draft;
    dependents found = dependents_of(d, b->s->symbols);
    d->again = need_zeroed((found.function_count + 1) * sizeof *d->again);
    entity **fitting = need_zeroed((found.function_count + 1) * sizeof *fitting);
    size_t count = 0;
    for (size_t i = 0; i < found.function_count; i++) {
        char *why = NULL;
        if (fits(b, found.functions[i], &why)) {
            fitting[count++] = found.functions[i];
        } else {
            char *note = format_text("%s() no longer fits and keeps its old code: %s\n", found.functions[i]->name, why);
            print_error(b->s, note);
            free(note);
        }
        free(why);
    }
    free(d->again);
    d->again = fitting;
    d->again_count = count;
    d->recheck = found.variables;
    d->recheck_count = found.variable_count;
    d->recheck_offset = need_zeroed((found.variable_count + 1) * sizeof *d->recheck_offset);
    found.variables = NULL;
    dependents_free(&found);
}

/* A variable whose struct has changed is of no use any more: it goes, and the user is told. */
static void drop_changed_variables(build *b)
{
    for (size_t i = 0; i < b->draft.recheck_count; i++) {
        entity *e = b->draft.recheck[i];
        type_facts facts;
        if (!b->draft.recheck_offset[i] || !analyser_type(&b->s->analyser, b->draft.recheck_offset[i], &facts))
            continue;
        free(facts.spelling);
        if (facts.layout == e->layout) continue;
        char *note =
            format_text("the type of '%s' has changed: '%s' is gone until its cell runs again\n", e->name, e->name);
        print_error(b->s, note);
        free(note);
        names_add(&b->dropped, e->defines.items[0], strlen(e->defines.items[0]));
    }
    b->draft.recheck_count = 0;
}

/* Parses, and says what is wrong. False: `r` is the error. */
static bool analyse(build *b, result *r)
{
    unit u = parse(b, VALUE_PROBE);
    if (size_open_arrays(b)) {
        text_free(&u.source);
        u = parse(b, VALUE_PROBE);
    }
    diagnosis d = diagnose(&b->s->analyser, b->draft.name, source_line_of, b->s, b->s->symbols);
    bool good = d.errors == 0;
    if (good) {
        take_dependents(b);
        if (b->draft.again_count || b->draft.recheck_count) {
            text_free(&u.source);
            u = parse(b, VALUE_PROBE);
        }
        drop_changed_variables(b);
        take_types(b);
        if (b->draft.has_value) b->value = analyser_value(&b->s->analyser, u.value_offset);
        b->form = b->draft.has_value ? form_of(&b->value, &b->draft.shower) : VALUE_PROBE;
        if (d.rendered.size) print_error(b->s, d.rendered.data);
    } else {
        *r = error_result("CompileError", "%s", d.first_error);
        text_clear(&r->traceback);
        text_add_bytes(&r->traceback, d.rendered.data, d.rendered.size - 1);
    }
    diagnosis_free(&d);
    text_free(&u.source);
    return good;
}

static const char *own(build *b, char *string)
{
    names_add(&b->owned, string, strlen(string));
    free(string);
    return b->owned.items[b->owned.count - 1];
}

static void add_link(build *b, const char *name, const char *link, const char *definition)
{
    b->links = need_grown(b->links, b->link_count, &b->link_capacity, sizeof *b->links);
    b->links[b->link_count++] = (link_name){own(b, copy_of(name)), own(b, copy_of(link)), definition};
}

static char *new_link(build *b, const char *name)
{
    return format_text("%s$%u", name, symbols_next_version(b->s->symbols, name));
}

static entity *old_of(const build *b, const entity *e)
{
    return symbols_find_bytes(b->s->symbols, 'o', e->name, strlen(e->name));
}

static bool library_has(session *s, const char *name)
{
    return ensure_worker(s) && machine_ask(&s->machine, MESSAGE_RESOLVE, name, strlen(name) + 1) == OUTCOME_ANSWER &&
           s->machine.payload_size == 0;
}

static void bind(build *b, const char *slot_of, const char *definition)
{
    char *slot = format_text("%s$slot", slot_of);
    text_add_bytes(&b->bindings, slot, strlen(slot) + 1);
    text_add_bytes(&b->bindings, definition, strlen(definition) + 1);
    free(slot);
}

static void name_function(build *b, draft_item *item)
{
    entity *e = item->what, *old = old_of(b, e);
    bool ours = old && old->kind == ENTITY_FUNCTION && old->link;
    bool same = ours && old->type && e->type && !strcmp(old->type, e->type);
    if (!e->defined && !ours && library_has(b->s, e->name)) return; /* a library's function, declared by hand */
    if (same) {
        e->link = copy_of(old->link);
    } else {
        e->link = new_link(b, e->name);
        stub_of(e->name, e->link, &b->assembly);
    }
    const char *definition = NULL;
    if (e->defined) {
        definition = own(b, format_text("%s$%u", e->link, b->draft.serial));
        bind(b, e->link, definition);
    }
    add_link(b, e->name, e->link, definition);
}

static void name_variable(build *b, draft_item *item)
{
    entity *e = item->what, *old = old_of(b, e);
    bool ours = old && old->kind == ENTITY_VARIABLE && old->link;
    if (!e->defined && !ours) return; /* a library's, or nobody's: loading says so */
    bool same = ours && old->layout == e->layout;
    if (same || !e->defined) {
        e->link = copy_of(old->link);
    } else {
        e->link = new_link(b, e->name);
        storage_of(e->link, e->size, e->align, &b->assembly);
    }
    add_link(b, e->name, e->link, NULL);
}

static void add_marked(entity *e, void *closure)
{
    build *b = closure;
    if (e->link && e->mark == b->mark) add_link(b, e->name, e->link, NULL);
}

static void name_all(build *b)
{
    for (size_t i = 0; i < b->draft.count; i++) {
        draft_item *item = &b->draft.items[i];
        if (!item->what->name || item->what->link) continue;
        bool again = false; /* declared, then defined, in one cell: the definition's name serves both */
        for (size_t k = 0; k < b->draft.count && !again; k++) {
            entity *other = b->draft.items[k].what;
            again = k != i && other->name && other->kind == item->what->kind &&
                    !strcmp(other->name, item->what->name) &&
                    (other->defined ? !item->what->defined || k > i : k < i && !item->what->defined);
        }
        if (again) continue;
        if (item->what->kind == ENTITY_FUNCTION) name_function(b, item);
        if (item->what->kind == ENTITY_VARIABLE) name_variable(b, item);
    }
    for (size_t i = 0; i < b->draft.again_count; i++) {
        entity *e = b->draft.again[i];
        const char *definition = own(b, format_text("%s$%u", e->link, b->draft.serial));
        add_link(b, e->name, e->link, definition);
        bind(b, e->link, definition);
    }
    symbols_each(b->s->symbols, add_marked, b);
}

static void remember_load(session *s, const char *path, text *payload)
{
    s->loads = need_grown(s->loads, s->load_count, &s->load_capacity, sizeof *s->loads);
    load *l = &s->loads[s->load_count++];
    l->path = copy_of(path);
    l->size = payload->size;
    l->payload = text_take(payload);
}

/* libmpi is loaded when the first cell needs it: it takes its time, and most sessions do without. */
static const char *library_for(const names *wanted)
{
    for (size_t i = 0; i < wanted->count; i++) {
        if (!strncmp(wanted->items[i], "MPI_", 4) || !strncmp(wanted->items[i], "ompi_", 5)) return "libmpi.so.40";
    }
    return "";
}

result load_failure(session *s, const char *why)
{
    const char *symbol = strstr(why, "undefined symbol: ");
    (void)s;
    if (!symbol) return error_result("LinkError", "the cell cannot be loaded: %s", why);
    symbol += strlen("undefined symbol: ");
    int size = (int)strcspn(symbol, " ,\n");
    return error_result("LinkError",
                        "'%.*s' is declared, and nothing defines it: no cell, and no library that is loaded "
                        "(%%ldflags -lNAME loads one)",
                        size, symbol);
}

static bool build_and_load(build *b, char **path, result *r)
{
    session *s = b->s;
    names wanted = {0};
    char *problem = NULL;
    unit u = unit_of(&b->draft, s->symbols, b->form, b->assembly.data ? b->assembly.data : "");
    *path = compiler_build(&s->compiler, &u.source, u.prefix_size, b->links, b->link_count, &wanted, &problem);
    text_free(&u.source);
    if (!*path) *r = error_result("CompileError", "%s", problem);
    free(problem);
    text payload = {0};
    const char *library = library_for(&wanted);
    if (*path) {
        text_add_bytes(&payload, *path, strlen(*path) + 1);
        text_add_bytes(&payload, library, strlen(library) + 1);
        text_add_bytes(&payload, b->bindings.data, b->bindings.size);
    }
    names_free(&wanted);
    bool up = *path && ensure_worker(s);
    if (*path && !up) *r = error_result("WorkerError", "the process that runs cells cannot be started");
    bool loaded = up && machine_ask(&s->machine, MESSAGE_LOAD, payload.data, payload.size) == OUTCOME_ANSWER;
    if (up && !loaded) *r = ending_result(s, false);
    if (loaded && s->machine.last.code != 0) {
        *r = load_failure(s, s->machine.payload);
        loaded = false;
    }
    if (loaded) remember_load(s, *path, &payload);
    else if (*path) unlink(*path);
    text_free(&payload);
    return loaded;
}

/* What the cell defined is the session's from here on. */
static void commit(build *b)
{
    session *s = b->s;
    for (size_t i = 0; i < b->dropped.count; i++) symbols_drop(s->symbols, b->dropped.items[i]);
    for (size_t i = 0; i < b->draft.count; i++) {
        entity *e = b->draft.items[i].what;
        entity *old = e->name && e->kind != ENTITY_MACRO ? old_of(b, e) : NULL;
        bool weaker = old && old->link && !e->defined && old->kind == e->kind;
        if (weaker || !e->defines.count) continue; /* a prototype of what is defined already adds nothing */
        b->draft.items[i].what = NULL;
        bool undefine =
            e->kind == ENTITY_MACRO && !strncmp(e->declaration, "#undef", 6) && !strchr(e->declaration, '\n')[1];
        if (undefine && symbols_find(s->symbols, e->defines.items[0])) {
            symbols_drop(s->symbols, e->defines.items[0]);
            entity_free(e);
        } else {
            symbols_put(s->symbols, e);
        }
    }
    if (b->draft.prefix.size) {
        free(s->prefix);
        s->prefix = copy_of(b->draft.prefix.data);
    }
}

/* The trailing expression's bundle: its value lies in a worker's memory, here or at a rank. */
static json_t *data_of_value(void *closure, const memory *from, uint64_t address, size_t size)
{
    const build *b = closure;
    if (b->form == VALUE_NONE) return NULL;
    if (b->form == VALUE_OBJECT && size > sizeof(void *)) return object_bundle(from, address, size);
    return b->value.prefix ? wide_string_bundle(from, b->value.prefix, address, size)
                           : value_bundle(from, b->value.type, address, size);
}

static void publish_value(build *b)
{
    session *s = b->s;
    memory worker = worker_memory(s);
    json_t *data = data_of_value(b, &worker, s->machine.last.address, s->machine.last.size);
    if (!data) return;
    json_t *content = json_pack("{s:i, s:o, s:{}}", "execution_count", (int)s->count, "data", data, "metadata");
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) output_publish(&s->out, "execute_result", dump);
    free(dump);
    json_decref(content);
}

static result execute(build *b, const char *path)
{
    session *s = b->s;
    if (ranks_chosen(s)) return ranks_run(s, path, b->draft.function, b->draft.has_value ? data_of_value : NULL, b);
    text payload = {0};
    text_add_bytes(&payload, path, strlen(path) + 1);
    text_add_bytes(&payload, b->draft.function, strlen(b->draft.function) + 1);
    outcome o = machine_run(&s->machine, MESSAGE_RUN, payload.data, payload.size, s->allow_stdin);
    text_free(&payload);
    if (o == OUTCOME_ENDED) return ending_result(s, false);
    /* A training run that an interrupt has ended returns as always, with its history. */
    if (s->machine.last.number == ENDING_RETURNED && s->machine.interrupted > 0)
        return error_result("KeyboardInterrupt", "interrupted");
    if (s->machine.last.number != ENDING_RETURNED) return ending_result(s, true);
    if (b->draft.has_value) publish_value(b);
    return (result){0};
}

static bool only_shell(const draft *d)
{
    for (size_t i = 0; i < d->split.tokens.count; i++) {
        if (d->split.tokens.items[i].kind != TOKEN_SHELL) return false;
    }
    return d->split.tokens.count > 0;
}

/* A cell of nothing but shell lines needs no compiler. */
static result run_shell_lines(session *s, const draft *d)
{
    result r = {0};
    for (size_t i = 0; i < d->split.tokens.count && !r.failed; i++) {
        const token *t = &d->split.tokens.items[i];
        char *command = copy_of_bytes(d->source + t->begin + 1, t->end - t->begin - 1);
        char *arguments[] = {access("/bin/bash", X_OK) ? "/bin/sh" : "/bin/bash", "-c", command, NULL};
        int status;
        r = run_program_in_worker(s, arguments, &status);
        free(command);
    }
    return r;
}

result run_c(session *s, const char *code, const char *name)
{
    build b = {.s = s};
    result r = {0};
    s->serial++;
    s->sources = need_grown(s->sources, s->source_count, &s->source_capacity, sizeof *s->sources);
    s->sources[s->source_count++] = (source){copy_of(name), copy_of(code)};
    char *straight = without_conditionals(code, s->prefix, s->symbols, &s->base_flags);
    b.draft = draft_of(straight ? straight : code, name, s->serial, s->prefix, s->symbols);
    free(straight);
    char *path = NULL;
    if (only_shell(&b.draft) && !ranks_chosen(s)) {
        r = run_shell_lines(s, &b.draft);
    } else if (b.draft.split.count && analyse(&b, &r)) {
        name_all(&b);
        if (build_and_load(&b, &path, &r)) {
            bool runs = b.draft.has_code;
            commit(&b);
            if (runs) r = execute(&b, path);
        }
    }
    free(path);
    build_free(&b);
    return r;
}

static bool load_again(session *s)
{
    for (size_t i = 0; i < s->load_count; i++) {
        if (machine_ask(&s->machine, MESSAGE_LOAD, s->loads[i].payload, s->loads[i].size) != OUTCOME_ANSWER)
            return false;
    }
    return true;
}

bool ensure_worker(session *s)
{
    if (machine_has_worker(&s->machine)) return true;
    return machine_start_worker(&s->machine) && load_again(s);
}

bool replace_worker(session *s, bool gently)
{
    machine_stop_worker(&s->machine, gently);
    s->machine.worker = 0;
    s->machine.starting = false;
    return ensure_worker(s);
}

result run_program_in_worker(session *s, char *const *arguments, int *status)
{
    text payload = {0};
    for (; *arguments; arguments++) text_add_bytes(&payload, *arguments, strlen(*arguments) + 1);
    *status = 0;
    result r = {0};
    if (!ensure_worker(s)) {
        r = error_result("WorkerError", "the process that runs cells cannot be started");
    } else if (machine_run(&s->machine, MESSAGE_SHELL, payload.data, payload.size, s->allow_stdin) == OUTCOME_ENDED) {
        r = ending_result(s, false);
    } else if (s->machine.last.number != ENDING_PROGRAM) {
        r = ending_result(s, true);
    } else {
        *status = s->machine.last.code;
    }
    text_free(&payload);
    return r;
}
