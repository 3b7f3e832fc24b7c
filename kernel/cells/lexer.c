#include "cells/lexer.h"
#include "cells/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct scanner {
    const char *source;
    size_t at, capacity;
    unsigned line;
    bool line_start; /* only white space since the last newline */
    int parentheses;
    token_list out;
} scanner;

static void emit(scanner *s, token_kind kind, size_t begin, unsigned line)
{
    s->out.items = need_grown(s->out.items, s->out.count, &s->capacity, sizeof *s->out.items);
    s->out.items[s->out.count++] = (token){kind, begin, s->at, line};
}

static bool name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static void skip_block_comment(scanner *s)
{
    const char *end = strstr(s->source + s->at + 2, "*/");
    size_t stop = end ? (size_t)(end - s->source) + 2 : strlen(s->source);
    if (!end) {
        s->out.open_comment = true;
        s->out.open_at = s->at;
        s->out.open_line = s->line;
    }
    for (; s->at < stop; s->at++) s->line += s->source[s->at] == '\n';
}

/* To the end of the logical line: a backslash before the newline goes on. */
static void skip_line(scanner *s)
{
    while (s->source[s->at] && s->source[s->at] != '\n') {
        if (s->source[s->at] == '\\' && s->source[s->at + 1] == '\n') {
            s->line++;
            s->at++;
        }
        s->at++;
    }
}

/* A directive ends with its line, but a comment that begins on it may run over several. */
static void skip_directive(scanner *s)
{
    while (s->source[s->at] && s->source[s->at] != '\n') {
        const char *p = s->source + s->at;
        if (p[0] == '/' && p[1] == '*') {
            skip_block_comment(s);
        } else if (p[0] == '/' && p[1] == '/') {
            skip_line(s);
        } else {
            if (p[0] == '\\' && p[1] == '\n') {
                s->line++;
                s->at++;
            }
            s->at++;
        }
    }
}

/* A string or character ends at its quote, or, unclosed, with the line, as in clang. */
static void skip_quoted(scanner *s)
{
    char quote = s->source[s->at++];
    while (s->source[s->at] && s->source[s->at] != '\n') {
        char c = s->source[s->at++];
        if (c == quote) return;
        if (c == '\\' && s->source[s->at]) {
            s->line += s->source[s->at] == '\n';
            s->at++;
        }
    }
    s->out.open_string = true;
}

static void skip_number(scanner *s)
{
    while (name_byte(s->source[s->at]) || s->source[s->at] == '.' ||
           ((s->source[s->at] == '+' || s->source[s->at] == '-') && strchr("eEpP", s->source[s->at - 1]))) {
        s->at++;
    }
}

static void skip_punctuation(scanner *s)
{
    static const char *const longer[] = {"<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
                                         "&&",  "||",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##"};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        if (!strncmp(s->source + s->at, longer[i], strlen(longer[i]))) {
            s->at += strlen(longer[i]);
            return;
        }
    }
    char c = s->source[s->at++];
    if (c == '(' || c == '[') s->parentheses++;
    if ((c == ')' || c == ']') && s->parentheses > 0) s->parentheses--;
    if (c == ';' || c == '{' || c == '}') s->parentheses = 0;
}

/* `!` begins a shell line where a statement can begin; elsewhere it is C's "not". */
static bool shell_may_begin(const scanner *s)
{
    if (!s->line_start || s->source[s->at] != '!' || s->parentheses > 0) return false;
    if (!s->out.count) return true;
    const token *last = &s->out.items[s->out.count - 1];
    if (last->kind == TOKEN_DIRECTIVE || last->kind == TOKEN_SHELL) return true;
    return token_is(s->source, last, "else") || token_is(s->source, last, "do") ||
           (last->kind == TOKEN_PUNCTUATION && strchr(";{}):", s->source[last->begin]));
}

static void scan_token(scanner *s)
{
    size_t begin = s->at;
    unsigned line = s->line;
    char c = s->source[begin];
    token_kind kind = TOKEN_PUNCTUATION;
    if (c == '#' && s->line_start) {
        kind = TOKEN_DIRECTIVE;
        skip_directive(s);
    } else if (shell_may_begin(s)) {
        kind = TOKEN_SHELL;
        skip_line(s);
    } else if (c == '"' || c == '\'') {
        kind = c == '"' ? TOKEN_STRING : TOKEN_CHARACTER;
        skip_quoted(s);
    } else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)s->source[begin + 1]))) {
        kind = TOKEN_NUMBER;
        skip_number(s);
    } else if (name_byte(c)) {
        kind = TOKEN_NAME;
        while (name_byte(s->source[s->at])) s->at++;
        bool prefix = s->at - begin <= 2 && (s->source[s->at] == '"' || s->source[s->at] == '\'') && strchr("LuU", c);
        if (prefix) {
            kind = s->source[s->at] == '"' ? TOKEN_STRING : TOKEN_CHARACTER;
            skip_quoted(s);
        }
    } else {
        skip_punctuation(s);
    }
    s->line_start = false;
    emit(s, kind, begin, line);
}

token_list tokens_of(const char *source)
{
    scanner s = {.source = source, .line = 1, .line_start = true};
    for (;;) {
        const char *p = source + s.at;
        if (*p == '\n') {
            s.line++;
            s.at++;
            s.line_start = true;
        } else if (isspace((unsigned char)*p)) {
            s.at++;
        } else if (p[0] == '\\' && p[1] == '\n') {
            s.at += 2;
            s.line++;
        } else if (p[0] == '/' && p[1] == '*') {
            skip_block_comment(&s);
        } else if (p[0] == '/' && p[1] == '/') {
            skip_line(&s);
        } else if (!*p) {
            break;
        } else {
            scan_token(&s);
        }
    }
    emit(&s, TOKEN_END, s.at, s.line);
    s.out.count--;
    return s.out;
}

void tokens_free(token_list *tokens)
{
    free(tokens->items);
    *tokens = (token_list){0};
}

bool token_is(const char *source, const token *t, const char *spelling)
{
    size_t size = strlen(spelling);
    return t->end - t->begin == size && !memcmp(source + t->begin, spelling, size);
}

const char *directive_word(const char *source, const token *t)
{
    return t->kind == TOKEN_DIRECTIVE ? skip_blanks(source + t->begin + 1) : "";
}

const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t' || (at[0] == '\\' && at[1] == '\n')) at += *at == '\\' ? 2 : 1;
    return at;
}

size_t word_size(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
}

bool word_at(const char *at, const char *word)
{
    size_t size = strlen(word);
    return !strncmp(at, word, size) && word_size(at) == size;
}
