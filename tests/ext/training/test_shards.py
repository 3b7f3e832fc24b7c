"""Ranks with a shard of the data each: kolo_data_scatter(), by which a chief sends them, and kolo_fit(.sharded = true)."""
import json
import os
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
    target = tmp_path_factory.mktemp("shards") / "shards_ranks"
    subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/ext/include", HERE / "shards_ranks.c",
                    "-o", target, f"-L{BUILD}/lib", "-lkolo", f"-Wl,-rpath,{BUILD}/lib"], check=True)
    return target


def run(program, form, ranks=3, launch=(), fault="", **options):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks), *launch] if ranks > 1 else []
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMPI_", "PMIX_"))}
    return patience.run([*launcher, program, form, *(f"{key}={value}" for key, value in options.items())], capture_output=True,
                        text=True, timeout=120, env={**kept, "KOLO_THREADS": "1", **({"KOLO_FAULT": fault} if fault else {})})


def lines(program, form, **options):
    """What each rank has printed: {rank: words}."""
    done = run(program, form, **options)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    found = {}
    for line in done.stdout.splitlines():
        rank, _, words = line.partition("]<stdout>:") if line.startswith("[1,") else ("[1,0", "", line)
        found[int(rank[3:])] = words.split()
    return found


MORE = pytest.mark.long("the same with other numbers, or by another strategy")
STRATEGIES = ["downpour", pytest.param("easgd", marks=MORE), pytest.param("ps", marks=MORE)]


@pytest.mark.parametrize("ranks, root, samples", [(3, 1, 71), (1, 0, 5), *(pytest.param(*case, marks=MORE) for case in ((2, 0, 72), (4, 3, 9)))])
def test_every_rank_gets_every_nth_sample(program, ranks, root, samples):
    got = lines(program, "chief", ranks=ranks, root=root, samples=samples, print=1)
    assert {rank: list(map(int, words[1:])) for rank, words in got.items()} == \
        {rank: list(range(rank, samples, ranks)) for rank in range(ranks)}


def test_a_view_is_computed_by_the_chief(program):
    got = lines(program, "view", ranks=3, samples=10, print=1)
    twice = [*range(10), *range(10)]
    assert {rank: list(map(int, words[1:])) for rank, words in got.items()} == {rank: twice[rank::3] for rank in range(3)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_chief_and_own_shards_are_the_same(program, strategy):
    chief, own = (lines(program, form, strategy=strategy) for form in ("chief", "own"))
    assert chief == own and len({words[-1] for words in own.values()}) == 1
    assert own[0][:7] == ["trained", "18", "steps", "72", "images", "val", "yes"]
    if strategy != "easgd":
        assert own == lines(program, "own", strategy=strategy, servers=3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_shards_over_ranks_are_the_whole_data_over_threads(program, tmp_path, strategy):
    """The batches of the ranks, one rank after the other, are those of one data set; the recorded order has the same bits."""
    order = tmp_path / "order.json"
    ranks = lines(program, "own", strategy=strategy, record=order, free=1)
    for epoch in json.loads(order.read_text())["epochs"]:
        for worker, batches in epoch:
            assert all(batch // 6 == worker for batch in batches), epoch
        assert sorted(batch for _, batches in epoch for batch in batches) == list(range(18))
    threads = lines(program, "whole", ranks=1, strategy=strategy, replay=order, workers=3, free=1)
    assert ranks[0][-1] == threads[0][-1]
    assert ranks == lines(program, "own", strategy=strategy, replay=order, free=1)


def test_shards_may_differ_in_size_and_ranks_may_have_several_workers(program):
    got = lines(program, "own", samples=70, workers=2)  # 24, 23 and 23 samples in batches of 4
    assert got[0][1] == "18" and got[0][3] == "70"
    assert lines(program, "own", samples=70, steps=7)[2][1] == "7"


def test_the_others_go_on_without_the_shard_of_a_dead_rank(program):
    done = run(program, "own", launch=["--keep-going"], fault="rank=2,step=1,what=kill", free=1)
    assert done.returncode == 137 and "worker 2 on rank 2 is gone: the other workers go on" in done.stderr, done.stderr
    assert "trained 12 steps 48 images val yes" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("form, options, sentence", [
    ("own", {"strategy": "mirrored"}, ".sharded: wanted a strategy of workers, such as kolo_downpour(), each of which trains on "
                                        "batches of its own, got strategy mirrored: give every rank the whole data set, without kolo_data_scatter()"),
    ("other", {"strategy": "mirrored"}, "among the ranks itself (only strategies of workers, such as kolo_downpour(), train on shards that ranks have alone)"),
    ("other", {}, "or set .sharded if each has a shard of its own"),
    ("chief", {"root": 3}, "kolo_data_scatter: wanted a root from 0 to 2, got 3"),
    ("chief", {"samples": 2}, "kolo_data_scatter: rank 0: wanted at least 3 samples, one for each rank, got 2"),
    ("own", {"steps": 2}, ".steps_per_epoch: wanted at least 3 with .sharded, one for each rank, got 2"),
    ("own", {"turns": "0 1"}, ".turns: wanted a worker of each rank, since each has a shard of its own, got \"0 1\"")])
def test_what_cannot_be_is_said(program, form, options, sentence):
    done = run(program, form, **options)
    assert done.returncode != 0 and sentence in done.stderr, done.stdout + done.stderr
