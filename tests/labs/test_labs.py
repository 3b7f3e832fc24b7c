"""The notebooks as they are saved: their form, their pictures, their outputs."""
import re
import statistics
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from labs.notebooks import ALL, LESSONS, ROOT, SOLUTIONS, START, check_outputs, joined, number, read

# Folders that only the machine of the one who saved has.
MACHINE = re.compile(r"/(?:home|root|work|tmp|Users|mnt|media|var|srv)/|" + re.escape(str(ROOT)))
FIGURES = ROOT / "labs/figures"
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
FOLDED = re.compile(r"<details><summary><b>Explain\.</b> Open when you have run the cell</summary>\n\n.*\n</details>", re.DOTALL)
PARTS = ["**Goal.**", "**Minutes.**", "**Hardware.**", "**Before.**"]


def test_every_lesson_has_its_solution():
    assert [Path(name).name for name in LESSONS] == [Path(name).name for name in SOLUTIONS]


@pytest.mark.parametrize("name", ALL)
def test_metadata(name):
    metadata = read(name).metadata
    assert metadata["kernelspec"] == {"name": "kolo", "display_name": "C (Kolo)", "language": "c"}
    assert metadata["language_info"]["name"].lower() == "c" and metadata["language_info"]["file_extension"] == ".c"


def test_nbformat_takes_them():
    nbformat = pytest.importorskip("nbformat")
    for name in ALL:
        nbformat.validate(nbformat.read(ROOT / name, as_version=4))


@pytest.mark.parametrize("name", ALL)
def test_cells_and_prose_are_short(name):
    notebook = read(name)
    lengths = [len(cell.source.splitlines()) for cell in notebook.code]
    assert name in SOLUTIONS or statistics.median(lengths) <= 10, lengths
    for cell in notebook.code:
        assert len(cell.source.splitlines()) <= 15, cell.source
        assert max(map(len, cell.source.splitlines())) <= 100, cell.source
    for cell in notebook.prose:
        text = re.sub(r"^(\||#).*$|<summary>.*</summary>|</?\w+>", "", PICTURE.sub("", cell.source), flags=re.MULTILINE)
        assert len(text.split()) <= 80, (len(text.split()), cell.source)


@pytest.mark.parametrize("name", ALL)
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)\s]+)\)", read(name).text)
    assert links
    for link in links:
        if not re.match(r"https?:", link):
            assert ((ROOT / name).parent / link.split("#")[0]).exists(), link


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_its_parts(name):
    notebook = read(name)
    first = notebook.cells[0].source
    assert "Start_Here.ipynb" in first and f"# {number(name)}. " in first
    assert [part for part in PARTS if part not in first] == []
    assert re.search(r'^#include "course/course\.h"|^#include "course/lesson_', notebook.code[0].source, flags=re.MULTILINE)
    assert "## Summary" in notebook.text and "](https://" in notebook.text, "a paper is linked"


@pytest.mark.parametrize("name", [START, *LESSONS])
def test_its_headers_compile_without_a_warning(name, tmp_path):
    """Those that its cells include, in their order; the kernel itself shows no warnings about them."""
    source = "\n".join(cell.source for cell in read(name).code)
    includes = "\n".join(re.findall(r'^#include "(?:labs/)?course/.*', source, flags=re.MULTILINE))
    (tmp_path / "all.c").write_text(includes + "\n")
    mpi = subprocess.run(["mpicc", "--showme:compile"], capture_output=True, text=True, check=True).stdout.split()
    done = subprocess.run(["cc", "-std=gnu17", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror",
                           "-Wno-unused-function", "-Wno-format-zero-length", "-fsyntax-only", f"-I{(ROOT / name).parent}",
                           f"-I{ROOT}/ext/include", *mpi, tmp_path / "all.c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for header in (ROOT / "labs/course").glob("*.h"):
        assert len(header.read_text().splitlines()) <= 400, f"{header.name} is long"


@pytest.mark.parametrize("name", LESSONS)
def test_predictions_are_typed_and_answers_fold(name):
    notebook = read(name)
    assert notebook.text.count("**Predict.**") >= 3 and "**Explain.**" not in notebook.text
    typed = [cell for cell in notebook.code if re.search(r"\bguess\w*(?:\[\d*\])? *=", cell.source)]
    assert len(typed) >= 3, "double guess = …;"
    folded = [cell for cell in notebook.prose if "<details>" in cell.source]
    assert len(folded) >= 3
    for cell in folded:
        assert "Explain." not in cell.source or FOLDED.fullmatch(cell.source.strip()), cell.source


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_exercises_and_a_quiz(name):
    notebook, lesson = read(name), number(name)
    exercises = notebook.exercises()
    assert len(exercises) >= 2 and "Exercise" in notebook.text
    assert all(re.fullmatch(re.escape(lesson) + r"\.[a-z]", exercise) for exercise in exercises), exercises
    known = re.search(rf'{{"{re.escape(lesson)}", "[^"]+", "(\w+)"}}', (ROOT / "labs/course/progress.h").read_text())
    assert exercises == [f"{lesson}.{letter}" for letter in known[1]], "the table of labs/course/progress.h"
    code = "\n".join(cell.source for cell in notebook.code)
    assert f'course_quiz("{lesson}"' in code and f'course_answers("{lesson}", "-----")' in code


@pytest.mark.parametrize("name", ALL)
def test_a_folded_output_shows_words(name):
    """JupyterLab shows the first line of its first part that is not empty. Of a picture that line has blanks only."""
    for cell in read(name).code:
        data = cell.outputs[0].get("data", {}) if cell.outputs else {}
        for mime in ("text/html", "image/svg+xml"):
            shown = next((line for line in joined(data.get(mime, "")).split("\n") if line), "")
            assert not shown.strip().startswith("<"), cell.source


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_solution_says_what_it_takes(name):
    text = read(name).text
    assert [part for part in ("Start_Here.ipynb", "**Minutes.**", "**Hardware.**") if part not in text] == []


@pytest.mark.parametrize("name", ALL)
def test_pictures_exist_and_say_what_they_show(name):
    for cell in read(name).prose:
        for alt, file in PICTURE.findall(cell.source):
            assert len(alt.split()) >= 4, f"{file} wants a description: {alt!r}"
            assert file.endswith(".svg") and ((ROOT / name).parent / file).exists(), file


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*")), ids=lambda path: path.name)
def test_a_figure_is_drawn_and_used(path):
    root = xml.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("viewBox"), "an SVG that scales"
    assert not root.findall(".//{*}image") and not root.findall(".//{*}script"), "drawn, not pasted"
    assert any(f"figures/{path.name})" in read(name).text for name in ALL), "no notebook shows it"


def folds(notebook):
    """The code cells from the first prediction on."""
    first = next((i for i, cell in enumerate(notebook.cells) if "**Predict.**" in cell.source), len(notebook.cells))
    return [cell for cell in notebook.cells[first:] if cell.type == "code"]


@pytest.mark.parametrize("name", ALL)
def test_saved_outputs(name):
    notebook = read(name)
    counts = [cell.count for cell in notebook.code]
    assert counts == list(range(1, len(counts) + 1)), "not saved from one run, from top to bottom"
    check_outputs(notebook)
    assert "Quick form" not in notebook.printed()
    everything = "\n".join(str(cell.outputs) for cell in notebook.code)
    assert not MACHINE.search(everything), MACHINE.search(everything)
    assert "\r" not in notebook.printed() and "\b" not in notebook.printed()
    for cell in folds(notebook):
        assert cell.metadata["collapsed"] and cell.metadata["jupyter"]["outputs_hidden"], "make labs folds it"


@pytest.mark.parametrize("name", LESSONS)
def test_exercises_are_saved_blank_and_solutions_pass(name):
    """Of a lesson with outputs: its checks say "not yet", its solution's "passed"."""
    lesson, solution = read(name).printed(), read(f"labs/solutions/{Path(name).name}").printed()
    for exercise in read(name).exercises():
        assert f"Exercise {exercise}: not yet." in lesson and f"Exercise {exercise}: passed." not in lesson
        assert f"Exercise {exercise}: passed." in solution and f"Exercise {exercise}: not yet." not in solution


@pytest.mark.parametrize("name", LESSONS)
def test_start_here_leads_to_every_lesson(name):
    row = re.search(rf"^\| ({re.escape(number(name))}) \| \[.*\]\({re.escape(name)}\) \|.*\| (\d+) \|$", read(START).text, re.MULTILINE)
    assert row, "no row in the table of lessons"
    minutes = re.search(r"\*\*Minutes\.\*\* (\d+)", read(name).cells[0].source)
    assert row[2] == minutes[1], "the minutes in Start_Here's table and in the lesson"


def test_start_here_is_saved_with_mnist():
    assert "train-images-idx3-ubyte" in read(START).printed()
