#!/usr/bin/env python3
"""How fast Kolo is on this machine, beside others that train the same network: `make bench`.

    run.py [--peers] [--rounds N] [--output FILE] [NAME ...]        NAME chooses benches by the beginning of their name: cnn/fp32

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
LIMIT = 1200  # seconds for one run
IMAGES = 10240  # an epoch
EPOCHS = 3
RANKS, RANK_BATCH, RANK_STEPS = 8, 128, 5
SMALLER_IS_BETTER = ("s", "ms", "KB", "times")

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
    fresh = program.with_suffix(f".{os.getpid()}")  # another run may be using the old one
    subprocess.run(["gcc", "-std=gnu17", "-O2", HERE / "cnn_bench.c", "-o", fresh, *flags, f"-Wl,-rpath,{BUILD}/lib"],
                   check=True)  # fmt: skip
    return str(fresh.replace(program))


class Failed(Exception):
    pass


def run(command):
    """The line of JSON that a run prints, with `started` for those that are timed from there."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMP_", "PYTHON", "JUPYTER"))}
    started = time.time()
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                              timeout=LIMIT, env=environment, stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"ran longer than {LIMIT} s") from None
    lines = [line[line.index('{"'):] for line in done.stdout.splitlines() if '{"' in line]
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


def read_out(key, scale=1):
    return lambda results: [result[key] * scale for result in results]


def describe(unit, measure, results):
    """What bench.json keeps of the runs of one program."""
    values = measure(results)
    about = {"value": statistics.median(values), "best": min(values) if unit in SMALLER_IS_BETTER else max(values)}
    if unit == "images/s":
        about["per_cpu_second"] = images_per_cpu_second(results)
    if "peak_bytes" in results[0]:
        about["peak_bytes"] = max(result["peak_bytes"] for result in results)
    return about | ({"version": results[0]["version"]} if "version" in results[0] else {})


def row(name, unit, measure, ours, peers):
    """One entry of bench.json: `peers` maps a name to results, or to the sentence that says why there are none."""
    found = {peer: describe(unit, measure, results) for peer, results in peers.items() if isinstance(results, list)}
    return {"name": name, "unit": unit, **describe(unit, measure, ours),
            "peer": {peer: about["value"] for peer, about in found.items()}, "peers": found,
            "not_measured": {peer: why for peer, why in peers.items() if peer not in found}}  # fmt: skip


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
    return [row(f"cnn/{precision}/{batch}", "images/s", images_per_second, ours, peers)]


def bench_ranks(program, rounds):
    """Ranks of one thread each: from the launcher's start to the first step, and then how fast."""
    torch = peer_python("torch")
    torchrun = torch and [torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS,
                          HERE / "peers/torch_ddp.py", RANK_BATCH, RANK_STEPS, EPOCHS]  # fmt: skip
    kolorun = [BUILD / "bin/kolorun", "-np", RANKS, program, RANK_BATCH, "fp32", RANK_STEPS, EPOCHS]
    ours, peers = take_turns(kolorun, {"torchrun": torchrun}, rounds)
    name = f"cnn/ranks{RANKS}"
    return [
        row(f"{name}/first_step", "s", first_step_seconds, ours, peers),
        row(f"{name}/fp32/{RANK_BATCH}", "images/s", images_per_second, ours, peers),
    ]


def bench_kernel(rounds):
    """Kolo's kernel for C beside IPython's."""
    kernels = "JUPYTER_PATH=" + str(BUILD / "share/jupyter")
    ipykernel, script = peer_python("ipykernel"), HERE / "kernel_bench.py"
    ours, peers = take_turns(
        ["env", kernels, sys.executable, script, "kolo", "c"],
        {"ipykernel": ipykernel and [ipykernel, script, "python3", "python"]}, rounds,
    )  # fmt: skip
    return [
        row("kernel/start_to_first_result", "s", read_out("start"), ours, peers),
        row("kernel/cell", "ms", read_out("cell", 1000), ours, peers),
        row("kernel/30_lines", "ms", read_out("long_cell", 1000), ours, peers),
        row("kernel/30_lines/p95", "ms", read_out("long_cell_p95", 1000), ours, peers),
        row("kernel/complete", "ms", read_out("complete", 1000), ours, peers),
        row("kernel/100000_lines", "s", read_out("lines"), ours, peers),
    ]


def bench_long_session():
    """One session of 10,000 cells; no peer does as much work in a cell."""
    ours = [run(["env", f"KOLO_BUILD={BUILD}", sys.executable, HERE / "long_session.py"])]
    return [
        row("session/memory_of_a_cell", "KB", read_out("kb_per_cell"), ours, {}),
        row("session/last_cell_beside_first", "times", read_out("slower"), ours, {}),
    ]


def benches(program, rounds):
    """In this order: {beginning of the name: what measures it}."""
    for batch in 512, 2048:
        for precision in "fp32", "bf16":
            yield f"cnn/{precision}/{batch}", lambda b=batch, p=precision: bench_cnn(program, b, p, rounds)
    yield f"cnn/ranks{RANKS}", lambda: bench_ranks(program, rounds)
    if os.access(BUILD / "bin/kolo-kernel", os.X_OK):
        yield "kernel", lambda: bench_kernel(rounds)
        yield "session", bench_long_session


# ---- Telling ----


def machine():
    """The processor, the cores this process may use, and the instructions that decide how fast a network trains."""
    fields = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16")
    flags = fields.get("flags", "").split()
    return {"cpu": fields.get("model name", os.uname().machine), "cores": len(os.sched_getaffinity(0)),
            "isa": [flag for flag in wanted if flag in flags], "load_before": round(os.getloadavg()[0], 1)}  # fmt: skip


def figure(value):
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def megabytes(about):
    return f"{about['peak_bytes'] / 1e6:,.0f} MB" if "peak_bytes" in about else ""


def ratios(unit, ours, theirs):
    """How many times as fast Kolo is, by each thing that both have."""
    for key in "value", "best", "per_cpu_second":
        if key in ours and key in theirs:
            smaller = unit in SMALLER_IS_BETTER and key != "per_cpu_second"
            yield theirs[key] / ours[key] if smaller else ours[key] / theirs[key]


LINE = "{:28} {:8} {:>8} {:>8}   {:9} {:>8} {:>8}  {:>7} {:>7} {:>9}".format
HEADER = (LINE("", "", "Kolo", "peak", "peer", "", "peak", "Kolo is", "… times", "as fast by") + "\n"
          + LINE("", "", "", "", "", "", "", "median", "best", "CPU time"))  # fmt: skip


def table_lines(entry):
    ours = (entry["name"], entry["unit"], figure(entry["value"]), megabytes(entry))
    for peer, about in entry["peers"].items():
        times = [f"{ratio:.2f}" for ratio in ratios(entry["unit"], entry, about)]
        yield LINE(*ours, peer, figure(about["value"]), megabytes(about), *times, *[""] * (3 - len(times)))
    for peer, why in entry["not_measured"].items():
        yield LINE(*ours, peer, *[""] * 5).rstrip() + " " + why
    if not entry["peers"] and not entry["not_measured"]:
        yield LINE(*ours, *[""] * 6).rstrip()


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--peers", action="store_true", help="install the peers that are missing")
    options.add_argument("--rounds", type=int, default=3, help="runs of each, in turns (default: 3)")
    options.add_argument("--output", type=Path, default=BUILD / "bench.json", help="(default: bench.json in the build)")
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
    if not entries:
        sys.exit(f"tests/bench/run.py: wanted the beginning of a bench's name, got {' '.join(options.names)}")
    if any("not found" in why for entry in entries for why in entry["not_measured"].values()):
        print(f"peers are looked for in {PEERS}; make bench PEERS=1 installs them there")
    unfinished = options.output.with_name(options.output.name + ".tmp")
    unfinished.write_text(json.dumps(entries, indent=2) + "\n")
    unfinished.replace(options.output)
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
