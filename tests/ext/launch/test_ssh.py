"""Ranks on another host through ssh: user, port and key. See launched.py and other_host.py first."""
import getpass

import pytest

from ext.launch.launched import Job, by_rank, run, sentences
from ext.launch.other_host import HERE, THERE


def launch(agent, *arguments):
    return Job("--mpi-args", f"--mca plm_rsh_agent '{agent}'", *arguments).finish(timeout=90)


@pytest.mark.parametrize("hosts", ["list", pytest.param("file", marks=pytest.mark.long("the same from a hostfile"))])
def test_user_port_and_key(other_host_with_sshd, tmp_path, hosts):
    """The other host lets only its own user in, with this key, on this port."""
    key, agent = other_host_with_sshd
    (tmp_path / "hosts").write_text(f"{HERE} slots=1\nlearner@{THERE} slots=2\n")
    named = ["-H", f"{HERE}:1,learner@{THERE}:2"] if hosts == "list" else ["--hostfile", tmp_path / "hosts"]
    job = launch(agent, "-np", 3, *named, "--ssh-port", 2222, "--ssh-identity-file", key, "--wdir", "/", "-x", "WORD=a b;c",
                 "sh", "-c", 'echo "$(whoami) $(hostname) $PWD $WORD"')
    assert job.code == 0, job.err
    lines = by_rank(job.out)
    assert lines[0][0].startswith(b"root ") and lines[0][0].endswith(b" / a b;c")
    assert lines[1] == lines[2] == [b"learner elsewhere / a b;c"]


@pytest.mark.parametrize("hosts, options, wanted", [
    (f"learner@{THERE}:1", ["--ssh-port", "2222"], "Permission denied"),
    (f"{THERE}:1", ["--ssh-port", "2222", "-i", "KEY"], "Permission denied"),
    pytest.param(f"learner@{THERE}:1", ["-p", "2223", "-i", "KEY"], "Connection refused", marks=pytest.mark.long("the same with a port")),
])
def test_ssh_says_what_is_wrong(other_host_with_sshd, hosts, options, wanted):
    key, agent = other_host_with_sshd
    job = launch(agent, "-np", 1, "-H", hosts, *[str(key) if option == "KEY" else option for option in options], "true")
    (sentence,) = sentences(job.err)
    assert job.code == 1 and "0 of 1 ranks started" in sentence and wanted in sentence, job.err


def test_a_name_with_its_domain_reaches_ssh(other_host_with_sshd):
    """ssh knows only the whole name."""
    key, agent = other_host_with_sshd
    with open(agent.split()[-1], "a") as settings:
        settings.write(f"Host far.cluster.example\n    HostName {THERE}\n")
    job = launch(agent, "-np", 2, "-H", "localhost:1,learner@far.cluster.example:1", "-p", 2222, "-i", key, "hostname")
    assert job.code == 0 and by_rank(job.out)[1] == [b"elsewhere"], job.err


def test_a_folder_that_is_missing_on_the_other_host(other_host_with_sshd, tmp_path):
    key, agent = other_host_with_sshd
    job = launch(agent, "-np", 1, "-H", f"learner@{THERE}:1", "-p", 2222, "-i", key, "--wdir", "/no/such/folder", "true")
    (sentence,) = sentences(job.err)
    assert job.code == 1 and "change to the specified working directory: Working directory: /no/such/folder" in sentence


@pytest.mark.parametrize("options, wanted", [
    (["--ssh-port", "0"], "--ssh-port: wanted a whole number from 1 to 65535, got '0'"),
    (["-p", "65536"], "--ssh-port: wanted a whole number from 1 to 65535, got '65536'"),
    (["-i", "/no/such/key"], "--ssh-identity-file /no/such/key: No such file or directory"),
    (["-i", "/"], "--ssh-identity-file /: wanted a file with a private key"),
    (["-p", "22", "--mpi-args", "--mca plm_rsh_args -v"], "--ssh-port and Open MPI's plm_rsh_args both set ssh's arguments: wanted one of "
                                                         "them"),
    (["-H", "a@elsewhere:1,b@elsewhere:1"], "host elsewhere: wanted one user, got a and b"),
    (["-H", "no-such-user@localhost:1"], "no-such-user@localhost: this is kolorun's own host, where ranks run as "),
    (["-H", "@elsewhere:1"], "-H: wanted hosts as worker-0:2,worker-1:2, got '@elsewhere:1'"),
])
def test_wrong_use(options, wanted):
    job = run("-np", 1, *([] if "-H" in options else ["-H", "elsewhere:1"]), *options, "true")
    assert job.code == 2 and job.err.count(b"\n") == 1 and sentences(job.err)[0].startswith(wanted)


def test_a_key_with_a_blank_in_its_path(tmp_path):
    (tmp_path / "a key").touch()
    job = run("-np", 1, "-H", "elsewhere:1", "-i", tmp_path / "a key", "true")
    assert job.code == 2 and "wanted a path without blanks" in sentences(job.err)[0]


def test_ones_own_name_is_no_other_user():
    """root@localhost as root starts ranks here, without ssh."""
    assert run("-np", 1, "-H", f"{getpass.getuser()}@localhost:1", "true").code == 0
