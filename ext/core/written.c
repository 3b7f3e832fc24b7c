/* Finding options in the text of a call: see written.h. */
#include "core/written.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the place after the closing quote of a string or character. */
static const char *skip_quoted(const char *p)
{
    char quote = *p++;
    while (*p && *p != quote) p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}

/* Returns the place after the member's name if the text begins with it and goes on with `=` or `[`; else NULL. */
static const char *after_name(const char *p, const char *name)
{
    size_t length = strlen(name);
    while (isspace((unsigned char)*p)) p++;
    if (strncmp(p, name, length) != 0) return NULL;
    p += length;
    while (isspace((unsigned char)*p)) p++;
    return *p == '[' || (*p == '=' && p[1] != '=') ? p : NULL;
}

/* Returns the place after the first designator of this member in the text, or NULL. A designator is at the beginning of
 * an argument: `begins` says whether the text begins with an argument; others follow a comma. */
static const char *find(const char *text, bool begins, const char *name)
{
    int depth = 0;
    for (const char *p = text; p && *p;) {
        if (*p == '"' || *p == '\'') {
            p = skip_quoted(p);
            begins = false;
            continue;
        }
        if (strchr("({[", *p)) depth++;
        if (strchr(")}]", *p)) depth--;
        const char *found = depth == 0 && begins && *p == '.' ? after_name(p + 1, name) : NULL;
        if (found) return found;
        if (!isspace((unsigned char)*p)) begins = *p == ',' && depth == 0;
        p++;
    }
    return NULL;
}

bool kolo_written(const char *text, const char *name)
{
    return find(text, true, name) != NULL;
}

/* ---- elements of a list */

/* Returns the end of an element of a list: the next comma or closing brace that is not inside it. */
static const char *skip_element(const char *p)
{
    for (int depth = 0; *p; p++) {
        if (depth == 0 && (*p == ',' || *p == '}')) return p;
        if (strchr("({[", *p)) depth++;
        if (strchr(")}]", *p)) depth--;
        if (*p == '"' || *p == '\'') p = skip_quoted(p) - 1;
    }
    return p;
}

/* Reads `[3]` or `[3 ... 5]`. false if the text has no numbers there: a constant's value is not in the text. */
static bool read_designator(const char *p, int *first, int *last)
{
    char *end;
    *first = *last = (int)strtol(p + 1, &end, 10);
    if (end == p + 1) return false;
    p = end + strspn(end, " ");
    if (strncmp(p, "...", 3) == 0) {
        *last = (int)strtol(p + 3, &end, 10);
        if (end == p + 3) return false;
        p = end + strspn(end, " ");
    }
    return *p == ']';
}

/* Whether the list, whose text begins with its brace, contains that element. */
static bool lists(const char *p, int index)
{
    if (*p != '{') return false;
    for (int first = 0, last; *p && *p != '}'; first = last + 1, p = skip_element(p)) {
        p++;
        while (isspace((unsigned char)*p)) p++;
        last = first;
        if (!*p || *p == '}' || (*p == '[' && !read_designator(p, &first, &last))) return false;
        if (index >= first && index <= last) return true;
    }
    return false;
}

bool kolo_written_element(const char *text, const char *name, int index)
{
    for (const char *p = find(text, true, name); p; p = find(p, false, name)) {
        int first, last;
        if (*p == '[') {
            if (read_designator(p, &first, &last) && index >= first && index <= last) return true;
            continue;
        }
        for (p++; isspace((unsigned char)*p);) p++;
        if (lists(p, index)) return true;
    }
    return false;
}

void kolo_keep_zero(const char *text, const char *name, double *value)
{
    if (*value == 0 && kolo_written(text, name)) *value = KOLO_NONE;
}

void kolo_keep_zero_int(const char *text, const char *name, int *value)
{
    if (*value == 0 && kolo_written(text, name)) *value = KOLO_NONE;
}

void kolo_keep_zeros(const char *text, const char *name, double *values, int count)
{
    if (!kolo_written(text, name)) return;
    for (int i = 0; i < count; i++)
        if (values[i] == 0 && kolo_written_element(text, name, i)) values[i] = KOLO_NONE;
}
