"""Lesson 1's exercises: right answers pass, and each typical wrong answer gets a message that names the mistake."""
import pytest
from kernel.driver import ROOT, Kernel

PIPELINE = "double pipeline_seconds(const double *stage, int stages, int pieces)\n{{\n" \
    "double sum = 0, slowest = 0, p = pieces;\n" \
    "for (int i = 0; i < stages; i++) sum += stage[i], slowest = fmax(slowest, stage[i]);\n{body}\n}}\n" \
    "lesson_1_check_pipeline(pipeline_seconds);"
AVERAGE = "%%ranks\nvoid average_gradient(double *gradient, int count, int samples)\n{{\n{body}\n}}\n" \
    "lesson_1_check_average(average_gradient);"
SUM = "kolo_allreduce(gradient, count);"
TOTAL = "double total = samples; kolo_allreduce(&total, 1);"


def each(change):
    return f"for (int i = 0; i < count; i++) gradient[i] {change};"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "course").symlink_to(ROOT / "labs/course")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        kernel = Kernel(KOLO_LAB_QUICK="1")
    for cell in ['#include "course/course.h"\n#include "course/lesson_1.h"\nlesson_1_begin();', "%ranks 3",
                 "%%ranks\nkolo_init(NULL, NULL);"]:
        assert kernel.run(cell).status == "ok"
    yield kernel
    kernel.close()


@pytest.mark.parametrize("body, said", [
    ("return (sum + (p - 1) * slowest) / p;", "passed."), ("return 0;", "not written yet"),
    ("return sum;", "without a pipeline"), ("return slowest;", "slowest device alone"),
    ("return sum / p;", "first piece alone"), ("return sum + (p - 1) * slowest;", "only a part of the batch"),
    ("return (sum + p * slowest) / p;", "one piece too many"),
    ("return (sum + (p - 1) * stage[stages - 1]) / p;", "not of the last one"),
    ("return (sum + (p - 1) * stage[0]) / p;", "not of the first one"),
    ("return (p + stages - 1) / p * sum / stages;", "only if all devices take the same time"),
    ("return (p + stages - 1) / p * slowest;", "3 devices that need 0.3, 1, 0.5 s, 4 pieces: expected 1.2 s, got 1.5 s: not every device"),
    ("return (p + stages - 1) / p * sum;", "already contains every device"),
    ("return (p + stages - 1) * slowest;", "only a part of the batch"),
    ("float s = slowest, all = sum; return (all + (pieces - 1) * s) / pieces;", "passed."),
    ("return 42;", "expected 2 s, got 42 s: follow one piece"), ("return NAN;", "got nan s")])
def test_a_pipelined_step(kernel, body, said):
    outcome = kernel.run(PIPELINE.format(body=body))
    assert outcome.stdout.startswith("Exercise 1.a: ") and said in outcome.stdout, outcome.stdout + outcome.error


@pytest.mark.parametrize("body, said", [
    (TOTAL + SUM + each("/= total"), "passed."), ("float g[8], n = samples; " + each("+= 0, g[i] = gradient[i]") + "kolo_allreduce(g, count); kolo_allreduce(&n, 1);"
     + each("= g[i] / n"), "passed."), ("", "did not change"), (each("/= samples"), "exchanged nothing"),
    (SUM, "number of samples is missing"), (each("/= samples") + SUM, "sum of the ranks' means, not their mean"),
    (each("/= samples") + SUM + each("/= kolo_size()"), "a rank with more samples must count more"),
    (SUM + each("/= kolo_size()"), "divided by the number of ranks"),
    (SUM + each("/= samples"), "so the ranks disagree"),
    (SUM + each("/= kolo_size() * (kolo_size() + 1) / 2.0"), "Use `samples`"), (each("= 1"), "calculate with two ranks")])
def test_the_gradient_of_a_shared_batch(kernel, body, said):
    outcome = kernel.run(AVERAGE.format(body=body))
    assert "Exercise 1.b: " in outcome.stdout and said in outcome.stdout, outcome.stdout + outcome.stderr + outcome.error
    assert outcome.stdout.count("Exercise") == 1, "one rank prints"


def test_a_collective_that_not_all_ranks_call_is_named(kernel):
    outcome = kernel.run(AVERAGE.format(body="if (kolo_rank() == 0) " + SUM))
    assert "all ranks must make the same call" in outcome.stderr + outcome.error + outcome.stdout


def test_hints_do_not_contain_the_solution(kernel):
    for exercise, secrets in (("1.a", ("pieces - 1", "/ pieces")), ("1.b", ("/= ", "kolo_allreduce(&"))):
        for _ in range(3):
            said = kernel.run(f'course_hint("{exercise}");').stdout
            assert "Hint" in said and not any(secret in said for secret in secrets)


def test_the_quiz_is_passed_with_its_answers(kernel):
    kernel.run('course_quiz("1", lesson_1_quiz);')
    assert kernel.run('course_answers("1", "bbcad");').stdout.endswith("5 of 5 right: the quiz is passed.\n")


def test_a_run_that_fails_says_why(kernel):
    outcome = kernel.run('isnan(lesson_1_run("cnn --batch-size 0"))')
    assert "ended with exit code 2" in outcome.stdout and "batch-size" in outcome.stdout
