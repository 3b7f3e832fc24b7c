#define _GNU_SOURCE
#include "diagnostics/distributed.h"
#include "diagnostics/diagnostic.h"
#include "diagnostics/hints.h"
#include "diagnostics/library_calls.h"
#include "diagnostics/lint.h"
#include "diagnostics/nearest.h"

#include <stdlib.h>
#include <string.h>

/* Lines are counted from where the outermost macro's name stands, which is the only place whose #line libclang tells.
 */
place place_of(CXSourceLocation location)
{
    CXString name;
    place p = {0};
    unsigned written, called;
    clang_getFileLocation(location, NULL, &written, &p.column, NULL);
    clang_getExpansionLocation(location, NULL, &called, NULL, NULL);
    clang_getPresumedLocation(location, &name, &p.line, NULL);
    p.line += written - called;
    p.name = clang_text(name);
    if (!strncmp(p.name, "./", 2)) memmove(p.name, p.name + 2, strlen(p.name + 2) + 1);
    return p;
}

void place_free(place *p)
{
    free(p->name);
    *p = (place){0};
}

static bool ends_with_cell(const char *name)
{
    size_t size = strlen(name);
    return size > 7 && !strcmp(name + size - 7, "/cell.c") && strstr(name, "/kolo-");
}

bool internal_place(const place *p)
{
    return !strcmp(p->name, "<kolo>") || ends_with_cell(p->name);
}

bool internal_text(const char *message)
{
    return strstr(message, "kolo_value") || strstr(message, "kolo_probe") || strstr(message, "kolo_cell_");
}

size_t offset_in(const char *source, unsigned line, unsigned column)
{
    size_t at = 0;
    for (; line > 1 && source[at]; line--) {
        at += strcspn(source + at, "\n");
        at += source[at] == '\n';
    }
    size_t size = strcspn(source + at, "\n"), in_line = column ? column - 1 : 0;
    return at + (in_line < size ? in_line : size);
}

/* 'typeof(x)' (aka 'int') is how the wrapping spells 'int': write that. */
static void drop_wrapping(char *message)
{
    for (char *also = message; (also = strstr(also, "' (aka '"));) {
        char *open = also;
        while (open > message && open[-1] != '\'') open--;
        char *end = strchr(also + 8, '\'');
        if (!end || end[1] != ')') return;
        bool wrapping = memmem(open, (size_t)(also - open), "typeof", 6) != NULL;
        if (!wrapping) {
            also = end;
            continue;
        }
        size_t size = (size_t)(end - also) - 8;
        memmove(open, also + 8, size + 1);               /* with its closing quote */
        memmove(open + size + 1, end + 2, strlen(end + 2) + 1); /* what stands behind the ')' */
        also = open + size;
    }
}

/* clang's guess at a function's name comes as a note: it belongs into the message, as for other names. */
static char *spelled_with_guess(CXDiagnostic one)
{
    char *spelled = clang_text(clang_getDiagnosticSpelling(one));
    drop_wrapping(spelled);
    CXDiagnosticSet notes = clang_getChildDiagnostics(one);
    for (unsigned i = 0; i < clang_getNumDiagnosticsInSet(notes) && strstr(spelled, "undeclared function"); i++) {
        char *note = clang_text(clang_getDiagnosticSpelling(clang_getDiagnosticInSet(notes, i)));
        if (!strncmp(note, "did you mean '", 14)) {
            char *longer = format_text("%.*s; %s", (int)strcspn(spelled, ";"), spelled, note);
            free(spelled);
            spelled = longer;
        }
        free(note);
    }
    return spelled;
}

/* Of a variable's size that is not known, clang points into the wrapping; the struct's declaration is in its note. */
static void mend_incomplete(diagnostic *d)
{
    const char *type = strstr(d->message, "incomplete type '");
    CXDiagnosticSet notes = clang_getChildDiagnostics(d->clang);
    if (!d->internal || !type || !clang_getNumDiagnosticsInSet(notes)) return;
    place_free(&d->at);
    d->at = place_of(clang_getDiagnosticLocation(clang_getDiagnosticInSet(notes, 0)));
    d->internal = internal_place(&d->at);
    char *message = format_text("variable has %s", type);
    free(d->message);
    d->message = message;
}

static diagnostic diagnostic_of(analyser *a, CXDiagnostic one, const char *cell_name, const symbols *session)
{
    diagnostic d = {.clang = one, .severity = clang_getDiagnosticSeverity(one)};
    d.at = place_of(clang_getDiagnosticLocation(one));
    char *spelled = spelled_with_guess(one);
    d.message = plainer(a->unit, clang_getDiagnosticLocation(one), spelled, session);
    const char *guess = strstr(spelled, "did you mean '");
    d.other_meant = guess && !strstr(d.message, guess);
    d.internal = internal_place(&d.at) || internal_text(d.message) || !*d.at.name;
    free(spelled);
    mend_incomplete(&d);
    if (d.internal) {
        place_free(&d.at);
        d.at = (place){.name = copy_of(cell_name)};
    }
    return d;
}

static bool is_error(const diagnostic *d)
{
    return d->severity >= CXDiagnostic_Error;
}

/* Is it an error of a single token, after which clang misreads the rest of the line? */
static bool lexical(const diagnostic *d)
{
    return strstr(d->message, "missing terminating '") || strstr(d->message, "<U+") ||
           strstr(d->message, "invalid suffix") || strstr(d->message, "invalid digit") || of_other_language(d->message);
}

static bool same_line(const diagnostic *a, const diagnostic *b)
{
    return a->at.line == b->at.line && !strcmp(a->at.name, b->at.name);
}

/* The same words: of an undeclared name anywhere, of anything else in one line. */
static bool same_words(const diagnostic *a, const diagnostic *b)
{
    return !strcmp(a->message, b->message) && (strstr(a->message, "undeclared") || (is_error(a) && same_line(a, b)));
}

/* A name is unknown because its header was not found. */
static bool for_want_of_header(const diagnostic *d, const diagnostic *earlier)
{
    return strstr(earlier->message, "file not found") &&
           (strstr(d->message, "undeclared") || strstr(d->message, "unknown type"));
}

/* Does it only follow from, or repeat, one that was found before it? */
static bool follows(const diagnostic *d, const diagnostic *earlier)
{
    if (earlier->hidden || (is_error(d) != is_error(earlier) && !lexical(earlier))) return false;
    bool same_place = d->at.line && same_line(d, earlier) && d->at.column == earlier->at.column;
    return same_place || same_words(d, earlier) || for_want_of_header(d, earlier) ||
           (is_error(d) && lexical(earlier) && same_line(d, earlier));
}

static bool encloses(CXDiagnostic d, const place *at)
{
    bool found = false;
    for (unsigned i = 0; i < clang_getDiagnosticNumRanges(d) && !found; i++) {
        CXSourceRange range = clang_getDiagnosticRange(d, i);
        place begin = place_of(clang_getRangeStart(range)), end = place_of(clang_getRangeEnd(range));
        found = begin.line == at->line && begin.column <= at->column && at->column < end.column;
        place_free(&begin);
        place_free(&end);
    }
    return found;
}

/* clang takes the result of a function that it does not know for an int, and complains of that. */
static bool of_undeclared_call(const diagnostic *d, const diagnostic *other)
{
    return strstr(other->message, "call to undeclared function") && d->clang && strstr(d->message, "'int'") &&
           same_line(d, other) && encloses(d->clang, &other->at);
}

typedef struct inclusion {
    CXFile file;
    const char *cell_name;
    bool here;
} inclusion;

static void note_cell(CXFile file, CXSourceLocation *stack, unsigned depth, CXClientData closure)
{
    inclusion *in = closure;
    if (!depth || in->here || !clang_File_isEqual(file, in->file)) return;
    place at = place_of(stack[depth - 1]);
    in->here = !strcmp(at.name, in->cell_name);
    place_free(&at);
}

/* A header's warning belongs to the cell that includes it first: later cells only parse it again. */
static bool of_this_cell(const analyser *a, const diagnostic *d, const char *cell_name)
{
    if (!strncmp(d->at.name, "In[", 3)) return !strcmp(d->at.name, cell_name);
    if (clang_Location_isFromMainFile(clang_getDiagnosticLocation(d->clang))) return true; /* a header's text */
    inclusion in = {.cell_name = cell_name};
    clang_getFileLocation(clang_getDiagnosticLocation(d->clang), &in.file, NULL, NULL, NULL);
    if (in.file) clang_getInclusions(a->unit, note_cell, &in);
    return in.here;
}

/* `n;` at a cell's end silences the value. */
static bool silenced_value(const diagnostic *d, const cell *c)
{
    if (!strstr(d->message, "expression result unused") || !c->count) return false;
    const piece *last = &c->pieces[c->count - 1];
    if (last->kind != PIECE_STATEMENT) return false;
    size_t at = offset_in(c->source, d->at.line, d->at.column), begin = c->tokens.items[last->first].begin;
    static const char *const compound[] = {"{", "if", "for", "while", "do", "switch", NULL};
    for (const char *const *word = compound; *word; word++) {
        if (token_is(c->source, &c->tokens.items[last->first], *word)) return false;
    }
    return at >= begin;
}

/* Is something missing at the cell's very end, although no brace is open? Then clang has lost its way before. */
static bool lost_at_end(const diagnostic *d, const cell *c)
{
    if (strncmp(d->message, "expected ", 9) || !c->tokens.count) return false;
    size_t at = offset_in(c->source, d->at.line, d->at.column);
    if (at < c->tokens.items[c->tokens.count - 1].end) return false;
    long depth = 0;
    for (size_t i = 0; i < c->tokens.count; i++) {
        depth += token_is(c->source, &c->tokens.items[i], "{") - token_is(c->source, &c->tokens.items[i], "}");
    }
    return depth == 0;
}

static int by_line(const diagnostic *x, const diagnostic *y, const char *cell_name)
{
    bool here_x = !strcmp(x->at.name, cell_name) && x->at.line, here_y = !strcmp(y->at.name, cell_name) && y->at.line;
    if (!here_x || !here_y) return 0;
    if (x->at.line != y->at.line) return (x->at.line > y->at.line) - (x->at.line < y->at.line);
    if (lexical(x) != lexical(y)) return lexical(y) - lexical(x);
    return (x->at.column > y->at.column) - (x->at.column < y->at.column);
}

/* Stable, as qsort_r of the C library is not promised to be. */
static void sort(diagnostics *all, const char *cell_name)
{
    for (size_t i = 1; i < all->count; i++) {
        diagnostic one = all->items[i];
        size_t k = i;
        for (; k && by_line(&all->items[k - 1], &one, cell_name) > 0; k--) all->items[k] = all->items[k - 1];
        all->items[k] = one;
    }
}

static void set_place_behind(diagnostic *d, const char *source, const token *t)
{
    d->at.line = line_number(source, t->end);
    d->at.column = (unsigned)(t->end - line_start(source, t->end)) + 1;
}

/* `Node *p` at the cell's end was read as a product, and clang knows a type there: `at` is its last '*'. */
static bool points_to_type(const cell *c, const token *at)
{
    const piece *last = &c->pieces[c->count - 1];
    const token *t = c->tokens.items, *end = t + last->last;
    return last->kind == PIECE_EXPRESSION && token_is(c->source, at, "*") && at + 2 == end &&
           at[1].kind == TOKEN_NAME && t[last->first].kind == TOKEN_NAME &&
           token_is(c->source, &t[last->first + 1], "*");
}

/* The wrapping puts parentheses around a trailing expression. Where clang misses one of them, the expression goes on or
 * a ';' is missing. A diagnostic in the wrapping alone belongs to the cell's end. */
static void mend_end(diagnostic *d, const cell *c)
{
    if (d->clang && is_error(d) && strstr(d->message, "after top level declarator")) {
        free(d->message);
        d->message = copy_of("expected ';' at end of declaration");
    }
    if (!d->clang || !c->tokens.count) return;
    CXDiagnosticSet notes = clang_getChildDiagnostics(d->clang);
    bool bracket = !strncmp(d->message, "expected ')'", 12) && clang_getNumDiagnosticsInSet(notes);
    place opening = {0};
    if (bracket) opening = place_of(clang_getDiagnosticLocation(clang_getDiagnosticInSet(notes, 0)));
    if (bracket && internal_place(&opening)) {
        free(d->message);
        d->message = copy_of("expected ';' after expression");
        size_t at = d->at.line ? offset_in(c->source, d->at.line, d->at.column) : strlen(c->source);
        const token *before = NULL;
        for (size_t i = 0; i < c->tokens.count && c->tokens.items[i].end <= at; i++) before = &c->tokens.items[i];
        if (before) set_place_behind(d, c->source, before);
        if (before && points_to_type(c, before)) {
            free(d->message);
            d->message = copy_of("expected ';' at end of declaration");
            set_place_behind(d, c->source, &c->tokens.items[c->tokens.count - 1]);
        }
    } else if (d->internal && is_error(d)) {
        set_place_behind(d, c->source, &c->tokens.items[c->tokens.count - 1]);
    }
    if (bracket) place_free(&opening);
}

/* `x and y`: clang takes it for a declaration, and the word behind the first name is the error. */
static void mend_foreign_operator(diagnostic *d, const cell *c)
{
    if (!d->clang || d->internal || strncmp(d->message, "unknown type name '", 19)) return;
    size_t at = offset_in(c->source, d->at.line, d->at.column), i = 0;
    while (i < c->tokens.count && c->tokens.items[i].begin <= at) i++;
    if (!i || i + 1 >= c->tokens.count || c->tokens.items[i].kind != TOKEN_NAME) return;
    static const char *const operators[] = {"and", "or", "xor", "mod", "is", "div", "in", NULL};
    for (const char *const *word = operators; *word; word++) {
        if (!token_is(c->source, &c->tokens.items[i], *word)) continue;
        free(d->message);
        d->message = format_text("use of undeclared identifier '%s'", *word);
        set_place_behind(d, c->source, &c->tokens.items[i]);
        d->at.column -= (unsigned)strlen(*word);
    }
}

/* A declaration without its ';' stands for clang outside of any function, where values must be constants. */
static bool for_want_of_end(const diagnostic *d, const cell *c)
{
    const piece *last = c->count ? &c->pieces[c->count - 1] : NULL;
    return last && last->kind == PIECE_DECLARATION && last->unfinished && !last->open &&
           strstr(d->message, "not a compile-time constant") &&
           offset_in(c->source, d->at.line, d->at.column) >= c->tokens.items[last->first].begin;
}

static void hide(diagnostics *all, const analyser *a, const char *cell_name, const cell *c)
{
    bool errors = false, own = false;
    mend_library_calls(all, a, c);
    for (size_t i = 0; i < all->count; i++) {
        mend_end(&all->items[i], c);
        mend_foreign_operator(&all->items[i], c);
        errors |= is_error(&all->items[i]);
        own |= is_error(&all->items[i]) && !all->items[i].internal;
    }
    bool shown = false; /* an error, before this one */
    for (size_t i = 0; i < all->count; i++) {
        diagnostic *d = &all->items[i];
        if (!d->clang) continue;
        if (d->severity < CXDiagnostic_Warning) d->hidden = true;
        if (errors && strstr(d->message, "missing terminating '")) d->severity = CXDiagnostic_Error;
        if (is_error(d)) d->hidden |= for_want_of_end(d, c) || (d->internal && own) || (shown && lost_at_end(d, c));
        else d->hidden |= d->internal || !of_this_cell(a, d, cell_name) || silenced_value(d, c);
        for (size_t k = 0; k < i && !d->hidden; k++) d->hidden = follows(d, &all->items[k]);
        for (size_t k = 0; k < all->count && !d->hidden; k++) d->hidden = of_undeclared_call(d, &all->items[k]);
        shown |= is_error(d) && !d->hidden;
    }
}

diagnostics diagnostics_of(analyser *a, const char *cell_name, source_line line, void *closure, const symbols *session)
{
    diagnostics all = {0};
    /* The set, once: asking the unit anew can make libclang forget what it gave out before. */
    CXDiagnosticSet found = clang_getDiagnosticSetFromTU(a->unit);
    unsigned total = clang_getNumDiagnosticsInSet(found);
    char *source = line(closure, cell_name, 0);
    cell c = cell_split(source ? source : "");
    bool errors = false;
    for (unsigned i = 0; i < total; i++) {
        all.items = need_grown(all.items, all.count, &all.capacity, sizeof *all.items);
        all.items[all.count++] = diagnostic_of(a, clang_getDiagnosticInSet(found, i), cell_name, session);
        errors |= is_error(&all.items[all.count - 1]);
    }
    if (!errors) lint(&all, a, cell_name, &c);
    if (!errors) lint_distributed(&all, cell_name, &c, session);
    sort(&all, cell_name);
    hide(&all, a, cell_name, &c);
    cell_free(&c);
    free(source);
    return all;
}

void diagnostics_free(diagnostics *all)
{
    for (size_t i = 0; i < all->count; i++) {
        place_free(&all->items[i].at);
        free(all->items[i].message);
        free(all->items[i].hint);
    }
    free(all->items);
    *all = (diagnostics){0};
}
