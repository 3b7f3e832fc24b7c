"""The lessons' programs as their tests start them: alone, mirrored and under kolorun, on small data in MNIST's format.

The build is $KOLO_BUILD (default: build). Every run has a limit and leaves no process behind, or fails.
"""
import array
import json
import os
import random
import re
import signal
import struct
import subprocess
import time
import uuid
from pathlib import Path

import patience

ROOT = Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("KOLO_BUILD", "build")).resolve()
PROGRAM, KOLORUN = BUILD / "bin/cnn_mnist", BUILD / "bin/kolorun"
CIFAR = BUILD / "bin/cifar"
LIMIT = 90  # seconds for one run; most take one, but the machine may be busy
HAS_BF16 = "avx512bw" in Path("/proc/cpuinfo").read_text()

# ---- Data ----


def idx(array_bytes, *sizes, kind=8):
    """A file in LeCun's IDX format: magic number (type and dimensions), sizes, bytes."""
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, kind, len(sizes), *sizes) + array_bytes


def draw(samples, side, classes, rng, prototypes):
    """Pictures that are a class's prototype with as much noise: a network learns them, and not at once."""
    labels = bytes(rng.randrange(classes) for _ in range(samples))
    pixels = b"".join(
        bytes((a + b) // 2 for a, b in zip(prototypes[label], rng.randbytes(side * side))) for label in labels
    )
    return pixels, labels


def write_data(folder, train=311, test=100, side=28, classes=10):
    """The four files of a data set; the default size is a multiple of nothing (311 is prime)."""
    rng = random.Random(7)
    prototypes = [rng.randbytes(side * side) for _ in range(classes)]
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, samples in ("train", train), ("t10k", test):
        pixels, labels = draw(samples, side, classes, rng, prototypes)
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(idx(pixels, samples, side, side))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(labels, samples))
    return folder


# ---- Runs ----


def environment(**variables):
    """This process's without what would steer Kolo or Open MPI; None removes a variable."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMPI_", "PMIX_", "PRTE_"))}
    kept |= {"KOLO_BACKEND": "onednn"} | variables
    return {k: v for k, v in kept.items() if v is not None}


def command(*options, ranks=None, launcher=(), program=PROGRAM):
    launcher = [KOLORUN, "-np", ranks] if ranks is not None else launcher
    return [str(word) for word in [*launcher, program, *options]]


class Job:
    """One run in a session of its own; every process that it brings about carries a mark in its environment."""

    def __init__(self, *options, ranks=None, launcher=(), env=None, program=PROGRAM, **popen):
        self.mark, self.ranks = uuid.uuid4().hex, int(ranks) if str(ranks).isdigit() else 1
        popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
        self.process = subprocess.Popen(
            command(*options, ranks=ranks, launcher=launcher, program=program), env=environment(KOLO_TEST_MARK=self.mark, **(env or {})),
            start_new_session=True, **popen,
        )

    def left(self, program=""):
        """The living processes of the run: {pid: command line}, all of them or those of one program."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state == "Z" or self.mark.encode() not in (folder / "environ").read_bytes():
                    continue
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if not program or line.startswith(str(program)):
                    found[int(folder.name)] = line
            except (OSError, IndexError):
                pass
        return found

    def wait_for(self, wanted, seconds):
        end = patience.now() + seconds
        while not (value := wanted()):
            assert patience.now() < end, f"did not come about in {seconds} s; there are: {self.left()}"
            time.sleep(0.02)
        return value

    def wait_for_output(self, text, seconds=LIMIT):
        """Reads stdout, which must be a pipe, up to `text`."""
        got = b""
        end = patience.now() + seconds
        while text not in got:
            assert patience.now() < end, f"no {text!r} in {seconds} s: {got!r}"
            piece = os.read(self.process.stdout.fileno(), 4096)
            assert piece, f"ended before {text!r}: {got!r}, {self.process.stderr.read()!r}"
            got += piece
        return got

    def finish(self, limit=LIMIT):
        """Waits for its end: exit code (as a shell has it), output. What outlives it is ended, and a failure."""
        try:
            out, err = patience.communicate(self.process, limit)
        except subprocess.TimeoutExpired:
            self.end_all()
            raise
        try:
            self.wait_for(lambda: not self.left(), 5)
        finally:
            self.end_all()
        self.code = self.process.returncode if self.process.returncode >= 0 else 128 - self.process.returncode
        self.out, self.err = (out or b"").decode(), (err or b"").decode()
        return self

    def end_all(self):
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def run(*options, limit=LIMIT, **job):
    return Job(*options, **job).finish(limit)


# ---- Results ----

TIMES = ("seconds", "images_per_second")


class Trained:
    """What a training left: its history, without what no two runs share, and its weights."""

    def __init__(self, history, weights):
        whole = json.loads(history.read_text())
        self.ranks, self.devices = whole["ranks"], whole["devices"]
        self.strategy, self.workers = whole.get("strategy"), whole.get("workers")
        self.timed_epochs = whole["epochs"]
        self.epochs = [{k: v for k, v in epoch.items() if k not in TIMES} for epoch in whole["epochs"]]
        self.bytes = weights.read_bytes()

    def values(self):
        """Every weight, in the file's order: safetensors is a length, a JSON header and float32s."""
        (header,) = struct.unpack("<Q", self.bytes[:8])
        return array.array("f", self.bytes[8 + header:])


def train(folder, data, *options, ranks=None, epochs=2, seed=3, **job):
    """A training that must go well; its files are written under `folder`."""
    name = uuid.uuid4().hex
    history, weights = folder / f"{name}.json", folder / f"{name}.safetensors"
    result = run("--data", data, "--epochs", epochs, "--seed", seed, "--history", history, "--save", weights, *options,
                 ranks=ranks, **job)
    assert result.code == 0, f"exit code {result.code}: {result.err}{result.out}"
    assert result.err == "", result.err
    return Trained(history, weights)


def complaints(err):
    """The lines of stderr, without kolorun's tags; its report on the failed rank repeats that rank's last words. Open MPI
    sometimes has words of its own about ranks that end while others end the job."""
    lines = [re.sub(r"^\[1,\d+\]<stderr>:", "", line) for line in err.splitlines()]
    return [line for line in lines if "ORTE_ERROR_LOG" not in line]
