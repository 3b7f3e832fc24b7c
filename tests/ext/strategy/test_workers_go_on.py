"""Workers over ranks go on from a checkpoint with the bits of a training without a pause, which are those of threads."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import patience
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("go_on") / "go_on_ranks"
    subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/ext/include", HERE / "go_on_ranks.c",
                    "-o", target, f"-L{BUILD}/lib", "-lkolo", f"-Wl,-rpath,{BUILD}/lib"], check=True)
    return target


def run(program, *options, ranks):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks)] if ranks > 1 else []
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMPI_", "PMIX_"))}
    return patience.run([*map(str, launcher), str(program), *map(str, options)], capture_output=True, text=True, timeout=120,
                        env={**kept, "KOLO_THREADS": "1"})


def hashes(program, *options, ranks):
    done = run(program, *options, ranks=ranks)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return {word for line in done.stdout.splitlines() for word in line.split(">:")[-1].split()}


@pytest.mark.parametrize("strategy, each, servers, ranks", [
    ("dynsgd", 1, 0, 3), ("eamsgd", 2, 3, 2), ("ps", 1, 2, 3), ("easgd", 1, 0, 2), ("downpour", 1, 4, 3)])
def test_going_on_over_ranks(program, tmp_path, strategy, each, servers, ranks):
    file = tmp_path / "checkpoint.safetensors"
    over_ranks = hashes(program, file, strategy, each, servers, ranks=ranks)
    assert len(over_ranks) == 1
    assert over_ranks == hashes(program, file, strategy, each * ranks, 0, ranks=1)


def test_a_checkpoint_that_one_rank_has_loaded_is_told_from_one_of_all(program, tmp_path):
    done = run(program, tmp_path / "checkpoint.safetensors", "downpour", 1, 0, 0, ranks=2)
    assert done.returncode != 0 and "wanted the same on all ranks, got epochs done" in done.stderr, done.stdout + done.stderr


def test_a_record_ends_before_the_epoch_of_a_lost_worker(tmp_path):
    """10 batches an epoch for each of 3 ranks. The third dies in epoch 2, so that nobody trains on the rest of its share."""
    higgs = ["--data", "synthetic", "--strategy", "easgd", "--batch-size", 16, "--steps-per-epoch", 30, "--no-validation"]
    order = tmp_path / "order.json"
    launch = ["-np", 3, "--keep-going", "--fault", "rank=2,step=14,what=kill"]
    done = patience.run([*map(str, [BUILD / "bin/kolorun", *launch, BUILD / "bin/higgs", *higgs, "--epochs", 3, "--record", order])],
                        capture_output=True, text=True, timeout=120)
    left_out = rf"epoch 2: trained on \d+ of 30 batches, the others were those of workers that are gone; the record {order} ends before this epoch"
    assert len(re.findall(left_out, done.stderr)) == 1, done.stderr
    assert "epoch 3: trained on" not in done.stderr, done.stderr  # by then its share is the others'
    assert len(json.loads(order.read_text())["epochs"]) == 1
    replayed = [BUILD / "bin/higgs", *higgs, "--workers", 3, "--epochs", 2, "--replay", order]
    refused = patience.run([*map(str, replayed)], capture_output=True, text=True, timeout=120)
    assert f"{order}: wanted the exchanges of 2 epochs, got those of 1" in refused.stderr


@pytest.mark.long("which death is noticed first is a matter of chance, so it is repeated")
def test_the_rank_with_the_centre_is_named_before_those_that_lose_it():
    higgs = ["--data", "synthetic", "--strategy", "easgd", "--batch-size", 16, "--steps-per-epoch", 30, "--no-validation"]
    launch = ["-np", 3, "--keep-going", "--fault", "rank=0,step=2,what=kill"]
    for _ in range(20):
        done = patience.run([*map(str, [BUILD / "bin/kolorun", *launch, BUILD / "bin/higgs", *higgs])],
                            capture_output=True, text=True, timeout=60)
        named = re.findall(r"^kolorun: rank (\d)", done.stderr, re.M)
        assert named[:1] == ["0"] and done.returncode == 137, done.stderr
