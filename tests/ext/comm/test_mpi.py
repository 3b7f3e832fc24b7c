"""mpi.c under Open MPI's own mpirun: mpi_ranks.c does the checks, one process a rank."""
import os

import patience
import pytest
from mpi_workshop import compile_program, make_small_pieces, mpirun, pytestmark  # noqa: F401


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("comm/mpi_ranks.c", tmp_path_factory.mktemp("mpi"))


@pytest.fixture(scope="module")
def program_with_mpi(tmp_path_factory):
    return compile_program("comm/mpi_ranks.c", tmp_path_factory.mktemp("mpi"), "-DWITH_MPI", compiler="mpicc")


@pytest.fixture(scope="module")
def program_of_small_pieces(tmp_path_factory):
    library = make_small_pieces(tmp_path_factory.mktemp("small"))
    return compile_program("comm/mpi_ranks.c", library, library=library)


def assert_passes(result):
    assert result.returncode == 0, result.stdout + result.stderr


MORE = pytest.mark.long("the same with other numbers of ranks or threads")


def also(*cases):
    return [pytest.param(*case, marks=MORE) if isinstance(case, tuple) else pytest.param(case, marks=MORE) for case in cases]


@pytest.mark.parametrize("ranks", [1, 3, *also(2, 5, 8)])
def test_every_operation(program, ranks):
    assert_passes(mpirun(ranks, program, "check"))


@pytest.mark.parametrize("ranks", [3, *also(2)])
def test_every_operation_when_crowded(program, ranks):
    assert_passes(mpirun(ranks, program, "check", threads=1000))


@pytest.mark.parametrize("ranks", [2, *also(1, 3)])
def test_threads_of_several_ranks(program, ranks):
    assert_passes(mpirun(ranks, program, "nested"))


@pytest.mark.parametrize("ranks, threads", [(2, 1), (3, 1000), *also((1, 1), (2, 1000), (8, 1000))])
def test_in_small_pieces(program_of_small_pieces, ranks, threads):
    assert_passes(mpirun(ranks, program_of_small_pieces, "check", threads=threads))


@pytest.mark.parametrize("threads", [1000, *also(1)])
def test_starts_and_finishes_again_and_again(program, threads):
    assert_passes(mpirun(2, program, "again", threads=threads))


@pytest.mark.parametrize("mode, threads", [("check", 1), ("again", 1000), *also(("check", 1000), ("again", 1))])
def test_beside_a_program_that_uses_mpi_itself(program_with_mpi, mode, threads):
    assert_passes(mpirun(2, program_with_mpi, mode, threads=threads))


def test_after_mpi_finalize_it_is_too_late(program_with_mpi):
    result = mpirun(1, program_with_mpi, "late")
    assert result.returncode == 1
    assert "MPI cannot be started again" in result.stderr


def test_ranks_of_another_launcher_are_refused(program):
    """MPICH's mpirun, say: every process would be rank 0 of 1."""
    result = patience.run([program, "check"], env=os.environ | {"PMI_RANK": "2", "PMI_SIZE": "4"}, capture_output=True,
                          text=True, timeout=60)
    assert result.returncode == 1
    assert "the launcher started 4 ranks (PMI_SIZE), but MPI sees 1" in result.stderr


@pytest.mark.parametrize(
    "how, code, sentence",
    [
        ("abort", 1, "rank 3: the reason that would be lost"),
        ("finish", 1, "rank 3: mpi_ranks.c"),
        ("exit", 3, ""),
        ("forget", 1, "rank 3 ended without kolo_finish()"),
    ],
)
def test_one_rank_that_fails_ends_the_job(program, how, code, sentence):
    result = mpirun(4, program, "fail", how)
    assert result.returncode == code, result.stdout + result.stderr
    assert sentence in result.stderr
    assert "went on" not in result.stdout
    assert result.seconds < 10
