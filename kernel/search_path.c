#define _GNU_SOURCE
#include "search_path.h"
#include "cells/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *in_path(const char *name)
{
    const char *path = getenv("PATH");
    char *copy = copy_of(path ? path : ""), *rest, *found = NULL;
    for (char *one = strtok_r(copy, ":", &rest); one && !found; one = strtok_r(NULL, ":", &rest)) {
        found = format_text("%s/%s", one, name);
        if (access(found, X_OK) == 0) continue;
        free(found);
        found = NULL;
    }
    free(copy);
    return found;
}
