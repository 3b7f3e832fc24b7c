/* One piece of C, from source to its result: split, parse, name, compile, load, commit, run. A piece that fails before
 * it is loaded leaves no trace. Read first: session.h, cells/unit.h, cells/symbols.h. */
#define _GNU_SOURCE
#include "build.h"
#include "cells/conditionals.h"
#include "cells/expand.h"
#include "diagnostics/link_words.h"
#include "cells/needs.h"
#include "cells/packing.h"
#include "cells/spelling.h"
#include "debug/expression.h"
#include "outs.h"
#include "ranks/ranks.h"
#include "trial.h"
#include "loads.h"
#include "lock.h"
#include "print.h"
#include "report.h"
#include "run.h"
#include "search_path.h"
#include "session_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void build_free(build *b)
{
    for (size_t i = 0; i < b->dropped.count && !b->committed; i++) {
        entity *e = symbols_find(b->s->symbols, b->dropped.items[i]);
        if (e) e->gone = false;
    }
    for (size_t i = 0; i < b->stale_count; i++) free(b->stale[i].why);
    free(b->stale);
    free_kept(b);
    parsed_cell_free(&b->cell);
    text_free(&b->notes);
    text_free(&b->assembly);
    text_free(&b->bindings);
    free(b->links);
    names_free(&b->owned);
    names_free(&b->dropped);
    names_free(&b->missing);
}

/* libmpi is loaded when the first cell needs it: that takes time, and most sessions do without MPI. */
static const char *library_for(const names *wanted)
{
    bool mpi = false, openmp = false; /* -fopenmp makes calls of both kinds */
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->items[i];
        mpi |= !strncmp(name, "MPI_", 4) || !strncmp(name, "ompi_", 5);
        openmp |= !strncmp(name, "__kmpc_", 7) || !strncmp(name, "omp_", 4);
    }
    return mpi ? (openmp ? "libmpi.so.40:libomp.so.5" : "libmpi.so.40") : openmp ? "libomp.so.5" : "";
}

/* The worker could not load the cell, because an earlier one has damaged its memory or changed its user or root folder.
 * This prints so, and loads the cell in a new worker. */
static bool load_in_new_worker(session *s, const text *payload, bool gone, result *r)
{
    const char *colon = gone ? NULL : strrchr(s->worker.payload, ':');
    result before = gone ? worker_exit_result(s, false)
                         : error_result("ProcessError", "the process of the cells can no longer load them%s", colon);
    if (!gone) add_loss(s, &before.traceback);
    bool loaded = worker_is_up(&s->worker) &&
                  worker_ask(&s->worker, MESSAGE_LOAD, payload->data, payload->size) == OUTCOME_ANSWER &&
                  s->worker.last.code == 0;
    if (!loaded) {
        *r = before;
        return false;
    }
    print_error(s, before.traceback.data);
    print_error(s, "\n");
    result_free(&before);
    return true;
}

/* `types`: with those that the debugger wants to find. */
static char *compile_unit(build *b, bool types, names *wanted, char **problem)
{
    compiler *c = &b->s->compiler;
    unit u = unit_of(&b->cell, b->s->symbols, b->form, b->assembly.data ? b->assembly.data : "");
    if (types) name_types(b, &u);
    if (c->debugging) unit_hide_glue(&u);
    cell_waits(b->s);
    char *path = compiler_build(c, &u.source, u.prefix_size, b->links, b->link_count, wanted, problem);
    cell_goes_on(b->s);
    text_free(&u.source);
    if (path || !types) return path;
    free(*problem);
    *problem = NULL;
    return compile_unit(b, false, wanted, problem);
}

bool build_and_load(build *b, char **path, result *r)
{
    session *s = b->s;
    names wanted = {0};
    char *problem = NULL;
    *path = compile_unit(b, s->compiler.debugging, &wanted, &problem);
    worker_take_wake(&s->worker);
    if (!*path && s->worker.interrupted > 0) {
        *r = error_result("KeyboardInterrupt", "interrupted while it was compiled");
    } else if (!*path) {
        char *why = link_words(problem, b->cell.name);
        *r = error_result("LinkError", "%s", why);
        free(why);
    }
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
    bool loaded = up && worker_ask(&s->worker, MESSAGE_LOAD, payload.data, payload.size) == OUTCOME_ANSWER;
    bool cut_off =
        loaded && s->worker.last.code != 0 && strstr(s->worker.payload, ".so: cannot open shared object file:");
    if (up && (!loaded || cut_off)) loaded = load_in_new_worker(s, &payload, !loaded, r);
    if (loaded && s->worker.last.code != 0) {
        *r = load_failure(s->worker.payload);
        loaded = false;
    }
    if (loaded) loads_add(s, *path, &payload, b->assembly.size > 0);
    else if (*path) unlink(*path);
    text_free(&payload);
    return loaded;
}

static void commit_functions(build *b)
{
    for (size_t i = 0; i < b->cell.again_count; i++) {
        free(b->cell.again[i]->unfit);
        b->cell.again[i]->unfit = NULL;
    }
    for (size_t i = 0; i < b->stale_count; i++) {
        free(b->stale[i].function->unfit);
        b->stale[i].function->unfit = b->stale[i].why;
        b->stale[i].why = NULL;
    }
    for (size_t i = 0; i < b->cell.count; i++) {
        const entity *e = b->cell.items[i].what;
        if (e->kind == ENTITY_FUNCTION && e->link && e->type)
            symbols_remember_link(b->s->symbols, e->link, e->name, e->type);
    }
}

static void commit_packing(build *b)
{
    const parsed_cell *parsed = &b->cell;
    for (size_t i = 0; i < parsed->split.tokens.count; i++) {
        const token *t = &parsed->split.tokens.items[i];
        if (t->kind == TOKEN_DIRECTIVE && packing_line(parsed->source + t->begin, t->end - t->begin))
            packing_take(symbols_packing(b->s->symbols), parsed->source + t->begin, t->end - t->begin);
    }
}

/* A function's body and a variable's initialiser have done their work: a later cell's unit needs neither, nor what they
 * use. Else a chain of cells, each of which uses the one before, would make units grow with the session. */
static void note_dependencies(entity *e)
{
    bool text_is_all = e->kind == ENTITY_MACRO || e->kind == ENTITY_TYPE;
    if (text_is_all || e->natural || !e->declaration) return;
    token_list tokens = tokens_of(e->declaration);
    used_names(e->declaration, tokens.items, 0, tokens.count, &e->dependencies);
    tokens_free(&tokens);
}

/* A macro whose name the cell has taken. It may stand in the prefix, before an include: later cells take it back. */
static void commit_undone(build *b, const char *name)
{
    entity *e = entity_new(ENTITY_MACRO, b->cell.serial);
    e->name = copy_of(name);
    e->shown = format_text("#undef %s", name);
    e->declaration = format_text("#undef %s\n", name);
    char *key = format_text("m:%s", name);
    names_add(&e->defines, key);
    free(key);
    bool in_prefix = b->cell.prefix.data && strstr(b->cell.prefix.data, name);
    symbols_drop(b->s->symbols, e->defines.items[0]);
    if (in_prefix) symbols_put(b->s->symbols, e);
    else entity_free(e);
}

/* Adds the cell's definitions to the session. */
static void commit(build *b)
{
    session *s = b->s;
    if (b->notes.size) print_error(s, b->notes.data);
    b->committed = true;
    declare_items(b);
    commit_functions(b);
    commit_packing(b);
    for (size_t i = 0; i < b->cell.undone.count; i++) commit_undone(b, b->cell.undone.items[i]);
    if (b->cell.from) commit_headers(b->cell.from, s->symbols);
    for (size_t i = 0; i < b->dropped.count; i++) symbols_end(s->symbols, b->dropped.items[i]);
    for (size_t i = 0; i < b->cell.count; i++) {
        entity *e = b->cell.items[i].what;
        entity *old = e->name && e->kind != ENTITY_MACRO ? symbols_find(s->symbols, e->defines.items[0]) : NULL;
        bool weaker = old && old->link && !e->defined && old->kind == e->kind && (old->defined || old->definition);
        if (e->kind == ENTITY_VARIABLE && e->defined && e->type) journal_variable(&s->journal, e->name, e->type);
        weaker |= only_declares(e) && symbols_find(s->symbols, e->defines.items[0]);
        if (weaker || !e->defines.count) continue; /* a prototype of what is defined already adds nothing */
        b->cell.items[i].what = NULL;
        bool undefine =
            e->kind == ENTITY_MACRO && !strncmp(e->declaration, "#undef", 6) && !strchr(e->declaration, '\n')[1];
        bool in_prefix = undefine && e->name && strstr(b->cell.prefix.data ? b->cell.prefix.data : "", e->name);
        if (undefine && !in_prefix && symbols_find(s->symbols, e->defines.items[0])) {
            symbols_drop(s->symbols, e->defines.items[0]);
            entity_free(e);
        } else {
            note_dependencies(e);
            symbols_put(s->symbols, e);
        }
    }
    if (b->cell.prefix.size) {
        free(s->prefix);
        s->prefix = copy_of(b->cell.prefix.data);
    }
}

/* The trailing expression's bundle: its value lies in a worker's memory, here or at a rank. */
static json_t *data_of_value(void *closure, const memory *from, uint64_t address, size_t size)
{
    const build *b = closure;
    if (b->form == VALUE_NONE) return NULL;
    bool shown = b->form == VALUE_OBJECT || b->form == VALUE_RECIPE;
    if (shown && size > sizeof(void *)) return object_bundle(from, address, size);
    return b->value.prefix ? wide_string_bundle(from, b->value.prefix, address, size)
                           : value_bundle(from, b->value.type, address, size);
}

static void publish_value(build *b)
{
    session *s = b->s;
    memory worker = worker_memory(s);
    uint64_t address = s->worker.last.address;
    size_t size = s->worker.last.size; /* reading it makes other replies the last */
    json_t *data = data_of_value(b, &worker, address, size);
    if (!data) return;
    json_decref(s->value);
    s->value = data;
    if (b->form == VALUE_PLAIN || b->form == VALUE_ARRAY) outs_keep(s, s->count, b->value.type, &worker, address, size);
    const char *shown = json_string_value(json_object_get(data, "text/plain")), *format = printf_of(b->value.type);
    bool wild = format && strstr(format, "%s") && shown && *shown != '"'; /* a pointer to no string */
    journal_value(&s->journal, wild ? NULL : format);
    json_t *content = json_pack("{s:i, s:O, s:{}}", "execution_count", (int)s->count, "data", data, "metadata");
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) output_publish(&s->out, "execute_result", dump);
    free(dump);
    json_decref(content);
}

/* The array sizes that a stage has found: of ranks that differ, the largest. */
static json_t *take_values(void *closure, const memory *from, uint64_t address, size_t size)
{
    build *b = closure;
    long found[MOST_SIZES];
    if (size > sizeof found || !from->read(from->closure, address, size, found)) return NULL;
    for (size_t i = 0; i < size / sizeof *found; i++) {
        if (!b->valued || b->which->values[i] < found[i]) b->which->values[i] = found[i];
    }
    b->valued = true;
    return NULL;
}

static result execute(build *b, const char *path)
{
    session *s = b->s;
    worker_take_wake(&s->worker); /* while it was compiled */
    if (s->worker.interrupted > 0) return error_result("KeyboardInterrupt", "interrupted before it ran");
    value_reader shown = b->cell.has_value ? data_of_value : NULL;
    if (ranks_chosen(s)) return ranks_run(s, path, b->cell.function, b->which->asked ? take_values : shown, b);
    text payload = {0};
    text_add_bytes(&payload, path, strlen(path) + 1);
    text_add_bytes(&payload, b->cell.function, strlen(b->cell.function) + 1);
    cell_waits(s);
    outcome o = worker_run(&s->worker, MESSAGE_RUN, payload.data, payload.size, s->allow_stdin);
    cell_goes_on(s);
    text_free(&payload);
    if (o == OUTCOME_ENDED) return worker_exit_result(s, false);
    if (s->worker.culled) {
        print_error(s, s->worker.culled);
        print_error(s, "\n");
    }
    /* A training run that an interrupt has ended returns as always, with its history. */
    if (s->worker.last.number == STATUS_RETURNED && s->worker.interrupted > 0)
        return error_result("KeyboardInterrupt", "interrupted");
    if (s->worker.last.number != STATUS_RETURNED) return worker_exit_result(s, true);
    memory worker = worker_memory(s);
    if (b->which->asked) take_values(b, &worker, s->worker.last.address, s->worker.last.size);
    if (b->cell.has_value) publish_value(b);
    return (result){0};
}

static bool only_shell(const parsed_cell *parsed)
{
    for (size_t i = 0; i < parsed->split.tokens.count; i++) {
        if (parsed->split.tokens.items[i].kind != TOKEN_SHELL) return false;
    }
    return parsed->split.tokens.count > 0;
}

/* A cell of nothing but shell lines needs no compiler. */
static result run_shell_lines(session *s, const parsed_cell *parsed)
{
    result r = {0};
    for (size_t i = 0; i < parsed->split.tokens.count && !r.failed; i++) {
        const token *t = &parsed->split.tokens.items[i];
        char *command = copy_of_bytes(parsed->source + t->begin + 1, t->end - t->begin - 1);
        char *arguments[] = {access("/bin/bash", X_OK) ? "/bin/sh" : "/bin/bash", "-c", command, NULL};
        int status;
        r = run_program_in_worker(s, arguments, &status);
        free(command);
    }
    return r;
}

static void begin_part(build *b, const part *which)
{
    parsed_cell *parsed = &b->cell;
    b->which = which;
    b->quiet = which->quiet;
    parsed->c23 = flags_are_c23(&b->s->base_flags);
    for (size_t i = 0; i < which->given_count; i++) {
        parsed->bounds =
            need_grown(parsed->bounds, parsed->bound_count, &parsed->bound_capacity, sizeof *parsed->bounds);
        parsed->bounds[parsed->bound_count++] = which->given[i];
    }
    for (size_t i = 0; which->asked && i < which->asked->count; i++) {
        names_add(&parsed->asked, which->asked->items[i]);
        parsed->has_code = true;
    }
    names_add_all(&parsed->packing, symbols_packing(b->s->symbols));
}

static result run_analysed(build *b)
{
    result r = {0};
    char *path = NULL;
    name_all(b);
    if (b->cell.has_code) note_absent_values(b);
    if (build_and_load(b, &path, &r)) {
        bool runs = b->cell.has_code;
        commit(b);
        if (runs) r = execute(b, path);
        if (runs && !r.failed && b->which->asked && !b->valued)
            r = error_result("SizeError", "the sizes of the cell's arrays cannot be read");
        loads_settle(b->s);
    }
    free(path);
    return r;
}

bool readable(session *s, const text *what, const char *name, result *r)
{
    cell_waits(s);
    trial_end end = trial_of(&s->analyser, what, TRIAL_OF_CELL, s->worker.wake);
    cell_goes_on(s);
    if (end == TRIAL_INTERRUPTED) *r = error_result("KeyboardInterrupt", "%s", trial_sentence(end));
    else if (end != TRIAL_PASSED) *r = error_result("CompileError", "%s: %s", name, trial_sentence(end));
    return end == TRIAL_PASSED;
}

static bool part_readable(build *b, result *r)
{
    unit u = unit_of(&b->cell, b->s->symbols, VALUE_PROBE, NULL);
    bool good = readable(b->s, &u.source, b->cell.name, r);
    text_free(&u.source);
    return good;
}

/* `!x`, meant as C, is a command to the shell. */
static void hint_at_shell(session *s, const parsed_cell *parsed)
{
    for (size_t i = 0; i < parsed->split.tokens.count; i++) {
        const token *t = &parsed->split.tokens.items[i];
        if (t->kind != TOKEN_SHELL) continue;
        const char *word = skip_blanks(parsed->source + t->begin + 1);
        size_t size = word_size(word);
        char *key = format_text("o:%.*s", (int)size, word), *program = in_path(key + 2);
        if (size && !program && (symbols_find(s->symbols, key) || parsed_cell_find(parsed, key))) {
            char *said = format_text("hint: a line that begins with ! is a command of the shell; in C write (!%.*s)\n",
                                     (int)(t->end - (size_t)(word - parsed->source)), word);
            print_error(s, said);
            free(said);
        }
        free(program);
        free(key);
    }
}

result run_part(session *s, const char *code, const char *name, const part *which)
{
    build b = {.s = s};
    result r = {0};
    s->serial++;
    b.cell = parsed_cell_from(code, name, s->serial, s->prefix, s->symbols, which->from);
    begin_part(&b, which);
    hint_at_shell(s, &b.cell);
    if (only_shell(&b.cell) && !ranks_chosen(s)) r = run_shell_lines(s, &b.cell);
    else if ((b.cell.split.count || b.cell.split.tokens.open_comment || b.cell.asked.count) && part_readable(&b, &r) &&
             analyse(&b, &r))
        r = b.staged ? run_in_stages(s, &b.cell, b.stage, name) : run_analysed(&b);
    build_free(&b);
    return r;
}

static void replace(char **code, char *other)
{
    if (!other) return;
    free(*code);
    *code = other;
}

/* The cell in a form that the splitter, which knows no preprocessor, can take apart. */
static char *straightened(session *s, const char *code, const char *name, origins *from)
{
    char *straight = copy_of(code);
    from->at_ranks = ranks_chosen(s);
    replace(&straight, plain_spelling(straight));
    replace(&straight, with_headers(straight, name, s->symbols, from));
    replace(&straight, without_conditionals(straight, s->prefix, s->symbols, &s->base_flags));
    replace(&straight, with_declarations_expanded(straight, s->symbols, s->folder));
    return straight;
}

result run_shown(session *s, const char *code, const char *shown, const char *name)
{
    char *renamed = strcmp(name, "Out") ? outs_named(s, code, run_c) : NULL;
    if (renamed) code = renamed;
    s->sources = need_grown(s->sources, s->source_count, &s->source_capacity, sizeof *s->sources);
    s->sources[s->source_count++] = (source){.name = copy_of(name), .text = copy_of(shown), .serial = s->serial + 1};
    const char *zero = strchr(code, 1);
    if (zero) {
        unsigned line = line_number(code, (size_t)(zero - code));
        free(renamed);
        return error_result("CompileError", "%s:%u: there is a zero byte in the cell", name, line);
    }
    origins from = {0};
    char *straight = straightened(s, code, name, &from);
    journal_code(&s->journal, straight);
    result r = run_part(s, straight, name, &(part){.from = from.count ? &from : NULL});
    origins_free(&from);
    free(straight);
    free(renamed);
    return r;
}

result run_c(session *s, const char *code, const char *name)
{
    return run_shown(s, code, code, name);
}
