"""The fuzzers on what is known: seeds made of the tests' own inputs, and what once was trouble. `make soak` lets them
search."""
import os
import subprocess
import sys
from pathlib import Path

import patience
import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("KOLO_BUILD", HERE.parent / "build")).resolve()
SLOWEST = 60  # seconds for one input, more where others wait for the cores


@pytest.mark.parametrize("source", sorted(HERE.rglob("fuzz/*_fuzz.c")), ids=lambda source: source.stem)
def test_known_inputs(source, tmp_path):
    name, home = source.stem, source.parent
    fuzzer = BUILD / "fuzz" / name
    if not fuzzer.exists():
        pytest.skip(f"{name} is not built: it needs Debian's libclang-rt-19-dev (make fuzzers)")
    seeds, found = tmp_path / name, home / "found" / name
    subprocess.run([sys.executable, home / "seeds.py", seeds], check=True)
    done = patience.run([fuzzer, "-runs=0", f"-timeout={int(SLOWEST * patience.slowness())}", f"-artifact_prefix={tmp_path}/", seeds,
                         *([found] if found.exists() else [])], capture_output=True, text=True, errors="replace", timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
