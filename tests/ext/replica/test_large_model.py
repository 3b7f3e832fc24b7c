"""Deterministic mode with more than 2^20 weights: the same bits over devices and ranks, whoever computes what."""
import os
import shutil
from pathlib import Path

import patience
import pytest
from mpi_workshop import BUILD, compile_program



@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/large_model.c", tmp_path_factory.mktemp("large"))


def bits(program, precision, ranks, devices, threads):
    """What every rank prints."""
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks)] if ranks > 1 else []
    result = patience.run([*launcher, program, str(devices), precision], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"KOLO_THREADS": str(threads), "KOLO_CPU_DEVICES": "8"})  # fmt: skip
    assert result.returncode == 0, result.stderr
    words = [line.split() for line in result.stdout.splitlines() if "weights" in line]
    assert len(words) == ranks and all(int(line[-3].split(":")[-1].split(">")[-1]) > 1 << 20 for line in words)
    return {line[-1] for line in words}


NEEDS_AVX512 = pytest.mark.skipif("avx512bw" not in Path("/proc/cpuinfo").read_text(), reason="this CPU has no AVX-512")


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=NEEDS_AVX512)])
def test_devices_and_ranks_count_for_nothing(program, precision):
    """Eight devices on two cores and on eight, and two ranks of one and of four."""
    ways = [(1, 1, 2), (1, 2, 2), (1, 8, 2), (1, 8, 8)]
    if shutil.which("mpirun"):
        ways += [(2, 1, 1), (2, 4, 1)]
    found = [bits(program, precision, *way) for way in ways]
    assert len(found[0]) == 1 and all(each == found[0] for each in found), dict(zip(ways, found))
