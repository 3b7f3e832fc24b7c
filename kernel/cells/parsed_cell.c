/* A parsed cell has one entity for each macro, type, function and variable that the cell defines. See unit.h. */
#define _GNU_SOURCE
#include "cells/needs.h"
#include "cells/unit.h"

#include <ctype.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

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

static parsed_item *add_item(parsed_cell *parsed, entity_kind kind, size_t at_piece)
{
    parsed->items = need_grown(parsed->items, parsed->count, &parsed->capacity, sizeof *parsed->items);
    parsed_item *item = &parsed->items[parsed->count++];
    *item = (parsed_item){.what = entity_new(kind, parsed->serial), .piece = at_piece, .declarator = none};
    const piece *p = &parsed->split.pieces[at_piece];
    used_names(parsed->source, parsed->split.tokens.items, p->first, p->last, &item->what->uses);
    return item;
}

static char *source_range(const parsed_cell *parsed, size_t first, size_t last)
{
    const token *t = parsed->split.tokens.items;
    return last > first ? copy_of_bytes(parsed->source + t[first].begin, t[last - 1].end - t[first].begin)
                        : copy_of("");
}

static void add_key(entity *e, const char *space, const char *name, size_t size)
{
    char *key = format_text("%s:%.*s", space, (int)size, name);
    names_add(&e->defines, key);
    free(key);
}

char *line_directive(const parsed_cell *parsed, unsigned line)
{
    unsigned there;
    const char *file = origin_of(parsed->from, parsed->name, line, &there);
    return format_text("#line %u \"%s\"\n", there, file);
}

static void parse_directive(parsed_cell *parsed, size_t at)
{
    const piece *p = &parsed->split.pieces[at];
    const char *word = directive_word(parsed->source, &parsed->split.tokens.items[p->first]);
    bool undefine = word_at(word, "undef");
    if (!word_at(word, "define") && !undefine) return;
    const char *name = skip_blanks(word + (undefine ? 5 : 6));
    size_t size = word_size(name);
    if (!size) return;
    entity *e = add_item(parsed, ENTITY_MACRO, at)->what;
    add_key(e, "m", name, size);
    e->shown = source_range(parsed, p->first, p->last);
    e->name = copy_of_bytes(name, size);
    char *line = line_directive(parsed, parsed->split.tokens.items[p->first].line);
    e->declaration =
        undefine ? format_text("#undef %s\n", e->name) : format_text("#undef %s\n%s%s\n", e->name, line, e->shown);
    free(line);
}

static bool has_word(const parsed_cell *parsed, size_t first, size_t last, const char *word)
{
    for (size_t i = first; i < last; i++) {
        if (token_is(parsed->source, &parsed->split.tokens.items[i], word)) return true;
    }
    return false;
}

static void parse_type(parsed_cell *parsed, size_t at)
{
    const piece *p = &parsed->split.pieces[at];
    declaration taken = declaration_of(&parsed->split, p);
    names keys = {0};
    defined_names(&parsed->split, p, &keys);
    size_t last = taken.is_typedef ? p->last : taken.specifiers_last;
    entity *e = add_item(parsed, ENTITY_TYPE, at)->what;
    for (size_t i = 0; i < keys.count; i++) {
        bool variable = false;
        for (size_t k = 0; k < taken.count && !taken.is_typedef; k++) {
            if (taken.declarators[k].name == none || keys.items[i][0] != 'o') continue;
            variable |=
                token_is(parsed->source, &parsed->split.tokens.items[taken.declarators[k].name], keys.items[i] + 2);
        }
        if (!variable) names_add(&e->defines, keys.items[i]);
    }
    e->shown = source_range(parsed, p->first, last);
    /* not what is declared with the type: that depends on it */
    type_needs(e, parsed->source, parsed->split.tokens.items, p->first, taken.count ? last : p->last);
    names_free(&keys);
    declaration_free(&taken);
}

static void parse_function(parsed_cell *parsed, size_t at)
{
    const piece *p = &parsed->split.pieces[at];
    declaration taken = declaration_of(&parsed->split, p);
    if (taken.has_body) parse_type(parsed, at);
    parsed_item *item = add_item(parsed, ENTITY_FUNCTION, at);
    size_t name = taken.count ? taken.declarators[0].name : none;
    if (name != none) {
        const token *t = &parsed->split.tokens.items[name];
        item->what->name = copy_of_bytes(parsed->source + t->begin, t->end - t->begin);
        add_key(item->what, "o", item->what->name, strlen(item->what->name));
        item->what->shown = source_range(parsed, p->first, taken.declarators[0].last);
        item->what->defined = true;
        item->constructor = has_word(parsed, p->first, taken.declarators[0].last, "constructor");
    }
    declaration_free(&taken);
}

/* `const int N = 3`: C code may use it where a constant must stand (clang folds it), so later cells see its value. */
static bool may_be_constant(const parsed_cell *parsed, const piece *p, const declaration *taken, const declarator *one)
{
    if (one->value == none || one->first != one->name || one->last != one->name + 1) return false;
    bool fixed = has_word(parsed, p->first, taken->specifiers_last, "const") ||
                 has_word(parsed, p->first, taken->specifiers_last, "constexpr");
    if (!fixed) return false;
    static const char *const others[] = {"volatile", "_Atomic",     "_Thread_local", "thread_local",
                                         "__thread", "__auto_type", "auto",          NULL};
    for (const char *const *word = others; *word; word++) {
        if (has_word(parsed, p->first, taken->specifiers_last, *word)) return false;
    }
    const token *first = &parsed->split.tokens.items[one->value];
    return first->kind != TOKEN_STRING && !token_is(parsed->source, first, "{");
}

static bool asks_threads(const parsed_cell *parsed, size_t first, size_t last)
{
    static const char *const words[] = {"_Thread_local", "thread_local", "__thread", NULL};
    bool asks = false;
    for (const char *const *word = words; *word; word++) asks |= has_word(parsed, first, last, *word);
    return asks;
}

static bool asks_alignment(const parsed_cell *parsed, size_t first, size_t last)
{
    static const char *const words[] = {"_Alignas", "alignas", "aligned", "__aligned__", NULL};
    bool asks = false;
    for (const char *const *word = words; *word; word++) asks |= has_word(parsed, first, last, *word);
    return asks;
}

static void parse_declaration(parsed_cell *parsed, size_t at)
{
    const piece *p = &parsed->split.pieces[at];
    declaration taken = declaration_of(&parsed->split, p);
    if (taken.is_typedef || taken.has_body || !taken.count) parse_type(parsed, at);
    for (size_t i = 0; i < taken.count && !taken.is_typedef; i++) {
        const declarator *one = &taken.declarators[i];
        if (one->name == none) continue;
        parsed_item *item = add_item(parsed, one->is_function ? ENTITY_FUNCTION : ENTITY_VARIABLE, at);
        const token *t = &parsed->split.tokens.items[one->name];
        item->declarator = i;
        item->has_value = one->value != none;
        item->open_array = one->open_bracket != none && item->has_value;
        item->what->threads = asks_threads(parsed, p->first, taken.specifiers_last);
        item->constant = may_be_constant(parsed, p, &taken, one);
        item->aligned = asks_alignment(parsed, p->first, one->last);
        item->what->name = copy_of_bytes(parsed->source + t->begin, t->end - t->begin);
        bool alias = one->is_function && has_word(parsed, one->first, one->last, "alias");
        item->what->defined = one->is_function ? alias : !taken.is_extern || item->has_value;
        item->what->shown = source_range(parsed, p->first, p->last);
        add_key(item->what, "o", item->what->name, strlen(item->what->name));
    }
    declaration_free(&taken);
}

/* An include is hoisted to the prefix with every macro defined before it, by this cell or the session. */
static void parse_prefix(parsed_cell *parsed, const char *session_prefix, const symbols *session)
{
    size_t last = none;
    for (size_t i = 0; i < parsed->split.count; i++) {
        const piece *p = &parsed->split.pieces[i];
        if (!word_at(directive_word(parsed->source, &parsed->split.tokens.items[p->first]), "include")) continue;
        char *line = source_range(parsed, p->first, p->last);
        bool again = strstr(session_prefix, line) && !strstr(line, "assert.h");
        if (!again) last = i;
        free(line);
    }
    text_add(&parsed->prefix, session_prefix);
    if (last == none) return;
    symbols_add_macros(session, &parsed->prefix);
    for (size_t i = 0; i <= last; i++) {
        const piece *p = &parsed->split.pieces[i];
        if (p->kind != PIECE_DIRECTIVE) continue;
        char *line = source_range(parsed, p->first, p->last);
        char *place = line_directive(parsed, parsed->split.tokens.items[p->first].line);
        text_addf(&parsed->prefix, "%s%s\n", place, line);
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

static void index_items(parsed_cell *parsed)
{
    for (size_t i = 0; i < parsed->count; i++) {
        const names *keys = &parsed->items[i].what->defines;
        for (size_t k = 0; k < keys->count; k++) {
            brought *one = need_zeroed(sizeof *one);
            *one = (brought){keys->items[k], i};
            brought **found = need(tsearch(one, &parsed->index, by_key));
            if (*found == one) continue;
            free(one);
            bool better =
                only_declares(parsed->items[(*found)->item].what) && parsed->items[i].what->kind == ENTITY_TYPE;
            if (better) (*found)->item = i;
        }
    }
}

parsed_cell parsed_cell_of(const char *source, const char *name, unsigned serial, const char *session_prefix,
                           const symbols *session)
{
    return parsed_cell_from(source, name, serial, session_prefix, session, NULL);
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
static bool macro_controls(const parsed_cell *parsed, size_t at, const symbols *session)
{
    const piece *p = &parsed->split.pieces[at];
    const token *t = &parsed->split.tokens.items[p->first];
    if (p->kind != PIECE_FUNCTION || !token_is(parsed->source, t + 1, "(")) return false;
    bool found = symbols_find_bytes(session, 'm', parsed->source + t->begin, t->end - t->begin) != NULL;
    for (size_t i = 0; i < parsed->count && !found; i++) {
        const entity *e = parsed->items[i].what;
        found = e->kind == ENTITY_MACRO && token_is(parsed->source, t, e->name);
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

parsed_cell parsed_cell_from(const char *source, const char *name, unsigned serial, const char *session_prefix,
                             const symbols *session, const origins *from)
{
    parsed_cell parsed = {.source = copy_of(source), .name = copy_of(name), .serial = serial, .from = from};
    cell_number(name, &serial);
    parsed.function = format_text("In_%u", serial);
    parsed.split = cell_split(parsed.source);
    for (size_t i = 0; i < parsed.split.count; i++) {
        if (nameless(&parsed.split, &parsed.split.pieces[i])) parsed.split.pieces[i].kind = PIECE_BROKEN;
        if (macro_controls(&parsed, i, session)) parsed.split.pieces[i].kind = PIECE_STATEMENT;
        piece_kind kind = parsed.split.pieces[i].kind;
        if (kind == PIECE_DIRECTIVE) parse_directive(&parsed, i);
        if (kind == PIECE_FUNCTION) parse_function(&parsed, i);
        if (kind == PIECE_DECLARATION) parse_declaration(&parsed, i);
        if (kind == PIECE_EXPRESSION) parsed.has_value = true;
        if (kind == PIECE_STATEMENT || kind == PIECE_EXPRESSION) parsed.has_code = true;
    }
    for (size_t i = 0; i < parsed.count; i++) {
        entity *e = parsed.items[i].what;
        if (e->kind == ENTITY_VARIABLE && e->threads && e->defined) e->natural = true;
        if ((e->kind == ENTITY_VARIABLE && e->defined) || parsed.items[i].constructor) parsed.has_code = true;
    }
    parse_prefix(&parsed, session_prefix, session);
    index_items(&parsed);
    return parsed;
}

bool parsed_cell_undo_macros(parsed_cell *parsed, const symbols *session)
{
    const parsed_item *items = parsed->items;
    for (size_t i = 0; i < parsed->count; i++) {
        const entity *e = items[i].what;
        for (size_t k = 0; e->kind != ENTITY_MACRO && k < e->defines.count; k++) {
            char *key = format_text("m:%s", e->defines.items[k] + 2);
            if (symbols_find(session, key) && !parsed_cell_find(parsed, key) && !names_have(&parsed->undone, key + 2))
                names_add(&parsed->undone, key + 2);
            free(key);
        }
    }
    return parsed->undone.count > 0;
}

parsed_item *parsed_cell_find(const parsed_cell *parsed, const char *key)
{
    brought wanted = {.key = key};
    brought **found = tfind(&wanted, &parsed->index, by_key);
    return found ? &parsed->items[(*found)->item] : NULL;
}

void parsed_cell_free(parsed_cell *parsed)
{
    tdestroy(parsed->index, free);
    for (size_t i = 0; i < parsed->count; i++) entity_free(parsed->items[i].what);
    free(parsed->items);
    cell_free(&parsed->split);
    free(parsed->source);
    free(parsed->name);
    free(parsed->function);
    text_free(&parsed->prefix);
    free(parsed->again);
    free(parsed->recheck);
    free(parsed->recheck_offset);
    names_free(&parsed->packing);
    names_free(&parsed->undone);
    free(parsed->bounds);
    names_free(&parsed->asked);
    *parsed = (parsed_cell){0};
}
