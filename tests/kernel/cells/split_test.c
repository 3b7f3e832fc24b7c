/* Tokens, pieces and declarations, as the splitter reads them: each row a cell and what it falls into. */
#include "cells/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A letter a piece: directive, declaration (v), function, statement, expression, broken; '+' where more must follow. */
static char *pieces_of(const char *source)
{
    static const char letters[] = "dvfseb";
    cell c = cell_split(source);
    text out = {0};
    for (size_t i = 0; i < c.count; i++) {
        text_addf(&out, "%c%s", letters[c.pieces[i].kind], c.pieces[i].unfinished ? "+" : "");
    }
    cell_free(&c);
    return text_take(&out);
}

static void cells_fall_into_pieces(void **state)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"1 + 1", "e"},
        {"x = 1;", "s"},
        {"int x = 1, *p = &x;", "v"},
        {"int f(int a) { return a; }", "f"},
        {"main() { }", "f"},
        {"#include <stdio.h>\nprintf(\"hi\");\nx", "dse"},
        {"struct p { int x; } a = {.x = 1};", "v"},
        {"a * b;", "v"},
        {"a * b", "e"},
        {"a * b = 3", "v+"},
        {"if (a) b; else c;\nd", "se"},
        {"for (;;) { x++; }", "s"},
        {"do x++; while (x < 3);", "s"},
        {"!ls -l\nint x;", "sv"},
        {"here: x++; goto here;", "sss"},
        {"int f(int a) {", "f+"},
        {"x +", "e+"},
        {"}", "b"},
        {"/* all of it", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = pieces_of(rows[i][0]);
        if (strcmp(got, rows[i][1])) fail_msg("%s: wanted %s, got %s", rows[i][0], rows[i][1], got);
        free(got);
    }
}

static void tokens_know_their_lines(void **state)
{
    static const char source[] = "int a; // b\n/* c\n d */ \"e\\\nf\"\n#define G \\\n 1\nh";
    static const unsigned lines[] = {1, 1, 1, 3, 5, 7};
    (void)state;
    token_list tokens = tokens_of(source);
    assert_int_equal(tokens.count, sizeof lines / sizeof *lines);
    for (size_t i = 0; i < tokens.count; i++) assert_int_equal(tokens.items[i].line, lines[i]);
    tokens_free(&tokens);
}

static void declarations_bring_their_names(void **state)
{
    static const char source[] =
        "static struct p { int x; } a[3], *(*b)(int) = 0, c = {1}; enum { D, E = 5 }; T f(void);";
    static const char *const wanted[] = {"t:p", "o:a", "o:b", "o:c", "o:D", "o:E", "o:f"};
    (void)state;
    cell c = cell_split(source);
    names found = {0};
    for (size_t i = 0; i < c.count; i++) defined_names(&c, &c.pieces[i], &found);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!names_have(&found, wanted[i])) fail_msg("%s is missing", wanted[i]);
    }
    assert_int_equal(found.count, sizeof wanted / sizeof *wanted);
    names_free(&found);
    cell_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells_fall_into_pieces),
                                       cmocka_unit_test(tokens_know_their_lines),
                                       cmocka_unit_test(declarations_bring_their_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
