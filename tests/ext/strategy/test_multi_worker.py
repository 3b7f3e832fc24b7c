"""kolo_multi_worker_mirrored(): ranks that train together without kolo_distributed(), on one global batch."""
import os
import shutil

import by_hand
import patience
import pytest
from mpi_workshop import BUILD, compile_program


needs_mpi = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("strategy/multi_worker_program.c", tmp_path_factory.mktemp("workers"))


def environment(**variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KOLO_", "OMPI_", "PMIX_", "TF_"))}
    return kept | {"KOLO_CPU_DEVICES": "4", "KOLO_THREADS": "1"} | variables


def lines(text):
    return sorted(line.split(">:", 1)[-1].split() for line in text.splitlines() if line.strip())


def train(program, ranks, **options):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks)] if ranks > 1 else []
    done = patience.run([*launcher, program, *(f"{key}={value}" for key, value in options.items())], capture_output=True, text=True,
                        timeout=120, env=environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return lines(done.stdout)


@needs_mpi
@pytest.mark.parametrize("ranks, devices, more", [(2, 1, 0), (3, 1, 1)])
def test_ranks_are_one_device_on_the_global_batch(program, ranks, devices, more):
    """The same bits: the batch is not multiplied by the ranks, gradients are averaged over all, the loss is that of all."""
    [alone] = train(program, 1, seed=3, deterministic=1)
    assert alone[2] == "5"  # 103 samples in steps of 24
    together = train(program, ranks, seed=3, deterministic=1, devices=devices, more=more)
    assert together == [[str(rank), str(ranks), *alone[2:]] for rank in range(ranks)]


@needs_mpi
def test_ranks_begin_with_the_weights_of_rank_0(program):
    """Each rank draws other weights by a seed of its own; without a common start they would learn apart, with a warning."""
    told = train(program, 3)
    assert len(told) == 3 and len({tuple(line[2:]) for line in told}) == 1


@pytest.mark.parametrize("kinds", [("worker", "worker"), ("chief", "worker", "worker")])
def test_processes_of_tf_config_are_one_device(program, kinds):
    """No launcher: each is started by itself, with two devices more than the one before."""
    [alone] = train(program, 1, seed=3, deterministic=1)
    cluster = {"worker": by_hand.free_addresses(2)} | ({"chief": by_hand.free_addresses(1)} if "chief" in kinds else {})
    processes = [by_hand.start([program, "seed=3", "deterministic=1", "devices=1", "more=1"], cluster, kind, kinds[:i].count(kind))
                 for i, kind in enumerate(kinds)]  # fmt: skip
    for rank, (out, err, code) in enumerate(by_hand.finish(processes)):
        assert (err, code) == ("", 0)
        assert lines(out) == [[str(rank), str(len(kinds)), *alone[2:]]]


def test_processes_of_tf_config_begin_alike(program):
    told = [lines(out)[0] for out, _, _ in by_hand.run([program], 3)]
    assert [line[:2] for line in told] == [["0", "3"], ["1", "3"], ["2", "3"]] and len({tuple(line[2:]) for line in told}) == 1


def test_an_evaluator_is_alone(program):
    [(out, _, code)] = by_hand.finish([by_hand.start([program], {"worker": ["one:1"], "evaluator": ["two:1"]}, "evaluator", 0)])
    assert code == 0 and lines(out)[0][:2] == ["0", "1"]


def test_a_worker_that_is_killed_ends_the_training(program):
    """As with TensorFlow's, a restart is needed. The others say who it was."""
    outcomes = by_hand.run([program, "leave=1", "epochs=50"], 3)
    assert [code for _, _, code in outcomes] == [1, 7, 1]
    assert all("kolo_fit: rank 1 (localhost:" in err for _, err, _ in (outcomes[0], outcomes[2]))


@needs_mpi
def test_a_launcher_comes_before_tf_config(program):
    config = by_hand.environment('{"cluster": {"worker": ["one:1", "two:1"]}, "task": {"type": "worker", "index": 1}}')
    done = patience.run([BUILD / "bin/kolorun", "-np", "2", program], capture_output=True, text=True, timeout=120, env=config)
    assert done.returncode == 0 and [line[:2] for line in lines(done.stdout)] == [["0", "2"], ["1", "2"]]
