"""The fuzzers on what is known: the tests' own cells, and the inputs that once were trouble. `make soak` lets them search."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent / "fuzz"
BUILD = Path(os.environ.get("KOLO_BUILD", HERE.parents[2] / "build")).resolve()
SLOWEST = 20  # seconds for one input


@pytest.mark.parametrize("name", [path.stem for path in sorted(HERE.glob("*_fuzz.c"))])
def test_known_inputs(name, tmp_path):
    fuzzer = BUILD / "fuzz" / name
    if not fuzzer.exists():
        pytest.skip(f"{name} is not built: it needs Debian's libclang-rt-19-dev (make fuzzers)")
    subprocess.run([sys.executable, HERE / "seeds.py", tmp_path], check=True)
    done = subprocess.run([fuzzer, "-runs=0", f"-timeout={SLOWEST}", f"-artifact_prefix={tmp_path}/", tmp_path,
                           HERE / "found" / name], capture_output=True, text=True, errors="replace", timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
