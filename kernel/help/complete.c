/* Completion: where the cursor is, who knows what fits there, and the reply. Read first: complete.h. */
#define _GNU_SOURCE
#include "help/complete.h"
#include "cells/lexer.h"
#include "diagnostics/nearest.h"
#include "magics/magics.h"
#include "lock.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool begins(const char *name, const char *start)
{
    return !strncmp(name, start, strlen(start));
}

void match_add(matches *into, rank_of_match rank, const char *name, const char *type, const char *signature)
{
    into->items = need_grown(into->items, into->count, &into->capacity, sizeof *into->items);
    into->items[into->count++] = (match){copy_of(name), copy_of(type), copy_of(signature), rank};
}

void match_add_all(matches *into, rank_of_match rank, names *list, const char *type, const char *start)
{
    for (size_t i = 0; i < list->count; i++) {
        if (begins(list->items[i], start)) match_add(into, rank, list->items[i], type, "");
    }
    names_free(list);
}

void matches_free(matches *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].name);
        free(all->items[i].type);
        free(all->items[i].signature);
    }
    free(all->items);
}

static void complete_magic(const session *s, const char *start, matches *into)
{
    for (const magic *m = s->magics; m->name; m++) {
        for (int whole = m->line == NULL; whole <= (m->cell != NULL); whole++) {
            char *name = format_text("%s%s", whole ? "%%" : "%", m->name);
            if (begins(name, start)) match_add(into, KNOWN, name, "magic", m->usage);
            free(name);
        }
    }
}

/* `kolo_fit(model, data, .` : the option's name is being written. Options that the call has already are not offered. */
static bool option_here(const writing *w, matches *into)
{
    const char *code = w->code;
    if (!w->word || code[w->word - 1] != '.') return false;
    size_t before = w->word - 1, begin, end;
    while (before > 0 && isspace((unsigned char)code[before - 1])) before--;
    if (!before || !strchr(",(", code[before - 1]) || !call_around(code, w->word, 0, &begin, &end)) return false;
    char *call = copy_of_bytes(code + begin, end - begin);
    names all = {0};
    bool any = !strncmp(call, "kolo_", 5) && complete_options(w->s, call, w->start, &all);
    for (size_t i = 0; i < all.count; i++) {
        char *given = format_text(".%s =", all.items[i]);
        const char *there = strstr(code + end, given);
        if (!there || there > code + w->word) match_add(into, FITS, all.items[i], "property", call);
        free(given);
    }
    names_free(&all);
    free(call);
    return any;
}

static bool in_directive(const char *code, size_t at)
{
    at = line_start(code, at);
    return code[at + strspn(code + at, " \t")] == '#';
}

typedef enum surroundings { IN_CODE, IN_COMMENT, IN_STRING } surroundings;

/* Tells whether the cursor stands in code, in a comment or in a string, and where the string begins. */
static surroundings surroundings_of(const char *code, size_t cursor, size_t *begin)
{
    char *head = copy_of_bytes(code, cursor);
    token_list tokens = tokens_of(head);
    surroundings where = tokens.open_comment ? IN_COMMENT : IN_CODE;
    size_t behind = tokens.count ? tokens.items[tokens.count - 1].end : 0;
    if (tokens.open_string && tokens.count) {
        where = IN_STRING;
        *begin = tokens.items[tokens.count - 1].begin + 1;
    }
    for (size_t i = behind; where == IN_CODE && i + 1 < cursor; i++) {
        if (head[i] == '/' && head[i + 1] == '/') where = IN_COMMENT;
    }
    tokens_free(&tokens);
    free(head);
    return where;
}

/* `getenv(`, `setenv(`, `unsetenv(` */
static bool asks_for_variable(const char *before)
{
    size_t size = strlen(before);
    while (size && isspace((unsigned char)before[size - 1])) size--;
    return size > 6 && !strncmp(before + size - 4, "env(", 4);
}

/* `#pragma omp …` */
static bool in_openmp(const char *code, size_t at)
{
    at = line_start(code, at);
    char first[8] = "", second[8] = "", third[8] = "";
    int read = sscanf(code + at, " # %7s %7s %7s", first, second, third);
    return read >= 2 && !strcmp(first, "pragma") && !strcmp(second, "omp");
}

/* In a string only file names make sense, once some of one is there; in a character nothing does. */
static size_t complete_string(const writing *w, size_t begin, matches *into)
{
    bool text_here = begin > 0 && w->code[begin - 1] == '"';
    char *before = copy_of_bytes(w->code, begin > 0 ? begin - 1 : 0);
    bool variable = text_here && asks_for_variable(before);
    free(before);
    if (variable) {
        complete_variable(w->s, w->start, into);
        return w->word;
    }
    bool path = text_here && begin < w->cursor && !strpbrk(w->start, "\\%");
    if (!path) return w->word;
    complete_path(w, begin, into);
    return begin;
}

/* Where the word begins that is completed. */
static size_t complete_code(const writing *w, matches *into)
{
    const char *code = w->code;
    if (*w->start && isdigit((unsigned char)*w->start)) return w->word;
    if (option_here(w, into)) return w->word;
    if (in_openmp(code, w->word)) {
        complete_openmp(w->start, into);
        return w->word;
    }
    size_t before = w->word;
    bool member = before > 0 && (code[before - 1] == '.' || (before > 1 && !strncmp(code + before - 2, "->", 2)));
    bool directive = in_directive(code, w->word);
    if (!member && !directive) {
        complete_session(w, into);
        names keywords = {0};
        if (!tag_word(code, w->word)) complete_keywords(w->start, &keywords);
        if (!*w->start) names_free(&keywords); /* all of them are no help */
        match_add_all(into, OTHER, &keywords, "keyword", w->start);
    }
    complete_c(w, into);
    if (!member && !directive) complete_library(w, into);
    bool dot = member && code[before - 1] == '.';
    return dot && !into->count && complete_through_pointer(w, into) ? before - 1 : before;
}

/* Where the word begins that is completed. */
static size_t find_matches(writing *w, matches *into)
{
    size_t percent = w->word, begin = w->word;
    while (percent > 0 && w->code[percent - 1] == '%') percent--;
    if (percent < w->word && (percent == 0 || w->code[percent - 1] == '\n')) {
        char *with_percent = copy_of_bytes(w->code + percent, w->cursor - percent);
        complete_magic(w->s, with_percent, into);
        free(with_percent);
        return percent;
    }
    if (!line_is_c(w->code, w->cursor)) return complete_line(w, into);
    surroundings where = surroundings_of(w->code, w->cursor, &begin);
    if (in_directive(w->code, w->word)) where = IN_CODE; /* #include "… */
    if (where == IN_STRING) return complete_string(w, begin, into);
    if (where == IN_CODE) return complete_code(w, into);
    return w->word;
}

/* By rank, then by name; of the same name the one that says most first. */
static int by_rank(const void *a, const void *b)
{
    const match *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    int order = strcmp(x->name, y->name);
    if (order) return order;
    size_t p = strlen(x->signature), q = strlen(y->signature);
    return (p < q) - (p > q);
}

static int by_name(const void *a, const void *b)
{
    const match *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : by_rank(a, b);
}

/* Each name once, at its best rank, with what says most of it. */
static void settle(matches *all)
{
    if (all->count) qsort(all->items, all->count, sizeof *all->items, by_name);
    matches kept = {0};
    for (size_t i = 0; i < all->count; i++) {
        match *m = &all->items[i], *last = kept.count ? &kept.items[kept.count - 1] : NULL;
        if (!last || strcmp(last->name, m->name)) match_add(&kept, m->rank, m->name, m->type, m->signature);
        else if (strlen(m->signature) > strlen(last->signature)) {
            free(last->signature);
            free(last->type);
            last->signature = copy_of(m->signature);
            last->type = copy_of(m->type);
        }
    }
    matches_free(all);
    *all = kept;
    if (all->count) qsort(all->items, all->count, sizeof *all->items, by_rank);
}

static char *reply_of(const matches *all, int from, int to)
{
    json_t *plain = json_array(), *typed = json_array();
    for (size_t i = 0; i < all->count; i++) {
        const match *m = &all->items[i];
        json_t *name = json_string(m->name);
        if (!name) continue; /* a file's name that is no UTF-8 */
        json_array_append_new(plain, name);
        json_array_append_new(typed, json_pack("{s:s, s:s, s:s, s:i, s:i}", "text", m->name, "type", m->type,
                                               "signature", m->signature, "start", from, "end", to));
    }
    json_t *reply = json_pack("{s:s, s:o, s:i, s:i, s:{s:o}}", "status", "ok", "matches", plain, "cursor_start", from,
                              "cursor_end", to, "metadata", "_jupyter_types_experimental", typed);
    char *dump = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    return need(dump);
}

char *session_complete(session *s, const char *code, int cursor_characters)
{
    bool alone = help_enters(s);
    size_t cursor = bytes_of(code, cursor_characters), word = cursor, end = cursor;
    while (word > 0 && word_byte(code[word - 1])) word--;
    while (word < cursor && word_byte(code[end])) end++; /* the whole word is replaced */
    char *start = copy_of_bytes(code + word, cursor - word);
    matches found = {0};
    size_t begin = find_matches(&(writing){s, code, start, word, cursor}, &found);
    settle(&found);
    char *dump = reply_of(&found, characters_of(code, begin), characters_of(code, end));
    matches_free(&found);
    free(start);
    help_leaves(s, alone);
    return dump;
}
