/* Functions that were compiled before the debugger was switched on: once more, for its eyes. See state.h; build.h. */
#define _GNU_SOURCE
#include "build.h"
#include "debug/state.h"
#include "print.h"

#include <stdlib.h>
#include <string.h>

typedef struct earlier {
    entity **functions, **variables;
    size_t function_count, function_capacity, variable_count, variable_capacity;
    text left; /* names of functions that stay as they are */
} earlier;

static void leave(earlier *e, const entity *function)
{
    text_addf(&e->left, "%s%s()", e->left.size ? ", " : "", function->name);
}

static void add_earlier(entity *one, void *closure)
{
    earlier *e = closure;
    if (one->kind == ENTITY_VARIABLE && one->link && !one->gone) {
        e->variables = need_grown(e->variables, e->variable_count, &e->variable_capacity, sizeof *e->variables);
        e->variables[e->variable_count++] = one;
    }
    if (one->kind != ENTITY_FUNCTION || !one->link || !one->definition || one->unfit) return;
    e->functions = need_grown(e->functions, e->function_count, &e->function_capacity, sizeof *e->functions);
    e->functions[e->function_count++] = one;
}

static entity **copy_list(entity *const *list, size_t count)
{
    entity **copy = need_zeroed((count + 1) * sizeof *copy);
    if (count) memcpy(copy, list, count * sizeof *copy);
    return copy;
}

/* The variables come along for their types. */
static bool compiled(session *s, entity *const *functions, size_t function_count, entity *const *variables,
                     size_t variable_count)
{
    build b = {.s = s, .form = VALUE_NONE};
    parsed_cell *parsed = &b.cell;
    s->serial++;
    *parsed = parsed_cell_of("", "In[0]", s->serial, s->prefix, s->symbols);
    parsed->again = copy_list(functions, function_count);
    parsed->again_count = function_count;
    parsed->recheck = copy_list(variables, variable_count);
    parsed->recheck_count = variable_count;
    parsed->recheck_offset = need_zeroed((variable_count + 1) * sizeof *parsed->recheck_offset);
    unit u = unit_of(parsed, s->symbols, VALUE_PROBE, NULL); /* marks what they use: it is named as well */
    b.mark = u.mark;
    text_free(&u.source);
    name_all(&b);
    char *path = NULL;
    result r = {0};
    bool good = build_and_load(&b, &path, &r);
    result_free(&r);
    free(path);
    build_free(&b);
    return good;
}

/* All at once, or, where one of them spoils it, each by itself. */
void compile_again(session *s)
{
    earlier e = {0};
    symbols_each(s->symbols, add_earlier, &e);
    bool any = e.function_count || e.variable_count;
    if (any && !compiled(s, e.functions, e.function_count, e.variables, e.variable_count)) {
        for (size_t i = 0; i < e.function_count; i++) {
            if (!compiled(s, &e.functions[i], 1, NULL, 0)) leave(&e, e.functions[i]);
        }
        for (size_t i = 0; i < e.variable_count; i++) compiled(s, NULL, 0, &e.variables[i], 1);
    }
    if (e.left.size) {
        char *note = format_text("the debugger can step through %s once its cell has run again\n", e.left.data);
        print_error(s, note);
        free(note);
    }
    free(e.functions);
    free(e.variables);
    text_free(&e.left);
}
