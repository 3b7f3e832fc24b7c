/* Whether a cell is complete, and how far its next line is indented. Read first: help.h, cells/split.h. */
#define _GNU_SOURCE
#include "cells/spelling.h"
#include "cells/split.h"
#include "help/help.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 4 };

/* ---- indentation ---- */

/* The bracket that the one at `at` closes; 0 when none does. */
static size_t opening(const cell *c, size_t at)
{
    int depth = 0;
    for (size_t i = at + 1; i-- > 0;) {
        char bracket = bracket_of(c->source, &c->tokens.items[i]);
        if (!bracket) continue;
        depth += strchr(")]}", bracket) ? 1 : -1;
        if (depth == 0) return i;
    }
    return 0;
}

static bool is(const cell *c, size_t at, const char *word)
{
    return at < c->tokens.count && token_is(c->source, &c->tokens.items[at], word);
}

/* `} while (x)` of a do: its `;` is missing, and no statement follows. */
static bool ends_do(const cell *c, size_t at_while)
{
    if (!at_while || !is(c, at_while - 1, "}")) return false;
    size_t open = opening(c, at_while - 1);
    return open > 0 && is(c, open - 1, "do");
}

/* Does the code end where the statement of an if, else, for, while, do or switch must follow? */
static bool statement_follows(const cell *c)
{
    size_t last = c->tokens.count;
    if (!last) return false;
    last--;
    if (is(c, last, "else") || is(c, last, "do")) return true;
    size_t open = is(c, last, ")") ? opening(c, last) : 0;
    if (!open) return false;
    return is(c, open - 1, "if") || is(c, open - 1, "for") || is(c, open - 1, "switch") ||
           (is(c, open - 1, "while") && !ends_do(c, open - 1));
}

/* Is the innermost open bracket that of a switch's body, with a label in it? */
static bool among_cases(const cell *c, const bracket_stack *b)
{
    size_t open = b->depth ? b->open[b->depth - 1] : 0;
    if (!open || !is(c, open, "{") || !is(c, open - 1, ")")) return false;
    size_t head = opening(c, open - 1);
    bool label = false;
    for (size_t i = open; i < c->tokens.count; i++) label |= is(c, i, "case") || is(c, i, "default");
    return head && is(c, head - 1, "switch") && label;
}

/* The first token of the last line that has any. */
static size_t line_begin(const cell *c)
{
    size_t at = c->tokens.count - 1;
    while (at > 0 && c->tokens.items[at - 1].line == c->tokens.items[c->tokens.count - 1].line) at--;
    return at;
}

static size_t indentation_of_line(const cell *c)
{
    size_t at = c->tokens.items[line_begin(c)].begin, width = 0;
    for (; at > 0 && c->source[at - 1] != '\n'; at--) width += c->source[at - 1] == '\t' ? STEP : 1;
    return width;
}

static bool leaves(const cell *c, size_t at)
{
    return is(c, at, "break") || is(c, at, "return") || is(c, at, "continue") || is(c, at, "goto");
}

/* Among the cases of a switch lines go on as the last one, deeper behind a label, and back behind a break. */
static size_t among(const cell *c, size_t line)
{
    size_t first = line_begin(c), last = c->tokens.count - 1;
    if (is(c, last, ":")) return line + STEP;
    if (leaves(c, first) && is(c, last, ";") && line >= STEP) return line - STEP;
    return line;
}

static size_t indentation(const cell *c)
{
    if (!c->tokens.count) return 0;
    bracket_stack b = open_brackets(c->source, &c->tokens);
    size_t width = b.depth * STEP, line = indentation_of_line(c);
    if (statement_follows(c)) return (line > width ? line : width) + STEP;
    if (!among_cases(c, &b)) return width;
    bool one_line = c->tokens.items[b.open[b.depth - 1]].line == c->tokens.items[line_begin(c)].line;
    return among(c, one_line ? width : line);
}

/* ---- completeness ---- */

typedef enum completeness { COMPLETE, INCOMPLETE, INVALID } completeness;

static bool bracket_open(const cell *c)
{
    return open_brackets(c->source, &c->tokens).depth > 0;
}

/* A magic cell goes on to an empty line, or to two where a bracket is open: its body need not be C. */
static completeness of_magic_cell(const cell *c)
{
    size_t size = strlen(c->source);
    const char *last = strrchr(c->source, '\n');
    bool continued = size > 1 && c->source[size - 2] == '\\';
    bool empty = last && !continued && last[1 + strspn(last + 1, " \t")] == 0,
         two = empty && size > 1 && c->source[size - 2] == '\n';
    return empty && (two || !bracket_open(c)) ? COMPLETE : INCOMPLETE;
}

/* An `#if`, `#ifdef` or `#ifndef` whose `#endif` has not come yet? */
static bool conditional_open(const cell *c)
{
    int depth = 0;
    for (size_t i = 0; i < c->tokens.count; i++) {
        const char *word = directive_word(c->source, &c->tokens.items[i]);
        depth += !strncmp(word, "if", 2);
        if (depth) depth -= !strncmp(word, "endif", 5);
    }
    return depth > 0;
}

static completeness of_c(const cell *c, bool continued)
{
    if (c->stray) return INVALID;
    /* A string that its line leaves open is a mistake: no further line can close it. */
    if (c->tokens.open_string) return continued ? INCOMPLETE : INVALID;
    bool unfinished =
        conditional_open(c) || c->unbalanced || continued || c->tokens.open_comment || statement_follows(c);
    return unfinished ? INCOMPLETE : COMPLETE;
}

static completeness completeness_of(const cell *c)
{
    const char *code = c->source, *first = code + strspn(code, " \t\n");
    size_t size = strlen(code);
    bool continued = (size && code[size - 1] == '\\') || (size > 1 && !strcmp(code + size - 2, "\\\n"));
    if (!strncmp(first, "%%", 2)) return of_magic_cell(c);
    char *asked = question_of(first, NULL);
    const char *below = strrchr(first, '\n');
    if (!asked && below) asked = question_of(below + 1 + strspn(below + 1, " \t"), NULL);
    bool question = asked != NULL;
    free(asked);
    if (question) return COMPLETE;
    bool last_is_c = line_is_c(code, size) || continued;
    if (!last_is_c && !c->stray && !c->tokens.open_comment && !bracket_open(c)) return COMPLETE;
    return of_c(c, continued);
}

char *session_is_complete(session *s, const char *code)
{
    static const char *const words[] = {[COMPLETE] = "complete", [INCOMPLETE] = "incomplete", [INVALID] = "invalid"};
    (void)s;
    char *plain = plain_line_ends(code);
    cell c = cell_split(plain);
    completeness found = completeness_of(&c);
    size_t width = found == INCOMPLETE ? indentation(&c) : 0;
    char *spaces = format_text("%*s", (int)width, "");
    json_t *reply = json_pack("{s:s, s:s}", "status", words[found], "indent", spaces);
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    free(spaces);
    cell_free(&c);
    free(plain);
    return need(dump);
}
