#!/usr/bin/env python3
"""How fast Kolo is on this machine, beside others that train the same network: `make bench`.

    run.py [--peers] [--rounds N] [NAME ...]        NAME chooses benches by the beginning of their name: cnn/fp32

Prints a table and writes $KOLO_BUILD/bench.json. A peer lives in $KOLO_PEERS/<name> (default ~/.cache/kolo-peers), a
Python environment, and is run when it is found there; --peers installs those that are missing, pinned by peers/*.txt.
Kolo and the peer take turns, so that a machine that drifts or is busy slows both; a value is the median of all epochs
but each run's first. No figure makes this fail: it measures and says.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
PEERS = Path(os.environ.get("KOLO_PEERS") or Path.home() / ".cache/kolo-peers")
LIMIT = 600  # seconds for one run
IMAGES = 10240  # an epoch
EPOCHS = 3
RANKS, RANK_BATCH, RANK_STEPS = 8, 128, 5

# ---- What is measured against what ----


def peer_python(name):
    """The peer's interpreter, or None."""
    python = PEERS / name / "bin/python"
    return str(python) if os.access(python, os.X_OK) else None


def install_peers():
    for pins in sorted((HERE / "peers").glob("*.txt")):
        home = PEERS / pins.stem
        if not peer_python(pins.stem):
            print(f"installing {pins.stem} into {home}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin/pip", "install", "--quiet", "--requirement", pins], check=True)


def build_cnn_bench():
    """As any program of a reader's is built: with what kolo.pc says."""
    program = BUILD / "bench/cnn_bench"
    program.parent.mkdir(exist_ok=True)
    environment = os.environ | {"PKG_CONFIG_PATH": str(BUILD / "lib/pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kolo"], env=environment, check=True, capture_output=True,
                           text=True).stdout.split()  # fmt: skip
    subprocess.run(["gcc", "-std=gnu17", "-O2", HERE / "cnn_bench.c", "-o", program, *flags, f"-Wl,-rpath,{BUILD}/lib"],
                   check=True)  # fmt: skip
    return str(program)


class Failed(Exception):
    pass


def run(command):
    """The JSON that a run prints, with `started` for those that are timed from there."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMP_", "PYTHON"))}
    started = time.time()
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                              timeout=LIMIT, env=environment, stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"ran longer than {LIMIT} s") from None
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if '{"first_step_at"' in line]
    if done.returncode != 0 or len(lines) != 1:
        words = done.stderr.strip().splitlines() or ["no result"]
        raise Failed(f"exit code {done.returncode}: {words[-1][:200]}")
    return json.loads(lines[0]) | {"started": started}


# ---- What a number is ----


def later_epochs(results):
    """All but each run's first, which also prepares."""
    return [epoch for result in results for epoch in result["epochs"][1:]]


def images_per_second(results):
    return [epoch["images"] / epoch["seconds"] for epoch in later_epochs(results)]


def images_per_cpu_second(results):
    """What other programs on the machine disturb least."""
    return statistics.median(epoch["images"] / epoch["cpu_seconds"] for epoch in later_epochs(results))


def first_step_seconds(results):
    return [result["first_step_at"] - result["started"] for result in results]


def row(name, unit, measure, best, ours, peers):
    """One entry of bench.json: `peers` maps a name to results, or to the sentence that says why there are none."""
    found = {peer: results for peer, results in peers.items() if isinstance(results, list)}
    entry = {"name": name, "unit": unit, "value": statistics.median(measure(ours)), "best": best(measure(ours)),
             "peak_bytes": max(result["peak_bytes"] for result in ours), "peer": {}, "peers": {}}  # fmt: skip
    if best is max and "/ranks" not in name:
        entry["per_cpu_second"] = images_per_cpu_second(ours)
    for peer, results in found.items():
        entry["peer"][peer] = statistics.median(measure(results))
        about = entry["peers"][peer] = {"best": best(measure(results)), "version": results[0].get("version"),
                                        "peak_bytes": max(result["peak_bytes"] for result in results)}  # fmt: skip
        if "per_cpu_second" in entry:
            about["per_cpu_second"] = images_per_cpu_second(results)
    entry["not_measured"] = {peer: why for peer, why in peers.items() if peer not in found}
    return entry


def take_turns(ours, peers, rounds):
    """Results of our command and of each peer's ({name: command or None}), one run of each after the other."""
    results, others = [], {name: [] if command else "not found" for name, command in peers.items()}
    for _ in range(rounds):
        results.append(run(ours))
        for name, command in peers.items():
            if not isinstance(others[name], list):
                continue
            try:
                others[name].append(run(command))
            except Failed as why:
                others[name] = f"failed: {why}"
    return results, others


# ---- The benches ----


def bench_cnn(program, batch, precision, rounds):
    """One process, all cores."""
    arguments = [batch, precision, max(1, IMAGES // batch), EPOCHS]
    keras = peer_python("keras")
    ours, peers = take_turns(
        [program, *arguments], {"keras": keras and [keras, HERE / "peers/keras_cnn.py", *arguments]}, rounds
    )
    return [row(f"cnn/{precision}/{batch}", "images/s", images_per_second, max, ours, peers)]


def bench_ranks(program, rounds):
    """Ranks of one thread each: from the launcher's start to the first step, and then how fast."""
    torch = peer_python("torch")
    torchrun = torch and [torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS,
                          HERE / "peers/torch_ddp.py", RANK_BATCH, RANK_STEPS, EPOCHS]  # fmt: skip
    kolorun = [BUILD / "bin/kolorun", "-np", RANKS, program, RANK_BATCH, "fp32", RANK_STEPS, EPOCHS]
    ours, peers = take_turns(kolorun, {"torchrun": torchrun}, rounds)
    name = f"cnn/ranks{RANKS}"
    return [
        row(f"{name}/first_step", "s", first_step_seconds, min, ours, peers),
        row(f"{name}/fp32/{RANK_BATCH}", "images/s", images_per_second, max, ours, peers),
    ]


def benches(program, rounds):
    """In this order: {beginning of the name: what measures it}."""
    for batch in 512, 2048:
        for precision in "fp32", "bf16":
            yield f"cnn/{precision}/{batch}", lambda b=batch, p=precision: bench_cnn(program, b, p, rounds)
    yield f"cnn/ranks{RANKS}", lambda: bench_ranks(program, rounds)


# ---- Telling ----


def machine():
    """The processor, the cores this process may use, and the instructions that decide how fast a network trains."""
    fields = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16")
    flags = fields.get("flags", "").split()
    return {"cpu": fields.get("model name", os.uname().machine), "cores": len(os.sched_getaffinity(0)),
            "isa": [flag for flag in wanted if flag in flags], "load_before": round(os.getloadavg()[0], 1)}  # fmt: skip


def times_as_fast(unit, ours, theirs):
    return theirs / ours if unit == "s" else ours / theirs


def figure(value):
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def table_lines(entry):
    line = f"{entry['name']:24} {entry['unit']:9} {figure(entry['value']):>8} {entry['peak_bytes'] / 1e6:7.0f} MB"
    if not entry["peer"] and not entry["not_measured"]:
        yield line
    for peer, value in entry["peer"].items():
        about, unit = entry["peers"][peer], entry["unit"]
        ratios = [times_as_fast(unit, entry["value"], value), times_as_fast(unit, entry["best"], about["best"])]
        if "per_cpu_second" in about:
            ratios.append(entry["per_cpu_second"] / about["per_cpu_second"])
        yield (f"{line}   {peer:9} {figure(value):>8} {about['peak_bytes'] / 1e6:7.0f} MB   "
               + "".join(f"{ratio:9.2f}" for ratio in ratios))  # fmt: skip
    for peer, why in entry["not_measured"].items():
        yield f"{line}   {peer:9} {why}"


HEADER = f"""{'':24} {'':9} {'Kolo':>8} {'peak':>10}   {'peer':9} {'':8} {'peak':>10}   Kolo is … times as fast, by
{'':24} {'':9} {'':8} {'':10}   {'':9} {'':8} {'':10}      median     best CPU time"""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--peers", action="store_true", help="install the peers that are missing")
    options.add_argument("--rounds", type=int, default=3, help="runs of each, in turns (default: 3)")
    options.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a bench's name (default: all)")
    options = options.parse_args()
    if options.peers:
        install_peers()
    host, program, entries = machine(), build_cnn_bench(), []
    print(f"{host['cpu']}, {host['cores']} cores, {' '.join(host['isa'])}; load {host['load_before']} before")
    print(HEADER, flush=True)
    try:
        for name, measure in benches(program, max(1, options.rounds)):
            if not options.names or any(name.startswith(wanted) or wanted.startswith(name) for wanted in options.names):
                for entry in measure():
                    entries.append(entry | {"machine": host})
                    print(*table_lines(entry), sep="\n", flush=True)
    except Failed as why:
        sys.exit(f"tests/bench/run.py: {name}: {why}")
    if any("not found" in why for entry in entries for why in entry["not_measured"].values()):
        print(f"peers are looked for in {PEERS}; make bench PEERS=1 installs them there")
    target = BUILD / "bench.json"
    target.with_suffix(".tmp").write_text(json.dumps(entries, indent=2) + "\n")
    target.with_suffix(".tmp").replace(target)
    print(f"written: {target}")


if __name__ == "__main__":
    main()
