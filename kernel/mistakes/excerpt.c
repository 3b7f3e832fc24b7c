#include "mistakes/excerpt.h"
#include "colours.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 110, BEFORE_CARET = 60 }; /* columns */

typedef struct letter {
    size_t begin, size; /* bytes */
    unsigned width;     /* columns: 0 of a combining mark, 2 of a wide character */
    bool tab;
} letter;

void excerpt_add_range(excerpt *e, size_t begin, size_t end)
{
    e->ranges = need_grown(e->ranges, e->range_count, &e->range_capacity, sizeof *e->ranges);
    e->ranges[e->range_count++] = (span){begin, end};
}

void excerpt_add_insertion(excerpt *e, size_t at, const char *words)
{
    e->insertions = need_grown(e->insertions, e->insertion_count, &e->insertion_capacity, sizeof *e->insertions);
    e->insertions[e->insertion_count++] = (insertion){at, copy_of(words)};
}

void excerpt_free(excerpt *e)
{
    for (size_t i = 0; i < e->insertion_count; i++) free(e->insertions[i].text);
    free(e->insertions);
    free(e->ranges);
    *e = (excerpt){0};
}

size_t characters_in(const char *line, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes && line[i]; i++) count += ((unsigned char)line[i] & 0xc0) != 0x80;
    return count;
}

/* East Asian wide characters and emoji, by Unicode's blocks; marks that combine with the letter before. */
static unsigned width_of(uint32_t c)
{
    static const struct {
        uint32_t first, last;
        unsigned width;
    } blocks[] = {{0x0300, 0x036f, 0}, {0x200b, 0x200f, 0}, {0xfe00, 0xfe0f, 0},   {0x1100, 0x115f, 2},
                  {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},   {0xfe30, 0xfe6f, 2},
                  {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (c >= blocks[i].first && c <= blocks[i].last) return blocks[i].width;
    }
    return 1;
}

static letter letter_at(const char *line, size_t at)
{
    const unsigned char *p = (const unsigned char *)line + at;
    letter l = {.begin = at, .size = 1, .tab = *p == '\t'};
    uint32_t code = *p < 0x80 ? *p : *p < 0xe0 ? *p & 0x1fu : *p < 0xf0 ? *p & 0x0fu : *p & 0x07u;
    while ((p[l.size] & 0xc0) == 0x80) code = code << 6 | (p[l.size++] & 0x3fu);
    l.width = width_of(code);
    return l;
}

static bool marked(const excerpt *e, const letter *l)
{
    for (size_t i = 0; i < e->range_count; i++) {
        if (l->begin >= e->ranges[i].begin && l->begin < e->ranges[i].end) return true;
    }
    return false;
}

/* The bytes of the line to show: all of it, or what fits around the caret. */
static span window_of(const excerpt *e)
{
    size_t size = strlen(e->source);
    if (characters_in(e->source, size) <= WIDEST) return (span){0, size};
    size_t begin = e->caret > BEFORE_CARET ? e->caret - BEFORE_CARET : 0;
    if (begin + WIDEST > size) begin = size > WIDEST ? size - WIDEST : 0;
    size_t end = begin + WIDEST < size ? begin + WIDEST : size;
    while (begin > 0 && ((unsigned char)e->source[begin] & 0xc0) == 0x80) begin--;
    while (end < size && ((unsigned char)e->source[end] & 0xc0) == 0x80) end++;
    return (span){begin, end};
}

static void add_repeated(text *into, char c, size_t count)
{
    while (count--) text_add_bytes(into, &c, 1);
}

static void trim(text *line)
{
    while (line->size && strchr(" \t", line->data[line->size - 1])) line->data[--line->size] = 0;
}

/* The line's own blanks, so that tabs stand under tabs, up to byte `at`; returns the columns, a tab for one. */
static size_t add_indent(const excerpt *e, span window, size_t at, text *into)
{
    size_t columns = 0;
    for (size_t i = window.begin; i < at && i < window.end;) {
        letter l = letter_at(e->source, i);
        add_repeated(into, l.tab ? '\t' : ' ', l.width);
        columns += l.width;
        i += l.size;
    }
    if (at > window.end) add_repeated(into, ' ', at - window.end);
    return columns + (at > window.end ? at - window.end : 0);
}

static void print_marks(const excerpt *e, span window, const char *lead, text *into)
{
    text marks = {0};
    for (size_t i = window.begin; i < window.end;) {
        letter l = letter_at(e->source, i);
        bool range = marked(e, &l), caret = e->caret >= i && e->caret < i + l.size;
        if (l.tab && !caret) text_add(&marks, "\t");
        else if (l.width) add_repeated(&marks, caret ? '^' : range ? '~' : ' ', 1);
        if (l.width > 1) add_repeated(&marks, range ? '~' : ' ', l.width - 1);
        i += l.size;
    }
    if (e->caret >= window.end) text_add(&marks, "^");
    trim(&marks);
    text_addf(into, "      | %s" BOLD "%s" PLAIN "\n", lead, marks.data ? marks.data : "");
    text_free(&marks);
}

static int by_place(const void *a, const void *b)
{
    const insertion *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* All on one line, as clang has them. */
static void print_insertions(const excerpt *e, span window, const char *lead, text *into)
{
    if (!e->insertion_count) return;
    qsort(e->insertions, e->insertion_count, sizeof *e->insertions, by_place);
    text line = {0};
    size_t filled = 0;
    for (size_t i = 0; i < e->insertion_count; i++) {
        if (e->insertions[i].at < window.begin) continue;
        text indent = {0};
        size_t columns = add_indent(e, window, e->insertions[i].at, &indent);
        if (!line.size && indent.size) text_add(&line, indent.data);
        else if (columns > filled) add_repeated(&line, ' ', columns - filled);
        text_add(&line, e->insertions[i].text);
        filled = (columns > filled ? columns : filled) + characters_in(e->insertions[i].text, SIZE_MAX);
        text_free(&indent);
    }
    trim(&line);
    if (line.size) text_addf(into, "      | %s" BOLD "%s" PLAIN "\n", lead, line.data);
    text_free(&line);
}

void excerpt_print(const excerpt *e, text *into)
{
    span window = window_of(e);
    bool cut_before = window.begin > 0, cut_after = e->source[window.end] != 0;
    const char *lead = cut_before ? " " : "";
    text_addf(into, "%5u | %s%.*s%s\n", e->line, cut_before ? "…" : "", (int)(window.end - window.begin),
              e->source + window.begin, cut_after ? "…" : "");
    print_marks(e, window, lead, into);
    print_insertions(e, window, lead, into);
}
