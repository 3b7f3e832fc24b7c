/* Shift-Tab: what stands under the cursor. Members and the cell's own names are libclang's to find, in the cell as it
 * stands, mistakes and all. Read first: help.h, help_page.h, cells/unit.h. */
#define _GNU_SOURCE
#include "mistakes/nearest.h"
#include "help/help.h"
#include "help/help_page.h"
#include "trial.h"

#include <stdlib.h>
#include <string.h>

/* Line and column, from 1, of a byte. */
typedef struct position {
    unsigned line, column;
} position;

static position position_of(const char *code, size_t at)
{
    position p = {1, 1};
    for (size_t i = 0; i < at; i++) {
        p.column = code[i] == '\n' ? 1 : p.column + 1;
        p.line += code[i] == '\n';
    }
    return p;
}

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

/* What a byte of the cell means: the first of the places at which it stands in the unit that means anything. */
static CXCursor meaning(session *s, const char *whole, const char *code, size_t begin, size_t end)
{
    CXFile file = clang_getFile(s->analyser.unit, s->analyser.path);
    CXCursor found = clang_getNullCursor();
    position wanted = position_of(code, begin);
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

enum { ANY_NUMBER = 1000 }; /* of elements, for an array whose initialiser is being written */

static char *describe_in(const inquiry *ask, const char *code, size_t begin, size_t end)
{
    session *s = ask->s;
    draft d = draft_of(code, "In[0]", 0, s->prefix, s->symbols);
    if (!strstr(d.prefix.data ? d.prefix.data : "", "kolo.h")) text_add(&d.prefix, "#include <kolo.h>\n");
    for (size_t i = 0; i < d.count; i++) {
        if (d.items[i].open_array) d.items[i].open_size = ANY_NUMBER;
    }
    unit u = unit_of(&d, s->symbols, VALUE_NONE, NULL);
    char *about = NULL;
    if (trial_of(&s->analyser, &u.source, TRIAL_OF_HELP, -1) == TRIAL_PASSED &&
        analyser_parse(&s->analyser, u.source.data, u.source.size))
        about = describe_cursor(ask, meaning(s, u.source.data, code, begin, end));
    text_free(&u.source);
    draft_free(&d);
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

/* Does a byte stand in a comment or a string? There a word is no name. */
static bool in_words(const char *code, size_t at)
{
    char *head = copy_of_bytes(code, at);
    token_list tokens = tokens_of(head);
    bool words = tokens.open_comment || tokens.open_string;
    size_t behind = tokens.count ? tokens.items[tokens.count - 1].end : 0;
    for (size_t i = behind; i + 1 < at && !words; i++) words = head[i] == '/' && head[i + 1] == '/';
    tokens_free(&tokens);
    free(head);
    return words;
}

/* Is it a member, or an option of a call: what only its place explains? */
static bool dotted(const char *code, size_t begin)
{
    return begin > 0 && (code[begin - 1] == '.' || (begin > 1 && code[begin - 1] == '>' && code[begin - 2] == '-'));
}

/* Does the session know the name in a richer way than libclang does, and does the cell not change that? */
static char *describe_word(const inquiry *ask, size_t begin, size_t end)
{
    char *name = copy_of_bytes(ask->cell + begin, end - begin), *about = NULL;
    if (*name == '%') {
        about = describe(ask, name);
    } else {
        char *code = as_c(ask->cell);
        draft d = draft_of(code, "In[0]", 0, ask->s->prefix, ask->s->symbols);
        char *key = format_text("o:%s", name);
        bool own = draft_find(&d, key) || !symbols_find(ask->s->symbols, key);
        if (own || strchr(code, '{')) about = describe_place(ask, end - 1);
        if (about && strstr(about, "defined in In[")) { /* an earlier cell's: more is known of it */
            free(about);
            about = NULL;
        }
        if (!about) about = describe(&(inquiry){ask->s, NULL, ask->detail}, name);
        draft_free(&d);
        free(key);
        free(code);
    }
    free(name);
    return about;
}

typedef struct member {
    const char *name;
    size_t size;
    CXCursor found;
} member;

static enum CXVisitorResult match_member(CXCursor field, CXClientData closure)
{
    member *m = closure;
    CXString spelling = clang_getCursorSpelling(field);
    const char *name = clang_getCString(spelling);
    bool match = name && strlen(name) == m->size && !memcmp(name, m->name, m->size);
    if (match) m->found = field;
    clang_disposeString(spelling);
    return match ? CXVisit_Break : CXVisit_Continue;
}

/* `kolo_fit(model, data, .epochs = `: also where model is not there yet, and the call means nothing to libclang. */
static char *describe_option(const inquiry *ask, size_t begin, size_t end)
{
    size_t call, call_end;
    if (!call_around(ask->cell, begin, 0, &call, &call_end)) return NULL;
    char *tag = format_text("%.*s_args", (int)(call_end - call), ask->cell + call);
    CXCursor options = cursor_named(ask->s, tag);
    member m = {ask->cell + begin, end - begin, clang_getNullCursor()};
    if (!clang_Cursor_isNull(options))
        clang_Type_visitFields(clang_getCanonicalType(clang_getCursorType(options)), match_member, &m);
    free(tag);
    return describe_cursor(ask, m.found);
}

/* Of the name under the cursor, else of the call whose arguments are being written, the innermost that is known. */
static char *describe_at(const inquiry *ask, size_t cursor)
{
    const char *code = ask->cell;
    size_t begin = cursor, end = cursor;
    while (begin > 0 && word_byte(code[begin - 1])) begin--;
    while (word_byte(code[end])) end++;
    char *about = NULL;
    bool words = in_words(code, cursor);
    if (begin < end && !words && dotted(code, begin)) {
        about = describe_place(ask, begin);
        if (!about) about = describe_option(ask, begin, end);
    } else if (!words) {
        while (begin > 0 && code[begin - 1] == '%') begin--;
        if (begin < end) about = describe_word(ask, begin, end);
    }
    for (unsigned outer = 0; !about && call_around(code, cursor, outer, &begin, &end); outer++)
        about = describe_word(ask, begin, end);
    return about;
}

char *session_inspect(session *s, const char *code, int cursor_characters, int detail)
{
    bool alone = help_enters(s);
    help_begins(s);
    char *about = describe_at(&(inquiry){s, code, detail}, bytes_of(code, cursor_characters));
    help_ends(s);
    json_t *reply = about ? json_pack("{s:s, s:b, s:{s:s}, s:{}}", "status", "ok", "found", 1, "data", "text/plain",
                                      about, "metadata")
                          : json_pack("{s:s, s:b, s:{}, s:{}}", "status", "ok", "found", 0, "data", "metadata");
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    free(about);
    help_leaves(s, alone);
    return need(dump);
}
