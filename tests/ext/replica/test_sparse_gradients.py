"""Gradients of embeddings, summed over ranks by the rows that are not zero: the same as the whole sum, in fewer bytes."""

import pytest
from mpi_workshop import compile_program, mpirun, pytestmark  # noqa: F401

WIDTH, LENGTH, STEPS = 8, 6, 4


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/sparse_ranks.c", tmp_path_factory.mktemp("sparse"))


def train(program, ranks, words, samples, *how, threads=1000):
    """Of each rank: the hash of its weights, their difference from those of the dense sum, and bytes of both."""
    result = mpirun(ranks, program, str(words), str(WIDTH), str(samples), *how, threads=threads)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert len(rows) == ranks and len({row[0] for row in rows}) == 1, rows  # all ranks have the same weights
    return [(float(difference), int(sparse), int(dense)) for _, difference, sparse, dense in rows]


@pytest.mark.parametrize("ranks, how", [(2, ()), pytest.param(3, ("accumulate",), marks=pytest.mark.long("more of the same")),
                                        pytest.param(2, ("mirrored",), marks=pytest.mark.long("devices within a rank"))])
def test_rows_give_the_sum_of_whole_gradients(program, ranks, how):
    """Adding in another order changes the last bits of a sum only."""
    words, samples = 20000, 5
    for difference, sparse, dense in train(program, ranks, words, samples, *how):
        assert difference < 1e-6
        whole = 4 * words * WIDTH
        if not how:  # a sample has 6 tokens, whose rows and numbers go to each other rank
            assert dense > 2 * STEPS * whole * (ranks - 1) // ranks
            assert dense - sparse >= STEPS * (2 * whole * (ranks - 1) // ranks - samples * LENGTH * (WIDTH + 1) * 4 * (ranks - 1))
        assert sparse < (dense if "mirrored" in how else dense / 50)  # the sums within a rank are whole


def test_many_rows_are_summed_whole(program):
    """More rows than an all-reduce moves: 2 · 8192 · 8 < 16384 · 9."""
    for difference, sparse, dense in train(program, 2, 8192, 4096):
        assert sparse == dense and difference == 0


def test_a_small_embedding_is_summed_whole(program):
    for difference, sparse, dense in train(program, 2, 8191, 1):
        assert sparse == dense and difference == 0


def test_deterministic_training_keeps_its_bits(program):
    for difference, sparse, dense in train(program, 2, 20000, 4, "deterministic"):
        assert sparse == dense and difference == 0
