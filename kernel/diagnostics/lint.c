#define _GNU_SOURCE
#include "diagnostics/lint.h"
#include "diagnostics/add.h"

#include <stdlib.h>
#include <string.h>

/* `if (…);` with the ';' right behind: nobody means it. */
static void empty_ifs(diagnostics *all, const char *cell_name, const cell *c)
{
    const token *t = c->tokens.items;
    for (size_t i = 0; i + 1 < c->tokens.count; i++) {
        if (!token_is(c->source, &t[i], "if") || !token_is(c->source, &t[i + 1], "(")) continue;
        size_t end = after_brackets(c->source, t, i + 1, c->tokens.count);
        if (end >= c->tokens.count || !token_is(c->source, &t[end], ";") || t[end].line != t[end - 1].line) continue;
        if (end + 1 < c->tokens.count && token_is(c->source, &t[end + 1], "else")) continue;
        diagnostic_set_place(diagnostic_add(all, cell_name,
                                            "this if does nothing: its statement is the ';' after the condition",
                                            "remove the ';' so that the next statement belongs to the if"),
                             c, &t[end]);
    }
}

static size_t column_of(const cell *c, const token *t)
{
    return t->begin - line_start(c->source, t->begin);
}

/* Is the `while` at that token the end of a do? */
static bool ends_do(const cell *c, size_t at)
{
    const token *t = c->tokens.items;
    size_t begin = at;
    int depth = 0;
    while (begin > 0) { /* to where the statement before it begins */
        const token *before = &t[begin - 1];
        bool closes = token_is(c->source, before, "}"), opens = token_is(c->source, before, "{");
        bool ends = begin < at && depth == 0 && (token_is(c->source, before, ";") || closes);
        if (ends || (opens && depth == 0)) break;
        depth += closes - opens;
        begin--;
        if (depth == 0 && token_is(c->source, before, "do")) return true;
    }
    return false;
}

/* `for (…);` or `while (…);`, and what follows looks as if it were meant to be repeated: a block, or a line that is
 * indented deeper. clang's own warning of this is lost behind #line. */
static void empty_loops(diagnostics *all, const char *cell_name, const cell *c)
{
    const token *t = c->tokens.items;
    for (size_t i = 0; i + 1 < c->tokens.count; i++) {
        bool counts = token_is(c->source, &t[i], "for"), tests = token_is(c->source, &t[i], "while");
        if ((!counts && !tests) || !token_is(c->source, &t[i + 1], "(")) continue;
        size_t end = after_brackets(c->source, t, i + 1, c->tokens.count);
        if (end + 1 >= c->tokens.count || !token_is(c->source, &t[end], ";") || t[end].line != t[end - 1].line)
            continue;
        const token *next = &t[end + 1];
        bool deeper = next->line > t[end].line && column_of(c, next) > column_of(c, &t[i]);
        if ((!deeper && !token_is(c->source, next, "{")) || (tests && ends_do(c, i))) continue;
        diagnostic_set_place(diagnostic_add(all, cell_name,
                                            "this loop repeats nothing: its statement is the ';' after the ')'",
                                            "remove the ';' so that the next statement is repeated"),
                             c, &t[end]);
    }
}

typedef struct definition {
    char *name;
    unsigned line;
} definition;

typedef struct definitions {
    definition *items;
    size_t count, capacity;
} definitions;

static void note_definition(definitions *known, diagnostics *all, const char *cell_name, const cell *c,
                            const token *name)
{
    char *word = copy_of_bytes(c->source + name->begin, name->end - name->begin);
    for (size_t i = 0; i < known->count; i++) {
        if (strcmp(known->items[i].name, word)) continue;
        char *message = format_text("redefinition of '%s'", word);
        char *hint =
            format_text("line %u of this cell defines it already: without the type, %s = … gives it a new value",
                        known->items[i].line, word);
        diagnostic *d = diagnostic_add(all, cell_name, message, hint);
        d->severity = CXDiagnostic_Error;
        diagnostic_set_place(d, c, name);
        free(message);
        free(hint);
        free(word);
        return;
    }
    known->items = need_grown(known->items, known->count, &known->capacity, sizeof *known->items);
    known->items[known->count++] = (definition){word, name->line};
}

static bool conditional(const cell *c, const piece *p)
{
    return !strncmp(directive_word(c->source, &c->tokens.items[p->first]), "if", 2);
}

/* `int a = 1; int a = 2;`: in the unit a variable is only declared, and may be so twice. */
static void defined_twice(diagnostics *all, const char *cell_name, const cell *c)
{
    definitions known = {0};
    for (size_t i = 0; i < c->count; i++) {
        if (conditional(c, &c->pieces[i])) break; /* one of its branches may be the only one */
        if (c->pieces[i].kind != PIECE_DECLARATION) continue;
        declaration taken = declaration_of(c, &c->pieces[i]);
        for (size_t k = 0; k < taken.count && !taken.is_typedef; k++) {
            const declarator *one = &taken.declarators[k];
            if (one->name != none && one->value != none && !one->is_function)
                note_definition(&known, all, cell_name, c, &c->tokens.items[one->name]);
        }
        declaration_free(&taken);
    }
    for (size_t i = 0; i < known.count; i++) free(known.items[i].name);
    free(known.items);
}

static bool is_real(CXType type)
{
    enum CXTypeKind kind = clang_getCanonicalType(type).kind;
    return kind == CXType_Float || kind == CXType_Double || kind == CXType_LongDouble;
}

static bool is_whole(CXType type)
{
    enum CXTypeKind kind = clang_getCanonicalType(type).kind;
    return kind >= CXType_Char_U && kind <= CXType_Int128;
}

typedef struct divisions {
    diagnostics *all;
    const char *cell_name;
} divisions;

typedef struct sides {
    CXCursor items[2];
    unsigned count;
} sides;

static enum CXChildVisitResult take_side(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    sides *s = closure;
    (void)parent;
    if (s->count < 2) s->items[s->count++] = cursor;
    return CXChildVisit_Continue;
}

static bool known_number(CXCursor cursor, long long *number)
{
    CXEvalResult found = clang_Cursor_Evaluate(cursor);
    bool known = found && clang_EvalResult_getKind(found) == CXEval_Int;
    if (known) *number = clang_EvalResult_getAsLongLong(found);
    if (found) clang_EvalResult_dispose(found);
    return known;
}

/* Both sides known, and the rest is zero: nothing is lost. */
static bool exact(CXCursor division)
{
    sides s = {.items = {clang_getNullCursor(), clang_getNullCursor()}};
    long long left, right;
    clang_visitChildren(division, take_side, &s);
    return s.count == 2 && known_number(s.items[0], &left) && known_number(s.items[1], &right) && right > 0 &&
           left % right == 0;
}

static enum CXChildVisitResult first_child(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    (void)parent;
    *(CXCursor *)closure = cursor;
    return CXChildVisit_Break;
}

/* An implicit conversion shows as an unexposed cursor of the new type over what is converted. */
static enum CXChildVisitResult find_division(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    divisions *d = closure;
    (void)parent;
    if (clang_getCursorKind(cursor) != CXCursor_UnexposedExpr || !is_real(clang_getCursorType(cursor)))
        return CXChildVisit_Recurse;
    CXCursor inner = clang_getNullCursor();
    clang_visitChildren(cursor, first_child, &inner);
    bool division = clang_getCursorKind(inner) == CXCursor_BinaryOperator &&
                    clang_getCursorBinaryOperatorKind(inner) == CXBinaryOperator_Div &&
                    is_whole(clang_getCursorType(inner));
    place at = place_of(clang_getCursorLocation(inner));
    if (division && !strcmp(at.name, d->cell_name) && !exact(inner)) {
        diagnostic *found = diagnostic_add(d->all, d->cell_name, "a division of whole numbers drops the fraction",
                                           "make one side a double: 1.0 / 2, or (double)a / b");
        found->at.line = at.line;
        found->at.column = at.column;
    }
    place_free(&at);
    return CXChildVisit_Recurse;
}

static enum CXChildVisitResult visit_function(CXCursor cursor, CXCursor parent, CXClientData closure)
{
    divisions *d = closure;
    (void)parent;
    if (clang_getCursorKind(cursor) == CXCursor_FunctionDecl && clang_isCursorDefinition(cursor) &&
        clang_Location_isFromMainFile(clang_getCursorLocation(cursor)))
        clang_visitChildren(cursor, find_division, d);
    return CXChildVisit_Continue;
}

static void whole_divisions(diagnostics *all, const analyser *a, const char *cell_name, const cell *c)
{
    bool any = false;
    for (size_t i = 0; i < c->tokens.count && !any; i++) any = token_is(c->source, &c->tokens.items[i], "/");
    divisions d = {all, cell_name};
    if (any) clang_visitChildren(clang_getTranslationUnitCursor(a->unit), visit_function, &d);
}

/* A program is compiled as it is; a cell stands in its wrapping. */
bool whole_program(const analyser *a)
{
    CXFile file = clang_getFile(a->unit, a->path);
    size_t size = 0;
    const char *code = file ? clang_getFileContents(a->unit, file, &size) : NULL;
    return code && !memmem(code, size, "\"<kolo>\"", 8);
}

static void forgotten_main(diagnostics *all, const analyser *a, const char *cell_name, const cell *c)
{
    const token *t = c->tokens.items;
    bool defined = false;
    for (size_t i = 0; i < c->count; i++) {
        const piece *p = &c->pieces[i];
        for (size_t k = p->first; p->kind == PIECE_FUNCTION && k + 1 < p->last; k++) {
            if (token_is(c->source, &t[k], "(")) break;
            defined |= token_is(c->source, &t[k], "main");
        }
        if (p->kind == PIECE_STATEMENT || p->kind == PIECE_EXPRESSION) return;
    }
    if (defined && !whole_program(a))
        diagnostic_add(all, cell_name, "",
                       "main() is defined but not called: add main() as the last line to call it, or make the cell a "
                       "program "
                       "with %%run as its first line");
}

/* The characters of a string of one token; -1 when it has escapes that are more than one letter. */
static long string_length(const cell *c, const token *t)
{
    long length = 0;
    if (c->source[t->begin] != '"' || c->source[t->end - 1] != '"') return -1;
    for (size_t i = t->begin + 1; i + 1 < t->end; i++, length++) {
        if (c->source[i] != '\\') continue;
        if (!strchr("abfnrtv\\'\"", c->source[++i])) return -1;
    }
    return length;
}

/* `char word[3] = "abc";`: there is no room for the string's end. Some mean it: a warning. */
static void unended_strings(diagnostics *all, const char *cell_name, const cell *c)
{
    const token *t = c->tokens.items;
    for (size_t i = 0; i + 7 < c->tokens.count; i++) {
        bool array = token_is(c->source, &t[i], "char") && t[i + 1].kind == TOKEN_NAME &&
                     token_is(c->source, &t[i + 2], "[") && t[i + 3].kind == TOKEN_NUMBER &&
                     token_is(c->source, &t[i + 4], "]") && token_is(c->source, &t[i + 5], "=");
        if (!array || t[i + 6].kind != TOKEN_STRING || t[i + 7].kind == TOKEN_STRING) continue;
        long size = strtol(c->source + t[i + 3].begin, NULL, 0), length = string_length(c, &t[i + 6]);
        if (size != length) continue;
        diagnostic_set_place(
            diagnostic_add(all, cell_name, "the array has no room for the null character at the end of the string",
                           "a string needs one char more than its length; with [] the array gets the right size"),
            c, &t[i + 6]);
    }
}

/* `#include <stdio.h`: clang never sees the line of a header that is in already. */
static void open_includes(diagnostics *all, const char *cell_name, const cell *c)
{
    for (size_t i = 0; i < c->tokens.count; i++) {
        const token *t = &c->tokens.items[i];
        const char *word = directive_word(c->source, t);
        if (strncmp(word, "include", 7)) continue;
        word = skip_blanks(word + 7);
        size_t size = (size_t)(c->source + t->end - word);
        char close = *word == '<' ? '>' : '"';
        if ((*word != '<' && *word != '"') || memchr(word + 1, close, size - 1)) continue;
        char *message = format_text("expected '%c' after the header's name", close);
        diagnostic *d =
            diagnostic_add(all, cell_name, message, "write a header's name in <> or in quotes: #include <stdio.h>");
        d->severity = CXDiagnostic_Error;
        diagnostic_set_place(d, c, t);
        d->at.column += (unsigned)(t->end - t->begin);
        free(message);
    }
}

/* The compiler passes over OpenMP's pragmas without a word where it is not told to heed them. Said once. */
static void unheeded_openmp(diagnostics *all, const analyser *a, const char *cell_name, const cell *c)
{
    for (size_t i = 0; i < a->flags.count; i++) {
        if (!strncmp(a->flags.items[i], "-fopenmp", 8)) return;
    }
    for (size_t i = 0; i < c->tokens.count; i++) {
        const token *t = &c->tokens.items[i];
        const char *word = directive_word(c->source, t);
        if (strncmp(word, "pragma", 6) || strncmp(skip_blanks(word + 6), "omp", 3)) continue;
        diagnostic_set_place(diagnostic_add(all, cell_name,
                                            "without -fopenmp this pragma does nothing: the code runs on one thread",
                                            "%cflags -fopenmp turns OpenMP on"),
                             c, t);
        return;
    }
}

void lint(diagnostics *all, const analyser *a, const char *cell_name, const cell *c)
{
    empty_ifs(all, cell_name, c);
    empty_loops(all, cell_name, c);
    defined_twice(all, cell_name, c);
    unended_strings(all, cell_name, c);
    open_includes(all, cell_name, c);
    whole_divisions(all, a, cell_name, c);
    unheeded_openmp(all, a, cell_name, c);
    forgotten_main(all, a, cell_name, c);
}
