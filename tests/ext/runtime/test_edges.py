"""Calls at the edges of a job: in a callback, in a forked child, on a rank without samples, without other ranks."""
import re

import by_hand
import patience
import pytest
from mpi_workshop import compile_program, mpirun, pytestmark  # noqa: F401


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("runtime/edge_ranks.c", tmp_path_factory.mktemp("edges"))


MORE = pytest.mark.long("more strategies")


@pytest.mark.parametrize("strategy", ["one_device", *(pytest.param(name, marks=MORE) for name in ("mirrored", "downpour"))])
def test_finishing_in_a_callback_is_refused_and_loses_nothing(program, strategy):
    result = mpirun(2, program, "finish", strategy)
    assert result.returncode == 1
    assert "kolo_finish: wanted a call outside kolo_fit(), got one in a callback of it" in result.stderr
    assert len(re.findall(r"loss [\d.]+ of 1 epochs", result.stdout)) == 2, result.stdout + result.stderr
    assert result.stdout.count("finished early with 1") == (1 if strategy == "downpour" else 2)


def test_a_forked_child_has_no_ranks(program):
    result = mpirun(2, program, "fork", stall_limit=20)
    assert result.returncode == 0 and result.stdout.count("parent is fine") == 2, result.stdout + result.stderr
    for what in "allreduce", "set", "send", "receive", "async", "synchronize", "finished with 1":
        assert re.search(rf"^{what}: .*wanted a call by the process that has joined the ranks, got one by a child", result.stdout, re.M), (what, result.stdout)


@pytest.mark.parametrize("ranks, words", [(2, (64, 32, 2, 3)), pytest.param(4, (1, 1, 1, 1, 1, 1), marks=pytest.mark.long("more ranks"))])
def test_no_rank_diverges_for_want_of_samples(program, ranks, words):
    """Five devices on two ranks have uneven shares; of four ranks only one has a sample."""
    result = mpirun(ranks, program, "few", *map(str, words))
    assert result.returncode == 0 and "diverged" not in result.stderr, result.stderr
    assert len(re.findall(r"loss [\d.]+ of 1 epochs", result.stdout)) == ranks, result.stdout


def assert_late_calls_fail(out, by):
    assert out.count("sum 2, ended with 0") == 2, out
    for call in "allreduce", "join", "fit", "barrier":
        sentence = (rf"^{call}: edge_ranks.c:\d+: kolo_{call}: wanted a call between kolo_init\(\) and kolo_finish\(\), since {by} "
                    r"this process as one of 2 ranks, got one by a process that is not with them$")
        assert len(re.findall(sentence, out, re.M)) == 2, (call, out)


def test_a_rank_that_has_not_joined_the_others_does_not_take_itself_for_all(program):
    result = mpirun(2, program, "late")
    assert result.returncode == 0, result.stdout + result.stderr
    assert_late_calls_fail(result.stdout, "a launcher has started")


def test_nor_does_one_that_only_tf_config_names(program):
    outcomes = by_hand.run([program, "late"], 2)
    assert [code for _, _, code in outcomes] == [0, 0], outcomes
    assert_late_calls_fail("".join(out for out, _, _ in outcomes), "TF_CONFIG names")


def test_there_is_no_other_rank(program):
    result = patience.run([program, "alone"], capture_output=True, text=True)
    assert result.returncode == 1 and "kolo_send: there is no other rank to send to: the job has 1 rank" in result.stderr
