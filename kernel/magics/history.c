/* %history: the cells of this session, or of all. See magics.h. */
#include "magics/magics.h"
#include "print.h"

#include <stdlib.h>
#include <string.h>

typedef struct asked {
    bool numbered, with_output, everywhere, sized;
    json_int_t last;      /* of -l; 0: all */
    const char *pattern;  /* of -g; NULL: none */
    names ranges;
} asked;

static bool number_of(const char *word, const char **end, json_int_t *number)
{
    char *after;
    *number = strtol(word, &after, 10);
    *end = after;
    return after > word && *number > 0;
}

/* "4", "4-7" (both ends count) or "4-": the first cell, and the one behind the last; 0: to the end. */
static bool range_of(const char *word, json_int_t *first, json_int_t *behind)
{
    const char *end;
    if (!number_of(word, &end, first)) return false;
    *behind = *first + 1;
    if (!*end) return true;
    if (*end != '-') return false;
    *behind = 0;
    if (!end[1]) return true;
    bool good = number_of(end + 1, &end, behind) && !*end && *behind >= *first;
    ++*behind;
    return good;
}

static bool take_word(asked *a, const names *words, size_t *i)
{
    const char *word = words->items[*i], *next = *i + 1 < words->count ? words->items[*i + 1] : NULL, *end = "";
    json_int_t first, behind;
    if (!strcmp(word, "-n")) return a->numbered = true;
    if (!strcmp(word, "-o")) return a->with_output = true;
    if (!strcmp(word, "-g")) {
        if (next) a->pattern = next;
        *i += next != NULL;
        return a->everywhere = true;
    }
    if (!strcmp(word, "-l")) {
        a->sized = true;
        a->last = 10;
        if (next && number_of(next, &end, &a->last) && !*end) ++*i;
        else a->last = 10;
        return true;
    }
    if (!range_of(word, &first, &behind)) return false;
    names_add(&a->ranges, word);
    return true;
}

/* The question of Jupyter's protocol that asks the same. */
static json_t *request_of(const asked *a, const char *range)
{
    json_int_t first = 1, behind = 0;
    if (range) range_of(range, &first, &behind);
    if (a->everywhere) {
        bool glob = a->pattern && strpbrk(a->pattern, "*?[");
        char *pattern = a->pattern ? format_text(glob ? "%s" : "*%s*", a->pattern) : copy_of("*");
        json_t *request = json_pack("{s:s, s:s, s:I, s:b}", "hist_access_type", "search", "pattern", pattern, "n",
                                    a->last, "output", a->with_output);
        free(pattern);
        return request;
    }
    return json_pack("{s:s, s:i, s:I, s:I, s:b}", "hist_access_type", "range", "session", 0, "start", first, "stop",
                     behind, "output", a->with_output);
}

static void print_entry(session *s, const asked *a, const json_t *entry)
{
    const json_t *told = json_array_get(entry, 2);
    const char *code = json_string_value(a->with_output ? json_array_get(told, 0) : told);
    const char *shown = a->with_output ? json_string_value(json_array_get(told, 1)) : NULL;
    json_int_t number = json_integer_value(json_array_get(entry, 1));
    char *place = a->everywhere ? format_text("%lld/%lld: ", (long long)json_integer_value(json_array_get(entry, 0)),
                                              (long long)number)
                  : a->numbered ? format_text("%4lld: ", (long long)number)
                                : copy_of("");
    if (*place && strchr(code, '\n')) strcpy(place + strlen(place) - 1, "\n"); /* several lines stand below it */
    char *line = format_text("%s%s\n%s%s", place, code, shown ? shown : "", shown ? "\n" : "");
    print_out(s, line);
    free(line);
    free(place);
}

static void print_range(session *s, const asked *a, const char *range)
{
    json_t *request = request_of(a, range), *answer = history_answer(&s->history, request);
    json_t *entries = json_object_get(answer, "history");
    size_t count = json_array_size(entries);
    for (size_t i = a->last && count > (size_t)a->last ? count - (size_t)a->last : 0; i < count; i++)
        print_entry(s, a, json_array_get(entries, i));
    json_decref(request);
    json_decref(answer);
}

result magic_history(session *s, const char *words, const char *name)
{
    (void)name;
    names given = words_of(words);
    asked a = {0};
    result r = {0};
    for (size_t i = 0; i < given.count && !r.failed; i++) {
        if (!take_word(&a, &given, &i)) r = usage_result(s, "history", false);
    }
    if (!r.failed && a.ranges.count && (a.everywhere || a.sized)) r = usage_result(s, "history", false);
    for (size_t i = 0; !r.failed && i < a.ranges.count; i++) print_range(s, &a, a.ranges.items[i]);
    if (!r.failed && !a.ranges.count) print_range(s, &a, NULL);
    names_free(&a.ranges);
    names_free(&given);
    return r;
}
