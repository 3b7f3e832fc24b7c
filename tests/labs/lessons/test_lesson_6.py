"""Lesson 6's exercises: right answers pass, and wrong ones get the sentence that names the mistake."""
import os

import pytest
from kernel.driver import Kernel

from labs.notebooks import ROOT, read

LESSON, SOLUTION = "labs/6.Asynchronous-Training.ipynb", "labs/solutions/6.Asynchronous-Training.ipynb"

ELASTIC = """void elastic(float *x, float *c, int count, float alpha)
{{ for (int i = 0; i < count; i++) {{ float d = alpha * (x[i] - c[i]); {} }} }}
lesson_6_check_elastic(elastic);"""
RIGHT = "x[i] -= d; c[i] += d;"

ELASTICS = {
    "the skeleton": ("", "is the skeleton"),
    "the worker's sign": ("x[i] += d; c[i] += d;", "The worker moved away from the centre: its sign is wrong. dist-keras"),
    "the centre's sign": ("x[i] -= d; c[i] -= d;", "The centre moved away from the worker: its sign is wrong"),
    "the new worker": ("x[i] -= d; c[i] += alpha * (x[i] - c[i]);", "The centre used the worker's new weights"),
    "the new centre": ("c[i] += d; x[i] -= alpha * (x[i] - c[i]);", "The worker used the centre's new weights"),
    "the worker alone": ("x[i] -= d;", "The worker moved, the centre did not"),
    "the centre alone": ("c[i] += d;", "The centre moved, the worker did not"),
    "DOWNPOUR": ("c[i] += d; x[i] = c[i];", "that is averaging, or DOWNPOUR"),
    "no alpha": ("x[i] -= d / alpha; c[i] += d / alpha;", "alpha is missing"),
    "the first weight": ("if (i == 0) { x[i] -= d; c[i] += d; }", "Every one of the `count` weights moves"),
    "one direction": ("if (d > 0) { x[i] -= d; c[i] += d; }", "where the worker is below the centre"),
}

SERVE = """%%ranks
void serve(float *centre, int count, const int *order, int commits)
{{
    float *delta = calloc(count, sizeof *delta);
    int pulled[8] = {{0}};
    for (int i = 0; i < commits; i++) {{
        int sender = order[i], s = i - pulled[sender];
        kolo_receive(delta, count, .from = sender);
        {}
        kolo_send(centre, count, .to = sender);
    }}
    free(delta);
}}
lesson_6_check_server(serve);"""
ADD, NOTE = "for (int k = 0; k < count; k++) centre[k] += delta[k] / (s + 1.f);", "pulled[sender] = i + 1;"

SERVERS = {
    "the skeleton": ("", "the loop is the skeleton"),
    "DOWNPOUR": (ADD.replace(" / (s + 1.f)", ""), "that is DOWNPOUR"),
    "never noted": (ADD, "The staleness only grows"),
    "its own commit": (ADD + "pulled[sender] = i;", "A worker's own last commit is counted as another's"),
    "one too many": (ADD.replace("s + 1.f", "s + 2.f") + NOTE, "a fresh commit has a staleness of 0, and the weight 1"),
    "no one": (ADD.replace("s + 1.f", "(float)s") + NOTE, "nothing can be divided by 0"),
    "whole numbers": (ADD.replace("delta[k] / (s + 1.f)", "delta[k] * (1 / (s + 1))") + NOTE, "Divide by a float"),
    "more weight": (ADD.replace("/", "*") + NOTE, "Stale commits have more weight"),
    "subtracted": (ADD.replace("+=", "-=") + NOTE, "The commits are subtracted"),
    "for all ranks": (ADD + "for (int r = 0; r < 8; r++) pulled[r] = i + 1;", "Is the staleness kept for each rank?"),
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """In a folder beside the headers, as the notebook is."""
    folder, before = tmp_path_factory.mktemp("lesson_6"), os.getcwd()
    (folder / "course").symlink_to(ROOT / "labs/course")
    os.chdir(folder)
    kernel = Kernel(KOLO_PROGRESS=str(folder / "progress.json"), KOLO_STALL_LIMIT="20", KOLO_THREADS="1")
    os.chdir(before)
    header = '#include "course/course.h"\n#include "course/lesson_6.h"\n'
    for code in header + 'printf("here");', "%ranks 3", "%%ranks\n" + header + "kolo_init(NULL, NULL);":
        assert kernel.run(code).error == ""
    yield kernel
    kernel.close()


def check_elastic(kernel, code):
    outcome = kernel.run(ELASTIC.format(code))
    assert outcome.error == "", outcome.error
    return outcome.stdout


@pytest.mark.parametrize("name", ELASTICS)
def test_a_wrong_elastic_update(kernel, name):
    code, said = ELASTICS[name]
    out = check_elastic(kernel, code)
    assert out.startswith("Exercise 6.a: not yet.") and said in out, out


def test_a_right_elastic_update(kernel):
    assert check_elastic(kernel, RIGHT) == "Exercise 6.a: passed.\n"
    mixed = "float old = x[i]; x[i] = (1 - alpha) * old + alpha * c[i]; c[i] = (1 - alpha) * c[i] + alpha * old; (void)d;"
    assert check_elastic(kernel, mixed) == "Exercise 6.a: passed.\n", "weighted means"
    assert check_elastic(kernel, "c[i] += d; x[i] += -d;") == "Exercise 6.a: passed.\n", "the centre first"


def test_a_comparison_without_a_guess_hides_what_came(kernel):
    assert "3" not in kernel.run('lesson_6_compare("Workers:", 0, 3);').stdout
    assert kernel.run('lesson_6_compare("Workers:", 2, 3);').stdout == "Workers: 3. Your guess of 2 is too low.\n"


def test_a_trainer_without_a_result_is_not_ranked(kernel):
    trainers = ("lesson_6_trainer five[5] = {{.name = \"p\"}, {.name = \"q\"}, {.name = \"r\", .f1 = {0.5, 0.6, NAN}},"
                "{.name = \"s\"}, {.name = \"t\"}};\n")
    said = kernel.run(trainers + "lesson_6_ranking(five);").stdout
    assert said == "The trainer r has no result: run the cell with the trainers again.\n"
    assert "here:      p ~ q ~ r ~ s ~ t" in kernel.run("five[2].f1[0] = five[2].f1[1] = five[2].f1[2] = 0;"
                                                        "lesson_6_ranking(five);").stdout


def test_a_map_without_a_window_says_so(kernel):
    said = kernel.run("lesson_6_map map; for (int r = 0; r < MAP_ROWS; r++) for (int k = 0; k < MAP_COLUMNS; k++)"
                      "map.accuracy[r][k] = k == 2 ? NAN : 0.7;\nmap_compare(&map, 15, 0.6, 4); map_compare(&map, 30, 0.6, 4);")
    assert said.stdout.splitlines() == ["This map has no accuracy with a window of 15.",
                                        "With a window of 30, no accuracy in this map is below 0.6."]


def check_server(kernel, code):
    outcome = kernel.run(SERVE.format(code))
    assert outcome.error == "", outcome.error
    return outcome.stdout


@pytest.mark.parametrize("name", SERVERS)
def test_a_wrong_server(kernel, name):
    code, said = SERVERS[name]
    out = check_server(kernel, code)
    assert "[0] Exercise 6.b: not yet." in out and said in out, out


def test_a_right_server(kernel):
    out = check_server(kernel, ADD + NOTE)
    assert out.endswith("[0] Exercise 6.b: passed.\n") and "commit 4 of rank 1: expected the weight 0.2500, got 0.2500" in out


def test_a_path_through_the_bowl(kernel):
    """How many workers drive the centre out: with a window of 5 and of 1, and with elastic averaging none up to 16."""
    rule = next(cell.source for cell in read(LESSON).code if "void bowl_downpour" in cell.source).split("static bowl")[0]
    outcome = kernel.run(rule + 'printf("%d %d %d", bowl_limit(bowl_downpour, 5), bowl_limit(bowl_downpour, 1),'
                         "bowl_limit(bowl_elastic, 5));")
    assert outcome.stdout == "3 9 0", outcome.error


def test_the_notebook_has_the_answers_blank_and_the_solution_has_them():
    lesson, solution = ("\n".join(cell.source for cell in read(name).code) for name in (LESSON, SOLUTION))
    assert lesson.count("/* your lines") == 2 and "your lines" not in solution


def test_no_hint_prints_the_solution(kernel):
    kernel.run("lesson_6_begin();")
    said = "".join(kernel.run(f'course_hint("6.{letter}");').stdout for letter in "ab" for _ in range(3))
    assert said.count("Hint") == 6
    for line in "-= d", "+= d", "i + 1;", "staleness + 1", "- pulled[":
        assert line not in said


def test_the_quiz_takes_its_answers(kernel):
    said = kernel.run('course_quiz("6", lesson_6_questions); course_answers("6", "bcabb");').stdout
    assert said.endswith("5 of 5 right: the quiz is passed.\n")
