"""The notebooks' quick forms as they run, on copies. A lesson's own claims are in lessons/."""
import re
import shutil
import struct
import sys

import nbformat
import pytest

from labs import execute
from labs.notebooks import LESSONS, ROOT, SOLUTIONS, START, Notebook, check_outputs, read


@pytest.fixture
def copy(tmp_path):
    """The notebooks and what they read, away from the checkout."""
    shutil.copy(ROOT / START, tmp_path)
    shutil.copytree(ROOT / "labs", tmp_path / "labs", ignore=shutil.ignore_patterns("run", ".ipynb_checkpoints"))
    (tmp_path / "source_code").symlink_to(ROOT / "source_code")
    return tmp_path


@pytest.fixture
def drawn(monkeypatch):
    monkeypatch.delenv("KOLO_DATA", raising=False)


def write_idx(folder, split, samples):
    """Images whose rows tell the class, so that a network learns them; MNIST's own file names."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = bytes(i % 10 for i in range(samples))
    images = b"".join(bytes(200 if row // 2 == label else i * 7 % 50 for row in range(28) for _ in range(28))
                      for i, label in enumerate(labels))
    (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, samples, 28, 28) + images)
    (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, samples) + labels)


@pytest.fixture
def files(monkeypatch, tmp_path):
    """As many digits as lesson 3's quick form takes: each of its programs would draw 60,000 of its own."""
    write_idx(tmp_path / "files/mnist", "train", 2048)
    write_idx(tmp_path / "files/mnist", "t10k", 500)
    monkeypatch.setenv("KOLO_DATA", str(tmp_path / "files"))


def run(copy, name):
    notebook = Notebook(execute.execute(copy / name, quick=True))
    check_outputs(notebook)
    assert "Quick form" in notebook.printed()
    return notebook.printed()


def test_start_here_on_drawn_digits(copy, drawn):
    text = run(copy, START)
    assert "drawn by Kolo" in text and re.search(r"\d+ of \d+ digits", text)


@pytest.mark.long("it runs Start_Here a second time")
def test_start_here_on_files(copy, files):
    text = run(copy, START)
    assert "train-images-idx3-ubyte" in text and "drawn by Kolo" not in text
    assert re.search(r"\d+ of 500 digits", text)


@pytest.mark.long("it runs the lessons' cells; the short part has those of Start_Here")
@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_ships_blank(copy, name, request):
    request.getfixturevalue("files" if "3.Hands-on" in name else "drawn")
    text = run(copy, name)
    for exercise in read(name).exercises():
        assert f"Exercise {exercise}: not yet." in text and f"Exercise {exercise}: passed." not in text


@pytest.mark.long("it runs the lessons' exercises, solved")
@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_solution_passes(copy, name, request):
    request.getfixturevalue("files" if "3.Hands-on" in name else "drawn")
    text = run(copy, name)
    for exercise in read(name.replace("solutions/", "")).exercises():
        assert f"Exercise {exercise}: passed." in text and f"Exercise {exercise}: not yet." not in text


def test_a_failing_cell_is_reported_and_nothing_replaced(tmp_path, capsys, monkeypatch):
    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("int x = nowhere;")]), path)
    before = path.read_bytes()
    monkeypatch.setattr(sys, "argv", ["execute.py", "--quick", "--in-place", str(path)])
    assert execute.main() == 1
    assert "nowhere" in capsys.readouterr().err and path.read_bytes() == before


def test_bars_are_saved_as_they_end():
    assert execute.redrawn("a 1/3\ra 2/3\ra 3/3\nb") == "a 3/3\nb"
    assert execute.redrawn("bar\r   \rline\r\nnext\r") == "line\nnext"


def test_outputs_fold_from_the_first_prediction_on():
    make = nbformat.v4
    notebook = make.new_notebook(cells=[make.new_code_cell("1"), make.new_markdown_cell("**Predict.** 2?"),
                                        make.new_code_cell("2"), make.new_markdown_cell("x"), make.new_code_cell("3")])
    execute.fold_answers(notebook)
    assert [cell.metadata.get("collapsed", False) for cell in notebook.cells] == [False, False, True, False, True]
    assert notebook.cells[2].metadata["jupyter"] == {"outputs_hidden": True}
