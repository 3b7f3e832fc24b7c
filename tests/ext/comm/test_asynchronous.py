"""Asynchronous collectives of ranks: asynchronous_ranks.c does the checks, one process a rank."""
import re

import pytest
from mpi_workshop import compile_program, make_small_pieces, mpirun, pytestmark  # noqa: F401

WAYS = ["shared", "cores", "messages", "spinning"]
LINE = r" \(asynchronous_ranks\.c:\d+\)"
SUM = "asynchronous allreduce of 500 floats" + LINE


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """By the way in which ranks communicate: through shared memory, with a core each or not, or by messages."""
    plain = compile_program("comm/asynchronous_ranks.c", tmp_path_factory.mktemp("plain"))
    library = make_small_pieces(tmp_path_factory.mktemp("small"))
    pieces = compile_program("comm/asynchronous_ranks.c", library, library=library)
    return {"shared": (plain, 1000), "cores": (plain, 1), "messages": (pieces, 1000), "spinning": (pieces, 1)}


def run(programs, way, mode, ranks=3, **variables):
    program, threads = programs[way]
    return mpirun(ranks, program, mode, threads=threads, **variables)


MORE = pytest.mark.long("the same with another way of communicating")
OFTEN = [("everything", "messages"), ("everything", "cores"), ("message", "spinning"), ("forgotten", "shared"), ("invalid", "messages")]


@pytest.mark.parametrize("mode, way", OFTEN + [
    pytest.param(mode, way, marks=MORE) for mode in ("everything", "message", "forgotten", "invalid") for way in WAYS if (mode, way) not in OFTEN])
def test_asynchronous_calls(programs, way, mode):
    result = run(programs, way, mode, ranks=2 if way == "spinning" else 3)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("mode", ["everything", "many", "forgotten", "invalid"])
def test_one_rank_needs_nobody(programs, mode):
    result = run(programs, "cores", mode, ranks=1)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("way", ["cores", "messages"])
def test_many_handles(programs, way):
    result = run(programs, way, "many", ranks=2)
    assert result.returncode == 0, result.stdout + result.stderr


CASES = {
    "count": (SUM, "asynchronous allreduce of 600 floats" + LINE),
    "operation": (SUM, "asynchronous broadcast of 2000 bytes from rank 0" + LINE),
    "direct": (SUM, "allreduce of 500 floats" + LINE),
    "overtake": ("asynchronous allreduce of 1 float" + LINE, "barrier" + LINE),
}


@pytest.mark.parametrize("case, way", [
    pytest.param(case, way, marks=[] if number % 2 == turn else MORE)
    for number, case in enumerate(CASES) for turn, way in enumerate(("shared", "messages"))])
def test_calls_that_differ_are_both_named(programs, way, case):
    usual, odd = CASES[case]
    result = run(programs, way, case)
    assert result.returncode == 1 and "went on" not in result.stdout, result.stdout + result.stderr
    assert re.search(f"all ranks must make the same call: rank 0 called {usual}, rank 2 {odd}", result.stderr), result.stderr


@pytest.mark.parametrize("way", ["shared", "messages"])
def test_a_rank_that_does_not_come_is_named(programs, way):
    result = run(programs, way, "stall", stall_limit=4)  # on a busy machine the ranks need some of it to start
    assert result.returncode == 1 and "went on" not in result.stdout, result.stdout + result.stderr
    assert re.search(rf"rank 2 has not come for 4 s \(KOLO_STALL_LIMIT\): ranks 0, 1 wait in {SUM}", result.stderr), result.stderr
