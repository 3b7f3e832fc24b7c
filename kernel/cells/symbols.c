#define _GNU_SOURCE
#include "cells/symbols.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct named_link {
    char *link, *name, *type;
} named_link;

typedef struct node {
    char *key;
    entity *what;
    unsigned version;
} node;

struct symbols {
    void *tree, *versions;
    entity **order; /* NULL where one was dropped */
    size_t count, capacity, dropped;
    named_link *links;
    size_t link_count, link_capacity;
    names packing, headers[2], ended;
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const node *)a)->key, ((const node *)b)->key);
}

static void free_node(void *memory)
{
    free(((node *)memory)->key);
    free(memory);
}

symbols *symbols_open(void)
{
    return need_zeroed(sizeof(symbols));
}

void symbols_close(symbols *s)
{
    if (!s) return;
    tdestroy(s->tree, free_node);
    tdestroy(s->versions, free_node);
    for (size_t i = 0; i < s->count; i++) entity_free(s->order[i]);
    free(s->order);
    for (size_t i = 0; i < s->link_count; i++) {
        free(s->links[i].link);
        free(s->links[i].name);
        free(s->links[i].type);
    }
    free(s->links);
    names_free(&s->packing);
    names_free(&s->headers[0]);
    names_free(&s->headers[1]);
    names_free(&s->ended);
    free(s);
}

entity *entity_new(entity_kind kind, unsigned serial)
{
    entity *e = need_zeroed(sizeof *e);
    e->kind = kind;
    e->serial = serial;
    return e;
}

void entity_free(entity *e)
{
    if (!e) return;
    names_free(&e->defines);
    names_free(&e->uses);
    names_free(&e->dependencies);
    names_free(&e->forward_dependencies);
    free(e->declaration);
    free(e->shown);
    free(e->definition);
    free(e->name);
    free(e->link);
    free(e->type);
    free(e->plain);
    free(e->constant);
    free(e->unfit);
    free(e);
}

entity *symbols_find(const symbols *s, const char *key)
{
    node wanted = {.key = (char *)(uintptr_t)key};
    node **found = tfind(&wanted, &s->tree, by_key);
    return found ? (*found)->what : NULL;
}

entity *symbols_find_bytes(const symbols *s, char space, const char *name, size_t size)
{
    char key[256];
    if (size + 3 > sizeof key) return NULL;
    snprintf(key, sizeof key, "%c:%.*s", space, (int)size, name);
    return symbols_find(s, key);
}

static void remove_entity(symbols *s, entity *e)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        node wanted = {.key = e->defines.items[i]};
        node **found = tfind(&wanted, &s->tree, by_key);
        if (!found || (*found)->what != e) continue;
        node *gone = *found;
        tdelete(&wanted, &s->tree, by_key);
        free_node(gone);
    }
    for (size_t i = s->count; i-- > 0;) {
        if (s->order[i] != e) continue;
        s->order[i] = NULL;
        s->dropped++;
        break;
    }
    entity_free(e);
}

void symbols_drop(symbols *s, const char *key)
{
    entity *e = symbols_find(s, key);
    if (e) remove_entity(s, e);
}

static void close_gaps(symbols *s)
{
    if (s->dropped < 64 || s->dropped * 2 < s->count) return;
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->order[i]) s->order[kept++] = s->order[i];
    }
    s->count = kept;
    s->dropped = 0;
}

void symbols_put(symbols *s, entity *e)
{
    for (size_t i = 0; i < e->defines.count; i++) symbols_drop(s, e->defines.items[i]);
    for (size_t i = 0; i < e->defines.count; i++) {
        node *one = need_zeroed(sizeof *one);
        one->key = copy_of(e->defines.items[i]);
        one->what = e;
        need(tsearch(one, &s->tree, by_key));
    }
    close_gaps(s);
    s->order = need_grown(s->order, s->count, &s->capacity, sizeof *s->order);
    s->order[s->count++] = e;
}

void symbols_each(const symbols *s, void (*visit)(entity *e, void *closure), void *closure)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->order[i]) visit(s->order[i], closure);
    }
}

static void add_macro(entity *e, void *closure)
{
    if (e->kind == ENTITY_MACRO) text_add(closure, e->declaration);
}

void symbols_add_macros(const symbols *s, text *into)
{
    symbols_each(s, add_macro, into);
}

static bool same(const char *a, const char *b)
{
    return !strcmp(a, b);
}

void symbols_remember_link(symbols *s, const char *link, const char *name, const char *type)
{
    if (symbols_name_of(s, link, NULL)) return;
    s->links = need_grown(s->links, s->link_count, &s->link_capacity, sizeof *s->links);
    s->links[s->link_count++] = (named_link){copy_of(link), copy_of(name), copy_of(type)};
}

const char *symbols_link_of(const symbols *s, const char *name, const char *type)
{
    for (size_t i = 0; i < s->link_count; i++) {
        if (same(s->links[i].name, name) && same(s->links[i].type, type)) return s->links[i].link;
    }
    return NULL;
}

const char *symbols_name_of(const symbols *s, const char *link, const char **type)
{
    for (size_t i = 0; i < s->link_count; i++) {
        if (!same(s->links[i].link, link)) continue;
        if (type) *type = s->links[i].type;
        return s->links[i].name;
    }
    return NULL;
}

void symbols_end(symbols *s, const char *key)
{
    if (!names_have(&s->ended, key + 2)) names_add(&s->ended, key + 2);
    symbols_drop(s, key);
}

bool symbols_ended(const symbols *s, const char *name)
{
    return names_have(&s->ended, name);
}

names *symbols_headers(symbols *s, bool at_ranks)
{
    return &s->headers[at_ranks];
}

names *symbols_packing(symbols *s)
{
    return &s->packing;
}

unsigned symbols_next_version(symbols *s, const char *name)
{
    node wanted = {.key = (char *)(uintptr_t)name};
    node **found = tfind(&wanted, &s->versions, by_key);
    if (found) return ++(*found)->version;
    node *one = need_zeroed(sizeof *one);
    one->key = copy_of(name);
    one->version = 1;
    need(tsearch(one, &s->versions, by_key));
    return 1;
}
