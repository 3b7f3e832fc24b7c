#!/usr/bin/env python3
"""`make soak`: for so many minutes every fuzzer runs, each on a core of its own and with low priority, while the torture
suite is run again and again. soak.py [MINUTES]. What is found lies in $KOLO_BUILD/fuzz/found; the exit code is 1 then.

What a fuzzer learns is kept in $KOLO_BUILD/fuzz/corpus: the next soak goes on from there.
"""
import os
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
LONGEST = 8192  # bytes of an input
SLOWEST = 10  # seconds for one
SUITES = ["kernel/test_torture.py", "kernel/test_survival.py", "kernel/test_long_session.py"]


def start(fuzzer, seconds):
    home = next(TESTS.rglob(f"fuzz/{fuzzer.name}.c")).parent
    corpus, found = BUILD / "fuzz/corpus" / fuzzer.name, BUILD / "fuzz/found" / fuzzer.name
    known = home / "found" / fuzzer.name
    found.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, home / "seeds.py", corpus], check=True)
    log = (found / "log").open("w")
    return subprocess.Popen(
        ["nice", "-n", "19", fuzzer, f"-max_total_time={seconds}", f"-timeout={SLOWEST}", f"-max_len={LONGEST}",
         "-print_final_stats=1", f"-artifact_prefix={found}/", corpus, *([known] if known.exists() else [])],
        stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)  # fmt: skip


def say(fuzzer, status):
    words = (BUILD / "fuzz/found" / fuzzer.name / "log").read_text(errors="replace").splitlines()
    runs = [line.split()[-1] for line in words if line.startswith("stat::number_of_executed_units")]
    print(f"{fuzzer.name}: {runs[0] if runs else '?'} inputs, {'clean' if status == 0 else f'exit code {status}'}")
    if status:
        print(*words[-40:], sep="\n")


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    end = time.monotonic() + minutes * 60
    fuzzers = sorted(path for path in (BUILD / "fuzz").glob("*_fuzz") if path.is_file())
    running = {fuzzer: start(fuzzer, int(minutes * 60)) for fuzzer in fuzzers}
    bad = not fuzzers
    rounds = 0
    while time.monotonic() < end and not bad:
        bad = subprocess.run([sys.executable, ROOT / "tests/run", *SUITES], env={**os.environ, "KOLO_BUILD": str(BUILD)},
                             stdout=None if rounds == 0 else subprocess.DEVNULL).returncode != 0  # fmt: skip
        rounds += 1
    print(f"the cells that try to break the kernel: {rounds} rounds, {'the last one failed' if bad else 'clean'}")
    for fuzzer, process in running.items():
        status = process.wait(timeout=max(60, end - time.monotonic() + 120))
        say(fuzzer, status)
        bad |= status != 0
    sys.exit(bad)


if __name__ == "__main__":
    main()
