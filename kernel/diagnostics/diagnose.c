#define _GNU_SOURCE
#include "diagnostics/diagnose.h"
#include "diagnostics/excerpt.h"
#include "diagnostics/diagnostic.h"
#include "diagnostics/hints.h"
#include "diagnostics/library_calls.h"
#include "diagnostics/nearest.h"

#include <stdlib.h>
#include <string.h>

#include "colours.h"

enum { MOST = 20 }; /* errors, and as many warnings */

typedef struct renderer {
    analyser *analyser;
    const char *cell_name;
    source_line line;
    fate_finder fate_of;
    void *closure;
    const symbols *session;
    names hints; /* given so far */
    diagnosis out;
} renderer;

static char *column_text(const char *source, const place *at)
{
    size_t column = source ? characters_in(source, at->column - 1) + 1 : at->column;
    return format_text("%s:%u:%zu", at->name, at->line, column);
}

static void add_ranges(excerpt *e, CXDiagnostic d, const place *at)
{
    for (unsigned i = 0; i < clang_getDiagnosticNumRanges(d); i++) {
        CXSourceRange range = clang_getDiagnosticRange(d, i);
        place begin = place_of(clang_getRangeStart(range)), end = place_of(clang_getRangeEnd(range));
        bool here = begin.line <= at->line && end.line >= at->line && !strcmp(begin.name, at->name) && begin.column;
        size_t from = begin.line < at->line ? 0 : begin.column - 1;
        size_t to = end.line > at->line ? strlen(e->source) : end.column ? end.column - 1 : 0;
        if (here) excerpt_add_range(e, from, to);
        place_free(&begin);
        place_free(&end);
    }
}

static void add_insertions(excerpt *e, CXDiagnostic d, const place *at)
{
    for (unsigned i = 0; i < clang_getDiagnosticNumFixIts(d); i++) {
        CXSourceRange range;
        char *insert = clang_text(clang_getDiagnosticFixIt(d, i, &range));
        place begin = place_of(clang_getRangeStart(range));
        if (*insert && begin.line == at->line && begin.column && !strchr(insert, '\n'))
            excerpt_add_insertion(e, begin.column - 1, insert);
        place_free(&begin);
        free(insert);
    }
}

static void print_one(renderer *r, CXDiagnostic d, const place *at, enum CXDiagnosticSeverity severity,
                      const char *message, bool fix)
{
    static const char *const words[] = {"", CYAN "note: ", MAGENTA "warning: ", RED "error: ", RED "error: "};
    char *source = at->line ? r->line(r->closure, at->name, at->line) : NULL;
    char *where = at->line ? column_text(source, at) : copy_of(at->name);
    if (severity >= CXDiagnostic_Error && !r->out.first_error)
        r->out.first_error = format_text("%s: %s", where, message);
    text_addf(&r->out.rendered, BOLD "%s: " PLAIN "%s" PLAIN BOLD "%s" PLAIN "\n", where, words[severity], message);
    if (source) {
        excerpt e = {.line = at->line, .source = source, .caret = at->column ? at->column - 1 : 0};
        if (d) add_ranges(&e, d, at);
        if (d && fix) add_insertions(&e, d, at);
        excerpt_print(&e, &r->out.rendered);
        excerpt_free(&e);
    }
    free(source);
    free(where);
}

/* Notes that are of no use here: how to silence a warning, a repetition of the hint, the place of a word that was only
 * similar. */
static bool idle_note(const diagnostic *d, const char *message)
{
    if (strstr(message, "to silence this warning") || strstr(message, "or explicitly provide a declaration"))
        return true;
    if (!strncmp(message, "did you mean '", 14) || !strncmp(message, "in file included from", 21)) return true;
    if (!strstr(message, "declared here") || !strstr(d->message, "undeclared")) return false;
    char *name = quoted(message, 1);
    bool other = !name || !strstr(d->message, name);
    free(name);
    return other;
}

/* "'x' declared here", of a variable of an earlier cell, whose place the wrapping has lost: as its author wrote it. */
static void print_earlier(renderer *r, const char *message)
{
    char *name = strstr(message, "declared") ? quoted(message, 1) : NULL;
    entity *e = name ? symbols_find_bytes(r->session, 'o', name, strlen(name)) : NULL;
    if (e && e->shown)
        text_addf(&r->out.rendered, CYAN "note: " PLAIN BOLD "%s" PLAIN ", in an earlier cell: %s\n", message,
                  e->shown);
    free(name);
}

/* "'x' declared here" of a line that has no x: the place of an earlier cell's variable, behind a header's lines. */
static bool misplaced(renderer *r, const char *message, const place *at)
{
    char *name = strstr(message, "declared here") ? quoted(message, 1) : NULL;
    bool known = name && symbols_find_bytes(r->session, 'o', name, strlen(name));
    char *source = known && at->line ? r->line(r->closure, at->name, at->line) : NULL;
    bool elsewhere = source && !strstr(source, name);
    free(source);
    free(name);
    return elsewhere;
}

static void print_notes(renderer *r, const diagnostic *d)
{
    CXDiagnosticSet notes = clang_getChildDiagnostics(d->clang);
    for (unsigned i = 0; i < clang_getNumDiagnosticsInSet(notes); i++) {
        CXDiagnostic note = clang_getDiagnosticInSet(notes, i);
        place at = place_of(clang_getDiagnosticLocation(note));
        char *spelled = clang_text(clang_getDiagnosticSpelling(note));
        char *message = plainer(r->analyser->unit, clang_getDiagnosticLocation(note), spelled, r->session);
        bool expansion = !strncmp(message, "expanded from macro", 19) && *at.name == '/';
        bool internal = internal_text(message) || internal_place(&at) || misplaced(r, message, &at);
        if (internal && !idle_note(d, message)) print_earlier(r, message);
        if (!expansion && !internal && !library_place(&at) && *at.name && !idle_note(d, message))
            print_one(r, note, &at, CXDiagnostic_Note, message, true);
        free(message);
        free(spelled);
        place_free(&at);
    }
}

/* The line that defines the macro from whose text the diagnostic comes; NULL when it comes from none. */
static char *macro_line(renderer *r, const diagnostic *d)
{
    CXDiagnosticSet notes = clang_getChildDiagnostics(d->clang);
    char *line = NULL;
    for (unsigned i = 0; i < clang_getNumDiagnosticsInSet(notes) && !line; i++) {
        CXDiagnostic note = clang_getDiagnosticInSet(notes, i);
        char *message = clang_text(clang_getDiagnosticSpelling(note));
        place at = place_of(clang_getDiagnosticLocation(note));
        if (!strncmp(message, "expanded from macro", 19)) line = r->line(r->closure, at.name, at.line);
        place_free(&at);
        free(message);
    }
    return line;
}

static char *find_hint(renderer *r, const diagnostic *d)
{
    char *source = r->line(r->closure, d->at.name, 0), *macro = macro_line(r, d);
    char *insert = copy_of("");
    if (clang_getDiagnosticNumFixIts(d->clang)) {
        free(insert);
        insert = clang_text(clang_getDiagnosticFixIt(d->clang, 0, NULL));
    }
    token_list tokens = tokens_of(source ? source : "");
    complaint c = {.message = d->message,
                   .insert = insert,
                   .source = source ? source : "",
                   .at = source ? offset_in(source, d->at.line, d->at.column) : 0,
                   .line = d->at.line,
                   .macro = macro,
                   .analyser = r->analyser,
                   .session = r->session,
                   .cell_name = r->cell_name,
                   .earlier = r->line,
                   .fate_of = r->fate_of,
                   .closure = r->closure,
                   .tokens = &tokens};
    while (c.here < tokens.count && tokens.items[c.here].end <= c.at) c.here++;
    char *hint = hint_for(&c);
    tokens_free(&tokens);
    free(insert);
    free(macro);
    free(source);
    return hint;
}

static void print_hint(renderer *r, const char *hint)
{
    if (!hint || names_have(&r->hints, hint)) return;
    names_add(&r->hints, hint);
    text_addf(&r->out.rendered, CYAN "hint: " PLAIN "%s\n", hint);
}

static void add_rest(renderer *r, unsigned count, const char *what)
{
    if (count > MOST)
        text_addf(&r->out.rendered, "… and %u more %s%s\n", count - MOST, what, count - MOST == 1 ? "" : "s");
}

diagnosis diagnose(analyser *a, const char *cell_name, source_line line, fate_finder fate_of, void *closure,
                   const symbols *session)
{
    renderer r = {.analyser = a,
                  .cell_name = cell_name,
                  .line = line,
                  .fate_of = fate_of,
                  .closure = closure,
                  .session = session};
    diagnostics all = diagnostics_of(a, cell_name, line, closure, session);
    for (size_t i = 0; i < all.count; i++) {
        const diagnostic *d = &all.items[i];
        bool error = d->severity >= CXDiagnostic_Error;
        if (d->hidden || (*d->message && (error ? r.out.errors++ : r.out.warnings++) >= MOST)) continue;
        if (*d->message) print_one(&r, d->clang, &d->at, d->severity, d->message, !d->other_meant);
        if (d->clang) print_notes(&r, d);
        char *hint = d->clang ? find_hint(&r, d) : copy_of(d->hint);
        print_hint(&r, hint);
        free(hint);
    }
    add_rest(&r, r.out.errors, "error");
    add_rest(&r, r.out.warnings, "warning");
    diagnostics_free(&all);
    names_free(&r.hints);
    return r.out;
}

void diagnosis_free(diagnosis *d)
{
    text_free(&d->rendered);
    free(d->first_error);
    *d = (diagnosis){0};
}
