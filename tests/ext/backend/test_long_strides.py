"""Where strides are longer than kernels, no implementation of oneDNN named brgconv… is taken: on processors with AMX those
of oneDNN 2.6 compute wrong numbers there. convolution_test.c compares the numbers, on a processor that may have no AMX.
Here other implementations are given that name."""
import os
import re
import subprocess

import patience
import pytest
from mpi_workshop import BUILD, compile_program

pytestmark = pytest.mark.skipif(not (BUILD / "lib/libkolo_onednn.so").exists(), reason="there is no oneDNN")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("backend/long_strides.c", tmp_path_factory.mktemp("strides"))


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    source = os.path.join(os.path.dirname(__file__), "long_strides_names.c")
    library = tmp_path_factory.mktemp("names") / "names.so"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    return library


def implementations(program, precision, **environment):
    """(whether the stride is longer than the kernel, the implementation) of each convolution that ran."""
    result = patience.run([program, precision], capture_output=True, text=True, timeout=60,
                          env=os.environ | {"DNNL_VERBOSE": "1", "KOLO_WINOGRAD": "0"} | environment)  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = set()
    for line in result.stdout.splitlines():
        fields = line.split(",")
        if fields[0] not in ("dnnl_verbose", "onednn_verbose") or "convolution" not in fields or "exec" not in fields:
            continue
        height, stride = map(int, re.search(r"kh(\d+)sh(\d+)", line).groups())
        found.add((height < stride, fields[fields.index("convolution") + 1]))
    assert {is_long for is_long, _ in found} == {True, False}, result.stdout
    return found


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_brgconv_is_passed_over(program, names, precision):
    plain = implementations(program, precision)
    assert not any(is_long and name.startswith("brgconv") for is_long, name in plain)
    if any("jit" not in name.split(":")[0] for _, name in plain):
        pytest.skip(f"this processor's implementations are not the ones that the test renames: {plain}")
    renamed = implementations(program, precision, LD_PRELOAD=str(names))
    assert not any(is_long and name.startswith("jit") for is_long, name in renamed)
    assert {name for is_long, name in renamed if not is_long} == {name for is_long, name in plain if not is_long}
