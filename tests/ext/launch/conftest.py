"""The programs under programs/, compiled with mpicc, and other hosts."""
import subprocess

import pytest

from ext.launch import other_host as hosts
from ext.launch.launched import HERE


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for source in (HERE / "programs").glob("*.c"):
        kind = ["-shared", "-fPIC"] if source.stem == "late" else []
        subprocess.run(["mpicc", "-O1", *kind, "-o", folder / source.stem, source], check=True)
    return folder


@pytest.fixture
def other_host(tmp_path):
    yield from hosts.other_host(tmp_path)


@pytest.fixture
def other_host_with_sshd(other_host):
    yield from hosts.with_sshd(other_host[0])
