"""kolo_distributed(…, .op = KOLO_REDUCE_ADASUM): a step over ranks is the formula's, of each rank's own mean gradient."""
import os
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program


pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/adasum_ranks.c", tmp_path_factory.mktemp("adasum"))


@pytest.mark.parametrize("strategy, devices", [("shared", "11"), ("shared", "111"), ("shared", "31"), ("copies", "22"), ("copies", "1111"),
                                               ("central", "12")])  # fmt: skip
def test_steps_are_those_of_the_formula(program, strategy, devices):
    """Within the rounding of sums over samples in another order. All ranks end with the same bits."""
    done = patience.run([BUILD / "bin/kolorun", "-np", str(len(devices)), program, strategy, devices], capture_output=True, text=True,
                        timeout=120, env=os.environ | {"KOLO_CPU_DEVICES": "4", "KOLO_THREADS": "1"})  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told = [line.split(">:", 1)[-1].split() for line in done.stdout.splitlines()]
    assert len(told) == len(devices) and len({line[2] for line in told}) == 1
    for difference, change, _ in told:
        assert float(difference) < 2e-6 < 0.05 < float(change)
