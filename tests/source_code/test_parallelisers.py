"""The published ways to use several devices, side by side: what each copies, and that all learn the same."""
import re

import pytest
from source_code.cnn import BUILD, run, write_data

PARALLELISERS, CIFAR10 = BUILD / "bin/parallelisers", BUILD / "bin/cifar10"
SIDE, BATCH = 16, 24
FEW = ["--batch-size", BATCH, "--epochs", 2, "--steps-per-epoch", 2, "--deterministic", "--seed", 3]
ROW = re.compile(r"^(\S.{25}) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +(\S+) +(\S+)$", re.M)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("pictures"), train=101, test=20, side=SIDE)


def test_the_table_and_what_is_learnt(tmp_path, data):
    ours, plain = tmp_path / "ours.safetensors", tmp_path / "plain.safetensors"
    result = run("--data", data, *FEW, "--save", ours, "--history", tmp_path / "h.json", program=PARALLELISERS)
    assert result.code == 0 and result.err == "", result.err
    rows = {row[0].strip(): row[1:] for row in ROW.findall(result.out)}
    batch = BATCH * SIDE * SIDE * 4e-6
    copies = {"one device": 1, "kuza55 make_parallel": 3, "fchollet multi_gpu_model": 3, "avolkov1 make_parallel": 1,
              "tf_cnn_benchmarks": 2, "kolo_mirrored()": 1}
    assert list(rows) == list(copies)
    for name, count in copies.items():
        images, speedup, waiting, sliced, reduced, updated, *published = rows[name]
        assert int(images) > 0 and float(speedup) > 0 and float(sliced) == pytest.approx(count * batch, abs=6e-3)
        assert (float(reduced) > 0) == (name != "one device")
    assert rows["kuza55 make_parallel"][-2:] == ("1.68", "1.25") and rows["tf_cnn_benchmarks"][-2:] == ("2.01", "1.51")
    assert rows["fchollet multi_gpu_model"][-2:] == ("-", "-")
    assert "largest difference of a weight from one device's: 0\n" in result.out
    assert run("--data", data, *FEW, "--no-validation", "--save", plain, program=CIFAR10).code == 0
    assert ours.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("options, ranks, words", [
    (["--strategy", "mirrored"], None, ["--strategy", "wanted none"]),
    (["--epochs", 1], None, ["--epochs", "at least 2"]),
    (["--devices", "99"], None, ["--devices"]),
    ([], 2, ["wanted one process", "several ranks"]),
], ids=str)  # fmt: skip
def test_wrong_use(data, options, ranks, words):
    result = run("--data", data, *options, program=PARALLELISERS, ranks=ranks)
    assert result.code == 2 and all(word in result.err for word in words), result.err


def test_help():
    result = run("--help", program=PARALLELISERS)
    assert result.code == 0 and "Compares four published ways" in result.out
