"""The runner itself: whatever a test program does, its failure shows in the last line and the exit code."""
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import patience
from runner import lanes
from workshop import ROOT, run

PROGRAM = r"""
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void good(void **state) { (void)state; printf("50 %% of a line"); }
static void bad(void **state) { (void)state; assert_int_equal(1, 2); }
static void good_again(void **state) { (void)state; }
static void skipped(void **state) { (void)state; skip(); }
static void leaves(void **state) { (void)state; exit(0); }
static void killed(void **state) { (void)state; raise(SIGKILL); }
static void hangs(void **state) { (void)state; pause(); }
static void waits(void **state) { (void)state; while (access(BESIDE, F_OK)) usleep(1000); }
int main(void)
{
    const struct CMUnitTest tests[] = {TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tests/ext").mkdir(parents=True)
    (tmp_path / "build/tests/ext").mkdir(parents=True)
    for name in ("run", "pytest.ini", "conftest.py", "patience.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    shutil.copytree(ROOT / "tests/runner", tmp_path / "tests/runner")
    return tmp_path


def write(tree, name, *tests, tag=""):
    source = tree / f"tests/ext/{name}_test.c"
    source.write_text(tag + PROGRAM.replace("TESTS", ", ".join(f"cmocka_unit_test({test})" for test in tests)))
    built = run(["gcc", "-w", f'-DBESIDE="{tree}/beside"', source, "-o", tree / f"build/tests/ext/{name}_test", "-lcmocka"])
    assert built.returncode == 0, built.stderr


def write_python(tree, name, text):
    (tree / f"tests/ext/{name}_test.py").write_text("import pytest, time, pathlib\n" + text)


def start(tree, *words):
    return subprocess.Popen([sys.executable, tree / "tests/run", *words], env={"PATH": "/usr/bin:/bin"}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip


def said(tree, *words):
    """The exit code and the lines that the runner prints."""
    process = start(tree, *words)
    lines = process.communicate()[0].splitlines()
    return process.returncode, lines


def runner(tree, *words):
    code, lines = said(tree, *words)
    return code, (lines or [""])[-1]


def test_counts(tree):
    write(tree, "one", "good", "skipped")
    write(tree, "two", "good")
    (tree / "tests/ext/three_test.py").write_text("def test_three(): pass\n")
    assert runner(tree) == (0, "3 passed, 0 failed, 1 skipped")
    assert runner(tree, "ext/two_test.c") == (0, "1 passed, 0 failed, 0 skipped")


def test_under_another_program(tree):
    write(tree, "one", "good")
    assert runner(tree, "--under", "env A=1 true") == (1, "0 passed, 1 failed, 0 skipped")
    assert runner(tree, "--under", "env A=1") == (0, "1 passed, 0 failed, 0 skipped")


def test_c_failures(tree):
    for bad in "bad", "leaves", "killed":
        write(tree, bad, "good", bad, "good_again")
    code, lines = said(tree)
    assert (code, lines[-1]) == (1, "4 passed, 3 failed, 0 skipped")
    for line in "bad_test.c: 2 passed, 1 failed", "leaves_test.c: 1 passed, 1 failed", "killed_test.c: 1 passed, 1 failed":
        named(lines, f"FAILED  ext/{line}")


def test_a_python_failure(tree):
    (tree / "tests/ext/one_test.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    assert runner(tree) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_python_file_that_cannot_be_read(tree):
    (tree / "tests/ext/one_test.py").write_text("def test_good(: pass\n")
    assert runner(tree)[0] == 1


def test_a_test_that_was_not_built(tree):
    write(tree, "one", "good")
    (tree / "build/tests/ext/one_test").unlink()
    assert runner(tree) == (1, "0 passed, 1 failed, 0 skipped")


def test_no_test_at_all(tree):
    assert runner(tree) == (1, "0 passed, 0 failed, 0 skipped")


def test_a_path_that_is_not_there(tree):
    assert runner(tree, "ext/absent")[0] == 1


# ---- Two parts, and what runs beside what ----


def test_what_is_long_is_in_the_other_part(tree):
    write(tree, "one", "good")
    write(tree, "two", "good", "good_again", tag="/* test: long: it trains for minutes. */\n")
    write_python(tree, "three", "@pytest.mark.LONG('it trains')\ndef test_a(): pass\ndef test_b(): assert 0\n".replace("LONG", "long"))
    assert runner(tree, "--part", "short") == (1, "1 passed, 1 failed, 0 skipped")
    assert runner(tree, "--part", "long") == (0, "3 passed, 0 failed, 0 skipped")
    assert runner(tree, "ext") == (1, "4 passed, 1 failed, 0 skipped")


def test_a_file_that_is_long_as_a_whole_is_not_started_for_the_short_part(tree):
    write(tree, "one", "good")
    write_python(tree, "two", "pytestmark = [pytest.mark.LONG('it trains')]\ndef test_a(): pass\n".replace("LONG", "long"))
    code, lines = said(tree, "--part", "short")
    assert (code, lines[-1]) == (0, "1 passed, 0 failed, 0 skipped") and "two_test" not in "".join(lines)
    assert runner(tree, "--part", "long") == (0, "1 passed, 0 failed, 0 skipped")


def test_two_run_side_by_side(tree):
    """Each ends only after the other began."""
    write(tree, "one", "waits")
    write_python(tree, "two", f"def test_a(): pathlib.Path('{tree}/beside').touch()\n")
    assert runner(tree, "--jobs", "2", "--limit", "60") == (0, "2 passed, 0 failed, 0 skipped")


NOT_BESIDE = """
@pytest.mark.parametrize("number", range(3))
@pytest.mark.ALONE("nobody may be in the room")
def test_room(number):
    room = pathlib.Path("ROOM")
    room.mkdir()
    time.sleep(0.1)
    room.rmdir()
"""


class Idle:
    """Cores of which half a core was idle for as many looks as are left."""

    def __init__(self, looks):
        self.looks = looks

    def are_there(self):
        self.looks -= 1
        return self.looks >= 0


def numbers_started(monkeypatch, jobs, looks, waits=()):
    """Which of a hundred units, if cores are idle so often; those of the numbers `waits` mostly waited the last time."""
    monkeypatch.setattr(lanes, "Running", lambda unit, *_: SimpleNamespace(unit=unit))
    started = lanes.Lanes([SimpleNamespace(alone=False, name=number) for number in range(100)], jobs, 1, None)
    started.known = {number: [9, 0.2 if number in waits else 0.5] for number in range(100)}
    started.idle_cores = Idle(looks)
    started.start_what_fits()
    return [one.unit.name for one in started.running]


def number_started(*words):
    return len(numbers_started(*words))


def test_more_run_side_by_side_while_cores_are_idle(monkeypatch):
    usual = len(os.sched_getaffinity(0)) + 1
    assert [number_started(monkeypatch, 0, looks) for looks in (0, 1, 1000)] == [usual, usual + 1, usual + 1]
    assert number_started(monkeypatch, 3, 1000) == 3


def test_two_more_that_mostly_wait_join_while_cores_are_idle(monkeypatch):
    first = [*range(len(os.sched_getaffinity(0)) + 2)]
    assert numbers_started(monkeypatch, 0, 1000, {96, 98, 99}) == [*first, 96, 98]
    assert numbers_started(monkeypatch, 0, 2, {96, 98, 99}) == [*first, 96]
    assert numbers_started(monkeypatch, 3, 1000, {96, 98, 99}) == [0, 1, 2]


def test_cores_are_idle_if_half_of_one_is(monkeypatch):
    times = iter([0, 1, 2.5, 3, 5, 5])
    monkeypatch.setattr(lanes.time, "monotonic", lambda: next(times))
    idle = iter([10, 12, 12, 12.9, 12.9])
    cores = lanes.IdleCores(lambda: next(idle))  # from 0 s on: 10 s
    assert [cores.are_there() for _ in range(3)] == [False, True, False]


def test_what_is_alone_has_nothing_beside_it(tree):
    for name in "abc":
        write_python(tree, name, NOT_BESIDE.replace("ROOM", f"{tree}/room").replace("ALONE", "alone"))
    assert runner(tree, "--jobs", "3") == (0, "9 passed, 0 failed, 0 skipped")


def test_a_failures_output_is_in_one_piece(tree):
    loud = "def test_a():\n    for i in range(200): print('NAME', i, flush=True); time.sleep(0.001)\n    assert 0\n"
    for name in "abcd":
        write_python(tree, name, loud.replace("NAME", name))
    code, lines = said(tree, "--jobs", "4")
    words = [line.split()[0] for line in lines if line[:2] in ("a ", "b ", "c ", "d ")]
    assert code == 1 and len(words) == 800
    assert sum(here != before for here, before in zip(words[1:], words)) == 3


# ---- What takes too long ----


def named(lines, *parts):
    assert any(all(part in line for part in parts) for line in lines), "\n".join(lines)


def test_a_hanging_program_is_named_with_its_test(tree):
    write(tree, "one", "good", "hangs", "good_again")
    code, lines = said(tree, "--limit", "1")
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"
    named(lines, "FAILED  ext/one_test.c: hangs: ran longer than 1 s of an idle machine")
    named(lines, "build/tests/ext/one_test")
    if shutil.which("gdb"):
        named(lines, "#", " hangs (")


def test_a_hanging_python_test_is_named_and_the_rest_runs(tree):
    write_python(tree, "one", "def test_a(): time.sleep(1000)\ndef test_b(): pass\n")
    code, lines = said(tree, "--limit", "1")
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"
    named(lines, "FAILED  ext/one_test.py: test_a: ", "Timeout")
    named(lines, "> ", "time.sleep(1000)")


def alive(word):
    def has_it(folder):
        try:
            return word in (folder / "cmdline").read_text().split("\0")
        except OSError:  # it has ended since the folder was listed
            return False

    return [folder for folder in Path("/proc").glob("[0-9]*") if has_it(folder)]


def test_nothing_outlives_its_test(tree):
    """Neither when the test ends by itself nor when it has to be ended, even in a session of its own."""
    child = "import subprocess\ndef test_a():\n    subprocess.Popen(['sleep', 'NUMBER'], start_new_session=True)\n"
    write_python(tree, "one", child.replace("NUMBER", "86411.5"))
    write_python(tree, "two", child.replace("NUMBER", "86411.5") + "    time.sleep(1000)\n")
    assert runner(tree, "--limit", "2") == (1, "1 passed, 1 failed, 0 skipped")
    assert patience.until(lambda: not alive("86411.5"), 10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_cut_short_lists_what_failed(tree, number):
    write_python(tree, "one", "def test_bad(): assert 0\n" + "#" * 1000)  # long files come first
    write_python(tree, "two", f"def test_a():\n    pathlib.Path('{tree}/here').touch()\n    time.sleep(1000)\n")
    write_python(tree, "three", "@pytest.mark.ALONE('it comes last')\ndef test_a(): pass\n".replace("ALONE", "alone"))
    process = start(tree, "--jobs", "1")
    assert patience.until((tree / "here").exists, 60)
    process.send_signal(number)
    lines = process.communicate()[0].splitlines()
    assert process.returncode == 1
    named(lines, "FAILED  ext/one_test.py: test_bad: assert 0")
    named(lines, f"FAILED  ext/two_test.py: test_a: ended by {number.name} while it ran")
    named(lines, "NOT RUN ext/three_test.py (alone)")
    named(lines, "FAILED  the run was cut short: ended by", number.name)
    assert lines[-1] == "0 passed, 3 failed, 0 skipped"


def test_a_run_has_an_end(tree):
    write(tree, "one", "bad", "hangs")
    code, lines = said(tree, "--minutes", "0.05")
    assert (code, lines[-1]) == (1, "0 passed, 3 failed, 0 skipped")
    named(lines, "FAILED  ext/one_test.c: bad")
    named(lines, "FAILED  ext/one_test.c: hangs: its 0.05 minutes are over while it ran")


# ---- Both parts ----

MAKEFILE = """
test:
	@SHORT
test-long:
	@LONG
"""
SHORT = "mkdir -p build; echo 3 passed, {0} failed, 1 skipped >build/tests.short; exit {0}"
LONG = "echo long; echo 20 passed, 0 failed, 2 skipped >build/tests.long"


def ci(tree, short, long):
    (tree / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tree / ".ci")
    (tree / "Makefile").write_text(MAKEFILE.replace("SHORT", short).replace("LONG", long))
    return subprocess.Popen([tree / ".ci/run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("short, long, code, line", [
    (SHORT.format(0), LONG, 0, "23 passed, 0 failed, 3 skipped"),
    (SHORT.format(1), LONG, 1, "23 passed, 1 failed, 3 skipped"),
    (SHORT.format(0), "exit 1", 1, "3 passed, 1 failed, 1 skipped"),
])
def test_the_last_line_is_the_sum_over_both_parts(tree, short, long, code, line):
    process = ci(tree, short, long)
    assert process.communicate()[0].splitlines()[-1] == line and process.returncode == code


def test_the_failures_of_the_short_part_stand_behind_the_long_part(tree):
    write(tree, "one", "good", "bad")
    process = ci(tree, f"KOLO_BUILD={tree}/build {sys.executable} {tree}/tests/run --part short", LONG)
    lines = process.communicate()[0].splitlines()
    assert lines[lines.index("long"):] == ["long", "FAILED  ext/one_test.c: bad", "", "21 passed, 1 failed, 2 skipped"]
    assert process.returncode == 1


def test_a_signal_ends_both_parts(tree):
    process = ci(tree, SHORT.format(0), f"trap 'echo heard; exit 1' TERM; touch {tree}/here; while :; do sleep 0.1; done")
    assert patience.until((tree / "here").exists, 60)
    process.terminate()
    lines = process.communicate()[0].splitlines()
    assert "heard" in lines and lines[-1] == "3 passed, 1 failed, 1 skipped" and process.returncode == 1
