/* argp's help without its blank lines: see help.h. */
#include "core/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_lines(const char *text)
{
    for (size_t length; *text; text += length) {
        length = strcspn(text, "\n");
        bool blanks = length > 0 && strspn(text, " ") == length;
        length += text[length] == '\n';
        if (!blanks) fwrite(text, 1, length, stdout);
    }
}

bool kolo_print_help(const struct argp *argp, unsigned flags, const char *program)
{
    char *text = NULL;
    size_t size = 0;
    FILE *help = open_memstream(&text, &size);
    if (!help) return false;
    argp_help(argp, help, flags, (char *)program);
    bool whole = fclose(help) == 0;
    if (whole) print_lines(text);
    free(text);
    return fflush(stdout) == 0 && whole;
}
