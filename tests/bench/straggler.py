#!/usr/bin/env python3
"""What one slow worker costs the others, a row for each strategy: the batches a second of worker 0 with worker 1 ten times
slower, as a share of what they are without, and what becomes of a job of three ranks of which one is killed.

straggler.py [--rounds 5]     the best of so many rounds; each measures with and without in turn

The slow worker sleeps, so it leaves its core to the others: two workers have a core each on a machine of two cores.
"""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
STRATEGIES = ["parameter_server", "downpour", "adag", "dynsgd", "async_easgd", "async_eamsgd", "easgd", "averaging"]
STEPS, WINDOW = 400, 5


def train(strategy, *options, launcher=(), fault="", check=True):
    window = [] if strategy == "parameter_server" else ["--window", str(WINDOW)]
    command = [*launcher, BUILD / "bin/higgs", "--data", "synthetic", "--strategy", strategy, *window, "--seed", "1",
               "--steps-per-epoch", str(STEPS), "--batch-size", "64", *options]
    return subprocess.run([str(word) for word in command], check=check, env={**os.environ, "KOLO_FAULT": fault},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rate(strategy, fault):
    """Batches a second of worker 0 in the second of two epochs."""
    with tempfile.TemporaryDirectory() as folder:
        order, history = Path(folder) / "order.json", Path(folder) / "history.json"
        train(strategy, "--workers", "2", "--epochs", "2", "--no-validation", "--record", order, "--history", history, fault=fault)
        turns = json.loads(order.read_text())["epochs"][1]
        batches = sum(len(batches) for worker, batches in turns if worker == 0)
        return batches / json.loads(history.read_text())["epochs"][1]["seconds"]


def without_one(strategy):
    launcher = [BUILD / "bin/kolorun", "-np", "3", "--keep-going"]
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history.json"
        done = train(strategy, "--epochs", "1", "--history", history, launcher=launcher, fault="rank=2,step=20,what=kill", check=False)
        epoch = json.loads(history.read_text())["epochs"][0]
    gone = "worker 2 on rank 2 is gone: the other workers go on" in done.stdout
    return f"{epoch['steps']} of {STEPS} steps, exit code {done.returncode}{'' if gone else ', not told'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print("| strategy | worker 0 beside an equal one | with worker 1 ten times slower | share | one of three ranks killed |")
    print("|---|---|---|---|---|")
    for strategy in STRATEGIES:
        pairs = [(rate(strategy, ""), rate(strategy, "rank=1,what=slow:10x")) for _ in range(rounds)]
        plain, slowed = max(plain for plain, _ in pairs), max(slowed for _, slowed in pairs)
        print(f"| {strategy} | {plain:.0f} batches/s | {slowed:.0f} batches/s | {slowed / plain:.2f} | {without_one(strategy)} |", flush=True)


if __name__ == "__main__":
    main()
