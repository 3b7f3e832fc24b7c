"""Lesson 2.1: what is said of a DGX-1 is what was published; its exercises name the mistakes that learners make."""
import re

import pytest
from labs.lessons.lesson_2 import cell_with, kernel_for, notebook, shown

RANK_A = "char all[4 * 16]; int local = 0; kolo_allgather(host, 16, all); "
LOCAL_RANKS = [  # the body of my_local_rank(), part of what is said
    ("return -1;", "not written yet"),
    ("return kolo_rank();", "That is the rank"),
    (RANK_A + "for (int r = 0; r < kolo_rank(); r++) local += strncmp(all + 16 * r, host, 5) == 0; return local;",
     "node1 and node10 differ"),
    (RANK_A + "for (int r = 0; r < 4; r++) local += strcmp(all + 16 * r, host) == 0; return local;", "the local size"),
    (RANK_A + "for (int r = 0; r <= kolo_rank(); r++) local += strcmp(all + 16 * r, host) == 0; return local;",
     "counted yourself"),
    (RANK_A + "for (int r = kolo_rank() + 1; r < 4; r++) local += strcmp(all + 16 * r, host) == 0; return local;",
     "ranks above your own"),
    (RANK_A + "for (int r = 0; r < kolo_rank(); r++) local += strcmp(all + 16 * r, host) != 0; return local;",
     "strcmp() returns 0 if"),
    ("return kolo_rank() % 2;", "the rank modulo 2"),
    (RANK_A + "for (int r = 0; r < kolo_rank(); r++) local += strcmp(all + r, host) == 0 && r > 0; return local;",
     "each part have 16 bytes"),
    (RANK_A + "for (int r = 0; r < kolo_rank(); r++) local += all + 16 * r == host; return local;", "== compares their addresses"),
    ("char all[4 * 16]; if (kolo_rank() == 0) kolo_allgather(host, 16, all); return 0;", "Every rank must make the same call"),
]
LEAST = "double least = INFINITY; for (int i = 0; i < n; i++) least = fmin(least, {}); return least;"
RINGS = [  # the body of slowest_link(), part of what is said
    ("return 0;", "not written yet"),
    ("double least = 0; for (int i = 0; i < n; i++) least = fmin(least, bandwidth[order[i]][order[(i + 1) % n]]); return least;",
     "smallest value began at 0"),
    ("double least = INFINITY; for (int i = 0; i + 1 < n; i++) least = fmin(least, bandwidth[order[i]][order[i + 1]]); return least;",
     "a ring is closed"),
    ("double most = 0; for (int i = 0; i < n; i++) most = fmax(most, bandwidth[order[i]][order[(i + 1) % n]]); return most;",
     "the fastest link"),
    ("double sum = 0; for (int i = 0; i < n; i++) sum += bandwidth[order[i]][order[(i + 1) % n]]; return sum / n;",
     "the mean of the links"),
    (LEAST.format("bandwidth[i][(i + 1) % n]"), "used the places"),
    (LEAST.format("bandwidth[order[i]][order[(i + 1) % 8]]"), "not % 8"),
    (LEAST.format("bandwidth[order[i]][order[i + 1]]"), "not i + 1"),
    (LEAST.format("bandwidth[order[(i + 1) % n]][order[i]]"), "the other direction"),
    ("double least = INFINITY; for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) "
     "if (i != j) least = fmin(least, bandwidth[order[i]][order[j]]); return least;", "Only neighbours"),
]  # fmt: skip


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    kernel = kernel_for("2.1", tmp_path_factory.mktemp("lesson"))
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def ranks(kernel):
    kernel.run("%ranks 4")
    return kernel


def local_rank(kernel, body):
    assert kernel.run(f"%%ranks\nint my_local_rank(const char *host) {{ {body} }}\nkolo_init(NULL, NULL);").status == "ok"
    return shown(kernel.run("%%ranks\nlesson_check_local_rank(my_local_rank);"))


def ring(kernel, body):
    kernel.run(f"double slowest_link(int n, const int *order, const double bandwidth[8][8]) {{ {body} }}")
    return shown(kernel.run("lesson_check_ring(slowest_link);"))


@pytest.mark.parametrize("body, words", LOCAL_RANKS, ids=[words for _, words in LOCAL_RANKS])
def test_a_wrong_local_rank_is_named(ranks, body, words):
    said = local_rank(ranks, body)
    assert "Exercise 2.1.a: not yet." in said and words in said, said


@pytest.mark.parametrize("body, words", RINGS, ids=[words for _, words in RINGS])
def test_a_wrong_ring_is_named(kernel, body, words):
    said = ring(kernel, body)
    assert "Exercise 2.1.b: not yet." in said and words in said, said


def test_right_answers_pass(ranks):
    assert ranks.run(cell_with("2.1", "int my_local_rank", solution=True)).status == "ok"
    assert "Exercise 2.1.a: passed." in ranks.run("%%ranks\nlesson_check_local_rank(my_local_rank);").stdout
    assert ranks.run(cell_with("2.1", "double slowest_link", solution=True)).status == "ok"
    assert ranks.run("lesson_check_ring(slowest_link);").stdout == "Exercise 2.1.b: passed.\n"


def test_a_check_without_four_ranks_says_so(kernel):
    assert "wants four ranks, got 1" in kernel.run("lesson_check_local_rank(my_local_rank);").stdout


def test_hints_do_not_have_the_solution(kernel):
    said = "".join(kernel.run(f'course_hint("2.1.{letter}");').stdout for letter in "ab" for _ in range(3))
    assert said.count("Hint ") == 6 and "Hint 3 of 3 for 2.1.b" in said
    for code in "kolo_allgather(host", "== 0;", "for (", "bandwidth[order[i]][order":
        assert code not in said


def test_the_published_figures_and_the_links_of_a_dgx_1(kernel):
    """Rows 0 to 3 of nvidia-smi topo -m, and row 0 of p2pBandwidthLatencyTest; other pairs are called modelled."""
    rows = [line.split()[1:] for line in kernel.run('lesson_print_links("dgx-1v");').stdout.splitlines() if line.startswith("GPU")]
    assert rows[:4] == [row.split() for row in (
        "X NV1 NV1 NV2 NV2 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS", "NV1 NV2 X NV2 SYS SYS NV1 SYS", "NV2 NV1 NV2 X SYS SYS SYS NV1")]
    assert all(rows[a][b] == rows[b][a] for a in range(8) for b in range(8))
    said = kernel.run("lesson_dgx1_pair(0, 3), lesson_dgx1_pair(7, 0), lesson_dgx1_pair(1, 7), lesson_dgx1_pair(5, 5);").stdout
    assert "GPUs 0 and 3: NV2, published: 96.85 GB/s both ways, 2.01" in said and "GPUs 7 and 0: SYS, published: 14.49" in said
    assert re.search(r"GPUs 1 and 7: SYS, modelled: 14\.\d\d", said) and "Choose two different GPUs" in said


def test_a_prediction_is_compared_with_its_origin(kernel):
    said = kernel.run('lesson_compare("x", 90, 96.85, 0.1, "GB/s", "published"), lesson_compare("x", 0, 4, 0, "", "answer"),'
                      'lesson_compare("x", 20, 10, 0.1, "", "modelled");').stdout.splitlines()
    assert kernel.run('lesson_compare("x", 20, NAN, 0.1, "", "none");').stdout == ""
    assert said == ["x: your guess 90 GB/s, published 96.8 GB/s: close enough.",
                    "x: type your guess in the cell above, run that cell, and run this one again.",
                    "x: your guess 20, modelled 10: too high, by a factor of 2."]  # fmt: skip


def test_eight_devices_for_a_while(kernel):
    said = kernel.run('setenv("KOLO_CPU_DEVICES", "3", 1); lesson_eight_devices(true); int eight = kolo_device_count();'
                      'lesson_eight_devices(false); printf("%d %d", eight, kolo_device_count()); unsetenv("KOLO_CPU_DEVICES");').stdout
    assert said == "8 3"


def test_the_quiz_can_be_passed(kernel):
    kernel.run(cell_with("2.1", "course_quiz"))
    assert "5 of 5 right: the quiz is passed." in kernel.run('course_answers("2.1", "cabca");').stdout


def test_the_fastest_ring_of_the_solution(ranks):
    said = ranks.run(cell_with("2.1", "my_ring[]", solution=True)).stdout
    assert "48.4 GB/s each way" in said and "modelled" in said
    assert len(notebook("2.1").exercises()) == 2


def test_a_ring_has_each_gpu_once(kernel):
    orders = "{0, 3, 2, 1, 5, 6, 7, 4}", "{0, 3, 2, 2, 5, 6, 7, 4}", "{0, 3, 2, 1, 5, 6, 7}", "{0, 3, 2, 1, 5, 6, 7, 8}"
    assert [kernel.run(f"int r[] = {o}; lesson_is_ring(r, sizeof r / sizeof *r);").stdout for o in orders] == [
        "", *["A ring of this DGX-1 has each of the GPUs 0 to 7 once.\n"] * 3]  # fmt: skip


def test_after_a_restart_the_first_cell_is_asked_for(kernel):
    """The last test here: it restarts the worker."""
    assert kernel.run("%restart").status == "ok"
    kernel.run("double slowest_link(int n, const int *order, const double bandwidth[8][8]) { return 0; }")
    for code in "lesson_check_ring(slowest_link);", "lesson_dgx1_pair(0, 3);", "lesson_dgx1_map();":
        assert "Run the first cell of this notebook" in kernel.run(code).stdout
    assert kernel.run(notebook("2.1").code[0].source).status == "ok"
    assert "published: 96.85 GB/s" in kernel.run("lesson_dgx1_pair(0, 3);").stdout
