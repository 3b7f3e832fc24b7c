/* Shift-Tab: help on the name under the cursor. Read first: help.h, help_page.h. */
#define _GNU_SOURCE
#include "diagnostics/nearest.h"
#include "help/help.h"
#include "help/help_page.h"
#include "lock.h"

#include <stdlib.h>
#include <string.h>

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

/* Is it a member, or an option of a call, which only its place explains? */
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
        parsed_cell parsed = parsed_cell_of(code, "In[0]", 0, ask->s->prefix, ask->s->symbols);
        char *key = format_text("o:%s", name);
        bool own = parsed_cell_find(&parsed, key) || !symbols_find(ask->s->symbols, key);
        if (own || strchr(code, '{')) about = describe_place(ask, end - 1);
        if (about && strstr(about, "defined in In[")) { /* an earlier cell's: more is known of it */
            free(about);
            about = NULL;
        }
        if (!about) about = describe(&(inquiry){ask->s, NULL, ask->detail}, name);
        parsed_cell_free(&parsed);
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
