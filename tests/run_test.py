"""The runner itself: whatever a test program does, its failure shows in the last line and the exit code."""
import shutil
import sys

import pytest

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
static void good(void **state) { (void)state; printf("50 %% of a line"); }
static void bad(void **state) { (void)state; assert_int_equal(1, 2); }
static void good_again(void **state) { (void)state; }
static void skipped(void **state) { (void)state; skip(); }
static void leaves(void **state) { (void)state; exit(0); }
static void killed(void **state) { (void)state; raise(SIGKILL); }
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
    for name in ("run", "pytest.ini"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    return tmp_path


def write(tree, name, *tests):
    source = tree / f"tests/ext/{name}_test.c"
    source.write_text(PROGRAM.replace("TESTS", ", ".join(f"cmocka_unit_test({test})" for test in tests)))
    built = run(["gcc", "-w", source, "-o", tree / f"build/tests/ext/{name}_test", "-lcmocka"])
    assert built.returncode == 0, built.stderr


def runner(tree, *paths):
    done = run([sys.executable, tree / "tests/run", *paths], env={"PATH": "/usr/bin:/bin"})
    return done.returncode, (done.stdout.splitlines() or [""])[-1]


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


@pytest.mark.parametrize("bad, line", [("bad", "2 passed, 1 failed, 0 skipped"),
                                       ("leaves", "1 passed, 1 failed, 0 skipped"),
                                       ("killed", "1 passed, 1 failed, 0 skipped")])
def test_c_failures(tree, bad, line):
    write(tree, "one", "good", bad, "good_again")
    assert runner(tree) == (1, line)


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
