"""kolorun and libkolo in jobs of a real SLURM with two nodes: see cluster.py and launched.py first."""
import json
import re

import patience
import pytest

from ext.launch.cluster import cluster
from ext.launch.launched import KOLORUN, TAGGED
from ext.launch.other_host import NETWORK, as_root
from mpi_workshop import BUILD

slurm = pytest.fixture(scope="module")(cluster)
TWO_BY_TWO = ["-N2", "--ntasks-per-node=2"]
RANKS = BUILD / "bin" / "p2p_bandwidth_latency"
CIFAR = BUILD / "bin" / "cifar10_slurm"
SMALL = "--data synthetic --epochs 1 --steps-per-epoch 2 --batch-size 8 --no-validation --seed 3"


def by_rank(text):
    matches = [TAGGED.match(line.encode()) for line in text.splitlines()]
    return {int(match[1]): match[3].decode() for match in matches if match}


def said(text):
    return [line[len("kolorun: "):] for line in text.splitlines() if line.startswith("kolorun: ")]


def test_ranks_of_an_allocation_meet(slurm, programs):
    """Through the network that joins the nodes, not through their bridges of equal address, in which they hung."""
    code, text = slurm.batch(f"{KOLORUN} --verbose {programs}/misbehave well", *TWO_BY_TWO)
    assert code == 0 and len(re.findall("rank . is through", text)) == 4, text
    assert f"--mca btl_tcp_if_include {NETWORK}.0/24" in said(text)[0] and "ssh" not in text


def test_tasks_are_laid_out_as_slurm_counts_them(slurm):
    code, text = slurm.batch(f"{KOLORUN} hostname", "-w", "dgx[01-02]", "-N2", "-n3", "-m", "block")
    assert code == 0 and by_rank(text) == {0: "dgx01", 1: "dgx01", 2: "dgx02"}, text
    code, text = slurm.batch(f"{KOLORUN} -np 2 -H dgx02:2 hostname", *TWO_BY_TWO)
    assert code == 0 and by_rank(text) == {0: "dgx02", 1: "dgx02"}, text


def test_more_ranks_than_tasks(slurm):
    code, text = slurm.batch(f"{KOLORUN} -np 5 true", *TWO_BY_TWO)
    assert code == 1 and text.count("\n") == 1
    assert said(text)[0].startswith("wanted 5 ranks, and the allocation has fewer slots")


def test_a_host_that_is_not_in_the_allocation(slurm):
    code, text = slurm.batch(f"{KOLORUN} -np 2 -H dgx07:2 true", *TWO_BY_TWO)
    assert code == 1 and said(text) == ["-H: wanted hosts of the allocation (dgx[01-02]) with room for 2 ranks"], text


def test_srun_starts_kolorun_several_times(slurm):
    code, text = slurm.batch(f"srun {KOLORUN} -np 2 true", *TWO_BY_TWO)
    assert code == 2 and said(text) == ["srun has started kolorun 4 times: wanted kolorun without srun, in sbatch or salloc, or srun -n1"]


def test_srun_without_pmix_gives_the_ranks_no_way_to_meet(slurm):
    code, text = slurm.batch(f"srun -l {RANKS}", *TWO_BY_TWO)
    sentences = [line for line in text.splitlines() if "gave them no way to meet: wanted srun --mpi=pmix, or kolorun without srun" in line]
    assert code == 1 and sorted(line[0] for line in sentences) == ["0", "1", "2", "3"], text  # one each, and nothing else
    assert all(line in sentences or line.startswith("srun: ") for line in text.splitlines())


def lines_of(self_test):
    return [line.split(": ", 1)[1] for line in self_test.splitlines() if ": local rank" in line]


def test_what_each_rank_of_srun_sees(slurm):
    """The recommended layout of keras_experiments: on each node a server, and workers. The nodes' bridges do no harm."""
    code, text = slurm.batch(f"srun --mpi=pmix {CIFAR} --self-test --strategy parameter_server", *TWO_BY_TWO)
    assert code == 0 and lines_of(text) == [
        f"local rank {rank % 2} of 2, node {rank // 2} of 2; SLURM's task {rank}, {rank % 2} on its node, of dgx[01-02]; "
        f"{'worker' if rank else 'chief'}{'' if rank % 2 else ' with a server'}, device cpu:0" for rank in range(4)], text


def test_what_each_rank_of_kolorun_sees(slurm):
    code, text = slurm.batch(f"{KOLORUN} {CIFAR} --self-test", "-N2", "-n2")
    assert code == 0 and lines_of(text) == [
        f"local rank 0 of 1, node {rank} of 2; Open MPI's, on SLURM's dgx[01-02]; {'worker' if rank else 'chief'}, device cpu:0"
        for rank in range(2)], text


@pytest.mark.parametrize("options", ["", pytest.param("--chief", marks=pytest.mark.long("the same with a chief"))])
def test_cifar10_trains_on_two_nodes(slurm, options):
    code, text = slurm.batch(f"srun --mpi=pmix {CIFAR} {SMALL} {options} --history {slurm.folder}/history.json", "-N2", "-n2")
    assert code == 0, text
    history = json.loads((slurm.folder / "history.json").read_text())
    assert history["ranks"] == 2 and history["epochs"][0]["loss"] > 0


def test_the_rest_of_a_job_ends_with_a_rank(slurm):
    code, text = slurm.batch(f"{KOLORUN} sh -c 'test $OMPI_COMM_WORLD_RANK = 3 && exit 7; sleep 600'", *TWO_BY_TWO)
    assert code == 7 and re.match(r"rank 3 \(dgx02, pid \d+\): exited with code 7", said(text)[0]), text


@pytest.mark.parametrize("scope", [["--full"], pytest.param([], marks=pytest.mark.long("the same for the steps alone"))])
def test_scancel_gives_the_ranks_time(slurm, programs, tmp_path, scope):
    """Each of them saves its state, on both nodes, which takes up to 3 s."""
    job = slurm.submit(f"exec {KOLORUN} {programs}/save 3 {tmp_path}", *TWO_BY_TWO)
    out = slurm.folder / "out"
    assert patience.until(lambda: out.read_text().count("is there") == 4, 60), out.read_text()
    assert slurm.run("scancel", *scope, job).returncode == 0
    assert patience.until(lambda: not slurm.ask("squeue", "-h", "-j", job), 60), slurm.ask("squeue")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"state.{rank}" for rank in range(4)], out.read_text()


@pytest.mark.long("a node is given up after 20 seconds; it is the last test, since the cluster has lost it")
def test_a_node_that_vanishes_is_named(slurm):
    near = f"02k{slurm.bridge[2:]}"
    script = f"{KOLORUN} sh -c 'echo there; sleep 600'"
    (slurm.folder / "cut").write_text(f"until test $(grep -c there {slurm.folder}/out) = 4; do sleep 0.1; done; ip link set {near} down")
    (slurm.folder / "out").write_text("")
    slurm.daemon("bash", slurm.folder / "cut")
    code, text = slurm.batch(script, *TWO_BY_TWO)
    assert code == 137 and re.search(r"rank [23] \(dgx02, pid \d+\): lost: its host does not answer any more", text), text
    assert as_root("ip", "link", "set", near, "up").returncode == 0
