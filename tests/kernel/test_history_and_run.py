"""%history, %run FILE.c, and IPython's assignments from commands and magics."""
import pytest
from kernel.driver import Kernel

PROGRAM = """#include <stdio.h>
#include "mine.h"
int main(int argc, char **argv)
{
    int got = 0;
    scanf("%d", &got);
    printf("%d of %d: %s %d\\n", MINE, argc, argc > 1 ? argv[1] : "", got);
    return 0;
}"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "sub").mkdir()
    (folder / "sub" / "mine.h").write_text("#define MINE 7\n")
    (folder / "mine.h").write_text("#define MINE 8\n")
    (folder / "sub" / "shows.c").write_text(PROGRAM)
    (folder / "no_main.c").write_text("int f(void) { return 1; }\n")
    (folder / "wrong.c").write_text("int main(void)\n{\n    return nope;\n}\n")
    (folder / "crashes.c").write_text("static int at(int *p) { return *p; }\nint main(void)\n{\n    return at(0);\n}\n")
    (folder / "three.c").write_text("int main(void) { return 3; }\n")
    (folder / "other.py").write_text("print(1)\n")
    (folder / "input.txt").write_text("42\n")
    k = Kernel(XDG_DATA_HOME=str(folder / "data"))
    k.run(f"%cd {folder}")
    yield k
    k.close()


def test_history_prints_the_cells_of_this_session(tmp_path):
    kernel = Kernel(XDG_DATA_HOME=str(tmp_path))
    try:
        for code in ("int a = 1;\na + 1", "int b;", "b +;"):
            kernel.run(code)
        assert kernel.run("%history").stdout == "int a = 1;\na + 1\nint b;\nb +;\n"
        assert kernel.run("%history -n").stdout == "   1:\nint a = 1;\na + 1\n   2: int b;\n   3: b +;\n   4: %history\n"
        assert kernel.run("%history -n -o 1-2").stdout == "   1:\nint a = 1;\na + 1\n2\n   2: int b;\n"
        assert kernel.run("%history 2 1").stdout == "int b;\nint a = 1;\na + 1\n"
        assert kernel.run("%history -l 2").stdout == "%history -n -o 1-2\n%history 2 1\n"
        assert kernel.run("%history 99").stdout == ""
        assert "-g searches the cells of all sessions" in kernel.run("%history?").reply["payload"][0]["data"]["text/plain"]
    finally:
        kernel.close()
    kernel = Kernel(XDG_DATA_HOME=str(tmp_path))
    try:
        assert kernel.run("%history").stdout == ""
        assert kernel.run('%history -g "int b"').stdout == "1/2: int b;\n"
        assert kernel.run("%history -g b*;").stdout == "1/3: b +;\n"
        assert kernel.ask("complete", "%history -", 10)["matches"] == ["-g", "-l", "-n", "-o"]
        told = kernel.ask("history", hist_access_type="range", session=1, start=1, stop=3)["history"]
        assert [tuple(entry) for entry in told] == [(1, 1, "int a = 1;\na + 1"), (1, 2, "int b;")]
    finally:
        kernel.close()


def test_a_file_runs_as_a_program_with_what_lies_beside_it(kernel):
    kernel.run("#define MINE 1")
    assert kernel.run("%run sub/shows.c hello < input.txt").stdout == "7 of 2: hello 42\n"
    assert kernel.run("%run -np 2 sub/shows.c hi").stdout.count("7 of 2: hi 0") == 2
    assert kernel.run('#include "mine.h"\nMINE').value == "8"
    assert "sub/" in kernel.ask("complete", "%run su", 7)["matches"]


def test_a_file_that_changes_is_compiled_anew(kernel):
    for number in (1, 2):
        kernel.run(f'%%writefile changing.c\n#include <stdio.h>\nint main(void) {{ printf("%d", {number}); }}')
        assert kernel.run("%run changing.c").stdout == str(number)


@pytest.mark.parametrize("words, said", [
    ("gone.c", ["FileError", "gone.c cannot be read: No such file"]),
    ("sub", ["FileError", "sub cannot be run: it is a folder"]),
    ("other.py", ["UsageError", "got 'other.py': !./other.py runs others"]),
    ("no_main.c", ["CompileError", "no_main.c has no main(), where a program begins"]),
    ("wrong.c", ["CompileError", "wrong.c:3:12: use of undeclared identifier 'nope'", "return nope;"]),
    ("crashes.c", ["Segmentation fault at crashes.c:1", "crashes.c:4 in main()", "return at(0);"]),
    ("three.c", ["ProgramError", "exit code 3"]),
    ("three.c > out.txt", ["UsageError", "without a shell"]),
])
def test_a_file_that_cannot_run_is_one_error(kernel, words, said):
    outcome = kernel.run("%run " + words)
    assert outcome.status == "error" and len(outcome.errors) == 1
    for part in said:
        assert part in outcome.error, outcome.error
    assert kernel.run("1 + 1").value == "2"


@pytest.mark.parametrize("code, said", [
    ("files = !ls", 'In[k]:1: C cannot take a command\'s output as a value: !ls shows it, !ls > FILE keeps it in a file, and popen("ls", "r")'),
    ("int n;\nchar **files = !ls -l", "In[k]:2: C cannot take a command's output as a value"),
    ("x = %time 1 + 1", "In[k]:1: a magic has no value, and stands at the beginning of its line: %time"),
    ("int y = %timeit 3", "a magic has no value"),
])
def test_an_assignment_of_ipython_is_one_sentence(kernel, code, said):
    outcome = kernel.run(code)
    number = outcome.reply["execution_count"]
    assert outcome.errors[0]["ename"] == "UsageError" and said.replace("[k]", f"[{number}]") in outcome.errors[0]["evalue"]


@pytest.mark.parametrize("code, value", [
    ("int date = 0, no = !date;\nno", "1"), ('int same = !strcmp("a", "a");\nsame', "1"),
    ('const char *text = "x = %time"; // y = !ls\n*text', "'x'"), ("int odd = 7 % 2;\nodd", "1"),
])
def test_what_is_c_stays_c(kernel, code, value):
    kernel.run("#include <string.h>")
    assert kernel.run(code).value == value
