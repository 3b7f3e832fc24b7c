#define _GNU_SOURCE
#include "cells/diagnose.h"
#include "cells/nearest.h"

#include <stdlib.h>
#include <string.h>

#define RED     "\033[1;31m"
#define MAGENTA "\033[1;35m"
#define CYAN    "\033[1;36m"
#define GREEN   "\033[1;32m"
#define BOLD    "\033[1m"
#define PLAIN   "\033[0m"

typedef struct renderer {
    CXTranslationUnit unit;
    const char *cell_name;
    source_line line;
    void *closure;
    const symbols *session;
    names seen;
    diagnosis out;
} renderer;

typedef struct place {
    char *name;
    unsigned line, column;
} place;

/* Where the user wrote it: of something in a macro's argument, the argument's place, not the macro's. Lines are
 * counted from where the outermost macro's name stands, which is the only place whose #line libclang tells. */
static place place_of(CXSourceLocation location)
{
    CXString name;
    place p = {0};
    unsigned written, called;
    clang_getFileLocation(location, NULL, &written, &p.column, NULL);
    clang_getExpansionLocation(location, NULL, &called, NULL, NULL);
    clang_getPresumedLocation(location, &name, &p.line, NULL);
    p.line += written - called;
    p.name = clang_text(name);
    return p;
}

static void cut(char *from, const char *to)
{
    memmove(from, to, strlen(to) + 1);
}

/* 'typeof (x)' (aka 'int') is how the wrapping spells 'int': write that. */
static void drop_wrapping(char *message)
{
    char *found = message;
    while ((found = strstr(found, "'typeof (")) || (found = strstr(message, "'__typeof"))) {
        char *close = strchr(found + 1, '\'');
        if (!close || strncmp(close, "' (aka '", 8)) break;
        char *end = strchr(close + 8, '\'');
        if (!end || end[1] != ')') break;
        memmove(end + 1, end + 2, strlen(end + 2) + 1);
        cut(found, close + 7);
        found++;
    }
}

static void add_caret(renderer *r, CXDiagnostic d, const place *at, const char *source)
{
    size_t width = strlen(source);
    char *marks = need(malloc(width + 2));
    memset(marks, ' ', width + 1);
    marks[width + 1] = 0;
    for (size_t i = 0; i < width; i++) marks[i] = source[i] == '\t' ? '\t' : ' ';
    for (unsigned i = 0; i < clang_getDiagnosticNumRanges(d); i++) {
        CXSourceRange range = clang_getDiagnosticRange(d, i);
        place begin = place_of(clang_getRangeStart(range)), end = place_of(clang_getRangeEnd(range));
        bool here = begin.line == at->line && end.line == at->line && !strcmp(begin.name, at->name);
        for (size_t c = begin.column; here && c < end.column && c <= width; c++) marks[c - 1] = '~';
        free(begin.name);
        free(end.name);
    }
    if (at->column >= 1 && at->column <= width + 1) marks[at->column - 1] = '^';
    size_t last = strlen(marks);
    while (last && (marks[last - 1] == ' ' || marks[last - 1] == '\t')) last--;
    marks[last] = 0;
    text_addf(&r->out.rendered, "%5u | %s\n      | " GREEN "%s" PLAIN "\n", at->line, source, marks);
    free(marks);
}

static void add_fixits(renderer *r, CXDiagnostic d, const place *at)
{
    for (unsigned i = 0; i < clang_getDiagnosticNumFixIts(d); i++) {
        CXSourceRange range;
        char *insert = clang_text(clang_getDiagnosticFixIt(d, i, &range));
        place begin = place_of(clang_getRangeStart(range));
        if (*insert && begin.line == at->line && begin.column && !strchr(insert, '\n')) {
            text_addf(&r->out.rendered, "      | %*s" GREEN "%s" PLAIN "\n", (int)begin.column - 1, "", insert);
        }
        free(begin.name);
        free(insert);
    }
}

static bool repeated(renderer *r, const char *line)
{
    if (names_have(&r->seen, line)) return true;
    names_add(&r->seen, line, strlen(line));
    return false;
}

static void count(renderer *r, enum CXDiagnosticSeverity severity, const char *plain)
{
    if (severity >= CXDiagnostic_Error) {
        if (!r->out.first_error) r->out.first_error = copy_of(plain);
        r->out.errors++;
    } else if (severity == CXDiagnostic_Warning) {
        r->out.warnings++;
    }
}

static void render(renderer *r, CXDiagnostic d);

static void render_notes(renderer *r, CXDiagnostic d)
{
    CXDiagnosticSet notes = clang_getChildDiagnostics(d);
    for (unsigned i = 0; i < clang_getNumDiagnosticsInSet(notes); i++) render(r, clang_getDiagnosticInSet(notes, i));
}

static char *message_of(renderer *r, CXDiagnostic d)
{
    char *spelled = clang_text(clang_getDiagnosticSpelling(d));
    drop_wrapping(spelled);
    char *message = plainer(r->unit, clang_getDiagnosticLocation(d), spelled, r->session);
    free(spelled);
    return message;
}

static void render(renderer *r, CXDiagnostic d)
{
    static const char *const words[] = {"", CYAN "note: ", MAGENTA "warning: ", RED "error: ", RED "error: "};
    enum CXDiagnosticSeverity severity = clang_getDiagnosticSeverity(d);
    if (severity == CXDiagnostic_Ignored) return;
    place at = place_of(clang_getDiagnosticLocation(d));
    char *message = message_of(r, d);
    bool internal = !strcmp(at.name, "<kolo>") || strstr(message, "kolo_value") || strstr(message, "kolo_probe");
    bool expansion = !strncmp(message, "expanded from macro", 19) && strncmp(at.name, "In[", 3);
    if (expansion || (internal && severity < CXDiagnostic_Error)) goto done;
    char *where = internal || !*at.name ? copy_of(r->cell_name) : format_text("%s:%u:%u", at.name, at.line, at.column);
    char *plain = format_text("%s: %s", where, message);
    if (!repeated(r, plain)) {
        count(r, severity, plain);
        text_addf(&r->out.rendered, BOLD "%s: " PLAIN "%s" PLAIN BOLD "%s" PLAIN "\n", where, words[severity], message);
        char *source = internal ? NULL : r->line(r->closure, at.name, at.line);
        if (source) {
            add_caret(r, d, &at, source);
            add_fixits(r, d, &at);
        }
        free(source);
        render_notes(r, d);
    }
    free(plain);
    free(where);
done:
    free(message);
    free(at.name);
}

diagnosis diagnose(const analyser *a, const char *cell_name, source_line line, void *closure, const symbols *session)
{
    renderer r = {.unit = a->unit, .cell_name = cell_name, .line = line, .closure = closure, .session = session};
    unsigned total = clang_getNumDiagnostics(a->unit);
    for (unsigned i = 0; i < total; i++) {
        CXDiagnostic d = clang_getDiagnostic(a->unit, i);
        render(&r, d);
        clang_disposeDiagnostic(d);
    }
    names_free(&r.seen);
    return r.out;
}

void diagnosis_free(diagnosis *d)
{
    text_free(&d->rendered);
    free(d->first_error);
    *d = (diagnosis){0};
}
