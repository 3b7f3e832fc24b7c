#!/usr/bin/env python3
"""How fast Kolo is on this machine's GPU, beside PyTorch and JAX, and beside what the device can do: `make bench-gpu`.

    bench.py [--limit SECONDS] [--kolo COMMAND] [--output FILE] [--record] [--try] [NAME ...]

NAME chooses by the beginning of a name: cnn/bf16. Needs a python3, with PyTorch and JAX or without, and nothing else:
peers are looked for in $KOLO_PEERS/torch and /jax, as in ../run.py, then in the python3 on the path.

What a figure is: whole epochs on the host's clock, after some that warm up, until their loss and accuracy are known; the
median of all. Of each peer all variants are tried that there is time for, and the fastest counts. Floors: floors.py,
with the ceilings that ceilings.py measures first. The most important comes first; what is measured is written at once.
--try: everything in tiny on the CPU, to see that it works.
"""
import argparse
import ctypes
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import floors  # noqa: E402

BUILD = Path(os.environ.get("KOLO_BUILD", HERE.parents[2] / "build")).resolve()
PEERS = Path(os.environ.get("KOLO_PEERS") or Path.home() / ".cache/kolo-peers")
LIMIT = 540  # seconds for all
KOLO_SECONDS, KOLO_EPOCHS, KOLO_LIMIT = 1.5, 200, 60  # of one row: to measure each of both, at most so many, to be done
ROW = 6  # seconds that a row of Kolo's takes, which later groups keep
GRACE = 5  # before a peer is ended that has had its time
AGAIN = 75  # a peer's exit code: see peers/gpu_items.py


@dataclass
class Group:
    """Rows that one process of a peer measures: batches, the first the most important; samples an epoch; seconds."""

    net: str
    precision: str
    batches: list
    samples: int
    seconds: dict

    @property
    def name(self):
        return f"{self.net}/{self.precision}"


CNN, RESNET, GPT = ([2048, 512, 16384], 131072), ([2048, 128], 32768), ([256, 32], 8192)
GROUPS = [
    Group("cnn", "bf16", *CNN, {"torch": 130, "jax": 50}),
    Group("cnn", "tf32", *CNN, {"torch": 70, "jax": 40}),
    Group("resnet20", "bf16", *RESNET, {"torch": 70, "jax": 40}),
    Group("gpt", "bf16", *GPT, {"torch": 60, "jax": 40}),
    Group("cnn", "fp32", *CNN, {"torch": 45, "jax": 30}),
    Group("resnet20", "tf32", *RESNET, {"torch": 45, "jax": 30}),
    Group("gpt", "tf32", *GPT, {"torch": 45, "jax": 30}),
]
# Those that every batch is tried with at once, those that it is tried with later, those of the first batch alone.
VARIANTS = {
    "torch": (["graph", "compile"], ["autotune"], ["reduce", "eager"]),
    "jax": (["scan"], ["steps"], []),
}  # fmt: skip


def items(peer, group):
    """All first variants of a batch after the other, then the later ones of every batch."""
    first, later, once = VARIANTS[peer]
    if peer == "jax" and group.net == "gpt":
        later = ["cudnn", *later]
    found = [(batch, variant) for batch in group.batches for variant in first]
    found += [(batch, variant) for variant in later for batch in group.batches]
    found += [(group.batches[0], variant) for variant in once]
    return [f"{batch}:{variant}" for batch, variant in found]


# ---- The machine ----


def find_device():
    """The first GPU's name, and why there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "there is no NVIDIA driver here (no libcuda.so.1)"
    count, name = ctypes.c_int(), ctypes.create_string_buffer(96)
    failed = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if failed or count.value == 0:
        return None, f"the driver shows no device (error {failed})"
    cuda.cuDeviceGetName(name, len(name), 0)
    return name.value.decode(), None


def peer_python(peer):
    own = PEERS / peer / "bin/python"
    return str(own) if os.access(own, os.X_OK) else shutil.which("python3") or sys.executable


def peer_environment(trial):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KOLO_")}
    return environment | ({"KOLO_PEER_DEVICE": "cpu", "JAX_PLATFORMS": "cpu"} if trial else {})


def last_words(file):
    file.seek(0)
    lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it said nothing"


# ---- Runs ----


def kolo_row(kolo, group, batch, seconds, trial):
    """The rates of training and of inference, or why there are none; `seconds` are left."""
    if seconds < 2:
        return "no time left"
    command = [*kolo, f"--seconds={0.1 if trial else KOLO_SECONDS}", group.net, batch, group.precision,
               group.samples // batch, KOLO_EPOCHS]  # fmt: skip
    environment = os.environ | ({} if trial else {"KOLO_BACKEND": "cuda"})
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                              timeout=min(seconds, KOLO_LIMIT), env=environment, stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired as why:
        return f"ran longer than {why.timeout:.0f} s"
    except OSError as why:
        return str(why)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(lines) != 1:
        words = [line for line in done.stderr.splitlines() if line.strip()] or ["no result"]
        return f"exit code {done.returncode}: {words[-1].strip()[:300]}"
    told = json.loads(lines[0])
    return {"training": rates(told["epochs"][1:] or told["epochs"]), "inference": rates(told["scored"])}


def rates(turns):
    found = [turn["images"] / turn["seconds"] for turn in turns]
    return {"value": statistics.median(found), "best": max(found), "epochs": len(found)}


def run_peer(peer, group, wanted, seconds, trial):
    """Its lines; one that fails or is not reached says so. Whatever breaks the process, what comes after it is tried."""
    begin = time.monotonic()
    if seconds < 2 * GRACE:
        yield from failures(wanted, "no time left")
        return
    while wanted:
        left = max(seconds - (time.monotonic() - begin), 0)
        ready, done = False, 0
        with tempfile.TemporaryFile() as words:
            command = [peer_python(peer), HERE.parent / f"peers/{peer}_gpu.py", group.net, group.precision, group.samples,
                       f"{left:.0f}", *wanted]  # fmt: skip
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=words, text=True,
                                       env=peer_environment(trial), stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
            timer = threading.Timer(left + GRACE, end, [process])
            timer.start()
            try:
                for line in process.stdout:
                    told = json.loads(line) if line.startswith("{") else {}
                    ready = ready or "ready" in told
                    if "variant" in told:
                        yield told
                        done += "failed" in told or told["purpose"] == "inference"
                late = process.wait() != 0 and not timer.is_alive()
            finally:
                timer.cancel()
                end(process)  # it, or what it may have left
            why = last_words(words)
        if process.returncode == 0:
            return
        if process.returncode == AGAIN and done:
            wanted = wanted[done:]
            continue
        why = "no time left" if late else f"exit code {process.returncode}: {why}"
        broken, wanted = (wanted[done:], []) if late or not ready else (wanted[done : done + 1], wanted[done + 1 :])
        yield from failures(broken, why)


def failures(broken, why):
    for item in broken:
        batch, variant = item.split(":")
        yield {"batch": int(batch), "variant": variant, "failed": why}


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def measure_ceilings(trial):
    command = [peer_python("torch"), str(HERE / "ceilings.py")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=peer_environment(trial))
        return json.loads(done.stdout) if done.returncode == 0 else {"failed": (done.stderr.splitlines() or ["?"])[-1][:300]}
    except (OSError, ValueError, subprocess.TimeoutExpired) as why:
        return {"failed": str(why)[:300]}


# ---- What is kept ----


def new_entries(group, ceilings, machine):
    """{(batch, purpose): an entry of bench-gpu.json}."""
    return {
        (batch, purpose): {
            "name": f"gpu/{group.name}/{batch}" + ("/inference" if purpose == "inference" else ""),
            "unit": "samples/s" if group.net == "gpt" else "images/s", "peer": {}, "peers": {}, "variants": {},
            "not_measured": {}, "machine": machine, "date": time.strftime("%Y-%m-%d"),
            "floor": floors.floor(group.net, batch, group.precision, purpose == "training")
            | floors.fastest(group.net, batch, group.precision, purpose == "training", ceilings),
        }
        for batch in group.batches for purpose in ("training", "inference")
    }  # fmt: skip


def take_kolo(entries, batch, told):
    for purpose in "training", "inference":
        entries[batch, purpose] |= {"failed": told} if isinstance(told, str) else told[purpose]


def take_peer(entries, peer, told):
    """A line of a peer's; the fastest of its variants stands for it, when scoring in whatever batches: Kolo's are its own
    affair there, and the same in every row."""
    batch, variant = told["batch"], f"{peer}/{told['variant']}"
    if "failed" in told:
        for purpose in "training", "inference":
            if variant not in entries[batch, purpose]["variants"]:
                entries[batch, purpose]["not_measured"][variant] = told["failed"]
        return
    entry = entries[batch, told["purpose"]]
    about = rates([{"images": told["images"], "seconds": seconds} for seconds in told["seconds"]])
    about |= {key: told[key] for key in ("version", "peak_bytes", "prepared") if key in told}
    about |= {"variant": told["variant"], "batch": batch}
    entry["variants"][variant] = about
    beside = [entry] if told["purpose"] == "training" else [entries[key] for key in entries if key[1] == "inference"]
    for entry in beside:
        if about["value"] > entry["peer"].get(peer, 0):
            entry["peers"][peer], entry["peer"][peer] = about, about["value"]


def write(file, groups):
    entries = [entry for group in groups for entry in group.values() if "value" in entry or "failed" in entry or entry["variants"]]
    unfinished = file.with_name(file.name + ".tmp")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    unfinished.write_text(json.dumps(entries, indent=1) + "\n")
    unfinished.replace(file)


# ---- Telling ----


def short(rate):
    return "" if not rate else f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.1f} k" if rate >= 1e4 else f"{rate:.0f}"


LINE = "{:27} {:>9}  {:30} {:>8}  {:>9} {:>9} {:>9}".format


def table_lines(entry):
    ours, floor = entry.get("value"), entry["floor"]
    known = [floor[key] for key in ("by_bytes", "by_operations") if floor[key]]
    of_floor = f"{100 * ours / min(known):.0f} %" if ours and known else ""
    first = [entry["name"].removeprefix("gpu/"), short(ours)]
    last = [short(floor["by_bytes"]), short(floor["by_operations"]), of_floor]
    for peer, about in sorted(entry["peers"].items(), key=lambda pair: -pair[1]["value"]):
        times = f"{ours / about['value']:.2f}" if ours else ""
        batch = "" if str(about["batch"]) in entry["name"].split("/") else f" in {about['batch']}"
        yield LINE(*first, f"{peer}/{about['variant']}{batch} {short(about['value'])}", times, *last)
        first, last = ["", ""], ["", "", ""]
    if first[0]:
        yield LINE(*first, "", "", *last).rstrip()
    if "failed" in entry:
        yield f"    Kolo: {entry['failed']}"


def print_table(machine, ceilings, groups):
    print(f"\n{machine['gpu']}; " + (", ".join(f"{key} {ceilings[key] / 1e12:.3g} T" for key in ("copy", "bf16", "tf32", "fp32"))
          if "copy" in ceilings else f"no ceilings: {ceilings['failed']}"))  # fmt: skip
    print(LINE("samples a second", "Kolo", "beside", "times", "bytes", "products", "of floor"))
    for group in groups:
        for entry in group.values():
            print(*table_lines(entry), sep="\n")
    why = {f"{variant}: {text}" for group in groups for entry in group.values() for variant, text in entry["not_measured"].items()}
    print(*sorted(why), sep="\n", flush=True)


# ---- All of it ----


def chosen(group, names):
    return not names or any(group.name.startswith(name) or name.startswith(group.name) for name in names)


def measure(options, groups, device):
    end_at = time.monotonic() + options.limit
    machine, told = {"gpu": device}, []
    ceilings = measure_ceilings(options.trial)
    print(f"{device}: {json.dumps(ceilings)}", flush=True)
    for number, group in enumerate(groups):
        entries = new_entries(group, ceilings, machine)
        told.append(entries)
        for batch in group.batches:
            take_kolo(entries, batch, kolo_row(options.kolo, group, batch, end_at - time.monotonic(), options.trial))
            write(options.output, told)
        for peer in VARIANTS:
            kept = ROW * sum(len(later.batches) for later in groups[number + 1 :])
            seconds = min(group.seconds[peer], end_at - time.monotonic() - kept - GRACE)
            for line in run_peer(peer, group, items(peer, group), seconds, options.trial):
                take_peer(entries, peer, line)
                write(options.output, told)
        for entry in entries.values():
            print(*table_lines(entry), sep="\n", flush=True)
    print_table(machine, ceilings, told)
    return [entry for entries in told for entry in entries.values() if "value" in entry]


def parse():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for all (default: {LIMIT})")
    options.add_argument("--kolo", type=shlex.split, help="what runs net_bench.c (default: it is built)")
    options.add_argument("--output", type=Path, default=BUILD / "bench-gpu.json", help="(default: bench-gpu.json in the build)")
    options.add_argument("--record", action="store_true", help="keep the figures in results.json and RESULTS.md")
    options.add_argument("--try", action="store_true", dest="trial", help="everything in tiny on the CPU")
    options.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name (default: all)")
    return options.parse_args()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # peers end with it
    options = parse()
    device, why = ("the CPU", None) if options.trial else find_device()
    if not device:
        print(f"bench-gpu: SKIPPED, nothing was measured: {why}", flush=True)
        return
    groups = [group for group in GROUPS if chosen(group, options.names)]
    if not groups:
        sys.exit(f"bench-gpu: wanted the beginning of {', '.join(group.name for group in GROUPS)}, got {' '.join(options.names)}")
    if options.trial:
        groups = [Group(group.net, group.precision, [4, 2], 8, dict.fromkeys(VARIANTS, 60)) for group in groups]
    if not options.kolo:
        import run

        options.kolo = [run.build("net_bench", "net_bench.c", "nets.c")]
    entries = measure(options, groups, device)
    print(f"written: {options.output}")
    if options.record:
        import results

        results.record(entries)


if __name__ == "__main__":
    main()
