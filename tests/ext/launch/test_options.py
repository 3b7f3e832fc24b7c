"""kolorun's options, and what it says when they are used wrongly or a job cannot be started. See launched.py first."""
import os
import re
import socket
import subprocess

import patience
import pytest

from ext.launch.launched import KOLORUN, ROOT, Job, by_rank, fake_mpirun, run, sentences


@pytest.mark.parametrize("arguments, wanted", [
    (["-np", "0", "true"], "'0'"),
    (["-np", "x", "true"], "'x'"),
    (["-np", "-1", "true"], "'-1'"),
    (["-np", "2x", "true"], "'2x'"),
    (["-np", "99999999999", "true"], "99999999999"),
    (["-np"], "-np: wanted a value"),
    (["true"], "wanted -np N"),
    (["-np", "2"], "no command"),
    ([], "no command"),
    (["-np", "2", "no-such-program"], "no-such-program: command not found"),
    (["-np", "2", "./no-such-program"], "./no-such-program: command not found"),
    (["-np", "2", "/etc/passwd"], "not executable"),
    (["-np", "2", "/"], "got a folder"),
    (["-np", "2", "--no-such-option", "true"], "--no-such-option"),
    (["-np", "8", "-H", "localhost:4", "true"], "wanted 8 ranks, hosts offer 4 slots"),
    (["-np", "4", "-H", "a:2", "b:2", "true"], "a:2,b:2"),
    (["-np", "2", "-H", "localhost:x", "true"], "localhost:x"),
    (["-np", "2", "-H", "", "true"], "-H"),
    (["-np", "2", "-H", "a:2,,b:2", "true"], "-H"),
    (["-np", "2", "--hostfile", "/no/such/file", "true"], "No such file"),
    (["-np", "2", "--hostfile", "/dev/null", "true"], "wanted a line a host"),
    (["-np", "2", "-H", "a:2", "--hostfile", "/dev/null", "true"], "both"),
    (["-np", "2", "--mpi-args", "a | b", "true"], "--mpi-args"),
    (["-np", "2", "--output-filename", "/dev/null/x", "true"], "--output-filename /dev/null/x"),
    (["-np", "2", "--output-filename", "", "true"], "--output-filename"),
    (["-np", "2", "--start-timeout", "0", "true"], "--start-timeout"),
    (["-np", "2", "--stop-timeout", "x", "true"], "--stop-timeout: wanted a whole number of at least 1, got 'x'"),
    (["-np", "2", "--restarts", "-1", "true"], "--restarts: wanted a whole number of at least 0, got '-1'"),
    (["-np", "2", "--min-np", "1", "true"], "--min-np: wanted --host-discovery-script"),
    (["-np", "2", "--min-np", "3", "--host-discovery-script", "/bin/true", "true"], "at most the 2 ranks of -np, got 3"),
    (["-np", "2", "-H", "a:2", "--host-discovery-script", "/bin/true", "true"], "both"),
    (["-np", "2", "--host-discovery-script", "/no/such/file", "true"], "No such file"),
    (["-np", "2", "-x", "=1", "true"], "-x: wanted NAME=VALUE, got '=1'"),
    (["-np", "2", "--env", "", "true"], "-x: wanted NAME=VALUE, got ''"),
    (["-np", "2", "-x", "NOT_SET_HERE", "true"], "-x NOT_SET_HERE: wanted a variable of kolorun's environment, or NOT_SET_HERE=VALUE"),
    (["-np", "2", "--bind-to", "cpu", "true"], "socket or none, got 'cpu'"),
    (["-np", "2", "--bind-to", "core", "--mpi-args", "--bind-to none", "true"], "--bind-to: wanted it here or in --mpi-args, got both"),
    (["-np", "2", "--wdir", "/no/such/folder", "true"], "--wdir /no/such/folder: No such file"),
    (["-np", "2", "--wdir", "/etc/passwd", "true"], "wanted a folder"),
    (["-np", "2", "--wdir", "/usr", "bin/no-such-program"], "bin/no-such-program: command not found"),
    (["-np", "2", "--local-ranks-filter", "0,", "true"], "wanted numbers of ranks as 0,3, got '0,'"),
    (["-np", "2", "--local-ranks-filter", "", "true"], "wanted numbers of ranks as 0,3, got ''"),
    (["-np", "2", "--local-ranks-filter", "1,2", "true"], "--local-ranks-filter: wanted numbers from 0 to 1, got 2"),
    (["--config-file", "/no/such/file", "true"], "--config-file /no/such/file: "),
    (["-np", "2", "--network-interfaces", "", "true"], "wanted interfaces or subnets as eth0,10.0.0.0/24, got ''"),
    (["-np", "2", "--network-interfaces", "eth0,,eth1", "true"], "got 'eth0,,eth1'"),
    (["-np", "2", "--network-interface", "eth0", "--network-interface", "", "true"], "got 'eth0,'"),
    (["-np", "2", "--network-interfaces", "eth0, eth1", "true"], "got 'eth0, eth1'"),
    (["-np", "2", "--fault", "", "true"], "--fault: wanted a fault as rank=0,step=10,what=kill, got ''"),
    (["-np", "2", "--fault", "rank=0", "true"], "--fault: "),
    (["-np", "2", "--fault", "rank=2,step=1,what=kill", "true"], "--fault: wanted a rank from 0 to 1, got 2"),
    (["-np", "2", "--ssh-port", "65536", "true"], "--ssh-port: wanted a whole number from 1 to 65535, got '65536'"),
    (["-np", "2", "--stall-limit", "1.5", "true"], "--stall-limit: wanted a whole number of at least 0, got '1.5'"),
    (["-np", "2", "--timeline-filename", "", "true"], "--timeline: wanted the name of a file, got an empty one"),
    (["-np", "2", "--autotune-log-file", "log.csv", "true"], "--autotune-log-file: wanted --autotune, too, got none"),
    (["-np", "2", "--autotune", "--no-autotune", "--autotune-log-file", "x", "true"], "wanted --autotune, too, got --no-autotune"),
    (["-np", "2", "--autotune", "--autotune-log-file", "", "true"], "--autotune-log-file: wanted the name of a file, got an empty one"),
])
def test_wrong_use(arguments, wanted):
    job = run(*arguments)
    assert job.code == 2 and job.out == b""
    assert job.err.count(b"\n") == 1 and job.err.startswith(b"kolorun: ") and wanted in job.err.decode()


def options_of_help():
    """{option: whether it takes a value}, for all names; and those that --help does not show."""
    text = run("--help").out.decode()
    shown = re.findall(r"^ {2,6}(-.*?)(?:  |$)", text, re.MULTILINE)
    names = {name: value for words in shown for name, value in re.findall(r"(?<![\w-])--([a-z-]+)(\[?=)?", words)}
    assert len(names) >= 40 and names["num-proc"] == "=" and names["rdma"] == "[=" and names["tcp"] == ""
    return names | {"timeline-filename": "=", "mpi": "", "h": ""}


def test_a_value_that_is_missing_or_too_much():
    """Each option that needs a value says so, and each other option has none."""
    for name, value in options_of_help().items():
        job = run("-np", 1, f"--{name}") if value == "=" else run("-np", 1, f"--{name}=x", "true")
        wanted = {"=": f"--{name}: wanted a value, got none", "": f"--{name}: wanted no value, got 'x'",
                  "[=": "--rdma: wanted ucx or verbs, got 'x'"}[value]
        assert job.code == 2 and job.err.decode() == f"kolorun: {wanted}\n"


def test_each_option_is_used_in_a_test():
    """Apart from the rows of wrong uses above."""
    tests = [re.sub(r"^    \(\[.*", "", path.read_text(), flags=re.MULTILINE) for path in (ROOT / "tests").rglob("*.py")]
    unused = [name for name in options_of_help()
              if not any(re.search(rf"""["' ]--{name}["' =]|"{name}": """, text) for text in tests)]
    assert unused == []


def test_what_mpirun_does_not_know_is_told_in_a_sentence():
    job = run("-np", 1, "--mpi-args", "--no-such-option", "true")
    assert job.code == 1 and job.err.count(b"\n") == 1 and 'unknown option "--no-such-option"' in sentences(job.err)[0]


def test_program_in_this_folder_without_a_path(programs):
    job = run("-np", 2, "speak", cwd=programs)
    assert job.code == 2 and "did you mean ./speak?" in job.err.decode()


def test_no_mpirun():
    job = run("-np", 2, "/bin/true", env={"PATH": "/no/such/folder"})
    assert job.code == 1 and "openmpi-bin" in job.err.decode() and job.err.count(b"\n") == 1


def test_mpirun_that_cannot_start(tmp_path):
    job = run("-np", 2, "true", env=fake_mpirun(tmp_path, "echo '-----'; echo 'no slots, no luck' >&2; exit 5"))
    assert job.code == 1  # mpirun's own code is no rank's
    assert sentences(job.err) == ["mpirun could not start the job (0 of 2 ranks started): no slots, no luck"]


def test_interface_that_vanishes_is_no_cause(tmp_path):
    """mpirun goes on without an interface that has vanished while it listed them; another error of the same call counts."""
    vanished = "echo '[node1:42] pmix_ifinit: ioctl(SIOCGIFFLAGS) failed with errno=19'; echo '[node1:42] opal_ifinit: "
    vanished += "ioctl(SIOCGIFADDR) failed with errno=99'; "
    cannot = "mpirun could not start the job (0 of 2 ranks started)"
    job = run("-np", 2, "true", env=fake_mpirun(tmp_path, vanished + "echo no luck; " + vanished + "exit 5"))
    assert job.code == 1 and sentences(job.err) == [f"{cannot}: no luck"]
    job = run("-np", 2, "true", env=fake_mpirun(tmp_path, vanished + "exit 5"))
    assert sentences(job.err) == [cannot]
    job = run("-np", 2, "true", env=fake_mpirun(tmp_path, "echo 'pmix_ifinit: ioctl(SIOCGIFCONF) failed with errno=12'; exit 5"))
    assert sentences(job.err) == [f"{cannot}: pmix_ifinit: ioctl(SIOCGIFCONF) failed with errno=12"]


def test_host_that_is_not_there(tmp_path):
    """ssh says why; what Open MPI guesses at length is left out, or its first line stands where nobody says why."""
    job = run("-np", 2, "-H", "no-such-host.invalid:2", "true")
    sentence = sentences(job.err)[0]
    assert job.code == 1 and "0 of 2 ranks started" in sentence and "no-such-host.invalid: " in sentence, job.err
    job = run("-np", 2, "-H", "no-such-host.invalid:1,nor-this.invalid:1", "true")
    assert job.code == 1 and not [line for line in sentences(job.err) if "ORTE" in line or "daemon" in line]
    guesses = "echo ---; echo 'ORTE was unable to reliably start one or more daemons.'; echo '* not finding'; echo ---; "
    job = run("-np", 2, "true", env=fake_mpirun(tmp_path, guesses + "exit 5"))
    (sentence,) = sentences(job.err)
    assert job.code == 1 and sentence.endswith("ORTE was unable to reliably start one or more daemons.")
    job = run("-np", 2, "true", env=fake_mpirun(tmp_path, guesses + "echo one; echo two; exit 5"))
    assert sentences(job.err)[1:] == ["  one", "  two"]


def test_help_has_no_lines_of_blanks():
    job = run("--help")
    assert job.code == 0 and not [line for line in job.out.split(b"\n") if line and not line.strip()]


def test_start_timeout(tmp_path):
    start = patience.now()
    job = run("-np", 2, "--start-timeout", 1, "true", env=fake_mpirun(tmp_path, "sleep 600000"))
    assert job.code == 1 and "2 of 2 ranks had not started after 1 s" in job.err.decode()
    assert patience.now() - start < 5


@pytest.mark.parametrize("option", ["-h", "--h", "--help"])
def test_help(option):
    job = run(option)
    assert job.code == 0 and b"--restarts" in job.out and not job.err


def test_mpi_is_horovodruns_option_and_no_abbreviation():
    assert by_rank(run("--mpi", "-np", 2, "echo", "hi").out) == {0: [b"hi"], 1: [b"hi"]}


# --- what the ranks get --------------------------------------------------------------------------------------------


def test_variables_of_the_ranks():
    """They are the ranks' alone: a PATH without mpirun does not keep kolorun from finding it."""
    odd = "1;2 'x'="
    job = run("-np", 2, "-x", f"ODD={odd}", "--env", "EMPTY=", "-x", "TWICE=1", "-x", "TWICE=2", "-x", "SEEN", "-x", "PATH=/no/such",
              "/bin/sh", "-c", 'echo "$ODD|${EMPTY-unset}|$TWICE|$SEEN|$PATH"', env={"SEEN": "here", "TWICE": "0"})
    assert by_rank(job.out) == {rank: [f"{odd}||2|here|/no/such".encode()] for rank in range(2)}, job.err


def test_a_program_is_found_in_the_ranks_path(tmp_path):
    (tmp_path / "mine").write_text("#!/bin/sh\necho hi\n")
    (tmp_path / "mine").chmod(0o755)
    assert by_rank(run("-np", 1, "-x", f"PATH={tmp_path}", "mine").out) == {0: [b"hi"]}


def test_ranks_have_the_users_path():
    path = "/no/such:" + os.environ["PATH"]
    job = run("-np", 1, "sh", "-c", 'echo "$PATH"', env={"PATH": path})
    assert by_rank(job.out) == {0: [path.encode()]}


def test_wdir(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "mine").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "inner" / "mine").chmod(0o755)
    job = run("-np", 2, "--wdir", "inner", "./mine", cwd=tmp_path)
    assert by_rank(job.out) == {rank: [f"{tmp_path}/inner".encode()] for rank in range(2)}, job.err
    assert "did you mean ./mine?" in run("-np", 1, "--wdir", "inner", "mine", cwd=tmp_path).err.decode()


def test_bound_ranks_share_the_cores():
    """A rank's threads are its part of what it is bound to: a core is its own, a socket it shares with others."""
    cores = os.cpu_count()
    script = "grep Cpus_allowed_list /proc/self/status | tr -dc 0-9,-; echo \" $KOLO_THREADS\""
    job = run("-np", cores, "--bind-to", "core", "sh", "-c", script)
    lines = [lines[0].split() for lines in by_rank(job.out).values()]
    assert len({cpus for cpus, _ in lines}) == cores and {threads for _, threads in lines} == {b"1"}
    job = run("-np", cores, "--bind-to", "socket", "sh", "-c", script)
    assert {lines[0].split()[1] for lines in by_rank(job.out).values()} == {b"1"}
    job = run("-np", cores + 1, "--bind-to", "core", "true")
    assert job.code == 1 and sentences(job.err) == ["--bind-to: a host has fewer cores than ranks: start fewer ranks there, or do not bind "
                                                    "them"]


def test_hierarchical_allreduce_and_stall_check():
    for options, wanted in ((["--hierarchical-allreduce", "--no-stall-check"], b"1 0"),
                            (["--no-hierarchical-allreduce", "--stall-limit", "7"], b"0 7"), ([], b" ")):
        env = {name: value for name, value in os.environ.items() if name not in ("KOLO_HIERARCHICAL_ALLREDUCE", "KOLO_STALL_LIMIT")}
        out = patience.run([KOLORUN, "-np", "1", *options, "sh", "-c", 'echo "$KOLO_HIERARCHICAL_ALLREDUCE $KOLO_STALL_LIMIT"'], env=env,
                           capture_output=True).stdout
        assert by_rank(out) == {0: [wanted]}


def test_timeline_by_horovodruns_name(tmp_path):
    job = run("-np", 1, "--timeline-filename", "trace.json", "sh", "-c", 'echo "$KOLO_TIMELINE"', cwd=tmp_path)
    assert by_rank(job.out) == {0: [f"{tmp_path}/trace.json".encode()]}


def test_autotune(tmp_path):
    """What the ranks learn of it: libkolo tunes (tests/ext/replica/test_autotune.py)."""
    show = ["sh", "-c", 'echo "$KOLO_AUTOTUNE $KOLO_AUTOTUNE_LOG"']
    job = run("-np", 1, "--autotune", "--autotune-log-file", "log.csv", *show, cwd=tmp_path)
    assert by_rank(job.out) == {0: [f"1 {tmp_path}/log.csv".encode()]}
    assert by_rank(run("-np", 1, "--no-autotune", *show, env={"KOLO_AUTOTUNE": "1", "KOLO_AUTOTUNE_LOG": ""}).out) == {0: [b"0 "]}
    (tmp_path / "run.json").write_text('{"autotune": true, "autotune-log-file": "/tmp/log.csv"}')
    assert by_rank(run("-np", 1, "--config-file", tmp_path / "run.json", *show).out) == {0: [b"1 /tmp/log.csv"]}


@pytest.mark.parametrize("options", [["--timeline"], ["--autotune", "--autotune-log-file"]])
@pytest.mark.parametrize("file, why", [("/no/such/folder/x", "No such file or directory"), ("/usr", "Is a directory"),
                                       ("/dev/null", "it is a device or a pipe"), ("x" * 5000, "File name too long")])
def test_files_of_the_ranks_that_cannot_be_written(options, file, why):
    job = run("-np", 1, *options, file, "true")
    assert job.code == 1 and sentences(job.err) == [f"{options[-1]}: wanted a file that can be written, got {file[:300]}: {why}"]
    assert job.err.count(b"\n") == 1


def test_networks_may_be_named_one_by_one():
    job = run("-np", 1, "-H", "no-such-host.invalid:1", "--network-interface", "eth7", "--network-interface", "10.0.0.0/24", "--verbose",
              "true")
    named = "--mca btl_tcp_if_include eth7,10.0.0.0/24 --mca oob_tcp_if_include eth7,10.0.0.0/24"
    assert named in sentences(job.err)[0]
    job = run("-np", 1, "-H", "no-such-host.invalid:1", "--network-interfaces", "eth7,10.0.0.0/24", "--verbose", "true")
    assert named in sentences(job.err)[0]


# --- SLURM, as its variables tell of it ----------------------------------------------------------------------------

HERE = socket.gethostname()
SCRIPT = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_JOB_NODELIST": HERE, "SLURM_NODELIST": HERE, "SLURM_JOB_NUM_NODES": "1",
          "SLURM_NNODES": "1", "SLURM_TASKS_PER_NODE": "2", "SLURM_NTASKS": "2", "SLURMD_NODENAME": HERE, "SLURM_PROCID": "0"}


def test_in_a_batch_script():
    assert sorted(by_rank(run("echo", "hi", env=SCRIPT).out)) == [0, 1]


def test_in_a_step_of_one_task():
    assert sorted(by_rank(run("echo", "hi", env=SCRIPT | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}).out)) == [0, 1]


@pytest.mark.parametrize("options", [["-np", "8"], ["-np", "4", "-H", f"{HERE}:4"], ["-np", "4", "-H", f"nowhere:4,{HERE}:1"]])
def test_more_ranks_than_the_allocation_has_slots(options):
    job = run(*options, "true", env=SCRIPT)
    (sentence,) = sentences(job.err)
    assert job.code == 1 and f"wanted {options[1]} ranks, and the allocation has fewer slots" in sentence
    assert job.err.count(b"\n") == 1


def test_a_page_of_mpirun_becomes_a_sentence(tmp_path):
    page = "echo -----; echo 'It did not'; echo 'work.'; echo; echo 'A long'; echo story; echo ----; "
    assert sentences(run("-np", 2, "true", env=fake_mpirun(tmp_path, page + "exit 1")).err) == [
        "mpirun could not start the job (0 of 2 ranks started): It did not work."]
    said = sentences(run("-np", 2, "true", env=fake_mpirun(tmp_path, page + "echo more; exit 1")).err)
    assert said[1:] == ["  It did not work.", "  more"]


@pytest.mark.parametrize("task", range(2))
def test_srun_starts_several_launchers(task):
    """Only one of them says so, and none waits."""
    job = run("-np", 2, "echo", "hi", env=SCRIPT | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": str(task)})
    assert job.code == 2 and not job.out and len(sentences(job.err)) == (task == 0)
    assert task or "srun has started kolorun 4 times" in sentences(job.err)[0]


def program(*arguments, **variables):
    build = ROOT / os.environ.get("KOLO_BUILD", "build")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")} | variables
    return patience.run([build / "bin" / "p2p_bandwidth_latency", *arguments], env=env, capture_output=True)


def test_srun_without_pmix_gives_the_ranks_no_way_to_meet():
    step = program(SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="2")
    assert step.returncode == 1
    assert b"srun started 4 tasks and gave them no way to meet" in step.stderr and step.stderr.count(b"\n") == 1


# --- --output-filename ---------------------------------------------------------------------------------------------


def test_a_reused_folder_keeps_no_old_ranks(tmp_path):
    for ranks in (11, 2):
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "rank.07").mkdir(exist_ok=True)
        (tmp_path / "rank.07" / "mine").touch()
        run("-np", ranks, "--output-filename", tmp_path, "echo", ranks)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "rank.0", "rank.07", "rank.1"]
    assert [path.name for path in (tmp_path / "rank.07").iterdir()] == ["mine"]
    assert (tmp_path / "rank.1" / "stdout").read_text() == "2\n"


def test_a_full_disk_is_told(tmp_path):
    (tmp_path / "rank.1").mkdir()
    (tmp_path / "rank.1" / "stdout").symlink_to("/dev/full")
    job = run("-np", 2, "--output-filename", tmp_path, "echo", "x")
    assert job.code == 1 and sorted(by_rank(job.out)) == [0, 1]
    assert sentences(job.err) == [f"--output-filename {tmp_path}: the stdout of rank 1 cannot be written: No space left on device"]
    assert run("-np", 2, "--output-filename", tmp_path, "sh", "-c", "echo; exit 3").code == 3


# --- connections that are not of the job ---------------------------------------------------------------------------


def end_with_idle_connection():
    """Seconds that kolorun takes to end after its rank."""
    job = Job("-np", 1, "cat", stdin=subprocess.PIPE)
    job.wait_for(lambda left: "cat " in left.values())
    contact = next(line for line in contacts(job) if line.startswith("unix:"))
    with socket.socket(socket.AF_UNIX) as idle:
        idle.connect("\0" + contact[len("unix:"):])
        job.process.stdin.close()
        start = patience.now()
        assert patience.wait(job.process, 20) == 0
        return patience.now() - start


def test_an_idle_connection_does_not_delay_the_end():
    """It used to take 3.5 s; the seconds are those of an idle machine."""
    assert min(end_with_idle_connection() for _ in range(3)) < 1


def contacts(job):
    """The addresses of this kolorun, from the environment of mpirun."""
    for pid in job.left():
        with open(f"/proc/{pid}/environ") as variables:
            for line in variables.read().split("\0"):
                if line.startswith("KOLORUN_CONTACT="):
                    yield line.split("=", 1)[1]
