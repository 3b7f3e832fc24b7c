/* Help for the calls of Kolo's that take options: kolo_fit(model, data, .epochs = 3) is a macro over a helper, and what
 * its user wants to see is the macro's own comment and the options. Read first: help.h. */
#define _GNU_SOURCE
#include "help/help.h"
#include "help/help_page.h"

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* The comment that ends right before `at` of a file's text. */
static char *comment_before(const char *whole, const char *at)
{
    while (at > whole && isspace((unsigned char)at[-1])) at--;
    if (at - whole < 4 || strncmp(at - 2, "*/", 2)) return copy_of("");
    const char *begin = at - 2;
    while (begin > whole && strncmp(begin, "/*", 2)) begin--;
    return copy_of_bytes(begin, (size_t)(at - begin));
}

/* A line of kolo.h's that no caller writes: the place holder, and the guard behind the positional arguments. */
static bool internal_line(const char *line, size_t size, const char *what)
{
    const char *begin = line + strspn(line, " ");
    return (size_t)(begin - line) + strlen(what) == size && !strncmp(begin, what, strlen(what));
}

/* Adds the names declared in a line of a struct: "int height, width; // …" gives "height, width". */
static void add_declared(text *into, const char *line, size_t size)
{
    size_t name = 0, name_end = 0;
    bool in_size = false; /* of an array */
    for (size_t i = 0; i < size; i++) {
        in_size = line[i] == '[' || (in_size && line[i] != ']');
        if (in_size) continue;
        bool letter = isalnum((unsigned char)line[i]) || line[i] == '_';
        if (letter && (!i || !(isalnum((unsigned char)line[i - 1]) || line[i - 1] == '_'))) name = i;
        if (letter) name_end = i + 1;
        if (line[i] == '/') break;
        if (line[i] == ',' || line[i] == ';')
            text_addf(into, "%s%.*s", into->size ? ", " : "", (int)(name_end - name), line + name);
    }
}

/* The members of a call's options: those before the guard are positional, those behind it need their names. */
static void split_options(const char *body, const char *end, text *positional, text *positional_lines,
                          text *named_lines)
{
    bool named = false;
    while (body < end) {
        size_t size = strcspn(body, "\n");
        bool skip = !size || internal_line(body, size, "int _;") || internal_line(body, size, "const char *_;");
        if (internal_line(body, size, "kolo_guard *guard;")) {
            named = true;
        } else if (!skip) {
            text_addf(named ? named_lines : positional_lines, "%.*s\n", (int)size, body);
            if (!named) add_declared(positional, body, size);
        }
        body += size + (body[size] == '\n');
    }
}

/* kolo_fit(model, data, .option = …), the comment about it, and its options with theirs. */
static char *page_of_call(const char *name, const char *macro_comment, const char *about, const char *body,
                          const char *end)
{
    text positional = {0}, positional_lines = {0}, named_lines = {0};
    split_options(body, end, &positional, &positional_lines, &named_lines);
    char *first = plain_comment(macro_comment), *second = plain_comment(about);
    page p = {.signature =
                  format_text("%s(%s%s%s)", name, positional.size ? positional.data : "",
                              positional.size && named_lines.size ? ", " : "", named_lines.size ? ".option = …" : ""),
              .comment = format_text("%s%s%s", first, *first && *second ? "\n\n" : "", second)};
    if (positional.size) text_addf(&p.rest, "Arguments:\n%s", positional_lines.data);
    if (named_lines.size) text_addf(&p.rest, "%sOptions:\n%s", p.rest.size ? "\n" : "", named_lines.data);
    text_add(&p.facts, "#include <kolo.h>\n");
    free(first);
    free(second);
    text_free(&positional);
    text_free(&positional_lines);
    text_free(&named_lines);
    return page_text(&p);
}

/* A macro of kolo.h's without options. */
static char *page_of_macro(const char *macro, const char *comment)
{
    const char *close = strchr(macro, ')');
    page p = {.signature = copy_of_bytes(macro + 8, close ? (size_t)(close - macro) - 7 : 0),
              .comment = plain_comment(comment)};
    text_add(&p.facts, "#include <kolo.h>\n");
    return page_text(&p);
}

/* A call of kolo.h's is a macro over a helper: kolo_fit(…) fills a kolo_fit_args and calls kolo_fit_at(). The page
 * has the macro's own comment and the options. */
char *describe_call(const char *name, const char *file)
{
    char *whole = read_whole_file(file), *line = format_text("#define %s(", name), *about = NULL;
    char *options = format_text("typedef struct %s_args {", name), *options_end = format_text("} %s_args;", name);
    const char *macro = whole ? strstr(whole, line) : NULL;
    const char *begin = macro ? strstr(whole, options) : NULL, *end = begin ? strstr(begin, options_end) : NULL;
    if (macro) {
        char *comment = comment_before(whole, macro),
             *about_options = begin ? comment_before(whole, begin) : copy_of("");
        about = end ? page_of_call(name, comment, about_options, begin + strlen(options), end)
                    : page_of_macro(macro, comment);
        free(comment);
        free(about_options);
    }
    free(whole);
    free(line);
    free(options);
    free(options_end);
    return about;
}

static void add_file(text *whole, const char *path)
{
    char *part = read_whole_file(path);
    if (part) text_add(whole, part);
    free(part);
}

/* kolo.h and the headers beside it that it includes, from the first folder among the flags that has them; NULL when
 * none has. */
static char *read_kolo_header(const session *s)
{
    text whole = {0};
    for (size_t i = 0; i < s->base_flags.count && !whole.size; i++) {
        if (strncmp(s->base_flags.items[i], "-I", 2)) continue;
        char *pattern = format_text("%s/kolo*.h", s->base_flags.items[i] + 2);
        glob_t found;
        if (glob(pattern, 0, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc; k++) add_file(&whole, found.gl_pathv[k]);
            globfree(&found);
        }
        free(pattern);
    }
    return whole.size ? text_take(&whole) : NULL;
}

/* Blanks comments, also those of several lines, whose words are no members. */
static void blank_comments(char *lines)
{
    for (char *begin; (begin = strstr(lines, "/*")); lines = begin) {
        char *end = strstr(begin, "*/");
        for (end = end ? end + 2 : begin + strlen(begin); begin < end; begin++)
            if (*begin != '\n') *begin = ' ';
    }
}

/* Adds the names that the lines of a struct declare, one line after the other. */
static void add_all_declared(text *names_of, char *lines)
{
    blank_comments(lines);
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n')
        add_declared(names_of, line, strcspn(line, "\n"));
}

/* "epochs, batch_size, …": the names of the options of such a call; NULL when it has none. The caller frees. */
static char *call_options(session *s, const char *name)
{
    char *whole = read_kolo_header(s), *found = NULL;
    char *begin_text = format_text("typedef struct %s_args {", name), *end_text = format_text("} %s_args;", name);
    const char *begin = whole ? strstr(whole, begin_text) : NULL, *end = begin ? strstr(begin, end_text) : NULL;
    if (end) {
        text positional = {0}, positional_lines = {0}, named_lines = {0}, all = {0};
        split_options(begin + strlen(begin_text), end, &positional, &positional_lines, &named_lines);
        if (named_lines.size) add_all_declared(&all, named_lines.data);
        found = text_take(&all);
        text_free(&positional);
        text_free(&positional_lines);
        text_free(&named_lines);
    }
    free(begin_text);
    free(end_text);
    free(whole);
    return found;
}

char *option_type(session *s, const char *call, const char *option)
{
    char *whole = read_kolo_header(s), *type = NULL, *member = format_text(" %s;", option);
    char *begin_text = format_text("typedef struct %s_args {", call), *end_text = format_text("} %s_args;", call);
    const char *begin = whole ? strstr(whole, begin_text) : NULL, *end = begin ? strstr(begin, end_text) : NULL;
    const char *at = end ? memmem(begin, (size_t)(end - begin), member, strlen(member)) : NULL;
    if (at) {
        const char *line = whole + line_start(whole, (size_t)(at - whole));
        line += strspn(line, " ");
        if (!strncmp(line, "kolo_", 5) && !memchr(line, '*', (size_t)(at - line)))
            type = copy_of_bytes(line, (size_t)(at - line));
    }
    free(begin_text);
    free(end_text);
    free(member);
    free(whole);
    return type;
}

bool complete_options(session *s, const char *call, const char *start, names *into)
{
    char *options = call_options(s, call), *rest;
    if (!options) return false;
    for (char *one = strtok_r(options, ", ", &rest); one; one = strtok_r(NULL, ", ", &rest)) {
        if (!strncmp(one, start, strlen(start))) names_add(into, one);
    }
    free(options);
    return true;
}
