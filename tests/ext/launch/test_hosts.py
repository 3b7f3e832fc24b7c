"""Ranks on another host (other_host.py), which a stand-in for ssh reaches. See launched.py first."""
import re
import subprocess

import pytest

from ext.launch.launched import Job, sentences
from ext.launch.other_host import HERE, THERE, as_root
from mpi_workshop import BUILD, compile_program
from source_code.test_n6 import write_table


@pytest.mark.long("a host is given up after 20 seconds")
def test_a_host_that_vanishes_is_named(other_host):
    _, near, agent = other_host
    job = Job("-np", 2, "-H", f"{HERE}:1,{THERE}:1", "--mpi-args", f"--mca plm_rsh_agent {agent}",
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
    job = Job("-np", 4, "-H", f"{HERE}:3,{THERE}:1", "--mpi-args", f"--mca plm_rsh_agent {agent}", program, "hosts")
    job.finish(timeout=90)
    assert job.code == 0, job.err


def higgs(agent, folder, *options, launch=()):
    table = write_table(folder / "table", rows=2300)
    return Job("-np", 4, "-H", f"{HERE}:2,{THERE}:2", "--mpi-args", f"--mca plm_rsh_agent {agent}", *launch, BUILD / "bin/higgs",
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
    job = higgs(agent, tmp_path, "--epochs", 60, launch=["--keep-going"])
    job.read_until(b"Epoch 2/", seconds=30)
    assert as_root("ip", "link", "set", near, "down").returncode == 0
    job.finish(timeout=240)
    # On a busy machine the others may have ended before the second rank of the host is given up.
    assert job.code == 137 and re.search(rb"[23] of 4 ranks go on \(--keep-going\)", job.err), job.err
    assert b"lost: its host does not answer any more" in job.err and b"F1 (weighted)" in job.out, job.err
    assert job.gone_within(60) is not None
