"""kolo_multi_worker_mirrored(): ranks that train together without kolo_distributed(), on one global batch."""
import os
import shutil
import subprocess
from pathlib import Path

import patience
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()

needs_mpi = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("workers") / "multi_worker_program"
    subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/ext/include", HERE / "multi_worker_program.c",
                    "-o", target, f"-L{BUILD}/lib", "-lkolo", f"-Wl,-rpath,{BUILD}/lib"], check=True)  # fmt: skip
    return target


def environment(**variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMPI_", "PMIX_", "TF_"))}
    return kept | {"KOLO_CPU_DEVICES": "4", "KOLO_THREADS": "1"} | variables


def lines(text):
    return sorted(line.split(">:", 1)[-1].split() for line in text.splitlines() if line.strip())


def train(program, ranks, **options):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks)] if ranks > 1 else []
    done = patience.run([*launcher, program, *(f"{key}={value}" for key, value in options.items())], capture_output=True, text=True,
                        timeout=120, env=environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return lines(done.stdout)


@needs_mpi
@pytest.mark.parametrize("ranks, devices, more", [(2, 1, 0), (3, 1, 1)])
def test_ranks_are_one_device_on_the_global_batch(program, ranks, devices, more):
    """The same bits: the batch is not multiplied by the ranks, gradients are averaged over all, the loss is that of all."""
    [alone] = train(program, 1, seed=3, deterministic=1)
    assert alone[2] == "5"  # 103 samples in steps of 24
    together = train(program, ranks, seed=3, deterministic=1, devices=devices, more=more)
    assert together == [[str(rank), str(ranks), *alone[2:]] for rank in range(ranks)]


@needs_mpi
def test_ranks_begin_with_the_weights_of_rank_0(program):
    """Each rank draws other weights by a seed of its own; without a common start they would learn apart, with a warning."""
    told = train(program, 3)
    assert len(told) == 3 and len({tuple(line[2:]) for line in told}) == 1
