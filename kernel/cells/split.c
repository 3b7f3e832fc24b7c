#include "cells/split.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *source;
    const token *tokens;
    size_t at, limit;
    bool unfinished;
    unsigned depth; /* of statements */
    size_t barren; /* from this token on there is no `;` and no `{`; 0: nobody has looked that far */
} reader;

static bool is_at(const reader *r, size_t at, const char *spelling)
{
    return at < r->limit && r->tokens[at].kind != TOKEN_STRING && token_is(r->source, &r->tokens[at], spelling);
}

static bool is(const reader *r, const char *spelling)
{
    return is_at(r, r->at, spelling);
}

static bool is_any(const char *source, const token *t, const char *const *words)
{
    for (; *words; words++) {
        if (token_is(source, t, *words)) return true;
    }
    return false;
}

char bracket_of(const char *source, const token *t)
{
    bool single = t->kind == TOKEN_PUNCTUATION && t->end - t->begin == 1;
    return single && strchr("()[]{}", source[t->begin]) ? source[t->begin] : 0;
}

bracket_stack open_brackets(const char *source, const token_list *tokens)
{
    bracket_stack b = {.depth = 0};
    for (size_t i = 0; i < tokens->count; i++) {
        char bracket = bracket_of(source, &tokens->items[i]);
        if (!bracket) continue;
        if (strchr("([{", bracket) && b.depth < BRACKETS_MOST) b.open[b.depth++] = i;
        if (strchr(")]}", bracket) && b.depth) b.depth--;
    }
    return b;
}

size_t after_brackets(const char *source, const token *tokens, size_t at, size_t limit)
{
    int depth = 0;
    for (; at < limit; at++) {
        char c = bracket_of(source, &tokens[at]);
        if (c == '(' || c == '[' || c == '{') depth++;
        if ((c == ')' || c == ']' || c == '}') && --depth == 0) return at + 1;
    }
    return limit + 1;
}

/* Skips one bracketed group; past the end means that it was never closed. */
static void skip_group(reader *r)
{
    r->at = after_brackets(r->source, r->tokens, r->at, r->limit);
    if (r->at > r->limit) {
        r->unfinished = true;
        r->at = r->limit;
    }
}

static bool opens(const reader *r)
{
    return is(r, "(") || is(r, "[") || is(r, "{");
}

static bool begins_declaration_word(const reader *r)
{
    static const char *const words[] = {
        "auto",        "char",           "const",         "double",       "enum",
        "extern",      "float",          "inline",        "int",          "long",
        "register",    "restrict",       "short",         "signed",       "static",
        "struct",      "typedef",        "union",         "unsigned",     "void",
        "volatile",    "_Alignas",       "_Atomic",       "_Bool",        "_Complex",
        "_Noreturn",   "_Static_assert", "_Thread_local", "__thread",     "__attribute__",
        "__auto_type", "typeof",         "__typeof__",    "__typeof",     "__inline",
        "__inline__",  "__const",        "__volatile__",  "_Float16",     "__int128",
        "__bf16",      "_Float32",       "_Float64",      "_BitInt",      "static_assert",
        "__signed__",  "alignas",        "constexpr",     "thread_local", "typeof_unqual",
        NULL};
    return r->at < r->limit && r->tokens[r->at].kind == TOKEN_NAME && is_any(r->source, &r->tokens[r->at], words);
}

static bool begins_statement_word(const reader *r)
{
    static const char *const words[] = {"if",   "for",     "while",    "do",   "switch", "return",  "goto", "break",
                                        "case", "default", "continue", "else", "asm",    "__asm__", NULL};
    return is_any(r->source, &r->tokens[r->at], words);
}

/* Words that are operators: an expression begins with them. */
static bool begins_operator_word(const reader *r)
{
    static const char *const words[] = {"sizeof",   "_Generic", "_Alignof", "__alignof__", "__alignof", "__extension__",
                                        "__real__", "__imag__", "__real",   "__imag",      NULL};
    static const char builtin[] = "__builtin_";
    const token *t = &r->tokens[r->at];
    return is_any(r->source, t, words) || !strncmp(r->source + t->begin, builtin, sizeof builtin - 1);
}

/* Does `name * … name` begin here, before a token that follows a declarator but no useful expression statement? */
static bool pointer_declaration(reader *r)
{
    static const char *const after[] = {"=", ";", ",", "[", "(", ")", NULL};
    static const char *const between[] = {"*", "const", "volatile", "restrict", "__restrict", NULL};
    size_t at = r->at + 1;
    while (at < r->limit && is_any(r->source, &r->tokens[at], between)) at++;
    if (at < r->limit && is_at(r, at, "(") && is_at(r, at + 1, "*")) return true; /* T *(*name)(…) */
    if (at + 1 >= r->limit || r->tokens[at].kind != TOKEN_NAME) return false;
    if (is_at(r, at + 1, "=")) return true; /* a product is given no value */
    if (!is_any(r->source, &r->tokens[at + 1], after)) return false;
    size_t end = at + 1;
    if (r->barren && end >= r->barren) return false;
    while (end < r->limit && !is_at(r, end, ";") && !is_at(r, end, "{")) end++;
    if (end >= r->limit) r->barren = at + 1;
    return end < r->limit; /* without a `;` it is the cell's trailing product */
}

static bool begins_declaration(reader *r)
{
    if (begins_declaration_word(r)) return true;
    reader next = *r;
    next.at++;
    if (is(r, "__extension__") && begins_declaration_word(&next)) return true;
    if (r->tokens[r->at].kind != TOKEN_NAME || begins_statement_word(r) || begins_operator_word(r) ||
        r->at + 1 >= r->limit)
        return false;
    if (r->tokens[r->at + 1].kind == TOKEN_NAME) return true;
    return is_at(r, r->at + 1, "*") && pointer_declaration(r);
}

/* `main() { … }`, C's oldest form: clang says what is wrong with it. `each(node, list) { … }` is a macro's loop. */
static bool untyped_function(const reader *r)
{
    if (r->tokens[r->at].kind != TOKEN_NAME || begins_statement_word(r) || !is_at(r, r->at + 1, "(")) return false;
    size_t end = after_brackets(r->source, r->tokens, r->at + 1, r->limit);
    reader inside = *r;
    inside.at += 2;
    return end < r->limit && is_at(r, end, "{") && (is(&inside, ")") || begins_declaration(&inside));
}

static void read_to_semicolon(reader *r)
{
    while (r->at < r->limit && !is(r, ";")) {
        if (is(r, "}") || is(r, ")") || is(r, "]")) {
            r->unfinished = true;
            return;
        }
        if (opens(r)) skip_group(r);
        else r->at++;
    }
    if (r->at < r->limit) r->at++;
    else r->unfinished = true;
}

static void read_statement(reader *r);

static void read_controlled(reader *r)
{
    r->at++;
    if (is(r, "(")) skip_group(r);
    if (r->at < r->limit) read_statement(r);
    else r->unfinished = true;
}

static void read_if(reader *r)
{
    read_controlled(r);
    if (!is(r, "else")) return;
    r->at++;
    if (r->at < r->limit) read_statement(r);
    else r->unfinished = true;
}

static void read_do(reader *r)
{
    r->at++;
    if (r->at < r->limit) read_statement(r);
    if (is(r, "while")) read_to_semicolon(r);
    else r->unfinished = true;
}

/* `each(node, list) …`, a macro that is a loop's head. */
static bool controls(const reader *r)
{
    if (r->tokens[r->at].kind != TOKEN_NAME || begins_operator_word(r) || !is_at(r, r->at + 1, "(")) return false;
    size_t after = after_brackets(r->source, r->tokens, r->at + 1, r->limit);
    return after < r->limit && (r->tokens[after].kind == TOKEN_NAME || is_at(r, after, "{"));
}

enum { DEEPEST = 1000 }; /* statements within statements; clang takes 256 */

static void read_one_statement(reader *r)
{
    while (r->at < r->limit && r->tokens[r->at].kind == TOKEN_DIRECTIVE) r->at++;
    if (r->at >= r->limit) {
        r->unfinished = true;
    } else if (r->tokens[r->at].kind == TOKEN_SHELL || is(r, ";")) {
        r->at++;
    } else if (is(r, "{")) {
        skip_group(r);
    } else if (is(r, "for") || is(r, "while") || is(r, "switch")) {
        read_controlled(r);
    } else if (is(r, "do")) {
        read_do(r);
    } else if (r->tokens[r->at].kind == TOKEN_NAME && is_at(r, r->at + 1, ":")) {
        r->at += 2; /* a label; the statement after it is a piece of its own */
    } else if (is(r, "if") || controls(r)) { /* UNLESS(ready) … else … */
        read_if(r);
    } else {
        read_to_semicolon(r);
    }
}

static void read_statement(reader *r)
{
    if (r->depth == DEEPEST) {
        r->at = r->limit;
        r->unfinished = true;
        return;
    }
    r->depth++;
    read_one_statement(r);
    r->depth--;
}

/* After `f(a, b)`: the parameters' declarations of C's first form, and then the body. */
static bool old_style_parameters(reader *r)
{
    if (!is_at(r, r->at - 1, ")") || !begins_declaration(r) || is(r, "__attribute__")) return false;
    for (size_t i = r->at - 2; !is_at(r, i, "("); i--) {
        if (i == 0 || (r->tokens[i].kind != TOKEN_NAME && !is_at(r, i, ","))) return false;
    }
    reader ahead = *r;
    while (ahead.at < ahead.limit && begins_declaration(&ahead)) {
        while (ahead.at < ahead.limit && !is(&ahead, ";") && !is(&ahead, "{") && !is(&ahead, "=")) ahead.at++;
        if (!is(&ahead, ";")) return false;
        ahead.at++;
    }
    return is(&ahead, "{");
}

/* Does a `{` here begin a body? It follows `)`, or, of a function that returns a pointer to an array, `)[2]`. */
static bool after_parameters(const reader *r)
{
    size_t at = r->at;
    while (at > 1 && is_at(r, at - 1, "]")) {
        for (at--; at > 0 && !is_at(r, at, "[");) at--;
    }
    return at > 0 && is_at(r, at - 1, ")");
}

/* A declaration ends at its `;`, a function definition with its body: the `{` after its parameters with no `=` before.
 */
static piece_kind read_declaration(reader *r)
{
    bool assigned = false;
    while (r->at < r->limit && !is(r, ";")) {
        if (is(r, "}") || is(r, ")") || is(r, "]")) {
            r->unfinished = true;
            return PIECE_DECLARATION;
        }
        if (is(r, "=")) assigned = true;
        if (!assigned && r->at > 1 && old_style_parameters(r)) {
            while (!is(r, "{")) r->at++;
            skip_group(r);
            return PIECE_FUNCTION;
        }
        bool body = is(r, "{") && !assigned && after_parameters(r);
        if (opens(r)) skip_group(r);
        else r->at++;
        if (body) return PIECE_FUNCTION;
    }
    if (r->at < r->limit) r->at++;
    else r->unfinished = true;
    return PIECE_DECLARATION;
}

static piece_kind read_piece(reader *r)
{
    size_t first = r->at;
    if (r->tokens[first].kind == TOKEN_DIRECTIVE) {
        r->at++;
        return PIECE_DIRECTIVE;
    }
    if (is(r, "}") || is(r, ")") || is(r, "]")) {
        r->at++;
        return PIECE_BROKEN;
    }
    if (begins_declaration(r) || untyped_function(r)) return read_declaration(r);
    read_statement(r);
    reader start = {.source = r->source, .tokens = r->tokens, .at = first, .limit = r->limit};
    bool expression = r->unfinished && r->at >= r->limit && !begins_statement_word(&start) && !is_at(r, first, "{");
    return expression ? PIECE_EXPRESSION : PIECE_STATEMENT;
}

static int depth_after(const cell *c, const piece *p)
{
    int depth = 0;
    for (size_t i = p->first; i < p->last; i++) {
        char b = bracket_of(c->source, &c->tokens.items[i]);
        depth += (b == '{' || b == '(' || b == '[') - (b == '}' || b == ')' || b == ']');
    }
    return depth;
}

/* An expression ends the cell without `;`: it is finished unless it ends in an operator. */
static bool ends_in_operator(const cell *c, const piece *p)
{
    static const char *const open_ends[] = {"+", "-",  "*",  "/",  "%",  "=",  "==", "&&", "||",
                                            "&", "|",  "^",  ",",  "?",  ":",  ".",  "->", "<",
                                            ">", "<=", ">=", "!=", "+=", "-=", "*=", "/=", NULL};
    const token *last = &c->tokens.items[p->last - 1];
    return last->kind == TOKEN_PUNCTUATION && is_any(c->source, last, open_ends);
}

cell cell_split(const char *source)
{
    cell c = {.source = source, .tokens = tokens_of(source)};
    reader r = {.source = source, .tokens = c.tokens.items, .limit = c.tokens.count};
    while (r.at < r.limit) {
        piece p = {.first = r.at};
        r.unfinished = false;
        p.kind = read_piece(&r);
        p.last = r.at;
        p.unfinished = r.unfinished;
        p.open = p.unfinished && depth_after(&c, &p) > 0;
        if (p.kind == PIECE_EXPRESSION) p.unfinished = p.open || ends_in_operator(&c, &p);
        if (p.kind == PIECE_BROKEN) c.stray = true;
        if (p.unfinished && r.at >= r.limit) c.unbalanced = true;
        c.pieces = need_grown(c.pieces, c.count, &c.capacity, sizeof *c.pieces);
        c.pieces[c.count++] = p;
    }
    if (c.tokens.open_comment) c.unbalanced = true;
    return c;
}

void cell_free(cell *c)
{
    free(c->pieces);
    tokens_free(&c->tokens);
    *c = (cell){0};
}
