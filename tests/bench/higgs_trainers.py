#!/usr/bin/env python3
"""The five trainers of dist-keras's HIGGS experiment, a row each: weighted F1 on the test rows, mean and range over seeds,
and the seconds of training, beside the figures that were published.

higgs_trainers.py [--workers 4] [--epochs 20] [--seeds 3]     with KOLO_DATA as for the program `higgs`
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()

# Batch and window are the experiment's; the elastic strategies' ρ and rate are the library's defaults. Published: F1 and
# seconds of 12 workers on 250,000 rows (cerndb/dist-keras at e12af45).
TRAINERS = [
    ("single", ["--batch-size", "64"], 0.8253, 126.4),
    ("DOWNPOUR", ["--strategy", "downpour", "--batch-size", "62", "--window", "5"], 0.8188, 39.9),
    ("asynchronous EASGD", ["--strategy", "async_easgd", "--batch-size", "10", "--window", "30"], 0.8040, 11.6),
    ("asynchronous EAMSGD", ["--strategy", "async_eamsgd", "--batch-size", "10", "--window", "10"], 0.8008, 17.8),
    ("EASGD", ["--strategy", "easgd", "--batch-size", "64", "--window", "1"], 0.7487, 46.6),
]


def run(options, seed, epochs, workers):
    """The F1 at the end, and the seconds of training."""
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history.json"
        spread = ["--workers", str(workers)] if "--strategy" in options else []
        subprocess.run([BUILD / "bin/higgs", *options, *spread, "--epochs", str(epochs), "--seed", str(seed),
                        "--history", history], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        said = json.loads(history.read_text())
    return said["epochs"][-1]["val_f1_score_weighted"], sum(epoch["seconds"] for epoch in said["epochs"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print("| trainer | F1: mean | range | training | published F1 | published training |\n|---|---|---|---|---|---|")
    for name, options, f1, seconds in TRAINERS:
        got = [run(options, seed, given.epochs, given.workers) for seed in range(1, given.seeds + 1)]
        scores, times = zip(*got)
        print(f"| {name} | {statistics.mean(scores):.4f} | {min(scores):.4f} to {max(scores):.4f} | "
              f"{statistics.median(times):.1f} s | {f1:.4f} | {seconds} s |", flush=True)


if __name__ == "__main__":
    main()
