/* Diagnostics of code for several ranks: each mistake gets a diagnostic with its line, and correct forms get none. When
 * this was written, 445 code cells of the lessons and 13 programs of source_code had two warnings. Both were true:
 * lesson 3 and its solution have a cell that trains without a broadcast on purpose. */
#include "diagnostics/distributed.h"

#include <glob.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "3: message" a line for each diagnostic. */
static char *said_of(const char *source)
{
    diagnostics all = {0};
    cell c = cell_split(source);
    text out = {0};
    lint_distributed(&all, "In[1]", &c, NULL);
    for (size_t i = 0; i < all.count; i++) {
        text_addf(&out, "%u: %s\n", all.items[i].at.line, all.items[i].message);
        assert_non_null(all.items[i].hint);
        free(all.items[i].at.name);
        free(all.items[i].message);
        free(all.items[i].hint);
    }
    free(all.items);
    cell_free(&c);
    return text_take(&out);
}

static void each_mistake_has_its_line(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"if (kolo_rank() == 0)\n    kolo_allreduce(x, 10);", "2: only some ranks reach this kolo_allreduce()"},
        {"int me = kolo_rank();\nif (me == 0) {\n    puts(\"x\");\n    MPI_Barrier(MPI_COMM_WORLD);\n}",
         "4: only some ranks reach"},
        {"int r;\nMPI_Comm_rank(MPI_COMM_WORLD, &r);\nif (r) puts(\"x\");\nelse MPI_Bcast(a, 1, MPI_INT, 0, "
         "MPI_COMM_WORLD);",
         "4: only some ranks reach this MPI_Bcast()"},
        {"void average(float *x) { kolo_allreduce(x, 4); }\nif (kolo_rank() > 1) average(v);",
         "2: only some ranks reach this average()"},
        {"int f(void)\n{\n    if (kolo_rank() > 0) return 0;\n    puts(\"x\");\n    return kolo_barrier();\n}",
         "5: ranks that leave in line 3"},
        {"if (kolo_rank() == 3) exit(1);\nkolo_broadcast(x, 4);", "2: ranks that leave in line 1"},
        {"for (int i = 0; i < kolo_rank(); i++) kolo_barrier();",
         "1: the ranks call this kolo_barrier() a different number"},
        {"if (kolo_rank() == 0)\n    MPI_Send(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);",
         "2: nothing in this cell receives what MPI_Send() sends"},
        {"if (kolo_rank() == 1) kolo_receive(x, 4, 0);", "1: nothing in this cell sends what kolo_receive() waits for"},
        {"MPI_Recv(&y, 1, MPI_INT, other, 0, c, s);\nMPI_Send(&x, 1, MPI_INT, other, 0, c);",
         "1: every rank waits in this receive"},
        {"kolo_compile(m, .optimizer = kolo_distributed(kolo_adam()));\nkolo_fit(m, d, .callbacks = "
         "{kolo_metric_average()});",
         "2: nothing makes the ranks' weights equal"},
        {"kolo_compile(m, .optimizer = kolo_distributed(kolo_adam()));\n"
         "h = kolo_fit(m, d, .callbacks = {kolo_broadcast_variables(0)});\nprintf(\"accuracy %f\", a);",
         "2: the scores of this training are those of each rank's own samples"},
        {"kolo_compile(m, .optimizer = kolo_distributed(kolo_adam()));\nif (kolo_rank() == 0) kolo_fit(m, d, "
         ".callbacks = {b});",
         "2: only some ranks reach this kolo_fit()"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *said = said_of(rows[i][0]);
        if (strncmp(said, rows[i][1], strlen(rows[i][1])) != 0 || strchr(said, '\n') != strrchr(said, '\n'))
            fail_msg("of\n%s\nit says: %s", rows[i][0], said);
        free(said);
    }
}

static void correct_forms_meet_silence(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "kolo_allreduce(x, 10);\nif (kolo_rank() == 0) printf(\"%f\\n\", x[0]);",
        "if (kolo_rank() == 0) MPI_Bcast(a, 1, t, 0, c);\nelse MPI_Bcast(b, 1, t, 0, c);",
        "if (kolo_size() > 1) kolo_barrier();",
        "if (kolo_rank() == 0) kolo_save(model, \"x.safetensors\");\nkolo_barrier();",
        "int f(void) { if (failed) return 1; return kolo_barrier(); }",
        "int f(void) { kolo_barrier(); if (kolo_rank() > 0) return 0; puts(\"x\"); return 0; }",
        "if (kolo_rank() == 0) MPI_Send(&x, 1, t, 1, 0, c);\nelse MPI_Recv(&x, 1, t, 0, 0, c, s);",
        "void give(int to) { MPI_Send(&x, 1, t, to, 0, c); }",
        "MPI_Sendrecv(&x, 1, t, next, 0, &y, 1, t, last, 0, c, s);",
        "MPI_Irecv(&y, 1, t, last, 0, c, &q);\nMPI_Send(&x, 1, t, next, 0, c);",
        "int serve(float *x)\n{\n    kolo_receive(x, 4, 1);\n    return kolo_send(x, 4, 1);\n}\nif (kolo_rank() == 0) "
        "serve(x);\nprintf(\"%f\\n\", x[0]);",
        "for (int i = 1; i < kolo_size() && kolo_rank() == 0; i++) kolo_receive(x, 4, i);\nif (kolo_rank() > 0) "
        "kolo_send(x, 4, 0);",
        "if (.rank == 2) kolo_barrier();",
        "struct shape s = {.rank = 2}; if (s.rank == 2) kolo_barrier();",
        "kolo_compile(m, .optimizer = kolo_distributed(kolo_adam()));\n"
        "kolo_fit(m, d, .callbacks = {kolo_broadcast_variables(0), kolo_metric_average()}); puts(\"accuracy\");",
        "kolo_compile(m, .optimizer = kolo_distributed(kolo_adam()));\nkolo_fit(m, d, .callbacks = {mine, "
        "kolo_throughput()});",
        "if (kolo_rank() == 0) kolo_fit(m, d);",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *said = said_of(rows[i]);
        if (*said) fail_msg("of\n%s\nit says: %s", rows[i], said);
        free(said);
    }
}

static char *source_of(const json_t *one)
{
    const json_t *lines = json_object_get(one, "source");
    text out = {0};
    size_t i;
    json_t *line;
    if (json_is_string(lines)) text_add(&out, json_string_value(lines));
    json_array_foreach(lines, i, line) text_add(&out, json_string_value(line));
    return text_take(&out);
}

/* Diagnostics in the code cells of a notebook; their number is added to `cells`. */
static size_t count_in_notebook(const char *path, size_t *cells)
{
    json_error_t error;
    json_t *book = json_load_file(path, 0, &error), *one;
    size_t i, found = 0;
    if (!book) fail_msg("%s: %s", path, error.text);
    json_array_foreach(json_object_get(book, "cells"), i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "cell_type")), "code") != 0) continue;
        char *source = source_of(one), *said = said_of(source);
        if (*said) print_message("%s, code cell %zu: %s", path, i, said);
        found += *said != 0;
        ++*cells;
        free(said);
        free(source);
    }
    json_decref(book);
    return found;
}

static void lessons_meet_silence(void **state)
{
    (void)state;
    static const char *const books[] = {"Start_Here.ipynb", "labs/*.ipynb", "labs/solutions/*.ipynb"};
    size_t cells = 0, programs = 0, found = 0;
    for (size_t b = 0; b < sizeof books / sizeof *books; b++) {
        glob_t g;
        if (glob(books[b], 0, NULL, &g) == 0) {
            for (size_t i = 0; i < g.gl_pathc; i++) found += count_in_notebook(g.gl_pathv[i], &cells);
            globfree(&g);
        }
    }
    glob_t g;
    assert_int_equal(glob("source_code/*/*.c", 0, NULL, &g), 0);
    for (size_t i = 0; i < g.gl_pathc; i++, programs++) {
        char *source = read_whole_file(g.gl_pathv[i]), *said = said_of(source);
        if (*said) print_message("%s: %s", g.gl_pathv[i], said);
        found += *said != 0;
        free(said);
        free(source);
    }
    globfree(&g);
    print_message("%zu code cells of lessons and %zu programs, %zu of them with a diagnostic\n", cells, programs,
                  found);
    assert_true(cells >= 50 && programs >= 9);
    assert_true(found * 50 <= cells + programs); /* a lesson may break something on purpose, and is told so */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_has_its_line),
        cmocka_unit_test(correct_forms_meet_silence),
        cmocka_unit_test(lessons_meet_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
