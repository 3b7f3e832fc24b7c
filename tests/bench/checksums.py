#!/usr/bin/env python3
"""Prints a checksum of the weights that each program of source_code/ saves with --deterministic, however it is run.

    tests/bench/checksums.py [--build FOLDER] [--only WORD] > before.txt      … after a change again, then diff

All lines of one program and precision show the same checksum: the bits of a deterministic training do not depend on
devices and ranks. Where the CPU has no bf16, --precision bf16 is computed by the reference backend, on one step of 15
samples since its loops are slow, and the line says so.
"""
import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--data", "synthetic", "--seed", "7", "--deterministic", "--no-validation"]
PROGRAMS = {
    "cnn": ["--epochs", "1", "--steps-per-epoch", "3", "--batch-size", "240"],
    "gpt": ["--epochs", "1", "--steps-per-epoch", "3", "--batch-size", "30"],
    "cnn_mnist": ["--epochs", "1", "--steps-per-epoch", "3", "--batch-size", "330"],
    "cifar": ["--epochs", "1", "--steps-per-epoch", "3", "--batch-size", "210"],
    "cifar/resnet20": ["--network", "resnet20", "--synchronized", "--epochs", "1", "--steps-per-epoch", "2",
                       "--batch-size", "60"],
    "cifar/lars": ["--optimizer", "lars", "--l2", "1e-4", "--ghost-batch", "30", "--epochs", "1", "--steps-per-epoch", "2",
                   "--batch-size", "120"],
    "cifar10": ["--epochs", "1", "--steps-per-epoch", "3", "--batch-size", "90"],
    "mnist_tfrecord": ["--epochs", "1", "--steps-per-epoch", "3", "--batch-size", "240"],
    "vae": ["--epochs", "1", "--steps-per-epoch", "3", "--batch-size", "240"],
    "higgs": ["--epochs", "1", "--steps-per-epoch", "5", "--batch-size", "240"],
}
BY_REFERENCE = ["--steps-per-epoch", "1", "--batch-size", "15"]
LAYOUTS = {"1 device": ([], []), "3 devices": (["--devices", "3"], []), "5 ranks": ([], ["-np", "5"])}


def checksum(build, name, options, layout, environment):
    program, extra = build / "bin" / name.split("/")[0], LAYOUTS[layout][0]
    launcher = [build / "bin/kolorun", *LAYOUTS[layout][1]] if LAYOUTS[layout][1] else []
    if launcher:  # a rank's batch is its own
        at = len(options) - options[::-1].index("--batch-size")  # the last one counts
        options = [*options[:at], str(int(options[at]) // 5), *options[at + 1:]]
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.safetensors"
        records = ["--records", folder] if name == "mnist_tfrecord" else []
        command = [*launcher, program, *SMALL, *options, *extra, *records, "--save", weights]
        done = subprocess.run(list(map(str, command)), env=environment, cwd=folder, capture_output=True, text=True)
        if not weights.exists():
            return "failed: " + (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return hashlib.sha256(weights.read_bytes()).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", default="", help="programs whose name contains it")
    arguments = parser.parse_args()
    bf16 = "avx512_bf16" in Path("/proc/cpuinfo").read_text()
    for name, options in PROGRAMS.items():
        for precision in ("fp32", "bf16"):
            by_reference = precision == "bf16" and not bf16
            environment = os.environ | ({"KOLO_BACKEND": "reference"} if by_reference else {})
            run = [*options, "--precision", precision, *(BY_REFERENCE if by_reference else [])]
            for layout in LAYOUTS if arguments.only in name else ():
                found = checksum(arguments.build.resolve(), name, run, layout, environment)
                print(f"{name:16} {precision}{' by reference' if by_reference else '':13} {layout:10} {found}")
                sys.stdout.flush()


main()
