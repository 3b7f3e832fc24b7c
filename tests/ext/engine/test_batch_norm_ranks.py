"""Batch normalisation over ranks: synchronised or in ghost batches the saved file is the same for any number of ranks
and devices; without either every rank has statistics of its own, but they end with one set of weights."""

import numpy
import patience
import pytest
from mpi_workshop import BUILD, compile_program
from safetensors.numpy import load_file

GLOBAL_BATCH = 60  # of 187 samples: three steps and one of 7


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("engine/batch_norm_program.c", tmp_path_factory.mktemp("batch_norm"))


def launch(program, folder, ranks, devices, *arguments):
    command = [program, folder / "weights", GLOBAL_BATCH // ranks, devices, *arguments]
    if ranks > 1:
        command = [BUILD / "bin/kolorun", "-np", ranks, *command]
    return patience.run([str(word) for word in command], capture_output=True, text=True, timeout=120)


def train(program, folder, ranks, devices, *arguments):
    result = launch(program, folder, ranks, devices, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    files = [(folder / f"weights.{rank}").read_bytes() for rank in range(ranks)]
    assert all(file == files[0] for file in files), "ranks ended with different weights"
    return files[0]


@pytest.fixture(scope="module")
def alone(program, tmp_path_factory):
    return {kind: train(program, tmp_path_factory.mktemp(kind), 1, 1, kind, "deterministic") for kind in ("sync", "ghost")}


OFTEN = [("ghost", 1, 4), ("sync", 2, 1), ("ghost", 3, 1), ("sync", 3, 3), ("sync", 2, "3:1")]
RARELY = [(kind, *place) for kind in ("sync", "ghost") for place in ((1, 4), (2, 1), (3, 1), (5, 1), (2, 2), (3, 3), (2, "3:1"))]


@pytest.mark.parametrize("kind, ranks, devices", OFTEN + [
    pytest.param(*case, marks=pytest.mark.long("more ranks and devices")) for case in RARELY if case not in OFTEN])
def test_ranks_agree_to_the_bit(program, tmp_path, alone, kind, ranks, devices):
    assert train(program, tmp_path, ranks, devices, kind, "deterministic") == alone[kind]


def test_synchronised_is_one_batch_within_rounding(program, tmp_path, alone):
    """Sums in another order; after eight steps of Adam weights are 1e-6 apart. (No biases before batch norm: their
    gradients are nothing but rounding, which Adam makes steps of.)"""
    (tmp_path / "one").write_bytes(alone["sync"])
    train(program, tmp_path, 3, 2, "sync", "free")
    wanted, got = load_file(tmp_path / "one"), load_file(tmp_path / "weights.0")
    for name in wanted:
        assert numpy.sqrt(numpy.mean((wanted[name] - got[name]) ** 2)) < 1e-4, name


def test_ranks_with_statistics_of_their_own_keep_one_set_of_weights(program, tmp_path, alone):
    """train() compares the ranks, running statistics included."""
    assert train(program, tmp_path, 3, 1, "own", "free") != alone["sync"]


def test_deterministic_ranks_want_one_set_of_statistics(program, tmp_path):
    result = launch(program, tmp_path, 2, 1, "own", "deterministic")
    assert result.returncode == 1
    assert "wanted .synchronized = true or a .ghost_batch in deterministic mode, since 2 replicas" in result.stderr


def test_a_rank_that_dies_in_a_step_ends_the_job(program, tmp_path):
    started = patience.now()
    result = launch(program, tmp_path, 3, 2, "sync", "free", "failing", 1)
    assert result.returncode == 3
    assert patience.now() - started < 30
