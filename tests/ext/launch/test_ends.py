"""How a job stops when it is asked to, goes on without a failed rank, and begins anew. See launched.py first."""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import patience
import pytest

from ext.launch.launched import KOLORUN, Job, by_rank, ranks_of, run, sentences, started


def all_there(job, ranks):
    """Waits until every rank has said so."""
    seen = b""
    while any(b"rank %d is there" % rank not in seen for rank in range(ranks)):
        seen += job.read_until(b"is there\n")
    return seen


def saved(folder):
    return sorted(path.name for path in folder.iterdir())


# --- asked to stop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("code", [None, 0, 1])
def test_ranks_have_time_to_save_their_state(programs, tmp_path, signal_sent, code):
    """A rank that ends early, however it does, takes no time from the others."""
    job = Job("-np", 3, programs / "save", 2.5, tmp_path, *([] if code is None else [code]))
    all_there(job, 3)
    os.killpg(job.process.pid, signal_sent)
    job.finish()
    assert job.code == 128 + signal_sent and not job.left()
    assert saved(tmp_path) == ["state.0", "state.1", "state.2"]


def test_stop_timeout_ends_the_time(programs, tmp_path):
    job = Job("-np", 2, "--stop-timeout", 3, programs / "save", 600000, tmp_path)
    all_there(job, 2)
    job.process.send_signal(signal.SIGTERM)
    job.finish(timeout=30)
    assert job.code == 143 and not job.left() and saved(tmp_path) == []
    assert re.match(r"2 of 2 ranks have not ended after signal 15 .* killed 3 s after it", sentences(job.err)[0])


def test_a_second_signal_ends_at_once(programs, tmp_path):
    job = Job("-np", 2, programs / "save", 600000, tmp_path)
    all_there(job, 2)
    job.process.send_signal(signal.SIGINT)
    assert b"2 of 2 ranks have not ended after signal 2" in job.process.stderr.readline()
    job.process.send_signal(signal.SIGINT)
    job.finish(timeout=10)
    assert job.code == 130 and not job.left() and saved(tmp_path) == []


@pytest.mark.parametrize("turn", range(3))
def test_slurm_signals_every_process_of_a_job(programs, tmp_path, turn):
    """As scancel --full and the end of a job's time do. No program gets its signal twice, and mpirun ends no rank."""
    job = Job("-np", 3, programs / "save", 1, tmp_path, env={"SLURM_JOB_ID": "1"})
    all_there(job, 3)
    for pid in sorted(job.left()):
        os.kill(pid, signal.SIGTERM)
    job.finish()
    assert job.code == 143 and not job.left() and len(saved(tmp_path)) == 3


def test_slurm_signals_the_ranks_alone(programs, tmp_path):
    """As scancel does to the ranks on other hosts: kolorun learns it from them."""
    job = Job("-np", 3, programs / "save", 1, tmp_path, env={"SLURM_JOB_ID": "1"})
    all_there(job, 3)
    for pid, command in sorted(job.left().items()):
        if "--as-rank" in command and "mpirun" not in command or pid in ranks_of(job.left(), "save"):
            os.kill(pid, signal.SIGTERM)
    job.finish()
    assert job.code == 143 and not job.left() and len(saved(tmp_path)) == 3


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_wait_for_a_reader(signal_sent):
    """The job has ended, but nobody reads the rest of its output."""
    job = Job("-np", 2, sys.executable, "-c", "print('x' * 300000)")
    job.wait_for(lambda left: len(left) > 1)
    job.wait_for(lambda left: len(left) == 1)
    job.process.send_signal(signal_sent)
    assert patience.wait(job.process, 10) == 128 + signal_sent


def test_an_early_death_is_the_ranks():
    """mpirun used to die of SIGPIPE now and then when a rank ended before mpirun had told it everything."""
    for _ in range(20):
        job = run("-np", 4, "sh", "-c", "exit $OMPI_COMM_WORLD_RANK")
        assert job.code in (1, 2, 3) and "exited with code" in sentences(job.err)[0], job.err


# --- arguments -----------------------------------------------------------------------------------------------------


def test_a_colon_is_an_argument_like_any_other(tmp_path):
    words = ["a", ":", "-np", "2", "touch", "F", "\\:", "\\\\:", "b:", "::", "\\"]
    job = run("-np", 2, "-H", "localhost:8", sys.executable, "-c", "import sys; print(sys.argv[1:])", *words, cwd=tmp_path)
    assert by_rank(job.out) == {rank: [str(words).encode()] for rank in range(2)} and not list(tmp_path.iterdir())
