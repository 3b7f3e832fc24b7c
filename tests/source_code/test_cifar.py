"""The program of lesson 4: each technique an option, alone, mirrored and on ranks, and what it says to wrong use."""
import json
import math
import re

import pytest
from source_code.cnn import CIFAR, HAS_BF16, Trained, run, train, write_data
from source_code.test_wrong_use import refused

SIDE = 16


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("pictures"), train=96, test=20, side=SIDE)


def cifar(folder, data, *options, **job):
    return train(folder, data, "--batch-size", 48, *options, program=CIFAR, **job)


# ---- Options ----

USES = [
    (["--network", "vgg"], ["--network", "bootcamp or resnet20", '"vgg"']),
    (["--optimizer", "adamax"], ["--optimizer", "adam, sgd, lars, lamb or novograd", '"adamax"']),
    (["--schedule", "step"], ["--schedule", "constant, cosine or one-cycle"]),
    (["--ghost-batch", "0"], ["--ghost-batch", "at least 1"]),
    (["--warmup-epochs", "-1"], ["--warmup-epochs", "at least 0"]),
    (["--weight-decay", "much"], ["--weight-decay", '"much"']),
    (["--batch-norm=yes"], ["--batch-norm", "no value"]),
    (["--batch-size", "0", "--network", "resnet20"], ["--batch-size"]),
    (["--warmup"], ["--warmup-epochs", "a value"]),
]


@pytest.mark.parametrize("options, words", USES, ids=str)
def test_wrong_options(data, options, words):
    refused(run("--data", data, *options, program=CIFAR), 2, *words)


def test_wrong_options_on_ranks(data):
    refused(run("--data", data, "--optimizer", "x", ranks=2, program=CIFAR), 2, "--optimizer")


def test_help():
    result = run("--help", program=CIFAR)
    assert result.code == 0 and result.err == ""
    for word in ["--ghost-batch=N", "--synchronized", "--noise-scale", "--network=bootcamp|resnet20", "--data=", "--save"]:
        assert word in result.out


# ---- Training ----


MORE = pytest.mark.long("the same with other options")


def words(options):
    return "-".join(map(str, options)).replace("--", "") or "plain"


@pytest.mark.parametrize("options", [
    ["--optimizer", "sgd", "--schedule", "cosine", "--warmup-epochs", 2],
    ["--optimizer", "lamb", "--batch-norm"],
    pytest.param(["--optimizer", "adam"], marks=MORE),
    pytest.param(["--optimizer", "lars", "--warmup-epochs", 2, "--learning-rate", 0.1], marks=MORE),
    pytest.param(["--optimizer", "novograd", "--weight-decay", 0.001], marks=MORE),
    pytest.param(["--ghost-batch", 8, "--l2", 1e-4], marks=MORE),
], ids=words)
def test_each_technique_learns(tmp_path, data, options):
    trained = cifar(tmp_path, data, *options, epochs=12)
    first, last = trained.epochs[0], trained.epochs[-1]
    assert [e["steps"] for e in trained.epochs] == [2] * 12
    assert all(math.isfinite(e["loss"]) and math.isfinite(e["val_loss"]) for e in trained.epochs)
    assert last["loss"] < 0.97 * first["loss"]


def test_resnet20_has_its_own_defaults(tmp_path, data):
    files = "--history", tmp_path / "h.json", "--save", tmp_path / "w.safetensors"
    result = run("--data", data, "--network", "resnet20", "--epochs", 2, "--seed", 1, *files, program=CIFAR)
    assert result.code == 0, result.err
    trained = Trained(tmp_path / "h.json", tmp_path / "w.safetensors")
    assert [e["steps"] for e in trained.epochs] == [1, 1], "a batch of 128"
    assert b"batch_norm" in trained.bytes and b"random" not in trained.bytes
    # He et al.: 0.27 million weights in 20 layers, for three channels; here one, and two shortcuts that are convolutions
    assert 270_000 < len(trained.values()) < 280_000


def test_accuracy_of_the_first_thousand(tmp_path):
    """Beside that of all, where there are more; the last epoch's validation has the same weights."""
    for test, words in (20, r"on the first 20 test images$"), (1100, r"on the first 1000 test images, ([\d.]+) on all 1100$"):
        data = write_data(tmp_path / str(test), train=48, test=test, side=SIDE)
        history = tmp_path / "h.json"
        result = run("--data", data, "--epochs", 1, "--history", history, program=CIFAR)
        found = re.search(r"^Accuracy: ([\d.]+) " + words, result.out, re.M)
        last = json.loads(history.read_text())["epochs"][-1]
        assert float(found[found.lastindex]) == pytest.approx(last["val_accuracy"], abs=1e-4)
    assert "test images" not in run("--data", data, "--epochs", 1, "--no-validation", program=CIFAR).out


def test_learning_rate_is_scaled_and_warmed_up(tmp_path, data):
    options = "--scale-learning-rate", "--learning-rate", 1e-3, "--warmup-epochs", 2
    rates = [e["learning_rate"] for e in cifar(tmp_path, data, *options, "--devices", 3, epochs=4).epochs]
    assert rates == pytest.approx([0.75e-3, 2.25e-3, 3e-3, 3e-3]), "of each epoch's last step, of two"
    alone = [e["learning_rate"] for e in cifar(tmp_path, data, *options[:3], epochs=1).epochs]
    assert alone == pytest.approx([1e-3])


def test_noise_scale_is_printed_once_an_epoch(tmp_path, data):
    for ranks in None, 2:
        options = "--epochs", 2, "--seed", 1, "--batch-size", 8 // (ranks or 1)
        result = run("--data", data, *options, "--noise-scale", ranks=ranks, program=CIFAR)
        assert result.code == 0, result.err
        assert len(re.findall(r"gradient noise scale: -?\d+ samples", result.out)) == 2
        assert "(1 measurements)" not in result.out


@pytest.mark.skipif(not HAS_BF16, reason="this CPU has no AVX-512: no bf16 in oneDNN 2.6")
def test_bf16(tmp_path, data):
    trained = cifar(tmp_path, data, "--precision", "bf16", "--batch-norm")
    assert math.isfinite(trained.epochs[-1]["loss"])


# ---- Devices and ranks ----


@pytest.mark.parametrize("options", [
    ["--synchronized"], ["--ghost-batch", 8, "--augment"], pytest.param([], marks=MORE), pytest.param(["--optimizer", "lars"], marks=MORE),
], ids=words)
def test_ranks_and_devices_agree(tmp_path, data, options):
    """Bit for bit, whoever computes: the global batch is 48."""
    options = ["--deterministic", *options]
    alone = cifar(tmp_path, data, *options)
    devices = cifar(tmp_path, data, *options, "--devices", 2)
    ranks = train(tmp_path, data, "--batch-size", 24, *options, ranks=2, program=CIFAR)
    assert (devices.devices, ranks.ranks) == (2, 2)
    assert alone.bytes == devices.bytes == ranks.bytes
    assert alone.epochs == devices.epochs == ranks.epochs


@pytest.mark.long("60,000 images are drawn")
def test_drawn_images(tmp_path):
    trained = cifar(tmp_path, "synthetic", "--steps-per-epoch", 2, "--no-validation", epochs=1)
    assert trained.epochs[0]["images"] == 96 and trained.epochs[0]["val_loss"] is None
