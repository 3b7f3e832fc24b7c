"""The programs of lesson 5, small: what they say to wrong use, that they learn, and that devices, ranks, feeds and ways
to spread a training give what one device gives."""
import math
import re
import signal
import struct

import pytest
from source_code.cnn import BUILD, Job, idx, run, train, write_data
from source_code.test_wrong_use import refused

TFRECORD, CIFAR10, VAE = (BUILD / "bin" / name for name in ("mnist_tfrecord", "cifar10", "vae"))
PROGRAMS = [TFRECORD, CIFAR10, VAE]
SIDE = 16
MORE = pytest.mark.long("more of the same")


def name(value):
    return value.name if value in PROGRAMS else None


every_program = pytest.mark.parametrize("program", PROGRAMS, ids=name)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("pictures"), train=101, test=20, side=SIDE)


@pytest.fixture(scope="session")
def stripes(tmp_path_factory):
    """White in one of four quarters, that is the class, on black: what a network can learn, and draw, at once."""
    folder = tmp_path_factory.mktemp("stripes")
    for prefix, samples in ("train", 96), ("t10k", 20):
        rows = (bytes([255 * (4 * y // SIDE == i % 4)]) * SIDE for i in range(samples) for y in range(SIDE))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(idx(b"".join(rows), samples, SIDE, SIDE))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(bytes(i % 4 for i in range(samples)), samples))
    return folder


def trained(folder, data, program, *options, batch=48, **job):
    return train(folder, data, "--batch-size", batch, *options, program=program, **job)


@pytest.fixture(scope="session")
def one_device(tmp_path_factory, data):
    """What one device makes of a program, trained once."""
    kept = {}

    def get(program):
        if program not in kept:
            kept[program] = trained(tmp_path_factory.mktemp("one"), data, program, "--deterministic")
        return kept[program]

    return get


def same(one, other):
    assert one.epochs == other.epochs and one.bytes == other.bytes


# ---- Options ----

OWN = {TFRECORD: "records shards feed queue-capacity feed-threads per-device",
       CIFAR10: "augment checkpoint feed queue-capacity feed-threads log-placement parameter-device slicing staging synchronized-optimizer per-device",
       VAE: "samples kl-weight"}  # fmt: skip


@every_program
def test_help(program):
    result = run("--help", program=program)
    assert result.code == 0 and result.err == ""
    for option in OWN[program].split() + ["data", "batch-size", "devices", "save", "history"]:
        assert re.search(rf"--{option}[= \n]", result.out), option


@pytest.mark.parametrize("program, options, words", [
    (TFRECORD, ["--feed", "dataset"], ["--feed", "synchronous, queue or staged", '"dataset"']),
    (TFRECORD, ["--shards", "0"], ["--shards", "at least 1"]),
    (TFRECORD, ["--records", ""], ["--records"]),
    (CIFAR10, ["--feed", "dataset"], ["--feed", "synchronous, queue, staged or device-queue", '"dataset"']),
    (CIFAR10, ["--slicing", "nowhere"], ["--slicing", "host or device", '"nowhere"']),
    (CIFAR10, ["--staging=1"], ["--staging", "no value"]),
    (CIFAR10, ["--devices", 2, "--parameter-device", "gpu:7"], ["--parameter-device", "cpu:0 to cpu:7", "gpu:7"]),
    (CIFAR10, ["--parameter-device", "cpu:77"], ["--parameter-device", "host", "cpu:77"]),
    (VAE, ["--samples", "picture.jpg"], ["--samples", ".png", "picture.jpg"]),
    (VAE, ["--samples", ".png"], ["--samples", "ends in .png"]),
    (VAE, ["--kl-weight", "-1"], ["--kl-weight", "at least 0"]),
    (VAE, ["--sample"], ["--samples", "a value"]),
    (VAE, ["--epochs", "0"], ["--epochs"]),
], ids=str)  # fmt: skip
def test_wrong_options(data, program, options, words):
    refused(run("--data", data, *options, program=program), 2, *words)


@pytest.mark.parametrize("program, options, words", [
    (TFRECORD, ["--queue-capacity", 3], ["queue_capacity", "KOLO_FEED_QUEUE"]),
    (TFRECORD, ["--records", "/proc/none"], ["--records", "/proc/none"]),
    (CIFAR10, ["--checkpoint", "/proc/none/file"], ["--checkpoint", "/proc/none"]),
    (CIFAR10, ["--checkpoint", "."], ["--checkpoint"]),
    (VAE, ["--samples", "/proc/none/digits.png"], ["--samples", "/proc/none"]),
], ids=str)  # fmt: skip
def test_what_cannot_be_done_is_refused_before_training(data, program, options, words):
    refused(run("--data", data, *options, program=program), 1, *words)


@every_program
def test_data_that_is_not_there(program):
    refused(run("--data", "/nowhere", program=program), 1, "/nowhere")


# ---- Training ----


@pytest.mark.parametrize("program", [TFRECORD, CIFAR10], ids=lambda p: p.name)
def test_learns_classes(tmp_path, stripes, program):
    made = trained(tmp_path, stripes, program, "--learning-rate", 1e-3, epochs=8, batch=16)
    assert made.epochs[-1]["val_accuracy"] >= 0.9


@pytest.mark.parametrize("program, ranks, devices", [
    (TFRECORD, None, 2), (TFRECORD, 2, None), (CIFAR10, 2, None), (VAE, None, 2),
    pytest.param(CIFAR10, None, 2, marks=MORE), pytest.param(VAE, 2, None, marks=MORE)], ids=name)
def test_devices_and_ranks_equal_one(tmp_path, data, one_device, program, ranks, devices):
    one = one_device(program)
    spread = ["--devices", devices] if devices else []
    many = trained(tmp_path, data, program, "--deterministic", *spread, ranks=ranks, batch=48 // (ranks or 1))
    same(many, one)
    assert (many.ranks, many.devices) == (ranks or 1, devices or 1)


@pytest.mark.parametrize("program", [CIFAR10, pytest.param(TFRECORD, marks=MORE)], ids=name)
def test_per_device_is_times_the_devices(tmp_path, data, program):
    """2 devices of 24 and 1e-3 are 48 and 2e-3; under kolorun the batch is each rank's own already."""
    asked = trained(tmp_path, data, program, "--deterministic", "--learning-rate", 2e-3)
    scaled = ["--deterministic", "--learning-rate", 1e-3, "--per-device"]
    same(trained(tmp_path, data, program, *scaled, "--devices", 2, batch=24), asked)
    same(trained(tmp_path, data, program, *scaled, ranks=2, batch=24), asked)


# ---- mnist_tfrecord ----


def test_the_files_that_were_written_are_named(tmp_path, data):
    folder = tmp_path / "records"
    result = run("--data", data, "--records", folder, "--batch-size", 48, "--steps-per-epoch", 1, program=TFRECORD)
    assert f"wrote {folder}/train.tfrecord-*-of-00004\nwrote {folder}/test.tfrecord\n" in result.out


def test_records_are_written_once_and_read(tmp_path, data, one_device):
    folder = tmp_path / "records"
    options = ["--deterministic", "--records", folder]
    first = trained(tmp_path, data, TFRECORD, *options, "--shards", 3)
    names = ["test.tfrecord"] + [f"train.tfrecord-{i:05d}-of-00003" for i in range(3)]
    assert sorted(p.name for p in folder.iterdir()) == names
    times = [p.stat().st_mtime_ns for p in sorted(folder.iterdir())]
    same(trained(tmp_path, "/nowhere", TFRECORD, *options, "--shards", 3), first)
    assert [p.stat().st_mtime_ns for p in sorted(folder.iterdir())] == times
    same(trained(tmp_path, data, TFRECORD, *options, "--shards", 1), first)
    same(one_device(TFRECORD), first)


def test_a_shard_that_is_missing_is_written(tmp_path, data, one_device):
    options = ["--deterministic", "--records", tmp_path / "records"]
    trained(tmp_path, data, TFRECORD, *options, epochs=1)
    (tmp_path / "records/train.tfrecord-00002-of-00004").unlink()
    same(trained(tmp_path, data, TFRECORD, *options), one_device(TFRECORD))


def test_a_shard_that_is_damaged_is_refused(tmp_path, data):
    folder = tmp_path / "records"
    trained(tmp_path, data, TFRECORD, "--records", folder, epochs=1)
    shard = folder / "train.tfrecord-00001-of-00004"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    refused(run("--records", folder, program=TFRECORD), 1, shard.name)


def test_ranks_share_a_folder(tmp_path, data, one_device):
    options = ["--deterministic", "--records", tmp_path / "records"]
    ranks = trained(tmp_path, data, TFRECORD, *options, ranks=2, batch=24)
    same(one_device(TFRECORD), ranks)


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_folder_that_cannot_be_made_ends_all(data, ranks):
    result = run("--data", data, "--records", "/proc/none", program=TFRECORD, ranks=ranks)
    assert result.code == 1 and result.err.count("--records") >= 1 and "Epoch" not in result.out


def test_a_temporary_folder_goes(tmp_path, data):
    trained(tmp_path, data, TFRECORD, epochs=1, env={"TMPDIR": str(tmp_path)})
    assert not list(tmp_path.glob("mnist_tfrecord*"))


@pytest.mark.parametrize("feed", [["queue"], ["queue", "--queue-capacity", 2, "--feed-threads", 3], ["staged"]], ids=str)
def test_feeds_agree(tmp_path, data, one_device, feed):
    one = one_device(TFRECORD)
    same(trained(tmp_path, data, TFRECORD, "--deterministic", "--feed", *feed), one)


# ---- cifar10 ----


@pytest.mark.parametrize("way", [
    ["--parameter-device", "host"],
    ["--parameter-device", "cpu:0", "--slicing", "device"],
    ["--synchronized-optimizer", "--staging"],
    ["--strategy", "central_storage"],
], ids=str)  # fmt: skip
def test_ways_to_spread_agree(tmp_path, data, one_device, way):
    one = one_device(CIFAR10)
    same(trained(tmp_path, data, CIFAR10, "--deterministic", "--devices", 2, *way), one)


@pytest.mark.parametrize("strategy", ["downpour", *(pytest.param(name, marks=MORE) for name in (
    "parameter_server", "adag", "dynsgd", "easgd", "async_easgd", "async_eamsgd", "averaging", "ensemble", "local_sgd"))])
def test_workers_train(tmp_path, data, strategy):
    history = trained(tmp_path, data, CIFAR10, "--strategy", strategy, "--workers", 2, batch=16)
    assert (history.strategy, history.workers) == (strategy, 2)


BATCH_MB = 48 * SIDE * SIDE * 4e-6


@pytest.mark.parametrize("feed, slicing, copies", [
    pytest.param(["synchronous"], "host", 1, marks=MORE),  # into the microbatches
    (["queue", "--queue-capacity", 2, "--feed-threads", 3], "host", 2),  # into the queue, and from there
    pytest.param(["device-queue"], "host", 2, marks=MORE),  # into the devices' queues, of which each holds a share
    (["queue"], "device", 4),  # into the queue, from there to each device, and from the device's memory
    (["device-queue"], "device", 3),  # without the queue of the process
])
def test_feeds_copy_differently_and_agree(tmp_path, data, feed, slicing, copies):
    options = ["--deterministic", "--steps-per-epoch", 2, "--drop-remainder", "--no-validation"]
    one = trained(tmp_path, data, CIFAR10, *options)
    weights = tmp_path / "w.safetensors"
    many = run("--data", data, "--batch-size", 48, "--epochs", 2, "--seed", 3, *options, "--devices", 2, "--slicing", slicing,
               "--feed", *feed, "--save", weights, program=CIFAR10)
    assert many.code == 0 and weights.read_bytes() == one.bytes
    copied = float(re.search(r"^Copied for a step: ([\d.]+) MB$", many.out, re.M)[1])
    assert copied == pytest.approx(copies * BATCH_MB, rel=0.03)  # and the labels


def test_a_checkpoint_goes_on(tmp_path, data):
    whole = trained(tmp_path, data, CIFAR10, "--deterministic", epochs=3)
    options = ["--deterministic", "--checkpoint", tmp_path / "run.safetensors"]
    trained(tmp_path, data, CIFAR10, *options, epochs=1)
    rest = trained(tmp_path, data, CIFAR10, *options, epochs=3, ranks=2, batch=24)
    assert rest.bytes == whole.bytes and rest.epochs == whole.epochs[1:]


def test_a_training_that_is_done_says_so(tmp_path, data):
    options = ["--data", data, "--batch-size", 48, "--epochs", 1, "--checkpoint", tmp_path / "run.safetensors"]
    run(*options, program=CIFAR10)
    assert run(*options, program=CIFAR10).out == "Nothing to train: epochs wanted 1, done 1\n"


def test_a_killed_training_goes_on(tmp_path, data):
    """Killed behind an epoch, wherever that happens to be: it ends as if it had not been."""
    whole = trained(tmp_path, data, CIFAR10, "--deterministic", epochs=6)
    file = tmp_path / "run.safetensors"
    words = ["--data", data, "--batch-size", 48, "--seed", 3, "--deterministic", "--checkpoint", file]
    job = Job(*words, "--epochs", 6, program=CIFAR10)
    job.wait_for(file.exists, 60)
    job.process.send_signal(signal.SIGKILL)
    job.finish()
    rest = trained(tmp_path, data, CIFAR10, "--deterministic", "--checkpoint", file, epochs=6)
    assert rest.bytes == whole.bytes


def test_a_file_that_is_no_checkpoint_stays(tmp_path, data):
    file = tmp_path / "letter.txt"
    file.write_text("Dear Ada")
    refused(run("--data", data, "--checkpoint", file, program=CIFAR10), 1, "letter.txt")
    assert file.read_text() == "Dear Ada"


def test_augmented_images_train(tmp_path, data):
    plain = trained(tmp_path, data, CIFAR10, "--deterministic", epochs=1)
    changed = trained(tmp_path, data, CIFAR10, "--deterministic", "--augment", epochs=1)
    assert math.isfinite(changed.epochs[0]["loss"]) and changed.epochs[0]["loss"] != plain.epochs[0]["loss"]


def test_placement_is_printed(data):
    result = run("--data", data, "--epochs", 1, "--log-placement", "--devices", 2, program=CIFAR10)
    assert result.code == 0 and re.search(r"^conv2d_3 +cpu:0", result.out, re.M)


# ---- vae ----


@pytest.mark.long("it trains the autoencoder until it has learnt")
def test_vae_learns(tmp_path, stripes):
    """A pixel of which nothing is known costs log 2, and the loss is their sum; of one that is white a quarter of the
    time, 0.562: less can come of the code alone."""
    made = trained(tmp_path, stripes, VAE, epochs=30, batch=16)
    losses = [epoch["loss"] for epoch in made.epochs]
    assert 0.5 < losses[0] / (SIDE * SIDE * math.log(2)) < 1.1
    assert made.epochs[-1]["val_loss"] < 0.5 * SIDE * SIDE * 0.562


def test_weights_are_as_many_as_the_example_has(tmp_path):
    data = write_data(tmp_path / "data", train=8, test=4)
    made = trained(tmp_path, data, VAE, epochs=1, batch=8)
    assert len(made.values()) == 3_410_058


def test_the_divergence_counts(tmp_path, data):
    options = ["--deterministic", "--steps-per-epoch", 1, "--drop-remainder"]
    losses = [trained(tmp_path, data, VAE, *options, "--kl-weight", weight, epochs=1).epochs[0]["loss"] for weight in (0, 1, 2)]
    assert losses[0] < losses[1] < losses[2]
    assert math.isclose(losses[2] - losses[1], losses[1] - losses[0], rel_tol=1e-3)


@pytest.mark.parametrize("ranks", [None, pytest.param(2, marks=MORE)])
def test_digits_are_drawn(tmp_path, data, ranks):
    file = tmp_path / "digits.png"
    trained(tmp_path, data, VAE, "--samples", file, epochs=1, ranks=ranks)
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">2I", head[16:]) == (15 * 68, 15 * 68)
