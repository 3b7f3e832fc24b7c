#define _GNU_SOURCE
#include "help/help.h"
#include "diagnostics/nearest.h"
#include "diagnostics/standard.h"
#include "help/help_page.h"
#include "magics/magics.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Names, magics, `struct node`, `ring.next->value`, `grid[2]`; nothing that might be meant as C or for the shell. */
static bool may_be_asked(const char *code, size_t size)
{
    if (*code == '!' || memmem(code, size, "//", 2)) return false;
    size_t name = strspn(code, "%");
    for (size_t i = name; i < size; i++) {
        bool part = !name && strchr(" .->[]()*&", code[i]);
        if (!word_byte(code[i]) && !part) return false;
    }
    return size > name && (word_byte(code[name]) || strchr("(*&", code[name]));
}

char *question_of(const char *code, int *detail)
{
    size_t size = strlen(code), marks = 0;
    while (size && isspace((unsigned char)code[size - 1])) size--;
    if (memchr(code, '\n', size)) return NULL;
    for (; size && code[0] == '?'; marks++) code++, size--;
    for (; size && code[size - 1] == '?'; marks++) size--;
    while (size && isspace((unsigned char)*code)) code++, size--;
    while (size && isspace((unsigned char)code[size - 1])) size--;
    if (detail) *detail = marks > 1;
    return marks && size && may_be_asked(code, size) ? copy_of_bytes(code, size) : NULL;
}

static char *describe_magic(const session *s, const char *name)
{
    while (*name == '%') name++;
    const char *alias = magic_alias(name, strlen(name));
    if (alias) name = alias;
    page p = {0};
    for (const magic *m = s->magics; m->name; m++) {
        if (strcmp(m->name, name)) continue;
        if (!p.signature) {
            p.signature = copy_of(m->usage);
            p.comment = copy_of(m->help);
        } else {
            text_addf(&p.rest, "%s\n\n%s\n", m->usage, m->help);
        }
    }
    return p.signature ? page_text(&p) : NULL;
}

/* kolo_fit(…) fills a kolo_fit_args and calls kolo_fit_at(): a unit that has these names has the macro, too. */
static char *describe_helper(session *s, const char *name)
{
    for (const char *const *tail = (const char *const[]){"_at", "_args", "_kind", NULL}; *tail; tail++) {
        char *helper = format_text("%s%s", name, *tail), *about = NULL;
        CXCursor found = cursor_named(s, helper);
        if (!clang_Cursor_isNull(found)) {
            CXFile file;
            clang_getExpansionLocation(clang_getCursorLocation(found), &file, NULL, NULL, NULL);
            char *path = clang_text(clang_getFileName(file));
            about = describe_call(name, path);
            free(path);
        }
        free(helper);
        if (about) return about;
    }
    return NULL;
}

/* An empty cell behind the header: its unit begins as that of the cell does in which the name stands (help_place.c). */
static void parse_with(session *s, const char *header)
{
    parsed_cell parsed = parsed_behind(s, "", header);
    unit u = unit_of(&parsed, s->symbols, VALUE_NONE, NULL);
    analyser_parse(&s->analyser, u.source.data, u.source.size);
    text_free(&u.source);
    parsed_cell_free(&parsed);
}

static char *far_key(const inquiry *ask, const char *name, const char *header)
{
    return format_text("%s %d %s", header, ask->detail, name);
}

/* An earlier answer of describe_far(), as long as no cell has included the header. The caller frees. */
static char *known_far(const inquiry *ask, const char *name)
{
    const char *header = standard_declaring(&ask->s->analyser, name);
    if (!header || strstr(ask->s->prefix, header)) return NULL;
    char *key = far_key(ask, name, header);
    const char *known = remembered(ask->s, key);
    free(key);
    return known ? copy_of(known) : NULL;
}

/* A name of the C library whose header may not be included yet. The answer is kept, since such a header does not
 * change. */
static char *describe_far(const inquiry *ask, const char *name, const char *header)
{
    char *key = far_key(ask, name, header), *about = NULL;
    const char *known = remembered(ask->s, key);
    if (known) {
        about = copy_of(known);
    } else {
        parse_with(ask->s, header);
        about = describe_cursor(ask, cursor_named(ask->s, name));
        if (!about) about = describe_macro(ask->s, name, header);
        if (about) remember(ask->s, key, about);
    }
    free(key);
    return about;
}

/* A name of a header's, also of one that no cell has included yet. */
static char *describe_declared(const inquiry *ask, const char *name)
{
    session *s = ask->s;
    char *about = known_far(ask, name);
    if (about) return about;
    parse_with(s, "kolo.h");
    about = describe_cursor(ask, cursor_named(s, name));
    if (!about) about = describe_helper(s, name);
    const char *header = about ? NULL : standard_declaring(&s->analyser, name);
    if (!header && !about) return describe_macro(s, name, NULL);
    return header ? describe_far(ask, name, header) : about;
}

/* "node" of "struct node"; NULL when no tag is asked about. */
static const char *tag_of(const char *name)
{
    for (const char *const *word = (const char *const[]){"struct ", "union ", "enum ", NULL}; *word; word++) {
        if (!strncmp(name, *word, strlen(*word))) return name + strlen(*word) + strspn(name + strlen(*word), " ");
    }
    return NULL;
}

/* A constant of a session's enum: its type is known by its name too. */
static char *describe_constant(const inquiry *ask, const char *name)
{
    char *about = describe_place(&(inquiry){ask->s, name, ask->detail}, 0);
    if (about && strstr(about, "\nconstant of ")) return about;
    free(about);
    return NULL;
}

static char *describe_name(const inquiry *ask, const char *name)
{
    if (*name == '%') return describe_magic(ask->s, name);
    const char *tag = tag_of(name);
    entity *e = NULL;
    for (const char *space = tag ? "t" : "omt"; *space && !e; space++)
        e = symbols_find_bytes(ask->s->symbols, *space, tag ? tag : name, strlen(tag ? tag : name));
    char *constant = e && e->kind == ENTITY_TYPE && !tag ? describe_constant(ask, name) : NULL;
    if (e) return constant ? constant : describe_entity(ask, e);
    char *about = describe_keyword(name);
    return about ? about : describe_declared(ask, tag ? tag : name);
}

char *describe(const inquiry *ask, const char *name)
{
    char *about = NULL;
    size_t size = strlen(name), word = strspn(name, "%");
    while (word < size && word_byte(name[word])) word++;
    bool plain = word == size || tag_of(name);
    if (plain) about = describe_name(ask, name);
    if (about || *name == '%') return about;
    about = describe_place(&(inquiry){ask->s, name, ask->detail}, size - 1);
    if (about || plain) return about;
    char *first = copy_of_bytes(name, word); /* `unsigned long` */
    about = strchr(name, ' ') && word ? describe_keyword(first) : NULL;
    free(first);
    return about;
}

static void consider_word(const char *name, const char *header, void *closure)
{
    (void)header;
    consider(closure, name);
}

static void consider_entity(entity *e, void *closure)
{
    for (size_t i = 0; i < e->defines.count; i++) {
        if (strncmp(e->defines.items[i], "t:unnamed_", 10)) consider(closure, e->defines.items[i] + 2);
    }
}

static result unknown(session *s, const char *name)
{
    if (*name == '%') {
        const char *word = name + strspn(name, "%");
        char *said = about_unknown_magic(s, word, strlen(word), name[1] == '%');
        result r = error_result("NameError", "%s", said);
        free(said);
        return r;
    }
    size_t size = strlen(name);
    char *header = size > 2 && !strcmp(name + size - 2, ".h") ? standard_nearest(&s->analyser, name) : NULL;
    if (header) {
        result r = error_result("NameError", "there is no help on '%s'; the nearest header is <%s>", name, header);
        free(header);
        return r;
    }
    nearest_name n = {.wanted = name, .best = SIZE_MAX};
    symbols_each(s->symbols, consider_entity, &n);
    names words = {0};
    complete_keywords("", &words);
    for (size_t i = 0; i < words.count; i++) consider(&n, words.items[i]);
    names_free(&words);
    standard_each(&s->analyser, "", consider_word, &n);
    result r = n.found ? error_result("NameError", "there is no help on '%s'; the nearest name is '%s'", name, n.found)
                       : error_result("NameError", "there is no help on '%s'", name);
    free(n.found);
    return r;
}

typedef struct header_names {
    const char *header;
    text list;
    size_t line; /* where the last line of the list begins */
} header_names;

static void add_of_header(const char *name, const char *header, void *closure)
{
    enum { WIDTH = 100, MOST = 4000 };
    header_names *h = closure;
    if (strcmp(header, h->header) || *name == '_' || h->list.size > MOST) return;
    if (h->list.size - h->line + strlen(name) > WIDTH) {
        text_add(&h->list, "\n");
        h->line = h->list.size;
    }
    text_addf(&h->list, "%s%s", h->list.size > h->line ? " " : "", name);
}

/* `stdio.h?`: how it is taken in, and what it declares. NULL: there is no such header. The caller frees. */
static char *about_header(session *s, const char *name)
{
    size_t size = strlen(name);
    char *near = size > 2 && !strcmp(name + size - 2, ".h") ? standard_nearest(&s->analyser, name) : NULL;
    bool found = near && !strcmp(near, name);
    free(near);
    if (!found) return NULL;
    header_names h = {.header = name};
    standard_each(&s->analyser, "", add_of_header, &h);
    char *about = format_text("%s is a header; #include <%s> takes it in.%s%s\n", name, name,
                              h.list.size ? " It declares\n" : "", h.list.size ? h.list.data : "");
    text_free(&h.list);
    return about;
}

result answer_question(session *s, const char *name, int detail)
{
    help_begins(s);
    char *about = describe(&(inquiry){s, NULL, detail}, name);
    if (!about) about = about_header(s, name);
    result none_known = about ? (result){0} : unknown(s, name);
    help_ends(s);
    if (!about) return none_known;
    result r = {.payload =
                    json_pack("[{s:s, s:i, s:{s:s}}]", "source", "page", "start", 0, "data", "text/plain", about)};
    free(about);
    return r;
}
