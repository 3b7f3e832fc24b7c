#include "sources.h"

#include <stdlib.h>
#include <string.h>

char *source_line_of(void *closure, const char *name, unsigned line)
{
    const session *s = closure;
    const char *text_found = NULL;
    char *file = NULL;
    for (size_t i = s->source_count; i-- > 0 && !text_found;) {
        if (!strcmp(s->sources[i].name, name)) text_found = s->sources[i].text;
    }
    if (!text_found) text_found = file = read_whole_file(name);
    for (unsigned i = 1; text_found && i < line; i++) {
        text_found = strchr(text_found, '\n');
        if (text_found) text_found++;
    }
    char *copy = text_found ? copy_of_bytes(text_found, line ? strcspn(text_found, "\n") : strlen(text_found)) : NULL;
    free(file);
    return copy;
}

cell_fate fate_of(void *closure, const char *cell_name)
{
    const session *s = closure;
    for (size_t i = s->source_count; i-- > 0;) {
        const source *one = &s->sources[i];
        if (!strcmp(one->name, cell_name) && one->serial)
            return !one->ran ? FATE_FAILED : one->reset ? FATE_RESET : FATE_RAN;
    }
    return FATE_UNKNOWN;
}
