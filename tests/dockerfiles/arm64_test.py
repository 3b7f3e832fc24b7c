"""Kolo for linux/arm64: a cross build, and what qemu's emulation bears of it: C tests, and cells."""
import json
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from workshop import ROOT, run

ARM64 = ROOT / "tests/dockerfiles/arm64.sh"
TOOLS = ["debootstrap", "qemu-aarch64-static", "aarch64-linux-gnu-g++"]
PROGRAMS = ["ext/core/error_test", "ext/backend/half_test", "ext/comm/channel_test", "kernel/cells/split_test"]
missing = [tool for tool in TOOLS if not shutil.which(tool)]
pytestmark = [
    pytest.mark.long("a Debian for arm64 is made, and emulated"), pytest.mark.timeout(10800),
    pytest.mark.skipif(os.environ.get("KOLO_SLOW") != "1", reason="KOLO_SLOW=1 builds for arm64, which takes an hour"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a Debian in a folder"),
    pytest.mark.skipif(bool(missing), reason=f"not here: {', '.join(missing)}"),
]


@pytest.fixture(scope="module")
def arm64(tmp_path_factory):
    """The folder of a Debian with Kolo built in it. KOLO_ARM64 names one that is there, and keeps it."""
    kept = os.environ.get("KOLO_ARM64")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("arm64") / "debian"
    built = [f"{folder}/kolo/build/tests/{name}" for name in PROGRAMS]
    for words in ["debian"], ["build", "build"], ["build", *built]:
        done = run([ARM64, folder, *words], limit=5400)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    yield folder
    if not kept:
        shutil.rmtree(folder)


def emulated(folder, *words):
    done = run([ARM64, folder, "run", *words], limit=1200)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_c_tests(arm64, name):
    assert "[  FAILED  ]" not in emulated(arm64, f"build/tests/{name}")


def test_a_program_starts(arm64):
    assert "Usage" in emulated(arm64, "build/bin/cnn_mnist", "--help")
    assert "aarch64" in emulated(arm64, "uname", "-m")


CELLS = [
    ("int twice(int x) { return 2 * x; }\ntwice(21)", "^42$"),
    ("int twice(int x) { return 3 * x; }\ntwice(21)", "^63$"),
    ("int (*pointer)(int) = twice; pointer(1)", "^3$"),
    ("int later(int); later(3)", r"later\(\) is declared, and nothing defines it"),
    ("int zero = 0; 1 / zero", r"Division by zero at In\[5\]:1"),
    ("__builtin_unreachable();", r"__builtin_unreachable\(\) was reached"),
    ("int *nowhere = 0; *nowhere = 1;", r"Segmentation fault at In\[7\]:1, address 0x0"),
    ("#include <string.h>\nstrlen((char *)nowhere)", r"Segmentation fault at In\[8\]:2"),
    ("#include <mpi.h>\nint size; MPI_Comm_size(MPI_COMM_WORLD, &size); size", "^1$"),
    ("#include <kolo.h>\nKOLO_VERSION", r"\d+\.\d+\.\d+"),
    ("!uname -m", "aarch64"),
]


def shown(cell):
    parts = [output.get("text") or output.get("evalue") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return parts[-1].strip() if parts else ""


def test_cells(arm64, tmp_path, monkeypatch):
    """The stubs through which cells call, MPI's among them; what ends a cell; and that the kernel goes on."""
    spec = json.loads((ROOT / "kernel/kernelspec/kernel.json").read_text())
    spec["argv"] = [str(ARM64), str(arm64), "kernel", "{connection_file}"]
    target = tmp_path / "kernels/kolo-arm64"
    target.mkdir(parents=True)
    (target / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code, _ in CELLS])
    NotebookClient(notebook, kernel_name="kolo-arm64", timeout=1200, startup_timeout=600, allow_errors=True).execute()
    for cell, (code, wanted) in zip(notebook.cells, CELLS):
        assert re.search(wanted, shown(cell)), (code, cell.outputs)
