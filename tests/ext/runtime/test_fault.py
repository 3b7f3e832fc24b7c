"""Faults that are asked for: they happen where and when they should, and who notices says it."""
import os
import shutil
import subprocess
from pathlib import Path

import patience
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("fault") / "fault_ranks"
    subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT}/ext/include", HERE / "fault_ranks.c",
                    "-o", target, f"-L{BUILD}/lib", "-lkolo", f"-Wl,-rpath,{BUILD}/lib"], check=True)
    return target


def run(program, fault, ranks=3):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks)] if ranks > 1 else []
    return patience.run([str(word) for word in [*launcher, program]], capture_output=True, text=True, timeout=60,
                        env={**os.environ, "KOLO_FAULT": fault})


@pytest.mark.parametrize("what, code, ending", [("kill", 137, "rank 1"), ("segv", 139, "rank 1"), ("exit", 1, "rank 1")])
def test_a_process_dies_at_its_step(program, what, code, ending):
    done = run(program, f"rank=1,step=7,what={what}")
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert f"fault: rank 1, step 7: {what}, as it was asked for" in said
    assert any(line.startswith("kolorun: ") and ending in line for line in said.splitlines()), said


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_flipped_bit_is_found_and_its_rank_named(program, rank):
    done = run(program, f"rank={rank},step=7,what=flip")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and f"after step 10 of the epoch rank {rank} has other weights than most of the 3 ranks" in said, said


def seconds(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return float(done.stdout.split("trained in ")[1].split()[0])


def test_a_slow_rank_makes_a_synchronous_training_slow(program):
    """Its own steps are measured and lengthened, so that a busy machine lengthens both."""
    fast, slow = seconds(run(program, "", ranks=1)), seconds(run(program, "rank=0,what=slow:50x", ranks=1))
    assert slow > 5 * fast


@pytest.mark.parametrize("fault, sentence", [
    ("rank=0,step=3,what=slow", 'wanted kill, segv, exit, hang, slow:5x or flip, got "slow"'),
    ("rank=0,what=slow:0.5x", 'got "slow:0.5x"'),
    ("rank=0,what=killer", 'got "killer"'),
    ("rank=x,what=kill", 'wanted rank=N, step=N and what='),
    ("rank=-1,what=kill", ".rank: wanted at least 0, got -1"),
    ("rank=0", 'got ""'),
    ("nonsense", 'got "nonsense"')])
def test_a_wrong_fault_is_a_sentence_and_no_fault(program, fault, sentence):
    done = run(program, fault, ranks=1)
    assert done.returncode == 0 and sentence in done.stderr, done.stderr
