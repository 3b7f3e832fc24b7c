"""--rdma, --tcp, and what --check-build says of them. This machine need not have a card: UCX then runs in software, if it
is told so, and a folder in place of /sys/class plays the system that has one. See launched.py first."""
import os
import re
import subprocess

import pytest

from ext.launch.launched import KOLORUN, by_rank, run, sentences

SOFTWARE = "--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any --mca pml_base_verbose 10"


@pytest.fixture
def with_card(tmp_path):
    """Runs kolorun where /sys/class has these RDMA devices."""
    def call(devices, *arguments):
        folder = tmp_path / "class" / "infiniband"
        folder.mkdir(parents=True)
        for device in devices:
            (folder / device).mkdir()
        words = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /sys/class && exec "$@"', str(folder.parent), KOLORUN, *arguments]
        done = subprocess.run(words, capture_output=True)
        if b"unshare" in done.stderr or b"mount" in done.stderr:
            pytest.skip("NOT TESTED: a system with an RDMA device; a mount namespace needs root")
        return done
    return call


def rdma_of(out):
    return out.decode().split("RDMA between hosts (kolorun --rdma):\n")[1].splitlines()


def test_check_build_tells_ucx_from_verbs(with_card, tmp_path):
    assert rdma_of(with_card(["mlx5_0"], "--check-build").stdout) == ["    [X] UCX (mlx5_0)", "    [X] verbs (mlx5_0)"]
    (tmp_path / "ompi_info").write_text("#!/bin/sh\necho mca:btl:openib:version:component:4.1.4\n")
    (tmp_path / "ompi_info").chmod(0o755)
    ucx, verbs = rdma_of(run("--check-build", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}).out)
    assert ucx == "    [ ] UCX (this Open MPI was built without it)" and verbs.startswith("    [") and "built" not in verbs


def test_without_a_card_rdma_is_refused(with_card):
    done = with_card([], "-np", "2", "--rdma", "true")
    assert done.returncode == 1 and sentences(done.stderr) == [
        "--rdma: this host has no RDMA device (/sys/class/infiniband has none); kolorun --check-build tells what there is"]


def test_the_mpirun_lines(with_card):
    line = sentences(with_card(["mlx5_0"], "-np", "1", "--rdma=verbs", "--verbose", "true").stderr)[0]
    assert "--mca btl self,vader,openib --mca btl_openib_allow_ib 1 " in line and line.count("--mca btl ") == 1
    line = sentences(run("-np", 1, "--rdma", "--verbose", "--mpi-args", SOFTWARE, "true").err)[0]
    assert "--mca pml ucx " in line and "pml ob1" not in line
    line = sentences(run("-np", 1, "-H", "no-such-host.invalid:1", "--rdma=verbs", "--verbose", "true").err)[0]
    assert "--mca btl self,vader,openib " in line and "^openib" not in line
    assert "--mca btl_tcp_if_include lo " in sentences(run("-np", 1, "--tcp", "--verbose", "true").err)[0]


def test_ranks_talk_through_ucx(programs):
    job = run("-np", 2, "--rdma", "--mpi-args", SOFTWARE, programs / "misbehave", "well")
    assert job.code == 0 and b"rank 1 is through" in job.out
    assert len(re.findall(rb"select: component ucx selected|selected ucx", job.err)) >= 2, job.err[-3000:]


def test_ranks_talk_over_tcp(programs):
    job = run("-np", 2, "--tcp", "--mpi-args", "--mca btl_base_verbose 100", programs / "misbehave", "well")
    assert job.code == 0 and sorted(by_rank(job.out)) == [0, 1]
    assert b"btl: tcp: attempting to connect" in job.err and b"vader" not in job.err


@pytest.mark.parametrize("options, wanted", [
    (["--rdma=gdr"], "--rdma: wanted ucx or verbs, got 'gdr'"),
    (["--rdma", "verbs"], "--rdma: wanted --rdma=verbs, got a space"),
    (["--rdma", "--tcp"], "--rdma and --tcp: wanted one of them, got both"),
])
def test_wrong_use(options, wanted):
    job = run("-np", 2, *options, "true")
    assert job.code == 2 and sentences(job.err) == [wanted]
