"""The lessons' programs on GPUs, one a rank: what they come to is the CPU's, and deterministic runs are equal to the bit
for any number of ranks and GPUs. The GPUs are the shim's, which is slow: the data are few."""
import pytest
from source_code.cnn import BUILD, PROGRAM, train, write_data
from source_code.test_n6 import write_table

SHIM = BUILD / "shim/lib"

pytestmark = pytest.mark.skipif(not (SHIM / "libkolo_cuda.so").exists(),
                                reason="there is no plugin over the shim: make build/shim/lib/libkolo_cuda.so")  # fmt: skip


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("pictures"), train=24, test=8, side=8)


@pytest.fixture(scope="session")
def larger_pictures(tmp_path_factory):
    """Large enough for the three poolings of cifar10."""
    return write_data(tmp_path_factory.mktemp("larger_pictures"), train=24, test=8, side=24)


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("higgs") / "table", rows=64)


def on_gpus(gpus=4):
    return {"KOLO_BACKEND": None, "KOLO_SHIM_DEVICES": str(gpus), "LD_LIBRARY_PATH": str(SHIM)}


def same(one, other):
    assert one.epochs == other.epochs and one.bytes == other.bytes


@pytest.mark.parametrize("program", ["cnn_mnist", "higgs", pytest.param("mnist_tfrecord", marks=pytest.mark.long("a third program"))])
def test_ranks_on_gpus_and_on_the_cpu_agree(tmp_path, pictures, table, program):
    data = table if program == "higgs" else pictures
    options = {"epochs": 1, "ranks": 2, "program": BUILD / "bin" / program}
    cpu = train(tmp_path, data, "--batch-size", 6, **options)
    gpu = train(tmp_path, data, "--batch-size", 6, env=on_gpus(), **options)
    assert gpu.values() == pytest.approx(cpu.values(), abs=1e-4)
    assert gpu.epochs[0] == pytest.approx(cpu.epochs[0], rel=1e-5)


def test_ranks_and_mirrored_gpus_equal_one(tmp_path, pictures):
    def deterministic(ranks, devices):
        spread = ["--devices", devices] if devices > 1 else []
        options = ["--batch-size", 12 // ranks, "--deterministic", *spread]
        return train(tmp_path, pictures, *options, epochs=1, ranks=ranks, env=on_gpus(), program=PROGRAM)

    one = deterministic(1, 1)
    same(deterministic(4, 1), one)
    same(deterministic(2, 2), one)


@pytest.mark.long("three trainings of ranks on simulated GPUs")
def test_a_checkpoint_goes_on_with_ranks(tmp_path, larger_pictures):
    def cifar10(*options, epochs, ranks=None):
        options = ["--batch-size", 12 // (ranks or 1), "--deterministic", *options]
        return train(tmp_path, larger_pictures, *options, epochs=epochs, ranks=ranks, env=on_gpus(), program=BUILD / "bin/cifar10")

    whole, file = cifar10(epochs=2), tmp_path / "run.safetensors"
    cifar10("--checkpoint", file, epochs=1)
    rest = cifar10("--checkpoint", file, epochs=2, ranks=2)
    assert rest.bytes == whole.bytes and rest.epochs == whole.epochs[1:]
