/* `#pragma pack` from cell to cell: the lines that are in force. Read first: symbols.h. */
#define _GNU_SOURCE
#include "cells/packing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool packing_line(const char *line, size_t size)
{
    char *copy = copy_of_bytes(line, size), word[8] = "";
    bool pack = sscanf(line ? copy : "", " # pragma %7[a-z]", word) == 1 && !strcmp(word, "pack");
    free(copy);
    return pack;
}

static void cut_to(names *lines, size_t count)
{
    while (lines->count > count) free(lines->items[--lines->count]);
}

static bool pushes(const char *line)
{
    return strstr(line, "push") != NULL;
}

void packing_take(names *lines, const char *line, size_t size)
{
    char *copy = copy_of_bytes(line, size);
    size_t pushed = lines->count; /* what was set since the last push ends with it, or with the next setting */
    while (pushed > 0 && !pushes(lines->items[pushed - 1])) pushed--;
    if (strstr(copy, "pop")) cut_to(lines, pushed > 0 ? pushed - 1 : 0);
    else if (!pushes(copy)) cut_to(lines, pushed);
    if (!strstr(copy, "pop")) names_add(lines, copy);
    free(copy);
}
