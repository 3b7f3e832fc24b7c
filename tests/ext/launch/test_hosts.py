"""Ranks on another host: a network namespace with a name of its own, one cable away. See launched.py first."""
import os
import shutil
import subprocess

import pytest

from ext.launch.launched import Job, sentences
from mpi_workshop import BUILD, compile_program
from source_code.test_n6 import write_table


def as_root(*words):
    return subprocess.run(words, capture_output=True, text=True)


@pytest.fixture
def other_host(tmp_path):
    """Its name, the near end of the cable, and a stand-in for ssh."""
    name, near, far = f"kolorun{os.getpid()}", f"kn{os.getpid()}", f"kf{os.getpid()}"
    if os.geteuid() or not shutil.which("ip") or as_root("ip", "netns", "add", name).returncode:
        pytest.skip("network namespaces need root, and ip")
    inside = ("ip", "netns", "exec", name)
    if as_root(*inside, "true").returncode:  # as in a chroot
        as_root("ip", "netns", "delete", name)
        pytest.skip("NOT TESTED: two hosts; a network namespace cannot be entered here")
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nshift\n"
                     f"exec ip netns exec {name} unshare -u bash -c 'hostname elsewhere; eval \"$*\"' x \"$@\"\n")
    agent.chmod(0o755)
    for command in (("ip", "link", "add", near, "type", "veth", "peer", "name", far),
                    ("ip", "link", "set", far, "netns", name),
                    ("ip", "addr", "add", "10.99.8.1/24", "dev", near), ("ip", "link", "set", near, "up"),
                    (*inside, "ip", "addr", "add", "10.99.8.2/24", "dev", far), (*inside, "ip", "link", "set", far, "up"),
                    (*inside, "ip", "link", "set", "lo", "up"), *bridge_of_equal_address(near), *bridge_of_equal_address(far, inside)):
        done = as_root(*command)
        assert done.returncode == 0, done.stderr
    yield name, near, str(agent)
    for interface in near, f"{near}b":
        as_root("ip", "link", "delete", interface)
    as_root("ip", "netns", "delete", name)


def bridge_of_equal_address(name, inside=()):
    """Each host has one, as it has Docker's, and it leads to no other host."""
    bridge = f"{name}b"
    return ((*inside, "ip", "link", "add", bridge, "type", "bridge"), (*inside, "ip", "addr", "add", "10.99.7.1/24", "dev", bridge),
            (*inside, "ip", "link", "set", bridge, "up"))


@pytest.mark.long("a host is given up after 20 seconds")
def test_a_host_that_vanishes_is_named(other_host):
    _, near, agent = other_host
    job = Job("-np", 2, "-H", "10.99.8.1:1,10.99.8.2:1", "--mpi-args", f"--mca plm_rsh_agent {agent}",
              "sh", "-c", "echo there; sleep 600000")
    job.read_until(b"<stdout>:there", times=2, seconds=20)
    assert as_root("ip", "link", "set", near, "down").returncode == 0
    job.finish(timeout=60)
    assert job.code == 137 and any(line.startswith("rank 1 (elsewhere, pid ") and "does not answer any more" in line
                                   for line in sentences(job.err)), job.err
    assert job.gone_within(60) is not None  # the ranks there end, too, without kolorun


@pytest.mark.parametrize("hierarchical", [1, pytest.param(0, marks=pytest.mark.long("the same without"))])
def test_ranks_reduce_host_by_host(other_host, tmp_path, monkeypatch, hierarchical):
    """Three ranks here, one there: the program knows by the order of additions who added first."""
    _, _, agent = other_host
    program = compile_program("comm/mpi_ranks.c", tmp_path)
    monkeypatch.setenv("KOLO_HIERARCHICAL_ALLREDUCE", str(hierarchical))
    job = Job("-np", 4, "-H", "10.99.8.1:3,10.99.8.2:1", "--mpi-args", f"--mca plm_rsh_agent {agent}", program, "hosts")
    job.finish(timeout=90)
    assert job.code == 0, job.err


def higgs(agent, folder, *options, launch=()):
    table = write_table(folder / "table", rows=2300)
    return Job("-np", 4, "-H", "10.99.8.1:2,10.99.8.2:2", "--mpi-args", f"--mca plm_rsh_agent {agent}", *launch, BUILD / "bin/higgs",
               "--data", table, "--seed", 3, "--steps-per-epoch", 23, "--strategy", "downpour", *options)


def test_workers_on_two_hosts_are_threads_in_turn(other_host, tmp_path):
    _, _, agent = other_host
    threads, ranks = tmp_path / "threads.safetensors", tmp_path / "ranks.safetensors"
    job = higgs(agent, tmp_path, "--deterministic", "--epochs", 2, "--save", ranks)
    job.finish(timeout=90)
    assert job.code == 0, job.err
    subprocess.run([BUILD / "bin/higgs", "--data", tmp_path / "table", "--seed", "3", "--steps-per-epoch", "23", "--strategy", "downpour",
                    "--deterministic", "--epochs", "2", "--workers", "4", "--save", threads], check=True, capture_output=True)
    assert threads.read_bytes() == ranks.read_bytes()


@pytest.mark.long("a host is given up after 20 seconds")
def test_workers_go_on_without_a_host_that_vanishes(other_host, tmp_path):
    _, near, agent = other_host
    job = higgs(agent, tmp_path, "--epochs", 300, launch=["--keep-going"])
    job.read_until(b"Epoch 2/", seconds=30)
    assert as_root("ip", "link", "set", near, "down").returncode == 0
    job.finish(timeout=240)
    assert job.code == 137 and b"2 of 4 ranks go on (--keep-going)" in job.err and b"F1 (weighted)" in job.out, job.err
    assert job.gone_within(60) is not None
