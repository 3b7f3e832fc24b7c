"""Memory that cells get from malloc(), indices, values that were never set, sanitizers: what a fault or a doubtful line is
told with. One kernel runs each table in order."""
import re

from kernel.driver import Kernel, check

START = "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>"

CELLS = [
    (START, {}),
    # what was never set
    ('void f(void) { int u; if (u) puts("one"); else puts("other"); }\nf();', {"err": "u has no value yet: give it one where it is declared, u = 0", "out_has": "o"}),
    ("int largest(int n, const int *a) { int max; for (int i = 0; i < n; i++) if (a[i] > max) max = a[i]; return max; }",
     {"err": "on some paths max is used before it has a value"}),
    # indices
    ("int arr[5]; int k = 7; arr[k] = 3;", {"error": ["index 7 is outside of 'arr' (int[5]), which has the elements [0] to [4], at In[k]:1"]}),
    ("int get(int i) { int loc[4] = {1, 2, 3, 4}; return loc[i]; }\nget(-1)", {"error": ["index -1 is outside of 'loc' (int[4])", "in get()"]}),
    ("struct { int cells[2][3]; } grid; grid.cells[1][k - 4] = 2;", {"error": ["index 3 is outside of 'grid.cells' (int[3])"]}),
    ("unsigned char small = 200; arr[small] = 1;", {"error": ["index 200 is outside of 'arr'"]}),
    # NULL
    ('FILE *file = fopen("/nonexistent/x.txt", "r");', {}),
    ("char line[80]; fgets(line, 80, file);",
     {"error": ['The last call that gave NULL: fopen("/nonexistent/x.txt", "r") gave NULL at In[8]:1: No such file or directory']}),
    ("double *big = malloc(1ull << 50); big[0] = 1;", {"error": ["malloc() of 1125899906842624 bytes gave NULL at In[k]:1: there is not so much memory"]}),
    # the heap
    ("%heap", {"out": "the heap is not checked; %heap on turns it on\n"}),
    ("%heap on", {"out_has": "the heap is checked"}),
    ("%heap", {"out": "0 blocks, 0 bytes in use\n"}),
    ("int *b = malloc(8 * sizeof *b);\nb[8] = 1;",
     {"error": ["this writes beyond the end of a block of 32 bytes (asked for at In[k]:1), at In[k]:2"]}),
    ('b[0] = 3; free(b);\nprintf("%d\\n", b[0]);', {"error": ["this reads a block of 32 bytes (asked for at In[14]:1) after free(), at In[k]:2"]}),
    ("free(b);", {"error": ["free() was given a block of 32 bytes (asked for at In[14]:1) for the second time, at In[k]:1"]}),
    ("int *odd = malloc(5 * sizeof *odd);\nodd[5] = 1;", {"error": ["this cell has written beyond a block of 20 bytes (asked for at In[k]:1)"]}),
    ("odd[4] = 1;", {}),
    ("int *c = malloc(40); c[1] = 2;\nc = realloc(c, 80);\nc[1]", {"value": "2"}),
    ("int *d = calloc(10, 4); d[3] + d[9]", {"value": "0"}),
    ("c = NULL;", {}),
    ("%heap", {"out_has": "2 blocks, 60 bytes in use:\n  1 × In[17]:1, 20 bytes in all\n  1 × In[20]:1, 40 bytes in all\n"
                          "1 block, 80 bytes, that free() never got, and that nothing points to any more:\n  1 × In[19]:2, 80 bytes in all\n"}),
    ('char *text = strdup("abc"); free(text); text = malloc(0); free(text);', {}),
    ("free(odd); free(d);", {}),
    ("%heap off", {}),
    ("int *after = malloc(4); free(after); malloc(3) != NULL", {"value": "1"}),
    # sanitizers
    ("%ldflags -fsanitize=address", {"error": ["-fsanitize is a flag of the compiler", "%cflags -fsanitize=address"]}),
    ("%cflags -fsanitize=address", {"out_has": "plain cells are compiled without it"}),
    ("int plain[3]; plain[1] = 4; plain[1]", {"value": "4"}),
    ("plain[k] = 1;", {"error": ["index 7 is outside of 'plain'"]}),
    ("%cflags --reset", {}),
    # OpenMP, the shell
    ("#pragma omp parallel for\nfor (int i = 0; i < 3; i++) plain[i] = i;",
     {"err": "without -fopenmp this pragma does nothing"}),
    ("%cflags -fopenmp", {}),
    ("#pragma omp parallel for\nfor (int i = 0; i < 3; i++) plain[i] = i;\nplain[2]", {"value": "2"}),
    ("%cflags --reset", {}),
    ("!k == 7", {"err": "hint: a line that begins with ! is a command of the shell; in C write (!k == 7)"}),
    ("int ls = 3;\n!ls > /dev/null", {}),
    ("void fill(char *to, int n) { for (int i = 0; i < n; i++) to[i] = 'a'; }", {}),
    ("int smash(int n)\n{\n    char b[8];\n    fill(b, n);\n    return b[3];\n}\nsmash(64);",
     {"error": ["over its own stack frame, at In[k]:5", "in smash()"], "lost": True}),
    # what to do about damaged memory, where the place of the damage is not known
    ("char *constant = \"abc\";\nconstant[0] = 'x';", {"error": ["Segmentation fault at In[k]:2", "can be read, not written", "char s[] = \"abc\";"]}),
    ("int *nowhere = NULL; *nowhere = 1;", {"error": ["Segmentation fault"], "no_hint": True}),
    ("int *freed = malloc(40); free(freed); free(freed);", {"error": ["Aborted at In[k]:1", "%heap on, and then the same cells again"], "lost": True}),
    ("%heap on", {}),
    ("freed = malloc(40); free(freed); free(freed);", {"error": ["In[k]:1"], "any_loss": True, "no_hint": True}),
    ("%heap off", {}),
    ("#include <assert.h>\nint failing = 3; assert(failing == 4);", {"error": ["Aborted at In[k]:2"], "no_hint": True}),
    # a value that went with its process
    ("int first_lost = 4, second_lost = 5, third_lost = 6, fourth_lost = 7;", {}),
    ("abort();", {"error": ["Aborted"], "any": True, "any_loss": True}),
    ("raise(9);", {"any": True, "any_loss": True}),
    ("first_lost", {"value": "0", "err": "first_lost: lost with the process that held the value, and 0 until its cell runs again"}),
    ("struct loser { int first_lost; };\nint lose(int k) { return k; }\nlose(3)", {"value": "3", "no_err": True}),
    ("{ int k = 4; struct loser own = {.first_lost = k}; own.first_lost++; }", {"no_err": True}),
    ("int lose_more(void) { return k; }\nlose_more()", {"value": "0", "err": "k: lost with"}),
    ("second_lost = 9; second_lost", {"value": "9", "no_err": True}),
    ("int summed = fourth_lost + 1; summed", {"value": "1", "err": "fourth_lost: lost with"}),
    ("int third_lost = 6; third_lost", {"value": "6", "no_err": True}),
    ("%ranks 3000", {"error": ["3000 ranks are too many for the"]}),
]


def test_cells():
    kernel = Kernel()
    try:
        for code, expected in CELLS:
            try:
                outcome = kernel.run(code)
                check(outcome, expected)
                assert not (expected.get("no_err") and outcome.stderr), outcome.stderr
                assert not (expected.get("no_hint") and "hint:" in outcome.error), outcome.error
            except AssertionError as wrong:
                raise AssertionError(f"{code!r}: {wrong}") from None
    finally:
        kernel.close()


def test_a_sanitizers_report_names_the_line():
    kernel = Kernel()
    try:
        kernel.run("%cflags -fsanitize=address")
        outcome = kernel.run("%%run\n#include <stdlib.h>\nint main(void) {\n    int *a = malloc(16);\n    a[4] = 1;\n    free(a);\n}")
        assert re.search(r"In\[2\]:5(:10)?\n", outcome.stderr)  # addr2line, where LLVM's symbolizer is not, tells no column
        assert "invalid path" not in outcome.stderr
        assert "ProgramError" in outcome.error
    finally:
        kernel.close()


def test_a_header_can_be_asked_for():
    kernel = Kernel()
    try:
        page = kernel.run("stdio.h?").reply["payload"][0]["data"]["text/plain"]
        assert "stdio.h is a header; #include <stdio.h> takes it in." in page and " printf " in page
        assert "the nearest header is <stdio.h>" in kernel.run("stdoi.h?").error
    finally:
        kernel.close()


def test_values_that_only_the_ranks_have_are_named():
    kernel = Kernel()
    try:
        kernel.run("%ranks 2")
        kernel.run("%%ranks\nint mine = 5; double loss = 0.5;")
        first = kernel.run("mine")
        assert first.value == "0" and "mine: set by a %%ranks cell, on the ranks; here it is 0" in first.stderr
        assert "set by" not in kernel.run("mine").stderr
        assert "loss: set by a %%ranks cell" in kernel.run("mine + loss").stderr
        assert "set by" not in kernel.run("%%ranks\nmine").stderr
        asked = kernel.run("%%ranks\n#include <kolo.h>\nkolo_rank()")
        assert asked.value == "[0,1] 0" and "until kolo_init(NULL, NULL) has run" in asked.stderr
        both = kernel.run("%%ranks\nkolo_init(NULL, NULL); kolo_rank()")
        assert both.value == "[0] 0\n[1] 1" and "until" not in both.stderr
        assert "until" not in kernel.run("%%ranks\nkolo_rank()").stderr
    finally:
        kernel.close()


COMPLETED = [
    ("ptr.", ["->next", "->value"]), ("ptr.va", ["->value"]), ("item.va", ["value"]),
    ('getenv("KOLO_CPU', ["KOLO_CPU_DEVICES"]), ("%%run -n", ["-np"]), ("%%run --time", ["--timeline"]),
    ("#pragma omp parall", ["parallel"]), ("%who va", ["variable"]), ("%heap o", ["off", "on"]),
    ("%cflags -fsan", ["-fsanitize=address", "-fsanitize=thread", "-fsanitize=undefined"]),
]
SHOWN = [("html", "text/html", "<b>bold</b>"), ("latex", "text/latex", "$x^2$"), ("markdown", "text/markdown", "# Head"),
         ("svg", "image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg"/>')]


def test_completions_values_and_displays():
    kernel = Kernel()
    try:
        kernel.run("struct node { int value; struct node *next; } item = {3, 0}, *ptr = &item;\n"
                   'int many[200] = {1, 2}; double loss = 0.25; char word[] = "hello"; int twice(int a) { return 2 * a; }')
        for code, wanted in COMPLETED:
            assert kernel.ask("complete", code, len(code))["matches"] == wanted, code
        reply = kernel.ask("complete", "ptr.va", 6)
        assert (reply["cursor_start"], reply["cursor_end"]) == (3, 6)
        rows = kernel.run("%who").stdout
        for row in ("item   struct node = {.value = 3, .next = NULL}\n", "loss   double = 0.25\n", 'word   char[6] = "hello"\n',
                    "many   int[200] = {1, 2, 0,", "twice  int twice(int a)\n"):
            assert row in rows, rows
        assert max(map(len, rows.splitlines())) < 100
        kernel.run("loss = 0.125;")
        assert "loss  double  (8 bytes) = 0.125\n" in kernel.run("%whos variables").stdout
        assert "loss" not in kernel.run("%whos function").stdout
        for magic, mime, text in SHOWN:
            (kind, content), = kernel.run(f"%%{magic}\n{text}").displays
            assert kind == "display_data" and content["data"][mime] == text
        assert "wanted %%svg" in kernel.run("%%svg").error
    finally:
        kernel.close()


OUTS = [
    ("1.5 + 2", "3.5"), ("int a[3] = {1, 2, 3}; a", "{1, 2, 3}"), ("struct p { int x, y; }; (struct p){4, 5}", None),
    ("_.x", "4"), ("Out[1] * 2", "7.0"), ("_1 + Out[2][1] + _3.y", "10.5"), ("a[1] = 9; Out[2]", "{1, 2, 3}"),
    ('const char *t = "hi"; t', None), ("_", '"hi"'), ("for (int _ = 0; _ < 2; _++) a[_] = _;\na[1]", "1"),
    ("int _ = 40; 3", "3"), ("_ + 1", "41"), ("int Out[2] = {7, 8}; Out[1]", "8"),
]


def test_values_of_earlier_cells():
    kernel = Kernel()
    try:
        for code, value in OUTS:
            outcome = kernel.run(code)
            assert outcome.status == "ok" and not outcome.stderr and value in (None, outcome.value), (code, outcome.error, outcome.stderr)
        assert "_1" not in kernel.run("%who").stdout
        kernel.run("%reset")
        assert "undeclared" in kernel.run("_1").error
    finally:
        kernel.close()
