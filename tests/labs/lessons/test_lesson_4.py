"""Lesson 4: its exercises take right answers and name the mistake behind typical wrong ones; its verdicts about noise
are those of the numbers. One kernel runs them all."""
import os
import re
import xml.etree.ElementTree as xml

import pytest
from kernel.driver import Kernel

from labs.notebooks import ROOT, read

LESSON, SOLUTION = "labs/4.Convergence.ipynb", "labs/solutions/4.Convergence.ipynb"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """In a folder beside the headers, as the lesson's notebook is."""
    folder, before = tmp_path_factory.mktemp("lesson_4"), os.getcwd()
    (folder / "course").symlink_to(ROOT / "labs/course")
    os.chdir(folder)
    kernel = Kernel(KOLO_PROGRESS=str(folder / "progress.json"), KOLO_LAB_QUICK="1", KOLO_THREADS="1")
    os.chdir(before)
    headers = "".join(f'#include "course/{name}.h"\n' for name in ("course", "lesson_4", "lesson_4_plots"))
    begun = kernel.run(headers + "lesson_4_begin();")
    assert begun.error == "" and "Lesson 4" in begun.stdout
    yield kernel
    kernel.close()


@pytest.fixture
def out(kernel):
    def run(code):
        outcome = kernel.run(code)
        assert outcome.error == "", outcome.error
        return outcome.stdout

    return run


def solved(text):
    """The code cell of the solution that has this text."""
    return next(cell.source.replace("../course/", "course/") for cell in read(SOLUTION).code if text in cell.source)


# ---------------------------------------------------------------- 4.a

DECLARED = "double rate = self->number[0], over = self->number[1], n = self->number[2];"
SET = "kolo_set_learning_rate(self->model, rate);"
WARMUPS = [
    ("skeleton", "", "sets none"),
    ("from 0", "if (epoch < over) rate *= epoch / over;", "The first rate is 0"),
    ("int n", "int k = (int)n; if (epoch < over) rate *= 1 / k + (1 - 1 / k) * epoch / over;", "1 / n of two ints is 0"),
    ("devices forgotten", "if (epoch < over) rate *= (epoch + 1) / over;", "number of devices does not count"),
    ("int division", "if (epoch < over) rate *= 1 / n + (1 - 1 / n) * (epoch / (int)over);", "Do you divide two ints?"),
    ("never ends", "rate *= 1 / n + (1 - 1 / n) * epoch / over;", "keeps rising"),
    ("an epoch ahead", "if (epoch < over) rate *= 1 / n + (1 - 1 / n) * (epoch + 1) / over;", "one epoch ahead"),
    ("by a factor", "if (epoch < over) rate = rate / n * pow(n, epoch / over);", "by the same factor"),
    ("no warm-up", "if (0) rate = 0;", "there is no warm-up"),
    ("stops early", "if (epoch >= over) return; rate *= 1 / n + (1 - 1 / n) * epoch / over;", "stays at that of its last epoch"),
    ("twice divided", "if (epoch < over) rate *= (1 / n + (1 - 1 / n) * epoch / over) / n;", "divided by the devices twice"),
    ("a parabola", "if (epoch < over) rate *= 1 / n + (1 - 1 / n) * epoch * epoch / over / over;", "on a straight line"),
    ("from 0 without end", "rate *= epoch / over;", "Epoch 0 has another rate"),
    ("too steep", "if (epoch < over) rate = rate / n + rate * epoch / over; else rate *= 0.9;", "reaches number[0] at epoch"),
    ("a fall", "rate = epoch < over ? rate / n + (rate - rate / n) * epoch / over : rate / 2;", "The warm-up is right."),
]  # fmt: skip


@pytest.mark.parametrize("body, said", [row[1:] for row in WARMUPS], ids=[row[0] for row in WARMUPS])
def test_a_wrong_warmup_is_explained(out, body, said):
    right = solved("void raise_rate")
    begin, end = right.index("    double rate"), right.index("}\nkolo_callback")
    said_now = out(right[:begin] + (f"{DECLARED} {body} {SET}" if body else "") + right[end:] + "\nlesson_4_check_warmup(warmup_over);")
    assert "Exercise 4.a: not yet." in said_now and said in said_now


@pytest.mark.parametrize("body", ["rate = rate / n + fmin(epoch / over, 1) * (rate - rate / n);",
                                  "if (epoch > over) return; rate = rate * (over - epoch + n * epoch) / (n * over);",
                                  "if (epoch < over) rate = rate / n * (1 + (n - 1) * epoch / over);"])
def test_other_right_warmups_pass(out, body):
    right = solved("void raise_rate")
    begin, end = right.index("    double rate"), right.index("}\nkolo_callback")
    assert "Exercise 4.a: passed." in out(right[:begin] + f"{DECLARED} {body} {SET}" + right[end:] + "\nlesson_4_check_warmup(warmup_over);")


def test_the_warmup_passes(out):
    assert "Exercise 4.a: passed." in out(solved("void raise_rate") + "\nlesson_4_check_warmup(warmup_over);")


# ---------------------------------------------------------------- 4.b

PROGRAM = solved("double noise_scale")
MEAN_GRADIENT = "kolo_allreduce(mean, count, .op = KOLO_REDUCE_MEAN);"
MEAN_SQUARE = "kolo_allreduce(&of_small, 1, .op = KOLO_REDUCE_MEAN);"
RETURN = "return noise / (of_big - noise / big);"
SCALES = [
    ("skeleton", [(RETURN, "return 0;")], "returns nothing yet"),
    ("sum of gradients", [(MEAN_GRADIENT, "kolo_allreduce(mean, count);")], "MEAN over the ranks; yours is the sum"),
    ("sum of squares", [(MEAN_SQUARE, "kolo_allreduce(&of_small, 1);")], "small batch's |g|^2 is the MEAN"),
    ("own square", [(MEAN_SQUARE, "")], "ranks return different numbers"),
    ("own gradient", [(MEAN_GRADIENT, "")], "ranks return different numbers"),
    ("in ranks", [("b = images,", "b = 1,")], "count in images"),
    ("upside down", [(RETURN, "return (of_big - noise / big) / noise;")], "upside down"),
    ("noise alone", [(RETURN, "return noise;")], "divide it by |G|^2"),
    ("signal alone", [(RETURN, "return of_big - noise / big;")], "it is the denominator"),
    ("biased", [(RETURN, "return noise / of_big;")], "still has noise in it"),
    ("exchanged", [("(of_small - of_big)", "(of_big - of_small)"), (RETURN, "return noise / (of_small - noise / big);")],
     "two squares are exchanged"),
    ("lengths", [(RETURN, "double s = sqrt(of_small), t = sqrt(of_big), v = (s - t) / (1 / b - 1 / big); return v / (t - v / big);")],
     "have to be squared"),
    ("NaN", [(RETURN, "return NAN;")], "returns NaN"),
    ("elsewhere", [(RETURN, "return 77;")], "Write down"),
    ("one rank", [("%%run -np 4", "%%run")], "ran as one rank"),
]  # fmt: skip


@pytest.mark.parametrize("changes, said", [row[1:] for row in SCALES], ids=[row[0] for row in SCALES])
def test_a_wrong_noise_scale_is_explained(out, changes, said):
    program = PROGRAM
    for old, new in changes:
        assert old in program
        program = program.replace(old, new)
    out(program)
    checked = out("lesson_4_check_noise();")
    assert "Exercise 4.b: not yet." in checked and said in checked


RIGHT_SCALES = {
    "by the signal": [(RETURN, "double g = (big * of_big - b * of_small) / (big - b); return (of_small - g) * b / g;")],
    "sums, then divided": [(MEAN_GRADIENT, "kolo_allreduce(mean, count); for (int64_t i = 0; i < count; i++) mean[i] /= kolo_size();"),
                           (MEAN_SQUARE, "kolo_allreduce(&of_small, 1); of_small /= kolo_size();")],
}  # fmt: skip


@pytest.mark.parametrize("changes", RIGHT_SCALES.values(), ids=RIGHT_SCALES)
def test_other_right_noise_scales_pass(out, changes):
    program = PROGRAM
    for old, new in changes:
        assert old in program
        program = program.replace(old, new)
    out(program)
    assert "Exercise 4.b: passed." in out("lesson_4_check_noise();")


def test_the_noise_scale_passes(out):
    out(PROGRAM)
    assert "Exercise 4.b: passed." in out("lesson_4_check_noise();")


def test_hints_do_not_print_the_solution(out):
    hints = "".join(out(f'course_hint("4.{letter}");') for letter in "ab" for _ in range(3))
    assert "Hint 3 of 3" in hints
    for solution in ("kolo_allreduce(", "kolo_set_learning_rate(", "1 / n", "1 / b - 1 / big"):
        assert solution not in hints


def test_the_quiz(out):
    assert "1. Eight devices" in out('course_quiz("4", lesson_4_questions);')
    assert "5 of 5 right" in out('course_answers("4", "adcba");')


# ---------------------------------------------------------------- verdicts

RESULTS = """
lesson_4_result a = {"a", 3, .tested = {.50, .51, .52}, .trained = {.6, .6, .6}, .loss = {1, 1, 1}, .rate = {9, 9, 9}};
lesson_4_result near = {"near", 3, .tested = {.51, .52, .53}}, far = {"far", 3, .tested = {.59, .60, .61}};
const lesson_4_result *three[] = {&a, &near, &far}, *two[] = {&a, &near};
"""


def test_a_difference_within_the_noise_is_said_to_be(out):
    """Three values that differ by .01 have a deviation of .01: the error of a difference is .0082, and t is 2.78."""
    out(RESULTS)
    assert out("lesson_4_say(&near, &a);") == "tested, \"near\" against \"a\": +1.0 points, within the noise of the seeds\n"
    assert "+9.0 points, higher than the noise allows" in out("lesson_4_say(&far, &a);")
    assert "-9.0 points, lower than the noise allows" in out("lesson_4_say(&a, &far);")
    assert out("lesson_4_best(three, 3);").startswith("Best on the test images: 3, far.\n")
    assert "2, near; within the noise of the next one, a." in out("lesson_4_best(two, 2);")


def test_a_seed_that_was_stopped_has_no_result(kernel, out):
    """Its numbers, and those of the mean, would look like a measurement."""
    out(RESULTS + "kolo_epoch passed = {.steps = 7, .loss = 1, .accuracy = .6, .val_accuracy = .5, .images_per_second = 9};\n"
                  "kolo_history whole = {.epochs = 1, .epoch = &passed}, part = {.epochs = 1, .epoch = &passed, .stopped = true};\n"
                  'kolo_history begun = {.stopped = true}; lesson_4_result r[3] = {{"whole"}, {"part"}, {"none"}};')
    said = out("lesson_4_renew(&r[0], NULL); lesson_4_add(&r[0], &whole); lesson_4_add(&r[0], &whole); lesson_4_row(&r[0]);")
    shown = [line.rstrip() for line in said.split("\r")]
    assert shown[:3] == ["whole: seed 1 trains", "whole: seed 1 has trained", "whole: seed 2 has trained"]
    assert "0.500 ± 0.000" in shown[3]
    assert "0.5" not in out("lesson_4_add(&r[1], &whole); lesson_4_add(&r[1], &part); lesson_4_row(&r[1]);")
    for history in "&begun", "NULL":
        out(f'r[2] = (lesson_4_result){{"none"}}; lesson_4_add(&r[2], {history});')
        assert out("lesson_4_row(&r[2]);") == f"{'none':30} stopped before all seeds had trained: run its cell again.\n"
    assert "noise" not in out("lesson_4_say(&r[2], &a); lesson_4_say(&a, &r[1]);")
    best = out('const lesson_4_result *mixed[] = {&a, &r[2]}; printf("%g", lesson_4_best(mixed, 2));')
    assert "Best on" not in best and best.endswith("nan")
    picture = kernel.run('lesson_4_plot("a title", mixed, 2);').displays[0][1]["data"]["image/svg+xml"]
    assert "nan" not in picture and picture.count("<circle") == 6


def test_the_trend_of_the_noise_scale(out):
    said = out("""double low[] = {100, 110, 105}, high[] = {300, 320, 280}, wild[] = {50, 100, 400}, none[] = {90, -5, 80};
        lesson_4_say_trend(low, high, 3); lesson_4_say_trend(high, low, 3); lesson_4_say_trend(low, wild, 3);
        lesson_4_say_trend(low, none, 3);""").splitlines()
    assert [re.search("rises|falls|varies|no verdict", line)[0] for line in said] == ["rises", "falls", "varies", "no verdict"]


def test_the_critical_batch_is_read_from_the_curve(out):
    """Perfect scaling to 64, then 3/4, then 3/8 of the images are needed."""
    out("double sizes[] = {32, 64, 128, 256}, updates[] = {800, 400, 200 / .75, 100 / .375};")
    assert out('printf("%.0f", lesson_4_batch_at(sizes, updates, 4, 0.75));') == "128"
    assert 128 < float(out('printf("%.1f", lesson_4_batch_at(sizes, updates, 4, 0.5));')) < 256
    assert out('printf("%.0f", lesson_4_batch_at(sizes, updates, 2, 0.5));') == "64"


def test_the_plot_has_every_seed(kernel):
    kernel.run(RESULTS)
    outcome = kernel.run('lesson_4_plot("a title", three, 3);')
    assert outcome.error == ""
    root = xml.fromstring(outcome.displays[0][1]["data"]["image/svg+xml"])
    assert len(root.findall(".//{*}circle")) == 3 * 2 * 3
    assert {"a title", "near", "far"} <= {text.text for text in root.findall(".//{*}text")}


def test_the_saved_lesson_is_of_cifar_10_and_shows_the_gap():
    """An eighth of the updates, and what they cost; three seeds."""
    text = read(LESSON).printed()
    assert "data_batch_1.bin" in text
    found = re.findall(r"^(\S.*?) {2,}\d+ +[\d.]+ +([\d.]+) ± [\d.]+ +([\d.]+) ± [\d.]+ +\d+$", text, flags=re.MULTILINE)
    trained, tested = ({row[0]: float(row[i]) for row in found} for i in (1, 2))
    assert trained["one device"] > trained["eight devices"] + 0.05 and tested["one device"] > tested["eight devices"] + 0.05
    assert trained["norm, scaled, warm-up"] > trained["one device"]
    assert {"one device, batch norm", "LARS", "LAMB", "NovoGrad"} <= set(tested)


def test_after_a_restart_cells_say_what_to_run(kernel):
    """The last test of this kernel: its variables are gone."""
    kernel.run("%restart")
    for call in ("lesson_4_check_warmup(NULL);", "lesson_4_check_noise();", 'course_quiz("4", lesson_4_questions);'):
        assert kernel.run(call).stdout == "Run the first cell of this notebook, then this one again.\n"
