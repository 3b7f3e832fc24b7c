"""save.c against the safetensors package: each opens what the other wrote."""
import subprocess

import numpy
import pytest
from mpi_workshop import compile_program
from safetensors.numpy import load_file, save_file



@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("saving/safetensors_program.c", tmp_path_factory.mktemp("safetensors"))


@pytest.fixture
def saved(program, tmp_path):
    path = tmp_path / "kolo.safetensors"
    subprocess.run([program, "save", path], check=True)
    return path


def load(program, path):
    return subprocess.run([program, "load", path], capture_output=True, text=True)


def test_the_package_reads_ours(saved):
    arrays = load_file(saved)
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {"conv2d.kernel": (2, 3, 2, 3), "conv2d.bias": (3,), "dense.kernel": (24, 2), "dense.bias": (2,)}
    ordered = [arrays[name].ravel() for name in ("conv2d.kernel", "conv2d.bias", "dense.kernel", "dense.bias")]
    numbers = numpy.concatenate(ordered)
    assert numbers.dtype == numpy.float32
    assert (numbers == numpy.arange(36 + 3 + 48 + 2, dtype=numpy.float32) / numpy.float32(3)).all()


def test_ours_reads_the_packages(program, saved, tmp_path):
    arrays = {name: -array for name, array in load_file(saved).items()}
    path = tmp_path / "theirs.safetensors"
    save_file(arrays, path, metadata={"format": "np"})
    result = load(program, path)
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert len(lines) == len(arrays)
    for name, *values in lines:
        assert numpy.array_equal(numpy.array(values, dtype=numpy.float32), arrays[name].ravel())


def bfloat16(array):
    """The bits of a bfloat16, which NumPy has no type for."""
    return (array.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F64"])
def test_other_floats_are_converted(program, saved, tmp_path, dtype):
    """Values of every size that the type has: subnormal, largest, infinite, with a sign."""
    path = tmp_path / "theirs.safetensors"
    arrays = load_file(saved)
    bits = numpy.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xC248, 0x7BFF, 0x7C00, 0xFC00], numpy.uint16)
    values = {"F16": bits.view(numpy.float16), "BF16": (bits.astype(numpy.uint32) << 16).view(numpy.float32),
              "F64": numpy.array([0, 1e-320, 1 / 3, -1e-40, 1e300, numpy.pi])}[dtype]  # fmt: skip
    wanted = {name: numpy.resize(values, array.shape) for name, array in arrays.items()}
    stored = {name: bfloat16(array) if dtype == "BF16" else array for name, array in wanted.items()}
    save_file(stored, path)
    if dtype == "BF16":  # the package's NumPy side cannot write it: the same bytes under their own name
        whole = path.read_bytes()
        end = 8 + int.from_bytes(whole[:8], "little")
        header = whole[8:end].replace(b'"U16"', b'"BF16"')
        path.write_bytes(len(header).to_bytes(8, "little") + header + whole[end:])
    result = load(program, path)
    assert result.returncode == 0, result.stderr
    with numpy.errstate(over="ignore"):
        for name, *numbers in (line.split() for line in result.stdout.splitlines()):
            assert numpy.array_equal(numpy.array(numbers, numpy.float32), wanted[name].astype(numpy.float32).ravel())


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda arrays: arrays.pop("dense.bias"), 'wanted an array "dense.bias"'),
        (lambda arrays: arrays.update({"more": numpy.zeros(3, numpy.float32)}), 'got "more" too'),
        (lambda arrays: arrays.update({"dense.bias": numpy.zeros(2, numpy.int64)}), "wanted dtype F32, F16, BF16 or F64, got I64"),
        (lambda arrays: arrays.update({"dense.bias": numpy.zeros(3, numpy.float32)}), "wanted the shape {2}, got {3}"),
    ],
)
def test_what_does_not_fit_is_one_sentence(program, saved, tmp_path, change, sentence):
    arrays = load_file(saved)
    change(arrays)
    path = tmp_path / "theirs.safetensors"
    save_file(arrays, path)
    result = load(program, path)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and sentence in result.stderr
