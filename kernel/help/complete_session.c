/* Names that earlier cells have defined, and those of the C library that no cell has included yet. See complete.h. */
#define _GNU_SOURCE
#include "diagnostics/standard.h"
#include "help/complete.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct collection {
    const char *start, *tag; /* tag: "struct" when only such tags are wanted */
    matches *into;
} collection;

/* "(int a) -> int", of "int add(int a)". */
static char *call_signature(const entity *e)
{
    const char *name = e->shown ? strstr(e->shown, e->name) : NULL;
    if (!name) return copy_of("");
    const char *type = e->shown;
    for (const char *const *word = (const char *const[]){"static ", "inline ", "extern ", NULL}; *word; word++) {
        if (!strncmp(type, *word, strlen(*word))) type += strlen(*word);
    }
    size_t before = name > type ? (size_t)(name - type) : 0;
    while (before > 0 && type[before - 1] == ' ') before--;
    size_t size = strcspn(name + strlen(e->name), ";");
    return format_text("%.*s -> %.*s", (int)size, name + strlen(e->name), (int)before, type);
}

/* `struct node { … }` defines its tag with that word before it. */
static bool is_such_tag(const entity *e, const char *tag, const char *name)
{
    const char *at = e->shown;
    size_t size = strlen(name);
    for (; at && (at = strstr(at, tag)); at++) {
        const char *word = at + strlen(tag), *found = word + strspn(word, " \t\n");
        if (found > word && !strncmp(found, name, size) && !word_byte(found[size])) return true;
    }
    return false;
}

static const char *type_of(const entity *e, const char *name)
{
    if (e->kind == ENTITY_MACRO) return "macro";
    const char *last = e->shown ? strrchr(e->shown, '}') : NULL;
    bool constant = e->shown && strstr(e->shown, "enum") && !(last && strstr(last, name));
    return constant ? "constant" : "type";
}

static void add_type(const collection *c, const entity *e)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        const char *key = e->defines.items[i], *name = key + 2;
        if (!begins(name, c->start) || begins(name, "unnamed_")) continue;
        bool tag = key[0] == 't';
        if (c->tag ? !tag || !is_such_tag(e, c->tag, name) : tag) continue;
        match_add(c->into, KNOWN, name, tag ? "type" : type_of(e, name), "");
    }
}

static void add_entity(entity *e, void *closure)
{
    const collection *c = closure;
    bool named = e->name && (e->kind == ENTITY_VARIABLE || e->kind == ENTITY_FUNCTION);
    if (!named) {
        add_type(c, e);
    } else if (!c->tag && begins(e->name, c->start)) {
        char *signature = e->kind == ENTITY_FUNCTION ? call_signature(e) : copy_of(e->type ? e->type : "");
        hide_tags(signature);
        match_add(c->into, KNOWN, e->name, e->kind == ENTITY_FUNCTION ? "function" : "instance", signature);
        free(signature);
    }
}

void complete_session(const writing *w, matches *into)
{
    collection c = {w->start, tag_word(w->code, w->word), into};
    symbols_each(w->s->symbols, add_entity, &c);
}

static void add_variable(entity *e, void *closure)
{
    if (e->kind == ENTITY_VARIABLE) add_entity(e, closure);
}

void complete_variables(const session *s, const char *start, matches *into)
{
    collection c = {start, NULL, into};
    symbols_each(s->symbols, add_variable, &c);
}

static void add_far(const char *name, const char *header, void *closure)
{
    char *from = format_text("<%s>", header);
    match_add(closure, FAR, name, isupper((unsigned char)name[0]) ? "constant" : "function", from);
    free(from);
}

enum { LETTERS = 3 }; /* of a name, before all the library's are offered */

/* MPI's, and any other's where nothing nearer fits. */
void complete_library(const writing *w, matches *into)
{
    bool wanted = begins(w->start, "MPI_") || (!into->count && strlen(w->start) >= LETTERS);
    if (wanted && !tag_word(w->code, w->word)) standard_each(&w->s->analyser, w->start, add_far, into);
}
