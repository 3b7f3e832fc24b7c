/* The manual's pages on functions, sections 3 and 2, where they are installed. Each is asked for once a session.
 * See help_page.h. */
#define _GNU_SOURCE
#include "help/help.h"
#include "help/help_page.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Bold is a letter twice, with a backspace between; underlined, an underscore and a backspace before it. */
static void strip_overstrikes(char *words)
{
    char *to = words;
    for (const char *from = words; *from; from++) {
        if (*from != '\b') {
            *to++ = *from;
            continue;
        }
        while (to > words && ((unsigned char)to[-1] & 0xc0) == 0x80) to--;
        if (to > words) to--;
    }
    *to = 0;
}

static char *ask_man(session *s, const char *name)
{
    char *log = format_text("%s/manual.log", s->folder);
    char *arguments[] = {"env",
                         "MANWIDTH=80",
                         "MANPAGER=cat",
                         "LC_ALL=C.UTF-8",
                         "MANROFFOPT=",
                         "timeout",
                         "-k",
                         "1",
                         "2",
                         "man",
                         "-Tutf8",
                         "--nh",
                         "--nj",
                         "-S",
                         "3:2",
                         "--",
                         (char *)(uintptr_t)name,
                         NULL};
    char *found = output_of_tool(arguments, log);
    free(log);
    if (found) strip_overstrikes(found);
    bool good = found && strstr(found, "\nNAME\n");
    if (!good) free(found);
    return good ? found : NULL;
}

const char *remembered(const session *s, const char *key)
{
    const names *known = &s->manuals; /* key, page, key, page, … */
    for (size_t i = 0; i + 1 < known->count; i += 2) {
        if (!strcmp(known->items[i], key)) return known->items[i + 1];
    }
    return NULL;
}

void remember(session *s, const char *key, const char *words)
{
    names_add(&s->manuals, key);
    names_add(&s->manuals, words);
}

/* The page, or "" when there is none; the session's. */
static const char *cached(session *s, const char *name)
{
    const char *known = remembered(s, name);
    if (known) return known;
    char *found = ask_man(s, name);
    remember(s, name, found ? found : "");
    free(found);
    return remembered(s, name);
}

enum { SECTION_LINES = 24 };

/* A section, from its heading on; at most so many lines of it, whole paragraphs where it can be. */
static void add_section(text *into, const char *manual, const char *heading)
{
    char *line = format_text("\n%s\n", heading);
    const char *at = strstr(manual, line);
    free(line);
    if (!at) return;
    const char *tests = strstr(at + 1, "   Feature Test Macro Requirements");
    const char *begin = at + 1, *p = begin + strcspn(begin, "\n") + 1, *paragraph = p;
    unsigned lines = 0;
    for (; *p && p != tests && (*p == ' ' || *p == '\n') && lines < SECTION_LINES; lines++) {
        if (*p == '\n') paragraph = p;
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    bool cut = p != tests && (*p == ' ' || *p == '\n');
    const char *end = cut && paragraph > begin + SECTION_LINES ? paragraph : p;
    while (end > begin && end[-1] == '\n') end--;
    text_addf(into, "%s%.*s\n%s", into->size ? "\n" : "", (int)(end - begin), begin, cut ? "       …\n" : "");
}

static bool names_it(const char *code, size_t size, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = code; (p = memmem(p, (size_t)(code + size - p), name, length)); p++) {
        if (!word_byte(p[length]) && p > code && !word_byte(p[-1])) return true;
    }
    return false;
}

/* Of the declarations, which a page has for a whole family, the one that is asked about. */
static void add_synopsis(text *into, const char *manual, const char *name)
{
    const char *at = strstr(manual, "\nSYNOPSIS\n");
    bool headed = false;
    at = at ? at + strlen("\nSYNOPSIS\n") : "";
    while (*at == ' ' || *at == '\n') {
        const char *begin = at, *line = at + strspn(at, " ");
        while (*at && *at != ';' && *at != '#' && !(at[0] == '\n' && (at[1] == '\n' || isupper((unsigned char)at[1]))))
            at++;
        if (*at == '#') at += strcspn(at, "\n");
        else at += *at == ';';
        size_t size = (size_t)(at - begin);
        bool wanted = *line == '#' || (at[-1] == ';' && names_it(begin, size, name));
        if (wanted) text_addf(into, "%s%.*s\n", headed ? "" : "\nSYNOPSIS\n", (int)size, begin);
        headed |= wanted;
        at += strcspn(at, "\n");
        while (*at == '\n') at++;
        if (isupper((unsigned char)*at)) break;
    }
}

char *manual_page(session *s, const char *name, bool whole)
{
    const char *found = cached(s, name);
    if (!*found) return NULL;
    if (whole) return copy_of(found + strspn(found, "\n"));
    text out = {0};
    add_section(&out, found, "NAME");
    add_synopsis(&out, found, name);
    add_section(&out, found, "DESCRIPTION");
    add_section(&out, found, "RETURN VALUE");
    return text_take(&out);
}
