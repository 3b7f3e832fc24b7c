/* Calls of libkolo's macros with other arguments than they take. clang's own messages are about the macros' insides.
 * Read first: diagnostic.h. */
#define _GNU_SOURCE
#include "diagnostics/library_calls.h"
#include "diagnostics/hints.h"

#include <stdlib.h>
#include <string.h>

bool library_place(const place *p)
{
    const char *name = strrchr(p->name, '/');
    return name && (!strcmp(name, "/kolo.h") || (!strncmp(name, "/kolo_", 6) && strstr(name, ".h")));
}

/* "(values, count)" of a macro that is defined in the file of this location. NULL: it is not there. */
static char *parameters_of(CXTranslationUnit unit, CXSourceLocation location, const char *macro)
{
    CXFile file;
    size_t size = 0;
    clang_getFileLocation(location, &file, NULL, NULL, NULL);
    const char *content = file ? clang_getFileContents(unit, file, &size) : NULL;
    char *begin = format_text("#define %s(", macro);
    const char *found = content ? memmem(content, size, begin, strlen(begin)) : NULL;
    const char *open = found ? found + strlen(begin) - 1 : NULL;
    const char *close = open ? memchr(open, ')', size - (size_t)(open - content)) : NULL;
    free(begin);
    return close ? copy_of_bytes(open, (size_t)(close - open) + 1) : NULL;
}

/* The macro of libkolo's that the diagnostic's notes name behind `words`, and what it takes. */
static char *macro_in_notes(const diagnostic *d, const analyser *a, const char *words, char **takes)
{
    CXDiagnosticSet notes = clang_getChildDiagnostics(d->clang);
    char *macro = NULL;
    for (unsigned i = 0; i < clang_getNumDiagnosticsInSet(notes) && !macro; i++) {
        CXSourceLocation location = clang_getDiagnosticLocation(clang_getDiagnosticInSet(notes, i));
        char *message = clang_text(clang_getDiagnosticSpelling(clang_getDiagnosticInSet(notes, i)));
        place at = place_of(location);
        if (!strncmp(message, words, strlen(words)) && library_place(&at)) macro = quoted(message, 1);
        if (macro) *takes = parameters_of(a->unit, location, macro);
        if (macro && !*takes) {
            free(macro);
            macro = NULL;
        }
        place_free(&at);
        free(message);
    }
    return macro;
}

/* Does the cell say `macro()` there? */
static bool empty_call(const diagnostic *d, const char *source, const char *macro)
{
    const char *at = source + offset_in(source, d->at.line, d->at.column);
    if (strncmp(at, macro, strlen(macro)) != 0) return false;
    at += strlen(macro);
    at += strspn(at, " \t\n");
    if (*at++ != '(') return false;
    return at[strspn(at, " \t\n")] == ')';
}

/* The macro's name is undeclared then, too: that stands at its place. */
static void take_place(diagnostics *all, diagnostic *d, const char *macro)
{
    char *name = format_text("'%s'", macro);
    for (size_t i = 0; i < all->count; i++) {
        diagnostic *other = &all->items[i];
        bool same = other != d && other->clang && other->at.line == d->at.line && !strcmp(other->at.name, d->at.name) &&
                    strstr(other->message, name);
        if (!same) continue;
        d->at.column = other->at.column;
        other->hidden = true;
    }
    free(name);
}

static void mend(diagnostics *all, diagnostic *d, const analyser *a, const char *source)
{
    bool counted = strstr(d->message, "provided to function-like macro invocation") != NULL;
    char *takes = NULL;
    char *macro = macro_in_notes(d, a, counted ? "macro '" : "expanded from macro '", &takes);
    if (macro && (counted || empty_call(d, source, macro))) {
        free(d->message);
        d->message = format_text("%s takes %s; ?%s says more", macro, strcmp(takes, "()") ? takes : "nothing", macro);
        if (counted) take_place(all, d, macro);
    }
    free(macro);
    free(takes);
}

void mend_library_calls(diagnostics *all, const analyser *a, const cell *c)
{
    for (size_t i = 0; i < all->count; i++) {
        diagnostic *d = &all->items[i];
        if (d->clang && !d->hidden && d->severity >= CXDiagnostic_Error) mend(all, d, a, c->source);
    }
}
