"""The invariant, seen from outside: N devices and ranks equal one device on the same global batch.

Under --deterministic bit for bit: what is saved is the same file, and every number of the history the same. Without it
within rounding. The data is 311 samples, a multiple of nothing. The pictures are small, since a picture of 28×28 pixels takes
five times as long to learn from; one test has that size.
"""
import math
import random
import shutil

import pytest
from source_code.cnn import HAS_BF16, PROGRAM, idx, train, write_data

TRAIN, EPOCHS = 311, 2
# 3 ranks × 40 = 5 × 24 = 8 × 15: the global batch of 120 gives two whole steps and one of 71.
GLOBAL_BATCH = 120


def in_the_long_part(*pairs):
    mark = pytest.mark.long("the same once more with other numbers of ranks and devices")
    return [pytest.param(*pair, marks=mark) for pair in pairs]


DROP = ("--drop-remainder",)
ranks_and_devices = pytest.mark.parametrize("ranks, devices, options", [
    (None, 3, DROP), (2, None, ()), (2, 2, ()),
    *in_the_long_part(*((ranks, devices, options) for options in ((), DROP) for ranks, devices in (
        (None, 1), (None, 2), (None, 8), (1, None), (3, None), (5, None), (8, None), (3, 2), (2, 5))),
        (None, 3, ()), (2, None, DROP), (2, 2, DROP)),
])


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), train=TRAIN, side=12)


@pytest.fixture(scope="session")
def small_pictures(tmp_path_factory):
    """10×10 pixels: the reference backend is slow."""
    return write_data(tmp_path_factory.mktemp("small"), train=67, test=20, side=10)


@pytest.fixture(scope="session")
def one_device(tmp_path_factory):
    """What one device makes of some options, trained once."""
    kept, folder = {}, tmp_path_factory.mktemp("one")

    def get(data, *options, **job):
        key = (data, options, str(job))
        if key not in kept:
            kept[key] = train(folder, data, *options, **job)
        return kept[key]

    return get


def spread(folder, data, global_batch, ranks, devices, *options, **job):
    """The same training on ranks, devices, or ranks of several devices: a rank's batch is its share."""
    assert global_batch % (ranks or 1) == 0
    if devices:
        options = ("--devices", devices, *options)
    trained = train(folder, data, "--batch-size", global_batch // (ranks or 1), *options, ranks=ranks, **job)
    assert (trained.ranks, trained.devices) == (ranks or 1, devices or 1)
    return trained


def check_same(trained, expected):
    assert trained.epochs == expected.epochs
    assert trained.bytes == expected.bytes, "the saved files differ"


def spread_unevenly(folder, data, global_batch, devices, *options, strategy="mirrored", **job):
    """The same on ranks with so many devices each: a rank's program has as many CPU devices as its turn in the list."""
    program = folder / "uneven"
    cases = "".join(f"{rank}) KOLO_CPU_DEVICES={count};;" for rank, count in enumerate(devices))
    program.write_text(f'#!/bin/sh\ncase $OMPI_COMM_WORLD_RANK in {cases} esac\nexport KOLO_CPU_DEVICES\nexec {PROGRAM} "$@"\n')
    program.chmod(0o755)
    assert global_batch % len(devices) == 0
    trained = train(folder, data, "--batch-size", global_batch // len(devices), "--strategy", strategy, *options,
                    ranks=len(devices), program=program, **job)  # fmt: skip
    assert (trained.ranks, trained.devices) == (len(devices), devices[0])
    return trained


# ---- Bit for bit ----


@ranks_and_devices
def test_deterministic_runs_are_equal(tmp_path, data, one_device, ranks, devices, options):
    options = ("--deterministic", *options)
    expected = one_device(data, "--batch-size", GLOBAL_BATCH, *options)
    steps, images = (2, 240) if "--drop-remainder" in options else (3, TRAIN)
    assert [(e["steps"], e["images"]) for e in expected.epochs] == [(steps, images)] * EPOCHS
    check_same(spread(tmp_path, data, GLOBAL_BATCH, ranks, devices, *options), expected)


@pytest.mark.long("pictures of 28×28 pixels take five times as long")
def test_pictures_of_full_size(tmp_path):
    data = write_data(tmp_path / "data", train=TRAIN)
    expected = train(tmp_path, data, "--batch-size", GLOBAL_BATCH, "--deterministic")
    check_same(spread(tmp_path, data, GLOBAL_BATCH, 2, 2, "--deterministic"), expected)
    check_close(spread(tmp_path, data, GLOBAL_BATCH, 3, None), expected)


@pytest.mark.parametrize("ranks, devices", [(7, None), *in_the_long_part((None, 7), (7, 2))])
def test_global_batch_of_a_prime_a_rank(tmp_path, data, one_device, ranks, devices):
    """7 × 13 = 91 samples: microbatches and shards are all uneven, and the last step has 38."""
    expected = one_device(data, "--batch-size", 91, "--deterministic")
    check_same(spread(tmp_path, data, 91, ranks, devices, "--deterministic"), expected)


@pytest.mark.parametrize("ranks, devices", [(None, 2), *in_the_long_part((None, 8), (3, 2))])
def test_weights_in_one_place(tmp_path, data, one_device, ranks, devices):
    expected = one_device(data, "--batch-size", GLOBAL_BATCH, "--deterministic")
    check_same(spread(tmp_path, data, GLOBAL_BATCH, ranks, devices, "--strategy", "central_storage", "--deterministic"), expected)


@pytest.mark.parametrize("devices, options", [((3, 1, 2), ("--drop-remainder",)), *in_the_long_part(((1, 2), ()), ((5, 1), ()), ((1, 1, 4), ()))])
def test_ranks_with_different_numbers_of_devices(tmp_path, data, one_device, devices, options):
    options = ("--deterministic", *options)
    expected = one_device(data, "--batch-size", GLOBAL_BATCH, *options)
    check_same(spread_unevenly(tmp_path, data, GLOBAL_BATCH, devices, *options), expected)


@pytest.mark.parametrize("strategy, options", [("central_storage", ("--deterministic",)), *in_the_long_part(("mirrored", ()), ("central_storage", ()))])
def test_other_strategies_on_different_numbers_of_devices(tmp_path, data, one_device, strategy, options):
    expected = one_device(data, "--batch-size", GLOBAL_BATCH, *options)
    trained = spread_unevenly(tmp_path, data, GLOBAL_BATCH, (3, 1), *options, strategy=strategy)
    if options:
        check_same(trained, expected)
    check_close(trained, expected)


@pytest.mark.parametrize("ranks, devices", [(3, 3), *in_the_long_part((8, None), (None, 8))])
def test_batch_larger_than_the_data(tmp_path, data, one_device, ranks, devices):
    expected = one_device(data, "--batch-size", 480, "--deterministic")
    assert [e["steps"] for e in expected.epochs] == [1, 1]
    check_same(spread(tmp_path, data, 480, ranks, devices, "--deterministic"), expected)


@pytest.mark.parametrize("options", [("--deterministic",), ()], ids=["deterministic", "rounding"])
@pytest.mark.parametrize("ranks, devices", [(None, 8), *in_the_long_part((8, None), (3, 4))])
def test_fewer_samples_than_devices(tmp_path, one_device, ranks, devices, options):
    """Five samples: ranks and devices without any must weigh nothing, and make no NaN."""
    data = write_data(tmp_path / "data", train=5, test=3)
    trained = spread(tmp_path, data, 24, ranks, devices, *options)
    expected = train(tmp_path, data, "--batch-size", 24, *options)
    if options:
        check_same(trained, expected)
    check_close(trained, expected)


@pytest.mark.skipif(not HAS_BF16, reason="this CPU has no AVX-512: no bf16 in oneDNN 2.6")
@pytest.mark.parametrize("ranks, devices", [(2, 2), *in_the_long_part((3, None), (8, None), (None, 3))])
def test_deterministic_bf16(tmp_path, data, one_device, ranks, devices):
    options = ("--deterministic", "--precision", "bf16")
    expected = one_device(data, "--batch-size", GLOBAL_BATCH, *options)
    check_same(spread(tmp_path, data, GLOBAL_BATCH, ranks, devices, *options), expected)


@pytest.mark.parametrize("ranks, devices", [(2, 2), *in_the_long_part((3, None), (None, 3))])
def test_deterministic_reference(tmp_path, small_pictures, one_device, ranks, devices):
    reference = {"env": {"KOLO_BACKEND": "reference"}}
    expected = train(tmp_path, small_pictures, "--batch-size", 30, "--deterministic", **reference)
    check_same(spread(tmp_path, small_pictures, 30, ranks, devices, "--deterministic", **reference), expected)


@pytest.mark.long("five trainings")
def test_repeated_runs_and_seeds(tmp_path, data):
    """The same seed gives the same file, another seed another; threads and virtual devices change nothing."""
    options = ("--batch-size", 64, "--deterministic")
    first = train(tmp_path, data, *options)
    check_same(train(tmp_path, data, *options), first)
    check_same(train(tmp_path, data, *options, env={"KOLO_THREADS": "1"}), first)
    check_same(train(tmp_path, data, *options, env={"KOLO_THREADS": "3", "KOLO_CPU_DEVICES": "1"}), first)
    assert train(tmp_path, data, *options, seed=4).bytes != first.bytes


# ---- Within rounding ----

# Sums in another order differ by rounding, 6e-8 a time: measured are 1e-8 of the loss, and 3e-9 in the root mean square
# of the weights. Some weights differ more: Adam divides a gradient by its own size, so where a gradient is all but zero
# rounding decides its sign, and each step can part two such weights by twice the learning rate. On a CPU without AVX-512
# the first step of four ranks differs by 5e-10 in the root mean square, the third by 3e-7, and the second epoch by 1.5e-6
# and 6.2e-6 of the loss. Convolutions are direct, because Winograd's algorithm rounds four times as coarsely.
LOSS_BOUND, WEIGHTS_BOUND, LEARNING_RATE = 2e-5, 3e-6, 1e-3


def check_close(trained, expected):
    steps = sum(epoch["steps"] for epoch in expected.epochs)
    for got, wanted in zip(trained.epochs, expected.epochs, strict=True):
        assert (got["steps"], got["images"]) == (wanted["steps"], wanted["images"])
        for name in "loss", "val_loss":
            assert got[name] == pytest.approx(wanted[name], rel=LOSS_BOUND), name
    apart = [abs(a - b) for a, b in zip(trained.values(), expected.values(), strict=True)]
    assert max(apart) <= 2 * steps * LEARNING_RATE
    assert math.sqrt(sum(a * a for a in apart) / len(apart)) <= WEIGHTS_BOUND


@pytest.mark.parametrize("ranks, devices, options", [(2, 2, DROP), *in_the_long_part((2, 2, ()), *(
    (ranks, devices, options) for options in ((), DROP) for ranks, devices in (
        (None, 2), (4, None), (None, 1), (None, 4), (None, 8), (1, None), (2, None), (8, None), (2, 4)))),
])
def test_agreement_within_rounding(tmp_path, data, one_device, ranks, devices, options):
    direct = {"env": {"KOLO_WINOGRAD": "0"}}
    expected = one_device(data, "--batch-size", GLOBAL_BATCH, *options, **direct)
    check_close(spread(tmp_path, data, GLOBAL_BATCH, ranks, devices, *options, **direct), expected)


@pytest.mark.parametrize("ranks, devices", [(2, None), *in_the_long_part((None, 4))])
def test_agreement_of_the_reference(tmp_path, small_pictures, ranks, devices):
    """And the two backends agree with each other, dropout and order included."""
    reference = {"env": {"KOLO_BACKEND": "reference"}}
    expected = train(tmp_path, small_pictures, "--batch-size", 32, **reference)
    check_close(spread(tmp_path, small_pictures, 32, ranks, devices, **reference), expected)
    check_close(spread(tmp_path, small_pictures, 32, ranks, devices), expected)


# ---- Who reads what ----


def test_ranks_read_every_sample_once(tmp_path, data):
    """With a learning rate of nothing an epoch's loss is the mean over the samples read, and a sample read twice or
    never shows: it would move the loss as far as one changed label does, which is far beyond the bound."""
    options = ("--batch-size", 24, "--learning-rate", 1e-30)
    alone = train(tmp_path, data, "--batch-size", 120, *options[2:], epochs=1)
    together = train(tmp_path, data, *options, ranks=5, epochs=1)
    bound = 1e-6 * alone.epochs[0]["loss"]
    assert together.epochs[0]["images"] == alone.epochs[0]["images"] == TRAIN
    assert abs(together.epochs[0]["loss"] - alone.epochs[0]["loss"]) <= bound

    shutil.copytree(data, tmp_path / "changed")
    labels = tmp_path / "changed/train-labels-idx1-ubyte"
    values = bytearray(labels.read_bytes()[8:])
    values[200] = (values[200] + 1) % 10
    labels.write_bytes(idx(bytes(values), TRAIN))
    changed = train(tmp_path, tmp_path / "changed", *options, ranks=5, epochs=1)
    assert abs(changed.epochs[0]["loss"] - alone.epochs[0]["loss"]) > 10 * bound


@pytest.mark.long("eight ranks, eight epochs of 60,000 samples")
def test_steps_that_drop_the_remainder(tmp_path):
    """The lesson's arithmetic, on pictures small enough for a test: 8 ranks × 2048 of 60,000 samples are 3 steps an epoch,
    24 in 8 epochs, and 49,152 samples trained in each; images a second count those."""
    rng = random.Random(1)
    for prefix, samples in ("train", 60000), ("t10k", 100):
        (tmp_path / f"{prefix}-images-idx3-ubyte").write_bytes(idx(rng.randbytes(samples * 36), samples, 6, 6))
        labels = bytes(byte % 10 for byte in rng.randbytes(samples))
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(labels, samples))
    trained = train(tmp_path, tmp_path, "--batch-size", 2048, "--drop-remainder", ranks=8, epochs=8)
    assert trained.ranks == 8
    assert [epoch["steps"] for epoch in trained.epochs] == [3] * 8
    assert sum(epoch["steps"] for epoch in trained.epochs) == 24
    for epoch in trained.timed_epochs:
        assert epoch["images"] == 3 * 8 * 2048
        assert epoch["images_per_second"] == pytest.approx(epoch["images"] / epoch["seconds"], rel=1e-6)
