/* The value of a variable, for which a subshell may ask while a cell runs. See front.h. */
#define _GNU_SOURCE
#include "help/help.h"
#include "help/help_page.h"
#include "lock.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The one word of the code; NULL when it is anything else. The caller frees. */
static char *only_word(const char *code)
{
    code += strspn(code, " \t\r\n");
    size_t size = 0;
    while (word_byte(code[size])) size++;
    bool alone = size && !isdigit((unsigned char)*code) && !code[size + strspn(code + size, " \t\r\n")];
    return alone ? copy_of_bytes(code, size) : NULL;
}

static json_t *value_of(session *s, const char *name)
{
    entity *e = symbols_find_bytes(s->symbols, 'o', name, strlen(name));
    if (!e || e->kind != ENTITY_VARIABLE || !e->type) return NULL;
    help_begins(s);
    json_t *data = value_now(s, e, type_now(s, e));
    help_ends(s);
    return data;
}

char *session_glance(session *s, const char *code)
{
    char *name = only_word(code);
    bool alone = help_enters(s);
    json_t *data = name ? value_of(s, name) : NULL;
    help_leaves(s, alone);
    free(name);
    char *dump = data ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
    return dump;
}
