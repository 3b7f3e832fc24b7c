"""kolorun driven as its users drive it: what comes out, how it ends, and that nothing is left behind.

How it stops, goes on and begins anew has a file of its own, test_ends.py; wrong use of options is in
test_options.py. See launched.py first.
"""
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import patience
import pytest

from ext.launch.launched import KOLORUN, Job, by_rank, fake_mpirun, ranks_of, run, sentences, started


# --- it runs -------------------------------------------------------------------------------------------------------


def test_eight_ranks(programs):
    job = run("-np", 8, programs / "misbehave", "well")
    assert job.code == 0 and job.err == b""
    lines = by_rank(job.out)
    assert sorted(lines) == list(range(8))
    assert all(f"rank {rank} is through".encode() in lines[rank] for rank in lines)


def test_starts_within_two_seconds(programs):
    """About 0.35 s on two idle cores; the seconds are those of an idle machine."""
    assert any(timed(lambda: run("-np", 8, programs / "misbehave", "well")) < 2 for _ in range(3))


def timed(call):
    start = patience.now()
    call()
    return patience.now() - start


def test_command_sees_its_own_arguments_folder_and_environment(tmp_path):
    script = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['KOLO_DISPLAY'])"
    job = run("-np", 2, sys.executable, "-c", script, "-np", "3", "--verbose", "a b", "", "$HOME", "--", cwd=tmp_path,
              env={"KOLO_DISPLAY": "/some where"})
    expected = f"{['-np', '3', '--verbose', 'a b', '', '$HOME', '--']} {tmp_path} /some where".encode()
    assert by_rank(job.out) == {0: [expected], 1: [expected]}


def test_program_from_path():
    assert by_rank(run("-np", "2", "echo", "hi").out) == {0: [b"hi"], 1: [b"hi"]}


def test_np_spellings():
    for option in (["-np", "1"], ["--np", "1"], ["--num-proc", "1"], ["--num-proc=1"], ["-n", "1"]):
        assert run(*option, "true").code == 0


@pytest.mark.parametrize("ranks", [1, 3])
def test_threads_are_shared_out(ranks):
    cores = len(os.sched_getaffinity(0))
    share = str(max(1, cores // ranks)).encode()
    env = {k: v for k, v in os.environ.items() if k not in ("KOLO_THREADS", "OMP_NUM_THREADS")}
    out = subprocess.run([KOLORUN, "-np", str(ranks), "sh", "-c", "echo $KOLO_THREADS $OMP_NUM_THREADS"], env=env,
                         capture_output=True, check=True).stdout
    assert by_rank(out) == {rank: [share + b" " + share] for rank in range(ranks)}


def test_users_threads_are_kept():
    out = run("-np", 2, "sh", "-c", "echo $KOLO_THREADS $OMP_NUM_THREADS", env={"KOLO_THREADS": "5", "OMP_NUM_THREADS": "7"}).out
    assert by_rank(out) == {0: [b"5 7"], 1: [b"5 7"]}


def test_ranks_that_outnumber_cores_yield():
    ranks = len(os.sched_getaffinity(0)) + 1
    out = run("-np", ranks, "sh", "-c", "echo $OMPI_MCA_mpi_yield_when_idle").out
    assert all(lines == [b"1"] for lines in by_rank(out).values())
    out = run("-np", ranks, "sh", "-c", "echo $OMPI_MCA_mpi_yield_when_idle", env={"OMPI_MCA_mpi_yield_when_idle": "0"}).out
    assert all(lines == [b"0"] for lines in by_rank(out).values())


def test_nested_launch(programs):
    """A rank that launches ranks: the inner job is one of its own, and what the outer kolorun chose is not the user's wish."""
    inner = f"{KOLORUN} -np 2 {programs}/misbehave well && {KOLORUN} -np 1 sh -c 'echo $KOLO_THREADS'"
    job = run("-np", 2, "sh", "-c", inner)
    assert job.code == 0, job.err
    lines = by_rank(job.out)
    for rank in (0, 1):
        assert b"[1,1]<stdout>:rank 1 is through" in lines[rank]
        assert f"[1,0]<stdout>:{len(os.sched_getaffinity(0))}".encode() in lines[rank]


def test_nested_launch_from_mpi(programs):
    """The same from an Open MPI job that kolorun has not started."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    out = patience.run(["mpirun", "-np", "1", KOLORUN, "-np", "2", programs / "misbehave", "well"], env=env, timeout=60,
                       capture_output=True, check=True).stdout
    assert sorted(by_rank(out)) == [0, 1]


def test_verbose_prints_the_mpirun_line():
    job = run("-np", 2, "--mpi-args=--mca pml_base_verbose 0 -x 'TWO WORDS=1 2'", "--verbose", "sh", "-c", "echo $0 'a'")
    line = sentences(job.err)[0]
    assert "/mpirun --noprefix -np 2 " in line and "--mca pml_base_verbose 0 -x 'TWO WORDS=1 2'" in line
    assert line.endswith("--as-rank sh -c 'echo $0 '\\''a'\\'''")


def test_users_mca_settings_win():
    line = sentences(run("-np", 1, "--verbose", "--mpi-args=--mca btl self,tcp --bind-to core", "true", env={"OMPI_MCA_pml": "^cm"}).err)[0]
    assert "btl self,vader" not in line and "pml ob1" not in line and "bind-to none" not in line
    assert "--mca btl self,tcp --bind-to core" in line


def test_hosts_and_hostfile(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# two at home\nlocalhost slots=2  # here\n\n")
    assert sorted(by_rank(run("-np", 2, "--hostfile", file, "hostname").out)) == [0, 1]
    assert sorted(by_rank(run("-np", 2, "-H", "localhost:4", "hostname").out)) == [0, 1]


def test_check_build_and_version():
    job = run("--check-build")
    assert run("--cb").out == job.out
    assert job.code == 0 and re.search(rb"\[X\] mpirun", job.out) and re.search(rb"\[.\] MPI", job.out)
    job = run("--version")
    assert job.code == 0 and re.fullmatch(rb"kolorun \(Kolo\) \d+\.\d+\.\d+\n", job.out)
    job = run("--help")
    assert job.code == 0 and b"-np" in job.out and job.err == b""


def test_quick_ranks_stay_apart():
    """Many short jobs one after another: no race between a rank's end and its last output."""
    for _ in range(5):
        assert by_rank(run("-np", 4, "echo", "x").out) == {rank: [b"x"] for rank in range(4)}


# --- what is shown -------------------------------------------------------------------------------------------------


def test_stdout_and_stderr_are_told_apart(programs):
    job = run("-np", 3, programs / "speak", "both")
    assert by_rank(job.out) == {rank: [b"out of %d" % rank] for rank in range(3)}
    assert by_rank(job.err, "stderr") == {rank: [b"err of %d" % rank] for rank in range(3)}


def test_flood_stays_whole(programs):
    job = run("-np", 8, programs / "speak", "flood", timeout=120)
    lines = by_rank(job.out)
    for rank in range(8):
        assert len(lines[rank]) == 4000
        for number, line in enumerate(lines[rank]):
            head = re.match(rb"(\d+) (\d+) (\d+) (.*)\.$", line)
            assert (int(head[1]), int(head[2])) == (rank, number) and len(head[4]) == int(head[3])


def test_flood_into_one_pipe_for_both_streams(programs):
    job = run("-np", 4, "sh", "-c", f"{programs}/speak flood & {programs}/speak flood >&2; wait", stderr=subprocess.STDOUT)
    lines = job.out.split(b"\n")[:-1]
    assert len(lines) == 4 * 2 * 4000 and all(re.match(rb"\[1,\d\]<std(out|err)>:\d+ \d+ \d+ [a-z]*\.$", line) for line in lines)


@pytest.mark.parametrize("how", ["bars", "ledbars"])
def test_redraws_are_units(programs, how):
    """In a pipe each redraw is a tagged line of its own."""
    lines = by_rank(run("-np", 4, programs / "speak", how).out)
    for rank in range(4):
        assert lines[rank] == [b"bar %d of rank %d" % (i, rank) for i in range(20)] + [b"done with rank %d" % rank]


def show(raw, columns=200):
    """What a terminal shows after `raw`: carriage return, line feed, erase to the end of the line."""
    lines, column = [""], 0
    for piece in re.findall(r"\x1b\[K|.", raw.decode(), re.S):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            lines.append("")
            column = 0
        elif piece == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            lines[-1] = lines[-1][:column].ljust(column) + piece + lines[-1][column + 1:]
            column += 1
    return [line.rstrip() for line in lines]


def run_on_terminal(*arguments):
    master, slave = pty.openpty()
    job = Job(*arguments, stdout=slave, stderr=slave)
    os.close(slave)
    raw = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        raw += piece
    os.close(master)
    assert patience.wait(job.process, 10) == 0 and not job.left()
    return raw


@pytest.mark.parametrize("how", ["bars", "ledbars"])
def test_bar_redraws_in_place_on_a_terminal(programs, how):
    raw = run_on_terminal("-np", 4, programs / "speak", how)
    assert raw.count(b"\r") > 10  # it was redrawn
    assert b"of rank 0" in raw
    assert sorted(line for line in show(raw) if line) == [f"[1,{rank}]<stdout>:done with rank {rank}" for rank in range(4)]


def test_bar_redraws_in_place_in_a_notebook(programs):
    job = run("-np", 2, programs / "speak", "bars", env={"KOLO_DISPLAY": "/nowhere"})
    assert b"\x1b" not in job.out and job.out.count(b"\r") > 10
    assert sorted(line for line in show(job.out) if line) == [f"[1,{rank}]<stdout>:done with rank {rank}" for rank in range(2)]


def test_programs_learn_where_their_output_goes(programs):
    assert by_rank(run("-np", 1, "sh", "-c", "echo $KOLORUN_OUTPUT").out) == {0: [b"file"]}
    assert by_rank(run("-np", 1, "sh", "-c", "echo $KOLORUN_OUTPUT", env={"KOLO_DISPLAY": "/nowhere"}).out) == {0: [b"notebook"]}
    assert b":terminal\r\n" in run_on_terminal("-np", 1, "sh", "-c", "echo $KOLORUN_OUTPUT")


def test_unfinished_line_gets_its_end(programs):
    assert by_rank(run("-np", 3, programs / "speak", "partial").out) == {rank: [b"no end in rank %d" % rank] for rank in range(3)}


def test_bytes_pass_unchanged(programs):
    assert run("-np", 1, programs / "speak", "binary").out == b"[1,0]<stdout>:a\0b\xff\n"


def test_lines_come_live(programs):
    """Printed without a flush; the next one is only printed once this one was read here."""
    job = Job("-np", 2, programs / "speak", "live", stdin=subprocess.PIPE)
    for number in range(10):
        job.read_until(b"[1,0]<stdout>:line %d\n" % number)
        job.process.stdin.write(b"read\n")
        job.process.stdin.flush()
    assert job.finish().code == 0


def test_output_files(programs, tmp_path):
    folder = tmp_path / "new" / "logs"
    job = run("-np", 3, "--output-filename", folder, programs / "speak", "both")
    assert sorted(by_rank(job.out)) == [0, 1, 2]  # the console has it too
    for rank in range(3):
        assert (folder / f"rank.{rank}" / "stdout").read_text() == f"out of {rank}\n"
        assert (folder / f"rank.{rank}" / "stderr").read_text() == f"err of {rank}\n"


def test_output_files_sort(tmp_path):
    run("-np", 11, "--output-filename", tmp_path, "echo", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"rank.{rank:02}" for rank in range(11)]


def test_reader_that_goes_away(programs):
    """kolorun ... | head"""
    job = Job("-np", 2, programs / "speak", "forever")
    job.read_until(b"again")
    job.process.stdout.close()
    assert patience.wait(job.process, 10) == 128 + signal.SIGPIPE
    assert job.gone_within(1) < 1


def test_slow_reader_holds_the_ranks_back(programs):
    job = Job("-np", 2, programs / "speak", "forever")
    time.sleep(1.5)
    size = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in job.left() if "speak" in job.left().get(pid, ""))
    assert size < 100e6
    start = patience.now()
    job.process.send_signal(signal.SIGINT)
    patience.wait(job.process, 10)
    assert patience.now() - start < 3 and job.process.returncode == 130
    assert job.gone_within(1) < 1


# --- stdin ---------------------------------------------------------------------------------------------------------


def test_rank_0_reads_stdin_and_the_others_nothing():
    job = run("-np", 3, "sh", "-c", "cat; echo end", input=b"one\ntwo\n")
    assert by_rank(job.out) == {0: [b"one", b"two", b"end"], 1: [b"end"], 2: [b"end"]}


def test_much_stdin():
    text = b"".join(b"line %d\n" % i for i in range(200000))
    assert by_rank(run("-np", 2, "cat", input=text).out)[0] == text.split(b"\n")[:-1]


def test_stdin_that_nobody_reads():
    assert run("-np", 2, "true", input=b"x" * 1000000).code == 0


def test_stdin_left_open():
    read, write = os.pipe()
    job = Job("-np", 2, "true", stdin=read).finish(timeout=10)
    os.close(read)
    os.close(write)
    assert job.code == 0


# --- failures ------------------------------------------------------------------------------------------------------


FAILURES = [
    ("exit", 3, r"exited with code 3; its last words: about to leave$"),
    ("abort", 7, r"exited with code 7"),
    ("abort1", 1, r"exited with code 1"),
    ("segv", 139, r"killed by signal 11 \(Segmentation fault\); its last words: touching nothing$"),
    ("sigabrt", 134, r"killed by signal 6 \(Aborted\)"),
    ("kill", 137, r"killed by signal 9 \(Killed\)$"),
    ("exit0", 1, r"exited with code 0 before MPI_Finalize or kolo_finish\(\)"),
]


@pytest.mark.parametrize("how, code, wanted, wrong", [
    pytest.param(*failure, wrong, marks=[] if wrong == 2 * (number % 2) else pytest.mark.long("the same with another rank"))
    for number, failure in enumerate(FAILURES) for wrong in (0, 2)])
def test_failed_rank_is_named(programs, how, code, wanted, wrong):
    start = patience.now()
    job = run("-np", 3, programs / "misbehave", how, wrong)
    said = sentences(job.err)
    assert job.code == code
    assert len(said) == 1 and re.match(rf"rank {wrong} \(\S+, pid \d+\): {wanted}", said[0])
    assert patience.now() - start < 5
    assert b"mpirun" not in job.err and b"------" not in job.err  # its boilerplate


def test_a_rank_that_ends_before_another_starts_is_named(programs, tmp_path):
    """mpirun would end the job when it sees the end of rank 1, before kolorun knows of rank 2."""
    leave_or_meet = f'test $OMPI_COMM_WORLD_RANK = 1 || {{ touch {tmp_path}/begun; exec "{programs}/misbehave" hang 0; }}'
    late = {"LD_PRELOAD": str(programs / "late"), "LATE_AFTER": str(tmp_path / "begun")}
    job = run("-np", 3, "sh", "-c", leave_or_meet, env=late)
    assert re.fullmatch(r"rank 1 \(.*\): exited with code 0 before MPI_Finalize or kolo_finish\(\), while other ranks needed it", *sentences(job.err))


def test_last_words_are_the_last_five_lines(programs):
    said = sentences(run("-np", 2, programs / "misbehave", "words").err)
    assert said[0].endswith("exited with code 4; its last words:")
    assert [line.strip() for line in said[1:]] == [f"word {i}" for i in range(3, 8)]


def test_failure_without_mpi():
    job = run("-np", 4, "sh", "-c", "test $OMPI_COMM_WORLD_RANK != 2 && exec sleep 600000; echo oh no >&2; exit 9")
    assert job.code == 9 and re.match(r"rank 2 \(.*\): exited with code 9; its last words: oh no", sentences(job.err)[0])


RANK_1 = 'test $OMPI_COMM_WORLD_RANK = 1 || exit 0; '


def test_a_rank_that_hangs_after_the_others_is_ended():
    job = run("-np", 2, "--keep-going", "--stall-limit", 1, "sh", "-c", RANK_1 + "exec sleep 600000")
    wanted = r"rank 1 \(.*, pid \d+\) has done nothing for 2 s, and other ranks have ended: it is ended \(--stall-limit\)"
    assert job.code == 1 and re.fullmatch(wanted, *sentences(job.err))


def test_a_rank_that_computes_after_the_others_is_left_alone():
    """It begins and ends waits, too, which are shorter than the limit."""
    works = "i=0; while [ $i -lt 12 ]; do j=0; while [ $j -lt 50000 ]; do j=$((j + 1)); done; sleep 0.5; i=$((i + 1)); done; echo done"
    job = run("-np", 2, "--keep-going", "--stall-limit", 1, "sh", "-c", RANK_1 + works)
    assert job.code == 0 and by_rank(job.out) == {1: [b"done"]}


def test_stubborn_ranks_are_ended(programs):
    """They block every signal, and have children in sessions of their own."""
    start = patience.now()
    job = run("-np", 4, programs / "misbehave", "exit", env={"STUBBORN": "1"})
    assert job.code == 3 and patience.now() - start < 5


def test_what_a_rank_leaves_behind_is_ended():
    start = patience.now()
    job = run("-np", 2, "sh", "-c", "setsid sleep 600000 & sleep 0.2; echo done")
    assert job.code == 0 and by_rank(job.out) == {0: [b"done"], 1: [b"done"]} and patience.now() - start < 5


def test_background_output_is_not_cut_off():
    assert by_rank(run("-np", 1, "sh", "-c", "(sleep 0.5; echo late) & echo early").out) == {0: [b"early", b"late"]}


@pytest.mark.parametrize("signal_sent, stubborn", [
    (signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, False),
    *(pytest.param(*case, marks=pytest.mark.long("the same with another signal")) for case in [
        (signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, True)])])
def test_signals_end_the_job(programs, signal_sent, stubborn):
    job = Job("-np", 4, "--stop-timeout", 1, programs / "misbehave", "hang", env={"STUBBORN": "1"} if stubborn else {})
    job.read_until(b"rank 0 is there")
    start = patience.now()
    os.killpg(job.process.pid, signal_sent)  # as a terminal or Jupyter sends it
    job.finish(timeout=10)
    took = patience.now() - start
    assert job.code == 128 + signal_sent and not job.left()
    assert took < 2.5, f"took {took:.2f} s"
    assert len(sentences(job.err)) == 1


def test_interrupt_lets_a_program_end_cleanly():
    script = "trap 'echo cleaned up; exit 0' INT; echo ready; while :; do sleep 0.05; done"
    job = Job("-np", 2, "sh", "-c", script)
    job.read_until(b"ready")
    time.sleep(0.2)
    job.process.send_signal(signal.SIGINT)
    job.finish()
    assert job.code == 130 and job.out.count(b"cleaned up") == 2


@pytest.mark.parametrize("delay", [0.05, *(pytest.param(delay, marks=pytest.mark.long("another moment")) for delay in (0, 0.02, 0.1, 0.2))])
def test_interrupt_while_starting(programs, delay):
    job = Job("-np", 8, programs / "misbehave", "hang")
    time.sleep(delay)
    job.process.send_signal(signal.SIGINT)
    job.finish(timeout=10)
    assert job.code in (130, -signal.SIGINT) and not job.left()  # before main() a signal is the system's


def test_user_signals_reach_the_programs():
    job = Job("-np", 2, "sh", "-c", "trap 'echo got it; exit 0' USR1; echo ready; while :; do sleep 0.05; done")
    job.read_until(b"ready")
    time.sleep(0.3)
    job.process.send_signal(signal.SIGUSR1)
    job.finish()
    assert job.code == 0 and job.out.count(b"got it") == 2


@pytest.mark.parametrize("stubborn", [False, True])
def test_killed_kolorun_takes_everything_along(programs, stubborn, tmp_path):
    env = {"KOLORUN_SEGMENTS": str(tmp_path), **({"STUBBORN": "1"} if stubborn else {})}
    job = Job("-np", 4, programs / "misbehave", "hang", env=env)
    job.read_until(b"rank 0 is there")
    assert len(list(tmp_path.glob("kolorun-*/vader_segment.*"))) == 4
    job.process.kill()
    assert job.gone_within(5) < 5 and not list(tmp_path.glob("kolorun-*/vader_segment.*"))


def test_killed_mpirun(programs, tmp_path):
    """What mpirun itself would have cleared away stays in tmp_path here."""
    env = {"STUBBORN": "1", "TMPDIR": str(tmp_path), "OMPI_MCA_btl_vader_backing_directory": str(tmp_path)}
    job = Job("-np", 4, programs / "misbehave", "hang", env=env)
    job.read_until(b"rank 0 is there")
    pid = job.wait_for(lambda left: [pid for pid, command in left.items() if "/mpirun --noprefix" in command])[0]
    os.kill(pid, signal.SIGKILL)
    job.finish(timeout=5)
    assert job.code == 137 and not job.left() and "mpirun" in sentences(job.err)[0]


def test_killed_watcher(programs):
    job = Job("-np", 4, programs / "misbehave", "hang", env={"STUBBORN": "1"})
    job.read_until(b"rank 3 is there")
    program = ranks_of(job.left(), "misbehave")[0]
    watcher = int(Path(f"/proc/{program}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(watcher if watcher in job.left() else program, signal.SIGKILL)
    job.finish(timeout=5)
    assert job.code == 137 and not job.left() and re.match(r"rank \d", sentences(job.err)[0])


def test_rank_killed_from_outside(programs):
    job = Job("-np", 4, programs / "misbehave", "hang")
    job.read_until(b"rank 3 is there")
    victim = ranks_of(job.left(), "misbehave")[2]
    os.kill(victim, signal.SIGKILL)
    job.finish(timeout=5)
    assert job.code == 137 and f"pid {victim}): killed by signal 9" in sentences(job.err)[0]


def test_killed_rank_leaves_no_shared_memory(programs, tmp_path):
    job = Job("-np", 3, programs / "misbehave", "kill", env={"KOLORUN_SEGMENTS": str(tmp_path)})
    job.finish(timeout=10)
    assert job.code == 137 and not list(tmp_path.iterdir())


def test_what_a_killed_job_left_is_swept_up(programs, tmp_path):
    left = tmp_path / "kolorun-abcdef"
    left.mkdir()
    (left / "vader_segment.here").write_text("x")
    run("-np", 2, programs / "misbehave", "well", env={"KOLORUN_SEGMENTS": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_stopped_rank_is_noticed(programs):
    job = Job("-np", 3, programs / "misbehave", "stop")
    line = job.process.stderr.readline().decode()
    match = re.match(r"kolorun: rank 1 \(\S+, pid (\d+)\) was stopped by signal 19", line)
    assert match, line
    os.kill(int(match[1]), signal.SIGCONT)
    job.finish()
    assert job.code == 0 and "goes on" in sentences(job.err)[0] and job.out.count(b"is through") == 3


def test_stopped_rank_does_not_outlive_the_job(programs):
    job = Job("-np", 3, programs / "misbehave", "stop")
    job.process.stderr.readline()
    job.process.send_signal(signal.SIGINT)
    job.finish(timeout=5)
    assert job.code == 130 and not job.left()


def test_script_without_interpreter(tmp_path):
    """Found and executable, but the kernel refuses to start it."""
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    job = run("-np", 2, script)
    assert job.code == 127 and re.match(r"rank \d \(\S+\): cannot start \S+script: No such file", sentences(job.err)[0])


def test_nothing_stays_in_tmp(programs, tmp_path):
    for arguments in (["well"], ["exit"], ["kill"]):
        run("-np", 2, programs / "misbehave", *arguments, env={"TMPDIR": str(tmp_path)})
    assert not [path for path in tmp_path.rglob("*") if "pid." in path.name]
