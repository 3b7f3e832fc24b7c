"""The programs under programs/, compiled with mpicc."""
import subprocess

import pytest

from ext.launch.launched import HERE


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for source in (HERE / "programs").glob("*.c"):
        kind = ["-shared", "-fPIC"] if source.stem == "late" else []
        subprocess.run(["mpicc", "-O1", *kind, "-o", folder / source.stem, source], check=True)
    return folder
