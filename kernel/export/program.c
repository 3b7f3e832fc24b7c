#define _GNU_SOURCE
#include "export/program.h"
#include "cells/declared.h"
#include "cells/needs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- text of units, made readable ---- */

/* A shell line in a function is a call in the unit and a comment in the program. */
static const char *shell_as_comment(text *out, const char *at)
{
    const char *end = at + strlen("kolo_cell_shell(\"");
    size_t before = out->size;
    while (before && isspace((unsigned char)out->data[before - 1])) before--;
    bool alone = before && strchr("{};", out->data[before - 1]); /* else it may be all there is behind an if () */
    text_add(out, "/* !");
    for (; *end && strncmp(end, "\");", 3); end++) {
        if (*end == '\\' && end[1]) end++;
        text_add_bytes(out, end, 1);
        if (end[0] == '*' && end[1] == '/') text_add(out, " ");
    }
    text_add(out, alone ? " */" : " */;");
    return *end ? end + 3 : end;
}

static void add_line(text *out, const char *at, const char *end)
{
    while (at < end) {
        if (!strncmp(at, "kolo_cell_shell(\"", 17)) at = shell_as_comment(out, at);
        else if (!strncmp(at, ", kolo_cell)", 12)) text_add(out, ", outer)"), at += 12;
        else text_add_bytes(out, at++, 1);
    }
}

/* A unit's text without #line, without the blanks up to a column, and without names of the kernel's own. Each line of
 * the cell is one line. */
static char *cleaned(const char *code)
{
    text out = {0};
    long here = 0, last = -1; /* lines of the cell: of what comes, of what was written last */
    bool placed = true;
    for (const char *line = code; *line;) {
        size_t size = strcspn(line, "\n"), blanks = strspn(line, " \t");
        if (!strncmp(line, "#line", 5)) {
            placed = true;
            here = strtol(line + 5, NULL, 10) - 1;
        } else if (blanks < size) {
            bool end = !strncmp(line + blanks, ";", 1) && size == blanks + 1,
                 joined = here == last && line[blanks] != '#';
            if (out.size && !end) text_add(&out, joined ? " " : "\n");
            add_line(&out, placed ? line + blanks : line, line + size);
            placed = false;
            last = here;
        }
        here++;
        line += size + (line[size] == '\n');
    }
    return text_take(&out);
}

char *settable_type(const char *type)
{
    const char *star = strrchr(type, '*'), *constant = strstr(type, "const ");
    if (!star && constant == type) return copy_of(type + strlen("const "));
    char *copy = copy_of(type);
    char *behind = star ? strstr(copy + (star - type), "const") : NULL;
    if (behind) memmove(behind, behind + 5, strlen(behind + 5) + 1);
    return copy;
}

/* ---- definitions ---- */

static void collect(entity *e, void *closure)
{
    program *p = closure;
    p->all = need_grown(p->all, p->count, &p->capacity, sizeof *p->all);
    p->all[p->count++] = e;
}

/* True the first time. */
static bool take(program *p, entity *e)
{
    for (size_t i = 0; i < p->done_count; i++) {
        if (p->done[i] == e) return false;
    }
    p->done = need_grown(p->done, p->done_count, &p->done_capacity, sizeof *p->done);
    p->done[p->done_count++] = e;
    return true;
}

static void write_variable(program *p, entity *e, text *into)
{
    char *type = settable_type(e->type ? e->type : "int"), *line = declared(type, e->name);
    if (e->constant) {
        char *constant = declared(e->type, e->name);
        text_addf(into, "%s = %s;\n", constant, e->constant);
        free(constant);
    } else if (e->written) {
        text_addf(into, "%s%s;\n", e->defined ? "" : "extern ", line);
    } else if (e->declaration) {
        char *shown = cleaned(e->declaration);
        text_addf(into, "%s\n", !strncmp(shown, "extern ", 7) && e->defined ? shown + 7 : shown);
        free(shown);
    }
    (void)p;
    free(type);
    free(line);
}

/* Is it one that `typeof` or `sizeof` in the type depends on, and not one that is declared with it? */
static bool names_variable(const entity *type, const entity *variable)
{
    bool asks = strstr(type->declaration, "typeof") || strstr(type->declaration, "sizeof");
    return asks && variable->serial <= type->serial && strstr(type->declaration, variable->name);
}

/* `struct node;` of a struct of the notebook's that is not written yet. */
static void declare_tag(program *p, const char *tag)
{
    const char *name = strchr(tag, ' ') + 1;
    entity *e = symbols_find_bytes(p->s->symbols, 't', name, strlen(name));
    for (size_t i = 0; i < p->done_count; i++) {
        if (p->done[i] == e) return;
    }
    if (e) text_addf(&p->types, "%s;\n", tag);
}

/* After what it depends on. */
static void write_type(program *p, entity *e)
{
    if (!take(p, e)) return;
    for (size_t i = 0; i < e->forward_dependencies.count; i++) declare_tag(p, e->forward_dependencies.items[i]);
    for (size_t i = 0; i < e->uses.count; i++) {
        for (const char *space = declaration_suffices(e, e->uses.items[i]) ? "o" : "to"; *space; space++) {
            entity *used = symbols_find_bytes(p->s->symbols, *space, e->uses.items[i], strlen(e->uses.items[i]));
            if (used && used->kind == ENTITY_TYPE) write_type(p, used);
            bool measured = used && used->kind == ENTITY_VARIABLE && e->declaration;
            if (measured && names_variable(e, used) && take(p, used)) write_variable(p, used, &p->types);
        }
    }
    char *shown = e->kind == ENTITY_TYPE && e->declaration ? cleaned(e->declaration) : NULL;
    if (shown) text_addf(&p->types, "%s\n", shown);
    free(shown);
}

static void write_function(program *p, const entity *e)
{
    char *head = e->declaration ? cleaned(e->declaration) : copy_of("");
    if (*head && strcmp(e->name, "main")) text_addf(&p->prototypes, "%s\n", head);
    char *whole = e->definition ? cleaned(e->definition) : NULL;
    if (whole && e->unfit) text_addf(&p->functions, "/* %s() no longer fits: %s */\n\n", e->name, e->unfit);
    else if (whole && !strcmp(e->name, "main"))
        text_addf(&p->functions, "#define main notebook_main\n%s\n#undef main\n\n", whole);
    else if (whole) text_addf(&p->functions, "%s\n\n", whole);
    free(head);
    free(whole);
}

static void write_definitions(program *p)
{
    symbols_each(p->s->symbols, collect, p);
    for (size_t i = 0; i < p->count; i++) {
        if (p->all[i]->kind == ENTITY_TYPE) write_type(p, p->all[i]);
    }
    for (size_t i = 0; i < p->count; i++) {
        if (p->all[i]->kind == ENTITY_VARIABLE && p->all[i]->name && take(p, p->all[i]))
            write_variable(p, p->all[i], &p->variables);
        if (p->all[i]->kind == ENTITY_FUNCTION && p->all[i]->name) write_function(p, p->all[i]);
    }
}

/* The session's includes, with the macros before them; each line once. */
static void write_includes(const program *p, text *into)
{
    names seen = {0};
    for (const char *line = p->s->prefix; *line;) {
        size_t size = strcspn(line, "\n");
        char *copy = copy_of_bytes(line, size);
        bool wanted = size && strncmp(copy, "#line", 5) && strncmp(copy, "#undef", 6) && !names_have(&seen, copy);
        if (wanted) text_addf(into, "%s\n", copy);
        if (wanted) names_add_bytes(&seen, copy, size);
        free(copy);
        line += size + (line[size] == '\n');
    }
    names_free(&seen);
    if (p->uses_print && !(into->data && strstr(into->data, "<stdio.h>"))) text_add(into, "#include <stdio.h>\n");
    if (p->uses_memory && !(into->data && strstr(into->data, "<string.h>"))) text_add(into, "#include <string.h>\n");
}

static void write_macros(const program *p, text *into)
{
    for (size_t i = 0; i < p->count; i++) {
        const entity *e = p->all[i];
        if (e->kind != ENTITY_MACRO || !e->shown || strncmp(e->shown + 1 + strspn(e->shown + 1, " \t"), "define", 6))
            continue;
        if (into->data && strstr(into->data, e->shown)) continue; /* it stands before an include */
        char *earlier = format_text("define %s", e->name);
        if (into->data && strstr(into->data, earlier)) text_addf(into, "#undef %s\n", e->name);
        text_addf(into, "%s\n", e->shown);
        free(earlier);
    }
}

/* How to compile it, with the flags that the notebook has added. */
static void write_head(const program *p, text *into)
{
    text_add(into, "/* Written by %export from a notebook. It compiles with\n *   cc FILE");
    for (size_t i = 0; i < p->s->base_flags.count; i++) {
        const char *flag = p->s->base_flags.items[i];
        if (!names_have(&p->s->first_flags, flag) && strncmp(flag, "-iquote", 7)) text_addf(into, " %s", flag);
    }
    text_add(into, " $(pkg-config --cflags --libs kolo)");
    for (size_t i = 0; i < p->s->compiler.link_flags.count; i++)
        text_addf(into, " %s", p->s->compiler.link_flags.items[i]);
    text_add(into, " */\n");
}

static void add_part(text *whole, text *part)
{
    if (part->size) text_addf(whole, "%s%s", whole->size ? "\n" : "", part->data);
    text_free(part);
}

char *program_of(session *s)
{
    program p = {.s = s};
    text whole = {0}, top = {0};
    write_definitions(&p);
    write_cells(&p);
    write_includes(&p, &top);
    write_macros(&p, &top);
    write_head(&p, &whole);
    add_part(&whole, &top);
    add_part(&whole, &p.types);
    add_part(&whole, &p.prototypes);
    add_part(&whole, &p.variables);
    while (p.functions.size && p.functions.data[p.functions.size - 1] == '\n') p.functions.data[--p.functions.size] = 0;
    if (p.functions.size) text_add(&p.functions, "\n");
    add_part(&whole, &p.functions);
    add_part(&whole, &p.cells);
    text_addf(&whole, "\nint main(void)\n{\n%s    return 0;\n}\n", p.body.data ? p.body.data : "");
    text_free(&p.body);
    free(p.all);
    free(p.done);
    names_free(&p.renamed);
    names_free(&p.given);
    names_free(&p.moving);
    return text_take(&whole);
}
