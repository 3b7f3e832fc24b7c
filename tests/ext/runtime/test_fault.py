"""Faults that are asked for: they happen where and when they should, and who notices says it."""
import os
import re
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program


pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("runtime/fault_ranks.c", tmp_path_factory.mktemp("fault"))


def run(program, fault, ranks=3, launch=(), **variables):
    launcher = [BUILD / "bin/kolorun", "-np", str(ranks), *launch] if ranks > 1 else []
    command = program if isinstance(program, list) else [program]
    return patience.run([str(word) for word in [*launcher, *command]], capture_output=True, text=True, timeout=60,
                        env={**os.environ, "KOLO_FAULT": fault, **variables})


@pytest.mark.parametrize("what, code, ending", [
    ("kill", 137, "rank 1"), ("exit", 1, "rank 1"), pytest.param("segv", 139, "rank 1", marks=pytest.mark.long("another end"))])
def test_a_process_dies_at_its_step(program, what, code, ending):
    done = run(program, f"rank=1,step=7,what={what}")
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert f"fault: rank 1, step 7: {what}, as it was asked for" in said
    assert any(line.startswith("kolorun: ") and ending in line for line in said.splitlines()), said


def test_a_rank_that_ends_before_kolo_init_is_named(program):
    """MPI notices it now and then; otherwise the others wait in kolo_init() until the limit."""
    done = run(program, "", launch=["--stall-limit", "3"], LEAVES_BEFORE_INIT="1")
    said = done.stdout + done.stderr
    named = r"^kolorun: rank 1 \(.*\)(: exited with code 0 before MPI_Finalize| had ended with code 0 before the failure of)"
    assert done.returncode == 1 and re.search(named, said, re.M), said


@pytest.mark.parametrize("rank", [2, *(pytest.param(rank, marks=pytest.mark.long("another rank")) for rank in (0, 1))])
def test_a_flipped_bit_is_found_and_its_rank_named(program, rank):
    done = run(program, f"rank={rank},step=7,what=flip")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and f"after step 10 of epoch 1 rank {rank} has other weights than most of the 3 ranks" in said, said


def seconds(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return float(done.stdout.split("trained in ")[1].split()[0])


def test_a_slow_rank_makes_a_synchronous_training_slow(program):
    """Its own steps are measured and lengthened, so that a busy machine lengthens both."""
    fast, slow = seconds(run(program, "", ranks=1)), seconds(run(program, "rank=0,what=slow:50x", ranks=1))
    assert slow > 5 * fast


@pytest.mark.parametrize("what, rank", [("drop", 1), ("cut", 0)])
def test_a_rank_whose_message_is_lost_is_named(program, what, rank):
    done = run(program, f"rank={rank},step=7,what={what}", launch=["--stall-limit", "3"])
    said = done.stdout + done.stderr
    others = ", ".join(str(other) for other in range(3) if other != rank)
    assert done.returncode == 1 and f"fault: rank {rank}, step 7: {what}, as it was asked for" in said, said
    assert f"rank {rank} has not come for 3 s (KOLO_STALL_LIMIT): ranks {others} wait in allreduce of" in said, said


def test_a_skipped_collective_is_told_from_the_next_one(program):
    done = run(program, "rank=2,step=7,what=skip")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    pair = re.search(r"all ranks must make the same call: rank 0 called allreduce of (\d+ \w+) .*, rank 2 allreduce of (\d+ \w+)", said)
    assert pair and pair[1] != pair[2], said


@pytest.mark.parametrize("what", ["skip", "drop", "cut"])
def test_one_rank_has_no_messages_to_lose(program, what):
    done = run(program, f"rank=0,step=3,what={what}", ranks=1)
    assert done.returncode == 1 and f"fault {what}: wanted several ranks, got one" in done.stderr, done.stderr


WRONG = [
    ("rank=0,step=3,what=slow", 'wanted kill, segv, exit, hang, skip, drop, cut, slow:5x or flip, got "slow"'),
    ("rank=0,what=slow:0.5x", 'got "slow:0.5x"'),
    ("rank=0,what=killer", 'got "killer"'),
    ("rank=0,step=3,what=kill,rank=1", 'wanted rank, step and what once each, got "rank=1" as another'),
    ("rank=x,what=kill", 'wanted rank=N,step=N,what=W with W kill'),
    ("rank=-1,what=kill", ".rank: wanted at least 0, got -1"),
    ("rank=0", 'got ""'),
    ("rank=0,what=kill;nonsense", 'got "nonsense"')]


@pytest.mark.parametrize("fault, sentence", WRONG)
def test_a_wrong_fault_is_wrong_use(program, fault, sentence):
    done = run(program, fault, ranks=1)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr


@pytest.mark.parametrize("fault, sentence", [*WRONG, ("rank=3,what=kill", "--fault: wanted a rank from 0 to 2, got 3")])
def test_kolorun_starts_nothing_with_a_wrong_fault(tmp_path, fault, sentence):
    done = patience.run([str(BUILD / "bin/kolorun"), "-np", "3", "--fault", fault, "touch", str(tmp_path / "started")],
                        capture_output=True, text=True)
    assert done.returncode == 2 and not (tmp_path / "started").exists()
    assert done.stderr.startswith("kolorun: --fault: ") and sentence in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("strategy", [["mirrored", "--devices", "2"], ["downpour", "--workers", "3", "--window", "1", "--steps-per-epoch", "400"]], ids=lambda words: words[0])
def test_a_thread_that_hangs_ends_the_training_after_the_limit(strategy):
    higgs = [BUILD / "bin/higgs", "--data", "synthetic", "--steps-per-epoch", "20", "--batch-size", "16", "--epochs", "1"]
    done = run([*higgs, "--strategy", *strategy], "rank=1,step=3,what=hang", ranks=1, KOLO_STALL_LIMIT="1")
    assert done.returncode == 1 and re.search(r"(replica|worker) 1 has not come for 1 s \(KOLO_STALL_LIMIT\): ", done.stderr), done.stderr


@pytest.mark.parametrize("fault, told", [
    ("rank=0,step=2,what=slow:2x", "fault: rank 0, step 2: slow, as it was asked for"),
    ("rank=0,step=9999,what=flip", "fault: rank 0, step 9999: flip has not happened: there was no such step")])
def test_each_fault_is_told(program, fault, told):
    done = run(program, fault, ranks=1)
    assert done.returncode == 0 and done.stderr.count("fault: ") == 1 and told in done.stderr, done.stderr


@pytest.mark.parametrize("fault, ranks, wanted", [
    ("rank=1,step=9999,what=skip", 2, "fault skip: wanted a strategy whose steps call collectives, got one of workers"),
    ("rank=0,step=9999,what=drop", 1, "fault drop: wanted several ranks, got one")])
def test_a_fault_that_cannot_happen_is_refused_before_the_training(fault, ranks, wanted):
    higgs = [BUILD / "bin/higgs", "--data", "synthetic", "--steps-per-epoch", "20", "--batch-size", "16", "--epochs", "1"]
    done = run([*higgs, "--strategy", "downpour"], fault, ranks=ranks)
    assert done.returncode == 1 and wanted in done.stderr and "step" not in done.stdout, done.stdout + done.stderr
