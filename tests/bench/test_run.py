"""The benchmark's driver: real ranks of Kolo's beside peers that are made up, so that what it says of them is known."""
import json
import os
import sys
import time
from pathlib import Path

import patience
import pytest

pytestmark = pytest.mark.long("it trains on eight ranks three times")
HERE = Path(__file__).resolve().parent
BENCH = "cnn/ranks8"


def bench(folder, peer=None):
    """Its exit code, table and bench.json; `peer` is the shell script that stands for torch's Python."""
    if peer:
        python = folder / "peers/torch/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\n" + peer)
        python.chmod(0o755)
    done = patience.run(
        [sys.executable, HERE / "run.py", "--rounds", "1", "--output", folder / "bench.json", BENCH],
        env=os.environ | {"KOLO_PEERS": str(folder / "peers")}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, {entry["name"]: entry for entry in json.loads((folder / "bench.json").read_text())}


def check_ours(entries):
    first, rate = entries[f"{BENCH}/first_step"], entries[f"{BENCH}/fp32/128"]
    assert (first["unit"], rate["unit"]) == ("s", "images/s")
    assert first["value"] > 0 and rate["value"] > 0 and rate["peak_bytes"] > 1e6
    assert first["machine"]["cores"] == len(os.sched_getaffinity(0)) and first["machine"]["cpu"]
    return first, rate


def test_without_peers(tmp_path):
    table, entries = bench(tmp_path)
    for entry in check_ours(entries):
        assert entry["peer"] == {} and entry["not_measured"] == {"torchrun": "not found"}
    assert table.count("torchrun not found") == 2 and "PEERS=1" in table


def test_peer_of_known_speed(tmp_path):
    """Its first step is a million seconds after this moment, and it trains 10 images in 2 s and 1 CPU second."""
    epoch = '{"seconds": 2, "images": 10, "cpu_seconds": 1}'
    result = f'{{"first_step_at": {time.time() + 1e6}, "peak_bytes": 5, "version": "Made up 1", "epochs": [{epoch}, {epoch}]}}'
    table, entries = bench(tmp_path, f"echo some words; echo '{result}'")
    first, rate = check_ours(entries)
    assert first["peer"]["torchrun"] == pytest.approx(1e6, rel=0.01) and rate["peer"] == {"torchrun": 5}
    assert rate["peers"]["torchrun"] == {"value": 5, "best": 5, "per_cpu_second": 10, "peak_bytes": 5, "version": "Made up 1"}
    lines = {line.split()[0]: line.split() for line in table.splitlines() if line.startswith(BENCH)}
    said = float(lines[f"{BENCH}/first_step"][-1])
    assert said == pytest.approx(first["peer"]["torchrun"] / first["value"], rel=0.01) and said > 1
    assert float(lines[f"{BENCH}/fp32/128"][-3]) == pytest.approx(rate["value"] / 5, rel=0.01)


def test_peer_that_fails(tmp_path):
    table, entries = bench(tmp_path, "echo no module named torch >&2; exit 3")
    for entry in check_ours(entries):
        assert entry["peer"] == {} and entry["not_measured"]["torchrun"] == "failed: exit code 3: no module named torch"
    assert "failed: exit code 3" in table
