/* A cell with arrays whose size is known only when it runs, `double v[n];`. C has them in functions alone, where they
 * end with the call; a cell's variables live on. So the cell runs in stages: what stands before such an array, then its
 * size, then the rest with an array of that size. That the whole compiles has been seen before. Read first: build.h. */
#define _GNU_SOURCE
#include "build.h"

#include <stdlib.h>
#include <string.h>

/* A copy in which bytes [begin, end) are blank and lines stay. */
static char *blanked(const char *whole, size_t begin, size_t end)
{
    char *copy = copy_of(whole);
    for (size_t i = begin; i < end; i++) {
        if (copy[i] != '\n') copy[i] = ' ';
    }
    return copy;
}

/* The size in brackets at that byte, as C at its own place. */
static void ask(const draft *d, const bound *one, names *asked)
{
    const token *t = d->split.tokens.items;
    size_t at = 0;
    while (t[at].begin != one->bracket) at++;
    size_t end = after_brackets(d->source, t, at, d->split.tokens.count) - 1, start = t[at + 1].begin;
    while (start > 0 && d->source[start - 1] != '\n') start--;
    char *line = line_directive(d, t[at + 1].line);
    char *code = format_text("%s%*s%.*s", line, (int)(t[at + 1].begin - start), "",
                             (int)(t[end].begin - t[at + 1].begin), d->source + t[at + 1].begin);
    free(line);
    names_add(asked, code, strlen(code));
    free(code);
}

static bool good_sizes(const draft *d, const bound *bounds, size_t count, result *r)
{
    for (size_t i = 0; i < count; i++) {
        unsigned line = 1;
        for (size_t k = 0; k < bounds[i].bracket; k++) line += d->source[k] == '\n';
        if (bounds[i].value >= 0) continue;
        const char *file = origin_of(d->from, d->name, line, &line);
        *r = error_result("SizeError", "%s:%u: an array cannot have %ld elements", file, line, bounds[i].value);
        return false;
    }
    return true;
}

result run_in_stages(session *s, const draft *whole, size_t first, const char *name)
{
    const piece *p = &whole->split.pieces[first];
    size_t begin = whole->split.tokens.items[p->first].begin, end = whole->split.tokens.items[p->last - 1].end;
    bound bounds[MOST_SIZES];
    long values[MOST_SIZES] = {0};
    size_t count = 0;
    names asked = {0};
    for (size_t i = 0; i < whole->bound_count && count < MOST_SIZES; i++) {
        if (whole->bounds[i].bracket < begin || whole->bounds[i].bracket >= end) continue;
        bounds[count++] = whole->bounds[i];
        ask(whole, &whole->bounds[i], &asked);
    }
    char *before = blanked(whole->source, begin, strlen(whole->source)), *rest = blanked(whole->source, 0, begin);
    result r =
        run_part(s, before, name, &(part){.quiet = true, .asked = &asked, .values = values, .from = whole->from});
    for (size_t i = 0; i < count; i++) bounds[i].value = values[i];
    if (!r.failed && good_sizes(whole, bounds, count, &r))
        r = run_part(s, rest, name, &(part){.quiet = true, .given = bounds, .given_count = count, .from = whole->from});
    names_free(&asked);
    free(before);
    free(rest);
    return r;
}
