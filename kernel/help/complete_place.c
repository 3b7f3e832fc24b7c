/* The type that is wanted for an argument, an option or an element of an array, where clang does not know it. See
 * complete.h. */
#define _GNU_SOURCE
#include "diagnostics/nearest.h"
#include "help/complete.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- the type that is wanted ---- */

static bool plain_type(const char *type)
{
    static const char *const words[] = {"int",   "char",     "double", "float", "long",
                                        "short", "unsigned", "void",   "bool",  "..."};
    if (strpbrk(type, "*[({")) return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(type, words[i]);
        if (at && !word_byte(at[strlen(words[i])]) && (at == type || !word_byte(at[-1]))) return true;
    }
    return !*type;
}

/* "enum color" of "enum color paint"; NULL when it is a type of numbers or a pointer. */
static char *type_of_parameter(const char *begin, size_t size)
{
    while (size && isspace((unsigned char)*begin)) begin++, size--;
    while (size && isspace((unsigned char)begin[size - 1])) size--;
    size_t name = size;
    while (name && word_byte(begin[name - 1])) name--;
    while (name && isspace((unsigned char)begin[name - 1])) name--;
    char *type = copy_of_bytes(begin, name ? name : size);
    if (!plain_type(type) && strcmp(type, "enum")) return type;
    free(type);
    return NULL;
}

/* Of the argument `which` (from 0) in a declaration "int paint(enum color c, int times)". */
static char *parameter_type(const entity *e, size_t which)
{
    const char *open = e->shown ? strstr(e->shown, e->name) : NULL;
    open = open ? strchr(open, '(') : NULL;
    if (!open) return NULL;
    const char *at = open + 1;
    int depth = 0;
    for (const char *p = at; *p && depth >= 0; p++) {
        bool ends = depth == 0 && (*p == ',' || *p == ')');
        if (ends && which == 0) return type_of_parameter(at, (size_t)(p - at));
        if (ends) which--, at = p + 1;
        depth += (*p == '(') - (*p == ')');
    }
    return NULL;
}

/* Which argument stands before `end`, counted from the bracket at `open`. */
static size_t arguments_before(const char *code, size_t open, size_t end)
{
    size_t count = 0;
    int depth = 0;
    for (size_t i = open + 1; i < end; i++) {
        depth += (strchr("([{", code[i]) != NULL) - (strchr(")]}", code[i]) != NULL);
        count += depth == 0 && code[i] == ',';
    }
    return count;
}

/* "activation" of `.activation = `, with the option's value being written. */
static char *option_before(const char *code, size_t word)
{
    size_t end = word;
    while (end && isspace((unsigned char)code[end - 1])) end--;
    if (!end || code[end - 1] != '=') return NULL;
    end--;
    while (end && isspace((unsigned char)code[end - 1])) end--;
    size_t begin = end;
    while (begin && word_byte(code[begin - 1])) begin--;
    return begin && begin < end && code[begin - 1] == '.' ? copy_of_bytes(code + begin, end - begin) : NULL;
}

char *wanted_type(const writing *w)
{
    size_t begin, end, last = w->word;
    if (!call_around(w->code, w->word, 0, &begin, &end)) return NULL;
    char *call = copy_of_bytes(w->code + begin, end - begin), *option = option_before(w->code, w->word), *type = NULL;
    while (last && isspace((unsigned char)w->code[last - 1])) last--;
    const entity *e = symbols_find_bytes(w->s->symbols, 'o', call, strlen(call));
    size_t open = end + strspn(w->code + end, " \t");
    if (option && begins(call, "kolo_")) type = option_type(w->s, call, option);
    else if (last && strchr("(,", w->code[last - 1]) && e && e->kind == ENTITY_FUNCTION)
        type = parameter_type(e, arguments_before(w->code, open, w->word));
    free(option);
    free(call);
    return type;
}

/* ---- elements of arrays ---- */

/* The name declared before the '=' at that token: `node list[3][4] =`; its token, or none. */
static size_t name_before(const char *head, const token_list *tokens, size_t equals)
{
    size_t at = equals;
    while (at > 0 && token_is(head, &tokens->items[at - 1], "]")) {
        while (at > 0 && !token_is(head, &tokens->items[at - 1], "[")) at--;
        if (at > 0) at--;
    }
    return at > 0 && tokens->items[at - 1].kind == TOKEN_NAME ? at - 1 : none;
}

char *of_element(const char *head)
{
    size_t size = strlen(head);
    if (!size || head[size - 1] != '.') return NULL;
    token_list tokens = tokens_of(head);
    bracket_stack b = open_brackets(head, &tokens);
    size_t levels = 0, name = none, equals = 0;
    for (size_t i = b.depth; i > 0 && name == none; i--) {
        size_t brace = b.open[i - 1];
        if (!token_is(head, &tokens.items[brace], "{")) break;
        levels++;
        equals = brace ? brace - 1 : 0;
        if (token_is(head, &tokens.items[equals], "=")) name = name_before(head, &tokens, equals);
    }
    bool directly = tokens.count > 1 && (token_is(head, &tokens.items[tokens.count - 2], "{") ||
                                         token_is(head, &tokens.items[tokens.count - 2], ","));
    text out = {0};
    if (name != none && levels > 1 && directly) {
        const token *t = &tokens.items[name];
        text_addf(&out, "%.*s; %.*s", (int)tokens.items[equals].begin, head, (int)(t->end - t->begin), head + t->begin);
        while (--levels) text_add(&out, "[0]");
        text_add(&out, ".");
    }
    tokens_free(&tokens);
    return out.size ? text_take(&out) : NULL;
}
