"""Cells that would take all time or memory before they run: they end with a sentence, and the kernel lives."""
import os

import pytest
from kernel.driver import Kernel


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    k.run("int kept = 42;")
    yield k
    k.close()


BOMB = "#define A0 x + x + x + x + x + x + x + x\n" + "".join(
    f"#define A{i} {' + '.join([f'A{i - 1}'] * 8)}\n" for i in range(1, 12))
DOUBLING = "#define D(x) x + x\n"
NESTED = "D(" * 40 + "1" + ")" * 40


TIME = "more than 4 seconds of processor time: a macro in it expands to too much"
MEMORY = "more than 1 GB of memory"
seconds = pytest.mark.long("seconds of processor time until it is given up")


@pytest.mark.parametrize("cells, said", [
    pytest.param([BOMB + "int x = 1;", "A11"], [TIME, MEMORY], marks=seconds),
    pytest.param([BOMB + "int x = 1;\nA11;"], [TIME, MEMORY], marks=seconds),
    pytest.param([DOUBLING, NESTED], [TIME, MEMORY], marks=seconds),
    pytest.param([DOUBLING + f"int y = {NESTED};"], [TIME, MEMORY], marks=seconds),
    (["int much[] = {[0 ... 2000000000] = 1};"], [MEMORY]),
    (['#include "/dev/zero"\nint z;'], [MEMORY]),
    (["const unsigned char all[] = {\n#embed \"/dev/zero\"\n};"], [MEMORY]),
    (['%%run\n#include "/dev/zero"\nint main(void) { }'], [MEMORY]),
], ids=["macros", "macros at once", "arguments", "arguments at once", "range", "file", "embed", "program"])
def test_a_cell_that_explodes_is_refused(kernel, cells, said):
    for cell in cells:
        outcome = kernel.run(cell, timeout=100)
    assert outcome.status == "error" and "Traceback" not in outcome.error
    assert any(part in outcome.error for part in said), outcome.error
    assert kernel.run("kept").value == "42"
    if len(cells) > 1:
        kernel.ask("complete", cells[-1], len(cells[-1]))
        kernel.ask("inspect", cells[-1], len(cells[-1]))
        assert kernel.run("kept").value == "42"


@pytest.mark.long("it is waited for some seconds")
def test_a_file_that_gives_nothing_is_not_waited_for(kernel, tmp_path):
    os.mkfifo(tmp_path / "silent.h")
    outcome = kernel.run(f'#include "{tmp_path}/silent.h"\nint never;', timeout=100)
    assert "it includes a pipe or a device, which gives it nothing" in outcome.error
    assert kernel.run("kept").value == "42"


CRASHED = "clang-19 has crashed: something in the cell is nested too deeply"


@pytest.mark.parametrize("cell, said", [
    ("kept" + " + kept" * 30000, None),
    ("- " * 20000 + "kept", CRASHED),
    ("~" * 20000 + "kept", CRASHED),
    ("kept = " * 20000 + "42", CRASHED),
    ("(int)" * 10000 + "kept", CRASHED),
    ("int " + "*" * 20000 + "far;", None),
    ("if (kept) " * 5000 + ";", None),
], ids=["sum", "minus", "not", "assignment", "cast", "pointer", "if"])
def test_a_cell_that_is_nested_deeply_does_not_end_the_kernel(kernel, cell, said):
    before = kernel.process
    outcome = kernel.run(cell, timeout=100)
    assert said is None or (outcome.status == "error" and said in outcome.error), outcome.error
    assert kernel.process == before and kernel.manager.is_alive() and kernel.run("kept").value == "42"


def test_an_interrupt_ends_the_analysis(kernel):
    kernel.run(BOMB + "int x = 1;")
    outcome = kernel.run("A11", interrupt_after=0.5)
    assert outcome.reply["ename"] == "KeyboardInterrupt" and "while it was read" in outcome.error
    assert outcome.seconds < 60 and kernel.run("kept").value == "42"


def test_an_interrupt_ends_the_compiler(kernel):
    outcome = kernel.run('void slow(void) { __asm__(".rept 2000000000\\n nop\\n .endr"); }', interrupt_after=0.7)
    assert outcome.reply["ename"] == "KeyboardInterrupt" and "while it was compiled" in outcome.error
    assert kernel.run("kept").value == "42"


@pytest.mark.parametrize("cell", [
    "#include <stdio.h>\n#define N 10\n#define SQ(x) ((x) * (x))\nint a[N] = {1, 2};\nSQ(N) + a[0]",
    "#define MAX(a, b) ((a) > (b) ? (a) : (b))\nMAX(1, MAX(2, MAX(3, MAX(4, MAX(5, MAX(6, MAX(7, 8)))))))",
    "int some[] = {[0 ... 9] = 4};\nsome[3]",
    "#define P(...) printf(__VA_ARGS__)\nP(\"%d\\n\", 1);",
])
def test_ordinary_macros_and_ranges_stay_ordinary(kernel, cell):
    assert kernel.run(cell).status == "ok"
