"""Notebooks in C with parameters of papermill's, by kernel/papermill/."""
import json
import os
import shutil
import sys
import tomllib
from importlib.util import find_spec

import nbformat
import patience
import pytest
from kernel.driver import ROOT, make_kernelspec

pytestmark = pytest.mark.skipif(not find_spec("papermill"), reason="papermill is not in this Python: pip install papermill")

DECLARED = 'int epochs = 1; double rate = 0.5; const char *name = "none"; int *sizes = 0; double *rates = 0;'
SHOWN = '#include <stdio.h>\nprintf("%d %g %s %d %g\\n", epochs, rate, name, sizes ? sizes[1] : -1, rates ? rates[1] : -1);'


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The module is found as pip would install it."""
    folder = tmp_path_factory.mktemp("papermill")
    project = tomllib.loads((ROOT / "kernel/papermill/pyproject.toml").read_text())["project"]
    shutil.copy(ROOT / "kernel/papermill/papermill_kolo.py", folder)
    points = folder / f"papermill_kolo-{project['version']}.dist-info/entry_points.txt"
    points.parent.mkdir()
    points.write_text("".join(f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
                              for group, entries in project["entry-points"].items()))
    make_kernelspec(folder)
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": paths, "JUPYTER_PATH": str(folder)}


def run(environment, folder, *arguments):
    cells = [nbformat.v4.new_code_cell(DECLARED, metadata={"tags": ["parameters"]}), nbformat.v4.new_code_cell(SHOWN)]
    spec = {"name": "kolo", "display_name": "C (Kolo)", "language": "c"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec}), folder / "in.ipynb")
    done = patience.run([sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", *arguments], 100, cwd=folder,
                        env=environment, capture_output=True, text=True)
    cells = json.loads((folder / "out.ipynb").read_text())["cells"] if (folder / "out.ipynb").exists() else []
    return done, ["".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", [])]


def test_parameters_have_the_notebooks_types(environment, tmp_path):
    done, shown = run(environment, tmp_path, "-p", "epochs", "3", "-p", "rate", "1", "-r", "name", 'say "hi\\n" ü?',
                      "-y", "{sizes: [4, 5, 6], rates: [1, 2.5]}")
    assert done.returncode == 0, done.stderr
    assert shown == ['3 1 say "hi\\n" ü? 5 2.5\n']


def test_a_parameter_that_is_not_declared_is_named(environment, tmp_path):
    done, _ = run(environment, tmp_path, "-p", "epoch", "3")
    assert done.returncode != 0 and "use of undeclared identifier 'epoch'" in done.stderr and "did you mean 'epochs'" in done.stderr
