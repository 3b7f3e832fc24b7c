"""A training that kolorun starts again goes on from its last backup. See launched.py first."""
import re

import pytest
from mpi_workshop import compile_program

from ext.launch.launched import run, sentences


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("launch/restart_program.c", tmp_path_factory.mktemp("restarts"))


def test_a_training_goes_on_from_its_backup(program, tmp_path):
    """30 batches in all. It is killed at the 17th one, so the second start has at most 15 to train."""
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir(), killed.mkdir()
    whole = run("-np", 2, program, straight, 0)
    job = run("-np", 2, "--restarts", 1, program, killed, 17)
    assert whole.code == job.code == 0, job.err
    assert sentences(job.err)[-1] == "restart 1 of 1 after rank 1 was killed by signal 9"
    batches, loss = re.search(rb"(\d+) batches, loss (\S+)", job.out).groups()
    assert re.search(rb"30 batches, loss (\S+)", whole.out)[1] == loss and 13 <= int(batches) <= 15


def test_an_epoch_begins_anew_with_fewer_ranks(program, tmp_path):
    """3 ranks have 4 steps an epoch, and the backup is of step 2 of epoch 2; 2 ranks have 6. The fault's rank is gone then."""
    hosts, backup = tmp_path / "hosts", tmp_path / "backup"
    hosts.write_text(f'#!/bin/sh\n[ -e {backup}/backup.safetensors ] && echo localhost:2 || echo localhost:3\n')
    hosts.chmod(0o755), backup.mkdir()
    job = run("-np", 3, "--min-np", 2, "--host-discovery-script", hosts, "--restarts", 1, "--fault", "rank=2,step=7,what=kill",
              program, backup, 0)
    assert job.code == 0 and b"24 batches, loss" in job.out, job.err
