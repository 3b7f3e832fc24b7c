"""Ranks of one host sum their gradients where they lie, with the bits of a sum by messages."""
import shutil

import pytest
from mpi_workshop import BUILD, compile_program, make_small_pieces, mpirun, pytestmark  # noqa: F401


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/gradient_ranks.c", tmp_path_factory.mktemp("in_place"))


@pytest.fixture(scope="module")
def program_of_messages(tmp_path_factory):
    library = make_small_pieces(tmp_path_factory.mktemp("messages"), piece=1 << 20)
    shutil.copy(BUILD / "lib/libkolo_onednn.so", library)
    return compile_program("replica/gradient_ranks.c", library, library=library)


def fits(program, ranks, buckets):
    """The kinds of memory, and the checksums of the fits on one rank, each of which every rank must have."""
    result = mpirun(ranks, program, str(buckets))
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert len(lines) == 6 * ranks
    sums = [checksum for _, checksum in lines]
    assert all(sums.count(checksum) % ranks == 0 for checksum in sums)
    return {kind for kind, _ in lines}, sorted(sums)


@pytest.mark.parametrize("buckets", [pytest.param(-1, marks=pytest.mark.long("the same without buckets")), 100000])
def test_sums_in_place(program, program_of_messages, buckets):
    """The sum of two ranks is the same in either order, so a sum by messages has the same bits, too."""
    kind, sums = fits(program, 2, buckets)
    assert kind == {"shareable"} and len(set(sums)) > 2
    assert fits(program_of_messages, 2, buckets) == ({"private"}, sums)
    assert fits(program, 3, buckets)[0] == {"shareable"}


def test_a_single_rank_shares_nothing(program):
    assert fits(program, 1, -1)[0] == {"private"}
