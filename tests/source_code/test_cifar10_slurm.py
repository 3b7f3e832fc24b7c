"""The program of lesson 7, small and on one host; tests/ext/launch/test_slurm.py has it on the nodes of a cluster."""
import pytest
from source_code.cnn import BUILD, run, train, write_data
from source_code.test_wrong_use import refused

SLURM, CIFAR10 = BUILD / "bin" / "cifar10_slurm", BUILD / "bin" / "cifar10"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("pictures"), train=101, test=20, side=16)


def test_it_trains_the_network_of_cifar10(tmp_path, data):
    one, other = (train(tmp_path, data, "--deterministic", "--batch-size", 32, epochs=1, program=program) for program in (SLURM, CIFAR10))
    assert one.epochs == other.epochs and one.bytes == other.bytes


def test_ranks_give_what_one_device_gives(tmp_path, data):
    one = train(tmp_path, data, "--deterministic", "--batch-size", 32, epochs=1, program=SLURM)
    two = train(tmp_path, data, "--deterministic", "--batch-size", 16, epochs=1, ranks=2, program=SLURM)
    assert one.bytes == two.bytes and two.ranks == 2


def test_a_chief_sends_each_worker_its_share(tmp_path, data):
    shared = train(tmp_path, data, "--chief", "--augment", "--batch-size", 16, epochs=1, ranks=2, program=SLURM,
                   env={"KOLO_CPU_DEVICES": "1"})
    assert shared.ranks == 2


def test_self_test_without_slurm():
    job = run("--self-test", program=SLURM)
    assert job.code == 0 and "local rank 0 of 1, node 0 of 1; not in SLURM; chief, device cpu:0" in job.out


def test_wrong_use(data):
    refused(run("--data", data, "--epochs", 1, "--chief", "--strategy", "one_device", ranks=2, program=SLURM), 1,
            "wanted a strategy of workers")
    refused(run("--checkpoint", "/no/such/folder/x", program=SLURM), 1, "/no/such/folder/x")
    refused(run("--network", "eth0", program=SLURM), 2, "--network")
