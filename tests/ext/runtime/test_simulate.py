"""kolo_simulate_links(): a modelled clock beside the ranks' collectives, whose results keep their bits."""
import pytest
from mpi_workshop import compile_program, mpirun, pytestmark  # noqa: F401


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("runtime/simulate_ranks.c", tmp_path_factory.mktemp("simulate"))


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(4, marks=pytest.mark.long("more ranks"))])
def test_the_clock_is_the_models_and_changes_no_bit(program, tmp_path, ranks):
    result = mpirun(ranks, program, str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split() == ["fine"] * ranks
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


def test_a_model_with_too_few_devices_is_refused(program):
    result = mpirun(3, program, "wrong")
    assert result.returncode == 1
    assert "kolo_simulate_links: .devices: wanted 1 to 2 of pcie-4, got 3" in result.stderr
