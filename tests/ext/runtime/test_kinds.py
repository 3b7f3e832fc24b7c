"""Every kind of layer that libkolo has is in the list by which saved models find it (KOLO_LAYERS)."""
import ctypes
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
LIBRARY = BUILD / "lib/libkolo.so"


def declared():
    """{symbol: type} of `extern const kolo_layer_kind kolo_input_kind, …;` in kolo.h after the preprocessor."""
    source = subprocess.run(["cc", "-std=gnu17", "-E", "-P", "-x", "c", f"-I{ROOT}/ext/include", "-"], text=True,
                            input="#include <kolo.h>", capture_output=True, check=True).stdout
    return {name.strip(): kind for kind, names in re.findall(r"extern const (kolo_\w+_kind)\s+([^;]+);", source)
            for name in names.split(",")}


def defined():
    listing = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    return {name for kind, name in re.findall(r"^\S+ ([A-Z]) (kolo_\w+_kind)(?:@@\w+)?$", listing, re.M) if kind in "RD"}


def test_every_kind_is_declared():
    assert defined() - set(declared()) == set(), "a kind that kolo.h does not declare"


def test_every_layer_is_found_by_its_name():
    library = ctypes.CDLL(str(LIBRARY))
    library.kolo_layer_kind_find.restype = ctypes.c_void_p
    layers = {name for name, kind in declared().items() if kind == "kolo_layer_kind"} & defined()
    assert len(layers) >= 8
    for symbol in layers:
        kind = ctypes.c_void_p.in_dll(library, symbol)  # its first member is its name
        name = ctypes.cast(kind, ctypes.c_char_p).value
        assert library.kolo_layer_kind_find(name) == ctypes.addressof(kind), f"{symbol} is missing in KOLO_LAYERS"
