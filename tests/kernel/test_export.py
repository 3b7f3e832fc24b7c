"""%export: the exported program compiles without a word of gcc's or clang's, and prints what the notebook printed."""
import os
import subprocess

import patience
import pytest
from kernel.driver import BUILD, Kernel

FLAGS = ["-std=gnu17", "-Wall", "-Wno-unused"]

SESSIONS = {
    "plain": ["#include <stdio.h>", "int n = 41;\nn++;\nprintf(\"n is %d\\n\", n);", "n", "n;", "n = 7", '"text"', "2.5", "(char)'a'", "10ul"],
    "functions": ["#include <stdio.h>\n#include <stdbool.h>\nint twice(int);\nint caller(int a) { return twice(a) + 1; }",
                  "static int twice(int a)\n{\n    // a comment\n    return a * 2;\n}\ncaller(3)",
                  "int twice(int a) { return a + a; }", "caller(3)", "bool yes = caller(1) == 4; yes",
                  "int (*pointer)(int) = caller, spare[2] = {1, 2};\npointer(5) + spare[1]",
                  "int fact(int k) { return k < 2 ? 1 : k * fact(k - 1); } fact(5)", "static int bump(void) { static int c; return ++c; } bump(); bump()"],
    "types": ["#include <stdio.h>\n#include <string.h>",
              "typedef struct point point;\nstruct point { int x; double y; char name[8]; };\npoint p = {1, 2.5, \"here\"};\nprintf(\"%d %g %s\\n\", p.x, p.y, p.name);",
              "enum color { RED, GREEN = 5 } paint = GREEN; paint + 1", "struct { int a, b; } nameless = {1, 2}; nameless.b",
              "union { int i; unsigned char b[4]; } u = {.i = 258}; u.b[0]", "typedef int (*operation)(int);\nint one(int a) { return a + 1; }\noperation table[] = {one, [2] = one};\ntable[2](1)",
              "const char *names[] = {\"a\", \"bc\", NULL}; names[1]", "int grid[2][3] = {{1, 2, 3}, {4, 5, 6}}; grid[1][2]",
              "struct link { int v; struct link *next; } ring = {1, &ring}; ring.next->next->v", "char word[] = \"abc\"; word[1] = 'X'; word"],
    "changes": ["#include <stdio.h>\n#define SCALE 2\nint scaled(int a) { return a * SCALE; }", "scaled(10)", "int n = 3; n", "double n = 1.5;\nn * 2", "n += 1; printf(\"%g\\n\", n);",
                "int x = 1; x++;", "int x;\nprintf(\"x %d\\n\", x);", "x = 5;", "int x = 1;", "x"],
    "flow": ["#include <stdio.h>", "int i = 0;\nagain:\nif (++i < 5) goto again;\ni", "int r = 0; do r++; while (r < 3);\nswitch (r) { case 3: r = 30; break; default: r = 1; }\nr",
             "for (int k = 0; k < 3; k++) {\n    if (k == 1) continue;\n    printf(\"%d \", k);\n}\nprintf(\"\\n\");",
             "if (i == 5) return;\nprintf(\"never\\n\");", "again:\nif (i++ < 7) goto again;\ni", "int compute(void) { return 9; }\nint from_call = compute(), *to = &from_call, sum = *to + 1;\nsum",
             "int *list = (int[]){1, 2, 3}; list[2]", "const double ratio = from_call / 2.0;\nratio", "int zeroed[3]; zeroed[2]", "double big[3000000]; big[2999999] = 1; big[2999999]",
             "int count = 4;\ndouble v[count];\nfor (int k = 0; k < count; k++) v[k] = k;\nv[3]"],
    "mixed": ["#include <stdio.h>\n#include <math.h>", "%env WORD=x\nint a = 2;\n!true\na", "%%sh\ntrue", "%time a += 3;", "%%time\na += 4;", "a", "%timeit -n 1 -r 1 -q a + 100", "a - a",
              "int bad = nope;", "if (a) {\n    !true\n    a++;\n}\na", "void later(void) {\n    !true */\n}\nlater(); a * 2"],
    "macros": ["#define _GNU_SOURCE\n#include <stdio.h>\n#define SQUARE(a) ((a) * (a))\n#define LONG \\\n    7", "SQUARE(4) + LONG", "#if LONG == 7\nint chosen = 1;\n#else\nint not_c = @;\n#endif\nchosen",
               "#pragma pack(push, 1)\nstruct packed { char a; int b; };\n#pragma pack(pop)\nsizeof(struct packed)", "struct spaced { char a; int b; };\nsizeof(struct spaced)", "#define SIZE 4\nint sized[SIZE]; sizeof sized", "#define SIZE 5\nSIZE", "#undef SIZE",
               "#define SIZE 6\nSIZE + SQUARE(2)", "_Generic(chosen, int: \"int\", default: \"other\")"],
    "kolo": ["#include <kolo.h>\n#include <stdio.h>", "kolo_data *digits = kolo_synthetic_digits(KOLO_TEST, .samples = 64);",
             "kolo_model *net = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));\nnet",
             "kolo_compile(net, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .seed = 1);",
             "const kolo_history *h = kolo_fit(net, digits, .epochs = 1, .verbose = KOLO_NONE);\nprintf(\"%d\\n\", h->epochs);", "kolo_count_params(net)"],
}


def simplified(value):
    """What a printf makes of it: 3.0 is 3."""
    return value[:-2] if value.endswith(".0") else value


@pytest.mark.parametrize("shape", SESSIONS)
def test_an_exported_session_prints_what_the_notebook_printed(shape, tmp_path):
    kernel, expected = Kernel(), ""
    timing = ("CPU times", "Wall time", "env:")
    for code in SESSIONS[shape]:
        outcome = kernel.run(code)
        assert outcome.status == ("error" if "nope" in code else "ok"), (code, outcome.error)
        expected += "".join(line for line in outcome.stdout.splitlines(True) if not line.startswith(timing))
        if outcome.value and not outcome.value.startswith("┏"):
            expected += simplified(outcome.value) + "\n"
    source = tmp_path / "out.c"
    assert kernel.run(f"%export {source}").stdout == f"Writing {source}\n"
    kernel.close()
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kolo"], capture_output=True, text=True, check=True,
                           env={**os.environ, "PKG_CONFIG_PATH": f"{BUILD}/lib/pkgconfig"}).stdout.split()
    for compiler in ("gcc", "clang-19"):
        built = subprocess.run([compiler, *FLAGS, source, "-o", tmp_path / "out", *flags, "-lm"], capture_output=True, text=True)
        assert built.returncode == 0 and not built.stderr, built.stderr + source.read_text()
        ran = patience.run([tmp_path / "out"], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": f"{BUILD}/lib"}, timeout=60)
        assert ran.stdout == expected and ran.returncode == 0, source.read_text()
    assert "kolo_cell" not in source.read_text() and "#line" not in source.read_text()


def test_a_cell_that_was_run_again_counts_once_where_it_ran_last(tmp_path):
    kernel = Kernel()
    for code in ("#include <stdio.h>", "int x = 1;", 'printf("%d\\n", ++x);', "x += 10;", 'printf("%d\\n", ++x);'):
        kernel.run(code)
    kernel.run(f"%export {tmp_path}/out.c")
    kernel.close()
    subprocess.run(["gcc", *FLAGS, "-Werror", tmp_path / "out.c", "-o", tmp_path / "out"], check=True)
    assert subprocess.run([tmp_path / "out"], capture_output=True, text=True).stdout == "12\n"


def test_the_programs_first_lines_say_how_to_compile_it(tmp_path):
    kernel = Kernel()
    for code in ("%cflags -fopenmp -DN=4\n%ldflags -lm", "#include <math.h>", "int n = N;\n#pragma omp parallel for reduction(+:n)\nfor (int i = 0; i < 4; i++) n += i;\nn"):
        assert kernel.run(code).status == "ok"
    kernel.run(f"%export {tmp_path}/out.c")
    kernel.close()
    head = (tmp_path / "out.c").read_text().splitlines()[1]
    assert head == " *   cc FILE -fopenmp -DN=4 $(pkg-config --cflags --libs kolo) -lm */"
    subprocess.run(["gcc", *FLAGS, "-Werror", "-fopenmp", "-DN=4", tmp_path / "out.c", "-o", tmp_path / "out"], check=True)
    assert subprocess.run([tmp_path / "out"], capture_output=True, text=True).stdout == "10\n"


def test_what_later_cells_have_replaced_is_a_comment(tmp_path):
    kernel = Kernel()
    for code in ("#include <stdio.h>\nstruct pair { int x, y; };\nstruct pair old = {1, 2};\nold.y",
                 "struct pair { double z; };", "struct pair fresh = {2.5}; fresh.z"):
        assert kernel.run(code).status == "ok"
    kernel.run(f"%export {tmp_path}/out.c")
    kernel.close()
    subprocess.run(["gcc", *FLAGS, "-Werror", tmp_path / "out.c", "-o", tmp_path / "out"], check=True)
    assert subprocess.run([tmp_path / "out"], capture_output=True, text=True).stdout == "2.5\n"
    assert "/* old.y */" in (tmp_path / "out.c").read_text()


def test_wrong_words_of_export():
    kernel = Kernel()
    assert "wanted %export FILE" in kernel.run("%export").error
    assert "cannot be written: No such file" in kernel.run("%export /not/there.c").error
    assert kernel.run("%export /tmp/kolo-export-empty.c").status == "ok"
    os.unlink("/tmp/kolo-export-empty.c")
    kernel.close()


def test_the_commands_that_the_file_names_work_in_a_cell(tmp_path):
    kernel = Kernel()
    kernel.run(f"%cd {tmp_path}")
    kernel.run('#include <kolo.h>\n#include <stdio.h>\nprintf("%d\\n", kolo_size());')
    outcome = kernel.run("%export x.c\n!cc x.c -o x $(pkg-config --cflags --libs kolo) && ./x")
    assert outcome.stdout == "Writing x.c\n1\n", outcome.stderr
    kernel.close()


def test_what_only_looks_is_left_out_and_shell_lines_stand_alone(tmp_path):
    kernel = Kernel()
    for code in ["int a = 1;\n!true\na++;", "%who", "%pwd", "%time a++;", "if (a)\n    !true", "void f(void)\n{\n    !true\n    if (a)\n        !false\n}", "%%sh\ntrue"]:
        kernel.run(code)
    kernel.run(f"%export {tmp_path}/out.c")
    text = (tmp_path / "out.c").read_text()
    assert "who" not in text and "pwd" not in text and "%time" not in text and "%%sh" in text
    assert text.count("/* !true */;") == 1 and text.count("/* !true */") == 3 and "/* !false */;" in text, text
    kernel.close()
