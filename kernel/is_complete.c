/* Whether a cell is complete, and how far its next line is indented. Read first: help.h, cells/split.h. */
#define _GNU_SOURCE
#include "cells/split.h"
#include "help.h"

#include <stdlib.h>
#include <string.h>

/* As deep as the brackets that are open. */
static char *indentation(const cell *c)
{
    int depth = 0;
    for (size_t i = 0; i < c->tokens.count; i++) {
        if (c->tokens.items[i].kind != TOKEN_PUNCTUATION || c->tokens.items[i].end - c->tokens.items[i].begin != 1)
            continue;
        char b = c->source[c->tokens.items[i].begin];
        depth += (b == '{' || b == '(' || b == '[') - (b == '}' || b == ')' || b == ']');
    }
    text spaces = {0};
    for (; depth > 0; depth--) text_add(&spaces, "    ");
    return text_take(&spaces);
}

/* A string or character that its line leaves open is a mistake: no further line can close it. */
static bool open_string(const cell *c)
{
    return c->tokens.open_string;
}

static bool bracket_open(const cell *c)
{
    char *spaces = indentation(c);
    bool open = *spaces != 0;
    free(spaces);
    return open;
}

char *session_is_complete(session *s, const char *code)
{
    (void)s;
    cell c = cell_split(code);
    size_t size = strlen(code);
    bool continued = size && code[size - 1] == '\\';
    const char *first = code + strspn(code, " \t\n"), *last = strrchr(code, '\n');
    const char *line = last ? last + 1 : code;
    bool cell_magic = !strncmp(first, "%%", 2);
    bool blank_last = size && last && line[strspn(line, " \t")] == 0; /* an empty line ends what it can */
    bool line_magic = !cell_magic && !line_is_c(code, size) && !continued;
    char *asked = question_of(first, NULL);
    bool unfinished = c.unbalanced || continued || c.tokens.open_comment;
    bool done = blank_last && (!bracket_open(&c) || (size > 1 && code[size - 2] == '\n'));
    const char *status = cell_magic                                                  ? done ? "complete" : "incomplete"
                         : asked                                                     ? "complete"
                         : c.stray                                                   ? "invalid"
                         : open_string(&c) && !continued                             ? "invalid"
                         : line_magic && !c.tokens.open_comment && !bracket_open(&c) ? "complete"
                         : unfinished                                                ? "incomplete"
                                                                                     : "complete";
    free(asked);
    char *spaces = strcmp(status, "incomplete") ? copy_of("") : indentation(&c);
    json_t *reply = json_pack("{s:s, s:s}", "status", status, "indent", spaces);
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    free(spaces);
    cell_free(&c);
    return need(dump);
}
