/* Help for macros: the preprocessor itself is asked what one is and what it becomes. See help_page.h. */
#define _GNU_SOURCE
#include "diagnostics/standard.h"
#include "help/help_page.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = "kolo_expansion_of";

/* The macro's last definition in a preprocessor's output, and the file it comes from: `# 12 "file"` lines say. */
static char *last_definition(const char *code, const char *name, char **file)
{
    char *defined = NULL;
    const char *place = NULL;
    size_t size = strlen(name);
    for (const char *line = code; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (!strncmp(line, "# ", 2)) place = strchr(line, '"');
        if (strncmp(line, "#define ", 8) || strncmp(line + 8, name, size) || !strchr(" (\n", line[8 + size])) continue;
        free(defined);
        free(*file);
        defined = copy_of_bytes(line, strcspn(line, "\n"));
        *file = place ? copy_of_bytes(place + 1, strcspn(place + 1, "\"\n")) : NULL;
    }
    return defined;
}

/* The text behind the mark, in one line. */
static char *expansion_in(const char *code)
{
    const char *at = NULL;
    for (const char *p = code; (p = strstr(p, mark)); p++) at = p + strlen(mark);
    text out = {0};
    for (; at && *at; at++) {
        bool blank = *at == ' ' || *at == '\n' || *at == '\t';
        if (*at == '\n' && at[1] == '#') at += 1 + strcspn(at + 1, "\n") - 1;
        else if (!blank) text_add_bytes(&out, at, 1);
        else if (out.size && out.data[out.size - 1] != ' ') text_add(&out, " ");
    }
    while (out.size && out.data[out.size - 1] == ' ') out.data[--out.size] = 0;
    return text_take(&out);
}

/* "35" of an object-like macro that stands for a number that is known when it is compiled; NULL for any other. */
static char *value_of(session *s, const char *name, const text *code)
{
    char *probe = format_text("%s\n__auto_type kolo_probe = %s;\n", code->data, name), *value = NULL;
    analyser_parse(&s->analyser, probe, strlen(probe));
    free(probe);
    CXCursor variable = s->analyser.unit ? cursor_named(s, "kolo_probe") : clang_getNullCursor();
    CXEvalResult found = clang_Cursor_isNull(variable) ? NULL : clang_Cursor_Evaluate(variable);
    if (!found) return NULL;
    CXEvalResultKind kind = clang_EvalResult_getKind(found);
    bool pointer = clang_getCanonicalType(clang_getCursorType(variable)).kind == CXType_Pointer;
    if (kind == CXEval_Int && !pointer)
        value = clang_EvalResult_isUnsignedInt(found) ? format_text("%llu", clang_EvalResult_getAsUnsigned(found))
                                                      : format_text("%lld", clang_EvalResult_getAsLongLong(found));
    else if (kind == CXEval_Float) value = format_text("%.17g", clang_EvalResult_getAsDouble(found));
    clang_EvalResult_dispose(found);
    return value;
}

/* The header's name as an #include has it. */
static const char *short_name(const char *file)
{
    const char *found = strstr(file, "/include/"), *next = found;
    while (next && (next = strstr(next + 1, "/include/"))) found = next;
    const char *last = strrchr(file, '/');
    return found ? found + strlen("/include/") : last ? last + 1 : file;
}

/* The preprocessor's facts about a macro; all NULL when it knows none of that name. */
typedef struct macro {
    char *defined, *file, *becomes, *value;
} macro;

static macro macro_of(session *s, const char *name, const char *header)
{
    text code = {0};
    text_addf(&code, "%s\n", s->prefix);
    if (header) text_addf(&code, "#include <%s>\n", header);
    symbols_add_macros(s->symbols, &code);
    size_t before = code.size;
    text_addf(&code, "\n%s %s\n", mark, name);
    macro m = {0};
    names flags = {0};
    names_add_all(&flags, &s->base_flags);
    names_add(&flags, "-dD");
    char *found = preprocessed(&code, &flags, s->folder);
    m.defined = found ? last_definition(found, name, &m.file) : NULL;
    bool plain = m.defined && m.defined[strlen("#define ") + strlen(name)] != '(';
    if (plain) {
        m.becomes = expansion_in(found);
        code.data[code.size = before] = 0;
        m.value = *m.becomes ? value_of(s, name, &code) : NULL;
    }
    names_free(&flags);
    text_free(&code);
    free(found);
    return m;
}

static void macro_free(macro *m)
{
    free(m->defined);
    free(m->file);
    free(m->becomes);
    free(m->value);
}

static void add_facts(const macro *m, const char *name, text *facts)
{
    if (!m->becomes) return;
    const char *body = m->defined + strlen("#define ") + strlen(name);
    if (*m->becomes && strcmp(m->becomes, body + strspn(body, " ")) != 0)
        text_addf(facts, "expands to %s\n", m->becomes);
    if (m->value && strcmp(m->value, m->becomes) != 0) text_addf(facts, "value: %s\n", m->value);
}

char *macro_facts(session *s, const char *name)
{
    macro m = macro_of(s, name, NULL);
    text facts = {0};
    if (m.defined) add_facts(&m, name, &facts);
    macro_free(&m);
    return text_take(&facts);
}

char *describe_macro(session *s, const char *name, const char *header)
{
    macro m = macro_of(s, name, header);
    page p = {.signature = m.defined ? copy_of(m.defined) : NULL};
    if (m.defined) add_facts(&m, name, &p.facts);
    const char *told = header ? header : standard_declaring(&s->analyser, name);
    if (told) text_addf(&p.facts, "#include <%s>\n", told);
    else if (m.file && *m.file == '/') text_addf(&p.facts, "defined in %s\n", short_name(m.file));
    char *manual = told ? manual_page(s, name, false) : NULL;
    if (manual) text_add(&p.rest, manual);
    free(manual);
    bool any = m.defined != NULL;
    macro_free(&m);
    char *about = page_text(&p);
    if (any) return about;
    free(about);
    return NULL;
}
