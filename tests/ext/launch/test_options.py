"""kolorun's options, and what it says when they are used wrongly or a job cannot be started. See launched.py first."""
import patience
import pytest

from ext.launch.launched import fake_mpirun, run, sentences


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
])
def test_wrong_use(arguments, wanted):
    job = run(*arguments)
    assert job.code == 2 and job.out == b""
    assert job.err.count(b"\n") == 1 and job.err.startswith(b"kolorun: ") and wanted in job.err.decode()


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


def test_host_that_is_not_there(tmp_path):
    """ssh says why; what Open MPI guesses at length is left out, or its first line stands where nobody says why."""
    job = run("-np", 2, "-H", "no-such-host.invalid:2", "true")
    sentence = sentences(job.err)[0]
    assert job.code == 1 and "0 of 2 ranks started" in sentence and "no-such-host: " in sentence, job.err
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


