#!/usr/bin/env python3
"""What a training step gives a GPU, on a machine without one: each launch and the bytes that it moves, beside the floor of
floors.py. `make launches`.

    launches.py [--all] [NET/PRECISION/BATCH ...]

The tests' shim runs the plugin and writes down what it is given (tests/ext/backend/cuda/shim/trace.h): at the batch that
is asked for without computing anything, which shows launches, grids and what libraries move; and computing at two small
batches, which shows what our own kernels touch. That grows with the batch along a line, which is drawn on to the batch
asked for. Times are modelled, not measured: of a launch what it costs by itself, and the longer one of its bytes and its
operations at a data sheet's rates. A library may launch more than one kernel for a call, and its workspace is not seen.
"""
import argparse
import functools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import floors  # noqa: E402

BUILD = Path(os.environ.get("KOLO_BUILD", HERE.parents[2] / "build")).resolve()
DEVICES = {"H100": 3.35e12, "H200": 4.8e12}  # bytes a second; data sheets of the SXM boards
PEAKS = {"bf16": 989e12, "fp16": 989e12, "tf32": 494e12, "fp32": 67e12}  # operations a second, of either
LAUNCH = 1.5e-6  # seconds from one kernel of a recorded step to the next
SMALL = {"cnn": (32, 64), "resnet20": (8, 16), "gpt": (2, 4)}
USUAL = [f"cnn/{precision}/{batch}" for precision in ("bf16", "tf32") for batch in (512, 2048, 16384)]
USUAL += ["resnet20/bf16/128", "resnet20/bf16/2048", "gpt/bf16/32", "gpt/bf16/256"]
PARTS = ("filter_gradient", "first_backward")  # each block writes as much, and move_all reads it
STEPS = 4  # the one before the last is looked at: everything was allocated by then, and a step follows it


def run(program, net, precision, batch, dry):
    """The records of one step."""
    with tempfile.NamedTemporaryFile("r") as file:
        environment = os.environ | {"LD_LIBRARY_PATH": str(BUILD / "shim/lib"), "KOLO_BACKEND": "cuda", "KOLO_NVTX": "1",
                                    "KOLO_SHIM_TRACE": file.name, "KOLO_SHIM_MEMORY": "141000000000",
                                    "KOLO_SHIM_DRY": "1" if dry else "0"}  # fmt: skip
        done = subprocess.run([program, "--train-only", net, str(batch), precision, str(STEPS), "1"], env=environment,
                              capture_output=True, text=True)  # fmt: skip
        records = [json.loads(line) for line in file]
    begins = [i for i, record in enumerate(records) if "gather(" in record["what"]]
    if len(begins) != STEPS:
        sys.exit(f"launches.py: wanted {STEPS} steps, got {len(begins)}: {done.stderr.strip()}")
    # A step begins where it takes its numbers, a little before its samples are gathered.
    first, last = ([i for i in range(end) if "take_step_parameters(" in records[i]["what"]][-1] for end in begins[-2:])
    return records[first:last]


@functools.cache
def computed(program, net, precision):
    return [run(program, net, precision, size, False) for size in SMALL[net]]


def drawn_on(small, large, sizes, batch, key):
    """Of a launch at two small batches, at the one asked for."""
    slope = (large[key] - small[key]) / (sizes[1] - sizes[0])
    return max(0, small[key] + slope * (batch - sizes[0]))


def is_ours(record):
    return record["what"].startswith("kolo::")


def step(program, net, precision, batch):
    """The step's launches, with the bytes and operations of that batch."""
    sizes = SMALL[net]
    launches = run(program, net, precision, batch, True)
    waiting = {}
    for pair in zip(*computed(program, net, precision)):
        waiting.setdefault((pair[0]["range"], name_of(pair[0])), []).append(pair)
    parts = 0  # bytes of gradients' parts that are more than at the larger of the small batches
    for record in launches:
        record["known"] = not is_ours(record)
        pairs = waiting.get((record["range"], name_of(record)))
        if not is_ours(record) or not pairs:
            continue
        small, large = pairs[0]
        record |= {key: drawn_on(small, large, sizes, batch, key) for key in ("read", "written", "asked", "operations")}
        record["known"] = True
        if name_of(record) in PARTS:
            record["written"] = large["written"] * math.prod(record["blocks"]) / math.prod(large["blocks"])
            parts += record["written"] - large["written"]
        if name_of(record) == "move_all":
            record["read"] = large["read"] + parts
        waiting[record["range"], name_of(record)] = pairs[1:]
    return launches


def name_of(record):
    """A kernel's without its arguments, their types and the namespace."""
    name = re.sub(r"\(.*", "", record["what"].replace("(kolo_rule_kind)", "")).replace("kolo::", "")
    return re.sub(r"<.*", "", name) if is_ours(record) else re.sub(r"\d+x\d+x\d+ ?", "", name)


def seconds(record, precision, bandwidth):
    moved = (record["read"] + record["written"]) / bandwidth
    return LAUNCH + max(moved, record["operations"] / PEAKS[precision])


def megabytes(count):
    return f"{count / 1e6:.2f}"


ROW = "{:24.24} {:44.44} {:>15} {:>7} {:>9} {:>9} {:>8} {:>7} {:>8}".format


def print_step(launches, net, precision, batch, all_of_it):
    kept = [r for r in launches if "host" not in r["what"]]
    moved = sum(r["read"] + r["written"] for r in kept)
    least = floors.floor(net, batch, precision, True)
    print(f"\n{net} {precision} batch {batch}: {len(launches)} launches and copies; moves {moved / 1e6:.1f} MB, "
          f"floor {least['bytes'] / 1e6:.1f} MB: {moved / least['bytes']:.2f} x; products "
          f"{sum(r['operations'] for r in launches) / 1e9:.2f} G, floor {least['operations'] / 1e9:.2f} G")  # fmt: skip
    for device, bandwidth in DEVICES.items():
        time = sum(seconds(r, precision, bandwidth) for r in launches)
        best = max(least["bytes"] / bandwidth, least["operations"] / PEAKS[precision])
        print(f"    modelled on an {device}: {time * 1e6:.0f} us a step, {batch / time / 1e6:.3f} M samples/s; "
              f"of it launches {len(launches) * LAUNCH * 1e6:.0f} us; floor {best * 1e6:.0f} us")  # fmt: skip
    if not all_of_it:
        return
    print(ROW("layer", "launch", "blocks", "threads", "read MB", "write MB", "G op", "us H100", "asked x"))
    for r in launches:
        times = f"{r['asked'] / (r['read'] + r['written']):.1f}" if is_ours(r) and r["known"] and r["read"] else ""
        print(ROW(r["range"] or "-", name_of(r) if is_ours(r) else r["what"], "x".join(str(b) for b in r["blocks"]),
                  r["threads"], megabytes(r["read"]) if r["known"] else "?", megabytes(r["written"]) if r["known"] else "?",
                  f"{r['operations'] / 1e9:.2f}", f"{seconds(r, precision, DEVICES['H100']) * 1e6:.1f}", times))  # fmt: skip


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--all", action="store_true", help="every launch, not the sums alone")
    options.add_argument("--program", help="what net_bench.c became (default: it is built)")
    options.add_argument("names", nargs="*", metavar="NET/PRECISION/BATCH", default=USUAL)
    chosen = options.parse_args()
    if not chosen.program:
        import run as bench  # noqa: PLC0415

        chosen.program = bench.build("net_bench", "net_bench.c", "nets.c")
    for name in chosen.names:
        net, precision, batch = [*name.split("/"), "", ""][:3]
        if net not in SMALL or not batch.isdecimal():
            sys.exit(f"launches: wanted names as {USUAL[0]} of the nets {', '.join(SMALL)}, got {name}")
        print_step(step(chosen.program, net, precision, int(batch)), net, precision, int(batch), chosen.all)


if __name__ == "__main__":
    main()
