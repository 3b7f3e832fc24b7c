"""What lives from cell to cell, and what a change does to earlier cells. One kernel runs them all, in order; it must
still answer after each that fails."""
import pytest
from kernel.driver import Kernel
from kernel.test_cells import check_all, still_answers


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    k = Kernel()
    k.run(f"%cd {tmp_path_factory.mktemp('state')}")
    yield k
    k.close()


# code, and what is expected: as in test_cells.py.
CELLS = [
    ("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>", {}),
    # types without a name
    ("struct { int a; } an = {1};", {}),
    ("an", {"value": "{.a = 1}"}),
    ("an.b", {"error": ["no member named 'b' in 'struct (unnamed)'"]}),
    ("&an", {"has": "(struct *) 0x"}),
    ("int plain[3]; plain = (int[3]){7, 8, 9};", {"error": ["array type 'int[3]' is not assignable"]}),
    ("an.a = 2", {"value": "2"}),
    ("typeof(an) ban; ban.a = 7; ban", {"value": "{.a = 7}"}),
    ("ban.a + an.a", {"value": "9"}),
    ("struct { int a; long more; } an = {3, 4};", {"err": "the type of 'ban' has changed"}),
    ("an.more", {"value": "4"}),
    ("enum { FIRST, SECOND } choice = SECOND;", {}),
    ("choice", {"value": "SECOND"}),
    ("union { int i; unsigned char bytes[4]; } mix = {.i = 258};", {}),
    ("mix.bytes[0] * 10 + mix.bytes[1]", {"value": "21"}),
    ("struct { int x; } line[3] = {{1}, {2}, {3}}, *into = &line[1];", {}),
    ("into->x + line[2].x", {"value": "5"}),
    ("typedef struct { int q; } *handle; handle h = malloc(sizeof *h); h->q = 5;", {}),
    ("typeof(*h) copy = *h; copy.q", {"value": "5"}),
    ("copy.q", {"value": "5"}),
    ("struct made { int x; } make(int x) { struct made m = {x}; return m; }", {}),
    ("struct made one = make(4); one.x", {"value": "4"}),
    # arrays whose size is known when the cell runs
    ("int n = 10; double v[n]; v[3] = 1;", {}),
    ("v", {"value": "{0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}"}),
    ("sizeof v", {"value": "80"}),
    ("int rows = 2;\nint m[rows][rows + 1];\nfor (int i = 0; i < rows; i++)\n    for (int j = 0; j <= rows; j++) m[i][j] = i * 10 + j;", {}),
    ("m", {"value": "{{0, 1, 2}, {10, 11, 12}}"}),
    ("int corner(int k, int a[k][k + 1]) { return a[k - 1][k]; }\ncorner(rows, m)", {"value": "12"}),
    ("n = 3; double v[n]; sizeof v", {"value": "24"}),
    ("double (*rowsof)[n] = malloc(4 * sizeof *rowsof); rowsof[2][1] = 4;", {}),
    ("rowsof[2][1] + sizeof *rowsof", {"value": "28.0"}),
    ("typedef short vector[n]; vector packed; sizeof packed", {"value": "6"}),
    ("puts(\"once\"); int grown[n + 1]; int grown_size(void) { return sizeof grown; }\ngrown_size()", {"out": "once\n", "value": "16"}),
    ("int minus = -1;\nint none[minus];", {"error": ["In[k]:2", "cannot have -1 elements"]}),
    ("int unmade[n]; unknown_thing;", {"error": ["In[k]:1:16", "unknown_thing"]}),
    ("unmade", {"error": ["undeclared"]}),
    # compound literals
    ("int *p = (int[]){1, 2, 3};", {}),
    ("p[1]", {"value": "2"}),
    ("p = (int[]){n, n * 2};", {}),
    ("p[1]", {"value": "6"}),
    ("struct node { int v; struct node *next; };\nstruct node *head = &(struct node){1, &(struct node){2, NULL}};", {}),
    ("head->next->v", {"value": "2"}),
    ("const int *fixed = (const int[]){9, 8, 7}; const char *words[] = {(char[]){'x', 'y', 0}};", {}),
    ("fixed[2]", {"value": "7"}),
    ("words", {"value": '{"xy"}'}),
    ("int copied[3] = (int[3]){1, 2, 3}; copied[2]", {"value": "3"}),
    ("(int[]){1, 2, 3}", {"value": "{1, 2, 3}"}),
    ("int sum = 0; for (int i = 0; i < 3; i++) sum += (struct node){i, NULL}.v; sum", {"value": "3"}),
    # a changed signature
    ("int g(int a) { return a + 1; }\nint a(void) { return g(1); }\nint (*gp)(int) = g;\nint (*ap)(void) = a;", {}),
    ("int g(int a, int b) { return a * b; }", {"err": "a() no longer compiles"}),
    ("a()", {"error": ["a() cannot be called as it is", "too few arguments", "In[k]:1"]}),
    ("gp(1)", {"error": ["the signature of g() has changed", "'int (int)'", "'int (int, int)'"]}),
    ("ap()", {"error": ["a() cannot be called as it is"]}),
    ("int a(void) { return g(5, 6); }\nap()", {"value": "30"}),
    ("int g(int a) { return a + 100; }", {"err": "a() no longer compiles"}),
    ("gp(1)", {"value": "101"}),
    ("int a(void) { return g(1); }\nap()", {"value": "101"}),
    ("long g(long a) { return a * 2; }", {}),
    ("a()", {"value": "2"}),
    # a changed struct
    ("struct pt { int x, y; };\nstruct pt origin = {1, 2};\nint total(void) { return origin.x + origin.y; }\ntotal()", {"value": "3"}),
    ("struct pt { double x; int y; };", {"err": "total() no longer compiles"}),
    ("total()", {"error": ["total() cannot be called", "origin"]}),
    ("struct pt origin = {0.5, 7};", {}),
    ("total()", {"value": "7"}),
    ("struct pt { int a, b; }; struct pt origin = {3, 4};", {"err": "no member named 'x'"}),
    ("total()", {"error": ["no member named 'x'"]}),
    ("struct pt { int x, y; }; struct pt origin = {3, 5};\ntotal()", {"value": "8"}),
    # a variable of a new type
    ("int xx = 1, *px = &xx;\nint usex(void) { return xx + 1; }\nvoid set(int *to) { *to = 4; }\nvoid callset(void) { set(&xx); }", {}),
    ("double xx = 2.5;", {"err": "callset() no longer compiles"}),
    ("usex()", {"value": "3"}),
    ("callset();", {"error": ["callset() cannot be called"]}),
    ("int xx = 3; callset(); xx", {"err": "'px' was set from the old 'xx'", "value": "4"}),
    # constants and macros
    ("const int N = 3;\nint bound[N];\nint pick(int k)\n{\n    char room[N];\n    switch (k) {\n    case N: return sizeof room;\n    default: return -1;\n    }\n}\npick(3)",
     {"value": "3"}),
    ("sizeof bound", {"value": "12"}),
    ("const int N = 5;", {}),
    ("pick(5) * 10 + pick(3)", {"value": "49"}),
    ("const double HALF = 0.5; double halved(double x) { return x * HALF; }", {}),
    ("const double HALF = 0.25; halved(8)", {"value": "2.0"}),
    ("const long DERIVED = N + 1; DERIVED", {"value": "6"}),
    ("*&DERIVED", {"value": "6"}),
    ("#define M 2\nint m2(void) { return M; }\n#define M 3\nint m3(void) { return M; }\nm2() * 10 + m3()", {"value": "23"}),
    ("printf(\"%d\", M);\n#define M 5\nprintf(\"%d\", M);", {"out": "35"}),
    ("m2() * 10 + m3()", {"value": "25"}),
    # what a later cell defines
    ("extern int later;\nint uselater(void) { return later; }", {}),
    ("uselater()", {"error": ["uselater() cannot be called", "'later', which is declared"]}),
    ("later + 1", {"error": ["'later' is declared but not defined"]}),
    ("int later = 5;\nuselater()", {"value": "5"}),
    ("struct shy; struct shy *shy = NULL; int peep(struct shy *s);", {}),
    ("struct shy { int v; }; int peep(struct shy *s) { return s->v; }\npeep(&(struct shy){6})", {"value": "6"}),
    # declarations of every age
    ("int old(a, b)\n    int a;\n    double b;\n{\n    return a + (int)b;\n}\nold(1, 2.0)", {"value": "3", "err": "without a prototype"}),
    ("typedef int binary(int, int);\nbinary add;\nint add(int a, int b) { return a + b; }\nbinary *op = add; op(1, 2)", {"value": "3"}),
    ("int fa(int), *pa, aa[3], (*fpa)(int);", {}),
    ("int fa(int x) { return x * 2; }\nfpa = fa; fpa(3)", {"value": "6"}),
    ("int (*chooser(int k))(int) { return k ? fa : 0; }\nchooser(1)(9)", {"value": "18"}),
    ("extern int counted[];\nint counted[4] = {1, 2, 3, 4};", {}),
    ("extern int counted[]; counted[2]", {"value": "3"}),
    ("#pragma pack(1)\nstruct tight { char a; int b; };", {}),
    ("struct tight2 { char a; int b; }; sizeof(struct tight) * 10 + sizeof(struct tight2)", {"value": "55"}),
    ("#pragma pack()\nstruct loose { char a; int b; }; sizeof(struct loose)", {"value": "8"}),
    ("struct loose2 { char a; int b; }; sizeof(struct loose2)", {"value": "8"}),
    ("#define COLORS X(RED) X(GREEN) X(BLUE)\n#define X(c) c,\nenum color { COLORS };\n#undef X\n"
     "const char *color_name(enum color c)\n{\n#define X(c) case c: return #c;\n    switch (c) {\n        COLORS\n    }\n#undef X\n"
     "    return \"?\";\n}\ncolor_name(GREEN)", {"value": '"GREEN"'}),
    ("#define X(c) no C at all\nBLUE", {"value": "BLUE"}),
    ("color_name(BLUE)", {"value": '"BLUE"'}),
    ("#define FIELDS F(int, id) F(double, weight)\n#define F(t, n) t n;\nstruct record { FIELDS };\n#undef F", {}),
    ("struct record record = {1, 2.5}; record", {"value": "{.id = 1, .weight = 2.5}"}),
    ("#define DEFINE_STACK(T) \\\n    typedef struct { T items[10]; int n; } stack_##T; \\\n"
     "    static void push_##T(stack_##T *s, T v) { s->items[s->n++] = v; } \\\n"
     "    static T pop_##T(stack_##T *s) { return s->items[--s->n]; }\nDEFINE_STACK(int)\nDEFINE_STACK(double)", {}),
    ("stack_double reals = {0}; push_double(&reals, 1.5); push_double(&reals, 2.5); pop_double(&reals)", {"value": "2.5"}),
    ("#define RETURNING(name, value) int name(void) { return value; }\nRETURNING(nine, 9)\nnine()", {"value": "9"}),
    ("#include <pthread.h>\n_Thread_local int own = 4;\nvoid *look(void *seen) { *(int *)seen = own; own = 100; return NULL; }", {}),
    ("own = 50; int seen; pthread_t t; pthread_create(&t, NULL, look, &seen); pthread_join(t, NULL); seen * 100 + own", {"value": "450"}),
    ("_Thread_local int own = 6; pthread_create(&t, NULL, look, &seen); pthread_join(t, NULL); seen", {"value": "6"}),
    ("struct flex { int n; char d[]; } flex = {5, \"hello\"};", {}),
    ("(char *)flex.d", {"value": '"hello"'}),
    ("__attribute__((constructor)) void first(void) { puts(\"first\"); }\nputs(\"then\");", {"out": "first\nthen\n"}),
    ("int real_one(void) { return 5; }\nint other_name(void) __attribute__((alias(\"real_one\")));", {}),
    ("other_name()", {"value": "5"}),
    ("int digraph<:2:> = <% 1, 2 %>; digraph[1]", {"value": "2"}),
    ("int con\\\ntinued = 4; continued", {"value": "4"}),
    ("main()\n{\n    puts(\"hi\");\n}", {"err": "type specifier missing"}),
    ("main()", {"out": "hi\n", "value": "0"}),
    ("int main(int argc, char **argv)\n{\n    puts(argv[1]);\n    return argc;\n}", {"err": "main() is defined"}),
    ("char *arguments[] = {\"program\", \"one\", NULL}; main(2, arguments)", {"out": "one\n", "value": "2"}),
    # the user's own headers
    ("%%writefile util.h\n#ifndef UTIL_H\n#define UTIL_H\n#define LIMIT 10\nstruct duo { int a, b; };\nint counter = 5;\n"
     "int times(int x) { return 2 * x; }\nstatic inline int limit(void) { return LIMIT; }\n#endif", {}),
    ("#include \"util.h\"\ncounter++;\ntimes(4) + limit()", {"value": "18"}),
    ("#include \"util.h\"\nstruct duo duo = {1, 2};\ncounter", {"value": "6"}),
    ("int through(void) { return times(100); }\nthrough()", {"value": "200"}),
    ("%%writefile util.h\n#pragma once\n#define LIMIT 20\nstruct duo { int a, b; };\nint counter = 5;\n"
     "int times(int x) { return 3 * x; }\nstatic inline int limit(void) { return LIMIT; }\nint faulty(int *p)\n{\n    return *p;\n}", {}),
    ("through()", {"value": "200"}),
    ("#include \"util.h\"\nthrough() + limit() + counter + duo.a", {"value": "327"}),
    ("faulty(NULL)", {"error": ["util.h:9", "faulty", "In[k]:1"]}),
    ("%%writefile broken.h\nint fine = 1;\nint wrong = nope;", {}),
    ("#include <math.h>\n#include \"broken.h\"", {"error": ["broken.h:2:13", "nope"]}),
    ("fine", {"error": ["In[k]:1:1", "undeclared"]}),
    # what fails leaves no trace
    ("#include <nothere.h>\n#define TRACE 1\nint trace = 1; int tracer(void) { return 1; } struct trace { int a; };", {"error": ["nothere.h"]}),
    ("trace", {"error": ["undeclared"]}),
    ("TRACE", {"error": ["undeclared"]}),
    ("tracer()", {"error": ["undeclared"]}),
    ("struct trace left; left.a", {"error": ["struct trace"]}),
    ("#define LIMIT 99\nint times(int x) { return 0; }\nlong counter = 7;\nextern int nobodys; nobodys", {"error": ["nobodys"]}),
    ("through() + limit() + counter", {"value": "326"}),
    ("int x0 = 1;\n\0int x00;", {"error": ["In[k]:2", "zero byte"]}),
    ("int k1 = 2, va[k1], k2 = 3,\n    vb[k2][k1], last = sizeof vb;\nlast * 10 + sizeof va", {"value": "248"}),
    ("__extension__ typedef long long ll; ll far = 1LL << 40; far", {"value": "1099511627776"}),
    ("#define CAT(a, b) a##b\nint CAT(ab, cd) = 3; int CAT(fu, nc)(int x) { return x * abcd; }", {}),
    ("func(2)", {"value": "6"}),
    ("typedef struct chain { struct chain *next; int v; } chain; chain *c0 = calloc(1, sizeof *c0);", {}),
    ("typedef struct chain { struct chain *next, *back; int v; } chain;", {"err": "'c0' may point to objects of the old 'chain'"}),
    ("int shape = 3; int useshape(void) { return shape; }", {}),
    ("int shape(void) { return 8; }\nshape()", {"value": "8", "err": "useshape() no longer compiles"}),
    ("int shape = 4; useshape()", {"value": "4"}),
    ("int unclosed; /* goes on", {"error": ["In[k]:1:15", "unterminated /* comment"]}),
    ("unclosed", {"error": ["undeclared"]}),
    # a function that is compiled again keeps its static variables, pointers among them included
    ("#define STEP 1\nint stepped(void) { static int at = 10, *p = &at; at += STEP; return *p; }\nstepped(); stepped()", {"value": "12"}),
    ("#define STEP 100", {}),
    ("stepped()", {"value": "112"}),
    ("int stepped(void) { static int at = 10, *p = &at; at += STEP; return *p; }\nstepped()", {"value": "110"}),
    ("const int SCALE = 3;\nint scaled(void) { static int calls; static const int table[] = {SCALE}; return ++calls * 10 + table[0]; }\nscaled(); scaled()",
     {"value": "23"}),
    ("const int SCALE = 4;", {}),
    ("scaled()", {"value": "34"}),
    ("int part(void) { return 1; }\nint whole(void) { static int sum; return sum += part(); }\nwhole(); whole()", {"value": "2"}),
    ("int part(int x) { return x; }", {"err": "whole"}),
    ("whole()", {"error": ["'part' has changed"]}),
    ("int part(void) { return 5; }", {}),
    ("whole()", {"value": "7"}),
    # what a type rests on stands before it, in its own cell and in later ones
    ("#define BUCKETS 4\ntypedef struct { int bucket[BUCKETS]; } buckets;\nsizeof(buckets)", {"value": "16"}),
    ("struct ring;\ntypedef struct ring Ring;\nstruct ring { int value; Ring *next; };", {}),
    ("Ring first_ring = {1, &first_ring}; first_ring.next->value", {"value": "1"}),
    ("struct ring;", {}),
    ("struct ring still = {2}; still.value", {"value": "2"}),
    ("struct rec { char name[8]; int age; } recs[] = {{\"Ann\", 20}};", {}),
    ("struct rec in[8] = {recs[0]}; in[0].age", {"value": "20"}),
    ("struct list { struct link *head; int size; };\nstruct link { struct list owner; struct link *next; };", {}),
    ("struct link one_link = {.owner = {&one_link, 3}}; one_link.owner.head->owner.size", {"value": "3"}),
    ("struct item { int tally; } item[2]; struct item2 { struct item tally[2]; } tally[3];", {}),
    ("struct item2 others[2]; others[1].tally[1].tally = 5; item[1].tally + others[1].tally[1].tally", {"value": "5"}),
    ("typedef struct P1 P1; typedef struct P2 P2; struct P1 { P2 *b; int n; }; struct P2 { P1 a[2]; P1 *p; };", {}),
    ("P2 p2 = {.a = {{&p2, 4}}}; p2.a[0].b->a[0].n", {"value": "4"}),
    # macros that are the head of a loop, or of an if
    ("#define each(it, list) for (Ring *it = (list), *last_ = NULL; it != last_; last_ = (list), it = it->next)\nint rings = 0;\n"
     "each(r, &first_ring) { rings++; }\nint beside = 4;\nint doubled_ring(int x) { return 2 * x; }\nrings", {"value": "1"}),
    ("each(r, &first_ring)\n{\n    rings++;\n}", {}),
    ("each (r, &first_ring) if (r->value) { rings++; }\nrings * 10 + beside", {"value": "34"}),
    ("#define UNLESS(c) if (!(c))\nUNLESS(rings == 3) { rings = 0; } else { rings = 7; }\nrings", {"value": "7"}),
    ("#define repeat(T, i, n) for (T i = 0; i < n; i++)\nrepeat(int, i, 3) repeat(int, j, 2) { rings++; }\nrings", {"value": "13"}),
    # alignment that is asked for
    ("#include <stdalign.h>\n#include <stdint.h>\nalignas(64) char line64[64]; _Alignas(4096) char page[100]; int al __attribute__((aligned(128))) = 3;", {}),
    ("(uintptr_t)line64 % 64 + (uintptr_t)page % 4096 + (uintptr_t)&al % 128", {"value": "0"}),
    ("#define PI_OLD 3.14\ndouble area(double r) { return PI_OLD * r; }\narea(1)", {"value": "3.14"}),
    ("#undef PI_OLD\n#define PI_OLD 3.0", {}),
    ("area(1)", {"value": "3.0"}),
    ("typedef struct { int a; } grown_type; grown_type ended_var;", {}),
    ("typedef struct { int a, b; } grown_type;", {"err": "ended_var"}),
    ("ended_var", {"error": ["was dropped when its type changed"]}),
    ("typedef struct same same; struct same { same *next; };", {}),
    ("struct same { same *next; int extra; };", {}),
    ("same alike = {&alike, 6}; alike.next->extra", {"value": "6"}),
    ("struct inner_q; union outer_u { int i; struct inner_q *q; }; struct inner_q { union outer_u u; int k; };", {}),
    ("struct inner_q { union outer_u u; long k, m; }; struct inner_q inner_q2 = {{3}, 4, 5}; inner_q2.m", {"value": "5"}),
    ("__builtin_popcount(255)", {"value": "8"}),
    ("int unclosed = 1", {"error": ["expected ';'"]}),
    # names of the worker's own are nothing to a cell
    ("extern int running;\nrunning", {"error": ["'running' is declared but not defined"]}),
    ("void watch_open(void *);\nwatch_open(0);", {"error": ["watch_open() is declared, and nothing defines it"]}),
    ("int given; int (*rows_of)[4]; int (*taker)(int, char *);\n1;", {}),
    ("scanf(\"%f\", given);", {"err": "has type 'int'\033"}),
    ("taker = rows_of;", {"error": ["'int (*)(int, char *)' from 'int (*)[4]'"]}),
]


@pytest.mark.parametrize("index", range(len(CELLS)), ids=[repr(code[:40]) for code, _ in CELLS])
def test_state(kernel, index):
    code, expected = CELLS[index]
    outcome = kernel.run(code)
    check_all(outcome, expected)
    for internal in ("unnamed_", "kolo_new", "kolo_kept", "$"):
        assert internal not in outcome.error + outcome.stderr
    still_answers(kernel, outcome)
