"""Metrics of many sums, weights of samples and classes, and loops of one's own: on ranks and devices what one device gives, to the last bit."""
import subprocess

import patience
import pytest
from mpi_workshop import BUILD, compile_program



@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("losses/metrics_ranks.c", tmp_path_factory.mktemp("metrics"))


def run(*command):
    finished = patience.run([str(word) for word in command], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.replace("[1,0]<stdout>:", "")


@pytest.fixture(scope="module")
def one_device(program):
    told = run(program, 24, 1)
    lines = told.splitlines()
    assert len(lines) == 2 * 6 + 5 and lines[2].startswith("f1_score_weighted ") and "nan" not in told
    return told


@pytest.mark.parametrize("ranks, devices", [(1, 3), (2, 1), (3, 1), (2, 2)])
def test_ranks_and_devices_equal_one(program, one_device, ranks, devices):
    assert run(BUILD / "bin/kolorun", "-np", ranks, program, 24, devices) == one_device
