#!/usr/bin/env python3
"""Executes notebooks and saves them with their outputs, as `make labs` and the tests do.

    execute.py [--quick] [--in-place | --output FOLDER] NOTEBOOK ...

A notebook runs in its own folder. A cell that fails ends the run: its message is printed, the exit code is 1, and a
notebook that was to be replaced is left as it was.
"""
import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parents[2]
FULL_LIMIT = 1200  # seconds for one cell; a test has a limit of its own


def redrawn(text):
    """What a terminal shows of a line after its carriage returns: a progress bar's last state."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)


def coalesce(outputs):
    """Neighbouring pieces of a stream become one, and bars their last state."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    for output in joined:
        if output.output_type == "stream":
            output.text = redrawn(output.text)
    return [o for o in joined if o.output_type != "stream" or o.text]


def use_build():
    """The kernel of the build, before any that is installed."""
    build = Path(os.environ.get("KOLO_BUILD", ROOT / "build")).resolve()
    found = [str(build / "share/jupyter"), os.environ.get("JUPYTER_PATH", "")]
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, found))


def say_cell(cell, cell_index):
    """What ran last when a test is ended."""
    print(f"cell {cell_index}: {cell.source.splitlines()[0] if cell.source else ''}", flush=True)


def fold_answers(notebook):
    """From the first prediction on, saved outputs open with a click: a learner predicts before looking. Running a cell
    shows its output."""
    predicted = False
    for cell in notebook.cells:
        predicted = predicted or "**Predict.**" in cell.source
        if cell.cell_type == "code" and predicted:
            cell.metadata.update(collapsed=True, jupyter={"outputs_hidden": True})


def execute(path, quick, kernel="kolo", folder=None):
    """The notebook at `path`, executed in `folder` (its own, if not given). What it passes is no progress of the user's."""
    with tempfile.TemporaryDirectory() as kept:
        environment = {name: value for name, value in os.environ.items() if name != "KOLO_LAB_QUICK"}
        environment["KOLO_PROGRESS"] = f"{kept}/progress.json"
        if quick:
            environment["KOLO_LAB_QUICK"] = "1"
        return execute_in(environment, path, quick, kernel, folder)


def execute_in(environment, path, quick, kernel, folder):
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, kernel_name=kernel, timeout=None if quick else FULL_LIMIT,
                            on_cell_start=say_cell if quick else None,
                            record_timing=False, resources={"metadata": {"path": str(folder or path.parent)}})
    client.execute(env=environment)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = coalesce(cell.outputs)
    fold_answers(notebook)
    return notebook


def save(notebook, target):
    """The old file or the new, never half of one."""
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        nbformat.write(notebook, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def why(error):
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return text if isinstance(error, CellExecutionError) else f"{type(error).__name__}: {text}"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="the short form, KOLO_LAB_QUICK=1")
    where = options.add_mutually_exclusive_group()
    where.add_argument("--in-place", action="store_true", help="replace the notebooks")
    where.add_argument("--output", type=Path, metavar="FOLDER", help="save the executed notebooks there")
    options.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    options = options.parse_args()
    use_build()
    failed = 0
    for path in options.notebooks:
        start = time.monotonic()
        try:
            notebook = execute(path, options.quick)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            print(f"{path}: failed after {time.monotonic() - start:.0f} s\n{why(error)}", file=sys.stderr)
            failed = 1
            continue
        if options.output:
            options.output.mkdir(parents=True, exist_ok=True)
        if options.in_place or options.output:
            save(notebook, options.output / path.name if options.output else path)
        print(f"{path}: {sum(c.cell_type == 'code' for c in notebook.cells)} cells, "
              f"{time.monotonic() - start:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
