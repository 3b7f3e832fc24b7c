/* Analyses a cell with libclang before anything is compiled: its diagnostics, the types of what it defines, and its
 * effect on the functions and variables of earlier cells. Read first: build.h, cells/dependents.h. */
#define _GNU_SOURCE
#include "build.h"
#include "cells/declared.h"
#include "cells/dependents.h"
#include "print.h"
#include "sources.h"
#include "worker_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACEHOLDER = 1000 }; /* elements of an array of run-time size, while the cell is only analysed */

static void parse(build *b)
{
    unit u = unit_of(&b->cell, b->s->symbols, VALUE_PROBE, NULL);
    analyser_parse(&b->s->analyser, u.source.data, u.source.size);
    b->mark = u.mark;
    b->cell.value_offset = u.value_offset;
    if (getenv("KOLO_KERNEL_TRACE")) fprintf(stderr, "----\n%s\n----\n", u.source.data);
    text_free(&u.source);
}

/* Each parse of a large cell takes its time: an interrupt is looked for between them. */
static bool stopped(build *b)
{
    worker_take_wake(&b->s->worker);
    return b->s->worker.interrupted > 0;
}

static bool interrupted(build *b, result *r)
{
    if (!stopped(b)) return false;
    *r = error_result("KeyboardInterrupt", "interrupted while it was read");
    return true;
}

static diagnosis diagnosis_of(build *b)
{
    return diagnose(&b->s->analyser, b->cell.name, source_line_of, fate_of, b->s, b->s->symbols);
}

/* The number of elements that initialisers give to `[]`. True when there was one to find. */
static bool size_open_arrays(build *b)
{
    bool any = false;
    for (size_t i = 0; i < b->cell.count; i++) {
        parsed_item *item = &b->cell.items[i];
        if (!item->open_array || item->open_size) continue;
        CXType type = clang_getCanonicalType(clang_getCursorType(analyser_cursor(&b->s->analyser, item->init_offset)));
        long long count = clang_getArraySize(type);
        item->open_size = count > 0 ? (size_t)count : 0;
        any |= count > 0;
    }
    return any;
}

/* A const whose initialiser turns out to be no constant is a variable like others. */
static bool give_up_constants(build *b)
{
    bool any = false;
    for (size_t i = 0; i < b->cell.count; i++) {
        parsed_item *item = &b->cell.items[i];
        if (!item->constant) continue;
        char *value = constant_of(analyser_cursor(&b->s->analyser, item->offset));
        if (!value) any = true;
        item->constant = value != NULL;
        free(value);
    }
    return any;
}

static bool is_token(const parsed_cell *parsed, size_t at, const char *spelling)
{
    return token_is(parsed->source, &parsed->split.tokens.items[at], spelling);
}

static bool bound_known(const parsed_cell *parsed, size_t bracket)
{
    for (size_t i = 0; i < parsed->bound_count; i++) {
        if (parsed->bounds[i].bracket == bracket) return true;
    }
    return false;
}

/* Each `[size]` of a declarator, those of its parameters not. */
static void take_bounds(parsed_cell *parsed, const declarator *one)
{
    const token *t = parsed->split.tokens.items;
    for (size_t i = one->first; i < one->last; i++) {
        bool parameters = is_token(parsed, i, "(") && i > one->first &&
                          (t[i - 1].kind == TOKEN_NAME || is_token(parsed, i - 1, ")") || is_token(parsed, i - 1, "]"));
        bool size = is_token(parsed, i, "[") && !is_token(parsed, i + 1, "]");
        if (size && !bound_known(parsed, t[i].begin)) {
            parsed->bounds =
                need_grown(parsed->bounds, parsed->bound_count, &parsed->bound_capacity, sizeof *parsed->bounds);
            parsed->bounds[parsed->bound_count++] = (bound){t[i].begin, PLACEHOLDER, false};
        }
        if (parameters || size) i = after_brackets(parsed->source, t, i, one->last) - 1;
    }
}

/* The piece of the cell that a place of libclang's lies in, or none. */
static size_t piece_at(const parsed_cell *parsed, CXSourceLocation location)
{
    CXString file;
    unsigned line, column;
    clang_getPresumedLocation(location, &file, &line, &column);
    char *place = format_text("#line %u \"%s\"\n", line, clang_getCString(file));
    clang_disposeString(file);
    size_t found = none;
    for (size_t i = 0; found == none && i < parsed->split.count; i++) {
        const piece *p = &parsed->split.pieces[i];
        for (size_t k = p->first; k < p->last; k++) {
            const token *t = &parsed->split.tokens.items[k];
            size_t start = line_start(parsed->source, t->begin);
            if (t->begin - start >= column || column > t->end - start) continue;
            char *own = line_directive(parsed, t->line);
            if (!strcmp(own, place)) found = i;
            free(own);
        }
    }
    free(place);
    return found;
}

static bool takes_run_time_size(const char *said)
{
    return !strncmp(said, "variable length array declaration not allowed at file scope", 59) ||
           !strncmp(said, "variably modified type declaration not allowed at file scope", 60);
}

/* Arrays of run-time size: C allows none at file scope, where a cell's variables are. The cell runs in stages. */
static bool find_run_time_sizes(build *b)
{
    parsed_cell *parsed = &b->cell;
    bool any = false;
    CXTranslationUnit seen = b->s->analyser.unit;
    for (unsigned i = 0; i < clang_getNumDiagnostics(seen); i++) {
        CXDiagnostic one = clang_getDiagnostic(seen, i);
        char *said = clang_text(clang_getDiagnosticSpelling(one));
        size_t at = takes_run_time_size(said) ? piece_at(parsed, clang_getDiagnosticLocation(one)) : none;
        free(said);
        clang_disposeDiagnostic(one);
        if (at == none) continue;
        declaration taken = declaration_of(&parsed->split, &parsed->split.pieces[at]);
        size_t before = parsed->bound_count;
        for (size_t k = 0; k < taken.count; k++) take_bounds(parsed, &taken.declarators[k]);
        declaration_free(&taken);
        if (parsed->bound_count == before) continue;
        if (!b->staged || at < b->stage) b->stage = at;
        b->staged = any = true;
    }
    return any;
}

/* Constants of an enum that macros have written. True when the session has one of another cell's. */
static bool take_constants(build *b)
{
    bool any = false;
    for (size_t i = 0; i < b->cell.count; i++) {
        parsed_item *item = &b->cell.items[i];
        if (item->what->kind != ENTITY_TYPE || !item->offset) continue;
        names *keys = &item->what->defines;
        size_t before = keys->count;
        add_enum_constants(analyser_cursor(&b->s->analyser, item->offset), keys);
        for (size_t k = before; k < keys->count; k++) any |= symbols_find(b->s->symbols, keys->items[k]) != NULL;
    }
    return any;
}

/* `struct line l = {5, "abcde"}` with an open array at its end: such a variable is the compiler's own. */
static bool find_flexible(build *b)
{
    bool any = false;
    CXTranslationUnit seen = b->s->analyser.unit;
    for (unsigned i = 0; i < clang_getNumDiagnostics(seen); i++) {
        CXDiagnostic one = clang_getDiagnostic(seen, i);
        char *said = clang_text(clang_getDiagnosticSpelling(one));
        bool flexible = !strcmp(said, "initialization of flexible array member is not allowed");
        size_t at = flexible ? piece_at(&b->cell, clang_getDiagnosticLocation(one)) : none;
        for (size_t k = 0; at != none && k < b->cell.count; k++) {
            parsed_item *item = &b->cell.items[k];
            bool here = item->piece == at && item->what->kind == ENTITY_VARIABLE && !item->what->natural;
            item->what->natural |= here;
            any |= here;
        }
        free(said);
        clang_disposeDiagnostic(one);
    }
    return any;
}

/* Adds to the unit what the first parse has shown to be missing. True: parse again. */
static bool mend(build *b)
{
    bool again = size_open_arrays(b);
    again |= take_constants(b);
    if (!analyser_has_errors(&b->s->analyser)) return again;
    again |= give_up_constants(b);
    again |= find_run_time_sizes(b);
    again |= find_flexible(b);
    return again;
}

static size_t alignment_of(const build *b, const parsed_item *item, size_t of_type)
{
    char *asked = item->align_offset ? constant_of(analyser_cursor(&b->s->analyser, item->align_offset)) : NULL;
    size_t align = asked ? strtoul(asked, NULL, 10) : 0;
    free(asked);
    return align > of_type ? align : of_type;
}

static void take_facts(build *b, parsed_item *item, type_facts *facts)
{
    entity *e = item->what;
    free(e->type);
    e->type = facts->spelling;
    free(e->plain);
    e->plain = facts->plain;
    e->is_const = facts->is_const;
    e->is_volatile = facts->is_volatile;
    e->is_atomic = facts->is_atomic;
    e->size = facts->size;
    e->align = alignment_of(b, item, facts->align);
    e->layout = facts->layout;
    e->written = facts->writable;
    item->is_array = facts->is_array;
    if (facts->is_function && e->kind == ENTITY_VARIABLE) { /* declared through a typedef */
        e->kind = ENTITY_FUNCTION;
        e->defined = false;
    }
    free(e->constant);
    e->constant = item->constant && e->written ? constant_of(analyser_cursor(&b->s->analyser, item->offset)) : NULL;
    if (!e->constant) item->constant = false;
    token_list list = tokens_of(e->type);
    names more = {0};
    used_names(e->type, list.items, 0, list.count, &more);
    for (size_t i = 0; i < more.count; i++) {
        if (!names_have(&e->uses, more.items[i])) names_add(&e->uses, more.items[i]);
    }
    names_free(&more);
    tokens_free(&list);
}

static void take_types(build *b)
{
    for (size_t i = 0; i < b->cell.count; i++) {
        parsed_item *item = &b->cell.items[i];
        type_facts facts;
        bool typed = item->what->name && item->what->kind != ENTITY_MACRO;
        if (typed && analyser_type(&b->s->analyser, item->offset, &facts)) take_facts(b, item, &facts);
    }
}

/* Later cells see a variable by its type, not by the text that declared it, since the names in that text may change.
 * The same holds for functions whose text is no declaration: those with an alias, or without types of parameters. */
void declare_items(build *b)
{
    for (size_t i = 0; i < b->cell.count; i++) {
        entity *e = b->cell.items[i].what;
        if (!e || !e->written || !e->type) continue;
        size_t size = strlen(e->type);
        bool function = e->kind == ENTITY_FUNCTION && e->defined &&
                        (b->cell.items[i].declarator != none || (size > 2 && !strcmp(e->type + size - 2, "()")));
        if (!function && e->kind != ENTITY_VARIABLE) continue;
        char *plain = declared(e->type, e->name);
        free(e->declaration);
        e->declaration = function ? format_text("%s;\n", plain) : variable_declaration(e);
        free(plain);
    }
}

static value_form form_of(const value_facts *value, const char **shower)
{
    CXType plain = clang_getCanonicalType(value->type);
    bool by_value;
    *shower = shower_of(plain, &by_value);
    if (*shower) return by_value ? VALUE_RECIPE : VALUE_OBJECT;
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

static void add_stale(build *b, entity *function, char *why)
{
    b->stale = need_grown(b->stale, b->stale_count, &b->stale_capacity, sizeof *b->stale);
    b->stale[b->stale_count++] = (stale_function){function, why};
}

static void add_missing(entity *e, void *closure)
{
    build *b = closure;
    if (e->kind != ENTITY_VARIABLE || e->link || e->defined || e->mark != b->mark) return;
    if (!names_have(&b->missing, e->name) && !library_has(b->s, e->name)) names_add(&b->missing, e->name);
}

static bool defined_in_cell(const build *b, const char *name)
{
    for (size_t i = 0; i < b->cell.count; i++) {
        const entity *e = b->cell.items[i].what;
        if (e->kind == ENTITY_VARIABLE && e->defined && !strcmp(e->name, name)) return true;
    }
    return false;
}

/* `extern int later;` that nothing defines yet: functions that use it cannot run before it is there. False: the cell's
 * own code needs it. */
static bool find_missing(build *b, result *r)
{
    if (b->s->compiler.link_flags.count) return true; /* the user's libraries may define it: the loader knows */
    for (size_t i = 0; i < b->cell.count; i++) {
        entity *e = b->cell.items[i].what;
        entity *old = e->name ? symbols_find_bytes(b->s->symbols, 'o', e->name, strlen(e->name)) : NULL;
        bool ours = (old && old->link) || (e->name && defined_in_cell(b, e->name));
        e->mark = b->mark;
        if (e->kind == ENTITY_VARIABLE && !ours) add_missing(e, b);
    }
    symbols_each(b->s->symbols, add_missing, b);
    for (size_t i = 0; i < b->missing.count; i++) {
        const char *name = b->missing.items[i];
        if (analyser_refers(&b->s->analyser, b->cell.function, name)) {
            *r = error_result("LinkError",
                              "'%s' is declared but not defined, neither in a cell nor in a loaded library "
                              "(%%ldflags -lNAME loads one)",
                              name);
            return false;
        }
        for (size_t k = 0; k < b->cell.count; k++) {
            entity *e = b->cell.items[k].what;
            if (e->kind == ENTITY_FUNCTION && e->defined && analyser_refers(&b->s->analyser, e->name, name))
                add_stale(b, e, format_text("it uses '%s', which is declared, and nothing defines it yet", name));
        }
    }
    return true;
}

static void set_again(build *b, entity **functions, size_t count)
{
    free(b->cell.again);
    b->cell.again = functions;
    b->cell.again_count = count;
}

static entity **list_of(entity *const *functions, size_t count)
{
    entity **list = need_zeroed((count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) list[i] = functions[i];
    return list;
}

/* Why the cell does not compile together with this earlier function; NULL when it does. */
static char *why_stale(build *b, entity *function)
{
    set_again(b, list_of(&function, 1), 1);
    parse(b);
    diagnosis found = diagnosis_of(b);
    char *why = found.first_error ? copy_of(found.first_error) : NULL;
    diagnosis_free(&found);
    return why;
}

/* Adds the name that the function uses and the cell has changed, where the reason does not have it. */
static char *with_cause(const build *b, const entity *function, char *why)
{
    for (size_t i = 0; i < b->cell.count; i++) {
        const entity *e = b->cell.items[i].what;
        const entity *old = e->defines.count ? symbols_find(b->s->symbols, e->defines.items[0]) : NULL;
        const char *name = e->defines.count ? e->defines.items[0] + 2 : "";
        char *named = format_text("'%s'", name);
        bool cause = old && names_have(&function->uses, name) && !strstr(why, named);
        free(named);
        if (!cause) continue;
        char *longer = format_text("%s ('%s' has changed)", why, name);
        free(why);
        return longer;
    }
    return why;
}

static void report_stale(build *b, entity *function, char *why)
{
    why = with_cause(b, function, why);
    bool known = function->unfit && !strcmp(function->unfit, why);
    char *note =
        format_text("%s() no longer compiles, and calling it is an error until it does: %s\n", function->name, why);
    if (!known) text_add(&b->notes, note);
    free(note);
    add_stale(b, function, why);
}

/* Tries each function by itself: those that compile are compiled again beside the cell. */
static void sort_functions(build *b, entity *const *functions, size_t count)
{
    entity **fitting = need_zeroed((count + 1) * sizeof *fitting);
    size_t fitting_count = 0;
    for (size_t i = 0; i < count; i++) {
        char *why = why_stale(b, functions[i]);
        if (why) report_stale(b, functions[i], why);
        else fitting[fitting_count++] = functions[i];
    }
    set_again(b, fitting, fitting_count);
    parse(b);
}

/* Drops variables whose struct has changed, and tells the user. */
static bool drop_changed_variables(build *b, names *more)
{
    size_t before = more->count;
    for (size_t i = 0; i < b->cell.recheck_count; i++) {
        entity *e = b->cell.recheck[i];
        type_facts facts = {0};
        bool known = b->cell.recheck_offset[i] && analyser_type(&b->s->analyser, b->cell.recheck_offset[i], &facts);
        free(facts.spelling);
        free(facts.plain);
        if (!known || facts.layout == e->layout) continue;
        char *note =
            format_text("the type of '%s' has changed: '%s' is gone until its cell runs again\n", e->name, e->name);
        text_add(&b->notes, note);
        free(note);
        names_add(&b->dropped, e->defines.items[0]);
        names_add(more, e->name);
        e->gone = true;
    }
    return more->count > before;
}

/* Says that a pointer to a struct that has changed may point to objects of the old struct. */
static void name_old_objects(build *b, const entity *variable)
{
    names words = {0};
    token_list list = tokens_of(variable->type);
    used_names(variable->type, list.items, 0, list.count, &words);
    for (size_t i = 0; i < b->cell.count; i++) {
        const entity *e = b->cell.items[i].what;
        const entity *old =
            e->kind == ENTITY_TYPE && e->defines.count ? symbols_find(b->s->symbols, e->defines.items[0]) : NULL;
        if (!old || !old->shown || !strchr(old->shown, '{') || !strcmp(old->shown, e->shown) ||
            !names_have(&words, e->defines.items[0] + 2))
            continue;
        text_addf(&b->notes, "'%s' may point to objects of the old '%s'\n", variable->name, e->defines.items[0] + 2);
    }
    names_free(&words);
    tokens_free(&list);
}

/* A pointer that was set from a variable which is replaced now keeps pointing to the old one. */
static void name_pointers(build *b, entity *const *variables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!variables[i]->type || !strchr(variables[i]->type, '*')) continue;
        name_old_objects(b, variables[i]);
        for (size_t k = 0; k < b->cell.count; k++) {
            const entity *e = b->cell.items[k].what;
            if (!variable_changes(e, b->s->symbols) || !names_have(&variables[i]->uses, e->name)) continue;
            char *note =
                format_text("'%s' was set from the old '%s', and may still point to it\n", variables[i]->name, e->name);
            text_add(&b->notes, note);
            free(note);
        }
    }
}

static bool fail(diagnosis *d, result *r)
{
    *r = error_result("CompileError", "%s", d->first_error);
    text_clear(&r->traceback);
    text_add_bytes(&r->traceback, d->rendered.data, d->rendered.size - 1);
    return false;
}

static void look_at(build *b, const dependents *found)
{
    parsed_cell *parsed = &b->cell;
    free(parsed->recheck);
    free(parsed->recheck_offset);
    parsed->recheck = list_of(found->variables, found->variable_count);
    parsed->recheck_count = found->variable_count;
    parsed->recheck_offset = need_zeroed((found->variable_count + 1) * sizeof *parsed->recheck_offset);
    set_again(b, list_of(found->functions, found->function_count), found->function_count);
    if (found->function_count || found->variable_count || b->dropped.count) parse(b);
}

/* Does the cell itself use a variable that it makes meaningless? */
static bool stands_alone(build *b, result *r)
{
    set_again(b, NULL, 0);
    parse(b);
    diagnosis d = diagnosis_of(b);
    bool good = d.errors == 0 || fail(&d, r);
    diagnosis_free(&d);
    return good;
}

/* Compiles earlier functions that this cell changes together with it, and reports those that no longer compile. That
 * takes one more parse, and more where some do not compile. */
static bool take_dependents(build *b, bool *again, result *r)
{
    names more = {0};
    bool gone, good = true;
    do {
        dependents found = dependents_of(&b->cell, b->s->symbols, &more);
        *again |= found.function_count || found.variable_count;
        look_at(b, &found);
        gone = drop_changed_variables(b, &more);
        b->cell.recheck_count = 0;
        if (!gone) {
            name_pointers(b, found.variables, found.variable_count);
            bool doubt = (found.function_count || b->dropped.count) && analyser_has_errors(&b->s->analyser);
            good = !doubt || !b->dropped.count || stands_alone(b, r);
            if (doubt && good) sort_functions(b, found.functions, found.function_count);
        }
        dependents_free(&found);
    } while (gone);
    names_free(&more);
    return good;
}

/* A large array is initialised from static memory, unless its initialiser is no constant. */
static bool check_large(build *b)
{
    bool any = false;
    for (size_t i = 0; i < b->cell.count; i++) any |= b->cell.items[i].has_value && b->cell.items[i].what->size > 65536;
    if (!any) return false;
    parse(b);
    bool errors = analyser_has_errors(&b->s->analyser);
    for (size_t i = 0; errors && i < b->cell.count; i++) b->cell.items[i].computed = true;
    if (errors) parse(b);
    return true;
}

/* The rest of the analysis, of a cell without errors. */
static bool take(build *b, const char *warnings, result *r)
{
    take_types(b);
    if (!find_missing(b, r)) return false;
    if (interrupted(b, r)) return false;
    bool again = check_large(b);
    if (interrupted(b, r) || !take_dependents(b, &again, r)) return false;
    if (again) take_types(b);
    declare_items(b);
    if (b->cell.has_value) b->value = analyser_value(&b->s->analyser, b->cell.value_offset);
    b->form = b->cell.has_value ? form_of(&b->value, &b->cell.shower) : VALUE_PROBE;
    if (warnings && !b->quiet) print_error(b->s, warnings);
    return true;
}

/* `int SQ(int x)` where an earlier cell has defined a macro SQ: the cell replaces it, as it would a function. */
static void undo_macros(build *b)
{
    if (!analyser_has_errors(&b->s->analyser) || !parsed_cell_undo_macros(&b->cell, b->s->symbols)) return;
    parse(b);
    for (int i = 0; i < 3 && mend(b); i++) parse(b);
    for (size_t i = 0; i < b->cell.undone.count; i++)
        text_addf(&b->notes, "the macro %s is gone: this cell defines something else of that name\n",
                  b->cell.undone.items[i]);
    if (!analyser_has_errors(&b->s->analyser)) return;
    names_free(&b->cell.undone);
    text_clear(&b->notes);
    parse(b);
}

bool analyse(build *b, result *r)
{
    keep_types(b);
    parse(b);
    for (int i = 0; i < 3 && !stopped(b) && mend(b); i++) parse(b);
    if (interrupted(b, r)) return false;
    undo_macros(b);
    diagnosis d = diagnosis_of(b);
    bool good = d.errors == 0 ? b->staged || take(b, d.rendered.data, r) : fail(&d, r);
    if (good && b->staged && d.rendered.size) print_error(b->s, d.rendered.data);
    diagnosis_free(&d);
    return good;
}
