/* What a cell defines: one entity a macro, a type, a function, a variable. See unit.h. */
#define _GNU_SOURCE
#include "cells/needs.h"
#include "cells/unit.h"

#include <ctype.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static bool word_at(const char *p, const char *word)
{
    size_t size = strlen(word);
    return !strncmp(p, word, size) && !(isalnum((unsigned char)p[size]) || p[size] == '_');
}

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t' || (p[0] == '\\' && p[1] == '\n')) p += *p == '\\' ? 2 : 1;
    return p;
}

/* The word after '#'. */
static const char *directive_word(const cell *c, const piece *p)
{
    return skip_blanks(c->source + c->tokens.items[p->first].begin + 1);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void add_use(const char *bytes, size_t size, names *into, void **seen)
{
    char *name = copy_of_bytes(bytes, size);
    char **found = need(tsearch(name, seen, by_text));
    if (*found == name) names_add_bytes(into, bytes, size);
    if (*found != name) free(name);
}

static void collect(const char *source, const token *tokens, size_t first, size_t last, names *into, void **seen)
{
    for (size_t i = first; i < last; i++) {
        if (tokens[i].kind == TOKEN_NAME)
            add_use(source + tokens[i].begin, tokens[i].end - tokens[i].begin, into, seen);
        if (tokens[i].kind != TOKEN_DIRECTIVE) continue;
        char *inner = copy_of_bytes(source + tokens[i].begin + 1, tokens[i].end - tokens[i].begin - 1);
        token_list list = tokens_of(inner);
        collect(inner, list.items, 0, list.count, into, seen);
        tokens_free(&list);
        free(inner);
    }
}

void used_names(const char *source, const token *tokens, size_t first, size_t last, names *into)
{
    void *seen = NULL;
    collect(source, tokens, first, last, into, &seen);
    tdestroy(seen, free);
}

static draft_item *add_item(draft *d, entity_kind kind, size_t at_piece)
{
    d->items = need_grown(d->items, d->count, &d->capacity, sizeof *d->items);
    draft_item *item = &d->items[d->count++];
    *item = (draft_item){.what = entity_new(kind, d->serial), .piece = at_piece, .declarator = none};
    const piece *p = &d->split.pieces[at_piece];
    used_names(d->source, d->split.tokens.items, p->first, p->last, &item->what->uses);
    return item;
}

static char *source_range(const draft *d, size_t first, size_t last)
{
    const token *t = d->split.tokens.items;
    return last > first ? copy_of_bytes(d->source + t[first].begin, t[last - 1].end - t[first].begin) : copy_of("");
}

static void add_key(entity *e, const char *space, const char *name, size_t size)
{
    char *key = format_text("%s:%.*s", space, (int)size, name);
    names_add(&e->defines, key);
    free(key);
}

char *line_directive(const draft *d, unsigned line)
{
    unsigned there;
    const char *file = origin_of(d->from, d->name, line, &there);
    return format_text("#line %u \"%s\"\n", there, file);
}

static void draft_directive(draft *d, size_t at)
{
    const piece *p = &d->split.pieces[at];
    const char *word = directive_word(&d->split, p);
    bool undefine = word_at(word, "undef");
    if (!word_at(word, "define") && !undefine) return;
    const char *name = skip_blanks(word + (undefine ? 5 : 6));
    size_t size = 0;
    while (isalnum((unsigned char)name[size]) || name[size] == '_') size++;
    if (!size) return;
    entity *e = add_item(d, ENTITY_MACRO, at)->what;
    add_key(e, "m", name, size);
    e->shown = source_range(d, p->first, p->last);
    e->name = copy_of_bytes(name, size);
    char *line = line_directive(d, d->split.tokens.items[p->first].line);
    e->declaration =
        undefine ? format_text("#undef %s\n", e->name) : format_text("#undef %s\n%s%s\n", e->name, line, e->shown);
    free(line);
}

static bool has_word(const draft *d, size_t first, size_t last, const char *word)
{
    for (size_t i = first; i < last; i++) {
        if (token_is(d->source, &d->split.tokens.items[i], word)) return true;
    }
    return false;
}

static void draft_type(draft *d, size_t at)
{
    const piece *p = &d->split.pieces[at];
    declaration taken = declaration_of(&d->split, p);
    names keys = {0};
    defined_names(&d->split, p, &keys);
    size_t last = taken.is_typedef ? p->last : taken.specifiers_last;
    entity *e = add_item(d, ENTITY_TYPE, at)->what;
    for (size_t i = 0; i < keys.count; i++) {
        bool variable = false;
        for (size_t k = 0; k < taken.count && !taken.is_typedef; k++) {
            if (taken.declarators[k].name == none || keys.items[i][0] != 'o') continue;
            variable |= token_is(d->source, &d->split.tokens.items[taken.declarators[k].name], keys.items[i] + 2);
        }
        if (!variable) names_add(&e->defines, keys.items[i]);
    }
    e->shown = source_range(d, p->first, last);
    /* not what is declared with the type: that depends on it */
    type_needs(e, d->source, d->split.tokens.items, p->first, taken.count ? last : p->last);
    names_free(&keys);
    declaration_free(&taken);
}

static void draft_function(draft *d, size_t at)
{
    const piece *p = &d->split.pieces[at];
    declaration taken = declaration_of(&d->split, p);
    if (taken.has_body) draft_type(d, at);
    draft_item *item = add_item(d, ENTITY_FUNCTION, at);
    size_t name = taken.count ? taken.declarators[0].name : none;
    if (name != none) {
        const token *t = &d->split.tokens.items[name];
        item->what->name = copy_of_bytes(d->source + t->begin, t->end - t->begin);
        add_key(item->what, "o", item->what->name, strlen(item->what->name));
        item->what->shown = source_range(d, p->first, taken.declarators[0].last);
        item->what->defined = true;
        item->constructor = has_word(d, p->first, taken.declarators[0].last, "constructor");
    }
    declaration_free(&taken);
}

/* `const int N = 3`: C code may use it where a constant must stand (clang folds it), so later cells see its value. */
static bool may_be_constant(const draft *d, const piece *p, const declaration *taken, const declarator *one)
{
    if (one->value == none || one->first != one->name || one->last != one->name + 1) return false;
    bool fixed = has_word(d, p->first, taken->specifiers_last, "const") ||
                 has_word(d, p->first, taken->specifiers_last, "constexpr");
    if (!fixed) return false;
    static const char *const others[] = {"volatile", "_Atomic",     "_Thread_local", "thread_local",
                                         "__thread", "__auto_type", "auto",          NULL};
    for (const char *const *word = others; *word; word++) {
        if (has_word(d, p->first, taken->specifiers_last, *word)) return false;
    }
    const token *first = &d->split.tokens.items[one->value];
    return first->kind != TOKEN_STRING && !token_is(d->source, first, "{");
}

static bool asks_threads(const draft *d, size_t first, size_t last)
{
    static const char *const words[] = {"_Thread_local", "thread_local", "__thread", NULL};
    bool asks = false;
    for (const char *const *word = words; *word; word++) asks |= has_word(d, first, last, *word);
    return asks;
}

static bool asks_alignment(const draft *d, size_t first, size_t last)
{
    static const char *const words[] = {"_Alignas", "alignas", "aligned", "__aligned__", NULL};
    bool asks = false;
    for (const char *const *word = words; *word; word++) asks |= has_word(d, first, last, *word);
    return asks;
}

static void draft_declaration(draft *d, size_t at)
{
    const piece *p = &d->split.pieces[at];
    declaration taken = declaration_of(&d->split, p);
    if (taken.is_typedef || taken.has_body || !taken.count) draft_type(d, at);
    for (size_t i = 0; i < taken.count && !taken.is_typedef; i++) {
        const declarator *one = &taken.declarators[i];
        if (one->name == none) continue;
        draft_item *item = add_item(d, one->is_function ? ENTITY_FUNCTION : ENTITY_VARIABLE, at);
        const token *t = &d->split.tokens.items[one->name];
        item->declarator = i;
        item->has_value = one->value != none;
        item->open_array = one->open_bracket != none && item->has_value;
        item->what->threads = asks_threads(d, p->first, taken.specifiers_last);
        item->constant = may_be_constant(d, p, &taken, one);
        item->aligned = asks_alignment(d, p->first, one->last);
        item->what->name = copy_of_bytes(d->source + t->begin, t->end - t->begin);
        bool alias = one->is_function && has_word(d, one->first, one->last, "alias");
        item->what->defined = one->is_function ? alias : !taken.is_extern || item->has_value;
        item->what->shown = source_range(d, p->first, p->last);
        add_key(item->what, "o", item->what->name, strlen(item->what->name));
    }
    declaration_free(&taken);
}

/* An include is hoisted to the prefix with every macro defined before it, by this cell or the session. */
static void draft_prefix(draft *d, const char *session_prefix, const symbols *session)
{
    size_t last = none;
    for (size_t i = 0; i < d->split.count; i++) {
        const piece *p = &d->split.pieces[i];
        if (p->kind != PIECE_DIRECTIVE || !word_at(directive_word(&d->split, p), "include")) continue;
        char *line = source_range(d, p->first, p->last);
        bool again = strstr(session_prefix, line) && !strstr(line, "assert.h");
        if (!again) last = i;
        free(line);
    }
    text_add(&d->prefix, session_prefix);
    if (last == none) return;
    symbols_add_macros(session, &d->prefix);
    for (size_t i = 0; i <= last; i++) {
        const piece *p = &d->split.pieces[i];
        if (p->kind != PIECE_DIRECTIVE) continue;
        char *line = source_range(d, p->first, p->last);
        char *place = line_directive(d, d->split.tokens.items[p->first].line);
        text_addf(&d->prefix, "%s%s\n", place, line);
        free(place);
        free(line);
    }
}

/* The first item that brings a key: a prototype before its definition, …; but not `struct node;` alone. */
typedef struct brought {
    const char *key; /* the item's */
    size_t item;
} brought;

static int by_key(const void *a, const void *b)
{
    return strcmp(((const brought *)a)->key, ((const brought *)b)->key);
}

static void index_items(draft *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const names *keys = &d->items[i].what->defines;
        for (size_t k = 0; k < keys->count; k++) {
            brought *one = need_zeroed(sizeof *one);
            *one = (brought){keys->items[k], i};
            brought **found = need(tsearch(one, &d->index, by_key));
            if (*found == one) continue;
            free(one);
            bool better = only_declares(d->items[(*found)->item].what) && d->items[i].what->kind == ENTITY_TYPE;
            if (better) (*found)->item = i;
        }
    }
}

draft draft_of(const char *source, const char *name, unsigned serial, const char *session_prefix,
               const symbols *session)
{
    return draft_from(source, name, serial, session_prefix, session, NULL);
}

/* A declaration that declares nothing, or goes on past its last name, is for clang to reject as it stands. */
static bool nameless(const cell *c, const piece *p)
{
    if (p->kind != PIECE_DECLARATION) return false;
    declaration taken = declaration_of(c, p);
    bool missing = p->unfinished && (!p->open || !taken.has_body); /* its `;`, say */
    for (size_t i = 0; i < taken.count; i++) missing |= taken.declarators[i].name == none;
    declaration_free(&taken);
    return missing;
}

/* `each(int *i, list) { … }` looks like a function without a type, and is a macro's loop. */
static bool macro_controls(const draft *d, size_t at, const symbols *session)
{
    const piece *p = &d->split.pieces[at];
    const token *t = &d->split.tokens.items[p->first];
    if (p->kind != PIECE_FUNCTION || !token_is(d->source, t + 1, "(")) return false;
    bool found = symbols_find_bytes(session, 'm', d->source + t->begin, t->end - t->begin) != NULL;
    for (size_t i = 0; i < d->count && !found; i++) {
        const entity *e = d->items[i].what;
        found = e->kind == ENTITY_MACRO && token_is(d->source, t, e->name);
    }
    return found;
}

bool cell_number(const char *name, unsigned *number)
{
    char *end;
    if (strncmp(name, "In[", 3) || !isdigit((unsigned char)name[3])) return false;
    unsigned long found = strtoul(name + 3, &end, 10);
    if (*end != ']') return false;
    *number = (unsigned)found;
    return true;
}

draft draft_from(const char *source, const char *name, unsigned serial, const char *session_prefix,
                 const symbols *session, const origins *from)
{
    draft d = {.source = copy_of(source), .name = copy_of(name), .serial = serial, .from = from};
    cell_number(name, &serial);
    d.function = format_text("In_%u", serial);
    d.split = cell_split(d.source);
    for (size_t i = 0; i < d.split.count; i++) {
        if (nameless(&d.split, &d.split.pieces[i])) d.split.pieces[i].kind = PIECE_BROKEN;
        if (macro_controls(&d, i, session)) d.split.pieces[i].kind = PIECE_STATEMENT;
        piece_kind kind = d.split.pieces[i].kind;
        if (kind == PIECE_DIRECTIVE) draft_directive(&d, i);
        if (kind == PIECE_FUNCTION) draft_function(&d, i);
        if (kind == PIECE_DECLARATION) draft_declaration(&d, i);
        if (kind == PIECE_EXPRESSION) d.has_value = true;
        if (kind == PIECE_STATEMENT || kind == PIECE_EXPRESSION) d.has_code = true;
    }
    for (size_t i = 0; i < d.count; i++) {
        entity *e = d.items[i].what;
        if (e->kind == ENTITY_VARIABLE && e->threads && e->defined) e->natural = true;
        if ((e->kind == ENTITY_VARIABLE && e->defined) || d.items[i].constructor) d.has_code = true;
    }
    draft_prefix(&d, session_prefix, session);
    index_items(&d);
    return d;
}

bool draft_undo_macros(draft *d, const symbols *session)
{
    for (size_t i = 0; i < d->count; i++) {
        const entity *e = d->items[i].what;
        for (size_t k = 0; e->kind != ENTITY_MACRO && k < e->defines.count; k++) {
            char *key = format_text("m:%s", e->defines.items[k] + 2);
            if (symbols_find(session, key) && !draft_find(d, key) && !names_have(&d->undone, key + 2))
                names_add(&d->undone, key + 2);
            free(key);
        }
    }
    return d->undone.count > 0;
}

draft_item *draft_find(const draft *d, const char *key)
{
    brought wanted = {.key = key};
    brought **found = tfind(&wanted, &d->index, by_key);
    return found ? &d->items[(*found)->item] : NULL;
}

void draft_free(draft *d)
{
    tdestroy(d->index, free);
    for (size_t i = 0; i < d->count; i++) entity_free(d->items[i].what);
    free(d->items);
    cell_free(&d->split);
    free(d->source);
    free(d->name);
    free(d->function);
    text_free(&d->prefix);
    free(d->again);
    free(d->recheck);
    free(d->recheck_offset);
    names_free(&d->packing);
    names_free(&d->undone);
    free(d->bounds);
    names_free(&d->asked);
    *d = (draft){0};
}
