/* Help on a place of a cell. libclang finds members and the cell's own names, also in a cell with errors. See help.h,
 * help_page.h, cells/unit.h. */
#define _GNU_SOURCE
#include "help/help.h"
#include "help/help_page.h"
#include "trial.h"

#include <stdlib.h>
#include <string.h>

typedef struct position {
    unsigned line, column; /* from 1 */
} position;

/* Where a place of the cell's stands in its unit, whose fragments keep their columns and say their lines. A place may
 * stand there more than once: `from` is where to look, and is moved on. False when there is none further on. */
static bool next_in_unit(const char *code, position wanted, const char *word, size_t word_size, size_t *from)
{
    unsigned line = 0;
    bool inside = false;
    for (const char *at = code; at && *at;) {
        size_t size = strcspn(at, "\n");
        if (!strncmp(at, "#line ", 6)) {
            line = (unsigned)strtoul(at + 6, NULL, 10);
            inside = memmem(at, size, "\"In[0]\"", 7) != NULL;
        } else {
            bool here = inside && line == wanted.line && wanted.column - 1 + word_size <= size &&
                        !strncmp(at + wanted.column - 1, word, word_size);
            size_t offset = (size_t)(at - code) + wanted.column - 1;
            if (here && offset >= *from) {
                *from = offset;
                return true;
            }
            line++;
        }
        at += size + (at[size] == '\n');
    }
    return false;
}

static bool told(CXCursor cursor)
{
    return !clang_Cursor_isNull(cursor) && clang_isDeclaration(clang_getCursorKind(cursor));
}

/* The declaration that a word of the cell refers to. The word may stand in the unit several times: the first place that
 * has a meaning counts. */
static CXCursor meaning(session *s, const char *whole, const char *code, size_t begin, size_t end)
{
    CXFile file = clang_getFile(s->analyser.unit, s->analyser.path);
    CXCursor found = clang_getNullCursor();
    position wanted = {line_number(code, begin), (unsigned)(begin - line_start(code, begin)) + 1};
    for (size_t at = 0; !told(found) && next_in_unit(whole, wanted, code + begin, end - begin, &at); at++) {
        CXCursor cursor =
            clang_getCursor(s->analyser.unit, clang_getLocationForOffset(s->analyser.unit, file, (unsigned)at));
        found = clang_getCursorReferenced(cursor);
        if (!told(found)) found = told(cursor) ? cursor : clang_getNullCursor();
        CXString name = clang_getCursorSpelling(found);
        const char *spelled = clang_getCString(name);
        bool same = spelled && strlen(spelled) == end - begin && !memcmp(spelled, code + begin, end - begin);
        clang_disposeString(name);
        if (!same) found = clang_getNullCursor(); /* the call around a mistake, say */
    }
    return found;
}

static char *describe_in(const inquiry *ask, const char *code, size_t begin, size_t end)
{
    session *s = ask->s;
    parsed_cell parsed = parsed_behind(s, code, "kolo.h");
    unit u = unit_of(&parsed, s->symbols, VALUE_NONE, NULL);
    char *about = NULL;
    if (trial_of(&s->analyser, &u.source, TRIAL_OF_HELP, -1) == TRIAL_PASSED &&
        analyser_parse(&s->analyser, u.source.data, u.source.size))
        about = describe_cursor(ask, meaning(s, u.source.data, code, begin, end));
    text_free(&u.source);
    parsed_cell_free(&parsed);
    return about;
}

/* The code up to `end` with all its brackets closed: so far a statement that is being written has a meaning. */
static char *closed(const char *code, size_t end)
{
    char *head = copy_of_bytes(code, end);
    token_list tokens = tokens_of(head);
    text open = {0}, out = {0};
    for (size_t i = 0; i < tokens.count; i++) {
        const token *t = &tokens.items[i];
        char c = t->kind == TOKEN_PUNCTUATION && t->end - t->begin == 1 ? head[t->begin] : 0;
        if (c == '(' || c == '[' || c == '{') text_add(&open, c == '(' ? ")" : c == '[' ? "]" : ";}");
        if ((c == ')' || c == ']' || c == '}') && open.size) open.data[open.size -= c == '}' ? 2 : 1] = 0;
    }
    text_add(&out, head);
    for (size_t i = open.size; i-- > 0;) {
        bool block = open.data[i] == '}';
        text_add(&out, block ? ";}" : open.data[i] == ')' ? ")" : "]");
        if (block) i--;
    }
    text_add(&out, ";");
    text_free(&open);
    tokens_free(&tokens);
    free(head);
    return text_take(&out);
}

char *describe_place(const inquiry *ask, size_t at)
{
    const char *given = ask->cell;
    size_t begin = at, end = at;
    while (begin > 0 && word_byte(given[begin - 1])) begin--;
    while (word_byte(given[end])) end++;
    if (begin == end || (given[begin] >= '0' && given[begin] <= '9')) return NULL;
    char *code = as_c(given), *head = closed(code, end);
    char *about = describe_in(ask, code, begin, end);
    if (!about) about = describe_in(ask, head, begin, end);
    free(head);
    free(code);
    return about;
}
