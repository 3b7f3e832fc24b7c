#define _GNU_SOURCE
#include "diagnostics/link_words.h"

#include <stdlib.h>
#include <string.h>

/* "…/program-3.c:6: undefined reference to `f'": the line is the cell's, whatever the file is called. */
static char *about_undefined(const char *line, const char *found, const char *cell_name)
{
    const char *open = strchr(found, '`'), *close = open ? strchr(open, '\'') : NULL;
    if (!close) return NULL;
    int size = (int)(close - open) - 1;
    if (size == 4 && !strncmp(open + 1, "main", 4) && memmem(line, (size_t)(found - line), "(.text", 6))
        return format_text("%s: the program has no main(), where it would begin: int main(void) { … }", cell_name);
    const char *colon = found;
    while (colon > line && *colon != ':') colon--;
    const char *number = colon;
    while (number > line && number[-1] >= '0' && number[-1] <= '9') number--;
    if (number == colon || number == line || number[-1] != ':')
        return format_text("%s: '%.*s' is used, and nothing defines it", cell_name, size, open + 1);
    return format_text("%s:%.*s: '%.*s' is used here, and nothing defines it", cell_name, (int)(colon - number), number,
                       size, open + 1);
}

static char *about_line(const char *line, const char *cell_name)
{
    const char *undefined = strstr(line, "undefined reference to"), *library = strstr(line, "cannot find -l"),
               *multiple = strstr(line, "multiple definition of `"), *missing = strstr(line, "cannot find ");
    const char *unlinked = strstr(line, ": error adding symbols: DSO missing");
    if (unlinked) {
        const char *file = memrchr(line, '/', (size_t)(unlinked - line));
        int size = file && !strncmp(file, "/lib", 4) ? (int)strcspn(file + 4, ".") : 0;
        return format_text("something of the library '%.*s' is used: %%ldflags -l%.*s links it", size,
                           file ? file + 4 : "", size, file ? file + 4 : "");
    }
    if (undefined) return about_undefined(line, undefined, cell_name);
    if (library) {
        const char *name = library + strlen("cannot find -l");
        return format_text("the linker finds no library '%.*s' (-l%.*s): %%ldflags -LFOLDER adds a folder",
                           (int)strcspn(name, ": \n"), name, (int)strcspn(name, ": \n"), name);
    }
    if (missing) {
        const char *name = missing + strlen("cannot find ");
        return format_text("the linker does not find %.*s", (int)strcspn(name, ":\n"), name);
    }
    if (multiple) {
        const char *name = multiple + strlen("multiple definition of `");
        return format_text("'%.*s' is defined more than once", (int)strcspn(name, "'"), name);
    }
    const char *error = strstr(line, "error: ");
    bool summary = strstr(line, "linker command failed") != NULL;
    return error && !summary ? copy_of(error + strlen("error: ")) : NULL;
}

char *link_words(const char *log, const char *cell_name)
{
    text out = {0};
    names said = {0};
    char *copy = copy_of(log), *rest;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *words = about_line(line, cell_name);
        if (words && !names_have(&said, words)) {
            names_add(&said, words);
            text_addf(&out, "%s%s", out.size ? "\n" : "", words);
        }
        free(words);
    }
    names_free(&said);
    free(copy);
    if (!out.size) text_add(&out, "the linker failed, and did not say why");
    return text_take(&out);
}
