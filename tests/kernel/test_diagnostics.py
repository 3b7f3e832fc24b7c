"""Mistakes: where they are, in which order, what is said of them, and that good cells are met with silence."""
import re
import shutil
import subprocess

import pytest
from kernel.driver import ROOT, Kernel
from kernel.textbook import PROGRAMS

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    k.run("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>")
    yield k
    k.close()


def said(kernel, code):
    outcome = kernel.run(code)
    assert len(outcome.errors) == (outcome.status == "error")
    words = COLOUR.sub("", outcome.error + "\n" + outcome.stderr)
    for internal in ("kolo_value", "kolo_probe", "kolo_cell", "<kolo>", "typeof", "/kolo-cell.c", "In_", "/tmp/kolo-"):
        assert internal not in words, words
    return words


# A mistake, and parts of what must be said of it; a part that starts with '!' must not be.
MISTAKES = [
    ("char *made = make_it(1);", ["call to undeclared function 'make_it'", "hint: no cell that has run since the kernel started declares this name", "!conversion"]),
    ('printf("%.1f", make_it(1, 2));', ["call to undeclared function 'make_it'", "!format"]),
    ('int six = "six";', ["incompatible pointer to integer conversion"]),
    ("int twice = 1;\nint twice = 2;", ["2:5: error: redefinition of 'twice'", "hint: line 1 of this cell defines it already"]),
    ('for (int i = 0; i < 3; i++);\n    puts("x");', ["1:28: warning: this loop repeats nothing", "hint: remove the ';'"]),
    ("int left = 3;\nwhile (left > 5);\n{\n    left--;\n}", ["2:17: warning: this loop repeats nothing"]),
    ('void g13(int n) {\n    for (int i = 0; i < n; i++);\n        puts("x");\n}', ["2:32: warning: this loop repeats nothing"]),
    ('%%run\n#include <stdio.h>\nint main(void) {\n    for (int i = 0; i < 3; i++);\n        puts("x");\n}', ["4:32: warning: this loop repeats nothing"]),
    ('int a = 3\nprintf("%d", a);', ["1:10: error: expected ';'", "hint: put ';' after 3 in line 1"]),
    ('FILE *unended = fopen("/dev/null", "r")', ["1:40: error: expected ';' at end of declaration", "hint: put ';' after ) in line 1", "!constant"]),
    ("size_t *unended_size = NULL", ["1:28: error: expected ';' at end of declaration"]),
    ("FILE *unended", ["1:14: error: expected ';' at end of declaration", "hint: put ';' after unended"]),
    ("int unended_number = 5", ["1:23: error: expected ';' at end of declaration"]),
    ("Nothing *unended = NULL", ["1:1: error: unknown type name 'Nothing'"]),
    ("unsigned below; for (below = 3; below >= 0; below--) break;", ["always true", "hint: an unsigned number is never below 0"]),
    ("double half0 = (1 + 2) / 2;", ["1:16: warning: a division of whole numbers"]),
    ('char word0[3] = "abc";', ["1:17: warning: the array has no room", "hint: a string needs one char more"]),
    ("float comma = 3,14;", ["hint: numbers have a decimal point, not a comma: 3.14"]),
    ("double points = 3.14.15;", ["hint: a number has one decimal point"]),
    ('double share = 55%, other = 0.5;\nprintf("%g", share);', ["1:19: error: expected expression", "hint: % is the remainder", "!2:1"]),
    ('double last_share = 98%;\nprintf("x");', ["1:24: error: expected expression", "C has no percent sign", "!2:1"]),
    ("[1, 2, 3]", ["hint: C has no such lists"]),
    ("int listed[3];\nlisted = {1, 2, 3};", ["2:10: error: expected expression", "hint: values in braces can only"]),
    ("int octal = 08;", ["hint: a number that begins with 0 is octal"]),
    ("#include <stdio.h", ["1:18: error: expected '>'", "hint: write a header's name in <>"]),
    ("int one = 1, two = 2;\none and two", ["2:5: error: use of undeclared identifier 'and'", "hint: C writes && for and", "!expected ';'"]),
    ("int over = 2147483647 + 1;", ["result is -2147483648 with"]),
    ("double nothing = NAN;", ["hint: #include <math.h> declares NAN"]),
    ("char w_ = 0; write(1, &w_, 1);", ["hint: #include <unistd.h> declares write"]),
    ("_exit(3);", ["hint: #include <unistd.h> declares _exit"]),
    ("sqrt(2.0)", ["call to undeclared function 'sqrt'\n", "hint: #include <math.h> declares sqrt", "!ISO C99"]),
    ("assert(1);", ["hint: #include <assert.h> declares assert"]),
    ("bool flag = 1;", ["hint: #include <stdbool.h> declares bool"]),
    ("uint8_t small;", ["hint: #include <stdint.h> declares uint8_t"]),
    ("cout << 3;", ["hint: this is C++; C prints with printf"]),
    ("std::cout << 3;", ["hint: this is C++"]),
    ("using namespace std;", ["hint: this is C++", "!expected ';'"]),
    ('String s = "a";', ["hint: C has no String"]),
    ("var x = 3;", ["hint: C names the type of a variable"]),
    ("def f(x):\n    return x", ["hint: a function in C begins with the type of its result", "!expected function body"]),
    ("None", ["use of undeclared identifier 'None'\n", "hint: C's null pointer is NULL", "!long"]),
    ("for i in range(3):\n    print(i)", ["hint: C counts with for"]),
    ("if 1 > 0:\n    2", ["hint: C writes if (condition)"]),
    ('print("x")', ["hint: C prints with printf"]),
    ("if (1 == 1 and 2 == 2) puts(\"x\");", ["hint: C writes && for and"]),
    ("2 ** 3", ["hint: C has no operator **"]),
    ("int member0[3]; member0.length", ["1:24: error: member reference base type 'int[3]'", "hint: an array has no members; sizeof member0 / sizeof *member0"]),
    ("char text0[9]; text0.length()", ["hint: an array has no members; strlen(text0) counts the characters"]),
    ("int member1 = 3; member1.size", ["hint: only structs and unions have members, and this is of type 'int'"]),
    ("char line0[9]; gets(line0);", ["hint: gets is no longer part of C", "fgets(s, sizeof s, stdin)"]),
    ("help(printf)", ["hint: NAME? shows help, as in printf?"]),
    ("man printf", ["hint: NAME? shows help"]),
    ("quit()", ["hint: the Kernel menu of JupyterLab ends the session"]),
    ("Out[0] + 1", ["hint: Out[0] and _0 are the value of In[0], and it has left none"]),
    ("_0", ["hint: Out[0] and _0 are the value of In[0], and it has left none"]),
    ("_name", ["undeclared identifier '_name'", "!hint: Out"]),
    ("double giant[1l << 33];", ["the variables that the cell defines need more memory than there is"]),
    ("# a comment", ["hint: a comment begins with //"]),
    ("int x1 = 1; if (x1 = 2) puts(\"yes\");", ["1:20: warning:", "hint: '=' stores a value; '==' compares"]),
    ("int x2; x2 == 3; puts(\"x\");", ["1:12: warning: equality comparison result unused", "hint: '==' compares"]),
    ('char *s1 = "a"; if (s1 == "a") puts("x");', ["hint: strings are compared with strcmp"]),
    ('char a3[9]; a3 = "abc";', ["hint: a string is copied into an array with strcpy"]),
    ('char c4 = "abc";', ["hint: a char holds one character"]),
    ("char c5 = 'abc';", ["hint: single quotes hold one character"]),
    ('int n6; if (0) scanf("%d", n6);', ["hint: scanf stores through an address: write &n6"]),
    ('printf("%d\\n", 2.5);', ["1:16: warning: format specifies type 'int'", "hint: the format for 'double' is %f"]),
    ("int f7(int a) { if (a) return 1; }", ["hint: every path through the function"]),
    ("int *f8(void) { int z = 3; return &z; }", ["hint: the variable no longer exists"]),
    ("int a9[3]; int f9(void) { return a9[5]; }", ["hint: its 3 elements are [0] to [2]"]),
    ("int a10[3] = {1, 2, 3, 4};", ["hint: there are more values than elements"]),
    ("int f11(int a, int b) { return a + b; }\nf11(1);", ["2:6: error: too few arguments", "1:5: note: 'f11' declared here"]),
    ("int f12(int a) {\n    if (a) {\n        return 1;\n    return 2;\n}", ["hint: the '{' in line 2 is not closed"]),
    ('printf("hello";', ["expected ')'", "hint: the '(' in line 1 is not closed", "!expected '}'"]),
    ('printf("%d" 3);', ["""hint: between "%d" and 3 a ',' or an operator is missing"""]),
    ("printf(“hello”);", ["1:8: error: unexpected character", "hint: this is a curly quote; write \"", "!undeclared"]),
    ("int x13 = 3 – 2;", ["hint: this is a dash; write -", "!expected ';'"]),
    ("int x14 = 3 × 2;", ["hint: this is a multiplication sign; write *"]),
    ('if (1); { puts("x"); }', ["1:7: warning: this if does nothing", "hint: remove the ';'"]),
    ("for (int i = 0, i < 3, i++) ;", ["hint: the three parts of for"]),
    ("const int k15 = 3;\nk15 = 4;", ["2:5: error: cannot assign", "1:11: note: variable 'k15' declared const here"]),
    ("int f16(void) { int u; return u; }", ["hint: u has no value yet"]),
    ("double d17 = 1 / 2;", ["1:14: warning: a division of whole numbers", "hint: make one side a double"]),
    ("int b18 = 1 < 2 < 3;", ["hint: write a < b && b < c"]),
    ("struct pt { int x; };\npt p19;", ["hint: write struct pt"]),
    ("struct pv { int x; } v20, *q20 = &v20;\nq20.x = 3;", ["2:4: error:", "hint: access a member through a pointer with ->"]),
    ("int x21; *x21 = 3;", ["hint: * needs a pointer"]),
    ("void v22(void) {}\nint y22 = v22();", ["hint: the function returns nothing (void)"]),
    ("int r23(void) { return 1; }\nint r23(void) { return 2; }", ["2:5: error: redefinition", "hint: the name is defined twice in this cell"]),
    ("int main(void) { return 0; }", ["hint: main() is defined but not called"]),
    ("#define N24 5;\nint a24[N24];", ["2:", "1:14: note: expanded from macro 'N24'", "hint: the macro's text ends with ';'"]),
    ("#include stdio.h", ["hint: write a header's name in <> or in quotes"]),
    ("#include <sdtio.h>", ["'sdtio.h' file not found", "hint: the nearest is <stdio.h>"]),
    ("#include <iostream>", ["hint: <iostream> is C++'s"]),
    ('puts("abc);', ["1:6: error: missing terminating '\"'", "hint: the string that begins here is not closed", "!expected"]),
    ('else puts("x");', ["hint: an else must follow"]),
    ('case 3: puts("x");', ["hint: a case label must be inside the braces"]),
    ("return 3;", ["'return' with a value stands outside a function"]),
    ("/* never closed", ["unterminated /* comment"]),
    ("int[] a25 = {1};", ["place the brackets after the identifier"]),
    ("int 2x = 3;", ["error:"]),
    ("int a26[] = {1, 2, 3;", ["error: expected '}'"]),
    ("double x27 = 3,5;", ["1:16: error: expected identifier"]),
    ('printf("a")\nprintf("b")', ["1:12: error: expected ';'"]),
    ("int x28 = ;", ["1:11: error: expected expression"]),
    ("struct never p29;", ["1:8: error: variable has incomplete type 'struct never'"]),
    ("#error stop here", ["1:2: error: stop here"]),
    ("#warning be careful", ["1:2: warning: be careful"]),
    ("%time 1\nint x30 = nope;", ["2:11: error: use of undeclared identifier 'nope'"]),
    ("\tint\tx31 = nope;", ["    1 | \tint\tx31 = nope;\n      | \t   \t      ^"]),
    ('char *s32 = "äöü变"; int ü = nope;', ['1:29: error', ' ' * 29 + '^']),
    ("#include <kolo.h>\nfloat shared[4];\nif (kolo_rank() == 0)\n    kolo_allreduce(shared, 4);",
     ["4:5: warning: only some ranks reach this kolo_allreduce()", "hint: every rank must call kolo_allreduce(): move it out of the condition in line 3"]),
    ("%%run\n#include <kolo.h>\nint main(void) {\n    if (kolo_rank() > 0) return 0;\n    return kolo_barrier();\n}",
     ["5:12: warning: ranks that leave in line 4 do not reach this kolo_barrier()"]),
]


@pytest.mark.parametrize("code, parts", MISTAKES, ids=[repr(code[:40]) for code, _ in MISTAKES])
def test_mistake(kernel, code, parts):
    words = said(kernel, code)
    for part in parts:
        assert (part[1:] not in words) if part.startswith("!") else (part in words), f"{part!r} in:\n{words}"


def test_many_errors_come_in_order_and_are_capped(kernel):
    words = said(kernel, "\n".join(f"int e{i} = none{i};" for i in range(30)))
    lines = [int(line) for line in re.findall(r"In\[\d+\]:(\d+):\d+: error", words)]
    assert lines == sorted(lines) and len(lines) == 20 and "and 10 more errors" in words


def test_a_long_line_is_cut_around_the_caret(kernel):
    words = said(kernel, "int total = " + "1 + " * 100 + "nope" + " + 2" * 100 + ";")
    code, caret = words.splitlines()[-3:-1] if "hint" in words.splitlines()[-1] else words.rstrip().splitlines()[-2:]
    assert len(code) < 130 and code[caret.index("^"):].startswith("nope")


def test_a_name_of_a_failed_cell_is_traced(kernel):
    words = said(kernel, "int from_failed = 3;\nint bad = nope;")
    number = re.search(r"In\[(\d+)\]", words).group(1)
    assert f"hint: In[{number}] defines 'from_failed', but it failed" in said(kernel, "from_failed + 1")


def test_a_name_that_is_gone_says_why(kernel):
    k = Kernel()
    for code in ("int forgotten = 3;", "%reset", "struct pair { int a; };", "struct pair changed;", "struct pair { int a, b; };", "int live = 3;"):
        assert k.run(code).status == "ok"
    assert "hint: %reset has deleted 'forgotten' of In[1]: run that cell again" in said(k, "forgotten")
    assert "hint: 'changed' of In[4] was dropped when its type changed" in said(k, "changed")
    assert "hint: the program of %%run does not see what cells have defined" in said(k, "%%run\nint main(void) { return live; }")
    assert k.run("int gone = 1;\n#undef gone").status == "ok"
    assert "would define" not in said(k, "live and live")
    k.close()


def test_what_an_earlier_cell_declared_is_shown_there(kernel):
    assert kernel.run("const int fixed = 3;").status == "ok"
    words = said(kernel, "fixed = 4;")
    assert "note: variable 'fixed' declared" in words and "const int fixed = 3;" in words


def test_a_header_of_the_present_folder(kernel, tmp_path):
    (tmp_path / "mine.h").write_text("#pragma once\nstatic inline int w(int a) { int q; return q + a; }\n")
    (tmp_path / "bad.h").write_text("int first(int a)\nint second(void);\n")
    kernel.run(f"%cd {tmp_path}")
    assert "mine.h:2:44: warning" in said(kernel, '#include "mine.h"\nint got = 1;')
    assert said(kernel, "got = 2;").strip() == ""  # not again
    kernel.run("%cd /")
    assert said(kernel, "got = 3;").strip() == ""
    kernel.run(f"%cd {tmp_path}")
    assert "bad.h:1:17: error: expected ';'" in said(kernel, '#include "bad.h"')
    assert "declared const here" in said(kernel, "const int held = 1;\nheld = 2;")
    assert kernel.run("got").value == "3"


def test_an_earlier_variable_is_not_shown_in_a_header(kernel):
    """clang then counts its line from a header's."""
    kernel.run(f"%cd {ROOT}/labs")
    kernel.run('#include "course/course.h"\n#include "course/lesson_3.h"')
    kernel.run("kolo_history *on_ranks = NULL;\ndouble reached = 2;")
    words = said(kernel, "lesson_3_curve(on_ranks, true, x_ranks, y_ranks);")
    assert words.count("in an earlier cell: kolo_history *on_ranks") == 2 and "lesson_3_measure.h" not in words, words


def contrast(a, b):
    light, dark = sorted((0.2126 * r + 0.7152 * g + 0.0722 * blue for r, g, blue in (
        [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour] for colour in (a, b))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# What JupyterLab draws: its grounds of errors in the light and in the dark theme, its bold cyan, and colours by number.
GROUNDS = (255, 221, 221), (80, 31, 27)
DRAWN = {"1;36": (37, 143, 143), "1;38;5;196": (255, 0, 0), "1;38;5;164": (215, 0, 215)}


def test_colours_can_be_read_in_both_themes(kernel):
    kernel.run("int *seen = NULL;")
    made = [kernel.run(code) for code in ("int x40 = nope", "int f41(void) { }", "*seen = 3;")]
    colours = set(re.findall(r"\x1b\[([0-9;]+)m", "".join(m.error + m.stderr for m in made))) - {"0", "1"}
    assert colours == set(DRAWN)
    assert all(contrast(DRAWN[colour], ground) >= 3 for colour in colours for ground in GROUNDS)


@pytest.mark.parametrize("code, parts", [
    ("%%run\n", ["it needs a main()"]),
    ("%%run\nint f(void);\nint main(void)\n{\n    return f();\n}", [":5: 'f' is used here, and nothing defines it"]),
])
def test_link(kernel, code, parts):
    words = said(kernel, code)
    assert all(part in words for part in parts) and "/usr/bin/ld" not in words and "program-" not in words, words


# What must be met with silence.
GOOD = [
    "int k1 = 5;\nwhile (k1-- > 0);\nk1;", "int k2;\nfor (k2 = 0; k2 < 3; k2++)\n    ;", "int k3 = 0;\ndo k3++; while (k3 < 3);\n{ k3 = 0; }",
    "int k4 = 0;\ndo {\n    k4++;\n} while (k4 < 3);\n    k4 = 1;", "int k5;\nint k5 = 3;", "extern int k6;\nint k6 = 3;",
    "#ifdef NEVER\nint k7 = 1;\n#else\nint k7 = 2;\n#endif",
    'char fits[4] = "abc", *quoted = "it is \\"3\\"";', "int k8 = 2, k9 = 3;\nk8 * k9", "double k10 = 4 / 2, k11 = (2 + 4) / 3;",
    "size_t k12 = 3;\nwhile (k12 > 0) k12--;",
    "int count = 0;\nwhile (count < 3) count++;\ncount;",
    "char copy[20], *to = copy; const char *from = \"abc\";\nwhile ((*to++ = *from++));\nputs(copy);",
    "for (int i = 0, j = 10; i < j; i++, j--);",
    "double mean = 10 / 2, third = 1.0 / 3, half = (double)count / 2; int whole = count / 2;",
    "int sum = 0; for (int i = 0; i < 10; i++) if (i % 2) sum += i; else sum -= i;",
    "switch (sum) { case 1: sum = 2; /* fall through */ case 2: sum = 3; break; default: ; }",
    "struct pair { int a, b; } pairs[] = {{1, 2}, {3, 4}}; struct pair zero = {0};",
    "int (*compare)(const void *, const void *);\nint by_value(const void *a, const void *b) { return *(int *)a - *(int *)b; }\ncompare = by_value;",
    "int *room = malloc(10 * sizeof *room);\nif (!room) return;\nmemset(room, 0, 10 * sizeof *room);\nfree(room);",
    "unsigned size = sizeof pairs / sizeof *pairs; for (size_t i = 0; i < size; i++) sum += pairs[i].a;",
    "int main(void) { puts(\"hello\"); return 0; }\nmain();",
    "static int unused_parameter(int argc, char **argv) { return 0; }",
    "do { sum--; } while (sum > 0);",
    "(void)sum;",
    "if (sum == 3) ; else puts(\"x\");",
]


@pytest.mark.parametrize("code", GOOD, ids=[repr(code[:40]) for code in GOOD])
def test_good_cells_are_met_with_silence(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok" and outcome.stderr == "", outcome.error + outcome.stderr


@pytest.mark.parametrize("name", [name if number % 4 == 0 else pytest.param(name, marks=pytest.mark.long("32 programs"))
                                  for number, name in enumerate(PROGRAMS)])
def test_a_textbook_s_program_is_met_with_silence(kernel, name):
    """As a program, as a cell, and gcc agrees that nothing is to be said."""
    program = PROGRAMS[name]
    if shutil.which("gcc"):
        command = ["gcc", "-std=gnu17", "-Wall", "-fsyntax-only", "-xc", "-"]
        assert not subprocess.run(command, input=program, capture_output=True, text=True, check=True).stderr
    ran = kernel.run("%%run\n" + program.lstrip())
    assert (ran.status, COLOUR.sub("", ran.stderr)) == ("ok", "") and ran.stdout
    call = "main(1, (char *[]){NULL})" if "argc" in program else "main()"
    cell = kernel.run(program + f"\n{call};")
    assert (cell.status, COLOUR.sub("", cell.stderr)) == ("ok", ""), cell.error


def test_after_a_restart_in_the_middle_of_a_notebook_the_cells_above_are_named():
    kernel = Kernel()
    try:
        words = said(kernel, "double wanted = sum_of(values, 3) + offset;\nvalues")
        hint = "hint: no cell that has run since the kernel started declares this name: if a cell above does, run that one first"
        assert words.count(hint) == 1 and said(kernel, "offset").count(hint) == 1
        assert "since the kernel started" not in said(kernel, "%%run\nint main(void) { return offset; }")
    finally:
        kernel.close()
