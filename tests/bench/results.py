"""The figures that the repository keeps: results.json, the newest of each bench, and RESULTS.md, which shows them.

`run.py --record` and gpu/bench.py write both, and `results.py bench-gpu.json`, of figures brought from a machine that
keeps nothing; nobody else does.
"""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STORE, PAGE = HERE / "results.json", HERE / "RESULTS.md"
PEERS = {"keras": "Keras", "torch": "PyTorch", "torchrun": "PyTorch", "jax": "JAX", "kolo_without": "Kolo without",
         "one_process": "one process", "onednn_primitives": "oneDNN's primitives",
         "ipykernel": "IPython's kernel"}  # fmt: skip
SLOWEST = 8  # layers of a network that are listed

HEAD = """# Figures

Written by `make bench RECORD=1` (the long runs: `LONG=1`; some: `NAMES='long/cifar cnn/fp32'`), which replaces what it
measured anew. Nobody writes here by hand.
"""


def figure(value):
    digits = 4 if abs(value) < 1 else 2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}"


def figure_of(entry):
    """A long run's figure, and whether it is what was wanted."""
    told = f"{figure(entry['value'])} {entry['unit']}"
    if not entry.get("wanted"):
        return told
    met = {True: "met", False: "NOT MET", None: "not judged"}[entry["met"]]
    return f"{told} (wanted: {entry['wanted']}: {met})"


def table(titles, rows):
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def times(entry, about):
    """How many times as fast as the peer, by medians."""
    smaller = entry["unit"] in ("s", "ms", "KB", "times", "loss")
    return about["value"] / entry["value"] if smaller else entry["value"] / about["value"]


def beside(entry):
    told = [f"{PEERS.get(peer, peer)}{', ' + about['variant'] + ':' if 'variant' in about else ''} {figure(about['value'])} "
            f"({times(entry, about):.2f} ×)" for peer, about in entry["peers"].items()]  # fmt: skip
    return ", ".join(told)


def megabytes(entry):
    peaks = [f"{PEERS.get(peer, peer)} {about['peak_bytes'] / 1e6:,.0f}"
             for peer, about in entry["peers"].items() if "peak_bytes" in about]  # fmt: skip
    if "peak_bytes" not in entry:
        return ""
    return f"{entry['peak_bytes'] / 1e6:,.0f}" + (f" ({', '.join(peaks)})" if peaks else "")


def long_runs(entries):
    if not entries:
        return ""
    rows = [[e["name"], figure_of(e), f"{e['seconds']:,.0f}", f"`{e['command']}`", e["on"]] for e in entries]
    curves = "".join(
        f"\n`{e['name']}`, the loss of each epoch: "
        + "; ".join(f"{name} {', '.join(f'{loss:.3f}' for loss in losses)}" for name, losses in e["losses"].items()) + ".\n"
        for e in entries if "losses" in e
    )  # fmt: skip
    return "\n## How far the programs come\n\n" + table(["run", "figure", "s", "program", "on"], rows) + curves


def speeds(entries):
    if not entries:
        return ""
    rows = [[e["name"], e["unit"], figure(e["value"]), beside(e), megabytes(e), e["on"]] for e in entries]
    titles = ["bench", "unit", "Kolo", "beside (Kolo is … times as good)", "peak MB", "on"]
    return "\n## How fast\n\n" + table(titles, rows)


def gpus(entries):
    if not entries:
        return ""
    rows = [[e["name"].removeprefix("gpu/"), e["unit"], figure(e["value"]), beside(e),
             *(figure(e["floor"][key]) if e["floor"][key] else "" for key in ("by_bytes", "by_operations")), e["on"]]
            for e in entries]  # fmt: skip
    titles = ["bench", "unit", "Kolo", "beside (Kolo is … times as good)", "at most, by bytes", "by matrix products", "on"]
    return ("\n## How fast on a GPU\n\nBy `make bench-gpu`; tests/bench/gpu/floors.py says what can be had at most.\n\n"
            + table(titles, rows))  # fmt: skip


def layers(entries):
    rows = []
    for entry in entries:
        took = sorted(entry.get("layers", []), key=lambda layer: -layer["forward_ms"] - layer["backward_ms"])
        told = [f"{layer['name']} {layer['forward_ms']:.1f} + {layer['backward_ms']:.1f}" for layer in took[:SLOWEST]]
        if told:
            rows.append([entry["name"], ", ".join(told)])
    if not rows:
        return ""
    return ("\n## A step by layer\n\nMilliseconds of all threads together, forward + backward, the slowest first.\n\n"
            + table(["bench", "layers"], rows))  # fmt: skip


def machines(entries):
    """A letter for each machine and day that figures are from, put into entry["on"]; the list that explains them."""
    found = []
    for entry in entries:
        host = entry["machine"]
        told = host.get("gpu") or f"{host['cpu']}, {host['cores']} cores, {' '.join(host['isa'])}"
        told += f"; {entry['date']}"
        found += [told] if told not in found else []
        entry["on"] = chr(ord("a") + found.index(told))
    return "\n" + "".join(f"- {chr(ord('a') + i)}: {told}\n" for i, told in enumerate(found))


def page(entries):
    entries = [dict(entry) for entry in entries]
    where = machines(entries)
    long = [entry for entry in entries if "command" in entry]
    on_gpus = [entry for entry in entries if "gpu" in entry["machine"]]
    rest = [entry for entry in entries if entry not in long + on_gpus]
    return HEAD + long_runs(long) + speeds(rest) + gpus(on_gpus) + layers(rest) + where


def record(entries):
    old = json.loads(STORE.read_text()) if STORE.exists() else []
    fresh = {entry["name"] for entry in entries}
    kept = [entry for entry in old if entry["name"] not in fresh] + entries
    kept.sort(key=lambda entry: entry["name"])
    lines = ",\n".join(json.dumps(entry) for entry in kept)  # a line a bench, so that what changed can be seen
    STORE.write_text(f"[\n{lines}\n]\n")
    PAGE.write_text(page(kept))
    print(f"written: {PAGE}")


if __name__ == "__main__":
    record([entry for file in sys.argv[1:] for entry in json.loads(Path(file).read_text()) if "value" in entry])
