"""C that is seldom met in cells: atomics, threads, line ends of other systems, macros and types that change places with
functions and variables, C23. One kernel runs the table in order."""
import pytest
from kernel.driver import Kernel, check

CELLS = [
    ("#include <stdio.h>\n#include <stdatomic.h>\n#include <threads.h>", {}),
    # atomics, declared and used in one cell
    ("atomic_int m = 0;\nint add_m(void) { return atomic_fetch_add(&m, 1) + 1; }\nadd_m(); add_m()", {"value": "2"}),
    ("_Atomic int counted = 4; atomic_fetch_add(&counted, 3); counted", {"value": "7"}),
    ("static _Atomic unsigned sum = 3; sum += 2; sum", {"value": "5"}),
    ("atomic_int *at = &m; atomic_fetch_add(at, 1); *at", {"value": "3"}),
    ("const _Atomic int fixed = 3; fixed", {"value": "3"}),
    ("struct { atomic_int n; } inside; atomic_fetch_add(&inside.n, 2); inside.n", {"value": "2"}),
    # what is volatile stays so in its own cell; what is const is written once
    ("volatile int stop = 1; while (stop) stop--;\nstop", {"value": "0"}),
    ("const int table[2][2] = {{1, 2}, {3, 4}}; table[1][0]", {"value": "3"}),
    ("volatile const int both[2] = {1, 5}; both[1]", {"value": "5"}),
    # threads
    ("thread_local int own = 5; atomic_int total;\nint work(void *which) {\n    own += 100;\n"
     "    for (int i = 0; i < 1000; i++) atomic_fetch_add(&total, 1);\n    return (int)(long)which + own;\n}\n"
     "thrd_t team[4]; int ends[4];\nfor (long i = 0; i < 4; i++) thrd_create(&team[i], work, (void *)i);\n"
     "for (int i = 0; i < 4; i++) thrd_join(team[i], &ends[i]);\nprintf(\"%d %d %d\\n\", total, ends[3], own);",
     {"out": "4000 108 5\n"}),
    ("once_flag once = ONCE_FLAG_INIT; void first(void) { puts(\"once\"); }\n"
     "call_once(&once, first); call_once(&once, first);", {"out": "once\n"}),
    # line ends
    ('const char *joined = "ab\\\r\ncd";\r\njoined', {"value": '"abcd"'}),
    ("#define PLUS(a) \\\r\n    ((a) + 1)\r\nPLUS(3)", {"value": "4"}),
    # a macro becomes a function, and the other way round
    ("#define SQ(x) ((x) * (x))\nint square_of_4(void) { return SQ(4); }", {}),
    ("#undef SQ\nint SQ(int x) { return x * x + 100; }\nSQ(3)", {"value": "109"}),
    ("square_of_4()", {"value": "116"}),
    ("#define SQ(x) 7\nSQ(3)", {"value": "7"}),
    ("SQ(3) + (SQ)(3) + square_of_4()", {"value": "123"}),
    ("int SQ(int x) { return x; }\nSQ(3)", {"value": "3", "err": "the macro SQ is gone"}),
    ("square_of_4()", {"value": "4"}),
    ("#define COUNT 5", {}),
    ("double COUNT = nonsense;", {"error": ["In[k]:1:8"]}),
    ("COUNT", {"value": "5"}),
    ("double COUNT = 2.5;", {"err": "the macro COUNT is gone"}),
    ("COUNT", {"value": "2.5"}),
    ("#define EARLY 1\n#include <ctype.h>\nEARLY", {"value": "1"}),
    ("#undef EARLY\nint EARLY = 3;", {}),
    ("EARLY", {"value": "3"}),
    # a typedef becomes a variable, a function, another type
    ("typedef int t; t x = 1; t *p = &x; const t k = 9; t a[3] = {1, 2, 3};", {}),
    ("int t = nonsense;", {"error": ["'nonsense'"]}),
    ("t y = 1; y", {"value": "1"}),
    ("int t = 6;\nx + t", {"value": "7", "err": "'x' keeps its type, which is int"}),
    ("x + t + *p + k + a[2] + y", {"value": "21"}),
    ("typedef int inner; typedef inner outer; outer deep = 4; int use_deep(void) { return deep; }", {}),
    ("double inner = 2.5; deep + inner", {"value": "6.5"}),
    ("use_deep()", {"value": "4"}),
    ("typedef int real; real one = 1; real next(real v) { return v + one; }", {}),
    ("int next_of_2(void) { return next(2); }", {}),
    ("typedef   int real;", {}),
    ("typedef double real;", {"err": "'one' keeps its type, which is int"}),
    ("next(2.5)", {"value": "3.5"}),
    ("next_of_2()", {"value": "3"}),
    ("typedef struct { int a; } record; record r = {3}; record *to_r = &r;", {}),
    ("int record = 2;", {"err": "the type of 'r' has changed: 'r' is gone"}),
    ("to_r", {"error": ["undeclared identifier 'to_r'"]}),
    # C23, which C17 does not have
    ("constexpr int five = 5;", {"error": ["constexpr came with C23: %cflags -std=c23"]}),
    ("auto z = 5;", {"err": "auto takes its type from the value only in C23: %cflags -std=c23"}),
    ("int *none = nullptr;", {"error": ["nullptr came with C23: %cflags -std=c23"]}),
    ("%cflags -std=c23", {}),
    ("constexpr int five = 5; int held[five]; static_assert(five == 5);\nsizeof held", {"value": "20"}),
    ("int more[five + 1]; sizeof more", {"value": "24"}),
    ("constexpr double pi = 3.25; constexpr int primes[] = {2, 3, 5}; pi + primes[2]", {"value": "8.25"}),
    ("auto z = 5.5; auto to_z = &z; const auto three = 3; z + *to_z + three", {"value": "14.0"}),
    ('auto word = "abc"; word', {"value": '"abc"'}),
    ("thread_local int mine = 4; int *none = nullptr; bool yes = true; mine", {"value": "4"}),
]


def test_cells():
    kernel = Kernel()
    try:
        for code, expected in CELLS:
            try:
                check(kernel.run(code), expected)
            except AssertionError as wrong:
                raise AssertionError(f"{code!r}: {wrong}") from None
    finally:
        kernel.close()


COMPLETE = [
    ("#define X \\", "incomplete"), ("#define X \\\n", "incomplete"), ("#define X \\\n    1", "complete"),
    ("#define X \\\r\n", "incomplete"),
    ("int y = 1 + \\\n", "incomplete"),
    ("#if 1", "incomplete"), ("#ifdef A\nint x;", "incomplete"), ("#ifndef A\n#if 1\nint x;\n#endif", "incomplete"),
    ("#if 1\nint x;\n#endif", "complete"), ("#if 1\nint x;\n#else\nint y;\n#endif\n", "complete"),
    ("%%run\n#define X \\\n", "incomplete"), ("%%run\n#define X \\\n  1\n", "complete"),
]


@pytest.fixture(scope="module")
def asked():
    k = Kernel()
    yield k
    k.close()


@pytest.mark.parametrize("code,status", COMPLETE)
def test_is_complete(asked, code, status):
    assert asked.ask("is_complete", code)["status"] == status
