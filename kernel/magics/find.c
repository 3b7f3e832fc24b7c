/* Finding a magic in the session's list. See magics.h. */
#include "magics/magics.h"
#include "diagnostics/nearest.h"

#include <stdlib.h>
#include <string.h>

/* Near enough to be meant: it begins so, or few letters differ. */
static bool near(const char *name, size_t size, const char *one)
{
    char *word = copy_of_bytes(name, size);
    bool found = (size > 1 && !strncmp(one, word, size)) || alike(word, one);
    free(word);
    return found;
}

const char *nearest_magic(const session *s, const char *name, size_t size, bool whole_cell)
{
    const char *best = NULL;
    for (const magic *m = s->magics; m->name; m++) {
        const char *one = m->name;
        bool form = whole_cell ? m->cell != NULL : m->line != NULL;
        if (!form || !near(name, size, one)) continue;
        if (!best || distance_of(name, size, one) < distance_of(name, size, best)) best = one;
    }
    return best;
}

result usage_result(const session *s, const char *name, bool whole_cell)
{
    for (const magic *m = s->magics; m->name; m++) {
        if (strcmp(m->name, name) || !(whole_cell ? m->cell != NULL : m->line != NULL)) continue;
        return error_result("UsageError", "wanted %s (%s%s? says more)", m->usage, whole_cell ? "%%" : "%", name);
    }
    return error_result("UsageError", "there is no magic %s", name);
}
