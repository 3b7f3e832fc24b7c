"""Ranks that do not make the same calls, or of which one does not come: mismatch_ranks.c has the cases."""
import re

import pytest
from mpi_workshop import compile_program, make_small_pieces, mpirun, pytestmark  # noqa: F401

SUM = r"allreduce of 500 floats \(mismatch_ranks\.c:\d+\)"
LINE = r" \(mismatch_ranks\.c:\d+\)"
SCATTER = "reduce-scatter of 10 floats for each rank" + LINE
ALLTOALL = "alltoall of 10 floats for each rank" + LINE
CASES = {
    "count": (SUM, "allreduce of 1000 floats" + LINE),
    "large-count": ("allreduce of 300000 floats" + LINE, "allreduce of 200000 floats" + LINE),
    "nothing": (SUM, "allreduce of 0 floats" + LINE),
    "reduction": (SUM, "allreduce of 500 floats, maximum" + LINE),
    "mean": (SUM, "allreduce of 500 floats, mean" + LINE),
    "type": (SUM, "allreduce of 500 doubles" + LINE),
    "bytes": ("broadcast of 96 bytes from rank 0" + LINE, "broadcast of 192 bytes from rank 0" + LINE),
    "root": ("broadcast of 96 bytes from rank 0" + LINE, "broadcast of 96 bytes from rank 2" + LINE),
    "operation": (SUM, "broadcast of 96 bytes from rank 0" + LINE),
    "gather": ("allgather of 40 bytes" + LINE, "allgather of 80 bytes" + LINE),
    "gather-sum": ("allgather of 40 bytes" + LINE, SUM),
    "barrier": ("barrier" + LINE, SUM),
    "scatter": (SCATTER, SUM),
    "scatter-count": (SCATTER, "reduce-scatter of 20 floats for each rank" + LINE),
    "scatter-reduction": (SCATTER, "reduce-scatter of 10 floats, maximum for each rank" + LINE),
    "alltoall": (ALLTOALL, "allgather of 40 bytes" + LINE),
    "alltoall-count": (ALLTOALL, "alltoall of 5 floats for each rank" + LINE),
    "alltoallv": (ALLTOALL, "alltoallv" + LINE),
    "element": ("broadcast of 96 bytes from rank 0" + LINE, "broadcast of 96 bytes from rank 0" + LINE + ", with elements of another type"),
    "finish": (SUM, "kolo_finish"),
    "first-finishes": ("kolo_finish", SUM),
    "order": ("broadcast of 96 bytes from rank 0" + LINE, SUM),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """By the way in which ranks communicate: through shared memory, with a core each or not, or by messages."""
    folder = tmp_path_factory.mktemp("mismatch")
    plain = compile_program("comm/mismatch_ranks.c", folder)
    library = make_small_pieces(tmp_path_factory.mktemp("small"))
    pieces = compile_program("comm/mismatch_ranks.c", library, library=library)
    return {"shared": (plain, 1000), "cores": (plain, 1), "messages": (pieces, 1000), "spinning": (pieces, 1)}


WAYS = ["shared", "cores", "messages", "spinning"]


def run(programs, way, *command, ranks=3, **variables):
    program, threads = programs[way]
    return mpirun(ranks, program, *command, threads=threads, **variables)


def check_ended(result, seconds):
    assert result.returncode == 1, result.stdout + result.stderr
    assert "went on" not in result.stdout
    assert result.seconds < seconds


MORE = pytest.mark.long("the same with another way of communicating")


def with_every_way(cases, often):
    """Each case with each way; those for which `often` is false are long."""
    return [pytest.param(case, way, marks=[] if often(number, way) else MORE)
            for number, case in enumerate(cases) for way in WAYS]  # fmt: skip


@pytest.mark.parametrize("case, way", with_every_way(CASES, lambda number, way: way == ("shared", "messages")[number % 2]))
def test_calls_that_differ_end_all_ranks_with_one_sentence(programs, way, case):
    result = run(programs, way, case)
    usual, odd = CASES[case]
    wanted = f"all ranks must make the same call: rank 0 called {usual}, rank 2 {odd}"
    check_ended(result, 8)  # ranks that nobody tells end after 10 s
    assert len(re.findall(wanted, result.stderr)) == 1, result.stderr


@pytest.mark.long("it repeats a mismatch twenty times for each way of communicating")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ["count", "large-count", "operation"])
def test_calls_that_differ_are_told_every_time(programs, way, case):
    for _ in range(20):
        result = run(programs, way, case)
        check_ended(result, 10)
        assert "all ranks must make the same call: rank 0 called" in result.stderr


@pytest.mark.parametrize("stall, way", with_every_way(
    [("sleep", 2), ("loop", 1), ("sleep", 0)], lambda number, way: way in (("shared", "messages"), ("cores",), ("spinning",))[number]))
def test_a_rank_that_does_not_come_is_named(programs, way, stall):
    how, missing = stall
    result = run(programs, way, "stall", how, str(missing), stall_limit=1)
    others = [rank for rank in range(3) if rank != missing]
    check_ended(result, 12)
    if missing == 0 and way in ("messages", "spinning"):  # each of the others only knows that rank 0 is not there
        wait = "rank [12] waits in"
    else:
        wait = f"ranks {others[0]}, {others[1]} wait in"
    wanted = rf"kolo_allreduce: rank {missing} has not come for 1 s \(KOLO_STALL_LIMIT\): {wait} {SUM}"
    assert len(re.findall(wanted, result.stderr)) == 1, result.stderr


@pytest.mark.parametrize("way", ["shared", "messages", *(pytest.param(way, marks=MORE) for way in ("cores", "spinning"))])
def test_the_calls_in_which_ranks_wait_are_told(programs, way):
    result = run(programs, way, "stall", "several", "2", stall_limit=1)
    check_ended(result, 12)
    wanted = rf"rank 2 has not come for 1 s \(KOLO_STALL_LIMIT\): rank 0 waits in broadcast of 96 bytes from rank 0{LINE}, rank 1 waits in {SUM}"
    assert re.search(wanted, result.stderr), result.stderr


@pytest.mark.parametrize("way", ["shared", "messages", *(pytest.param(way, marks=MORE) for way in ("cores", "spinning"))])
def test_ranks_that_come_one_after_the_other_are_not_ended(programs, way):
    result = run(programs, way, "slow", stall_limit=1.2)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("busy, way", with_every_way([0, 2], lambda number, way: way == ("shared", "messages")[number]))
def test_a_rank_at_work_is_waited_for(programs, way, busy):
    result = run(programs, way, "work", str(busy), stall_limit=1)
    assert result.returncode == 0, result.stderr


def test_a_limit_that_is_none_is_refused(programs):
    for text in "soon", "-1", "1e9", "nan", "3 s":
        result = run(programs, "cores", "slow", ranks=1, stall_limit=text)
        assert result.returncode == 1
        assert f'KOLO_STALL_LIMIT: wanted seconds from 0 (no limit) to 1e+07, got "{text}"' in result.stderr
