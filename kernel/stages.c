/* A cell with arrays whose size is known only when it runs, `double v[n];`. C has them in functions alone, where they
 * end with the call; a cell's variables live on. So the cell runs in stages: the code before such an array, then its
 * size, then the rest with an array of that size. The whole cell has been compiled before. Read first: build.h. */
#define _GNU_SOURCE
#include "build.h"

#include <stdlib.h>
#include <string.h>

/* A copy in which bytes [begin, end) are blank and lines stay. */
static char *blanked(const char *whole, size_t begin, size_t end)
{
    char *copy = copy_of(whole);
    blank_out(copy, begin, end);
    return copy;
}

/* The size in brackets at that byte, as C at its own place. */
static void ask(const parsed_cell *parsed, const bound *one, names *asked)
{
    const token *t = parsed->split.tokens.items;
    size_t at = 0;
    while (t[at].begin != one->bracket) at++;
    size_t end = after_brackets(parsed->source, t, at, parsed->split.tokens.count) - 1,
           start = line_start(parsed->source, t[at + 1].begin);
    char *line = line_directive(parsed, t[at + 1].line);
    char *code = format_text("%s%*s%.*s", line, (int)(t[at + 1].begin - start), "",
                             (int)(t[end].begin - t[at + 1].begin), parsed->source + t[at + 1].begin);
    free(line);
    names_add(asked, code);
    free(code);
}

static bool good_sizes(const parsed_cell *parsed, const bound *bounds, size_t count, result *r)
{
    for (size_t i = 0; i < count; i++) {
        unsigned line;
        if (bounds[i].value >= 0) continue;
        const char *file = origin_of(parsed->from, parsed->name, line_number(parsed->source, bounds[i].bracket), &line);
        *r = error_result("SizeError", "%s:%u: an array cannot have %ld elements", file, line, bounds[i].value);
        return false;
    }
    return true;
}

/* The first declarator of the piece with a size that is not known. */
static declarator first_unknown(const parsed_cell *parsed, const declaration *taken)
{
    for (size_t k = 0; k < taken->count; k++) {
        const declarator *one = &taken->declarators[k];
        size_t begin = parsed->split.tokens.items[one->first].begin,
               end = parsed->split.tokens.items[one->last - 1].end;
        for (size_t i = 0; i < parsed->bound_count; i++) {
            if (!parsed->bounds[i].known && parsed->bounds[i].bracket >= begin && parsed->bounds[i].bracket < end)
                return *one;
        }
    }
    return taken->declarators[0];
}

result run_in_stages(session *s, const parsed_cell *whole, size_t first, const char *name)
{
    const token *t = whole->split.tokens.items;
    declaration taken = declaration_of(&whole->split, &whole->split.pieces[first]);
    declarator one = first_unknown(whole, &taken);
    size_t begin = t[whole->split.pieces[first].first].begin, comma = t[one.first - 1].begin;
    size_t from = t[one.first].begin, to = t[one.last - 1].end, specified = t[taken.specifiers_last - 1].end;
    bool alone = taken.count == 0 || one.first == taken.declarators[0].first;
    bound bounds[MOST_SIZES];
    long values[MOST_SIZES] = {0};
    size_t count = 0, known = 0;
    names asked = {0};
    for (size_t i = 0; i < whole->bound_count && count < MOST_SIZES; i++) {
        if (whole->bounds[i].known) bounds[count++] = whole->bounds[i];
    }
    known = count;
    for (size_t i = 0; i < whole->bound_count && count < MOST_SIZES; i++) {
        const bound *b = &whole->bounds[i];
        if (b->known || b->bracket < from || b->bracket >= to) continue;
        bounds[count++] = *b;
        ask(whole, b, &asked);
    }
    /* `int n = 4, a[n];`: what stands before the array's declarator belongs to the first stage */
    char *before = blanked(whole->source, alone ? begin : from, strlen(whole->source)),
         *rest = blanked(whole->source, 0, begin);
    if (!alone) {
        before[comma] = ';';
        blank_out(rest, specified, comma + 1);
    }
    declaration_free(&taken);
    result r = run_part(s, before, name,
                        &(part){.quiet = true,
                                .asked = &asked,
                                .values = values,
                                .from = whole->from,
                                .given = bounds,
                                .given_count = known});
    for (size_t i = known; i < count; i++) {
        bounds[i].value = values[i - known];
        bounds[i].known = true;
    }
    if (!r.failed && good_sizes(whole, bounds, count, &r))
        r = run_part(s, rest, name, &(part){.quiet = true, .given = bounds, .given_count = count, .from = whole->from});
    names_free(&asked);
    free(before);
    free(rest);
    return r;
}
