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
    return job.read_until(b"is there\n", times=ranks)


def saved(folder):
    return sorted(path.name for path in folder.iterdir())


# --- asked to stop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal_sent, code", [
    pytest.param(number, code, marks=[] if often else pytest.mark.long("the same with another signal"))
    for number, usual in ((signal.SIGINT, None), (signal.SIGTERM, 1), (signal.SIGHUP, 0))
    for code in (None, 0, 1) for often in [code == usual]])
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


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.long("once more")) for turn in (1, 2))])
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
    left = job.left()
    for pid in sorted(left):
        if left[pid].startswith(f"{KOLORUN} --as-rank") or pid in ranks_of(left, "save"):
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


@pytest.mark.parametrize("times", [5, pytest.param(30, marks=pytest.mark.long("more often"))])
def test_an_early_death_is_the_ranks(times):
    """mpirun used to die of SIGPIPE now and then when a rank ended before mpirun had told it everything."""
    for _ in range(times):
        job = run("-np", 4, "sh", "-c", "exit $OMPI_COMM_WORLD_RANK")
        assert job.code in (1, 2, 3) and "exited with code" in sentences(job.err)[0], job.err


# --- arguments -----------------------------------------------------------------------------------------------------


def test_a_colon_is_an_argument_like_any_other(tmp_path):
    words = ["a", ":", "-np", "2", "touch", "F", "\\:", "\\\\:", "b:", "::", "\\"]
    job = run("-np", 2, "-H", "localhost:8", sys.executable, "-c", "import sys; print(sys.argv[1:])", *words, cwd=tmp_path)
    assert by_rank(job.out) == {rank: [str(words).encode()] for rank in range(2)} and not list(tmp_path.iterdir())


# --- going on without a rank ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how, code, wanted", [
    ("exit", 3, r"exited with code 3; its last words: about to leave$"),
    ("segv", 139, r"killed by signal 11 \(Segmentation fault\); its last words: touching nothing$"),
    ("kill", 137, r"killed by signal 9 \(Killed\)$"),
])
def test_keep_going(programs, how, code, wanted):
    """The others run until they are told to end, after the report of the rank that has failed."""
    job = Job("-np", 4, "--keep-going", programs / "misbehave", how, 1, "alone", stdin=subprocess.PIPE)
    assert re.match(rf"rank 1 \(\S+, pid \d+\): {wanted}", reported(job))
    assert "3 of 4 ranks go on" in job.process.stderr.readline().decode()
    assert len(ranks_of(job.left(), "misbehave")) == 3
    job.finish(input=b"go on\n")
    assert job.code == code and not job.left() and not sentences(job.err)
    assert all(job.out.count(b"rank %d is through" % rank) == (rank != 1) for rank in range(4))


def reported(job):
    """The first sentence of kolorun."""
    while not (line := job.process.stderr.readline().decode()).startswith("kolorun: "):
        assert line
    return line[len("kolorun: "):].rstrip("\n")


def test_keep_going_tells_the_first_failure_of_several():
    script = "test $OMPI_COMM_WORLD_RANK = 0 && exit 0; sleep 0.$((9 - 3 * OMPI_COMM_WORLD_RANK)); exit 1$OMPI_COMM_WORLD_RANK"
    job = run("-np", 3, "--keep-going", "sh", "-c", script)
    assert job.code == 12 and [line.split(" (")[0] for line in sentences(job.err)] == ["rank 2", "1 of 3 ranks go on", "rank 1"]


def test_keep_going_when_a_watcher_is_killed():
    job = Job("-np", 3, "--keep-going", "sh", "-c", "echo there; sleep 2; echo done")
    job.read_until(b"there\n", times=3)
    program = ranks_of(job.left(), "sleep 2")[0]
    os.kill(int(Path(f"/proc/{program}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
    job.finish()
    assert job.code == 137 and "lost" in sentences(job.err)[0] and job.out.count(b"done") == 2 and not job.left()


def test_interrupt_ends_a_job_that_keeps_going(programs, tmp_path):
    job = Job("-np", 2, "--keep-going", programs / "save", 0.5, tmp_path)
    all_there(job, 2)
    os.kill(ranks_of(job.left(), "save")[0], signal.SIGKILL)
    reported(job)
    job.process.send_signal(signal.SIGINT)
    job.finish()
    assert job.code == 130 and not job.left() and len(saved(tmp_path)) == 1


# --- beginning anew ------------------------------------------------------------------------------------------------

def test_a_job_that_fails_is_started_again(tmp_path):
    rank_1 = "echo x >>$0/starts; test $(wc -l <$0/starts) -gt 2 || kill -9 $$; echo through"
    rank_0 = "until test $(wc -l <$0/starts) -gt 2; do sleep 0.05; done"
    script = f"if test $OMPI_COMM_WORLD_RANK = 1; then {rank_1}; else {rank_0}; fi"
    (tmp_path / "starts").touch()
    job = run("-np", 2, "--restarts", 3, "sh", "-c", script, tmp_path)
    said = [line for line in sentences(job.err) if line.startswith("restart")]
    assert job.code == 0 and said == [f"restart {i} of 3 after rank 1 was killed by signal 9" for i in (1, 2)]
    assert (tmp_path / "starts").read_text() == "x\n" * 3 and b"[1,1]<stdout>:through" in job.out


def test_restarts_come_to_an_end(tmp_path):
    job = run("-np", 2, "--restarts", 2, "--output-filename", tmp_path, "sh", "-c", "echo once; exit $((OMPI_COMM_WORLD_RANK * 5))")
    assert job.code == 5 and len([line for line in sentences(job.err) if line.startswith("restart")]) == 2
    assert (tmp_path / "rank.1" / "stdout").read_text() == "once\n" * 3


@pytest.mark.parametrize("command", [["sh", "-c", "exit 2"], ["sh", "-c", "no-such-program"], ["no-such-program"]])
def test_wrong_use_is_not_repeated(command):
    job = run("-np", 2, "--restarts", 3, *command)
    assert job.code in (2, 127) and b"restart" not in job.err


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_is_not_followed_by_a_restart(programs, tmp_path, signal_sent):
    job = Job("-np", 2, "--restarts", 3, programs / "save", 0.5, tmp_path, 1)
    all_there(job, 2)
    job.process.send_signal(signal_sent)
    job.finish()
    assert job.code == 128 + signal_sent and b"restart" not in job.err and len(saved(tmp_path)) == 2


def test_a_stop_after_a_restart(programs, tmp_path):
    job = Job("-np", 2, "--restarts", 3, programs / "save", 0.5, tmp_path)
    all_there(job, 2)
    os.kill(ranks_of(job.left(), "save")[0], signal.SIGKILL)
    all_there(job, 2)
    job.process.send_signal(signal.SIGINT)
    job.finish()
    assert job.code == 130 and job.err.count(b"restart ") == 1 and len(saved(tmp_path)) == 2


def script_of(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_each_start_asks_the_script_for_hosts(tmp_path):
    """Four slots at the first start, three at the second one, seven at the third one."""
    script = script_of(tmp_path / "hosts", f"echo x >>{tmp_path}/asked; set -- 4 3 7; shift $(($(wc -l <{tmp_path}/asked) - 1)); "
                                           "echo localhost:$1")
    ranks = "echo $OMPI_COMM_WORLD_SIZE; test $OMPI_COMM_WORLD_RANK = 0 && { sleep 0.3; exit 7; }; sleep 1"
    job = run("-np", 5, "--min-np", 3, "--restarts", 2, "--host-discovery-script", script, "sh", "-c", ranks)
    assert job.code == 7
    assert sorted(by_rank(job.out)[0]) == [b"3", b"4", b"5"] and len(by_rank(job.out)[4]) == 1


@pytest.mark.parametrize("text, options, code, wanted", [
    ("echo localhost:2", ["--start-timeout", "1"], 1, "wanted at least 4 slots, its hosts offer 2"),
    ("exit 3", [], 1, "exited with code 3"),
    ("sleep 600000", ["--start-timeout", "1"], 1, "did not end in time"),
    ("echo 'a b c'", [], 2, "line 1: wanted NAME slots=N"),
    ("yes localhost:1", ["--start-timeout", "1"], 1, "wanted at most 65536 bytes of hosts"),
    ("", ["--start-timeout", "1"], 1, "its hosts offer 0"),
])
def test_scripts_that_find_no_hosts(tmp_path, text, options, code, wanted):
    job = run("-np", 4, *options, "--host-discovery-script", script_of(tmp_path / "hosts", text), "true")
    assert job.code == code and re.search(wanted, sentences(job.err)[0]) and len(sentences(job.err)) == 1
