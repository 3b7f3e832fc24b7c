"""A training that was cut in pieces, each in a process of its own, ends with the same files, byte for byte, as one that
was not: sgd and adam, dropout, validation, several devices and ranks, between epochs and within one."""
import json
import os

import patience
import pytest
from mpi_workshop import BUILD, compile_program
from safetensors.numpy import load_file

EPOCHS, STEPS = 4, 6  # 311 samples in steps of 60: the last of an epoch has 11
LIMIT = 120


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("saving/checkpoint_program.c", tmp_path_factory.mktemp("checkpoint"))


def run(program, ranks=1, **options):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks)] if ranks > 1 else []
    options |= {"distributed": 1, "batch": 60 // ranks} if ranks > 1 else {}
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMPI_", "PMIX_"))}
    done = patience.run([*launcher, program, *(f"{key}={value}" for key, value in options.items())], timeout=LIMIT,
                        capture_output=True, text=True, env=environment | {"KOLO_CPU_DEVICES": "4"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def straight(program, tmp_path_factory):
    """What the whole training gives, by optimizer: checkpoint, weights, epochs of its history."""
    known = {}

    def get(optimizer):
        if optimizer not in known:
            folder = tmp_path_factory.mktemp(optimizer)
            run(program, optimizer=optimizer, epochs=EPOCHS, save=folder / "end", weights=folder / "weights",
                history=folder / "history")  # fmt: skip
            known[optimizer] = (folder / "end").read_bytes(), (folder / "weights").read_bytes(), epochs(folder / "history")
        return known[optimizer]

    return get


def epochs(path):
    """Without what no two runs share."""
    return [{k: v for k, v in epoch.items() if k not in ("seconds", "images_per_second")}
            for epoch in json.loads(path.read_text())["epochs"]]  # fmt: skip


def check(folder, wanted, last_epochs):
    end, weights, history = wanted
    assert (folder / "weights").read_bytes() == weights
    assert (folder / "end").read_bytes() == end
    assert epochs(folder / "history") == history[-last_epochs:]


PLACES = [(1, 1), (4, 1), (1, 3), (2, 3)]
MORE = pytest.mark.long("the same with another pair")


def pairs(things, short):
    """Each thing with each place; those that are not named are long."""
    return [pytest.param(thing, *place, marks=[] if (thing, place) in short else MORE) for thing in things for place in PLACES]


@pytest.mark.parametrize("optimizer, devices, ranks", pairs(
    ["sgd", "adam", "novograd", "rmsprop"], [("sgd", (1, 3)), ("novograd", (4, 1))]))
def test_between_epochs(program, straight, tmp_path, optimizer, devices, ranks):
    common = {"optimizer": optimizer, "devices": devices, "ranks": ranks}
    run(program, epochs=1, save=tmp_path / "half", **common)
    run(program, epochs=EPOCHS, load=tmp_path / "half", save=tmp_path / "end", weights=tmp_path / "weights",
        history=tmp_path / "history", **common)  # fmt: skip
    check(tmp_path, straight(optimizer), EPOCHS - 1)


@pytest.mark.parametrize("steps, devices, ranks", pairs(
    [1, STEPS - 1, STEPS, 2 * STEPS + 3], [(1, (4, 1)), (STEPS - 1, (1, 3)), (2 * STEPS + 3, (2, 3))]))
def test_within_an_epoch(program, straight, tmp_path, steps, devices, ranks):
    common = {"devices": devices, "ranks": ranks}
    run(program, epochs=EPOCHS, stop=steps, partial=tmp_path / "half", **common)
    run(program, epochs=EPOCHS, load=tmp_path / "half", save=tmp_path / "end", weights=tmp_path / "weights",
        history=tmp_path / "history", **common)  # fmt: skip
    check(tmp_path, straight("adam"), EPOCHS - (steps - 1) // STEPS)  # its last step done, an epoch is yet to be validated


def test_other_devices_go_on(program, straight, tmp_path):
    """One set of weights and states whatever the strategy was: three ranks begin, four devices go on, then two ranks with
    one and three devices and a queue of samples, and one device ends it."""
    run(program, epochs=EPOCHS, stop=4, partial=tmp_path / "first", ranks=3)
    run(program, epochs=EPOCHS, stop=9, load=tmp_path / "first", partial=tmp_path / "second", devices=4)
    run(program, epochs=EPOCHS, stop=5, load=tmp_path / "second", partial=tmp_path / "third", ranks=2, devices=1, more=2,
        feed=2)  # fmt: skip
    run(program, epochs=EPOCHS, load=tmp_path / "third", save=tmp_path / "end", weights=tmp_path / "weights",
        history=tmp_path / "history")  # fmt: skip
    # the sums so far are those of all ranks, which the last piece reports as its own
    assert (tmp_path / "weights").read_bytes() == straight("adam")[1]
    assert (tmp_path / "end").read_bytes() == straight("adam")[0]


@pytest.mark.parametrize("devices, ranks", [(4, 1), (2, 3), *(pytest.param(*place, marks=MORE) for place in [(1, 1), (1, 3)])])
def test_gradients_that_wait_for_their_update(program, tmp_path, devices, ranks):
    """Four batches an update, cut where one or three of them wait, and between epochs of six steps."""
    common = {"accumulate": 4, "epochs": 3}
    run(program, weights=tmp_path / "straight", **common)
    common |= {"devices": devices, "ranks": ranks}
    run(program, stop=5, partial=tmp_path / "first", **common)
    run(program, stop=6, load=tmp_path / "first", partial=tmp_path / "second", **common)
    run(program, load=tmp_path / "second", weights=tmp_path / "weights", **common)
    assert "optimizer/waiting/dense.kernel" in load_file(tmp_path / "second")
    assert (tmp_path / "weights").read_bytes() == (tmp_path / "straight").read_bytes()


def test_another_seed_is_another_training(program, straight, tmp_path):
    """The files would be the same if the order or dropout did not depend on what a checkpoint holds."""
    run(program, epochs=EPOCHS, weights=tmp_path / "weights", seed=4)
    assert (tmp_path / "weights").read_bytes() != straight("adam")[1]


def test_the_package_reads_it(program, tmp_path):
    run(program, epochs=1, save=tmp_path / "state")
    arrays = load_file(tmp_path / "state")
    assert arrays["optimizer/0/dense.kernel"].shape == arrays["dense.kernel"].shape == (256, 12)
    assert (arrays["optimizer/1/dense.kernel"] >= 0).all() and (arrays["optimizer/1/dense.kernel"] > 0).any()
