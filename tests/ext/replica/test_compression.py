"""kolo_distributed(…, .compression): gradients travel as numbers of 16 bits."""
import os
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program


pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/compression_ranks.c", tmp_path_factory.mktemp("compression"))


def run(program, ranks, *words):
    return patience.run([BUILD / "bin/kolorun", "-np", str(ranks), program, *map(str, words)], capture_output=True, text=True, timeout=120,
                        env=os.environ | {"KOLO_CPU_DEVICES": "2", "KOLO_THREADS": "1"})  # fmt: skip


BOUNDS = {"fp16": (1e-7, 2e-3), "bf16": (1e-5, 2e-2)}
OFTEN = [(2, 1, "fp16", 0), (3, 1, "bf16", 1000), (2, 2, "fp16", 1000)]
ALL = [(*place, how, bucket) for place in ((2, 1), (3, 1), (2, 2)) for how in BOUNDS for bucket in (0, 1000)]


@pytest.mark.parametrize("ranks, devices, how, bucket", [
    pytest.param(*case, marks=[] if case in OFTEN else pytest.mark.long("more of the same")) for case in ALL])
def test_weights_are_near_those_of_floats(program, ranks, devices, how, bucket):
    """They differ by roundings, so they do differ. Half the bytes are moved, and all ranks have the same bits."""
    least, most = BOUNDS[how]
    done = run(program, ranks, how, devices, bucket)
    assert (done.returncode, done.stderr) == (0, "")
    told = [line.split(">:", 1)[-1].split() for line in done.stdout.splitlines()]
    assert len(told) == ranks and len({line[4] for line in told}) == 1
    for difference, change, compressed, plain, _ in told:
        assert least < float(difference) < most * float(change) and float(change) > 0.03
        assert int(compressed) < int(plain)
        if devices == 1:
            assert abs(2 * int(compressed) - int(plain)) <= 2000


def test_what_is_refused_beside_it(program):
    done = run(program, 1, "refused")
    told = dict(line.split(">:", 1)[-1].split(": ", 1) for line in done.stdout.splitlines())
    for what, sentence in {"deterministic": "beside .deterministic", "workers": "beside a strategy of workers", "adasum": "beside KOLO_REDUCE_ADASUM",
                           "unknown": "wanted KOLO_COMPRESSION_NONE, _FP16 or _BF16, got another one, 7"}.items():  # fmt: skip
        assert sentence in told[what], told
