#define _GNU_SOURCE
#include "outs.h"
#include "cells/declared.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 100, LARGEST = 1 << 16 };

typedef struct kept_value {
    unsigned number;
    char *type;
    char *bytes; /* as C writes them: "1,2,255," */
} kept_value;

struct outs {
    kept_value items[MOST_VALUES]; /* the oldest gives way */
    size_t count;
};

static void free_value(kept_value *one)
{
    free(one->type);
    free(one->bytes);
    *one = (kept_value){0};
}

void outs_keep(session *s, unsigned number, CXType type, const memory *from, uint64_t address, size_t size)
{
    type_facts facts = facts_of(type);
    unsigned char *bytes = need_zeroed(size + 1);
    bool fits = facts.writable && !facts.is_function && facts.size == size && size > 0 && size <= LARGEST &&
                from->read(from->closure, address, size, bytes);
    if (fits) {
        if (!s->outs) s->outs = need_zeroed(sizeof *s->outs);
        kept_value *one = &s->outs->items[s->outs->count++ % MOST_VALUES];
        text list = {0};
        for (size_t i = 0; i < size; i++) text_addf(&list, "%u,", bytes[i]);
        free_value(one);
        *one = (kept_value){number, copy_of(facts.spelling), text_take(&list)};
    }
    free(bytes);
    free(facts.spelling);
    free(facts.plain);
}

static const kept_value *value_of(const session *s, unsigned number)
{
    for (size_t i = 0; s->outs && i < MOST_VALUES; i++) {
        if (s->outs->items[i].type && s->outs->items[i].number == number) return &s->outs->items[i];
    }
    return NULL;
}

static const kept_value *last_value(const session *s)
{
    return s->outs && s->outs->count ? &s->outs->items[(s->outs->count - 1) % MOST_VALUES] : NULL;
}

/* A variable of that name with the value. */
static void define(session *s, const char *name, const kept_value *value, code_runner *run)
{
    char *plain = declared(value->type, name);
    char *code = format_text("%s; { static const unsigned char kolo_bytes[] = {%s}; "
                             "__builtin_memcpy((void *)&%s, kolo_bytes, sizeof %s); }",
                             plain, value->bytes, name, name);
    result r = run(s, code, "Out");
    result_free(&r);
    entity *made = symbols_find_bytes(s->symbols, 'o', name, strlen(name));
    if (made) made->of_outs = true;
    free(code);
    free(plain);
}

bool outs_name(const char *name)
{
    return *name == '_' && !name[1 + strspn(name + 1, "0123456789")];
}

/* Is `Out` at that token followed by `[3]`? */
static bool is_out(const char *code, const token_list *list, size_t at)
{
    const token *t = list->items;
    return at + 3 < list->count && token_is(code, &t[at], "Out") && token_is(code, &t[at + 1], "[") &&
           t[at + 2].kind == TOKEN_NUMBER && token_is(code, &t[at + 3], "]");
}

/* The user's own meaning of the name goes before. */
static bool taken(const session *s, const char *name)
{
    const entity *own = symbols_find_bytes(s->symbols, 'o', name, strlen(name));
    return symbols_find_bytes(s->symbols, 'm', name, strlen(name)) || (own && !own->of_outs);
}

/* `int _`, `double Out[2]`: the cell gives the name a meaning of its own. */
static bool declares(const char *code, const token_list *list, const char *name)
{
    static const char words[] = " return case else do sizeof ";
    for (size_t i = 1; i < list->count; i++) {
        const token *t = &list->items[i], *before = t - 1;
        if (before->kind != TOKEN_NAME || !token_is(code, t, name)) continue;
        char *word = copy_of_bytes(code + before->begin, before->end - before->begin);
        bool type = !word_among(words, word);
        free(word);
        if (type) return true;
    }
    return false;
}

static void define_once(session *s, names *defined, const char *name, const kept_value *value, code_runner *run)
{
    if (!value || names_have(defined, name) || taken(s, name)) return;
    names_add(defined, name);
    define(s, name, value, run);
}

char *outs_named(session *s, const char *code, code_runner *run)
{
    if (!s->outs || (!strstr(code, "Out") && !strchr(code, '_'))) return NULL;
    token_list list = tokens_of(code);
    char *copy = copy_of(code);
    names defined = {0};
    bool own_out = declares(code, &list, "Out") || taken(s, "Out"), own_last = declares(code, &list, "_");
    for (size_t i = 0; i < list.count; i++) {
        const token *t = &list.items[i];
        if (t->kind != TOKEN_NAME || (i && (token_is(code, t - 1, ".") || token_is(code, t - 1, "->")))) continue;
        char *name = copy_of_bytes(code + t->begin, t->end - t->begin);
        bool out = is_out(code, &list, i) && !own_out;
        unsigned number = out ? (unsigned)strtoul(code + t[2].begin, NULL, 10) : (unsigned)strtoul(name + 1, NULL, 10);
        bool last = !strcmp(name, "_") && !own_last && !token_is(code, t + 1, "(");
        if (out && value_of(s, number)) {
            char plain[16];
            int size = snprintf(plain, sizeof plain, "_%u", number);
            define_once(s, &defined, plain, value_of(s, number), run);
            memset(copy + t->begin, ' ', t[3].end - t->begin);
            memcpy(copy + t->begin, plain, (size_t)size);
        } else if (last) {
            define_once(s, &defined, "_", last_value(s), run);
        } else if (outs_name(name) && name[1]) {
            define_once(s, &defined, name, value_of(s, number), run);
        }
        free(name);
    }
    bool any = defined.count > 0;
    names_free(&defined);
    tokens_free(&list);
    if (any) return copy;
    free(copy);
    return NULL;
}

void outs_clear(session *s)
{
    for (size_t i = 0; s->outs && i < MOST_VALUES; i++) free_value(&s->outs->items[i]);
    free(s->outs);
    s->outs = NULL;
}
