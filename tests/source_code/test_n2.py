"""Lesson 2's program: what connects the devices, and how fast they copy; figures that can be, one sentence for wrong use."""
import re

import pytest
from source_code.cnn import BUILD, run

PROGRAM = BUILD / "bin/p2p_bandwidth_latency"
QUICK = ["--bytes", 1000000, "--seconds", 0.001]


def measure(*options, **variables):
    return run(*options, program=PROGRAM, env={"KOLO_BACKEND": None, **variables})


def matrix(text, heading):
    """The figures under a heading, by row."""
    rows = text.split(heading, 1)[1].split("\n\n", 1)[0].splitlines()[3:]
    return [[float(figure) for figure in row.split()[1:]] for row in rows]


def test_three_devices_of_the_cpu():
    done = measure("--devices", 3, *QUICK, KOLO_DEVICES="cpu")
    assert done.code == 0 and done.err == "", done.err
    assert "Number of devices: 3" in done.out and "the device itself" in done.out
    assert "Of CPU devices: the memory of this machine" in done.out and "peer access" not in done.out
    for heading in "One way, GB/s", "Both ways at once, GB/s":
        figures = matrix(done.out, heading)
        assert len(figures) == 3 and all(len(row) == 3 and all(0 < figure < 1000 for figure in row) for row in figures)


def test_topology_alone():
    """On a machine that hwloc is told of."""
    done = measure("--topology", KOLO_DEVICES="cpu", KOLO_CPU_DEVICES="4", HWLOC_SYNTHETIC="pack:2 [numa] l3:1 core:2 pu:1")
    assert done.code == 0 and "GB/s" not in done.out
    assert re.search(r"^cpu:0 +X +L3 +SYS +SYS +0 +0$", done.out, re.MULTILINE), done.out


def test_gpus_of_the_shim():
    shim = BUILD / "shim/lib"
    if not (shim / "libkolo_cuda.so").exists():
        pytest.skip("there is no plugin over the shim: make build/shim/lib/libkolo_cuda.so")
    done = measure(*QUICK, LD_LIBRARY_PATH=str(shim), KOLO_SHIM_DEVICES="8", KOLO_SHIM_MACHINE="dgx-1", CUDA_VISIBLE_DEVICES="0,3,7")
    assert done.code == 0 and done.err == "", done.err
    assert re.search(r"^gpu:1 +NV2 +X +NV1 ", done.out, re.MULTILINE), done.out
    assert matrix(done.out, "Both ways at once, GB/s, peer access on")[0] == [783.95, 96.98, 14.43]
    assert matrix(done.out, "Latency, µs, peer access off")[1] == [17.35, 1.78, 17.35]


def test_ranks_do_not_measure_each_other():
    done = run("--devices", 1, *QUICK, ranks=2, program=PROGRAM)
    assert done.code == 0 and done.out.count("One way, GB/s") == 1, done.err


def test_help_has_what_it_understands():
    done = measure("--help")
    assert done.code == 0 and "the first so many (default: all)" in " ".join(done.out.split())
    assert "--bytes=N" in done.out and "--epochs" not in done.out


@pytest.mark.parametrize("options, words", [
    (["--devices", "99"], ["--devices", "1 to 8", '"99"']),
    (["--devices", "0"], ["--devices", "at least 1"]),
    (["--bytes", "-1"], ["--bytes", "at least 1"]),
    (["--seconds", "0"], ["--seconds", "above 0"]),
    (["--epochs", "3"], ["--epochs", "--help"]),
    (["--topology=1"], ["--topology", "no value"]),
    (["gpu:0"], ["options only"]),
], ids=str)
def test_wrong_use_is_one_sentence(options, words):
    done = measure(*options, KOLO_DEVICES="cpu")
    assert done.code == 2 and done.out == "" and len(done.err.splitlines()) == 1
    assert all(word in done.err for word in words), done.err


def test_too_long_a_measurement_and_no_device():
    done = measure("--seconds", "100", KOLO_DEVICES="cpu")
    assert done.code == 1 and "seconds: wanted more than 0, at most 60, got 100" in done.err
    done = measure(KOLO_DEVICES="cpu", CUDA_VISIBLE_DEVICES="")
    assert done.code == 1 and "wanted a device, got none" in done.err and len(done.err.splitlines()) == 1
