"""kolo_join(): ranks that have nothing more to do answer the calls of the others."""
import re

import pytest
from mpi_workshop import compile_program, make_small_pieces, mpirun, pytestmark  # noqa: F401


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    library = make_small_pieces(tmp_path_factory.mktemp("messages"), piece=40000)
    plain = compile_program("runtime/join_ranks.c", tmp_path_factory.mktemp("join"))
    pieces = compile_program("runtime/join_ranks.c", library, library=library)
    return {"shared": (plain, 1000), "cores": (plain, 1), "messages": (pieces, 1000), "spinning": (pieces, 1)}


WAYS = ["shared", "messages", *(pytest.param(way, marks=pytest.mark.long("the same by ranks that spin")) for way in ("cores", "spinning"))]


def run(programs, way, ranks, *words, **variables):
    program, threads = programs[way]
    return mpirun(ranks, program, *map(str, words), threads=threads, **variables)


ROUNDS = [(0, 2, 1), pytest.param((2, 0, 2), marks=pytest.mark.long("another order")), pytest.param((1, 1, 0), marks=pytest.mark.long("another order")),
          pytest.param((0, 2), marks=pytest.mark.long("as many ranks as cores")), pytest.param((3, 0, 1, 2, 3), marks=pytest.mark.long("another order"))]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_rank_that_has_joined_changes_no_result(programs, way, rounds):
    result = run(programs, way, len(rounds), "rounds", *rounds)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split() == ["fine"] * len(rounds)


@pytest.mark.parametrize("way", WAYS)
def test_a_training_loop_with_uneven_batches(programs, way):
    result = run(programs, way, 3, "loop")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split() == ["fine"] * 3


CALLS = {"broadcast": "broadcast of 4 bytes from rank 0", "alltoall": "alltoall", "allgather": "allgather of 4 bytes", "finish": "kolo_finish",
         "adasum": "allreduce of 4 floats, Adasum",
         "fit": "allgather of \\d+ bytes \\(kolo_fit with kolo_distributed, join_ranks.c:\\d+\\)"}


@pytest.mark.parametrize("call", [name if name in ("broadcast", "adasum", "fit") else pytest.param(name, marks=pytest.mark.long("more calls")) for name in CALLS])
@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_it_cannot_answer_ends_the_job_with_a_sentence(programs, way, call):
    result = run(programs, way, 3, call)
    assert result.returncode == 1 and "went on" not in result.stdout
    wanted = rf"rank 1 has called kolo_join\(\), after which it takes part in allreduce( \(but not Adasum\))?, allgatherv and barrier only: rank 0 called {CALLS[call]}"
    assert len(re.findall(wanted, result.stderr)) == 1, result.stderr
