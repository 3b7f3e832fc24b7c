"""Metrics of many sums, weights of samples and classes, and loops of one's own: on ranks and devices what one device gives, to the last bit."""
import os
import subprocess
from pathlib import Path

import patience
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("metrics") / "metrics_ranks"
    subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT}/ext/include", HERE / "metrics_ranks.c", "-o",
                    target, f"-L{BUILD}/lib", "-lkolo", "-lm", f"-Wl,-rpath,{BUILD}/lib"], check=True)
    return target


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
