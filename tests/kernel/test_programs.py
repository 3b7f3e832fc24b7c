"""%%run: a whole program, its faults told as a cell's are."""
import re

import pytest
from kernel.driver import BUILD, Kernel

NP = pytest.mark.skipif(not (BUILD / "bin" / "kolorun").exists(), reason="kolorun is not built")
HEAD = "#include <stdio.h>\n#include <stdlib.h>\n"


@pytest.fixture(scope="module")
def kernel():
    one = Kernel()
    yield one
    one.close()


def run(kernel, code, words="", **how):
    return kernel.run(f"%%run {words}\n{HEAD}{code}", **how)


# What stands in a program, from the cell's fourth line on, and what is said of it.
FAULTS = [
    ("int main(void)\n{\n    int *p = NULL;\n    *p = 1;\n    puts(\"passed\");\n}", "Segmentation fault at In[k]:7, address 0x0"),
    ("int main(void)\n{\n    int d = 0;\n    printf(\"%d\\n\", 5 / d);\n}", "Division by zero at In[k]:7"),
    ("int main(void)\n{\n    int *p = NULL;\n    printf(\"%d\\n\", *p);\n}", "Segmentation fault at In[k]:7, address 0x0"),
    ("int down(int n)\n{\n    return down(n + 1) + 1;\n}\nint main(void) { printf(\"%d\\n\", down(1)); }",
     "Stack overflow at In[k]:6: down() called itself about"),
    ("void down(void)\n{\n    down();\n}\nint main(void) { down(); }", "Stack overflow at In[k]:6: down() called itself about"),
    ("int main(int count, char **words)\n{\n    double a[2000][2000];\n    for (int i = 0; i < 2000; i++) a[i][i] = count;\n    printf(\"%g %p\\n\", a[3][count], (void *)words);\n}",
     "Stack overflow at In[k]:7: the variables of main() need more space than is left on the stack"),
    ("int main(void)\n{\n    int a[3];\n    for (int i = 0; i <= 3; i++) a[i] = i;\n    printf(\"passed %d\\n\", a[1]);\n}", "index 3 is outside of 'a' (int[3]), which has the elements [0] to [2], at In[k]:7"),
    ("void fill(int *a, int n)\n{\n    for (int i = 0; i < n; i++) a[i] = i;\n}\nint main(void)\n{\n    int a[3];\n    fill(a, 30);\n}",
     "this function has written beyond the end of one of its arrays, over its own stack frame"),
    ("int main(void)\n{\n    char *p = malloc(8);\n    free(p);\n    free(p);\n}", "Aborted at In[k]:8"),
    ("#include <assert.h>\nint main(int count, char **words)\n{\n    assert(count == 7 && words);\n}", "Aborted at In[k]:7"),
    ("int main(void)\n{\n    void (*call)(void) = NULL;\n    call();\n}", "Segmentation fault at In[k]:7, address 0x0"),
    ("#include <string.h>\nint main(void)\n{\n    char *s = NULL;\n    printf(\"%zu\\n\", strlen(s));\n}", "Segmentation fault at In[k]:8, address 0x0"),
    ("#include <pthread.h>\nvoid *work(void *a)\n{\n    *(int *)a = 3;\n    return a;\n}\nint main(void)\n{\n    pthread_t t;\n"
     "    pthread_create(&t, NULL, work, NULL);\n    pthread_join(t, NULL);\n}", "Segmentation fault at In[k]:7, address 0x0"),
]


@pytest.mark.parametrize("code, said", FAULTS, ids=range(len(FAULTS)))
def test_a_fault_is_told_with_its_line(kernel, code, said):
    outcome = run(kernel, code)
    assert outcome.status == "error" and said in re.sub(r"In\[\d+\]", "In[k]", outcome.error), outcome.error
    assert "passed" not in outcome.stdout


def test_the_lines_that_led_to_a_fault_and_what_was_printed_before_it(kernel):
    outcome = run(kernel, "static void store(int *p)\n{\n    *p = 1;\n}\nint main(void)\n{\n    printf(\"before\");\n    store(NULL);\n    return 0;\n}")
    assert outcome.stdout == "before" and "Segmentation fault" in outcome.error
    assert re.search(r"In\[\d+\]:6 in store\(\).*In\[\d+\]:11 in main\(\)", outcome.error, re.S)


def test_a_program_keeps_its_own_handler(kernel):
    outcome = run(kernel, "#include <signal.h>\n#include <unistd.h>\nvoid mine(int s) { (void)s; puts(\"mine\"); _exit(3); }\n"
                          "int main(void)\n{\n    signal(SIGSEGV, mine);\n    int *p = NULL;\n    *p = 1;\n}")
    assert outcome.stdout == "mine\n" and "exit code 3" in outcome.error


def test_the_users_flags_win(kernel):
    kernel.run("%cflags -fsanitize=address")
    outcome = run(kernel, "int main(void)\n{\n    int *p = malloc(12);\n    p[3] = 1;\n    printf(\"%d\\n\", p[3]);\n}")
    assert "heap-buffer-overflow" in outcome.stderr and outcome.status == "error"
    kernel.run("%cflags --reset")
    kernel.run("%cflags -O0")
    assert "Segmentation fault" in run(kernel, "int main(void)\n{\n    char *s = \"abc\";\n    s[0] = 'x';\n}").error
    kernel.run("%cflags --reset")


def test_the_programs_name_is_no_path(kernel):
    assert run(kernel, "int main(int c, char **v) { for (int i = 0; i < c; i++) puts(v[i]); }", "one 'two three'").stdout == "program\none\ntwo three\n"


@NP
def test_the_line_of_the_rank_that_died_first(kernel):
    outcome = run(kernel, "#include <kolo.h>\nint main(void)\n{\n    kolo_init(NULL, NULL);\n    int *p = NULL;\n"
                          "    if (kolo_rank() == 1) *p = 1;\n    kolo_finish();\n}", "-np 3")
    assert "rank 1" in outcome.stderr and re.search(r"Segmentation fault at In\[\d+\]:9", outcome.error)


@pytest.mark.parametrize("code", ["printf(\"hi\\n\");", "int x = 3;", "for (int i = 0; i < 3; i++) puts(\"x\");", ""])
def test_a_program_without_main_is_told_in_one_sentence(kernel, code):
    outcome = run(kernel, code)
    assert "a %%run cell is a whole program: it needs a main()" in outcome.error and "\n" not in outcome.errors[0]["evalue"]


def test_a_program_does_not_see_the_cells(kernel):
    kernel.run("int seen_by_cells = 3;")
    assert "%%run does not see" in run(kernel, "int main(void) { return seen_by_cells; }").error


@pytest.mark.parametrize("word", ["&", "> out.txt", "| sort"])
def test_a_shells_word_is_refused(kernel, word):
    assert f"there is no {word.split()[0]} " in run(kernel, "int main(void) { }", word).error


def test_a_shells_word_may_be_an_argument(kernel):
    assert run(kernel, "int main(int c, char **v) { puts(v[c - 1]); }", "'&' a-b").stdout == "a-b\n"
    assert run(kernel, "int main(int c, char **v) { puts(v[c - 1]); }", "'&'").stdout == "&\n"


def test_a_library_that_is_missing_is_named(kernel):
    code = "#include <zlib.h>\nint main(void) { puts(zlibVersion()); }"
    assert "%ldflags -lz links it" in run(kernel, code).error
    kernel.run("%ldflags -lz")
    assert run(kernel, code).status == "ok"
    kernel.run("%ldflags --reset")


def test_timeit_says_when_there_is_nothing_to_measure(kernel):
    kernel.run("#include <math.h>\n#include <stdlib.h>\ndouble angle = 1.5;")
    assert "computed this beforehand" in kernel.run("%timeit -n 10 sin(1.0)").stdout
    for code in ["%timeit -n 10 sin(angle)", "%timeit -n 10 angle + 1", "%timeit -n 1 free(malloc(3))", "%timeit -n 10 angle = 3", "%%timeit -n 10\nfor (int i = 0; i < 9; i++) angle += i;"]:
        assert "beforehand" not in kernel.run(code).stdout, code
