"""Lesson 2.2: its exercises name the mistakes that learners make; its fits and tables are those of their formulas."""
import json
import re

import pytest
from labs.lessons.lesson_2 import cell_with, kernel_for, notebook, shown

ROOT_ADDS = "for (int r = 1; r < n && rank == 0; r++) { kolo_receive(other, count, r); for (int64_t i = 0; i < count; i++) values[i] += other[i]; } "
ROOT_SENDS = "for (int r = 1; r < n && rank == 0; r++) kolo_send(values, count, r); "
OTHERS = "if (rank != 0) kolo_send(values, count, 0), kolo_receive(values, count, 0); "
GATHERS = [  # the body of gather_sum(), part of what is said
    ("", "not written yet"),
    (ROOT_ADDS + "if (rank != 0) kolo_send(values, count, 0);", "rank 0 must send it back"),
    ("for (int r = 1; r < n && rank == 0; r++) kolo_receive(values, count, r); " + ROOT_SENDS + OTHERS, "A received value replaced the sum"),
    (ROOT_ADDS.replace("r = 1", "r = 2") + ROOT_SENDS + "if (rank > 1) kolo_send(values, count, 0); if (rank) kolo_receive(values, count, 0);",
     "values of some ranks are missing"),
    (ROOT_ADDS.replace("values[i] += other[i]", "values[i] += 2 * other[i]") + ROOT_SENDS + OTHERS, "added more than once"),
    (ROOT_ADDS + "for (int64_t i = 0; i < count; i++) values[i] /= n; " + ROOT_SENDS + "if (rank != 0) { for (int64_t i = 0; i < count; i++) "
     "values[i] *= n; kolo_send(values, count, 0); kolo_receive(values, count, 0); }", "That is the mean"),
    (ROOT_ADDS.replace("r < n", "r < n - 1") + ROOT_SENDS.replace("r < n", "r < n - 1") + OTHERS, "waits for a message that no rank sends"),
    ("if (rank != 0) kolo_receive(values, count, 0), kolo_send(values, count, 0); " + ROOT_ADDS + ROOT_SENDS, "waits for a message that no rank sends"),
    ("if (rank == 0) for (int64_t i = 0; i < count; i++) values[i] = 0; " + ROOT_ADDS + ROOT_SENDS + OTHERS, "own values are missing"),
    ("int64_t all = count; count = count > 0; " + ROOT_ADDS + ROOT_SENDS + OTHERS + "count = all;", "Only the first element"),
]
ROUNDS = """#define BEGIN(c) (count * ((c) % n) / n)
#define LENGTH(c) (count * ((c) % n + 1) / n - BEGIN(c))
for (int k = 0; k < n - 1; k++) {
    int gives = rank - k + n, takes = rank - k - 1 + 2 * n;
    EXCHANGE
    for (int64_t i = 0; i < LENGTH(takes); i++) values[BEGIN(takes) + i] ADDS other[i];
}
"""
COPIES = """for (int k = 0; k < n - 1; k++) {
    int gives = rank + 1 - k + n, takes = rank - k + n;
    lesson_exchange(values + BEGIN(gives), LENGTH(gives), next, values + BEGIN(takes), LENGTH(takes), before);
}
"""
EXCHANGE = "lesson_exchange(values + BEGIN(gives), LENGTH(gives), next, other, LENGTH(takes), before);"


def rounds(exchange=EXCHANGE, adds="+="):
    return ROUNDS.replace("EXCHANGE", exchange).replace("ADDS", adds)


RINGS = [  # the body of ring_sum(), part of what is said
    ("", "not written yet"),
    (rounds(), "the rounds of copying are missing"),
    (rounds(adds="=") + COPIES, "A received value replaced the sum"),
    (rounds() + rounds().replace("#define", "//").replace("rank - k + n", "rank + 1 - k + n").replace("rank - k - 1", "rank - k"),
     "added more than once"),
    (rounds().replace("count *", "(count / n) *").replace(") / n", ")") + COPIES, "the chunks do not cover the array"),
    (rounds("kolo_send(values + BEGIN(gives), LENGTH(gives), next); kolo_receive(other, LENGTH(takes), before);") + COPIES,
     "If all ranks send first, no rank receives"),
    (rounds(EXCHANGE.replace("before", "next")) + COPIES, "waits for a message that no rank sends"),
    (rounds() + COPIES.replace("rank + 1 - k + n", "rank - k + n").replace("takes = rank - k + n", "takes = rank - k - 1 + 2 * n"),
     "copy only what is the whole sum"),
    ("for (int k = 0; k < n - 1; k++) { float *all = malloc(count * sizeof *all + 1); lesson_exchange(values, count, next, all, count, before); "
     "for (int64_t i = 0; i < count; i++) values[i] += all[i]; free(all); }", "added more than once"),
    (rounds().replace("rank - k + n", "rank - k").replace("rank - k - 1 + 2 * n", "rank - k - 1") + COPIES, "add n before you take it"),
]  # fmt: skip
EFFICIENCIES = [  # what efficiency() returns, part of what is said
    ("0", "not written yet"),
    ("computing / (computing + beta * bytes)", "alpha is missing"),
    ("(alpha + beta * bytes) / (computing + alpha + beta * bytes)", "the share of the communication"),
    ("(computing + alpha + beta * bytes) / computing", "computing over step"),
    ("computing / (computing + alpha + beta)", "multiply it by the bytes"),
    ("computing + alpha + beta * bytes", "time in seconds"),
    ("1 - (alpha + beta * bytes) / computing", "The denominator is the whole step"),
    ("100 * computing / (computing + alpha + beta * bytes)", "percentage"),
    ("computing / (computing + alpha + bytes / beta)", "a transfer takes beta * bytes"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lesson")


@pytest.fixture(scope="module")
def kernel(folder):
    kernel = kernel_for("2.2", folder)
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def ranks(kernel):
    kernel.run("%ranks 4")
    assert kernel.run("%%ranks\nkolo_init(NULL, NULL);").status == "ok"
    return kernel


def check(kernel, exercise, name, body):
    declared = "int n = kolo_size(), rank = kolo_rank(), next = (rank + 1) % n, before = (rank + n - 1) % n;"
    head = f"kolo_status {name}(float *values, int64_t count, void *user) {{\n{declared} float *other = malloc((count + 1) * sizeof *other);\n"
    made = kernel.run(f"%%ranks\n{head}{body}\nfree(other); return KOLO_OK; }}")
    assert made.status == "ok", made.error
    return shown(kernel.run(f'%%ranks\nlesson_check_allreduce("{exercise}", {name});'))


@pytest.mark.parametrize("body, words", GATHERS, ids=[words for _, words in GATHERS])
def test_a_wrong_gather_is_named(ranks, body, words):
    said = check(ranks, "2.2.a", "gather_sum", body)
    assert "[0] Exercise 2.2.a: not yet." in said and words in said, said


@pytest.mark.parametrize("body, words", RINGS, ids=[words for _, words in RINGS])
def test_a_wrong_ring_is_named(ranks, body, words):
    said = check(ranks, "2.2.b", "ring_sum", body)
    assert "[0] Exercise 2.2.b: not yet." in said and words in said, said


@pytest.mark.parametrize("value, words", EFFICIENCIES, ids=[words for _, words in EFFICIENCIES])
def test_a_wrong_efficiency_is_named(kernel, value, words):
    kernel.run(f"double efficiency(double alpha, double beta, double bytes, double computing) {{ return {value}; }}")
    said = shown(kernel.run("lesson_check_efficiency(efficiency);"))
    assert "Exercise 2.2.c: not yet." in said and words in said, said


def test_right_answers_pass_and_the_ring_trains(ranks):
    for text in "int gives, int takes, float *other", "kolo_status ring_sum", "kolo_status gather_sum":
        assert ranks.run(cell_with("2.2", text, solution=True)).status == "ok"
    for exercise, name in ("2.2.a", "gather_sum"), ("2.2.b", "ring_sum"):
        outcome = ranks.run(f'%%ranks\nlesson_check_allreduce("{exercise}", {name});')
        assert f"[0] Exercise {exercise}: passed." in outcome.stdout and "comm yours: right on 4 ranks" in outcome.stdout, shown(outcome)
    assert ranks.run(cell_with("2.2", "double train(")).status == "ok"
    said = ranks.run(cell_with("2.2", "train(lesson_comm")).stdout
    mine, kolo = map(float, re.search(r"loss with it ([\d.]+), with libkolo's all-reduce ([\d.]+)", said).groups())
    assert "[0] calls of your function: 32" in said and mine == pytest.approx(kolo, rel=1e-4) and 0 < mine < 2.3


def test_a_ring_that_has_not_passed_does_not_train(ranks):
    check(ranks, "2.2.b", "ring_sum", "")
    ranks.run(cell_with("2.2", "double train("))
    said = ranks.run(cell_with("2.2", "train(lesson_comm")).stdout
    assert "2.2.b has not passed its check yet" in said and "calls of your function: 0" in said


def test_the_share_is_measured(ranks):
    said = ranks.run("%%ranks\nlesson_measure_share(4);")
    row = re.search(r"^\[0\]   4 images a rank: a step +([\d.]+) ms, of it +([\d.]+) ms in the all-reduce \((\d+) %\)$", said.stdout, flags=re.MULTILINE)
    step, communication, share = map(float, row.groups())
    assert said.stderr == "" and 0 < communication <= step and share == pytest.approx(100 * communication / step, abs=2)
    assert float(ranks.run('printf("%.0f", lesson_measured_share(4));').stdout) == share
    assert ranks.run('printf("%g", lesson_measured_share(5));').stdout == "nan"


def test_right_efficiency_passes(kernel):
    kernel.run(cell_with("2.2", "double efficiency(", solution=True))
    assert kernel.run("lesson_check_efficiency(efficiency);").stdout == "Exercise 2.2.c: passed.\n"
    said = kernel.run("lesson_print_efficiencies(&lesson_a100, efficiency);").stdout
    four = re.search(r"^ +4 .* ms +([\d.]+)% +60%$", said, flags=re.MULTILINE)
    assert "modelled" in said and float(four[1]) > 99, said


def test_the_line_is_fitted(kernel, folder):
    rows = [{"algorithm": "ring", "bytes": b, "seconds": 2e-5 + b * 5e-10, "bus_bandwidth": 1} for b in (4, 4096, 4194304)]
    (folder / "a.json").write_text(json.dumps({"ranks": 4, "devices": 1, "results": rows}))
    said = kernel.run('lesson_curve c = lesson_read("a.json", "ring"); lesson_line l = lesson_fit(&c);'
                      'printf("%d %.4g %.4g", c.n, l.alpha, l.beta);').stdout
    assert said == "3 2e-05 5e-10"
    said = kernel.run('c = lesson_read("none.json", "ring"); printf("%d %g", c.n, lesson_fit(&c).alpha);').stdout
    assert "none.json cannot be read: run the cell" in said and said.endswith("0 nan")


def test_the_published_epochs(kernel):
    """Whole batches of 60,000 images, and the line through the three epochs of the A100."""
    rows = kernel.run("lesson_print_epochs(&lesson_a100);").stdout.splitlines()
    assert [row.split()[4:6] for row in rows[1:4]] == [["7", "57344"], ["3", "49152"], ["1", "32768"]]
    assert [row.split()[2] for row in rows[1:4]] == ["100%", "77%", "60%"] and rows[3].split()[-1] == "34%"
    assert rows[4] == "fitted to these 3 rows: an epoch takes 0.185 s + steps x 0.052 s"


def test_hints_do_not_have_the_solution(kernel):
    said = "".join(kernel.run(f'course_hint("2.2.{letter}");').stdout for letter in "abc" for _ in range(3))
    assert said.count("Hint ") == 9
    for code in "kolo_send(values", "kolo_receive(other", "+=", "computing / (", "for (":
        assert code not in said


def test_the_quiz_can_be_passed(kernel):
    kernel.run(cell_with("2.2", "course_quiz"))
    assert "5 of 5 right: the quiz is passed." in kernel.run('course_answers("2.2", "cbbca");').stdout


def test_after_a_restart_the_first_cell_is_asked_for(kernel):
    """The last test here: it restarts the worker."""
    assert kernel.run("%restart").status == "ok"
    assert kernel.run("lesson_print_epochs(&lesson_a100);").stdout == "Run the first cell of this notebook, then this one again.\n"
    assert kernel.run(notebook("2.2").code[0].source).status == "ok"
    assert "0.185 s" in kernel.run("lesson_print_epochs(&lesson_a100);").stdout
