/* Finding options in the text of a call: see written.h. */
#include "core/written.h"

#include <ctype.h>
#include <string.h>

/* Returns the place after the closing quote of a string or character. */
static const char *skip_quoted(const char *p)
{
    char quote = *p++;
    while (*p && *p != quote) p += *p == '\\' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}

/* Whether the text begins with this member's name and then `=` or `[`. */
static bool names(const char *p, const char *name)
{
    size_t length = strlen(name);
    while (isspace((unsigned char)*p)) p++;
    if (strncmp(p, name, length) != 0) return false;
    p += length;
    while (isspace((unsigned char)*p)) p++;
    return *p == '[' || (*p == '=' && p[1] != '=');
}

/* A designator is at the beginning of the text or follows a comma. */
bool kolo_written(const char *text, const char *name)
{
    int depth = 0;
    bool begins = true;
    for (const char *p = text; p && *p;) {
        if (*p == '"' || *p == '\'') {
            p = skip_quoted(p);
            begins = false;
            continue;
        }
        if (strchr("({[", *p)) depth++;
        if (strchr(")}]", *p)) depth--;
        if (depth == 0 && begins && *p == '.' && names(p + 1, name)) return true;
        if (!isspace((unsigned char)*p)) begins = *p == ',' && depth == 0;
        p++;
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
