#include "mappings.h"

#include <stdlib.h>
#include <string.h>

FILE *mappings_open(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    return fopen(path, "re");
}

/* A line is "begin-end rwxp offset device inode file", of which the first three are hexadecimal. */
bool mapping_next(FILE *maps, mapping *m)
{
    char line[sizeof m->file + 128], *at = line;
    if (!maps || !fgets(line, sizeof line, maps)) return false;
    m->begin = strtoull(at, &at, 16);
    if (*at != '-') return false;
    m->end = strtoull(at + 1, &at, 16);
    if (*at != ' ' || strlen(at) < sizeof " rwxp ") return false;
    m->readable = at[1] == 'r';
    m->writable = at[2] == 'w';
    m->offset = strtoull(at + strlen(" rwxp "), &at, 16);
    at[strcspn(at, "\n")] = 0;
    const char *file = strchr(at, '/');
    snprintf(m->file, sizeof m->file, "%s", file ? file : "");
    return true;
}
