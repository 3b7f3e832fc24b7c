"""Faults by chance, as `make faults` has them: some of them, another choice in each run of the tests."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import patience
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.long("jobs of which each waits some seconds for a rank that does not come")
@pytest.mark.alone("it counts the segments in /dev/shm")
@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")
def test_each_job_ends_as_promised():
    done = patience.run([sys.executable, str(ROOT / "tests/faults.py"), "--runs", "12"], stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True, env=dict(os.environ), timeout=140)
    print(done.stdout)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong: ")]
    assert done.returncode == 0, "\n".join([*wrong, done.stdout])
