"""What the tests of ranks under Open MPI's own mpirun share."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import patience
import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
FLAGS = ["-std=gnu17", "-g", "-O2", "-fPIC", "-pthread", f"-I{ROOT}/ext/include", f"-I{ROOT}/ext"]
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun is not there, so NOTHING of ext/comm/mpi*.c was tested: apt install openmpi-bin"
)


def compile_program(source, folder, *flags, library=BUILD / "lib", compiler="gcc"):
    """Compiles a program of tests/ext, such as comm/mpi_ranks.c, into the folder, and returns its path."""
    target = folder / Path(source).stem
    subprocess.run(
        [compiler, *FLAGS, *WARNINGS, ROOT / "tests/ext" / source, "-o", target, f"-L{library}", "-lkolo", *flags, "-lm",
         f"-Wl,-rpath,{library}"],
        check=True,
    )  # fmt: skip
    return target


def make_small_pieces(library, piece=4000):
    """A plugin that moves at most so many bytes a call, as the real one moves at most 2^30, and shares no memory."""
    shutil.copy(BUILD / "lib/libkolo.so", library)
    subprocess.run(
        ["mpicc", *FLAGS, f"-DKOLO_MPI_PIECE={piece}", "-DKOLO_MPI_SHARED=false", "-shared", *sorted((ROOT / "ext/comm").glob("mpi*.c")),
         "-o", library / "libkolo_mpi.so", f"-L{library}", "-lkolo", "-Wl,-rpath,$ORIGIN"],
        check=True,
    )  # fmt: skip
    return library


def mpirun(ranks, *command, threads=1, limit=60, stall_limit=None):
    """threads is a rank's share of cores, as kolorun sets it. More than there are cores make the host crowded: then
    ranks share memory, or (in small pieces) use MPI's nonblocking operations, and sleep while they wait."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PRTE_"))}
    environment |= {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "KOLO_THREADS": str(threads)}
    environment |= {} if stall_limit is None else {"KOLO_STALL_LIMIT": str(stall_limit)}
    start = patience.now()
    # mpirun removes the folder of all jobs when it ends, perhaps between another's two mkdir: each has a folder of its own
    with tempfile.TemporaryDirectory(prefix="mpirun") as folder:
        result = patience.run(
            ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-H", f"localhost:{ranks}", "-np", str(ranks), *command],
            env=environment | {"OMPI_MCA_orte_tmpdir_base": folder}, capture_output=True, text=True, timeout=limit,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    result.seconds = patience.now() - start
    return result
