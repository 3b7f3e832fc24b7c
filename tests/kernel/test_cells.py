"""Cells and what they must do. One kernel runs them all, in order; it must still answer after each that fails."""
import pytest
from kernel.driver import Kernel, check


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    yield k
    k.close()


# code, and what is expected of it: what driver.check and check_all know.
CELLS = [
    ("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <signal.h>\n"
     "#include <assert.h>\n#include <stdbool.h>", {}),
    # state, values
    ("1 + 2", {"value": "3"}),
    ('int n = 41;\nn++;\nprintf("n is %d\\n", n);', {"out": "n is 42\n"}),
    ("n", {"value": "42"}),
    ("n;", {"value": None}),
    ("x_unknown", {"error": ["In[6]:1:1", "undeclared"]}),
    ("n = 7", {"value": "7"}),
    ("2.5", {"value": "2.5"}),
    ("0.1f", {"value": "0.1"}),
    ("3.0", {"value": "3.0"}),
    ("double reals[] = {10, 20.5, 1e6, 0.1, 1e-5, 1e-6, 1e15, 1e16, -0.0, 9007199254740992, 1e22}; reals",
     {"value": "{10.0, 20.5, 1000000.0, 0.1, 0.00001, 1e-06, 1000000000000000.0, 1e+16, -0.0, 9007199254740992.0, 1e+22}"}),
    ("float singles[] = {0.1f, 1e10f, 16777216, 10, 3.4e38f}; singles",
     {"value": "{0.1, 10000000000.0, 16777216.0, 10.0, 3.4e+38}"}),
    ("10.0L", {"value": "10.0"}),
    ("(char)'a'", {"value": "'a'"}),
    ("(bool)1", {"value": "true"}),
    ('"a\\n\\"b\\""', {"value": '"a\\n\\"b\\""'}),
    ('const char *text = "some text"; text', {"value": '"some text"'}),
    ("(void *)0", {"value": "NULL"}),
    ("char *wild = (char *)0x1234; wild", {"value": "(char *) 0x1234"}),
    ("enum color { RED, GREEN = 5, BLUE }; enum color paint = BLUE;\npaint", {"value": "BLUE"}),
    ("struct point { int x; double y; char name[8]; };\nstruct point p = {1, 2.5, \"here\"};\np",
     {"value": '{.x = 1, .y = 2.5, .name = "here"}'}),
    ("typedef struct { unsigned low : 3; int high : 4; } bits; bits b = {5, -2}; b", {"value": "{.low = 5, .high = -2}"}),
    ("int grid[2][3] = {{1, 2, 3}, {4, 5, 6}}; grid", {"value": "{{1, 2, 3}, {4, 5, 6}}"}),
    ("int open[] = {1, 2, 3}; sizeof open / sizeof *open", {"value": "3"}),
    ("const char *names[] = {\"a\", NULL}; names", {"value": '{"a", NULL}'}),
    ("struct link { int v; struct link *next; } ring = {1, &ring}; ring.next->next->v", {"value": "1"}),
    ("int many[1000]; many", {"has": "(1000 elements)"}),
    ("void nothing(void) {}\nnothing()", {"value": None}),
    # functions, and their redefinition
    ("int helper(int a) { return a + 1; }\nint caller(int a) { return helper(a) * 10; }\ncaller(1)", {"value": "20"}),
    ("int (*pointer)(int) = helper;\nint helper(int a) { return a + 2; }", {}),
    ("caller(1)", {"value": "30"}),
    ("pointer(1)", {"value": "3"}),
    ("static int bump(void) { static int count; return ++count; }\nbump(); bump()", {"value": "2"}),
    ("int fact(int k) { return k < 2 ? 1 : k * fact(k - 1); }\nfact(5)", {"value": "120"}),
    ("int even(int); int odd(int k) { return k ? even(k - 1) : 0; }\nint even(int k) { return k ? odd(k - 1) : 1; }\neven(10)",
     {"value": "1"}),
    ("int later(int);\nint early(int a) { return later(a); }", {}),
    ("early(1)", {"error": ["later() is declared", "In["]}),
    ("int later(int a) { return a * 100; }\nearly(1)", {"value": "100"}),
    ('const char *who(void) { return __func__; }\nwho()', {"value": '"who"'}),
    ("int round(int a) { return a; }", {}),  # a library's name is the user's as well
    ("round(3)", {"value": "3"}),
    # initialisers, types, macros
    ("int compute(void) { return 9; }\nint from_call = compute(), *to = &from_call, sum = *to + 1;\nsum", {"value": "10"}),
    ("const double ratio = from_call / 2.0;\nratio", {"value": "4.5"}),
    ("double n = 1.5; n", {"value": "1.5"}),
    ("int n = 3; n", {"value": "3"}),
    ("#define SIZE 4\nint sized[SIZE]; sizeof sized", {"value": "16"}),
    ("#define SIZE 5\nSIZE", {"value": "5"}),
    ("sizeof sized", {"value": "16"}),
    ("#undef SIZE\n#define SQUARE(a) ((a) * (a))\nSQUARE(4)", {"value": "16"}),
    ("SIZE", {"error": ["undeclared identifier 'SIZE'"]}),
    ("int x1 = 2,\n    y1[2] = {x1, x1 * 2}; y1[1]", {"value": "4"}),
    ("for (int i = 0; i < 3; i++) {\n    if (i == 1) continue;\n    printf(\"%d \", i);\n}", {"out": "0 2 "}),
    ("int i = 0;\nagain:\nif (++i < 5) goto again;\ni", {"value": "5"}),
    ("int r = 0; do r++; while (r < 3);\nswitch (r) { case 3: r = 30; break; default: r = 1; }\nr", {"value": "30"}),
    ("double big[3000000]; big[2999999] = 1; big[2999999]", {"value": "1.0"}),
    ("_Generic(n, int: \"int\", default: \"other\")", {"value": '"int"'}),
    ("unsigned long long wide = 18446744073709551615ULL; wide", {"value": "18446744073709551615"}),
    ("#include <complex.h>\ndouble complex z = 1 + 2 * I; z", {"value": "1.0 + 2.0i"}),
    ("volatile int restless = 3; restless", {"value": "3"}),
    ("helper", {"value": "(int (*)(int)) helper"}),
    ("typedef int (*operation)(int);\noperation table[] = {helper, [2] = helper};\ntable[2](1)", {"value": "3"}),
    ("int sum_of(int count, ...)\n{\n    __builtin_va_list v;\n    __builtin_va_start(v, count);\n    int t = 0;\n"
     "    while (count--) t += __builtin_va_arg(v, int);\n    return t;\n}\nsum_of(3, 1, 2, 3)", {"value": "6"}),
    ("struct { int a, b; } nameless = {1, 2};\nnameless.b", {"value": "2"}),
    ("#if defined(SQUARE)\nint chosen = 100;\n#else\nthis is no C\n#endif\nchosen", {"value": "100"}),
    ("/* only a comment */", {"value": None}),
    ("", {"value": None}),
    ("const int three = 3;", {}),
    ("typeof(three) four = 4; four", {"value": "4"}),
    ("__typeof__(three) fives[2] = {5, 55}; fives", {"value": "{5, 55}"}),
    ("#pragma pack(push, 1)\nstruct packed { char a; int b; };\n#pragma pack(pop)\n"
     "struct spaced { char a; int b; };\nsizeof(struct packed) * 100 + sizeof(struct spaced)", {"value": "508"}),
    ("struct spaced2 { char a; int b; };\nsizeof(struct packed) * 100 + sizeof(struct spaced2)", {"value": "508"}),
    ("int größe = 3, 变量 = 4;\nint zählen(int ä) { return ä + größe; }\nzählen(变量)", {"value": "7"}),
    ("int zählen(int ä) { return ä - größe; }\nzählen(变量)", {"value": "1"}),
    ("struct flags { int a : 3, b : 5; } flags = {1, 2};\nflags.b", {"value": "2"}),
    ("flags.a = 3", {"value": "3"}),
    ("void at_end(void) { puts(\"bye\"); }\natexit(at_end)", {"value": "0"}),
    # changes that reach earlier cells
    ("#define SCALE 2\nstruct pair { int x; };\ntypedef struct pair pair_t;\nint scaled(int a) { return a * SCALE; }\n"
     "int twice(int a) { return scaled(a) * 2; }\nstruct pair pair = {3};\nint getx(pair_t *q) { return q->x; }\ntwice(1)",
     {"value": "4"}),
    ("#define SCALE 10", {}),
    ("twice(1)", {"value": "20"}),
    ("getx(&pair)", {"value": "3"}),
    ("struct pair { double pad; int x; };", {"err": "'pair' is gone"}),
    ("pair", {"error": ["undeclared identifier 'pair'"]}),
    ("struct pair pair = {0.5, 7};\ngetx(&pair)", {"value": "7"}),
    ("struct pair { double pad; int renamed; };", {"err": "getx() no longer compiles"}),
    # mistakes
    ("int before_mistake = 1;\nint bad = nope;", {"error": ["In[k]:2:11", "nope", "^"]}),
    ("before_mistake", {"error": ["undeclared"]}),
    ('int y = "abc";', {"error": ["In[k]:1:5", "'int'", "'char[4]'"]}),
    ("printf(\"%d\\n\", 1)\nprintf(\"x\\n\");", {"error": ["In[k]:1:18", "expected ';'"]}),
    ("if (n) {\n  n = 1;", {"error": ["In[k]:2", "expected '}'", "to match this '{'"]}),
    ("}", {"error": ["In[k]:1:1", "extraneous closing brace"]}),
    ('printf("%d\\n", 2.5);', {"err": "In[k]:1:16"}),
    ("int unreturned(void) { }", {"err": "In[k]:1"}),
    ("missing_library_function(3);", {"error": ["In[k]:1:1", "undeclared function"]}),
    ("#include <kolo.h>\nkolo_model *model = NULL;\nkolo_data *train = NULL;\ndouble epochs_done;", {}),
    ("kolo_fit(model, train, .epoch = 3);", {"error": ["In[k]:1:25", "kolo_fit has no option '.epoch'; did you mean '.epochs'?"]}),
    ("kolo_sequential(kolo_input(3),\n    kolo_dense(10, .activatio = KOLO_RELU));",
     {"error": ["In[k]:2:21", "kolo_dense has no option '.activatio'; did you mean '.activation'?"]}),
    ("  kolo_fit(model, train, 5);", {"error": ["In[k]:1:26", "kolo_fit: an option's name was forgotten here: write .name = value"]}),
    ("kolo_fit(modl, train);", {"error": ["In[k]:1:10", "did you mean 'model'?"]}),
    ("epochs_don + 1", {"error": ["In[k]:1:1", "did you mean 'epochs_done'?"]}),
    ("KOLO_REUL", {"error": ["In[k]:1:1", "did you mean 'KOLO_RELU'?"]}),
    # faults: the kernel lives, and so do the variables
    ("int kept = 5;", {}),
    ("int *null = NULL;\n*null = 3;", {"error": ["Segmentation fault", "In[k]:2"]}),
    ("*(int *)0 = 1;", {"error": ["Segmentation fault", "In[k]:1"], "no_err": True}),
    ("kept", {"value": "5"}),
    ("int deeper(int *q) {\n    return *q;\n}\nint outer(int *q) { return deeper(q) + 1; }\nouter(0)",
     {"error": ["In[k]:2", "deeper", "outer"]}),
    ("strlen(NULL)", {"error": ["Segmentation fault", "In[k]:1"], "err": "non-null"}),
    ("int zero = 0;\n1 / zero", {"error": ["Division by zero", "In[k]:2"]}),
    ("abort();", {"error": ["Aborted", "In[k]:1"]}),
    ("assert(kept == 6);", {"error": ["Aborted", "In[k]:1"], "err": "Assertion"}),
    ('printf("before\\n");\nexit(3);', {"out": "before\nbye\n", "error": ["exit(3)", "In[k]:2"]}),
    ("_exit(4);", {"error": ["exit(4)", "In[k]:1"]}),
    ("int down(int d) { char room[1000]; room[d % 1000] = 1; return down(d + 1) + room[0]; }\ndown(0)",
     {"error": ["Stack overflow", "down() called itself about", "In[k]:1"], "err": "call itself"}),
    ("void (*nowhere)(void) = 0;\nnowhere();", {"error": ["Segmentation fault", "In[k]:2"]}),
    ("raise(SIGUSR1);", {"error": ["User defined signal 1", "In[k]:1"]}),
    ("int kept = 5; helper(1)", {"value": "3"}),
    ("free((void *)&kept);", {"error": ["Aborted", "In[k]:1", "kept"], "lost": True, "err": ""}),
    ("kill(getpid(), SIGKILL);", {"error": ["Killed"], "lost": True}),
    ("kill(getpid(), SIGSTOP);", {"error": ["Stopped"], "lost": True}),
    ("kill(getppid(), SIGKILL); usleep(200000);", {"error": ["Killed"], "lost": True}),
    ("kill(0, SIGTERM);", {"error": ["Terminated", "In[k]:1"]}),
    ('execlp("echo", "echo", "hi", NULL);', {"error": ["ended with exit code 0"], "lost": True, "out": "hi\n"}),
    ("caller(1)", {"value": "30"}),
    ("close(0); close(1); close(2); fclose(stdout);", {}),
    ('printf("back\\n");', {"out": "back\n"}),
    ("for (int d = 3; d < 1000; d++) (void)!write(d, \"junk\", 4);", {"err": ""}),
    ('printf("back\\n");', {"out": "back\n"}),
    ('int child = fork();\nif (child == 0) printf("child\\n"); else { usleep(300000); printf("parent\\n"); }', {"out": "child\nparent\n"}),
    ("struct rlimit_user { int a; }; alarm(1);", {}),
    ("sleep(2); 1", {"value": "1"}),
    # shell, magics
    ("!echo shell $((1 + 1))", {"out": "shell 2\n"}),
    ("for (int k = 0; k < 2; k++) {\n    !echo again\n}", {"out": "again\nagain\n"}),
    ('printf("one\\n");\n!echo two\nprintf("three\\n");', {"out": "one\ntwo\nthree\n"}),
    ("n = 3;\nbool yes = true;\nif (n &&\n    !yes) n = 100;\nn", {"value": "3"}),
    ("%nosuch", {"error": ["no %nosuch", "%lsmagic lists"]}),
    ("%lsmag", {"error": ["%lsmagic"]}),
    ("%lsmagic", {"out_has": "%%run"}),
    ("%who", {"out_has": "caller"}),
    ("%env KOLO_TEST_WORD=word\n!echo $KOLO_TEST_WORD", {"out": "env: KOLO_TEST_WORD=word\nword\n"}),
    ("%cd /\n!pwd", {"out": "/\n/\n"}),
    ("%cflags -DFROM_FLAGS=12\nFROM_FLAGS", {"value": "12"}),
    ("%time usleep(1000);", {"out_has": "Wall time"}),
    ("%%time\nn + 1", {"value": "4", "out_has": "Wall time"}),
    ("%%sh\necho $((40 + 2))", {"out": "42\n"}),
    ('%%run one "two three"\n#include <stdio.h>\nint main(int c, char **v)\n{\n    printf("%d %s\\n", c, v[2]);\n    return 0;\n}',
     {"out": "3 two three\n"}),
    ("%%run\nint main(void) { return 4; }", {"error": ["exit code 4"]}),
    ("%%run\nint main(void)\n{\n    return nope;\n}", {"error": ["In[k]:4:12", "nope"]}),
    # ordering and bytes
    ('printf("first\\n"); usleep(250000); fprintf(stderr, "second\\n"); usleep(250000); printf("third\\n");',
     {"streams": ["stdout", "stderr", "stdout"], "out": "first\nthird\n", "err": "second"}),
    ('printf("\\xc3"); usleep(100000); printf("\\xa9 \\xff\\n");', {"out": "é \ufffd\n"}),
    ("%restart", {"out_has": "restarted"}),
    ("caller(1)", {"value": "30"}),
]


def check_all(outcome, expected):
    """As the driver's check, and no word to stderr that is not expected."""
    shown = check(outcome, expected)
    assert "typeof" not in outcome.error + outcome.stderr, shown
    if "err" not in expected and ("error" not in expected or "no_err" in expected):
        assert outcome.stderr == "", shown
    if "streams" in expected:
        assert [name for name, _ in outcome.order] == expected["streams"], shown


def still_answers(kernel, outcome):
    """After a failed cell; after another the next of the list shows it."""
    assert outcome.status == "ok" or kernel.run("41 + 1", store_history=False).value == "42"


@pytest.mark.parametrize("index", range(len(CELLS)), ids=[repr(code[:40]) for code, _ in CELLS])
def test_cell(kernel, index):
    code, expected = CELLS[index]
    outcome = kernel.run(code)
    check_all(outcome, expected)
    still_answers(kernel, outcome)


def test_lsmagic_has_a_sentence_for_each_at_one_column(kernel):
    rows = kernel.run("%lsmagic").stdout.splitlines()
    column = rows[0].index("Lists")
    assert len(rows) > 10 and all(row[column - 1] == " " and row[column].isupper() and row.endswith(".") for row in rows)
    assert max(map(len, rows)) <= 104  # what a page of 1280 pixels shows in a line


def test_cflags_are_shown_once_and_by_groups(kernel):
    kernel.run("%cflags -DTWICE=1\n%cflags -DTWICE=1")
    shown = kernel.run("%cflags").stdout
    flags = [flag for flag in shown.split() if flag != "-isystem"]
    assert len(flags) == len(set(flags)) and "-DTWICE=1" in flags
    assert any(set(line.split()) >= {"-Wno-unused", "-Wno-null-dereference"} and "-I" not in line for line in shown.splitlines())


def test_start_is_silent(capfd):
    fresh = Kernel()
    fresh.close()
    assert "XEUS" not in "".join(capfd.readouterr())
