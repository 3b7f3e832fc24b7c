#!/usr/bin/env python3
"""What one slow worker costs the others, a row for each strategy: the batches a second of worker 0 of two, with worker 1
as fast and ten times slower (straggler.c), and what becomes of a job of three ranks of which one is killed.

straggler.py [--rounds 3]     the median of the shares of so many rounds; each measures with and without in turn
"""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
STRATEGIES = ["parameter_server", "downpour", "adag", "dynsgd", "async_easgd", "async_eamsgd", "easgd", "local_sgd"]
STEPS = 400  # of the job of which a rank is killed


def compile_straggler(folder):
    target = Path(folder) / "straggler"
    subprocess.run(["gcc", "-std=gnu17", "-O2", f"-I{ROOT}/ext/include", f"-I{ROOT}/ext", ROOT / "tests/bench/straggler.c",
                    "-o", target, f"-L{BUILD}/lib", "-lkolo", f"-Wl,-rpath,{BUILD}/lib"], check=True)  # fmt: skip
    return target


def rates(program, strategy):
    done = subprocess.run([program, strategy], check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in done.stdout.split()]


def without_one(strategy):
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history.json"
        command = [BUILD / "bin/kolorun", "-np", 3, "--keep-going", "--fault", "rank=2,step=20,what=kill", BUILD / "bin/higgs",
                   "--data", "synthetic", "--strategy", strategy, "--epochs", 1, "--seed", 1, "--steps-per-epoch", STEPS,
                   "--history", history]  # fmt: skip
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        epoch = json.loads(history.read_text())["epochs"][0]
    gone = "worker 2 on rank 2 is gone: the other workers go on" in done.stdout
    return f"{epoch['steps']} of {STEPS} steps, exit code {done.returncode}{'' if gone else ', not told'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print("| strategy | worker 0 beside an equal one | beside one ten times slower | share | one of three ranks killed |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        program = compile_straggler(folder)
        for strategy in STRATEGIES:
            measured = sorted((rates(program, strategy) for _ in range(rounds)), key=lambda pair: pair[1] / pair[0])
            plain, slowed = measured[rounds // 2]
            print(f"| {strategy} | {plain:.1f} batches/s | {slowed:.1f} batches/s | {slowed / plain:.2f} | "
                  f"{without_one(strategy)} |", flush=True)


if __name__ == "__main__":
    main()
