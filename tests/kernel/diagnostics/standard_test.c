/* The table of names and headers behind "#include <math.h> declares sin": a unit that includes the header that the
 * table names knows the name. */
#include "diagnostics/nearest.h"
#include "diagnostics/standard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Of nearest.c, for standard_nearest(), which is not asked here. */
size_t distance_of(const char *a, size_t size, const char *b)
{
    (void)a, (void)size, (void)b;
    return 0;
}

void keep_nearer(nearest_name *n, const char *name, size_t distance)
{
    (void)n, (void)name, (void)distance;
}

enum { MOST_HEADERS = 100 };

typedef struct header {
    const char *name;
    names declares;
} header;

typedef struct table {
    header headers[MOST_HEADERS];
    size_t count, names;
} table;

static void take(const char *name, const char *from, void *closure)
{
    table *t = closure;
    size_t i = 0;
    while (i < t->count && strcmp(t->headers[i].name, from)) i++;
    assert_true(i < MOST_HEADERS);
    if (i == t->count) t->headers[t->count++] = (header){.name = from};
    names_add(&t->headers[i].declares, name);
    t->names++;
}

/* Each name as a macro, a type, a function or a constant on a line of its own, or where `tag` says so as a tag. */
static text unit_with(const header *h, const char *tag)
{
    text unit = {0};
    text_addf(&unit, "#include <%s>\n", h->name);
    for (size_t i = 0; i < h->declares.count; i++) {
        const char *name = h->declares.items[i];
        if (tag) text_addf(&unit, "typedef char use_%zu[sizeof(%s %s)];\n", i, tag, name);
        else text_addf(&unit, "#ifndef %s\ntypedef __typeof__(%s) use_%zu;\n#endif\n", name, name, i);
    }
    return unit;
}

/* Takes out of `left` the names whose line has no error. */
static void strike(analyser *a, const header *h, const char *tag, bool *left)
{
    text unit = unit_with(h, tag);
    bool *wrong = calloc(h->declares.count + 1, sizeof *wrong);
    assert_true(analyser_parse(a, unit.data, unit.size));
    for (unsigned i = 0; i < clang_getNumDiagnostics(a->unit); i++) {
        CXDiagnostic one = clang_getDiagnostic(a->unit, i);
        unsigned line = 0;
        clang_getFileLocation(clang_getDiagnosticLocation(one), NULL, &line, NULL, NULL);
        size_t at = line < 2 ? h->declares.count : tag ? line - 2 : (line - 2) / 3;
        if (clang_getDiagnosticSeverity(one) >= CXDiagnostic_Error && at < h->declares.count) wrong[at] = true;
        clang_disposeDiagnostic(one);
    }
    for (size_t i = 0; i < h->declares.count; i++) left[i] &= wrong[i];
    free(wrong);
    text_free(&unit);
}

static size_t complain(analyser *a, const header *h)
{
    static const char *const tags[] = {NULL, "struct", "union", "enum"};
    bool *left = malloc(h->declares.count * sizeof *left);
    size_t bad = 0;
    memset(left, true, h->declares.count * sizeof *left);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) strike(a, h, tags[i], left);
    for (size_t i = 0; i < h->declares.count; i++) {
        if (left[i]) print_error("#include <%s> does not declare %s\n", h->name, h->declares.items[i]);
        bad += left[i];
    }
    free(left);
    return bad;
}

static void each_name_is_declared_by_its_header(void **state)
{
    (void)state;
    char folder[] = "/tmp/kolo-test-XXXXXX";
    names flags = {0};
    names_add_words(&flags,
                    (const char *const[]){"-std=gnu17", "-D_GNU_SOURCE", "-Iext/include", "-ferror-limit=0", NULL});
    assert_non_null(mkdtemp(folder));
    analyser a;
    analyser_open(&a, &flags, folder);
    table t = {0};
    standard_each(&a, "", take, &t);
    assert_true(t.names > 2000);
    size_t bad = 0;
    for (size_t i = 0; i < t.count; i++) {
        bad += complain(&a, &t.headers[i]);
        names_free(&t.headers[i].declares);
    }
    assert_int_equal(bad, 0);
    assert_string_equal(standard_declaring(&a, "NAN"), "math.h");
    assert_string_equal(standard_declaring(&a, "INFINITY"), "math.h");
    assert_string_equal(standard_declaring(&a, "DBL_MAX"), "float.h");
    assert_string_equal(standard_declaring(&a, "size_t"), "stddef.h");
    assert_string_equal(standard_declaring(&a, "printf"), "stdio.h");
    assert_string_equal(standard_declaring(&a, "kolo_fit"), "kolo.h");
    assert_string_equal(standard_declaring(&a, "_exit"), "unistd.h");
    assert_null(standard_declaring(&a, "no_header_has_this"));
    analyser_close(&a);
    names_free(&flags);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_name_is_declared_by_its_header)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
