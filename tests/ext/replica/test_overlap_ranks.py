"""The gradient summed over ranks in buckets, beside the backward pass: the same bits as summed in one piece after it."""
import os
import shutil

import patience
import pytest
from mpi_workshop import BUILD, compile_program


pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not there: apt install openmpi-bin")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("replica/overlap_ranks.c", tmp_path_factory.mktemp("ranks"), "-lcmocka")


def run(program, ranks, threads, *arguments, **environment):
    result = patience.run([BUILD / "bin/kolorun", "-np", str(ranks), program, *arguments],
                          env=os.environ | {"KOLO_THREADS": str(threads), "KOLO_CPU_DEVICES": "4"} | environment, capture_output=True, text=True,
                          timeout=140)
    assert result.returncode == 0, result.stderr
    lines = [line.split(">:", 1)[-1] for line in result.stdout.splitlines() if line.strip()]
    assert len(lines) == ranks and len(set(lines)) == 1, result.stdout
    return lines[0]


def check(program, ranks, threads, first, end, **environment):
    """Every rank prints how many networks it has trained, and in how many buckets, and nothing else."""
    networks, buckets = run(program, ranks, threads, str(first), str(end), **environment).split(", ")
    assert networks == f"{end - first} networks" and int(buckets.split()[0]) > 2 * (end - first)


MORE = pytest.mark.long("the same with other numbers of ranks")
# With three threads and devices, microbatches of several replicas complete a bucket; four ranks have empty shards.
CASES = [pytest.param(2, 1, 0, 16, marks=MORE), (3, 3, 40, 48), pytest.param(4, 1, 60, 68, marks=MORE)]


@pytest.mark.parametrize("ranks, threads, first, end", CASES)
def test_overlap_changes_no_bit(program, ranks, threads, first, end):
    check(program, ranks, threads, first, end)


# Each replica has its own gradient here, a second stream that sums its buckets, and perhaps no samples.
@pytest.mark.parametrize("ranks, threads, first, end", CASES)
def test_second_streams_change_no_bit(program, ranks, threads, first, end):
    check(program, ranks, threads, first, end, KOLO_BACKEND="enqueued")


@pytest.mark.long("it trains hundreds of networks")
@pytest.mark.parametrize("ranks, threads, first, end", [(2, 1, 100, 300), (3, 2, 800, 900), (4, 1, 1000, 1050)])
def test_second_streams_change_no_bit_of_many_networks(program, ranks, threads, first, end):
    check(program, ranks, threads, first, end, KOLO_BACKEND="enqueued")


@pytest.mark.long("it trains a thousand networks")
@pytest.mark.parametrize("ranks, threads, first, end", [(2, 1, 100, 500), (2, 4, 500, 800), (3, 2, 800, 1000), (4, 1, 1000, 1100)])
def test_overlap_changes_no_bit_of_many_networks(program, ranks, threads, first, end):
    check(program, ranks, threads, first, end)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is too few for two ranks")
def test_ranks_that_outnumber_the_cores_sum_after_the_backward_pass(program):
    assert run(program, 2, 1, "default") == "3 buckets"
    assert run(program, 2, len(os.sched_getaffinity(0)), "default") == "0 buckets"
    assert run(program, 2, len(os.sched_getaffinity(0)), "default", KOLO_BACKEND="enqueued") != "0 buckets"
