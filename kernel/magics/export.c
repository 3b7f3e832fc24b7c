/* %export: the notebook's live cells as one program. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "export/program.h"
#include "print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

result magic_export(session *s, const char *words, const char *name)
{
    (void)name;
    names given = words_of(words);
    result r = {0};
    if (given.count != 1 || given.items[0][0] == '-') {
        r = usage_result(s, "export", false);
    } else {
        char *path = path_of(s, given.items[0]), *code = program_of(s);
        bool there = access(path, F_OK) == 0, written = write_whole_file(path, code, strlen(code));
        char *line = format_text("%s %s\n", there ? "Overwriting" : "Writing", given.items[0]);
        if (written) print_out(s, line);
        else r = error_result("FileError", "%s cannot be written: %s", given.items[0], strerror(errno));
        free(line), free(path), free(code);
    }
    names_free(&given);
    return r;
}
