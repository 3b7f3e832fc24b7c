/* Magics about the session itself: %lsmagic, %who, %restart, %reset, %time. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A row of the list: what to write, padded by characters and not by bytes, and the first sentence about it. */
static void add_row(text *list, const char *usage, const char *help)
{
    int width = 0;
    for (const char *p = usage; *p; p++) width += ((unsigned char)*p & 0xc0) != 0x80;
    const char *stop = strstr(help, ". ");
    text_addf(list, "%s%*s %.*s\n", usage, width < 28 ? 28 - width : 0, "",
              stop ? (int)(stop - help) + 1 : (int)strlen(help), help);
}

result magic_lsmagic(session *s, const char *words, const char *name)
{
    (void)words;
    (void)name;
    text list = {0};
    for (size_t i = 0; i < magics_count; i++) add_row(&list, magics_table[i].usage, magics_table[i].help);
    add_row(&list, "!COMMAND", "Runs a command of the shell.");
    add_row(&list, "NAME?", "Shows what is known of a name.");
    print_out(s, list.data);
    text_free(&list);
    return (result){0};
}

static void add_entity(entity *e, void *closure)
{
    static const char *const kinds[] = {"macro", "type", "function", "variable"};
    text *list = closure;
    if (e->kind == ENTITY_VARIABLE)
        text_addf(list, "%-10s %-20s %s\n", kinds[e->kind], e->name, e->type ? e->type : "");
    else
        text_addf(list, "%-10s %.*s%s\n", kinds[e->kind], (int)strcspn(e->shown, "\n"), e->shown,
                  strchr(e->shown, '\n') ? " …" : "");
}

result magic_who(session *s, const char *words, const char *name)
{
    (void)words;
    (void)name;
    text list = {0};
    symbols_each(s->symbols, add_entity, &list);
    print_out(s, list.size ? list.data : "nothing is defined yet\n");
    text_free(&list);
    return (result){0};
}

result magic_restart(session *s, const char *words, const char *name)
{
    (void)words;
    (void)name;
    ranks_end(s, true);
    if (!replace_worker(s, true)) return error_result("WorkerError", "the process that runs cells cannot be started");
    print_out(s, "restarted: functions, types and includes are kept, variables are zero until their cells run again\n");
    return (result){0};
}

result magic_reset(session *s, const char *words, const char *name)
{
    (void)words;
    (void)name;
    ranks_end(s, true);
    symbols_close(s->symbols);
    s->symbols = symbols_open();
    free(s->prefix);
    s->prefix = copy_of("");
    loads_clear(s);
    compiler_reset(&s->compiler);
    if (!replace_worker(s, true)) return error_result("WorkerError", "the process that runs cells cannot be started");
    return (result){0};
}

static result timed(session *s, const char *code, const char *name)
{
    double start = seconds_now();
    result r = run_c(s, code, name);
    double took = seconds_now() - start;
    char *line = took < 1 ? format_text("Wall time: %.3g ms\n", took * 1e3) : format_text("Wall time: %.3g s\n", took);
    if (!r.failed) print_out(s, line);
    free(line);
    return r;
}

result magic_time(session *s, const char *words, const char *name)
{
    return timed(s, words, name);
}

result cell_time(session *s, const char *words, const char *body, const char *name)
{
    char *code = format_text("%s\n%s", words, body);
    result r = timed(s, code, name);
    free(code);
    return r;
}
