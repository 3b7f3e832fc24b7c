/* Lists of ranks: "0,3", "0-3,6". Read first: ranks.h. */
#include "ranks/ranks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char **at, long *number)
{
    char *end;
    if (!isdigit((unsigned char)**at)) return false;
    *number = strtol(*at, &end, 10);
    *at = end;
    return true;
}

static bool choose_span(ranks *r, const char **at, char **problem)
{
    long first = 0, last;
    const char *from = *at;
    bool good = read_number(at, &first);
    last = first;
    if (good && **at == '-') {
        ++*at;
        good = read_number(at, &last);
    }
    if (!good || (**at && **at != ',')) {
        *problem = format_text("'%s' is not a list of ranks: write one like 0,3 or 0-3", from);
    } else if (first > last || last >= r->count) {
        bool backward = first > last;
        *problem = backward ? format_text("%ld-%ld is not a range of ranks: write the lower number first", first, last)
                            : format_text("there is no rank %ld: the ranks are 0 to %d", last, r->count - 1);
    } else {
        for (long i = first; i <= last; i++) r->peers[i].chosen = true;
        return true;
    }
    return false;
}

bool ranks_choose(ranks *r, const char *words, char **problem)
{
    for (int i = 0; i < r->count; i++) r->peers[i].chosen = !*words;
    for (const char *at = words; *at;) {
        if (!choose_span(r, &at, problem)) return false;
        if (*at == ',') at++;
    }
    return true;
}

char *ranks_listed(const bool *which, int count)
{
    text list = {0};
    for (int i = 0; i < count; i++) {
        if (!which[i]) continue;
        int last = i;
        while (last + 1 < count && which[last + 1]) last++;
        text_addf(&list, "%s%d", list.size ? "," : "", i);
        if (last > i) text_addf(&list, "%s%d", last > i + 1 ? "-" : ",", last);
        i = last;
    }
    return text_take(&list);
}

char *ranks_named(const ranks *r, const bool *which)
{
    int total = 0;
    for (int i = 0; i < r->count; i++) total += which[i];
    char *list = ranks_listed(which, r->count);
    char *named = format_text("%s %s", total == 1 ? "rank" : "ranks", list);
    free(list);
    return named;
}
