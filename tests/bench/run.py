#!/usr/bin/env python3
"""How fast Kolo is on this machine, beside others that train the same network: `make bench`.

    run.py [--peers] [--long] [--record] [--rounds N] [--output FILE] [NAME ...]

NAME chooses benches by the beginning of their name: cnn/fp32; long/ is those that --long adds, of up to 20 minutes each.

Prints a table and writes $KOLO_BUILD/bench.json. A peer lives in $KOLO_PEERS/<name> (default ~/.cache/kolo-peers), a
Python environment, and is run when it is found there; --peers installs those that are missing, pinned by peers/*.txt.
Kolo and the peer take turns, so that a machine that drifts or is busy slows both; a value is the median of all epochs
but each run's first. No figure makes this fail: it measures and says. --record also keeps the figures in the repository, each
instead of its older one: results.json, which RESULTS.md shows.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import long_runs
import results
from long_runs import Failed

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
PEERS = Path(os.environ.get("KOLO_PEERS") or Path.home() / ".cache/kolo-peers")
LIMIT = 1200  # seconds for one run
IMAGES = 10240  # an epoch of the CNN
NETS = [  # name, unit, batch, samples an epoch
    ("cnn", "images/s", 512, IMAGES),
    ("cnn", "images/s", 2048, IMAGES),
    ("resnet20", "images/s", 128, 2560),
    ("gpt", "samples/s", 32, 160),
    ("higgs", "samples/s", 64, 64000),
]
EPOCHS = 3
PROFILE_STEPS = 3
DATA = Path(os.environ.get("KOLO_DATA") or Path.home() / ".cache/kolo").resolve()
MNIST = DATA / "mnist"
RANKS, RANK_BATCH, RANK_STEPS = 8, 128, 5
LONG_EPOCH = 20  # steps: in a short epoch, the ranks' wait at its end counts for much
SMALLER_IS_BETTER = ("s", "ms", "us", "KB", "times", "loss")

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


def build(name, *sources, libraries=(), compiler="gcc"):
    """As any program of a reader's is built: with what kolo.pc says."""
    program = BUILD / "bench" / name
    program.parent.mkdir(exist_ok=True)
    environment = os.environ | {"PKG_CONFIG_PATH": str(BUILD / "lib/pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kolo"], env=environment, check=True, capture_output=True,
                           text=True).stdout.split()  # fmt: skip
    fresh = program.with_suffix(f".{os.getpid()}")  # another run may be using the old one
    subprocess.run([compiler, "-std=gnu17", "-O2", *[HERE / source for source in sources], "-o", fresh, *flags,
                    *libraries, f"-Wl,-rpath,{BUILD}/lib"], check=True)  # fmt: skip
    return str(fresh.replace(program))


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


def trained(results):
    """All epochs but each run's first, which also prepares."""
    return [epoch for result in results for epoch in result["epochs"][1:]]


def scored(results):
    return [turn for result in results for turn in result["scored"]]


def rate(turns):
    return lambda results: [turn["images"] / turn["seconds"] for turn in turns(results)]


def cpu_rate(turns, results):
    """What other programs on the machine disturb least."""
    return statistics.median(turn["images"] / turn["cpu_seconds"] for turn in turns(results))


def first_step_seconds(results):
    return [result["first_step_at"] - result["started"] for result in results]


def read_out(key, scale=1):
    return lambda results: [result[key] * scale for result in results]


def describe(unit, measure, results, turns=None):
    """What bench.json keeps of the runs of one program; `turns` finds what was counted in CPU seconds, too."""
    values = measure(results)
    about = {"value": statistics.median(values), "best": min(values) if unit in SMALLER_IS_BETTER else max(values)}
    if turns:
        about["per_cpu_second"] = cpu_rate(turns, results)
    if "peak_bytes" in results[0]:
        about["peak_bytes"] = max(result["peak_bytes"] for result in results)
    return about | ({"version": results[0]["version"]} if "version" in results[0] else {})


def row(name, unit, measure, ours, peers, turns=None):
    """One entry of bench.json: `peers` maps a name to results, or to the sentence that says why there are none."""
    measured = {peer: results for peer, results in peers.items() if isinstance(results, list)}
    found = {peer: describe(unit, measure, results, turns) for peer, results in measured.items()}
    return {"name": name, "unit": unit, **describe(unit, measure, ours, turns),
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


def rate_row(name, unit, turns, ours, peers):
    return row(name, unit, rate(turns), ours, peers, turns)


def net_peer(name, arguments):
    python = peer_python(name)
    return python and [python, HERE / f"peers/{name}_nets.py", *arguments]


def layer_times(program, net, batch, precision):
    """Milliseconds that a training step spends in each layer, on all threads together."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "profile.json"
        command = [program, f"--profile={file}", net, batch, precision, PROFILE_STEPS, 1]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=LIMIT)
        layers = json.loads(file.read_text())["layers"]
    return [{"name": layer["name"], "forward_ms": 1e3 * layer["forward"], "backward_ms": 1e3 * layer["backward"]}
            for layer in layers]  # fmt: skip


def bench_net(program, net, unit, batch, images, precision, rounds):
    """One process, all cores: training, then scoring what was trained on."""
    arguments = [net, batch, precision, max(1, images // batch), EPOCHS]
    ours, peers = take_turns([program, *arguments], {name: net_peer(name, arguments) for name in ("keras", "torch")},
                             rounds)  # fmt: skip
    name = f"{net}/{precision}/{batch}"
    layers = {"layers": layer_times(program, net, batch, precision)}
    return [
        rate_row(name, unit, trained, ours, peers) | layers,
        rate_row(f"{name}/inference", unit, scored, ours, peers),
    ]


def bench_limit(program, limit, batch, precision, rounds):
    """Beside the same step's primitives of oneDNN and nothing else, which is no training: no dropout, loss, metric,
    optimizer or data. Convolutions by each algorithm that oneDNN has for that precision."""
    steps = max(1, IMAGES // batch)
    primitives = [limit, batch, precision, steps, EPOCHS]
    limits = {"onednn_direct": primitives}
    if precision == "fp32":
        limits["onednn_winograd"] = [*primitives, "winograd"]
    ours, peers = take_turns([program, "cnn", batch, precision, steps, EPOCHS], limits, rounds)
    return [rate_row(f"limit/cnn/{precision}/{batch}", "images/s", trained, ours, peers)]


def bench_mode(program, name, options, net, unit, batch, images, rounds):
    """Kolo in a mode beside Kolo without it."""
    arguments = [net, batch, "fp32", max(1, images // batch), EPOCHS]
    ours, peers = take_turns([program, *options, *arguments], {"kolo_without": [program, *arguments]}, rounds)
    return [rate_row(f"{name}/{net}/fp32/{batch}", unit, trained, ours, peers)]


def bench_accuracy(program, rounds):
    """From the first step to 98.5 % of MNIST's test images."""
    if not (MNIST / "train-images-idx3-ubyte.gz").exists() and not (MNIST / "train-images-idx3-ubyte").exists():
        print(f"mnist/98.5%: no MNIST in {MNIST}: make data")
        return []
    arguments = ["cnn", 128, "fp32", 0, 12]
    keras = net_peer("keras", [*arguments, MNIST, 0.985])
    command = [program, "--until=0.985", f"--data={MNIST}", *arguments]
    ours, peers = take_turns(command, {"keras": keras}, rounds)
    return [row("mnist/98.5%", "s", read_out("reached"), ours, peers)]


def bench_ranks(program, rounds):
    """Ranks of one thread each: from the launcher's start to the end of the first step, and then how fast, also beside
    one process that trains with the batches of all ranks together."""
    torch = peer_python("torch")
    torchrun = torch and [torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS,
                          HERE / "peers/torch_ddp.py", RANK_BATCH, RANK_STEPS, EPOCHS]  # fmt: skip
    kolorun = [BUILD / "bin/kolorun", "-np", RANKS, program, "--first-step", "cnn", RANK_BATCH, "fp32"]
    ours, peers = take_turns([*kolorun, RANK_STEPS, EPOCHS], {"torchrun": torchrun}, rounds)
    one = [program, "--train-only", "cnn", RANKS * RANK_BATCH, "fp32", LONG_EPOCH, EPOCHS]
    together, alone = take_turns([*kolorun, LONG_EPOCH, EPOCHS], {"one_process": one}, rounds)
    name = f"cnn/ranks{RANKS}"
    return [
        row(f"{name}/first_step", "s", first_step_seconds, ours, peers),
        rate_row(f"{name}/fp32/{RANK_BATCH}", "images/s", trained, ours, peers),
        row(f"{name}/beside_one_process", "images/s", rate(trained), together, alone),
    ]


def bench_allreduce(members, ranks, rounds):
    """Kolo's all-reduce beside MPI's in the same processes. Beside threads there are as many ranks of MPI's."""
    program = build("allreduce", "allreduce.c", libraries=[f"-I{ROOT}/ext", "-pthread"], compiler="mpicc")
    by_ranks = [BUILD / "bin/kolorun", "-np", members, program]
    found = [run(by_ranks) for _ in range(rounds)]
    beside = found if ranks else [run([program, members]) for _ in range(rounds)]
    name = f"allreduce/{members}{'ranks' if ranks else 'threads'}"
    for bytes, words in (1 << 10, "1KB"), (1 << 16, "64KB"), (1 << 20, "1MB"), (1 << 24, "16MB"), (1 << 26, "64MB"):
        kolo = [result["kolo"].get(str(bytes)) for result in beside]
        mpi = [result["mpi"].get(str(bytes)) for result in found]
        yield row(f"{name}/{words}", "us", lambda calls: [1e6 * median for median, _ in calls], kolo, {"MPI_Allreduce": mpi})


def bench_overlap(batch, gigabits, rounds):
    """Two ranks that sum their gradients beside the backward pass, beside the same ranks that sum them after it. What is
    hidden is a share of the communication, in which a rank also waits for the other. Of the summation itself a rank with
    one core hides nothing. gigabits: a simulated link."""
    program = build("overlap", "overlap.c", libraries=[f"-I{ROOT}/ext"])
    found = [run([BUILD / "bin/kolorun", "-np", 2, program, batch, gigabits]) for _ in range(rounds)]
    name = f"overlap/cnn/{batch}" + (f"/{gigabits}Gb_simulated" if gigabits else "")
    after = {"after": [result["after"] for result in found]}
    beside = [result["beside"] for result in found]
    yield row(name, "images/s", lambda results: [result["median"] for result in results], beside, after)
    yield row(f"{name}/hidden", "%", lambda results: [100 * (1 - r["exposed"] / r["communication"]) for r in results],
              beside, {})  # fmt: skip


def bench_timeline(batch, rounds):
    """Training with a timeline beside the same training without one, in turns: images per CPU second."""
    program = build("timeline", "timeline.c", "nets.c")
    with tempfile.TemporaryDirectory() as folder:
        found = [run([program, batch, f"{folder}/trace.json"]) for _ in range(rounds)]
    yield row(f"timeline/cnn/{batch}", "images/CPU s", lambda results: [result["with"] for result in results], found, {})
    yield row(f"timeline/cnn/{batch}/cost", "%", lambda results: [100 * (result["cpu"] - 1) for result in results], found, {})


WHAT_IF_RECORDED, WHAT_IF_ASKED, WHAT_IF_RANKS, WHAT_IF_STEPS = (64, 256), (128, 512), (2, 4, 8), 12


def contention_of(command, count, alone):
    """How many times as long a step takes beside strangers that do the same as if the cores were only divided."""
    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(run, [command] * count))
    cores = len(os.sched_getaffinity(0))
    return statistics.mean(result["seconds"] for result in results) / alone / max(1, count / cores)


def ask_what_if(program, folder):
    """Steps of 2, 4 and 8 ranks with two batches: predicted from recordings of one rank with two other batches, and run.
    Each rank has one thread. How much ranks disturb each other is measured by two strangers side by side; and, where
    other programs use the cores, too, by as many strangers as ranks (`_beside`)."""
    one = ["env", "KOLO_THREADS=1"]
    traces = [f"{folder}/{batch}.json" for batch in WHAT_IF_RECORDED]
    alone = [run([*one, program, "train", batch, WHAT_IF_STEPS, trace]) for batch, trace in zip(WHAT_IF_RECORDED, traces)]
    stranger = [*one, program, "train", WHAT_IF_RECORDED[-1], WHAT_IF_STEPS]
    contention = {ranks: contention_of(stranger, ranks, alone[-1]["seconds"]) for ranks in WHAT_IF_RANKS}
    for batch in WHAT_IF_ASKED:
        for ranks in WHAT_IF_RANKS:
            measured = run([*one, BUILD / "bin/kolorun", "-np", ranks, program, "train", batch, WHAT_IF_STEPS])
            modelled, beside = (run([program, "predict", *traces, batch, factor])[str(ranks)]
                                for factor in (max(1, contention[2]), contention[ranks]))  # fmt: skip
            yield (batch, ranks), {"modelled": modelled, "modelled_beside": beside, "measured": measured["seconds"]}


def bench_what_if(rounds):
    """Steps that kolo_what_if() predicts, beside measured ones. The error is that of the medians over the rounds."""
    program, found = build("what_if", "what_if.c", "nets.c"), {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for asked, result in ask_what_if(program, folder):
                found.setdefault(asked, []).append(result)
    for (batch, ranks), results in found.items():
        name = f"what_if/cnn/{batch}/ranks{ranks}"
        medians = {key: statistics.median(result[key] for result in results) for key in results[0]}
        for key, value in medians.items():
            yield row(f"{name}/{key}", "ms", read_out(key, 1000), results, {})
            if key != "measured":
                error = [{"error": 100 * (value / medians["measured"] - 1)}]
                yield row(f"{name}/{key}/error", "%", read_out("error"), error, {})


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
        row("kernel/15000_lines", "s", read_out("lines"), ours, peers),
    ]


def bench_long_session():
    """One session of 10,000 cells; no peer does as much work in a cell."""
    ours = [run(["env", f"KOLO_BUILD={BUILD}", sys.executable, HERE / "long_session.py"])]
    return [
        row("session/memory_of_a_cell", "KB", read_out("kb_per_cell"), ours, {}),
        row("session/last_cell_beside_first", "times", read_out("slower"), ours, {}),
    ]


def benches(program, limit, rounds):
    """In this order: {beginning of the name: what measures it}."""
    for net, unit, batch, images in NETS:
        for precision in "fp32", "bf16":
            yield (f"{net}/{precision}/{batch}",
                   lambda n=net, u=unit, b=batch, i=images, p=precision: bench_net(program, n, u, b, i, p, rounds))  # fmt: skip
    for precision in "fp32", "bf16":
        yield f"limit/cnn/{precision}/512", lambda p=precision: bench_limit(program, limit, 512, p, rounds)
    for name, options in ("mirrored8", ["--devices=8"]), ("deterministic", ["--deterministic"]):
        for net, unit, batch, images in NETS[:1] + NETS[2:]:
            yield (f"{name}/{net}/fp32/{batch}",
                   lambda m=name, o=options, n=net, u=unit, b=batch, i=images: bench_mode(program, m, o, n, u, b, i, rounds))  # fmt: skip
    yield "mnist/98.5%", lambda: bench_accuracy(program, rounds)
    yield f"cnn/ranks{RANKS}", lambda: bench_ranks(program, rounds)
    for members, ranks in (2, True), (4, True), (8, True), (8, False):
        yield (f"allreduce/{members}{'ranks' if ranks else 'threads'}",
               lambda m=members, r=ranks: bench_allreduce(m, r, rounds))  # fmt: skip
    for batch, gigabits in (32, 0), (32, 10), (128, 0), (128, 10):
        yield (f"overlap/cnn/{batch}/{gigabits}", lambda b=batch, g=gigabits: list(bench_overlap(b, g, rounds)))
    for batch in 32, 512:
        yield f"timeline/cnn/{batch}", lambda b=batch: list(bench_timeline(b, rounds))
    yield "what_if", lambda: list(bench_what_if(rounds))
    if os.access(BUILD / "bin/kolo-kernel", os.X_OK):
        yield "kernel", lambda: bench_kernel(rounds)
        yield "session", bench_long_session
    for long_run in long_runs.RUNS:
        yield long_run.name, lambda r=long_run: long_runs.run_program(r, BUILD, DATA, machine()["isa"])
    yield "long/gpt", lambda: long_runs.run_gpt(BUILD, peer_python("torch"))


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
    if "command" in entry:
        yield f"{'':28} {results.figure_of(entry)}, {entry['seconds']:.0f} s: {entry['command']}"


def chosen(name, options):
    """Whether this bench was asked for."""
    if not options.names:
        return options.long or not name.startswith("long/")
    return any(name.startswith(wanted) or wanted.startswith(name) for wanted in options.names)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--peers", action="store_true", help="install the peers that are missing")
    options.add_argument("--long", action="store_true", help="the long runs of the programs, too")
    options.add_argument("--record", action="store_true", help="keep the figures in results.json and RESULTS.md")
    options.add_argument("--rounds", type=int, default=3, help="runs of each, in turns (default: 3)")
    options.add_argument("--output", type=Path, default=BUILD / "bench.json", help="(default: bench.json in the build)")
    options.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a bench's name (default: all)")
    options = options.parse_args()
    if options.peers:
        install_peers()
    host, entries = machine(), []
    program, limit = build("net_bench", "net_bench.c", "nets.c"), build("cnn_limit", "cnn_limit.c", libraries=["-ldnnl"])
    print(f"{host['cpu']}, {host['cores']} cores, {' '.join(host['isa'])}; load {host['load_before']} before")
    print(HEADER, flush=True)
    try:
        for name, measure in benches(program, limit, max(1, options.rounds)):
            if chosen(name, options):
                for entry in measure():
                    entries.append(entry | {"machine": host, "date": time.strftime("%Y-%m-%d")})
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
    if options.record:
        results.record(entries)


if __name__ == "__main__":
    main()
