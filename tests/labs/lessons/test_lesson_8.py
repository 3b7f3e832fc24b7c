"""Lesson 8: what typical wrong answers are told, and that the harness scores what it has measured, and nothing else."""
import re
import threading
from pathlib import Path

import patience
import pytest

from kernel.driver import ROOT, Kernel

STOPS = [  # (the condition, a part of the message)
    ("false", "Not done yet: stop_now() never says stop"),
    ("true", "It stops after the first step"),
    ("used + 2 * step + save < limit", "It stops after the first step"),
    ("used > limit", "when the time is already over"),
    ("used + step + save > limit", "leave room for two"),
    ("used + 2 * step > limit", "The time to save is missing"),
    ("used + 2 * step + save > 60", "The limit is not always 60 seconds"),
    ("used + 3 * step + save > limit", "It stops too early"),
    ("used + 2 * step + save >= limit", "It stops too early"),
    ("limit - used < 2 * step + save", "Exercise 8.a: passed."),
    ("!(used + step + step + save <= limit)", "Exercise 8.a: passed."),
]

SUMS = "double sums[2] = {correct, count}; kolo_allreduce(sums, 2);"
MEAN = "double mean = correct / count; kolo_allreduce(&mean, 1);"
AVERAGES = [
    ("return correct / count;", "Not done yet: each rank has the accuracy of its own images"),
    (MEAN + "return mean / kolo_size();", "10 images weigh as much as 400"),
    (MEAN + "return mean;", "the sum of the ranks' accuracies"),
    (SUMS + "return sums[0] / sums[1] / kolo_size();", "once too often"),
    (SUMS + "return sums[0] / count;", "the images are not"),
    (SUMS + "return correct / sums[1];", "the right answers are not"),
    (SUMS + "return kolo_rank() == 0 ? sums[0] / sums[1] : correct / count;", "Rank 0 has the accuracy of all"),
    ("double part = correct / count, all[2] = {part * count, count}; kolo_allreduce(all, 2); return all[0] / all[1];",
     "0/0 is not a number"),
    ("if (kolo_rank() == 0) { " + SUMS + " } return correct / count;", "The ranks did not make the same calls"),
    (SUMS + "return sums[0] / sums[1];", "Exercise 8.b: passed."),
    (SUMS.replace("double", "float") + "return sums[0] / sums[1];", "Exercise 8.b: passed."),
    ("kolo_allreduce(&correct, 1); kolo_allreduce(&count, 1); return correct / count;", "Exercise 8.b: passed."),
    ("double all[8], mine[2] = {correct, count}; kolo_allgather(mine, 2, all);"
     "return (all[0] + all[2] + all[4] + all[6]) / (all[1] + all[3] + all[5] + all[7]);", "Exercise 8.b: passed."),
]

LOOP = """int best = %s; double highest = %s;
for (int i = 0; i < %s; i++) { double m = %s; if (%s) highest = m, best = i; } return best;"""
VALIDATION = "course_mean(trials[i].validation, LESSON_8_SEEDS)"
CHOICES = [
    ("return -1;", "Not done yet"),
    (LOOP % (-1, -1, "count", "course_mean(trials[i].train, 3)", "m > highest"), "learnt its images by heart"),
    (LOOP % (-1, -1, "count", "fmax(trials[i].validation[0], fmax(trials[i].validation[1], trials[i].validation[2]))",
             "m > highest"), "one lucky seed"),
    (LOOP % (-1, -1, "count", "trials[i].test", "m > highest"), "The test images are for the score alone"),
    (LOOP % (-1, -1, "count", "trials[i].validation[0]", "m > highest"), "with its first seed alone"),
    (LOOP % (-1, 2, "count", VALIDATION, "m < highest"), "Is the comparison the right way round"),
    (LOOP % (0, "course_mean(trials[0].validation, 3)", "count", VALIDATION, "m > highest"), "Trial 0 diverged"),
    ("return count;", "Expected a number from 0 to 7, got 8"),
    (LOOP % (-1, -1, 8, VALIDATION, "m > highest"), "With a single trial expected 0"),
    (LOOP % (-1, -1, "count", VALIDATION, "m > highest"), "Exercise 8.c: passed."),
]

PROGRAM = """#include "challenge.h"
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_sgd()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3);
    %s
    return kolo_finish();
}
"""
ONE_STEP = ("kolo_fit(model, challenge_images(), .epochs = 1000, .batch_size = 50, .verbose = KOLO_NONE, "
            ".callbacks = {kolo_broadcast_variables(0), challenge_time_limit(4)});")
REFUSED = [
    ("kolo_data *test = kolo_mnist(KOLO_TEST);", "it reads KOLO_TEST"),
    ('kolo_load(model, "run/old.safetensors");', "it loads weights"),
    ('kolo_callback c = kolo_backup_and_restore("run");', "it loads weights"),
]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesson_8")
    kernel = Kernel(KOLO_LAB_QUICK="1")
    kernel.folder = folder
    told(kernel, f"%cd {folder}")
    header = f'#include "{ROOT}/labs/course/course.h"\n#include "{ROOT}/labs/course/lesson_8.h"\n'
    assert "Lesson 8." in told(kernel, header + 'course_begin("8");\nlesson_8_hints();')
    return kernel


def told(kernel, code):
    outcome = kernel.run(code)
    assert outcome.status == "ok", outcome.error
    return outcome.stdout


def test_when_to_stop(kernel):
    for condition, wanted in STOPS:
        said = told(kernel, "bool stop_now(double used, double limit, double step, double save)\n"
                            f"{{ return {condition}; }}\nlesson_8_check_stop(stop_now);")
        assert wanted in said and said.count("Exercise 8.a:") == 1, f"{condition}\n{said}"


def test_choices(kernel):
    for body, wanted in CHOICES:
        said = told(kernel, f"int choose(const challenge_trial *trials, int count)\n{{ {body} }}\n"
                            "lesson_8_check_choice(choose);")
        assert wanted in said and said.count("Exercise 8.c:") == 1, f"{body}\n{said}"


def test_averages_over_ranks(kernel):
    assert "4 ranks started" in told(kernel, "%ranks 4")
    for body, wanted in AVERAGES:
        said = told(kernel, f"%%ranks\ndouble accuracy_of_all(double correct, double count)\n{{ {body} }}\n"
                            "lesson_8_check_average(accuracy_of_all);")
        assert wanted in said and said.count("Exercise 8.b:") == 1, f"{body}\n{said}"
    told(kernel, "%ranks 0")


def test_hints_do_not_print_the_solution(kernel):
    for exercise, forbidden in (("8.a", "2 * step"), ("8.b", "sums["), ("8.c", ".validation")):
        hints = [told(kernel, f'course_hint("{exercise}");') for _ in range(3)]
        assert len(set(hints)) == 3 and forbidden not in "".join(hints)


def test_quiz_knows_its_answers(kernel):
    told(kernel, 'course_quiz("8", lesson_8_questions);')
    assert "5 of 5 right" in told(kernel, 'course_answers("8", "babcb");')
    assert "0 of 5 right" in told(kernel, 'course_answers("8", "abcaa");')


# ---------------------------------------------------------------- the harness


def attempt(kernel, body, what="test"):
    told(kernel, "%%writefile run/attempt.c\n" + PROGRAM % body)
    return kernel.run(f'challenge_attempt a = challenge_run("run/attempt.c", "{what}");\nprintf("%.4f\\n", a.accuracy);')


def test_a_program_that_breaks_a_rule_is_refused(kernel):
    assert "There is no program run/none.c yet" in told(kernel, 'challenge_run("run/none.c", "");')
    for body, wanted in REFUSED:
        said = attempt(kernel, body).stdout
        assert wanted in said and said.endswith("nan\n"), f"{body}\n{said}"
    alone = (PROGRAM % "").replace("kolo_distributed(kolo_sgd())", "kolo_sgd()")
    told(kernel, "%%writefile run/attempt.c\n" + alone)
    assert "nothing joins its ranks" in told(kernel, 'challenge_run("run/attempt.c", "");')
    assert "There is no attempt yet." in told(kernel, "challenge_table();")


def test_a_program_that_does_not_compile_is_no_attempt(kernel):
    outcome = attempt(kernel, "no_such_function();")
    assert "no_such_function" in outcome.stderr and "exit code" in outcome.stdout
    assert "There is no attempt yet." in told(kernel, "challenge_table();")


def score(kernel):
    """The same measurement, made here: of the file that the harness has kept."""
    return told(kernel, """kolo_data *ten = kolo_mnist(KOLO_TEST), *test = kolo_data_slice(ten, 0, 500);
kolo_model *kept = kolo_load_model("run/challenge-kept.safetensors");
kolo_compile(kept, .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY});
printf("%.4f\\n", kolo_evaluate(kept, test).accuracy);
kolo_data_free(&ten), kolo_data_free(&test), kolo_model_free(&kept);""")


@pytest.mark.long("it runs programs against a clock of six seconds")
def test_the_score_is_what_the_harness_measures(kernel):
    """Of a model that was saved at once; neither the program's words nor a file that comes late have a part in it."""
    claim = 'challenge_save(model); challenge_note("accuracy", 0.99); printf("accuracy 0.99\\n");'
    first = attempt(kernel, claim, "claims").stdout
    assert score(kernel).strip() == first.splitlines()[-1] and float(first.splitlines()[-1]) < 0.5
    late = "signal(SIGTERM, SIG_IGN); while (challenge_seconds() < challenge_limit() + 0.5); challenge_save(model);"
    said = attempt(kernel, late, "late").stdout
    assert "The time is up" in said and "the attempt has no score" in said and said.endswith("nan\n")
    table = told(kernel, "challenge_table();")
    assert re.search(r"^ +1 +\d+\.\d\d \+- \d\.\d\d % .* claims <- best$", table, flags=re.M), table
    assert re.search(r"^ +2 +nothing saved .* late $", table, flags=re.M), table


@pytest.mark.long("it trains until a clock says stop")
def test_a_fit_ends_in_time_and_a_bad_file_has_no_score(kernel):
    said = attempt(kernel, ONE_STEP + "challenge_save(model);", "in time").stdout
    assert "The time is up" not in said and re.search(r"after [1-9]\d* updates", said), said
    bad = attempt(kernel, 'if (kolo_rank() == 0) fputs("bad", fopen(CHALLENGE_FILE, "w"));', "bad file")
    assert "the attempt has no score" in bad.stdout and "safetensors" in bad.stderr


@pytest.mark.long("it starts a job and interrupts it")
def test_an_interrupt_ends_the_job_with_the_cell(kernel):
    told(kernel, "%%writefile run/attempt.c\n" + PROGRAM % 'challenge_note("here", getpid()); for (;;) pause();')
    begun = threading.Thread(target=interrupt_when_begun, args=(kernel,))
    begun.start()
    outcome = kernel.run('challenge_run("run/attempt.c", "endless");')
    begun.join()
    assert outcome.status == "error" and "KeyboardInterrupt" in outcome.error
    pid = int(float(told(kernel, 'printf("%.0f", challenge_noted("here"));')))
    assert patience.until(lambda: not Path(f"/proc/{pid}").exists(), pause=0.1)
    assert "endless" not in told(kernel, "challenge_table();")


def interrupt_when_begun(kernel):
    log = Path(kernel.folder) / "run/challenge.log"
    patience.until(lambda: log.exists() and "here" in log.read_text(), pause=0.1)
    kernel.manager.interrupt_kernel()
