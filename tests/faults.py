#!/usr/bin/env python3
"""`make faults`: a fault that is drawn by chance strikes one of 2 to 8 ranks at a moment that is drawn by chance, again and
again. Each job must end as promised: with the right exit code, the rank and the cause named, and nothing left behind.

faults.py [--runs 200] [--seed N] [--stall-limit 4] prints a table, a row for each fault. The exit code is 1 if a job
ended in another way, whose output is then shown. The same seed draws the same faults.
"""
import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
STEPS = 60  # of fault_ranks.c
LONGEST = 120  # seconds that a job may take before it counts as hanging
SETTLES = 2  # seconds in which processes and segments of a job that has ended may still go
PLACE = r"\(kolo_fit( with kolo_distributed)?, fault_ranks\.c:\d+\)"

# What is said of rank R: kolorun's own sentence, or that of a rank that waits for R or compares calls with it.
STALLED = rf"rank R has not come for [\d.]+ s \(KOLO_STALL_LIMIT\): ranks? [\d, ]+ waits? in allreduce of .* {PLACE}"
WHERE = r"fault: rank R, step \d+: "
PROMISED = {
    "kill": (137, [r"^kolorun: rank R \(.*\): killed by signal 9"]),
    "segv": (139, [r"^kolorun: rank R \(.*\): killed by signal 11"]),
    "exit": (1, [r"^kolorun: rank R \(.*\): exited with code 0 before MPI_Finalize"]),
    "exit before kolo_init": (1, [r"^kolorun: rank R \(.*\)(: exited with code 0 before MPI_Finalize| had ended with code 0 before)"]),
    "hang": (1, [STALLED]),
    "drop": (1, [STALLED]),
    "cut": (1, [STALLED]),
    "skip": (1, [rf"all ranks must make the same call: .*\brank R (called )?allreduce of .* {PLACE}"]),
}


def compile_ranks(folder):
    target = Path(folder) / "fault_ranks"
    subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT}/ext/include",
                    TESTS / "ext/runtime/fault_ranks.c", "-o", target, f"-L{BUILD}/lib", "-lkolo",
                    f"-Wl,-rpath,{BUILD}/lib"], check=True)  # fmt: skip
    return target


def processes_with(mark):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if state != "Z" and mark.encode() in (folder / "environ").read_bytes():
                found.append(f"process {folder.name}: {(folder / 'cmdline').read_bytes().decode(errors='replace')}")
        except (OSError, IndexError):
            pass
    return found


def orphaned_segments(before):
    """Segments of shared memory that have come since `before`, and that no process maps. Folders there are no segments:
    they are of jobs that somebody else runs, since this one's folder is in its TMPDIR."""
    new = {str(path) for path in Path("/dev/shm").iterdir() if path.is_file()} - before
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text()
        except OSError:
            continue
        new = {path for path in new if path not in text}
    return [f"segment {path}" for path in sorted(new)]


def left_behind(mark, before, folder):
    """What is left of a job after a moment."""
    end = time.monotonic() + SETTLES
    while True:
        left = processes_with(mark) + orphaned_segments(before) + [f"file {path}" for path in Path(folder).iterdir()]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


class Run:
    """One job with one fault."""

    def __init__(self, chance, program, stall_limit):
        self.fault = chance.choice(sorted(PROMISED))
        self.ranks = chance.randint(2, 8)
        self.rank = chance.randrange(self.ranks)
        self.step = chance.randrange(STEPS)
        self.program, self.stall_limit = program, stall_limit
        self.wrong = []

    def command(self):
        command = [BUILD / "bin/kolorun", "-np", self.ranks, "--stall-limit", self.stall_limit]
        if self.fault != "exit before kolo_init":
            command += ["--fault", f"rank={self.rank},step={self.step},what={self.fault}"]
        return [str(word) for word in [*command, self.program]]

    def environment(self, mark, folder):
        leaves = {"LEAVES_BEFORE_INIT": str(self.rank)} if self.fault == "exit before kolo_init" else {}
        name, value = mark.split("=")
        return {**os.environ, **leaves, name: value, "TMPDIR": folder}

    def go(self):
        mark, before = "KOLO_TEST_MARK=" + uuid.uuid4().hex, {str(path) for path in Path("/dev/shm").iterdir()}
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(self.command(), env=self.environment(mark, folder), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            watchdog = threading.Timer(LONGEST, process.kill)
            watchdog.start()
            self.read(process)
            watchdog.cancel()
            self.check(process.wait(), left_behind(mark, before, folder))
        return self

    def read(self, process):
        """Reads all output. The time to the end counts from the fault's own line."""
        self.said, struck = "", time.monotonic()
        for line in process.stdout:
            self.said += line
            if "fault: rank" in line and "kolorun:" not in line:
                struck = time.monotonic()
        process.wait()
        self.seconds = time.monotonic() - struck

    def check(self, code, left):
        wanted, sentences = PROMISED[self.fault]
        if code != wanted:
            self.wrong.append(f"exit code {code}, wanted {wanted}")
        if self.fault != "exit before kolo_init":
            sentences = [WHERE + self.fault, *sentences]
        for sentence in sentences:
            pattern = re.sub(r"\bR\b", str(self.rank), sentence)
            if not re.search(pattern, self.said, re.MULTILINE):
                self.wrong.append(f"no sentence like: {pattern}")
        self.wrong += [f"left behind: {what}" for what in left]

    def show(self):
        what = f"{self.fault} of rank {self.rank} of {self.ranks} at step {self.step}"
        print(f"\n{' '.join(self.command())}", *(f"wrong: {what}: {why}" for why in self.wrong), self.said, sep="\n", flush=True)


def table(runs):
    lines = ["| fault | jobs | as promised | to the end: median | worst |", "|---|---|---|---|---|"]
    for fault in PROMISED:
        mine = [run for run in runs if run.fault == fault]
        seconds = [run.seconds for run in mine]
        if mine:
            lines.append(f"| {fault} | {len(mine)} | {sum(not run.wrong for run in mine)} | "
                         f"{statistics.median(seconds):.2f} s | {max(seconds):.2f} s |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--stall-limit", type=int, default=4)
    given = parser.parse_args()
    chance, runs = random.Random(given.seed), []
    print(f"{given.runs} jobs, seed {given.seed}, --stall-limit {given.stall_limit}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        program = compile_ranks(folder)
        for _ in range(given.runs):
            runs.append(Run(chance, program, given.stall_limit).go())
            if runs[-1].wrong:
                runs[-1].show()
    print(table(runs))
    wrong = sum(bool(run.wrong) for run in runs)
    print(f"{len(runs) - wrong} of {len(runs)} jobs ended as promised")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
