"""Updates over ranks: gathered batches, loss scaling, and the optimizer's state as kolo_broadcast_variables() hands it over."""
import os
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program


pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/update_ranks.c", tmp_path_factory.mktemp("ranks"))


def lines(program, ranks, *options):
    result = patience.run([BUILD / "bin/kolorun", "-np", str(ranks), program, *map(str, options)],
                          env=os.environ | {"KOLO_THREADS": "1"}, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return sorted(line.split("]", 1)[-1].split(">", 1)[-1].strip() for line in result.stdout.splitlines() if line.strip())


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_ranks_count_for_nothing(program, precision, accumulate):
    """Three ranks with batches of 8 end where one does with batches of 24, to the bit, the second fit after a broadcast
    over ranks whose state was spoilt included; 96 samples are 4 batches, 16 in all."""
    alone = lines(program, 1, precision, 24, accumulate)
    together = lines(program, 3, precision, 8, accumulate)
    assert len(alone) == 2 and together == sorted(3 * alone)
    for line in alone:
        steps, updates, scale = line.split()[2:5]
        assert (steps, updates, scale) == ("16", str(16 // accumulate), "32768" if precision == "fp16" else "1")


@pytest.mark.parametrize("what, told", [("optimizer", "optimizer: adam on rank 0, sgd on rank 1"),
                                        ("loss", "loss: sparse_crossentropy on rank 0, categorical_crossentropy on rank 1"),
                                        ("precision", "precision: KOLO_FLOAT32 on rank 0, KOLO_MIXED_FP16 on rank 1")])  # fmt: skip
def test_ranks_that_were_compiled_otherwise_are_refused(program, what, told):
    """Else the ranks would wait for arrays that another has not, or learn something else."""
    said = lines(program, 3, what)
    assert len(said) == 3 and all(f"kolo_fit: wanted the same on all ranks, got {told}" in line for line in said)
