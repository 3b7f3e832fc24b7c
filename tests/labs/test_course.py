"""The course's headers: predictions, checks, hints, quizzes, and the learner's progress, in cells of a notebook."""
import json
import os
from pathlib import Path

import pytest
from kernel.driver import Kernel

ROOT = Path(__file__).resolve().parents[2]

QUIZ = """
static const course_question five[5] = {
    {"One?", {"yes", "no"}, 'a', "Because."}, {"Two?", {"yes", "no", "perhaps"}, 'c', "It depends."},
    {"Three?", {"x", "y", "z", "w"}, 'd', "W."}, {"Four?", {"0", "1"}, 'b', "One."}, {"Five?", {"0", "1"}, 'a', "Nil."}};
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("course")


@pytest.fixture(scope="module")
def progress(folder):
    return folder / "kept" / "here" / "progress.json"


@pytest.fixture(scope="module")
def kernel(folder, progress):
    """In a folder beside the headers, as a lesson's notebook is."""
    (folder / "course").symlink_to(ROOT / "labs" / "course")
    (folder / "solutions").mkdir()
    before = os.getcwd()
    os.chdir(folder)
    kernel = Kernel(KOLO_PROGRESS=str(progress), KOLO_LAB_QUICK="1", KOLO_CPU_DEVICES="4", KOLO_THREADS="1")
    os.chdir(before)
    assert kernel.run('#include "course/course.h"' + QUIZ).error == ""
    yield kernel
    kernel.close()


@pytest.fixture
def out(kernel):
    def run(code):
        outcome = kernel.run(code)
        assert outcome.error == outcome.stderr == ""
        return outcome.stdout

    return run


def test_a_lesson_begins_with_what_computes_here(out, folder):
    said = out('course_begin("2.1");')
    assert said.startswith("Lesson 2.1. 4 devices: cpu:0, virtual, 1 of 4")
    assert "1 core: at most 1 of the devices compute" in said
    assert "Quick form" in said and (folder / "run").is_dir()
    assert out('printf("%d %d", course_quick(), course_pick(8, 3));') == "1 3"


@pytest.mark.parametrize("guess, result, said", [
    ("110", "100", "rate: your guess 110 images/s, result 100 images/s: within 20 %."),
    ("50", "100", "too low, by a factor of 2."), ("1500", "1000", "too high, by a factor of 1.5."),
    ("2048", "1600", "too high, by a factor of 1.3."),
    ("0", "100", "rate: type your guess in the cell above"), ("NAN", "100", "type your guess"),
    ("5", "NAN", "rate: there is no result yet"), ("-1", "2", "too low."), ("1", "0", "too high."),
    ("1.30", "1.0", "too high, by a factor of 1.3."), ("97", "98000", "too low, by a factor of 1010."),
    ("486914", "486914", "486914 images/s, result 486914 images/s: right.")])  # fmt: skip
def test_a_prediction_is_compared(out, guess, result, said):
    assert said in out(f'course_compare("rate", {guess}, {result}, 0.2, "images/s");')


def test_a_near_miss_is_told_in_percent(out):
    assert out('course_compare("messages", 2048, 2046, 0, "");').endswith("2046: too high, by 0.098 %.\n")


@pytest.mark.parametrize("guess, result, none, said", [
    ("5", "5", "0", "your guess 5, result 5: right."), ("9", "137", "NAN", "your guess 9, result 137: another one."),
    ("0", "137", "NAN", "your guess 0, result 137: another one."), ("0", "3", "0", "type your guess"),
    ("NAN", "3", "NAN", "type your guess"), ("3", "NAN", "0", "there is no result yet")])  # fmt: skip
def test_a_choice_is_right_or_another_one(out, guess, result, none, said):
    """The numbers name things, so that no factor is between them."""
    shown = out(f'course_choice("code", {guess}, {result}, {none});')
    assert shown.startswith("code: ") and said in shown and "factor" not in shown


def test_a_result_is_not_shown_before_it_is_predicted(out):
    assert "4711" not in out('course_compare("rate", 0, 4711, 0.2, "images/s");')


def test_statistics(out):
    assert out("""double x[] = {4, 1, 9, 2};
        printf("%g %g %g %.4f", course_median(x, 4), course_median(x, 3), course_mean(x, 4), course_deviation(x, 4));
    """) == "3 4 4 3.5590"
    assert out('printf("%g %g %g", course_median(x, 0), course_mean(x, 0), course_deviation(x, 1));') == "nan nan nan"


def test_a_history_is_read(out, kernel, folder):
    (folder / "h.json").write_text('{"ranks": 1, "devices": 1, "epochs": [{"loss": 0.5, "seconds": 1}, {"loss": 0.25}]}')
    assert out('double e[9]; int n = course_epochs_read("h.json", "loss", e, 9); printf("%d %g", n, e[1]);') == "2 0.25"
    assert out('printf("%d", course_epochs_read("h.json", "loss", e, 1));') == "1"
    outcome = kernel.run('course_epochs_read("nowhere.json", "loss", e, 9)')
    assert outcome.value == "-1" and "nowhere.json" in outcome.stderr


def test_a_command_is_run(out):
    assert out('course_run("echo %d", 7);') == "7\n"
    assert out('course_run("exit 3");') == "This command ended with exit code 3: exit 3\n"
    assert "ended with exit code 137" in out('course_run("kill -9 $$");')


def test_hints_become_stronger(out):
    out('course_hints("9.a", "Look.", "Look there.", "Add them."); course_hints("9.b", "b1", "b2", "b3");')
    long = "Wörter " * 40
    out(f'course_hints("9.c", "{long.strip()}", "c2", "c3");')
    lines = out('course_hint("9.c");').splitlines()
    assert max(map(len, lines)) == 90 and " ".join(lines[1:-1]) == long.strip()  # 13 words of 6 letters in a line
    assert out('course_hint("9.a");') == "Hint 1 of 3 for 9.a:\nLook.\nRun this cell again for a stronger hint.\n"
    assert "Look there." in out('course_hint("9.a");')
    out('course_hints("9.a", "Look.", "Look there.", "Add them.");')
    assert out('course_hint("9.a");') == out('course_hint("9.a");') == "Hint 3 of 3 for 9.a:\nAdd them.\n"
    assert "b1" in out('course_hint("9.b");')
    assert "Run the first cell" in out('course_hint("9.z");')


def test_a_long_text_breaks_between_words(out):
    """JupyterLab would break it within one."""
    text = " ".join(f"word{i}" for i in range(60))
    out(f'course_hints("9.e", "{text}", "b", "c"); course_hints("9.f", "{"x" * 120}", "b", "c");')
    lines = out('course_hint("9.e");').splitlines()[1:-1]
    assert " ".join(lines) == text and max(map(len, lines)) <= 96 and len(lines) == 5
    assert out('course_hint("9.f");').splitlines()[1] == "x" * 120


def test_a_check_that_fails_records_nothing(out, progress):
    progress.unlink(missing_ok=True)
    said = out('course_check("1.a", false, "Expected %d, got %d: the sum is missing.", 6, 3);')
    assert said == "Exercise 1.a: not yet. Expected 6, got 3: the sum is missing.\n"
    assert not progress.exists()


def test_a_pass_is_kept(out, progress):
    progress.unlink(missing_ok=True)
    assert out('course_check("1.a", true, "no");') == "Exercise 1.a: passed.\n"
    assert out('course_check("2.1.b", true, "no");') == "Exercise 2.1.b: passed.\n"
    assert json.loads(progress.read_text()) == {"passed": {"1.a": True, "2.1.b": True}}
    assert [path.name for path in progress.parent.iterdir()] == ["progress.json"]
    lines = {line.split()[0]: line for line in out("course_progress();").splitlines() if line}
    assert "1 of 2   -" in lines["1"] and "1 of 2   -" in lines["2.1"] and "0 of 2   -" in lines["6"]
    assert lines["Kept"] == "Kept in the file that KOLO_PROGRESS names."


def test_a_solution_records_nothing(out, progress):
    progress.unlink(missing_ok=True)
    out('chdir("solutions");')
    out('course_check("1.a", true, "no");')
    out('chdir("..");')
    assert not progress.exists()


@pytest.mark.parametrize("text", ["[1, 2", "[]", '{"passed": 3}', ""])
def test_a_file_that_holds_something_else_is_left_alone(out, progress, text):
    progress.parent.mkdir(parents=True, exist_ok=True)
    progress.write_text(text)
    said = out('course_check("1.a", true, "no");')
    assert said.startswith("Exercise 1.a: passed.\n") and "does not hold the course's progress" in said
    assert "Move it away" in out("course_progress();") and progress.read_text() == text
    progress.unlink()


def test_a_file_that_cannot_be_written(out, folder):
    (folder / "plain").write_text("")
    out('setenv("KOLO_PROGRESS", "plain/progress.json", 1);')
    assert "Your progress is not kept: plain/progress.json cannot be written" in out('course_check("1.a", true, "no");')


def test_a_quiz(out, kernel, progress):
    out(f'setenv("KOLO_PROGRESS", "{progress}", 1);')
    progress.unlink(missing_ok=True)
    assert out('course_answers("9", "acdba");') == "Run the cell with the questions of lesson 9 first.\n"
    asked = out('course_quiz("9", five);')
    assert asked.startswith("1. One?\n   a) yes\n   b) no\n\n2. Two?") and "   d) w\n" in asked
    assert "Type five letters" in out('course_answers("9", "acd");')
    said = out('course_answers("9", "b-zba");').splitlines()
    assert said == ["1. b is wrong. Because.", "2. not answered", "3. the choices are a to d, got 'z'",
                    "4. b is right. One.", "5. a is right. Nil.", "2 of 5 right."]
    assert not progress.exists()
    assert out('course_answers("9", "AcDba");').endswith("5 of 5 right: the quiz is passed.\n")
    assert json.loads(progress.read_text()) == {"passed": {"9.quiz": True}}


def test_after_a_restart_cells_say_what_to_run(out, kernel, folder):
    out("course_ready()")
    kernel.run("%restart")
    for call in ("course_progress();", 'course_hint("1.a");', 'course_quiz("9", five);', 'course_answers("9", "abc");'):
        assert out(call) == "Run the first cell of this notebook, then this one again.\n"
    out('#include "course/course.h"' + QUIZ)
    assert out('course_quiz("9", five);').startswith("1. One?")


def test_the_file_is_in_the_users_data_folder(out, folder):
    out(f'unsetenv("KOLO_PROGRESS"); setenv("HOME", "{folder}/home", 1); unsetenv("XDG_DATA_HOME");')
    out('course_check("1.b", true, "no");')
    assert (folder / "home/.local/share/kolo/progress.json").exists()
    assert "Kept in ~/.local/share/kolo/progress.json." in out("course_progress();")
    out(f'setenv("XDG_DATA_HOME", "{folder}/data", 1); course_check("1.b", true, "no");')
    assert (folder / "data/kolo/progress.json").exists()


def test_a_board_hears_only_of_learners_who_joined(out, folder):
    program = folder / "bin/kolo-board"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/told\n')
    program.chmod(0o755)
    out(f'setenv("PATH", "{program.parent}:/usr/bin:/bin", 1); setenv("KOLO_BOARD_FILE", "{folder}/board.json", 1);')
    out('course_check("1.a", false, "no");')
    assert not (folder / "told").exists()
    (folder / "board.json").write_text("{}")
    out('course_check("1.a", false, "no"); course_hints("1.a", "x", "y", "z"); course_hint("1.a");')
    out('course_check("1.a", true, "no"); course_quiz("9", five); course_answers("9", "-----");')
    assert (folder / "told").read_text().splitlines() == [
        "send 1.a tried 0", "send 1.a hint 1", "send 1.a passed 0", "send 9.quiz tried 0"]
