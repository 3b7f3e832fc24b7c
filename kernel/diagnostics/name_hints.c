/* A name that nobody knows: the header that declares it, the cell that failed to define it, the type it lacks. */
#include "diagnostics/standard.h"
#include "diagnostics/hints.h"
#include "diagnostics/lint.h"
#include "cells/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_BACK = 200 };

/* The name that clang does not know. */
static char *unknown_name(const char *message)
{
    static const char *const before[] = {"undeclared identifier '", "undeclared function '",
                                         "undeclared library function '", "unknown type name '"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const char *at = strstr(message, before[i]);
        if (at) return quoted(at, 1);
    }
    return NULL;
}

bool of_other_language(const char *message)
{
    char *name = unknown_name(message), *say = name ? foreign_word(name) : NULL;
    bool other = say != NULL;
    free(say);
    free(name);
    return other;
}

static bool names_have_name(const names *keys, const char *name)
{
    bool any = false;
    for (size_t i = 0; i < keys->count; i++) any |= !strcmp(keys->items[i] + 2, name);
    return any;
}

static bool defines(const char *source, const char *name)
{
    cell c = cell_split(source);
    names found = {0};
    for (size_t i = 0; i < c.count; i++) defined_names(&c, &c.pieces[i], &found);
    bool any = names_have_name(&found, name) && !names_have_name(&found, "main"); /* a program's names are its own */
    names_free(&found);
    cell_free(&c);
    return any;
}

/* The fate of the last cell before this one whose text defines a name that the session does not know. */
static cell_fate earlier_fate(const complaint *c, const char *name, unsigned *found_in)
{
    unsigned number = 0;
    if (!cell_number(c->cell_name, &number)) return FATE_UNKNOWN;
    for (unsigned back = 1; back < CELLS_BACK && back < number; back++) {
        char *cell_name = format_text("In[%u]", *found_in = number - back);
        char *source = c->earlier(c->closure, cell_name, 0);
        bool found = source && strstr(source, name) && defines(source, name);
        cell_fate became = found ? c->fate_of(c->closure, cell_name) : FATE_UNKNOWN;
        free(source);
        free(cell_name);
        if (became != FATE_UNKNOWN) return became;
    }
    return FATE_UNKNOWN;
}

/* A variable that was dropped when its type changed: clang may know a name that is like it. */
static char *about_ended(const complaint *c, const char *name)
{
    unsigned number = 0;
    bool ended = symbols_ended(c->session, name) && earlier_fate(c, name, &number) == FATE_RAN;
    return ended ? format_text("'%s' of In[%u] was dropped when its type changed: run that cell again", name, number)
                 : NULL;
}

static char *about_earlier(const complaint *c, const char *name)
{
    if (symbols_find_bytes(c->session, 'o', name, strlen(name))) {
        if (!whole_program(c->analyser)) return NULL;
        return format_text("the program of %%%%run does not see what cells have defined: define %s in it", name);
    }
    unsigned number = 0;
    switch (earlier_fate(c, name, &number)) {
    case FATE_FAILED:
        return format_text("In[%u] defines '%s', but it failed: correct it and run it again", number, name);
    case FATE_RESET: return format_text("%%reset has deleted '%s' of In[%u]: run that cell again", name, number);
    default: return NULL;
    }
}

/* `x = 3` where nothing has declared x. */
static bool assigned(const complaint *c)
{
    if (!token_here(c, 1, "=")) return false;
    if (!c->here || c->here > c->tokens->count) return true;
    const token *before = &c->tokens->items[c->here - 1];
    return token_is(c->source, before, ";") || token_is(c->source, before, "{") || token_is(c->source, before, "}") ||
           before->kind == TOKEN_DIRECTIVE;
}

static bool session_has_tag(const complaint *c, const char *name)
{
    return symbols_find_bytes(c->session, 't', name, strlen(name)) != NULL;
}

/* A variable whose type the cell itself changes, and so drops. */
static char *about_dropped(const complaint *c, const char *name)
{
    const entity *known = symbols_find_bytes(c->session, 'o', name, strlen(name));
    if (!known || !known->gone) return NULL;
    return format_text("this cell changes the type of '%s': declare '%s' again in it", name, name);
}

/* Out[3] and _3, which kernel/outs.c defines where there is such a value. */
static char *about_out(const complaint *c, const char *name)
{
    char *number = strcmp(name, "Out") ? copy_of(name + 1) : token_text(c, 2), *hint = NULL;
    bool out = !strcmp(name, "Out") ? token_here(c, 1, "[") : *name == '_';
    if (out && *number && !number[strspn(number, "0123456789")])
        hint = format_text("Out[%s] and _%s are the value of In[%s], and it has left none", number, number, number);
    free(number);
    return hint;
}

static bool session_has(const complaint *c, const char *name)
{
    return symbols_find_bytes(c->session, 'o', name, strlen(name)) || session_has_tag(c, name);
}

char *hint_about_name(const complaint *c)
{
    char *name = unknown_name(c->message), *hint = NULL;
    if (!name) return NULL;
    if ((hint = about_dropped(c, name)) || (hint = about_out(c, name)) || (hint = about_ended(c, name)))
        return free(name), hint;
    bool is_type = strstr(c->message, "unknown type name") != NULL;
    bool close = strstr(c->message, "did you mean '") != NULL;
    bool called = strstr(c->message, "undeclared function '") != NULL; /* write(), which is no fwrite() misspelt */
    const char *header = close && !called ? NULL : standard_declaring(c->analyser, name);
    if (is_type && session_has_tag(c, name))
        hint = format_text("write struct %s, or give it a name with typedef", name);
    else if (!close && (hint = about_earlier(c, name))) return free(name), hint;
    else if (!(hint = foreign_word(name)) && header) hint = format_text("#include <%s> declares %s", header, name);
    else if (!hint && !close && !is_type && assigned(c))
        hint = format_text("a variable is declared before its first use: int %s = …;", name);
    else if (!hint && !close && !whole_program(c->analyser) && !session_has(c, name))
        hint = copy_of("no cell that has run since the kernel started declares this name: if a cell above does, run "
                       "that one first");
    free(name);
    return hint;
}
