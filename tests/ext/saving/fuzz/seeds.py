#!/usr/bin/env python3
"""The fuzzers' first inputs: seeds.py FOLDER. Sound files and texts, and some that are nearly so."""
import hashlib
import json
import struct
import sys
from pathlib import Path


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def arrays(kernel, *sizes, dtype="F32", width=4):
    """A file of the fuzzers' model, or nearly: {"a.kernel": sizes, "a.bias": {2}}."""
    bytes_of = width
    for size in sizes:
        bytes_of *= size
    end = bytes_of + 2 * width
    header = {"__metadata__": {"format": "pt"},
              kernel: {"dtype": dtype, "shape": list(sizes), "data_offsets": [0, bytes_of]},
              "a.bias": {"dtype": dtype, "shape": [2], "data_offsets": [bytes_of, end]}}  # fmt: skip
    return safetensors(header, bytes(range(end % 256)) * (end // 256 + 1))


def tensor_files():
    for dtype, width in ("F32", 4), ("F64", 8), ("F16", 2), ("BF16", 2), ("I64", 8):
        yield arrays("a.kernel", 3, 2, dtype=dtype, width=width)
    yield arrays("b.kernel", 3, 2)
    yield arrays("a.kernel", 2, 1, 3, 1)
    yield safetensors({}, b"")
    yield b""


def model(*layers, **more):
    whole = {"format": "kolo.model", "version": 1, "layers": [{"kind": "input", "size_1": 8, "size_2": 8, "size_3": 2},
                                                              *layers]} | more  # fmt: skip
    return json.dumps(whole).encode()


def models():
    conv = {"kind": "conv2d", "filters": 2, "kernel": [3, 3], "stride": [2, 1], "padding": "same", "activation": "relu",
            "no_bias": True, "l2": 0.1, "name": "c", "device": "host"}  # fmt: skip
    other = conv | {"name": "d", "from": ["input"]}
    yield model(conv)
    yield model(conv, other, {"kind": "add", "from": ["c", "d"], "activation": "softmax"})
    yield model(conv, {"kind": "max_pool2d", "height": 2}, {"kind": "dropout", "rate": 0.5}, {"kind": "flatten"},
                {"kind": "dense", "units": 3}, {"kind": "activate", "activation": "relu"})  # fmt: skip
    yield model({"kind": "flatten"}, {"kind": "dense", "units": 1000000, "name": "large"}, output="large")
    kinds = Path(__file__).resolve().parents[4] / "ext/layers"
    for path in sorted(kinds.glob("*.c")):
        yield model({"kind": path.stem})


def states():
    state = {"optimizer": "adam", "updates": "24", "learning_rate": "0.001", "seed": "7", "epoch": "3", "step": "0",
             "numbers": {"loss_scale": "32768"}}  # fmt: skip
    yield json.dumps(state).encode()
    state |= {"steps": "24", "waiting": "0", "waiting_samples": "0", "loss_scale": "1", "sample_scale": "1", "good": "0"}
    yield json.dumps(state).encode()
    within = {"step": "2", "order": "24", "samples": "100", "batch": "10", "all": ["20", "0", "4.5", "1", "7"],
              "own": ["20", "0", "nan", "1", "inf"]}  # fmt: skip
    yield json.dumps(state | within).encode()
    yield b"\0" + arrays("a.kernel", 2, 2)


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for one in (*tensor_files(), *models(), *states()):
    (folder / hashlib.sha1(one).hexdigest()[:12]).write_bytes(one)
