"""The bench on a GPU, without one: a Kolo and peers that are made up, so that what it says of them is known."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "gpu"))
import floors  # noqa: E402

KOLO = """#!/bin/sh
echo '{"epochs": [{"seconds": 9, "images": 8}, {"seconds": 2, "images": 8}], "scored": [{"seconds": 1, "images": 8}]}'
"""
CEILINGS = '{"device": "made up", "copy": 1e12, "bf16": 1e14, "tf32": 5e13, "fp32": 1e13}'
LINE = '''
import sys, time
if "ceilings" in sys.argv[1]: print(%r), sys.exit()
print('{"ready": true}')
for item in sys.argv[6:]:
    batch, variant = item.split(":")
    def tell(rest): print('{"batch": %%s, "variant": "%%s", %%s}' %% (batch, variant, rest), flush=True)
    def both(seconds):
        for purpose in "training", "inference":
            tell('"purpose": "%%s", "images": 8, "seconds": [%%s, %%s], "version": "Made up 1"' %% (purpose, seconds, seconds))
''' % CEILINGS  # fmt: skip


def bench(folder, *options, **peers):
    """Its output and the entries of bench-gpu.json; a peer is Python that stands for its interpreter."""
    kolo = folder / "kolo"
    kolo.write_text(KOLO)
    kolo.chmod(0o755)
    for name, code in peers.items():
        python = folder / f"peers/{name}/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!{sys.executable}\n{code}")
        python.chmod(0o755)
    done = subprocess.run(
        [sys.executable, HERE / "gpu/bench.py", "--try", "--kolo", kolo, "--output", folder / "bench.json", *options, "cnn/bf16"],
        env=os.environ | {"KOLO_PEERS": str(folder / "peers")}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, {entry["name"]: entry for entry in json.loads((folder / "bench.json").read_text())}


def test_without_a_device(tmp_path):
    """Whatever this machine has: a mask hides it."""
    done = subprocess.run([sys.executable, HERE / "gpu/bench.py", "--kolo", "false"], capture_output=True, text=True,
                          env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, timeout=60)  # fmt: skip
    assert done.returncode == 0 and "SKIPPED, nothing was measured: " in done.stdout


def test_the_fastest_variant_counts(tmp_path):
    table, entries = bench(
        tmp_path, torch=LINE + '    both({"graph": 4, "compile": 1, "autotune": 2}.get(variant, 8))\n', jax=LINE + "    both(16)\n"
    )
    first = entries["gpu/cnn/bf16/4"]
    assert (first["value"], first["peer"]) == (4, {"torch": 8, "jax": 0.5})
    assert first["peers"]["torch"]["variant"] == "compile" and first["variants"]["torch/graph"]["value"] == 2
    assert set(first["variants"]) == {f"torch/{v}" for v in ("graph", "compile", "autotune", "reduce", "eager")} | {"jax/scan", "jax/steps"}
    assert "torch/reduce" not in entries["gpu/cnn/bf16/2"]["variants"] and first["not_measured"] == {}
    assert entries["gpu/cnn/bf16/2/inference"]["value"] == 8
    assert first["floor"]["by_bytes"] == pytest.approx(4 * 1e12 / first["floor"]["bytes"])
    line = next(line for line in table.splitlines() if line.startswith("cnn/bf16/4 "))
    assert line.split()[1:5] == ["4", "torch/compile", "8", "0.50"]


def test_what_breaks_a_peer_is_said_and_the_rest_is_tried(tmp_path):
    crash = '    if variant == "compile": sys.exit("Segmentation fault, say")\n'
    table, entries = bench(tmp_path, torch=LINE + crash + "    both(1)\n", jax="import no_such_module\n")
    for batch in 4, 2:
        about = entries[f"gpu/cnn/bf16/{batch}"]
        assert about["not_measured"]["torch/compile"] == "exit code 1: Segmentation fault, say"
        assert {"torch/graph", "torch/autotune"} <= set(about["variants"]) and about["peer"]["torch"] == 8
        assert about["not_measured"]["jax/scan"] == "exit code 1: ModuleNotFoundError: No module named 'no_such_module'"
    assert "torch/compile: exit code 1" in table


def test_an_item_that_failed(tmp_path):
    """Another process goes on behind it."""
    told = '''    if batch == "4": tell('"failed": "out of memory"'), sys.exit(75)\n    both(1)\n'''
    _, entries = bench(tmp_path, torch=LINE + told, jax=LINE + told)
    assert entries["gpu/cnn/bf16/4"]["peer"] == {} and entries["gpu/cnn/bf16/2"]["peer"] == {"torch": 8, "jax": 8}
    failed = entries["gpu/cnn/bf16/4/inference"]["not_measured"]
    assert set(failed) == {f"torch/{v}" for v in ("graph", "compile", "autotune", "reduce", "eager")} | {"jax/scan", "jax/steps"}
    assert set(failed.values()) == {"out of memory"}


def test_a_peer_has_its_time_and_no_more(tmp_path):
    slow = '    both(1) if item == "4:graph" else time.sleep(1000)\n'
    _, entries = bench(tmp_path, "--limit", "18", torch=LINE + slow, jax=LINE + "    both(1)\n")
    first = entries["gpu/cnn/bf16/4"]
    assert first["peer"] == {"torch": 8}
    assert first["not_measured"]["torch/compile"] == first["not_measured"]["jax/scan"] == "no time left"


def test_kolo_fails(tmp_path):
    (tmp_path / "sub").mkdir()
    table, entries = bench(tmp_path, "--kolo", "false", torch=LINE + "    both(1)\n", jax=LINE + "    both(1)\n")
    assert entries["gpu/cnn/bf16/4"]["failed"] == "exit code 1: no result" and "Kolo: exit code 1" in table


@pytest.mark.parametrize("net, there, both", [("cnn", 23984896, 71565312), ("resnet20", 81626368, 243994368)])
def test_operations_are_those_that_pytorch_counts(net, there, both):
    """By torch.utils.flop_counter, of a sample forward, and forward and back."""
    stages = floors.NETS[net][0]()
    assert (floors.operations(stages, False), floors.operations(stages, True)) == (there, both)


@pytest.mark.parametrize("net, weights", [("cnn", 1199882), ("resnet20", 272474), ("gpt", 10676256)])
def test_weights_are_all_there(net, weights):
    assert sum(stage.weights for stage in floors.NETS[net][0]()) == weights


def test_bytes_of_a_layer():
    """A dense layer of 3 by 5 in bf16, by hand."""
    layer = [floors.dense("layer", 3, 5)]
    forward = 3 * 2 + 5 * 2
    assert floors.sample_bytes(layer, 2, False) == forward
    assert floors.sample_bytes(layer, 2, True) == forward + 5 * 2 + 3 * 2 + 3 * 2
    # Read twice; gradient, weights and two arrays of Adam's, each read and written; the copy in bf16 is written.
    assert floors.step_bytes(layer, 2, 2, True) == 20 * (2 * 2 + 4 * 2 * 4 + 2)
    assert floors.floor("cnn", 2, "bf16", False)["bytes"] < floors.floor("cnn", 2, "tf32", False)["bytes"]


STEPS = '''#!%s
import json, os, sys
batch, dry = int(sys.argv[3]), os.environ["KOLO_SHIM_DRY"] == "1"
def put(file, what, read, written):
    read, written = (read, written) if what == "cublasLt" or not dry else (0, 0)
    print(json.dumps({"range": "layer", "what": what, "blocks": [1, 1, 1], "threads": 32, "shared": 0, "read": read,
                      "written": written, "asked": 2 * read, "operations": 0}), file=file)
with open(os.environ["KOLO_SHIM_TRACE"], "w") as file:
    put(file, "copy from the host", 0, 99)
    for step in range(4):
        put(file, "kolo::take_step_parameters(long)", 0, 8)
        put(file, "kolo::gather(Gather)", 0, 10 * batch)
        put(file, "cublasLt", 3000000 * batch, 0)
        put(file, "kolo::update<1>(long)", 7000000, 0)
        put(file, "kolo::update<1>(long)", 1000000 * batch, 5000000)
''' % sys.executable  # fmt: skip


def test_launches_are_drawn_on_to_the_batch_that_is_asked_for(tmp_path):
    program = tmp_path / "program"
    program.write_text(STEPS)
    program.chmod(0o755)
    done = subprocess.run([sys.executable, HERE / "gpu/launches.py", "--all", "--program", program, "cnn/bf16/512"],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cnn bf16 batch 512: 5 launches and copies; moves 2060.0 MB, " in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("layer ")][1:]
    assert [row[4:6] for row in rows[2:]] == [["1536.00", "0.00"], ["7.00", "0.00"], ["512.00", "5.00"]]
