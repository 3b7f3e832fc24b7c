#define _GNU_SOURCE
#include "mistakes/distributed.h"
#include "mistakes/finding.h"
#include "mistakes/hints.h"
#include "mistakes/library_calls.h"
#include "mistakes/lint.h"
#include "mistakes/nearest.h"

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
static char *spelled_with_guess(CXDiagnostic d)
{
    char *spelled = clang_text(clang_getDiagnosticSpelling(d));
    drop_wrapping(spelled);
    CXDiagnosticSet notes = clang_getChildDiagnostics(d);
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
static void mend_incomplete(finding *f)
{
    const char *type = strstr(f->message, "incomplete type '");
    CXDiagnosticSet notes = clang_getChildDiagnostics(f->diagnostic);
    if (!f->internal || !type || !clang_getNumDiagnosticsInSet(notes)) return;
    place_free(&f->at);
    f->at = place_of(clang_getDiagnosticLocation(clang_getDiagnosticInSet(notes, 0)));
    f->internal = internal_place(&f->at);
    char *message = format_text("variable has %s", type);
    free(f->message);
    f->message = message;
}

static finding finding_of(analyser *a, CXDiagnostic d, const char *cell_name, const symbols *session)
{
    finding f = {.diagnostic = d, .severity = clang_getDiagnosticSeverity(d)};
    f.at = place_of(clang_getDiagnosticLocation(d));
    char *spelled = spelled_with_guess(d);
    f.message = plainer(a->unit, clang_getDiagnosticLocation(d), spelled, session);
    const char *guess = strstr(spelled, "did you mean '");
    f.other_meant = guess && !strstr(f.message, guess);
    f.internal = internal_place(&f.at) || internal_text(f.message) || !*f.at.name;
    free(spelled);
    mend_incomplete(&f);
    if (f.internal) {
        place_free(&f.at);
        f.at = (place){.name = copy_of(cell_name)};
    }
    return f;
}

static bool is_error(const finding *f)
{
    return f->severity >= CXDiagnostic_Error;
}

/* What stands wrong in itself, so that the rest of its line means nothing to clang. */
static bool lexical(const finding *f)
{
    return strstr(f->message, "missing terminating '") || strstr(f->message, "<U+") ||
           strstr(f->message, "invalid suffix") || strstr(f->message, "invalid digit") || of_other_language(f->message);
}

static bool same_line(const finding *a, const finding *b)
{
    return a->at.line == b->at.line && !strcmp(a->at.name, b->at.name);
}

/* The same words: of an undeclared name anywhere, of anything else in one line. */
static bool same_words(const finding *a, const finding *b)
{
    return !strcmp(a->message, b->message) && (strstr(a->message, "undeclared") || (is_error(a) && same_line(a, b)));
}

/* A name is unknown because the header is. */
static bool for_want_of_header(const finding *f, const finding *earlier)
{
    return strstr(earlier->message, "file not found") &&
           (strstr(f->message, "undeclared") || strstr(f->message, "unknown type"));
}

/* Does it only follow from, or repeat, one that was found before it? */
static bool follows(const finding *f, const finding *earlier)
{
    if (earlier->hidden || (is_error(f) != is_error(earlier) && !lexical(earlier))) return false;
    bool same_place = f->at.line && same_line(f, earlier) && f->at.column == earlier->at.column;
    return same_place || same_words(f, earlier) || for_want_of_header(f, earlier) ||
           (is_error(f) && lexical(earlier) && same_line(f, earlier));
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
static bool of_undeclared_call(const finding *f, const finding *other)
{
    return strstr(other->message, "call to undeclared function") && f->diagnostic && strstr(f->message, "'int'") &&
           same_line(f, other) && encloses(f->diagnostic, &other->at);
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
static bool of_this_cell(const analyser *a, const finding *f, const char *cell_name)
{
    if (!strncmp(f->at.name, "In[", 3)) return !strcmp(f->at.name, cell_name);
    if (clang_Location_isFromMainFile(clang_getDiagnosticLocation(f->diagnostic))) return true; /* a header's text */
    inclusion in = {.cell_name = cell_name};
    clang_getFileLocation(clang_getDiagnosticLocation(f->diagnostic), &in.file, NULL, NULL, NULL);
    if (in.file) clang_getInclusions(a->unit, note_cell, &in);
    return in.here;
}

/* `n;` at a cell's end silences the value. */
static bool silenced_value(const finding *f, const cell *c)
{
    if (!strstr(f->message, "expression result unused") || !c->count) return false;
    const piece *last = &c->pieces[c->count - 1];
    if (last->kind != PIECE_STATEMENT) return false;
    size_t at = offset_in(c->source, f->at.line, f->at.column), begin = c->tokens.items[last->first].begin;
    static const char *const compound[] = {"{", "if", "for", "while", "do", "switch", NULL};
    for (const char *const *word = compound; *word; word++) {
        if (token_is(c->source, &c->tokens.items[last->first], *word)) return false;
    }
    return at >= begin;
}

/* That something is missing at the very end, when no brace is: only because clang lost its way before. */
static bool lost_at_end(const finding *f, const cell *c)
{
    if (strncmp(f->message, "expected ", 9) || !c->tokens.count) return false;
    size_t at = offset_in(c->source, f->at.line, f->at.column);
    if (at < c->tokens.items[c->tokens.count - 1].end) return false;
    long depth = 0;
    for (size_t i = 0; i < c->tokens.count; i++) {
        depth += token_is(c->source, &c->tokens.items[i], "{") - token_is(c->source, &c->tokens.items[i], "}");
    }
    return depth == 0;
}

static int by_line(const finding *x, const finding *y, const char *cell_name)
{
    bool here_x = !strcmp(x->at.name, cell_name) && x->at.line, here_y = !strcmp(y->at.name, cell_name) && y->at.line;
    if (!here_x || !here_y) return 0;
    if (x->at.line != y->at.line) return (x->at.line > y->at.line) - (x->at.line < y->at.line);
    if (lexical(x) != lexical(y)) return lexical(y) - lexical(x);
    return (x->at.column > y->at.column) - (x->at.column < y->at.column);
}

/* Stable, as qsort_r of the C library is not promised to be. */
static void sort(findings *all, const char *cell_name)
{
    for (size_t i = 1; i < all->count; i++) {
        finding one = all->items[i];
        size_t k = i;
        for (; k && by_line(&all->items[k - 1], &one, cell_name) > 0; k--) all->items[k] = all->items[k - 1];
        all->items[k] = one;
    }
}

static void set_place_behind(finding *f, const char *source, const token *t)
{
    size_t line = t->end;
    f->at.line = 1;
    for (size_t i = 0; i < t->end; i++) f->at.line += source[i] == '\n';
    while (line > 0 && source[line - 1] != '\n') line--;
    f->at.column = (unsigned)(t->end - line) + 1;
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

/* The parentheses around a trailing expression are the wrapping's: that one of them is missed means that the expression
 * goes on, or that a ';' is. What is found in the wrapping alone belongs to the cell's end. */
static void mend_end(finding *f, const cell *c)
{
    if (f->diagnostic && is_error(f) && strstr(f->message, "after top level declarator")) {
        free(f->message);
        f->message = copy_of("expected ';' at end of declaration");
    }
    if (!f->diagnostic || !c->tokens.count) return;
    CXDiagnosticSet notes = clang_getChildDiagnostics(f->diagnostic);
    bool bracket = !strncmp(f->message, "expected ')'", 12) && clang_getNumDiagnosticsInSet(notes);
    place opening = {0};
    if (bracket) opening = place_of(clang_getDiagnosticLocation(clang_getDiagnosticInSet(notes, 0)));
    if (bracket && internal_place(&opening)) {
        free(f->message);
        f->message = copy_of("expected ';' after expression");
        size_t at = f->at.line ? offset_in(c->source, f->at.line, f->at.column) : strlen(c->source);
        const token *before = NULL;
        for (size_t i = 0; i < c->tokens.count && c->tokens.items[i].end <= at; i++) before = &c->tokens.items[i];
        if (before) set_place_behind(f, c->source, before);
        if (before && points_to_type(c, before)) {
            free(f->message);
            f->message = copy_of("expected ';' at end of declaration");
            set_place_behind(f, c->source, &c->tokens.items[c->tokens.count - 1]);
        }
    } else if (f->internal && is_error(f)) {
        set_place_behind(f, c->source, &c->tokens.items[c->tokens.count - 1]);
    }
    if (bracket) place_free(&opening);
}

/* `x and y`, which clang takes for a declaration: the word behind is what is wrong. */
static void mend_foreign_operator(finding *f, const cell *c)
{
    if (!f->diagnostic || f->internal || strncmp(f->message, "unknown type name '", 19)) return;
    size_t at = offset_in(c->source, f->at.line, f->at.column), i = 0;
    while (i < c->tokens.count && c->tokens.items[i].begin <= at) i++;
    if (!i || i + 1 >= c->tokens.count || c->tokens.items[i].kind != TOKEN_NAME) return;
    static const char *const operators[] = {"and", "or", "xor", "mod", "is", "div", "in", NULL};
    for (const char *const *word = operators; *word; word++) {
        if (!token_is(c->source, &c->tokens.items[i], *word)) continue;
        free(f->message);
        f->message = format_text("use of undeclared identifier '%s'", *word);
        set_place_behind(f, c->source, &c->tokens.items[i]);
        f->at.column -= (unsigned)strlen(*word);
    }
}

/* A declaration without its ';' stands for clang outside of any function, where values must be constants. */
static bool for_want_of_end(const finding *f, const cell *c)
{
    const piece *last = c->count ? &c->pieces[c->count - 1] : NULL;
    return last && last->kind == PIECE_DECLARATION && last->unfinished && !last->open &&
           strstr(f->message, "not a compile-time constant") &&
           offset_in(c->source, f->at.line, f->at.column) >= c->tokens.items[last->first].begin;
}

static void hide(findings *all, const analyser *a, const char *cell_name, const cell *c)
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
        finding *f = &all->items[i];
        if (!f->diagnostic) continue;
        if (f->severity < CXDiagnostic_Warning) f->hidden = true;
        if (errors && strstr(f->message, "missing terminating '")) f->severity = CXDiagnostic_Error;
        if (is_error(f)) f->hidden |= for_want_of_end(f, c) || (f->internal && own) || (shown && lost_at_end(f, c));
        else f->hidden |= f->internal || !of_this_cell(a, f, cell_name) || silenced_value(f, c);
        for (size_t k = 0; k < i && !f->hidden; k++) f->hidden = follows(f, &all->items[k]);
        for (size_t k = 0; k < all->count && !f->hidden; k++) f->hidden = of_undeclared_call(f, &all->items[k]);
        shown |= is_error(f) && !f->hidden;
    }
}

findings findings_of(analyser *a, const char *cell_name, source_line line, void *closure, const symbols *session)
{
    findings all = {0};
    /* The set, once: asking the unit anew can make libclang forget what it gave out before. */
    CXDiagnosticSet found = clang_getDiagnosticSetFromTU(a->unit);
    unsigned total = clang_getNumDiagnosticsInSet(found);
    char *source = line(closure, cell_name, 0);
    cell c = cell_split(source ? source : "");
    bool errors = false;
    for (unsigned i = 0; i < total; i++) {
        all.items = need_grown(all.items, all.count, &all.capacity, sizeof *all.items);
        all.items[all.count++] = finding_of(a, clang_getDiagnosticInSet(found, i), cell_name, session);
        errors |= is_error(&all.items[all.count - 1]);
    }
    if (!errors) lint(&all, a, cell_name, &c);
    if (!errors) distributed_mistakes(&all, cell_name, &c, session);
    sort(&all, cell_name);
    hide(&all, a, cell_name, &c);
    cell_free(&c);
    free(source);
    return all;
}

void findings_free(findings *all)
{
    for (size_t i = 0; i < all->count; i++) {
        place_free(&all->items[i].at);
        free(all->items[i].message);
        free(all->items[i].hint);
    }
    free(all->items);
    *all = (findings){0};
}
